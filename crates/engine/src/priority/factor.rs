// SPDX-License-Identifier: LGPL-3.0-only
//! The factors of a priority, one row each: name, weight where the site gave none, and what a job's value is.
//!
//! To add a factor, add a row: its place is the order in which the terms are summed and shown. What it looks at it finds
//! in [`Subject`].

use super::explanation::Explanation;
use super::{URGENCY_DEFAULT, URGENCY_EXPEDITE, URGENCY_HOLD};
use crate::accounts::{Association, Book, Weights, ZeroScore};

/// Most rows that a table of factors has: an explanation is a value of fixed size, so that pricing allocates nothing.
pub const MAX_FACTORS: usize = 8;

/// What a factor may look at. It knows no other job.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// What is configured.
    pub book: &'a Book,
    /// Whose job it is.
    pub association: &'a Association,
    /// Its fair-share.
    pub fairshare: f64,
    /// The job's own queue, where it names one.
    pub queue: Option<&'a str>,
    /// The job's urgency, 0 to 31.
    pub urgency: i64,
    /// Nodes the job asks for.
    pub nodes: u64,
    /// Nodes the site has; 0 as long as that is not known.
    pub site_nodes: u64,
    /// How long it is eligible, by what an age is at most, as of the common reference ([`super::Ages`]).
    pub age: f64,
}

/// One factor of the priority.
#[derive(Clone, Copy, Debug)]
pub struct Factor {
    /// The name by which flux-accounting's `priority_factor_weight_table` gives its weight.
    pub name: &'static str,
    /// Its weight where the site gave none.
    pub default_weight: i64,
    /// A job's value.
    pub value: fn(&Subject<'_>) -> f64,
    /// How far the values of two jobs of equal size and age can differ. With `max-wait-behind`, age outweighs this difference.
    pub range: fn(&Book) -> f64,
}

/// The range of a factor that is the same for jobs of equal size and age.
pub const NO_RANGE: fn(&Book) -> f64 = |_| 0.0;

/// The factors of flux-accounting, with its weights, and two that weigh nothing unless the site says so.
pub const FACTORS: [Factor; 6] = [
    Factor { name: FAIRSHARE, default_weight: 100_000, value: |subject| subject.fairshare, range: |_| 1.0 },
    Factor {
        name: "queue",
        default_weight: 10_000,
        value: queue_priority,
        range: |book| range_with_0(book.queues().map(|queue| queue.priority as f64)),
    },
    Factor {
        name: "bank",
        default_weight: 0,
        value: bank_priority,
        range: |book| range_with_0(book.banks().map(|(_, priority)| priority)),
    },
    Factor {
        name: "urgency",
        default_weight: 1_000,
        value: |subject| subject.urgency.saturating_sub(URGENCY_DEFAULT) as f64,
        // At urgency 0 and 31 the terms do not count.
        range: |_| (URGENCY_EXPEDITE - URGENCY_HOLD - 2) as f64,
    },
    Factor { name: AGE, default_weight: 0, value: |subject| subject.age, range: NO_RANGE },
    Factor { name: SIZE, default_weight: 0, value: part_of_site, range: NO_RANGE },
];

/// The name of the factor that fair-share is.
pub const FAIRSHARE: &str = "fairshare";
/// The name of the factor that grows with the time a job is eligible.
pub const AGE: &str = "age";
/// The name of the term that all ages have in common, where people are shown terms.
pub const AGE_OFFSET: &str = "age_offset";
/// The name of the factor of a job's part of the site.
pub const SIZE: &str = "size";

/// Priority of the job's own queue; 0 without a known queue.
fn queue_priority(subject: &Subject<'_>) -> f64 {
    subject.queue.and_then(|name| subject.book.queue(name)).map_or(0, |queue| queue.priority) as f64
}

/// Priority of the job's own bank; 0 where the bank has none.
fn bank_priority(subject: &Subject<'_>) -> f64 {
    subject.book.bank_priority(subject.association.bank.as_str()).unwrap_or(0.0)
}

/// Returns the difference between the largest and the smallest value, of which 0 is always one: a job may name no queue, and a bank may
/// have no priority.
fn range_with_0(values: impl Iterator<Item = f64>) -> f64 {
    let (low, high) = values.fold((0.0f64, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
    high - low
}

/// Nodes over the site's nodes; 0 as long as these are not known.
fn part_of_site(subject: &Subject<'_>) -> f64 {
    match subject.site_nodes {
        0 => 0.0,
        all => (subject.nodes as f64 / all as f64).min(1.0),
    }
}

/// A table of factors.
#[derive(Clone, Copy, Debug)]
pub struct Factors(&'static [Factor]);

impl Factors {
    /// The table of these rows. More than [`MAX_FACTORS`] do not compile.
    pub const fn of<const N: usize>(rows: &'static [Factor; N]) -> Self {
        const { assert!(N <= MAX_FACTORS, "an explanation has no room for so many factors") };
        Factors(rows)
    }

    /// All factors, in the order in which terms are summed.
    pub fn all(self) -> impl Iterator<Item = &'static Factor> {
        self.0.iter()
    }
}

impl Default for Factors {
    fn default() -> Self {
        Factors::of(&FACTORS)
    }
}

/// A table of factors with the weights in force.
#[derive(Clone, Copy, Debug)]
pub struct Weighed {
    factors: Factors,
    /// One per row.
    weights: [i64; MAX_FACTORS],
}

impl Weighed {
    /// The factors with the weights that the site pushed; of the others, with those that it configured, else with their
    /// default weights.
    pub fn new(factors: Factors, given: &Weights, configured: &[(&str, i64)]) -> Self {
        let mut weights = [0; MAX_FACTORS];
        for (weight, factor) in weights.iter_mut().zip(factors.all()) {
            let of_config =
                configured.iter().find(|(name, _)| *name == factor.name).map(|(_, weight)| *weight);
            *weight = given.get(factor.name).or(of_config).unwrap_or(factor.default_weight);
        }
        Weighed { factors, weights }
    }

    /// The table.
    pub fn factors(&self) -> Factors {
        self.factors
    }

    /// All factors with their weights.
    pub fn all(&self) -> impl Iterator<Item = (&'static Factor, i64)> {
        self.factors.all().zip(self.weights)
    }

    /// Returns how far the terms of two jobs of equal size and age can differ.
    pub fn spread(&self, book: &Book) -> f64 {
        self.all().map(|(factor, weight)| (weight as f64 * (factor.range)(book)).abs()).sum()
    }

    /// What a factor weighs; 0 without such a row.
    pub fn weight(&self, name: &str) -> i64 {
        self.all().find(|(factor, _)| factor.name == name).map_or(0, |(_, weight)| weight)
    }

    /// The same with another weight of one factor.
    #[must_use]
    pub fn with_weight(mut self, name: &str, weight: i64) -> Weighed {
        for (slot, factor) in self.weights.iter_mut().zip(self.factors.all()) {
            if factor.name == name {
                *slot = weight;
            }
        }
        self
    }

    /// Whether two weigh alike. Both are of the same table.
    pub fn weighs_like(&self, other: &Weighed) -> bool {
        self.weights == other.weights
    }

    /// What made the priority of a job of this urgency whose factors had these values.
    pub fn recall(&self, urgency: i64, values: &[f64; MAX_FACTORS], zero: ZeroScore) -> Explanation {
        match urgency {
            URGENCY_HOLD => Explanation::held(),
            URGENCY_EXPEDITE => Explanation::expedited(),
            _ => {
                let terms =
                    self.all().zip(values).map(|((factor, weight), value)| (factor.name, weight, *value));
                Explanation::of(terms, zero)
            }
        }
    }

    /// Explains the priority of a job. Hold and expedite have no terms.
    pub fn explain(&self, subject: &Subject<'_>) -> Explanation {
        match subject.urgency {
            URGENCY_HOLD => Explanation::held(),
            URGENCY_EXPEDITE => Explanation::expedited(),
            _ => {
                let terms = self.all().map(|(factor, weight)| (factor.name, weight, (factor.value)(subject)));
                Explanation::of(terms, subject.book.config().zero_score)
            }
        }
    }
}
