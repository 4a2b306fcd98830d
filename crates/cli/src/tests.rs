// SPDX-License-Identifier: LGPL-3.0-only
//! Helpers that the tests of several commands share.

pub(super) mod golden;
mod grammar;
