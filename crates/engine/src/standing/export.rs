// SPDX-License-Identifier: LGPL-3.0-only
//! Exports the usages of all associations to the snapshot, and restores them after a restart.
//!
//! The plugin must restore the jobs before the push, because a push may leave evicted usage unchanged. An export takes
//! many iterations of the reactor. If jobs are evicted in between, the export returns the sum of their usages later.

use super::usage::{Key, UsageEntry};
use super::{Bank, Job, Leaf, Ranked, Standing, Watermark};
use crate::ids::{BankName, UserId};
use fairshare::accrual::{HalfLife, MAX_PUSHED, MAX_TIME};
use fairshare::{NodeId, Ranking};

/// An ended job that no pushed usage includes. [`UsageTable::track_end`](super::UsageTable::track_end) restores such a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// The job with its start and its resources.
    pub job: Job,
    /// The end in seconds since the epoch.
    pub end: f64,
}

/// The usage of an association's evicted jobs, and the pushed usage to which this usage is added.
#[derive(Clone, Debug, PartialEq)]
pub struct EvictedUsage {
    /// The user id.
    pub user: UserId,
    /// The bank.
    pub bank: BankName,
    /// The usage of the evicted jobs, in seconds times weight.
    pub sum: f64,
    /// `sum` is the usage at this time, in seconds since the epoch.
    pub since: f64,
    /// All jobs that ended at or before this time were evicted.
    pub horizon: f64,
    /// The pushed usage.
    pub pushed: f64,
    /// The time of the usage `pushed`, in seconds since the epoch.
    pub at: f64,
    /// Determines which ended jobs are included in `pushed`.
    pub counted: Watermark,
}

/// A position in the list of ended jobs, from which the next page of an export begins. The default is the start of
/// the list.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bookmark {
    entry: usize,
    /// The index among the ended jobs of the association `entry`.
    job: usize,
    /// The [`Jobs::version`](super::usage::Jobs::version) of the association when the position was stored.
    version: u32,
}

impl Standing {
    /// Ranks the tree by the pushed usages. A push of the same tree in any order gives the same numbers, bit by bit. Returns
    /// `None` without a tree, or if the ranking depends on the order of the push.
    pub fn as_pushed(&self) -> Option<Ranking> {
        let site = self.site.as_ref()?;
        let rule = &site.rule;
        if rule.policy.uses_list_order(&rule.options) {
            return None;
        }
        let mut tree = site.tree.clone();
        for (leaf, entry) in site.tree.leaves().zip(&site.entry_of_leaf) {
            tree.accrue(leaf, self.usages.entry(*entry)?.pushed().0.max(0.0));
        }
        tree.rank(rule.policy, &rule.options).ok()
    }

    /// Returns the fair-share of the association of `user` in `bank` in `ranking`, or `None` if the tree lacks the association.
    pub fn get_pushed_fairshare(&self, ranking: &Ranking, user: UserId, bank: &BankName) -> Option<f64> {
        ranking.fairshare(self.node(self.find(user, bank)?)?)
    }

    /// Returns one page of an export that begins at the position `from`. The first list has ended jobs that no pushed
    /// usage includes. The second list has the usages of evicted jobs. A page has at most `max` jobs of at most `max`
    /// associations. The usage of an association's evicted jobs is on the page of its last job or on a later page. The
    /// last value is the start of the next page, or `None` after the last page.
    ///
    /// If a job is evicted after its page was returned, the usage of evicted jobs on a later page includes the job
    /// again. [`Standing::restore_evicted`] therefore removes the restored jobs that this usage includes.
    pub fn uncovered(&self, from: Bookmark, max: usize) -> (Vec<Ended>, Vec<EvictedUsage>, Option<Bookmark>) {
        let half_life = self.site.as_ref().map_or(HalfLife::NONE, |site| site.scale.half_life());
        let (mut jobs, mut sums) = (Vec::new(), Vec::new());
        for (number, entry) in self.usages.entries().iter().enumerate().skip(from.entry) {
            if number - from.entry >= max || jobs.len() >= max {
                return (jobs, sums, Some(Bookmark { entry: number, ..Bookmark::default() }));
            }
            // If the indices of the ended jobs have changed since the last page, the association is exported again from its first job.
            let is_same = number == from.entry && entry.jobs().version == from.version;
            for (at, tracked) in entry.uncovered(if is_same { from.job } else { 0 }) {
                if jobs.len() >= max {
                    return (
                        jobs,
                        sums,
                        Some(Bookmark { entry: number, job: at, version: entry.jobs().version }),
                    );
                }
                jobs.extend(self.usages.build_ended_record(entry, tracked));
            }
            sums.extend(entry.evicted(half_life));
        }
        (jobs, sums, None)
    }

    /// Restores the usage of evicted jobs, and removes the jobs that this usage includes. A push has the same effect
    /// before and after this call. Returns false if a value is out of range.
    pub fn restore_evicted(&mut self, evicted: EvictedUsage) -> bool {
        let is_time = |time: f64| time.abs() <= MAX_TIME;
        let is_usage = |usage: f64| (0.0..=MAX_PUSHED).contains(&usage);
        let is_valid = is_time(evicted.horizon)
            && (is_time(evicted.since) || evicted.sum == 0.0)
            && is_time(evicted.at)
            && is_usage(evicted.sum)
            && is_usage(evicted.pushed.abs())
            && !evicted.counted.is_invalid();
        if is_valid {
            self.usages.restore_evicted(evicted, self.has_replaced_all);
        }
        is_valid
    }

    /// Returns a bank of the tree; `None` if it is unknown or was left out because it is inactive.
    pub fn bank(&self, name: &BankName) -> Option<Bank> {
        let site = self.site.as_ref()?;
        Some(site.bank(site.tree.bank(name.as_str())?))
    }

    /// Returns the leaf of `user` in `bank`, with the pushed usage, or `None` if the tree lacks the leaf.
    pub fn leaf(&self, user: UserId, bank: &BankName) -> Option<Leaf> {
        self.site.as_ref()?.leaf(self.usages.entry(self.find(user, bank)?.0)?, Some(user), bank)
    }

    /// Returns the leaves that no job matches, sorted by bank and user name.
    pub fn list_leaves_without_jobs(&self) -> Vec<Leaf> {
        let leaf = |entry: &UsageEntry| match entry.key.as_ref()? {
            Key::Jobs(..) => None,
            Key::Leaf(_, bank) => self.site.as_ref()?.leaf(entry, None, bank),
        };
        let mut leaves: Vec<Leaf> = self.usages.entries().iter().filter_map(leaf).collect();
        leaves.sort_unstable_by(|a, b| (&a.bank, &a.name).cmp(&(&b.bank, &b.name)));
        leaves
    }
}

impl Ranked {
    /// Returns the bank at `node`.
    pub(super) fn bank(&self, node: NodeId) -> Bank {
        let tree = &self.tree;
        Bank {
            name: tree.name(node).into(),
            parent: tree.parent(node).map(|parent| tree.name(parent).into()),
            shares: tree.shares(node).count(),
            active: tree.is_active(node),
        }
    }

    /// Returns the leaf of `entry`, with the pushed usage, or `None` if the tree lacks the leaf.
    fn leaf(&self, entry: &UsageEntry, user: Option<UserId>, bank: &BankName) -> Option<Leaf> {
        let (tree, node) = (&self.tree, entry.leaf?);
        let (usage, counted) = entry.pushed();
        Some(Leaf {
            user,
            name: tree.name(node).into(),
            bank: bank.clone(),
            shares: tree.shares(node).count(),
            active: tree.is_active(node),
            usage: (usage != 0.0 || tree.own_usage(node).is_some()).then_some(usage),
            counted: counted.clone(),
        })
    }
}
