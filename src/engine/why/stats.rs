// SPDX-License-Identifier: LGPL-3.0-only
//! What is going on in the whole instance, in numbers: for monitoring. It looks at every pending and held job, and is the instance
//! owner's alone.

use super::super::{Engine, LiveSnapshot};
use crate::fairshare::Shares;
use crate::ids::{BankName, QueueName};
use crate::limits::{Job, Keepers, Phase};
use std::collections::BTreeMap;

/// Jobs of a bank in a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobSums {
    /// How many.
    pub jobs: u64,
    /// Their nodes.
    pub nodes: u64,
    /// Their cores.
    pub cores: u64,
}

impl JobSums {
    fn add(&mut self, job: &Job) {
        self.jobs += 1;
        self.nodes = self.nodes.saturating_add(job.size.nodes);
        self.cores = self.cores.saturating_add(job.size.cores);
    }
}

/// Jobs by bank and queue.
type ByPlace = BTreeMap<(Option<BankName>, Option<QueueName>), JobSums>;

/// A bank of the tree.
#[derive(Clone, Debug, PartialEq)]
pub struct BankStats {
    /// Its name.
    pub bank: String,
    /// The bank above.
    pub parent: Option<String>,
    /// What it was promised.
    pub shares: Shares,
    /// The same, as a part of its siblings'.
    pub shares_part: f64,
    /// The same, as a part of the site.
    pub promised: f64,
    /// What it has used.
    pub usage: f64,
    /// The same, as a part of its siblings'.
    pub usage_part: f64,
    /// The same, as a part of the site's.
    pub delivered: f64,
    /// Its fair-share, where the policy gives banks one.
    pub fairshare: Option<f64>,
    /// Associations right below it.
    pub associations: usize,
}

/// The instance in numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Stats {
    /// Associations in force.
    pub associations: usize,
    /// Queues.
    pub queues: usize,
    /// Live jobs.
    pub live: usize,
    /// Of these, those that wait for an association.
    pub waiting: usize,
    /// Those that exceed each limit now.
    pub held_by_limit: Vec<(&'static str, u64)>,
    /// Those that others keep in DEPEND.
    pub kept_by_others: u64,
    /// Those with a price, or on their way to one.
    pub pending: ByPlace,
    /// Held ones.
    pub held: ByPlace,
    /// Running ones.
    pub running: ByPlace,
    /// The banks of the tree.
    pub banks: Vec<BankStats>,
    /// How often a refresh was done, how long they took over all, how many prices they posted.
    pub refreshes: (u64, f64, u64),
    /// Live fair-share.
    pub snapshot: LiveSnapshot,
}

impl Engine {
    /// The instance in numbers.
    pub fn stats(&self, now: f64) -> Stats {
        let rules = self.ledger.rules();
        let mut held_by_limit: Vec<(&'static str, u64)> =
            rules.all().map(|(hold, _)| (hold.name(), 0)).collect();
        let (mut pending, mut held, mut running) = (ByPlace::new(), ByPlace::new(), ByPlace::new());
        let mut kept_by_others = 0;
        for (id, job) in self.ledger.jobs() {
            let place = || (self.bank_of(job.association()).or_else(|| job.bank.clone()), job.queue.clone());
            if job.is_held() {
                held.entry(place()).or_default().add(job);
                let exceeded = self.ledger.exceeded_by(&self.book, id);
                for hold in rules.members(exceeded) {
                    let row = held_by_limit.iter_mut().find(|(name, _)| *name == hold.name());
                    row.into_iter().for_each(|(_, jobs)| *jobs += 1);
                }
            } else {
                match job.phase {
                    Phase::Run => running.entry(place()).or_default().add(job),
                    Phase::Sched | Phase::Priority => pending.entry(place()).or_default().add(job),
                    Phase::New | Phase::Depend | Phase::Cleanup => {}
                }
            }
            kept_by_others += u64::from(job.phase == Phase::Depend && job.keepers == Keepers::Others);
        }
        let extent = self.extent();
        Stats {
            associations: extent.associations,
            queues: extent.queues,
            live: self.ledger.len(),
            waiting: self.ledger.waiting().count(),
            held_by_limit,
            kept_by_others,
            pending,
            held,
            running,
            banks: self.bank_stats(now),
            refreshes: self.refreshes(),
            snapshot: self.live_snapshot(),
        }
    }

    fn bank_stats(&self, now: f64) -> Vec<BankStats> {
        let (Some(tree), Some(ranking)) = (self.standing.tree(), self.standing.ranking()) else {
            return Vec::new();
        };
        let scale = self.standing.scale();
        let plain = |scaled: f64| scale.map_or(scaled, |scale| scale.plain(scaled, now));
        let site = ranking.usage(tree, tree.root());
        let part = |one: f64, all: f64| if all > 0.0 { one / all } else { 0.0 };
        let mut promised: BTreeMap<usize, f64> = BTreeMap::new();
        let mut below: BTreeMap<usize, f64> = BTreeMap::new();
        let mut banks = Vec::new();
        // Each comes after the bank above it.
        for node in tree.banks() {
            let parent = tree.parent(node);
            let usage = ranking.usage(tree, node);
            let (shares_part, usage_part) = match parent {
                None => (1.0, 1.0),
                Some(parent) => {
                    let count = |shares| if let Shares::Count(count) = shares { count as f64 } else { 0.0 };
                    let sum = || tree.children(parent).map(|other| count(tree.shares(other))).sum();
                    let all = *below.entry(parent.index()).or_insert_with(sum);
                    (part(count(tree.shares(node)), all), part(usage, ranking.usage(tree, parent)))
                }
            };
            let above = parent.and_then(|parent| promised.get(&parent.index()).copied()).unwrap_or(1.0);
            promised.insert(node.index(), above * shares_part);
            banks.push(BankStats {
                bank: tree.name(node).to_owned(),
                parent: parent.map(|parent| tree.name(parent).to_owned()),
                shares: tree.shares(node),
                shares_part,
                promised: above * shares_part,
                usage: plain(usage),
                usage_part,
                delivered: part(usage, site),
                fairshare: ranking.fairshare(node),
                associations: tree.children(node).filter(|child| child.index() < tree.root().index()).count(),
            });
        }
        banks
    }
}
