// SPDX-License-Identifier: LGPL-3.0-only
//! The one Rust integration-test binary: the C side of the embedded job manager is linked into each such binary.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test binary"
)]

mod abi;
mod cli;
mod demo;
mod embedded;
mod fuzz;
mod golden;
mod install;
mod live;
