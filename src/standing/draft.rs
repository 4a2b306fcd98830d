// SPDX-License-Identifier: LGPL-3.0-only
//! A site that comes in parts.

use super::{Bank, Leaf, Site};
use crate::fairshare::accrual::{HalfLife, Mode};
use crate::fairshare::periods::Weights;
use crate::fairshare::{Options, Policy};

/// How a tree is ranked, and what its usages are.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// When the usages were true.
    pub instant: f64,
    /// How they decay.
    pub half_life: HalfLife,
    /// What a second of a job counts.
    pub weights: Weights,
    /// The policy.
    pub policy: Policy,
    /// Its options.
    pub options: Options,
    /// Take usages also where a watermark lies before what was given up.
    pub replaces_all: bool,
}

/// What a part of a push says of the tree; parts put together are a part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SitePart {
    /// How it is ranked; the one given last counts.
    pub rule: Option<Rule>,
    /// Banks.
    pub banks: Vec<Bank>,
    /// Associations that are leaves of it.
    pub associations: Vec<Leaf>,
}

impl SitePart {
    /// Takes another part in.
    pub fn absorb(&mut self, part: SitePart) {
        self.rule = part.rule.or(self.rule.take());
        self.banks.extend(part.banks);
        self.associations.extend(part.associations);
    }

    /// The whole site; `None` if nothing says how it is ranked: what was pushed is no tree then.
    pub fn site(self, mode: Mode) -> Option<Site> {
        let Rule { instant, half_life, weights, policy, options, replaces_all } = self.rule?;
        let (banks, associations) = (self.banks, self.associations);
        Some(Site { instant, half_life, weights, mode, policy, options, replaces_all, banks, associations })
    }
}
