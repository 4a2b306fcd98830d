// SPDX-License-Identifier: LGPL-3.0-only
//! Factors times weights give a priority; the terms are kept as values, so that they can be shown.
#![forbid(unsafe_code)]

use crate::accounts::{Association, Book, ZeroScore};

/// Urgency that holds a job (RFC 30).
pub const URGENCY_HOLD: i64 = 0;
/// Urgency that puts a job ahead of all (RFC 30).
pub const URGENCY_EXPEDITE: i64 = 31;
/// Urgency of a job that asked for none (RFC 30).
pub const URGENCY_DEFAULT: i64 = 16;
/// Priority of an expedited job; no other job gets it.
pub const PRIORITY_MAX: u32 = u32::MAX;

/// One weighted factor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Term {
    /// The site's weight.
    pub weight: i64,
    /// The job's value.
    pub factor: f64,
}

impl Term {
    /// What the term adds to the score.
    pub fn value(self) -> f64 {
        self.weight as f64 * self.factor
    }
}

/// The terms that make a job's score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// Fair-share of the association.
    pub fairshare: Term,
    /// Priority of the job's own queue; 0 without a known queue.
    pub queue: Term,
    /// Priority of the job's own bank; 0 where the bank has none.
    pub bank: Term,
    /// Urgency above the default.
    pub urgency: Term,
}

impl Terms {
    /// The terms of a job of `association`, of this fair-share, in `queue` with `urgency`, at this moment.
    pub fn of(
        book: &Book,
        association: &Association,
        fairshare: f64,
        queue: Option<&str>,
        urgency: i64,
    ) -> Self {
        let weights = book.weights();
        let queue_priority = queue.and_then(|q| book.queue(q)).map_or(0, |q| q.priority);
        let bank_priority = book.bank_priority(association.bank.as_str()).unwrap_or(0.0);
        Terms {
            fairshare: Term { weight: weights.fairshare, factor: fairshare },
            queue: Term { weight: weights.queue, factor: queue_priority as f64 },
            bank: Term { weight: weights.bank, factor: bank_priority },
            urgency: Term { weight: weights.urgency, factor: urgency.saturating_sub(URGENCY_DEFAULT) as f64 },
        }
    }

    /// Their sum. Never NaN: opposite infinities of absurd weights count as 0.
    pub fn score(&self) -> f64 {
        let sum = self.fairshare.value() + self.queue.value() + self.bank.value() + self.urgency.value();
        if sum.is_nan() { 0.0 } else { sum }
    }

    /// The score as Flux takes it: rounded half away from zero; 0 or less becomes what the site chose.
    pub fn priority(&self, zero: ZeroScore) -> u32 {
        let rounded = self.score().round();
        if rounded <= 0.0 {
            return match zero {
                ZeroScore::Hold => 0,
                ZeroScore::Floor => 1,
            };
        }
        // `as` saturates; the largest value is kept for expedited jobs.
        (rounded as u32).min(PRIORITY_MAX - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(fairshare: (i64, f64), queue: (i64, f64), bank: (i64, f64), urgency: (i64, f64)) -> Terms {
        let term = |(weight, factor)| Term { weight, factor };
        Terms { fairshare: term(fairshare), queue: term(queue), bank: term(bank), urgency: term(urgency) }
    }

    #[test]
    fn a_score_becomes_a_priority() {
        let none = (0, 0.0);
        for (what, terms, hold, floor) in [
            ("t1001", terms((100_000, 0.45321), none, none, (1, -1.0)), 45_320, 45_320),
            ("t1013", terms((100_000, 0.5), (10_000, 10_000.0), none, none), 100_050_000, 100_050_000),
            ("t1054", terms(none, none, (100, 3.5), none), 350, 350),
            ("half away from zero", terms(none, none, (1, 0.5), none), 1, 1),
            ("just below a half", terms(none, none, (1, 0.499), none), 0, 1),
            ("zero", terms(none, none, none, none), 0, 1),
            ("negative", terms((100_000, 0.01), none, none, (1_000, -15.0)), 0, 1),
            ("too large", terms(none, (i64::MAX, 1e9), none, none), u32::MAX - 1, u32::MAX - 1),
            ("too small", terms(none, (i64::MIN, 1e9), none, none), 0, 1),
            ("no NaN", terms((i64::MAX, 1e300), (i64::MIN, 1e300), none, none), 0, 1),
        ] {
            assert_eq!(terms.priority(ZeroScore::Hold), hold, "{what}");
            assert_eq!(terms.priority(ZeroScore::Floor), floor, "{what}");
        }
    }

    #[test]
    fn infinities_of_opposite_sign_do_not_poison_the_score() {
        let terms = terms((i64::MAX, f64::MAX), (i64::MIN, f64::MAX), (0, 0.0), (0, 0.0));
        assert_eq!(terms.score(), 0.0);
    }
}
