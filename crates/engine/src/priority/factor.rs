// SPDX-License-Identifier: LGPL-3.0-only
//! The table of factors: name, default weight, and the function that computes a job's value.
//!
//! To add a factor, add a row. The order of the rows is the order in which the terms are summed and shown. The value of a factor is
//! computed from a [`Subject`].

use super::explanation::{Explanation, Outcome, PriorityBounds};
use super::{PRIORITY_MAX, URGENCY_DEFAULT, URGENCY_EXPEDITE, URGENCY_HOLD};
use crate::accounts::{Association, Book};
use std::collections::BTreeMap;

/// The maximum number of factors. An explanation has a fixed size, so that computing a priority allocates no memory.
pub const MAX_FACTORS: usize = 8;

/// The input of a factor: one job and the site, but no other jobs.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The accounting data of the site, such as queues and banks.
    pub book: &'a Book,
    /// The association of the job.
    pub association: &'a Association,
    /// The fair-share of the association.
    pub fairshare: f64,
    /// The queue that the job names.
    pub queue: Option<&'a str>,
    /// The largest priority that a job in the queue can have.
    pub max_priority: u32,
    /// The urgency, from 0 to 31.
    pub urgency: i64,
    /// The number of nodes that the job requests.
    pub nodes: u64,
    /// The number of nodes of the site; 0 if it is unknown.
    pub site_nodes: u64,
    /// The age at the common reference time ([`super::Ages`]), divided by `age-max`.
    pub age: f64,
}

/// A factor of the priority: a row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Factor {
    /// The name in flux-accounting's `priority_factor_weight_table`.
    pub name: &'static str,
    /// The weight if the site sets none.
    pub default_weight: i64,
    /// Computes the value for a job.
    pub value: fn(&Subject<'_>) -> f64,
    /// Returns the maximum difference between the values of two jobs of equal size and age. With `max-wait-behind`, the
    /// age outweighs this difference.
    pub range: fn(&Book) -> f64,
}

/// The `range` of a factor that has the same value for all jobs of equal size and age.
pub const NO_RANGE: fn(&Book) -> f64 = |_| 0.0;

/// The factors of flux-accounting with its weights, and the factors [`AGE`] and [`SIZE`], which only a configuration gives a weight.
pub const FACTORS: [Factor; 6] = [
    Factor { name: FAIRSHARE, default_weight: 100_000, value: |subject| subject.fairshare, range: |_| 1.0 },
    Factor {
        name: "queue",
        default_weight: 10_000,
        value: queue_priority,
        range: |book| {
            compute_range_with_zero(book.tables().queues.values().map(|queue| queue.priority as f64))
        },
    },
    Factor {
        name: "bank",
        default_weight: 0,
        value: bank_priority,
        range: |book| compute_range_with_zero(book.tables().banks.values().copied()),
    },
    Factor {
        name: "urgency",
        default_weight: 1_000,
        value: |subject| subject.urgency.saturating_sub(URGENCY_DEFAULT) as f64,
        // At urgency 0 or 31, the other factors do not matter. So the range covers only the urgencies 1 to 30.
        range: |_| (URGENCY_EXPEDITE - URGENCY_HOLD - 2) as f64,
    },
    Factor { name: AGE, default_weight: 0, value: |subject| subject.age, range: NO_RANGE },
    Factor { name: SIZE, default_weight: 0, value: site_fraction, range: NO_RANGE },
];

/// The name of the fair-share factor.
pub const FAIRSHARE: &str = "fairshare";
/// The name of the factor that grows while a job is eligible.
pub const AGE: &str = "age";
/// The name of a priority term that is equal for all jobs. The term corrects all ages, which are computed for a time in the future.
pub const AGE_OFFSET: &str = "age_offset";
/// The name of the factor that is the job's nodes divided by the site's nodes.
pub const SIZE: &str = "size";

/// Returns the priority of the job's queue; 0 without a known queue.
fn queue_priority(subject: &Subject<'_>) -> f64 {
    subject.queue.and_then(|name| subject.book.queue(name)).map_or(0, |queue| queue.priority) as f64
}

/// Returns the priority of the job's bank; 0 if the bank has none.
fn bank_priority(subject: &Subject<'_>) -> f64 {
    subject.book.tables().banks.get(&subject.association.bank).copied().unwrap_or(0.0)
}

/// Returns the difference between the largest and the smallest of 0 and all `values`. The value 0 is always possible:
/// for example, a job may name no queue.
fn compute_range_with_zero(values: impl Iterator<Item = f64>) -> f64 {
    let (low, high) = values.fold((0.0f64, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
    high - low
}

/// Returns the requested nodes relative to the site's nodes, at most 1; 0 if the site's nodes are unknown.
fn site_fraction(subject: &Subject<'_>) -> f64 {
    match subject.site_nodes {
        0 => 0.0,
        all => (subject.nodes as f64 / all as f64).min(1.0),
    }
}

/// The table of factors that an engine uses.
#[derive(Clone, Copy, Debug)]
pub struct Factors(&'static [Factor]);

impl Factors {
    /// Returns a table with `rows`. A table with more than [`MAX_FACTORS`] rows does not compile.
    pub const fn from_rows<const N: usize>(rows: &'static [Factor; N]) -> Self {
        const { assert!(N <= MAX_FACTORS, "a table has at most MAX_FACTORS rows") };
        Factors(rows)
    }

    /// Returns all factors in the order in which their terms are summed.
    pub fn all(self) -> impl Iterator<Item = &'static Factor> {
        self.0.iter()
    }
}

impl Default for Factors {
    fn default() -> Self {
        Factors::from_rows(&FACTORS)
    }
}

/// A table of factors with their current weights.
#[derive(Clone, Copy, Debug, Default)]
pub struct WeightedFactors {
    factors: Factors,
    /// The weight of each factor.
    weights: [i64; MAX_FACTORS],
}

impl WeightedFactors {
    /// Sets the weights. A pushed weight (`given`) takes precedence over the configuration, and the configuration over
    /// the default.
    pub fn new(factors: Factors, given: &BTreeMap<String, i64>, configured: &[(&str, i64)]) -> Self {
        let mut weights = [0; MAX_FACTORS];
        for (weight, factor) in weights.iter_mut().zip(factors.all()) {
            let configured_weight =
                configured.iter().find(|(name, _)| *name == factor.name).map(|(_, weight)| *weight);
            *weight = given.get(factor.name).copied().or(configured_weight).unwrap_or(factor.default_weight);
        }
        WeightedFactors { factors, weights }
    }

    /// Returns the table.
    pub fn factors(&self) -> Factors {
        self.factors
    }

    /// Returns all factors with their weights.
    pub fn all(&self) -> impl Iterator<Item = (&'static Factor, i64)> {
        self.factors.all().zip(self.weights)
    }

    /// Returns the maximum difference between the sums of the terms of two jobs of equal size and age.
    pub fn spread(&self, book: &Book) -> f64 {
        self.all().map(|(factor, weight)| (weight as f64 * (factor.range)(book)).abs()).sum()
    }

    /// Returns the weight of the factor `name`, or 0 if the table has no such factor.
    pub fn weight(&self, name: &str) -> i64 {
        self.all().find(|(factor, _)| factor.name == name).map_or(0, |(_, weight)| weight)
    }

    /// Returns the weights with the weight of the factor `name` replaced.
    #[must_use]
    pub fn with_weight(mut self, name: &str, weight: i64) -> WeightedFactors {
        for (slot, factor) in self.weights.iter_mut().zip(self.factors.all()) {
            if factor.name == name {
                *slot = weight;
            }
        }
        self
    }

    /// Returns true if all weights are equal. `self` and `other` must have the same factors.
    pub fn has_equal_weights(&self, other: &WeightedFactors) -> bool {
        self.weights == other.weights
    }

    /// Computes the explanation for a job with this urgency from the values of the factors. A held or expedited job has
    /// no terms.
    pub fn explain_values(
        &self,
        urgency: i64,
        values: impl IntoIterator<Item = f64>,
        bounds: PriorityBounds,
    ) -> Explanation {
        match urgency {
            URGENCY_HOLD => Explanation::without_terms(Outcome::HeldByUrgency, 0),
            URGENCY_EXPEDITE => Explanation::without_terms(Outcome::Expedited, PRIORITY_MAX),
            _ => {
                let terms = self.all().zip(values).map(|((row, weight), value)| (row.name, weight, value));
                Explanation::from_priority_terms(terms, bounds)
            }
        }
    }

    /// Computes the explanation of a job's priority.
    pub fn explain(&self, subject: &Subject<'_>) -> Explanation {
        let zero = subject.book.config().zero_score;
        let values = self.factors.all().map(|row| (row.value)(subject));
        self.explain_values(subject.urgency, values, PriorityBounds { zero, max: subject.max_priority })
    }
}
