// SPDX-License-Identifier: LGPL-3.0-only
//! How much each factor of the priority weighs, where the site said so.

use std::collections::BTreeMap;

/// The weights that the site gave, by the names of their factors. What the others weigh, and whether a name is that of
/// a factor at all, is the table's of factors to say; a name that is none's is kept and shown, without effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Weights(BTreeMap<String, i64>);

impl Weights {
    /// The weight given to the named factor.
    pub fn get(&self, factor: &str) -> Option<i64> {
        self.0.get(factor).copied()
    }

    /// Gives the named factor a weight.
    pub fn set(&mut self, factor: &str, weight: i64) {
        self.0.insert(factor.to_owned(), weight);
    }

    /// All that were given, by name.
    pub fn given(&self) -> impl Iterator<Item = (&str, i64)> {
        self.0.iter().map(|(name, weight)| (name.as_str(), *weight))
    }
}
