// SPDX-License-Identifier: LGPL-3.0-only
//! Helpers of the benchmarks: records, random numbers, and processor time.

pub mod processor;
pub mod random;
pub mod records;
