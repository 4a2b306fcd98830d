// SPDX-License-Identifier: LGPL-3.0-only
//! Computes the usage and the fair-share of each association at any time.
//!
//! ```text
//! StagedSite (a push) ──> tree ─────────────┐
//!                     └─> pushed usage     ├─> refresh(now) ──> changed fair-shares
//! jobs start, end ──────> tracked jobs ─────┘
//! ```
//!
//! The usage of an association consists of the pushed usage and the jobs that the pushed usage does not
//! include. A watermark determines which ended jobs the pushed usage includes. The usage at a given time is a
//! function of these jobs and the pushed usage alone. The order of pushes, starts and ends, their repetition,
//! and jumps of the clock therefore do not change the usage.
//!
//! # Rules
//!
//! - A leaf is identified by user name and bank. The association of a job is identified by user id and bank. If several
//!   leaves of a bank have the same user id, the jobs of this user id belong to the last of these leaves. Their limits
//!   are those of the last leaf's record.
//! - A job is identified by its id. It always belongs to the association under which it started. If two ends are
//!   recorded for a job, the earlier end applies. An end may be recorded without a start.
//! - The usage includes a job unless the job ended at or before the watermark of its association. In that case the
//!   pushed usage already includes the job, and the job is called covered. Covered jobs are kept for a while, because a
//!   late push may have an earlier watermark.
//! - **Eviction**: if there are more ended jobs than [`Retention`] allows, the earliest ones are evicted, association by
//!   association. Covered jobs are dropped. The usages of all other evicted jobs become one decaying sum, which cannot
//!   be split. A push whose watermark lies before the end of the sum leaves the usage of the association unchanged,
//!   which is exact. A push whose watermark covers the sum replaces the sum. While
//!   [`UsageTable::keep_all_ended_jobs`] is on, no job is evicted, so that a restart may read jobs in any order.
//!   Afterwards an unknown job that ended before the last evicted job is assumed to be in the sum.
//! - If an association **appears**, its usage includes its jobs from their start, even if they started before it appeared.
//! - If an association **disappears**, it has no fair-share. Its jobs are kept as long as they may count again, because
//!   a later push may add the association again.
//! - If an association **moves** to another bank, it is a new association. The usage in the former bank stays there, as in
//!   the accounting database.
//! - If a bank moves, its associations and their usage move with it.
//! - A push replaces the tree. A push with [`Rule::replaces_all`] also replaces all sums of evicted jobs, whatever its
//!   watermarks are.
//! - New weights apply from their push on, to all jobs that were not evicted.
//! - A usage below 1e-9 counts as 0.
//!
//! # Method
//!
//! The tree holds scaled usages ([`fairshare::accrual::Scale`]). The scaled usage of an association without running jobs is
//! constant, bit by bit, until it becomes negligible. A refresh updates the associations that have running jobs or that changed,
//! and ranks the tree if a usage changed. It works in slices ([`Standing::compute_refresh_slice`]).

mod agenda;
mod change;
mod charging;
mod export;
mod jobs;
mod order;
mod page;
mod push;
mod refresh;
mod site;
mod staged_site;
mod table;
mod turns;
mod usage;

use crate::ids::{BankName, UserId};
use fairshare::accrual::{Mode, Scale};
use fairshare::{NodeId, Ranking, Tree};

use refresh::RefreshState;

pub use change::SiteChange;
pub use charging::ChargeFactors;
pub use export::{Bookmark, Ended, EvictedUsage};
pub use jobs::{InvalidJobTime, Job};
pub use page::{LeafRow, TreePage};
pub use refresh::{Changed, Refreshed};
pub use site::{Bank, Leaf, RESET, Rule, Watermark};
pub use staged_site::{Charges, SitePart, StagedSite};
pub use table::{EndedRun, UsageTable};
pub use turns::{Charging, Turns};

/// The index of an association of one [`Standing`]. It stays the same as long as the tree has the
/// association, or one of its jobs is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Index(u32);

impl Index {
    /// Returns the position of the association in lists that have one entry for each association.
    pub fn get(self) -> usize {
        self.0 as usize
    }
}

/// Leaves that share a user id with a later leaf of the same bank. Jobs with that id count in the later leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedIds {
    /// The number of leaves that no job matches because they share a user id.
    pub leaves: usize,
    /// An example of a leaf that no job matches: its user name, user id and bank.
    pub example: (Box<str>, UserId, BankName),
    /// The user name of the leaf that gets the jobs of the user id in `example`.
    pub counts_in: Box<str>,
}

/// The limits on the number of ended jobs that are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The maximum number of ended jobs of all associations together. Ended jobs beyond it are evicted.
    pub jobs: usize,
    /// The number of the latest jobs of each association that are never evicted.
    pub each: usize,
}

impl Default for Retention {
    fn default() -> Self {
        Retention { jobs: 200_000, each: 16 }
    }
}

/// The usage of all associations, their jobs, and the ranked tree.
#[derive(Clone, Debug, Default)]
pub struct Standing {
    /// The usages, and the jobs that count in them.
    pub usages: UsageTable,
    site: Option<Ranked>,
    work: RefreshState,
    /// True if a push with [`Rule::replaces_all`] was accepted. Evicted usage that is restored later is then ignored.
    has_replaced_all: bool,
    generation: u64,
}

/// The tree of the last push with its ranking.
#[derive(Clone, Debug)]
struct Ranked {
    rule: Rule,
    /// How running jobs accrue usage.
    mode: Mode,
    tree: Tree,
    scale: Scale,
    ranking: Ranking,
    /// False between a push and the refresh that ranks its tree.
    is_ranked: bool,
    /// The association of each leaf.
    entry_of_leaf: Vec<u32>,
    shared_ids: Option<SharedIds>,
}

impl Standing {
    /// Returns a standing without a tree.
    pub fn new(retention: Retention) -> Standing {
        Standing { usages: UsageTable::new(retention), ..Standing::default() }
    }

    /// Returns the association of a user in a bank, if the tree has the association or one of its jobs is
    /// kept.
    pub fn find(&self, user: UserId, bank: &BankName) -> Option<Index> {
        self.usages.find(user, bank).map(Index)
    }

    /// Returns the leaves of the last push that share a user id with another leaf of their bank; `None` if there are none.
    pub fn shared_ids(&self) -> Option<&SharedIds> {
        self.site.as_ref()?.shared_ids.as_ref()
    }

    /// Returns the fair-share of the last refresh; `None` for an association that the tree lacks, or that is inactive.
    pub fn fairshare(&self, association: Index) -> Option<f64> {
        self.usages.entry(association.0)?.fairshare
    }

    /// Returns the exact usage at `now`, in seconds times weight; `None` before the first push.
    pub fn usage(&self, association: Index, now: f64) -> Option<f64> {
        let site = self.site.as_ref()?;
        Some(self.usages.entry(association.0)?.usage(now, site.mode, site.scale.half_life()))
    }

    /// Returns the node of `association` in [`Standing::tree`], or `None` if the tree lacks the association.
    pub fn node(&self, association: Index) -> Option<NodeId> {
        self.usages.entry(association.0)?.leaf
    }

    /// Returns the user id of the jobs that count in a leaf of [`Standing::tree`]; `None` for a leaf that no job matches.
    pub fn user(&self, leaf: NodeId) -> Option<UserId> {
        let at = self.site.as_ref()?.entry_of_leaf.get(leaf.index())?;
        Some(self.usages.entry(*at)?.job_key()?.0)
    }

    /// Returns the tree of the last refresh, or `None` if no tree was pushed. The usages in the tree are scaled, which does not change
    /// their order.
    pub fn tree(&self) -> Option<&Tree> {
        self.site.as_ref().map(|site| &site.tree)
    }

    /// Returns the ranking of the last refresh, or `None` between a push and the next refresh. The usages have the
    /// units of [`Standing::scale`].
    pub fn ranking(&self) -> Option<&Ranking> {
        self.site.as_ref().filter(|site| site.is_ranked).map(|site| &site.ranking)
    }

    /// Returns the units of the usages in the tree, or `None` if no tree was pushed.
    pub fn scale(&self) -> Option<Scale> {
        self.site.as_ref().map(|site| site.scale)
    }

    /// Returns the earliest watermark of all associations in the tree, or `since` if that is later.
    pub fn earliest_watermark(&self, since: f64) -> f64 {
        let in_tree = self.usages.entries().iter().filter(|entry| entry.leaf.is_some());
        in_tree.map(|entry| entry.pushed().1.end()).fold(f64::INFINITY, f64::min).max(since)
    }

    /// Returns the usage reset period of the last push, in seconds. The engine reads from job-list only jobs
    /// that ended within this period.
    pub fn reset(&self) -> f64 {
        self.rule().map_or(RESET, |rule| rule.reset)
    }

    /// Returns the rules of the last push, or `None` if there is no tree. The field `replaces_all` of the result is
    /// always false, because a restored plugin has no older usage.
    pub fn rule(&self) -> Option<&Rule> {
        self.site.as_ref().map(|site| &site.rule)
    }

    /// Returns the number of pushes plus the number of refreshes that changed a fair-share.
    pub fn generation(&self) -> u64 {
        self.generation
    }
}

#[cfg(test)]
mod tests;
