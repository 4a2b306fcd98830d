// SPDX-License-Identifier: LGPL-3.0-only
//! What the benchmarks share.

pub mod processor;
pub mod random;
pub mod records;
