// SPDX-License-Identifier: LGPL-3.0-only
//! What a job's priority is made of: factors times weights, kept as values, so that they can be shown.
//!
//! `factor` is the table of factors; `explanation` is what they make of one job: terms, sum, rounding, and the number
//! that Flux gets; `age` says how jobs grow older without a change of their prices; `pending`
//! knows all jobs that have a price, and `order` for which of them to post a new one.

mod age;
mod explanation;
mod factor;
pub mod order;
mod pending;
#[cfg(test)]
mod tests;

pub use age::{Ages, promised_weight};
pub use explanation::{Explanation, Outcome, Score, Term, score};
pub use factor::{
    AGE, AGE_OFFSET, FACTORS, FAIRSHARE, Factor, Factors, MAX_FACTORS, NO_RANGE, SIZE, Subject, Weighed,
};
pub use pending::{Pending, Priced};

/// Urgency that holds a job (RFC 30).
pub const URGENCY_HOLD: i64 = 0;
/// Urgency that puts a job ahead of all (RFC 30).
pub const URGENCY_EXPEDITE: i64 = 31;
/// Urgency of a job that asked for none (RFC 30).
pub const URGENCY_DEFAULT: i64 = 16;
/// Priority of an expedited job; no other job gets it.
pub const PRIORITY_MAX: u32 = u32::MAX;
