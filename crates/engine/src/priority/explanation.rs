// SPDX-License-Identifier: LGPL-3.0-only
//! Computes the priority of a job from its terms, and explains it. The last field is the priority that Flux gets.

use super::{AGE, AGE_OFFSET, MAX_FACTORS, PRIORITY_MAX};
use crate::accounts::ZeroScore;
use crate::ids::Word;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// A factor times its weight, for one job. In answers, names are of type `Word`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Term<Name = &'static str> {
    /// The name of the factor.
    pub name: Name,
    /// The value of the factor for the job.
    pub value: f64,
    /// The weight of the factor.
    pub weight: i64,
    /// Value times weight.
    pub product: f64,
}

/// How the priority follows from the rounded sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The priority is the rounded sum.
    Taken,
    /// The sum is 0 or less, and the site holds such jobs.
    HeldByScore,
    /// The sum is 0 or less, and the site gives such jobs the priority 1.
    Raised,
    /// The sum exceeds the largest priority of a job that is not expedited.
    Lowered,
    /// The urgency of the job holds it.
    HeldByUrgency,
    /// The urgency of the job expedites it.
    Expedited,
}

impl Outcome {
    const ALL: [Outcome; 6] = [
        Outcome::Taken,
        Outcome::HeldByScore,
        Outcome::Raised,
        Outcome::Lowered,
        Outcome::HeldByUrgency,
        Outcome::Expedited,
    ];

    /// Reads a [`name`](Outcome::name). Returns `None` for a name of another version.
    pub fn parse(name: &str) -> Option<Outcome> {
        Outcome::ALL.into_iter().find(|outcome| outcome.name() == name)
    }

    /// Returns its name for programs.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Taken => "taken",
            Outcome::HeldByScore => "held-by-score",
            Outcome::Raised => "raised",
            Outcome::Lowered => "lowered",
            Outcome::HeldByUrgency => "held-by-urgency",
            Outcome::Expedited => "expedited",
        }
    }
}

/// How a priority came about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Explanation {
    terms: [Term; MAX_FACTORS],
    /// How many of them there are.
    count: usize,
    /// Sum of the terms, in their order. Never NaN: opposite infinities of absurd weights count as 0.
    pub sum: f64,
    /// The sum, rounded half away from zero.
    pub rounded: f64,
    /// How the priority follows from `rounded`.
    pub outcome: Outcome,
    /// The priority: what Flux gets.
    pub priority: u32,
}

impl Explanation {
    /// The terms, in the order of the table. None where the urgency alone decides.
    pub fn terms(&self) -> &[Term] {
        self.terms.get(..self.count).unwrap_or_default()
    }

    /// Returns the terms for a person. The term of the age is computed from the real age `age`, and a term for the difference to
    /// the common reference ([`super::Ages`]) follows. The sum is unchanged.
    pub fn shown_terms(&self, age: f64) -> Vec<Term<Word>> {
        let mut shown = Vec::with_capacity(self.count + 1);
        let mut show = |name, value, weight, product| {
            shown.push(Term { name: Cow::Borrowed(name), value, weight, product });
        };
        for Term { name, value, weight, product } in self.terms().iter().copied() {
            if name != AGE {
                show(name, value, weight, product);
                continue;
            }
            let of_age = weight as f64 * age;
            show(name, age, weight, of_age);
            show(AGE_OFFSET, value - age, weight, product - of_age);
        }
        shown
    }

    /// The values of the terms, in their order, and 0 where there are no more: with weights they say it all again.
    pub fn values(&self) -> [f64; MAX_FACTORS] {
        self.terms.map(|term| term.value)
    }

    /// Whether the terms decide, and not the urgency alone.
    pub fn is_by_terms(&self) -> bool {
        !matches!(self.outcome, Outcome::HeldByUrgency | Outcome::Expedited)
    }

    /// Computes the explanation from names, weights and values.
    pub(super) fn from_terms(given: impl Iterator<Item = (&'static str, i64, f64)>, zero: ZeroScore) -> Self {
        let mut explained = Explanation::without_terms(Outcome::Taken, 0);
        for (place, (name, weight, value)) in explained.terms.iter_mut().zip(given) {
            *place = Term { name, value, weight, product: weight as f64 * value };
            explained.count += 1;
        }
        let score = score(explained.terms().iter().map(|term| (term.name, term.weight, term.value)), zero);
        for term in explained.terms.iter_mut().filter(|term| term.name == AGE && !score.counts_age) {
            (term.value, term.product) = (0.0, 0.0);
        }
        Explanation {
            sum: score.sum,
            rounded: score.rounded,
            outcome: score.outcome,
            priority: score.priority,
            ..explained
        }
    }

    /// Returns the explanation of a job that its urgency holds.
    pub(super) fn of_urgency_hold() -> Self {
        Explanation::without_terms(Outcome::HeldByUrgency, 0)
    }

    /// Returns the explanation of an expedited job.
    pub(super) fn of_expedite() -> Self {
        Explanation::without_terms(Outcome::Expedited, PRIORITY_MAX)
    }

    fn without_terms(outcome: Outcome, priority: u32) -> Self {
        let none = Term { name: "", value: 0.0, weight: 0, product: 0.0 };
        Explanation { terms: [none; MAX_FACTORS], count: 0, sum: 0.0, rounded: 0.0, outcome, priority }
    }
}

/// A priority that is computed from terms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// Sum of the terms, in their order. Never NaN: opposite infinities of absurd weights count as 0.
    pub sum: f64,
    /// The sum, rounded half away from zero.
    pub rounded: f64,
    /// How the priority follows from `rounded`.
    pub outcome: Outcome,
    /// The priority.
    pub priority: u32,
    /// Whether the age is in the sum. If the other terms sum to 0 or less, the age does not count: waiting does not let such a job run.
    pub counts_age: bool,
}

/// Computes the priority that terms of these names, weights and values make. This is the formula, for the plugin and for
/// `why JOBID JOBID2`.
pub fn score<'a>(terms: impl Iterator<Item = (&'a str, i64, f64)>, zero: ZeroScore) -> Score {
    let (mut all, mut without_age, mut has_age) = (0.0, 0.0, false);
    for (name, weight, value) in terms {
        let product = weight as f64 * value;
        all += product;
        if name == AGE || name == AGE_OFFSET {
            has_age |= product != 0.0;
        } else {
            without_age += product;
        }
    }
    let counts_age = !has_age || without_age.round() > 0.0;
    let sum = if counts_age { all } else { without_age };
    let sum = if sum.is_nan() { 0.0 } else { sum };
    let rounded = sum.round();
    let (outcome, priority) = clamp_sum(rounded, zero);
    Score { sum, rounded, outcome, priority, counts_age }
}

/// Returns the priority for a rounded sum: a sum of 0 or less is treated as the site chose, and the largest priority is reserved
/// for expedited jobs.
fn clamp_sum(rounded: f64, zero: ZeroScore) -> (Outcome, u32) {
    if rounded <= 0.0 {
        return match zero {
            ZeroScore::Hold => (Outcome::HeldByScore, 0),
            ZeroScore::Floor => (Outcome::Raised, 1),
        };
    }
    if rounded >= f64::from(PRIORITY_MAX) {
        return (Outcome::Lowered, PRIORITY_MAX - 1);
    }
    // The conversion is exact between 1 and the largest priority.
    (Outcome::Taken, rounded as u32)
}
