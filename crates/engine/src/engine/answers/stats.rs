// SPDX-License-Identifier: LGPL-3.0-only
//! What is going on in the whole instance, in numbers: for monitoring. It looks at every pending and held job, and is the instance
//! owner's alone.

use super::super::LiveSnapshot;
use super::super::View;
use crate::ids::{BankName, QueueName};
use crate::limits::{Allocation, Job, Phase, Size};
use fairshare::Shares;
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
    fn add(&mut self, size: Size) {
        self.jobs += 1;
        self.nodes = self.nodes.saturating_add(size.nodes);
        self.cores = self.cores.saturating_add(size.cores);
    }
}

/// What a live job counts as. Each counts as exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobState {
    /// It has resources.
    Running,
    /// It is in PRIORITY or SCHED, and no limit holds it.
    Pending,
    /// One of our limits holds it.
    Held,
    /// Its user has no data here.
    Waiting,
    /// It is in DEPEND, and none of our limits holds it.
    Blocked,
    /// It is in CLEANUP without resources.
    Ending,
}

impl JobState {
    /// All of them.
    pub const ALL: [JobState; 6] = [
        JobState::Running,
        JobState::Pending,
        JobState::Held,
        JobState::Waiting,
        JobState::Blocked,
        JobState::Ending,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            JobState::Running => "running",
            JobState::Pending => "pending",
            JobState::Held => "held",
            JobState::Waiting => "waiting",
            JobState::Blocked => "blocked",
            JobState::Ending => "ending",
        }
    }

    fn of_job(job: &Job) -> JobState {
        match job.phase {
            Phase::Run => JobState::Running,
            Phase::Cleanup => JobState::Ending,
            _ if job.association().is_none() => JobState::Waiting,
            _ if job.is_held() => JobState::Held,
            Phase::Sched | Phase::Priority => JobState::Pending,
            Phase::New | Phase::Depend => JobState::Blocked,
        }
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
    /// The same by what they count as.
    pub states: BTreeMap<JobState, u64>,
    /// Those that exceed each limit now.
    pub held_by_limit: Vec<(&'static str, u64)>,
    /// Pending jobs, with what they ask for.
    pub pending: ByPlace,
    /// Held jobs, with what they ask for.
    pub held: ByPlace,
    /// Running jobs, with what they were given. Jobs that share a node count it each.
    pub running: ByPlace,
    /// The banks of the tree.
    pub banks: Vec<BankStats>,
    /// Refreshes that have ended, and the priorities that they posted.
    pub refreshes: (u64, u64),
    /// Live fair-share.
    pub snapshot: LiveSnapshot,
}

/// The instance in numbers.
pub fn stats(view: &View<'_>, now: f64) -> Stats {
    let rules = view.ledger.rules();
    let mut held_by_limit: Vec<(&'static str, u64)> = rules.all().map(|(hold, _)| (hold.name(), 0)).collect();
    let (mut pending, mut held, mut running) = (ByPlace::new(), ByPlace::new(), ByPlace::new());
    let mut states: BTreeMap<JobState, u64> = JobState::ALL.map(|state| (state, 0)).into();
    for (id, job) in view.ledger.jobs() {
        let place = || (view.bank_of(job.association()).or_else(|| job.bank.clone()), job.queue.clone());
        let state = JobState::of_job(job);
        *states.entry(state).or_default() += 1;
        let given = job.allocation.as_deref().map_or(job.size, Allocation::size);
        match state {
            JobState::Running => running.entry(place()).or_default().add(given),
            JobState::Pending => pending.entry(place()).or_default().add(job.size),
            JobState::Held => held.entry(place()).or_default().add(job.size),
            JobState::Waiting | JobState::Blocked | JobState::Ending => {}
        }
        if state == JobState::Held {
            let exceeded = view.ledger.exceeded_by(&view.book, id);
            for hold in rules.members(exceeded) {
                match held_by_limit.iter_mut().find(|(name, _)| *name == hold.name()) {
                    Some((_, jobs)) => *jobs += 1,
                    None => held_by_limit.push((hold.name(), 1)),
                }
            }
        }
    }
    let extent = view.extent();
    Stats {
        associations: extent.associations,
        queues: extent.queues,
        live: view.ledger.len(),
        states,
        held_by_limit,
        pending,
        held,
        running,
        banks: bank_stats(view, now),
        refreshes: view.refresh.totals(),
        snapshot: view.live_snapshot(),
    }
}

fn bank_stats(view: &View<'_>, now: f64) -> Vec<BankStats> {
    let (Some(tree), Some(ranking)) = (view.standing.tree(), view.standing.ranking()) else {
        return Vec::new();
    };
    let scale = view.standing.scale();
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
