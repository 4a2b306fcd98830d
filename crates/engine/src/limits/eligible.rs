// SPDX-License-Identifier: LGPL-3.0-only
//! The time for which a job has been eligible, from which its age follows.
//!
//! The rule is Slurm's. Time counts from the submission, except while the urgency of the job is 0 and while another plugin blocks the job in
//! DEPEND, for example until another job ends or until a begin time. Time counts while limits of this plugin hold the job.

/// The eligible seconds of a job as a function of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Eligible {
    /// The job is eligible now. The eligible time is the current time minus the stored time.
    Since(f64),
    /// The job is not eligible now. It has been eligible for this number of seconds.
    For(f64),
}

impl Eligible {
    /// Returns the eligible time after the job becomes eligible, or stops being eligible, at the time `now`.
    #[must_use]
    pub fn with_eligibility(self, is_eligible: bool, now: f64) -> Eligible {
        match (self, is_eligible) {
            (Eligible::For(seconds), true) => Eligible::Since(now - seconds),
            (Eligible::Since(since), false) => Eligible::For((now - since).max(0.0)),
            (unchanged, _) => unchanged,
        }
    }

    /// Returns the eligible seconds until `now`, or 0 if the clock was set back.
    pub fn seconds(self, now: f64) -> f64 {
        match self {
            Eligible::Since(since) => (now - since).max(0.0),
            Eligible::For(seconds) => seconds,
        }
    }

    /// Returns the time from which the eligible time is measured, or `None` if the job is not eligible now.
    pub fn since(self) -> Option<f64> {
        match self {
            Eligible::Since(since) => Some(since),
            Eligible::For(_) => None,
        }
    }
}
