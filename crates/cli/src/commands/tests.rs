// SPDX-License-Identifier: LGPL-3.0-only
//! Tests that concern several commands.

mod schemas;
