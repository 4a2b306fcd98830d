// SPDX-License-Identifier: LGPL-3.0-only
//! A recount from scratch, to be compared with the counters in use.

use super::Engine;
use crate::ids::{BankName, UserId};

/// What a recount found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Check {
    /// Live jobs.
    pub jobs: usize,
    /// Of these, jobs that wait for an association.
    pub waiting: usize,
    /// Associations known.
    pub associations: usize,
    /// Associations whose counters differ, with what differs. Always empty, or this is a bug.
    pub drift: Vec<(UserId, BankName, String)>,
}

impl Engine {
    /// Recounts all live jobs and compares.
    pub fn check(&self) -> Check {
        let named = |(id, what)| {
            let association = self.book.association(id)?;
            Some((association.user, association.bank.clone(), what))
        };
        Check {
            jobs: self.ledger.jobs().count(),
            waiting: self.ledger.waiting().count(),
            associations: self.book.len(),
            drift: self.ledger.drift().into_iter().filter_map(named).collect(),
        }
    }
}
