// SPDX-License-Identifier: LGPL-3.0-only
//! What was pushed, told again: for whoever keeps it for after a restart.

use super::{Bank, Leaf, Rule, Standing};
use crate::ids::{BankName, UserId};

impl Standing {
    /// How the tree is ranked; `None` if none was pushed. It is to be taken by one that knows of no job.
    pub fn pushed_rule(&self) -> Option<Rule> {
        let site = self.site.as_ref()?;
        let rules = &site.rules;
        Some(Rule {
            instant: rules.instant,
            half_life: site.scale.half_life(),
            weights: rules.weights,
            policy: rules.policy,
            options: rules.options,
            replaces_all: false,
        })
    }

    /// A bank of the tree. One that was left out of it, since nobody there is in use, is none.
    pub fn bank(&self, name: &BankName) -> Option<Bank> {
        let site = self.site.as_ref()?;
        let (tree, node) = (&site.tree, site.tree.bank(name.as_str())?);
        let usage = site.own_usage.iter().find(|(bank, _)| *bank == node).map(|(_, usage)| *usage);
        Some(Bank {
            name: name.clone(),
            parent: tree.parent(node).map(|parent| tree.name(parent).into()),
            shares: tree.shares(node),
            usage,
            active: tree.is_active(node),
        })
    }

    /// A leaf of the tree, with the usage that was pushed.
    pub fn leaf(&self, user: UserId, bank: &BankName) -> Option<Leaf> {
        let tree = self.tree()?;
        let cell = self.cell(self.find(user, bank)?)?;
        let node = cell.leaf?;
        let (usage, counted) = cell.pushed();
        Some(Leaf {
            user,
            name: tree.name(node).into(),
            bank: bank.clone(),
            shares: tree.shares(node),
            active: tree.is_active(node),
            usage: (usage > 0.0 || tree.own_usage(node).is_some()).then_some(usage),
            counted: counted.clone(),
        })
    }
}
