// SPDX-License-Identifier: LGPL-3.0-only
//! The differences between the trees and rules of two pushes, except usages.

use super::Rule;
use crate::accounts::Budget;
use crate::ids::{BankName, UserId};
use fairshare::accrual::Mode;
use fairshare::{NodeId, Tree};
use std::collections::BTreeSet;

/// The differences between a push and the previous push, except usages. Empty for the first tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteChange {
    /// Associations of both trees with different shares, or that became active or inactive.
    pub associations: Vec<(UserId, BankName)>,
    /// Banks that are in both trees, and whose shares, parent or active state changed.
    pub banks: BTreeSet<BankName>,
    /// True if the shares of a bank or an association changed.
    pub shares: bool,
    /// True if a bank or an association was added, removed or moved, or became active or inactive.
    pub members: bool,
    /// True if the ranking policy or one of its options changed.
    pub policy: bool,
    /// True if the half-life, the weights of resources, a charge factor, the charged resources or the accrual mode changed.
    pub accounting: bool,
    /// The budgets of the push.
    pub budgets: Vec<Budget>,
}

impl SiteChange {
    /// Compares the rules and accrual modes of two sites.
    pub(super) fn compare_rules(&mut self, (old, old_mode): (&Rule, Mode), (new, mode): (&Rule, Mode)) {
        self.policy = (old.policy, old.options) != (new.policy, new.options);
        self.accounting = (old.weights, old.half_life, old_mode) != (new.weights, new.half_life, mode);
    }

    pub(super) fn compare_bank_nodes(&mut self, before: &Tree, after: &Tree) {
        let mut kept = 0;
        for bank in after.banks() {
            let Some(old) = before.bank(after.name(bank)) else {
                self.members = true;
                continue;
            };
            kept += 1;
            let parent =
                |tree: &Tree, node: NodeId| tree.parent(node).map(|above| tree.name(above).to_owned());
            let is_moved = parent(before, old) != parent(after, bank);
            if self.compare_nodes((before, old), (after, bank)) || is_moved {
                self.members |= is_moved;
                self.banks.insert(after.name(bank).into());
            }
        }
        self.members |= kept != before.banks().len();
    }

    /// Compares the leaves of one association in two trees.
    pub(super) fn compare_leaves(
        &mut self,
        (user, bank): (UserId, &BankName),
        before: Option<(&Tree, NodeId)>,
        after: (&Tree, NodeId),
    ) {
        match before {
            None => self.members = true,
            Some(before) if self.compare_nodes(before, after) => self.associations.push((user, bank.clone())),
            Some(_) => {}
        }
    }

    /// Compares a node of the old tree with a node of the new tree. Returns true if the shares differ, or if only one
    /// of the nodes is active.
    fn compare_nodes(&mut self, (before, old): (&Tree, NodeId), (after, new): (&Tree, NodeId)) -> bool {
        let is_reshared = before.shares(old) != after.shares(new);
        let is_switched = before.is_active(old) != after.is_active(new);
        self.shares |= is_reshared;
        self.members |= is_switched;
        is_reshared || is_switched
    }
}
