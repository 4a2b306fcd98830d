// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of the plugin in the embedded job manager.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test binary"
)]

mod abi;
mod built;
mod demo;
mod embedded;
mod fuzz;
