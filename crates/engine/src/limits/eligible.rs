// SPDX-License-Identifier: LGPL-3.0-only
//! How long a job could have been scheduled, but for limits and its price.
//!
//! The rule is Slurm's: time counts from the submission; not while its user or the operator holds the job (urgency 0), and not
//! while it waits for something else than its turn (dependencies of other plugins, such as another job's end or a time to begin).
//! What our own limits hold back goes on ageing. A job that is held later keeps the age it has.

/// Seconds that count, as a rule for any instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Eligible {
    /// It is eligible: the instant from which all time counts. Earlier times that counted moved it back.
    Since(f64),
    /// It is not: so many seconds counted before.
    For(f64),
}

impl Eligible {
    /// From an instant on, whether it is eligible.
    #[must_use]
    pub fn turned(self, on: bool, now: f64) -> Eligible {
        match (self, on) {
            (Eligible::For(seconds), true) => Eligible::Since(now - seconds),
            (Eligible::Since(since), false) => Eligible::For((now - since).max(0.0)),
            (same, _) => same,
        }
    }

    /// Seconds that counted until then; none where the clock was set back.
    pub fn seconds(self, now: f64) -> f64 {
        match self {
            Eligible::Since(since) => (now - since).max(0.0),
            Eligible::For(seconds) => seconds,
        }
    }

    /// The instant from which all time counts, if it is eligible.
    pub fn since(self) -> Option<f64> {
        match self {
            Eligible::Since(since) => Some(since),
            Eligible::For(_) => None,
        }
    }
}
