// SPDX-License-Identifier: LGPL-3.0-only
//! The expiration time of a job, in a form that can be sorted.

use super::Job;

/// The expiration time of a job. An unknown expiration time comes after all known times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::limits) struct LatestEnd(u64);

impl LatestEnd {
    const UNKNOWN: LatestEnd = LatestEnd(u64::MAX);

    pub fn for_job(job: &Job) -> LatestEnd {
        // The bits of non-negative numbers have the same order as the numbers.
        job.latest_end().filter(|end| *end >= 0.0).map_or(LatestEnd::UNKNOWN, |end| LatestEnd(end.to_bits()))
    }

    /// Returns the time in seconds since the epoch, if it is known.
    pub fn time(self) -> Option<f64> {
        (self != LatestEnd::UNKNOWN).then(|| f64::from_bits(self.0))
    }
}
