// SPDX-License-Identifier: LGPL-3.0-only
//! The one Rust integration-test binary.

mod cli;
mod golden;
