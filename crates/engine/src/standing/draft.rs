// SPDX-License-Identifier: LGPL-3.0-only
//! A site that comes in parts.

use super::{Bank, Index, Leaf, Site, SiteError, Standing};
use fairshare::accrual::{HalfLife, Mode};
use fairshare::periods::Weights;
use fairshare::{Builder, Options, Policy};

/// flux-accounting's usage reset period, unless a site has changed it.
pub const RESET: f64 = 2_419_200.0;

/// How a tree is ranked, and what its usages are.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// When the usages were true.
    pub instant: f64,
    /// How they decay.
    pub half_life: HalfLife,
    /// So many seconds: job-list is asked no farther back for jobs that ended.
    pub reset: f64,
    /// What a second of a job counts.
    pub weights: Weights,
    /// The policy.
    pub policy: Policy,
    /// Its options.
    pub options: Options,
    /// Take usages also where a watermark lies before what was given up.
    pub replaces_all: bool,
}

/// What a part of a push says of the tree.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SitePart {
    /// How it is ranked; the one given last counts.
    pub rule: Option<Rule>,
    /// Banks.
    pub banks: Vec<Bank>,
    /// Associations that are leaves of it.
    pub associations: Vec<Leaf>,
}

/// A site of which parts have come. Names are taken in and cells looked for as they come, so that neither a part of a large push
/// nor its end costs much.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    part: SitePart,
    rows: Builder,
    /// The cell of each association when its part came.
    cells: Vec<Index>,
    /// [`Standing::freed`] before the first of them.
    freed: u64,
}

/// A whole site, with what its parts brought along.
pub(super) struct Drafted {
    /// Its associations may be without their names, which the rows have.
    pub site: Site,
    /// The rows of its tree.
    pub rows: Builder,
    /// Where the cell of each association was.
    pub cells: Vec<Index>,
    /// [`Standing::freed`] before they were looked for: if that is another one now, a cell may be somebody else's.
    pub freed: u64,
}

impl SitePart {
    /// Whether a push of just this would be accepted; nothing is changed. Without a rule it is no tree, and always is.
    pub fn check(self) -> Result<(), SiteError> {
        let (mut apart, mut draft) = (Standing::default(), Draft::default());
        draft.absorb(self, &mut apart);
        apart.push_draft(draft, Mode::Elapsed).map(drop)
    }
}

impl Draft {
    /// Takes a part in; the rule given last counts. Associations that are new get a cell, which is theirs as long as
    /// [`Standing::tidy`] is not called.
    pub fn absorb(&mut self, mut part: SitePart, standing: &mut Standing) {
        if self.cells.is_empty() {
            self.freed = standing.freed;
        }
        self.cells.extend(part.associations.iter().map(|leaf| Index(standing.cell_of_leaf(leaf))));
        part.banks.iter().for_each(|bank| bank.add_to(&mut self.rows));
        for leaf in &mut part.associations {
            leaf.add_to(&mut self.rows);
            // The rows have it from now on: the end of a push is not to be kept up by giving back a hundred thousand names.
            leaf.name = Box::default();
        }
        self.part.rule = part.rule.or(self.part.rule.take());
        self.part.banks.extend(part.banks);
        self.part.associations.extend(part.associations);
    }

    /// Whether no association came.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// The whole of it; `None` if nothing says how it is ranked: what was pushed is no tree then.
    pub(super) fn whole(self, mode: Mode) -> Option<Drafted> {
        let SitePart { rule, banks, associations } = self.part;
        let Rule { instant, half_life, reset, weights, policy, options, replaces_all } = rule?;
        let site = Site {
            instant,
            half_life,
            reset,
            weights,
            mode,
            policy,
            options,
            replaces_all,
            banks,
            associations,
        };
        Some(Drafted { site, rows: self.rows, cells: self.cells, freed: self.freed })
    }
}
