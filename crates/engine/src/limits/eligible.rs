// SPDX-License-Identifier: LGPL-3.0-only
//! The time for which a job has been eligible, from which its age follows.
//!
//! The rule is Slurm's: time counts from the submission, except while the user or the operator holds the job (urgency 0), and except while
//! another plugin keeps the job in DEPEND, for example until another job ends or until a begin time. Time counts while our own limits hold
//! the job.

/// The eligible seconds of a job as a function of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Eligible {
    /// The job is eligible: all time since this instant counts. Earlier eligible times are subtracted from the instant.
    Since(f64),
    /// The job is not eligible: this number of seconds has counted.
    For(f64),
}

impl Eligible {
    /// Sets whether the job is eligible from `now` on.
    #[must_use]
    pub fn turned(self, on: bool, now: f64) -> Eligible {
        match (self, on) {
            (Eligible::For(seconds), true) => Eligible::Since(now - seconds),
            (Eligible::Since(since), false) => Eligible::For((now - since).max(0.0)),
            (same, _) => same,
        }
    }

    /// Returns the eligible seconds until `now`, or 0 if the clock was set back.
    pub fn seconds(self, now: f64) -> f64 {
        match self {
            Eligible::Since(since) => (now - since).max(0.0),
            Eligible::For(seconds) => seconds,
        }
    }

    /// Returns the instant since which all time counts, if the job is eligible.
    pub fn since(self) -> Option<f64> {
        match self {
            Eligible::Since(since) => Some(since),
            Eligible::For(_) => None,
        }
    }
}
