// SPDX-License-Identifier: LGPL-3.0-only
//! What a push changed of the tree and its rules, usages apart.

use super::Rules;
use crate::ids::{BankName, UserId};
use fairshare::accrual::Scale;
use fairshare::{NodeId, Tree};
use std::collections::BTreeSet;

/// What a push changed of the tree and its rules. The first tree changes nothing: there was none to compare it with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteChange {
    /// Associations of both trees whose shares are others, or that became active or inactive.
    pub associations: Vec<(UserId, BankName)>,
    /// Banks of both trees whose shares or parent are others, or that became active or inactive.
    pub banks: BTreeSet<BankName>,
    /// Whether the shares of a bank or an association are others.
    pub shares: bool,
    /// Whether a bank or an association was added, removed, moved, or became active or inactive.
    pub members: bool,
    /// Whether the ranking policy or one of its options is another.
    pub policy: bool,
    /// Whether the half-life, or what a second of a job counts, is another.
    pub accounting: bool,
}

impl SiteChange {
    /// Compares the rules of two sites.
    pub(super) fn note_rules(&mut self, before: (&Rules, &Scale), after: (&Rules, &Scale)) {
        let ((old, old_scale), (new, new_scale)) = (before, after);
        self.policy = (old.policy, old.options) != (new.policy, new.options);
        let is_counted_alike = (old.weights, old.mode) == (new.weights, new.mode)
            && old_scale.half_life() == new_scale.half_life();
        self.accounting = !is_counted_alike;
    }

    /// Compares the banks of two trees.
    pub(super) fn note_banks(&mut self, before: &Tree, after: &Tree) {
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
            if self.note_node((before, old), (after, bank)) || is_moved {
                self.members |= is_moved;
                self.banks.insert(after.name(bank).into());
            }
        }
        self.members |= kept != before.banks().len();
    }

    /// Compares an association's leaves in two trees.
    pub(super) fn note_leaf(
        &mut self,
        (user, bank): (UserId, &BankName),
        before: Option<(&Tree, NodeId)>,
        after: (&Tree, NodeId),
    ) {
        match before {
            None => self.members = true,
            Some(before) => {
                if self.note_node(before, after) {
                    self.associations.push((user, bank.clone()));
                }
            }
        }
    }

    /// Compares one node's shares and whether it is active; returns whether they differ.
    fn note_node(&mut self, (before, old): (&Tree, NodeId), (after, new): (&Tree, NodeId)) -> bool {
        let is_reshared = before.shares(old) != after.shares(new);
        let is_switched = before.is_active(old) != after.is_active(new);
        self.shares |= is_reshared;
        self.members |= is_switched;
        is_reshared || is_switched
    }
}
