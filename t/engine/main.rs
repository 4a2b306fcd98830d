// SPDX-License-Identifier: LGPL-3.0-only
//! Compares the ranking policies and the engine with tables that real programs printed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test binary"
)]

mod golden;
mod live;
