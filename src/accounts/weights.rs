// SPDX-License-Identifier: LGPL-3.0-only
//! How much each factor of the priority weighs.

use std::collections::BTreeMap;

/// Weights of the priority factors. Factors with names unknown to us are kept and shown, without effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    /// Weight of the association's fair-share.
    pub fairshare: i64,
    /// Weight of the queue's priority.
    pub queue: i64,
    /// Weight of the bank's priority.
    pub bank: i64,
    /// Weight of the job's urgency above the default of 16.
    pub urgency: i64,
    /// Others, by name.
    pub others: BTreeMap<String, i64>,
}

impl Default for Weights {
    fn default() -> Self {
        Weights { fairshare: 100_000, queue: 10_000, bank: 0, urgency: 1_000, others: BTreeMap::new() }
    }
}

impl Weights {
    /// Sets the weight of the named factor.
    pub fn set(&mut self, factor: &str, weight: i64) {
        match factor {
            "fairshare" => self.fairshare = weight,
            "queue" => self.queue = weight,
            "bank" => self.bank = weight,
            "urgency" => self.urgency = weight,
            other => {
                self.others.insert(other.to_owned(), weight);
            }
        }
    }
}
