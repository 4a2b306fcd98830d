// SPDX-License-Identifier: LGPL-3.0-only
//! The one Rust integration-test binary: the C side of the embedded job manager is linked into each such binary.

mod cli;
mod demo;
mod embedded;
mod golden;
