// SPDX-License-Identifier: LGPL-3.0-only
//! The priority of a job: the sum of factors times weights. The plugin stores the values of the factors, so that
//! answers can show the terms of each posted priority.
//!
//! `factor` is the table of factors. `explanation` computes the terms of a job, their sum, and the priority that the
//! plugin posts. `age` defines how jobs age without a change of their priorities. `pending` stores the posted and the
//! current priority of all pending jobs, and `order` decides which priorities to post.

mod age;
mod explanation;
mod factor;
pub mod order;
mod pending;
#[cfg(test)]
mod tests;

pub use age::{Ages, age_weight_for_wait};
pub use explanation::{Explanation, Outcome, PriorityBounds, Score, Term, score};
pub use factor::{
    AGE, AGE_OFFSET, FACTORS, FAIRSHARE, Factor, Factors, MAX_FACTORS, NO_RANGE, SIZE, Subject,
    WeightedFactors,
};
pub use pending::{Pending, PendingJob};

/// The urgency that holds a job (RFC 30).
pub const URGENCY_HOLD: i64 = 0;
/// The urgency that puts a job ahead of all others (RFC 30).
pub const URGENCY_EXPEDITE: i64 = 31;
/// The default urgency (RFC 30).
pub const URGENCY_DEFAULT: i64 = 16;
/// The priority of an expedited job. Other jobs never get it.
pub const PRIORITY_MAX: u32 = u32::MAX;
/// The largest priority of a job that is not expedited.
pub const PRIORITY_LIMIT: u32 = PRIORITY_MAX - 1;
