// SPDX-License-Identifier: LGPL-3.0-only
//! Weights of the factors of the priority.

use std::collections::BTreeMap;

/// The pushed weights by the name of the factor. Factors without a pushed weight use the configuration or the default. A weight
/// of an unknown factor is stored and shown, and has no effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Weights(BTreeMap<String, i64>);

impl Weights {
    /// Returns the pushed weight of `factor`, or `None` if none was pushed.
    pub fn get(&self, factor: &str) -> Option<i64> {
        self.0.get(factor).copied()
    }

    /// Sets the weight of a factor.
    pub fn set(&mut self, factor: &str, weight: i64) {
        self.0.insert(factor.to_owned(), weight);
    }

    /// Returns all pushed weights, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        self.0.iter().map(|(name, weight)| (name.as_str(), *weight))
    }
}
