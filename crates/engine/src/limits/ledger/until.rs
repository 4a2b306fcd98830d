// SPDX-License-Identifier: LGPL-3.0-only
//! When jobs end at the latest, as something that sorts.

use super::Job;

/// When a job ends at the latest, in the order of time; one of which nobody can say comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::limits) struct Until(u64);

impl Until {
    const NOBODY_KNOWS: Until = Until(u64::MAX);

    pub fn of(job: &Job) -> Until {
        // Times are positive: their bits stand in their order.
        job.ends_by().filter(|end| *end >= 0.0).map_or(Until::NOBODY_KNOWS, |end| Until(end.to_bits()))
    }

    /// The time, if anybody can say.
    pub fn time(self) -> Option<f64> {
        (self != Until::NOBODY_KNOWS).then(|| f64::from_bits(self.0))
    }
}
