// SPDX-License-Identifier: LGPL-3.0-only
//! The ranking policies: the trait that each implements, and the table of all of them. Each file of this directory
//! has one policy.
// Each file declares its ranking policy as a constant of `Policy`, which code uses like a variant of an enum.
#![allow(non_upper_case_globals)]

mod classic;
mod depth_oblivious;
mod fair_tree;
pub(super) mod pbs;
mod weighted_walk;

use std::fmt;
use std::ops::Deref;
use std::panic::RefUnwindSafe;
use std::str::FromStr;

pub use pbs::PbsDetail;

use super::formula::Formula;
use super::sums::Sums;
use super::{NodeDetail, NodeId, Options, Ranking, Shares, Tree};

impl Policy {
    /// Every ranking policy, the default first. A new ranking policy gets a row here.
    pub const ALL: [Policy; 5] =
        [Policy::WeightedWalk, Policy::FairTree, Policy::Classic, Policy::DepthOblivious, Policy::Pbs];
}

/// The rules of one ranking policy. Most ranking policies can use the default methods.
pub trait RankingPolicy: Sync + RefUnwindSafe {
    /// Returns the name that users type and documents contain.
    fn name(&self) -> &'static str;

    /// Returns the formula that computes the fair-share. Returns `None` if the fair-share is rank / N, with
    /// ranks from a depth-first visit of the tree.
    fn formula(&self, _: &Options) -> Option<Box<dyn Formula>> {
        None
    }

    /// Ranks the associations of `tree`. `ranking` has the options and the sums, but no ranks yet. Ranking
    /// policies without a formula must override this method and call [`Ranking::rank_by_depth_first_visit`].
    fn rank(&self, tree: &Tree, ranking: &mut Ranking) {
        if let Some(formula) = self.formula(&ranking.options) {
            ranking.rank_by_formula(&*formula, tree);
        }
    }

    /// Adds the numbers that only this ranking policy has to `detail`, which already has the numbers of all policies.
    fn add_numbers(&self, tree: &Tree, ranking: &Ranking, node: NodeId, detail: &mut NodeDetail) {
        if let Some(formula) = self.formula(&ranking.options) {
            ranking.add_formula_numbers(&*formula, tree, node, detail);
        }
    }

    /// Returns the names of the options that this ranking policy uses, without options that apply to all
    /// ranking policies.
    fn options(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns true if the ranking policy can rank nodes with [`Shares::Parent`].
    fn takes_parent_shares(&self) -> bool {
        false
    }

    /// Returns true if the effective usage of a node is a product of usage ratios, so that their relative errors add up.
    fn multiplies_usage_ratios(&self) -> bool {
        false
    }

    /// Returns the usage that each node starts with, in the units of the options, or `None` for 0. Sums never contain this
    /// usage.
    fn initial_usage(&self, _: &Options) -> Option<f64> {
        None
    }

    /// Returns the usage of a node as commands show it.
    fn usage(&self, tree: &Tree, ranking: &Ranking, node: NodeId) -> f64 {
        ranking.recorded_usage(tree, node)
    }

    /// Returns, for each bank, the usage by which the usages of its children are divided.
    fn usage_divisors<'a>(&self, sums: &'a Sums) -> &'a [f64] {
        &sums.usage
    }

    /// Returns true if the siblings of each level are sorted by usage / target in ascending order.
    fn compares_quotients(&self) -> bool {
        self.formula(&Options::default()).is_none()
    }

    /// Returns the target of a node. Under policies that sort siblings by usage / target, the usage of the node is
    /// divided by this number. By default, the target is the node's shares.
    fn target(&self, detail: &NodeDetail) -> f64 {
        match detail.shares {
            Shares::Count(shares) => shares as f64,
            // A node with parent shares is visited before all others.
            Shares::Parent => f64::INFINITY,
        }
    }

    /// Returns true if siblings with these values are tied; `high >= low`. Formula policies have no ties of siblings.
    fn is_tie(&self, _high: f64, _low: f64) -> bool {
        false
    }

    /// Returns true if tied banks are not merged, but visited one after the other in the order of the input.
    fn uses_list_order(&self, _: &Options) -> bool {
        false
    }

    /// Returns true if the scheduler orders associations by [`Ranking::pbs_walk`], not by fair-share.
    fn is_ordered_by_pbs_walk(&self) -> bool {
        false
    }

    /// Returns the name of the value that siblings are compared by.
    fn value_name(&self) -> &'static str {
        "fair-share"
    }

    /// Returns the columns that a table has for this ranking policy only.
    fn table_columns(&self, _long: bool) -> &'static [&'static str] {
        &[]
    }

    /// Returns the columns that a JSON document has for this ranking policy only.
    fn document_columns(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns a footnote about the columns of the table, or `None` if they need no footnote.
    fn table_note(&self) -> Option<&'static str> {
        None
    }

    /// Returns a clause that says how a user and a bank with tied values are ranked.
    fn describe_order_of_tied_nodes(&self, _: &Options) -> &'static str {
        "a user comes before a bank"
    }

    /// Returns a clause that says how the formula computes the fair-share `value`.
    fn explain_factor(&self, detail: &NodeDetail, value: f64) -> String {
        format!(
            "fair-share {value:.6} from effective usage {:.6} against norm shares {:.6}",
            detail.effective_usage, detail.norm_shares
        )
    }
}

/// A ranking policy, as a value that can be copied and compared, with the methods of [`RankingPolicy`]. [`Policy::ALL`]
/// lists all values.
#[derive(Clone, Copy)]
pub struct Policy(pub(crate) &'static dyn RankingPolicy);

impl Policy {
    /// Returns the name that users type and documents contain.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// Returns true if the fair-share is rank / N, with ranks from a depth-first visit of the tree, and false if a
    /// formula computes the fair-share.
    pub fn is_rank(self) -> bool {
        self.formula(&Options::default()).is_none()
    }
}

impl Deref for Policy {
    type Target = dyn RankingPolicy;

    fn deref(&self) -> &Self::Target {
        self.0
    }
}

impl Default for Policy {
    fn default() -> Self {
        let [first, ..] = Policy::ALL;
        first
    }
}

// Names are unique (a test parses each of them), so equal names mean equal policies.
impl PartialEq for Policy {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Policy {}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Policy::ALL.into_iter().find(|policy| policy.name() == text);
        let known = || Policy::ALL.map(Policy::name).join(", ");
        found.ok_or_else(|| format!("unknown policy \"{text}\"; known are {}", known()))
    }
}
