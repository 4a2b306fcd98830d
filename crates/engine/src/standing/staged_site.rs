// SPDX-License-Identifier: LGPL-3.0-only
//! Collects a site whose push comes in several parts.

use super::{Bank, Index, Leaf, Rule, Standing};
use crate::accounts::Budget;
use fairshare::Builder;
use fairshare::accrual::Mode;
use fairshare::charging::{ChargeByChange, ChargeChange};

/// One part of a push: a rule, banks, associations, charges and budgets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SitePart {
    /// The rule, if this part has a rule. If several parts have a rule, the last rule applies.
    pub rule: Option<Rule>,
    /// Banks, each with its parent and shares.
    pub banks: Vec<Bank>,
    /// Associations with a leaf in the tree.
    pub associations: Vec<Leaf>,
    /// How jobs are charged.
    pub charges: Charges,
    /// Budgets. A push with budgets also needs a tree, because the watermarks in the tree determine which ended jobs
    /// the pushed budgets include.
    pub budgets: Vec<Budget>,
}

/// How one part of a push changes the charging of jobs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Charges {
    /// Changes of the charge factors of queues.
    pub factors: Vec<ChargeChange>,
    /// Changes of the resources that jobs are charged for.
    pub rules: Vec<ChargeByChange>,
}

/// The parts of a site that have arrived. The index is built part by part, so that the commit is fast.
#[derive(Clone, Debug, Default)]
pub struct StagedSite {
    /// The names of its associations are empty, because `rows` contains the names.
    pub(super) part: SitePart,
    /// The rows from which the tree is built.
    pub(super) rows: Builder,
    /// The index of each association in the usage table. The index is stored when a part of the push adds the
    /// association. It stays valid until the commit: [`UsageTable::remove_unused`](super::UsageTable::remove_unused)
    /// runs only when a push ends, and a new push drops the staged push.
    pub(super) indices: Vec<Index>,
}

impl SitePart {
    /// Checks that a push of this part alone would be accepted. If not, returns the reason. A part without a rule has
    /// no tree, and is accepted unless it has budgets.
    pub fn check(self) -> Result<(), String> {
        let (mut standing, mut staged) = (Standing::default(), StagedSite::default());
        staged.absorb(self, &mut standing);
        standing.push_staged(staged, Mode::Elapsed).map(drop)
    }
}

impl StagedSite {
    /// Adds one part of a push, and adds entries for new associations to the usage table. If the push is not
    /// committed, [`UsageTable::remove_unused`](super::UsageTable::remove_unused) removes these entries.
    pub fn absorb(&mut self, mut part: SitePart, standing: &mut Standing) {
        let index = |leaf: &Leaf| Index(standing.usages.find_or_add_entry(leaf, &leaf.name));
        self.indices.extend(part.associations.iter().map(index));
        part.banks.iter().for_each(|bank| bank.add_row(&mut self.rows));
        for leaf in &mut part.associations {
            leaf.add_row(&mut self.rows);
            // `add_row` has copied the name, so the name can be freed now. Freeing 100,000 names at the commit would take too long.
            leaf.name = Box::default();
        }
        let SitePart { rule, banks, associations, charges: Charges { factors, rules }, budgets } = part;
        self.part.rule = rule.or(self.part.rule.take());
        self.part.banks.extend(banks);
        self.part.associations.extend(associations);
        self.part.charges.factors.extend(factors);
        self.part.charges.rules.extend(rules);
        self.part.budgets.extend(budgets);
    }

    /// Returns true if no part of the push has an association.
    pub fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }
}
