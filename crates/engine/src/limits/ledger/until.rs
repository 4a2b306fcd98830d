// SPDX-License-Identifier: LGPL-3.0-only
//! Ends of jobs as values that can be sorted.

use super::Job;

/// The time when a job ends at the latest. An unknown time comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::limits) struct Until(u64);

impl Until {
    const NOBODY_KNOWS: Until = Until(u64::MAX);

    pub fn for_job(job: &Job) -> Until {
        // Times are positive: their bits stand in their order.
        job.ends_by().filter(|end| *end >= 0.0).map_or(Until::NOBODY_KNOWS, |end| Until(end.to_bits()))
    }

    /// Returns the time in seconds since the epoch, if it is known.
    pub fn time(self) -> Option<f64> {
        (self != Until::NOBODY_KNOWS).then(|| f64::from_bits(self.0))
    }
}
