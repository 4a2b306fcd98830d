// SPDX-License-Identifier: LGPL-3.0-only
//! What tests of several commands share.

pub(super) mod golden;
