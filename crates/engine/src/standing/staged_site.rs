// SPDX-License-Identifier: LGPL-3.0-only
//! Collects a site whose push comes in several parts.

use super::{Bank, Index, Leaf, Rule, Site, Standing};
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
    part: SitePart,
    rows: Builder,
    /// The index of each association in the usage table. The index is stored when a part of the push adds the
    /// association.
    indices: Vec<Index>,
    /// The value of [`UsageTable::freed`](super::table::UsageTable::freed) when the first part of the push arrived.
    freed: u64,
}

/// The complete data of a push, built from all its parts.
pub(super) struct AssembledSite {
    /// The site. The names of its associations may be empty, because `rows` contains the names.
    pub site: Site,
    /// The rows from which the tree is built.
    pub rows: Builder,
    /// The index of each association in the usage table, or an empty list.
    pub indices: Vec<Index>,
    /// The value of [`UsageTable::freed`](super::table::UsageTable::freed) when the first part of the push arrived.
    /// If the value has changed since, `indices` may be invalid.
    pub freed: u64,
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
        if self.indices.is_empty() {
            self.freed = standing.usages.freed();
        }
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

    /// Combines the parts of the push. The site is `None` if no part has a rule for ranking.
    pub(super) fn combine_parts(self, mode: Mode) -> (Option<AssembledSite>, Charges, Vec<Budget>) {
        let StagedSite { part, rows, indices, freed } = self;
        let SitePart { rule, banks, associations, charges, budgets } = part;
        let site = rule.map(|rule| Site { rule, mode, banks, associations });
        (site.map(|site| AssembledSite { site, rows, indices, freed }), charges, budgets)
    }
}
