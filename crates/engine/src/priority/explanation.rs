// SPDX-License-Identifier: LGPL-3.0-only
//! The formula of a priority, and its explanation from the terms to the number. What Flux gets is the last field of what people are
//! shown.

use super::{AGE, AGE_OFFSET, MAX_FACTORS, PRIORITY_MAX};
use crate::accounts::ZeroScore;
use crate::ids::Word;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// One weighted factor of a job. In answers, where they are read too, names are of type `Word`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Term<Name = &'static str> {
    /// The factor's name.
    pub name: Name,
    /// The job's value.
    pub value: f64,
    /// The site's weight.
    pub weight: i64,
    /// What the term adds to the sum.
    pub product: f64,
}

/// What became of the rounded sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is the priority.
    Taken,
    /// It was 0 or less, and such jobs are held here.
    HeldByScore,
    /// It was 0 or less, and such jobs go last here.
    Raised,
    /// It was more than a job may have that is not expedited.
    Lowered,
    /// There is none: the job's urgency holds it.
    HeldByUrgency,
    /// There is none: the job's urgency puts it ahead of all.
    Expedited,
}

impl Outcome {
    /// Its name for programs.
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
    /// What became of it.
    pub outcome: Outcome,
    /// The priority: what Flux gets.
    pub priority: u32,
}

impl Explanation {
    /// The terms, in the order of the table. None where the urgency alone decides.
    pub fn terms(&self) -> &[Term] {
        self.terms.get(..self.count).unwrap_or_default()
    }

    /// Returns the terms as answers show them: the term of the age with `age`, the job's true age, and behind it a term with the
    /// difference that the common reference makes to all ages ([`super::Ages`]). The sum is the same.
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

    /// Explains the priority that terms of these names, weights and values make.
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

    /// Of a job that its urgency holds.
    pub(super) fn held() -> Self {
        Explanation::without_terms(Outcome::HeldByUrgency, 0)
    }

    /// Of a job that its urgency puts ahead of all.
    pub(super) fn expedited() -> Self {
        Explanation::without_terms(Outcome::Expedited, PRIORITY_MAX)
    }

    fn without_terms(outcome: Outcome, priority: u32) -> Self {
        let none = Term { name: "", value: 0.0, weight: 0, product: 0.0 };
        Explanation { terms: [none; MAX_FACTORS], count: 0, sum: 0.0, rounded: 0.0, outcome, priority }
    }
}

/// A priority as terms make it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// Sum of the terms, in their order. Never NaN: opposite infinities of absurd weights count as 0.
    pub sum: f64,
    /// The sum, rounded half away from zero.
    pub rounded: f64,
    /// What became of it.
    pub outcome: Outcome,
    /// The priority.
    pub priority: u32,
    /// Whether the age is in the sum. If the other terms sum to 0 or less, the age does not count: waiting does not let such a job run.
    pub counts_age: bool,
}

/// Computes the priority that terms of these names, weights and values make. This is the formula, for the plugin and for
/// `why JOBID JOBID2`.
pub fn score<'a>(terms: impl Iterator<Item = (&'a str, i64, f64)> + Clone, zero: ZeroScore) -> Score {
    let is_age = |name: &str| name == AGE || name == AGE_OFFSET;
    let counted = |counts_age: bool| {
        let products = terms.clone().map(|(name, weight, value)| match is_age(name) && !counts_age {
            true => 0.0,
            false => weight as f64 * value,
        });
        // `Iterator::sum` begins with -0.
        let sum = products.fold(0.0, |sum, product| sum + product);
        let sum = if sum.is_nan() { 0.0 } else { sum };
        let rounded = sum.round();
        let (outcome, priority) = clamped(rounded, zero);
        Score { sum, rounded, outcome, priority, counts_age }
    };
    if terms.clone().any(|(name, weight, value)| is_age(name) && weight != 0 && value != 0.0) {
        let without_age = counted(false);
        if matches!(without_age.outcome, Outcome::HeldByScore | Outcome::Raised) {
            return without_age;
        }
    }
    counted(true)
}

/// Returns the priority of a rounded sum: 0 or less becomes what the site chose, and the largest value is kept for expedited jobs.
fn clamped(rounded: f64, zero: ZeroScore) -> (Outcome, u32) {
    if rounded <= 0.0 {
        return match zero {
            ZeroScore::Hold => (Outcome::HeldByScore, 0),
            ZeroScore::Floor => (Outcome::Raised, 1),
        };
    }
    if rounded >= f64::from(PRIORITY_MAX) {
        return (Outcome::Lowered, PRIORITY_MAX - 1);
    }
    // Between 1 and the largest value: nothing is lost.
    (Outcome::Taken, rounded as u32)
}
