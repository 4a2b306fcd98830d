// SPDX-License-Identifier: LGPL-3.0-only
//! Computes the priority of a job from its terms, and explains the result.

use super::{AGE, AGE_OFFSET, MAX_FACTORS, PRIORITY_LIMIT};
use crate::accounts::ZeroScore;
use crate::ids::Word;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use strum::{EnumString, IntoStaticStr};

/// One term of a job's priority: the value of a factor times its weight. In answers, the type `Name` is [`Word`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

/// How the priority is derived from the rounded sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Outcome {
    /// The priority is the rounded sum.
    Taken,
    /// The sum is 0 or less, and the site is configured to hold such jobs.
    HeldByScore,
    /// The sum is 0 or less, and the site is configured to raise such priorities to 1.
    Raised,
    /// The sum exceeds the largest priority of a job that is not expedited.
    Lowered,
    /// The sum exceeds the largest priority of the jobs in the queue.
    LoweredInQueue,
    /// The urgency of the job holds it.
    HeldByUrgency,
    /// The urgency of the job expedites it.
    Expedited,
}

impl Outcome {
    /// Returns the outcome's name, as queries show the name.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The bounds of the priorities of jobs in a queue. Jobs with urgency 0 or 31 have other priorities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriorityBounds {
    /// The rule for jobs whose priority terms have a sum of 0 or less.
    pub zero: ZeroScore,
    /// The largest priority, at most [`PRIORITY_LIMIT`].
    pub max: u32,
}

/// The terms of a job's priority, their sum, and the priority.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Explanation {
    terms: [Term; MAX_FACTORS],
    /// The number of terms.
    count: usize,
    /// The sum of the terms, added in their order. It is never NaN: infinite terms of opposite signs, which only
    /// extreme weights produce, count as 0.
    pub sum: f64,
    /// The sum, rounded half away from zero.
    pub rounded: f64,
    /// How the priority is derived from `rounded`.
    pub outcome: Outcome,
    /// The priority that Flux gets.
    pub priority: u32,
}

impl Explanation {
    /// Returns the terms in the order of the table of factors, or no terms if the urgency alone decides.
    pub fn terms(&self) -> &[Term] {
        self.terms.get(..self.count).unwrap_or_default()
    }

    /// Returns the terms to show to a person. The age term is computed from the real age `age`. An additional term
    /// shows the rest of the stored age term, so that the sum of all terms stays the same. See [`super::Ages`].
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
            let age_product = weight as f64 * age;
            show(name, age, weight, age_product);
            show(AGE_OFFSET, value - age, weight, product - age_product);
        }
        shown
    }

    /// Returns the values of the terms in their order, followed by zeros. [`super::WeightedFactors::explain_values`]
    /// computes the terms from these values again.
    pub fn values(&self) -> [f64; MAX_FACTORS] {
        self.terms.map(|term| term.value)
    }

    /// Returns true if the terms decide the priority, and false if the urgency alone decides.
    pub fn is_decided_by_terms(&self) -> bool {
        !matches!(self.outcome, Outcome::HeldByUrgency | Outcome::Expedited)
    }

    /// Computes the explanation from the name, the weight and the value of each term.
    pub(super) fn from_priority_terms(
        terms: impl Iterator<Item = (&'static str, i64, f64)>,
        bounds: PriorityBounds,
    ) -> Self {
        let mut explained = Explanation::without_terms(Outcome::Taken, 0);
        for (slot, (name, weight, value)) in explained.terms.iter_mut().zip(terms) {
            *slot = Term { name, value, weight, product: weight as f64 * value };
            explained.count += 1;
        }
        let score = score(explained.terms().iter().map(|term| (term.name, term.weight, term.value)), bounds);
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

    /// Returns an explanation without terms.
    pub(super) fn without_terms(outcome: Outcome, priority: u32) -> Self {
        let none = Term { name: "", value: 0.0, weight: 0, product: 0.0 };
        Explanation { terms: [none; MAX_FACTORS], count: 0, sum: 0.0, rounded: 0.0, outcome, priority }
    }
}

/// A priority that is computed from terms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// The sum of the terms, added in their order. It is never NaN: infinite terms of opposite signs, which only
    /// extreme weights produce, count as 0.
    pub sum: f64,
    /// The sum, rounded half away from zero.
    pub rounded: f64,
    /// How the priority is derived from `rounded`.
    pub outcome: Outcome,
    /// The priority.
    pub priority: u32,
    /// True if the age is in the sum. The age is left out if the rounded sum of the other terms is 0 or less: otherwise a job with a score
    /// of 0 could run just because it has waited long.
    pub counts_age: bool,
}

/// Computes the priority from terms, each a name, a weight and a value. The plugin and `why JOBID JOBID2` both use this
/// formula.
pub fn score<'a>(terms: impl Iterator<Item = (&'a str, i64, f64)>, bounds: PriorityBounds) -> Score {
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
    let (outcome, priority) = clamp_sum(rounded, bounds);
    Score { sum, rounded, outcome, priority, counts_age }
}

/// Returns the priority for a rounded sum. [`PRIORITY_MAX`] is reserved for expedited jobs.
fn clamp_sum(rounded: f64, PriorityBounds { zero, max }: PriorityBounds) -> (Outcome, u32) {
    if rounded <= 0.0 {
        return match zero {
            ZeroScore::Hold => (Outcome::HeldByScore, 0),
            ZeroScore::Floor => (Outcome::Raised, 1),
        };
    }
    if rounded > f64::from(max) {
        return (if max < PRIORITY_LIMIT { Outcome::LoweredInQueue } else { Outcome::Lowered }, max);
    }
    // The conversion is exact between 1 and the largest priority.
    (Outcome::Taken, rounded as u32)
}
