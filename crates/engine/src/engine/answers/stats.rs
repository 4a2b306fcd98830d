// SPDX-License-Identifier: LGPL-3.0-only
//! The answer to `stats`: counts of the whole instance, for monitoring. The engine visits every live job to
//! compute the answer, so guests may not request it.

use super::super::{LastRefresh, View};
use super::budgets::{BudgetShown, list_budgets};
use super::heading::Heading;
use crate::ids::{BankName, QueueName, Word};
use crate::limits::{Allocation, Job, Phase, Size};
use fairshare::charging::{ChargeBy, ChargeChange};
use fairshare::insert_all;
use fairshare::periods::Resources;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The answer to the request `stats`. The engine leaves some fields empty, such as the version, and the plugin fills
/// them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stats {
    /// The state of the plugin.
    #[serde(flatten)]
    pub heading: Heading,
    /// The version of the plugin.
    pub version: Option<Word>,
    /// When the plugin last got data, in seconds since the epoch.
    pub updated: Option<f64>,
    /// Associations, without removed ones.
    pub associations: usize,
    /// Queues.
    pub queues: usize,
    /// Live jobs by state.
    pub jobs: JobCounts,
    /// For each limit, the number of held jobs that exceed it now.
    pub held_by_limit: BTreeMap<Word, u64>,
    /// The number of pending jobs, and the nodes and cores that they request, by bank and queue.
    pub pending: Vec<Load>,
    /// The number of held jobs, and the nodes and cores that they request, by bank and queue.
    pub held: Vec<Load>,
    /// The number of running jobs, and their allocated nodes and cores, by bank and queue. A node that several jobs
    /// share is counted once for each of them.
    pub running: Vec<Load>,
    /// The banks of the tree.
    pub banks: Vec<BankStats>,
    /// The budgets of the last push. If there are no budgets, the answer does not contain the key.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<BudgetShown>,
    /// Refreshes of live fair-share.
    pub refresh: RefreshStats,
    /// Pushes.
    pub push: PushStats,
    /// The numbers of calls, by method. Only methods that all users may call are included.
    pub requests: BTreeMap<Word, RequestStats>,
    /// The number of requests of users that are waiting for an answer.
    pub waiting_requests: usize,
    /// The charge factors of queues; `None` if no queue has had another factor than 1 since the plugin was loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub charges: Option<ChargeStats>,
    /// The number of associations whose counters differ from a recount, if the request asked for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift: Option<usize>,
}

/// Live jobs by state. Each job counts in exactly one state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobCounts {
    /// All live jobs.
    pub live: u64,
    /// Jobs with allocated resources.
    pub running: u64,
    /// Jobs in PRIORITY or SCHED that no limit holds, except for those with priority 0.
    pub pending: u64,
    /// Jobs that a limit of this plugin holds.
    pub held: u64,
    /// Jobs without an association.
    pub waiting: u64,
    /// Jobs that a reason other than a limit keeps from running: in DEPEND, or at priority 0.
    pub blocked: u64,
    /// Jobs in CLEANUP without allocated resources.
    pub ending: u64,
}

/// The jobs of a bank in a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Load {
    /// The bank.
    pub bank: Option<BankName>,
    /// The queue.
    pub queue: Option<QueueName>,
    /// The number of jobs.
    pub jobs: u64,
    /// The total number of nodes of the jobs.
    pub nodes: u64,
    /// The cores of these jobs.
    pub cores: u64,
}

/// A bank of the tree.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BankStats {
    /// The name of the bank.
    pub bank: String,
    /// The parent bank.
    pub parent: Option<String>,
    /// The shares of the bank.
    pub shares: u64,
    /// The fraction that the bank has of the shares of all siblings, 0 to 1.
    pub shares_part: f64,
    /// The fraction that the bank has of the shares of the site, 0 to 1.
    pub promised: f64,
    /// The usage of the bank at the time of the answer.
    pub usage: f64,
    /// The fraction that the bank has of the usage of all siblings, 0 to 1.
    pub usage_part: f64,
    /// The fraction that the bank has of the usage of the site, 0 to 1.
    pub delivered: f64,
    /// The fair-share of the bank, if the ranking policy computes one for banks.
    pub fairshare: Option<f64>,
    /// The number of associations right below the bank.
    pub associations: usize,
}

impl BankStats {
    /// Returns the bank's fraction of the shares divided by its fraction of the usage. The result is infinite for a
    /// bank without usage, and `None` for a bank without shares.
    pub fn level(&self) -> Option<f64> {
        match (self.shares_part, self.usage_part) {
            (0.0, _) => None,
            (_, 0.0) => Some(f64::INFINITY),
            (share, usage) => Some(share / usage),
        }
    }
}

/// The number of refreshes, and the time that they took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RefreshStats {
    /// Refreshes that have ended.
    pub total: u64,
    /// The time that all refreshes took, in seconds.
    pub seconds_total: f64,
    /// The number of priorities that all refreshes posted.
    pub touched_total: u64,
    /// The last refresh.
    pub last: Option<LastRefresh>,
    /// True if a refresh is in progress.
    pub under_way: bool,
    /// Pending jobs whose posted priority is stale.
    pub lagging: usize,
}

/// The number of pushes, and the time that they took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PushStats {
    /// Pushes.
    pub total: u64,
    /// The time that all pushes took, in seconds.
    pub seconds_total: f64,
    /// The last push.
    pub last: Option<LastPush>,
}

/// The last push.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LastPush {
    /// When the push came, in seconds since the epoch.
    pub when: f64,
    /// The time that the push took, in seconds.
    pub seconds: f64,
}

/// Calls of a method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestStats {
    /// All calls.
    pub total: u64,
    /// Calls that were delayed, because the plugin limits the time that calls of guests take.
    pub deferred: u64,
    /// Calls that were refused because the request was too long, or because too many requests were waiting.
    pub refused: u64,
}

/// The jobs of each bank and queue.
type Loads = BTreeMap<(Option<BankName>, Option<QueueName>), Load>;

fn add_job(loads: &mut Loads, view: &View<'_>, job: &Job, size: Size) {
    let (bank, queue) = (view.bank_of_job(job), job.queue.clone());
    let load = loads.entry((bank.clone(), queue.clone()));
    let load = load.or_insert_with(|| Load { bank, queue, ..Load::default() });
    load.jobs += 1;
    load.nodes = load.nodes.saturating_add(size.nodes);
    load.cores = load.cores.saturating_add(size.cores);
}

/// Returns the answer to `stats` with the fields that the engine fills.
pub fn stats(view: &View<'_>, heading: Heading) -> Stats {
    let rules = view.ledger.rules();
    let mut held_by_limit: BTreeMap<Word, u64> =
        insert_all(rules.all().map(|(hold, _)| (Cow::Borrowed(hold.name()), 0)));
    let (mut pending, mut held, mut running) = (Loads::default(), Loads::default(), Loads::default());
    let mut jobs = JobCounts::default();
    for (id, job) in view.ledger.jobs() {
        jobs.live += 1;
        match job.phase {
            Phase::Run => {
                jobs.running += 1;
                let size = job.allocation.as_deref().map_or(job.size, Allocation::size);
                add_job(&mut running, view, job, size);
            }
            Phase::Cleanup => jobs.ending += 1,
            _ if job.association().is_none() => jobs.waiting += 1,
            _ if job.is_held() => {
                jobs.held += 1;
                add_job(&mut held, view, job, job.size);
                for hold in rules.members(view.limits().exceeded_by(id)) {
                    *held_by_limit.entry(Cow::Borrowed(hold.name())).or_default() += 1;
                }
            }
            Phase::Sched | Phase::Priority if view.posted.posted_priority(id) != Some(0) => {
                jobs.pending += 1;
                add_job(&mut pending, view, job, job.size);
            }
            _ => jobs.blocked += 1,
        }
    }
    let (total, touched_total) = view.refresh.totals();
    let (last, under_way) = view.refresh.last_refresh();
    Stats {
        associations: view.book.len(),
        queues: view.book.tables().queues.len(),
        jobs,
        held_by_limit,
        pending: pending.into_values().collect(),
        held: held.into_values().collect(),
        running: running.into_values().collect(),
        banks: list_bank_stats(view, heading.now),
        budgets: list_budgets(view, heading.now),
        refresh: RefreshStats {
            total,
            touched_total,
            last,
            under_way,
            lagging: view.posted.count_pending_and_stale().1,
            ..RefreshStats::default()
        },
        charges: charge_stats(view),
        heading,
        ..Stats::default()
    }
}

fn list_bank_stats(view: &View<'_>, now: f64) -> Vec<BankStats> {
    let (Some(tree), Some(ranking)) = (view.standing.tree(), view.standing.ranking()) else {
        return Vec::new();
    };
    let scale = view.standing.scale();
    let unscale = |scaled: f64| scale.map_or(scaled, |scale| scale.plain(scaled, now));
    let site = ranking.usage(tree, tree.root());
    let fraction = |amount: f64, all: f64| if all > 0.0 { amount / all } else { 0.0 };
    let mut promised: BTreeMap<usize, f64> = BTreeMap::new();
    let mut sibling_shares: BTreeMap<usize, f64> = BTreeMap::new();
    let mut banks = Vec::new();
    // A bank comes after its parent.
    for node in tree.banks() {
        let parent = tree.parent(node);
        let (shares, usage) = (tree.shares(node).count(), ranking.usage(tree, node));
        let (shares_part, usage_part) = match parent {
            None => (1.0, 1.0),
            Some(parent) => {
                let sum = || tree.children(parent).map(|other| tree.shares(other).count() as f64).sum();
                let all = *sibling_shares.entry(parent.index()).or_insert_with(sum);
                (fraction(shares as f64, all), fraction(usage, ranking.usage(tree, parent)))
            }
        };
        let above = parent.and_then(|parent| promised.get(&parent.index()).copied()).unwrap_or(1.0);
        promised.insert(node.index(), above * shares_part);
        banks.push(BankStats {
            bank: tree.name(node).to_owned(),
            parent: parent.map(|parent| tree.name(parent).to_owned()),
            shares,
            shares_part,
            promised: above * shares_part,
            usage: unscale(usage),
            usage_part,
            delivered: fraction(usage, site),
            fairshare: ranking.fairshare(node),
            associations: tree.children(node).filter(|child| child.index() < tree.root().index()).count(),
        });
    }
    banks
}

/// The charge factors of queues.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChargeStats {
    /// The factors in the configuration that the plugin read last.
    pub configured: BTreeMap<QueueName, f64>,
    /// The changes of charge factors, by queue and time. They come from the last push, and from the configurations that
    /// the plugin read after the push.
    pub changes: Vec<ChargeChange>,
    /// When the plugin first read a configuration after it was loaded, in seconds since the epoch. From this time on, a
    /// queue that is not in `changes` has the factor 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen_since: Option<f64>,
    /// The rule by which jobs that start now are charged for their resources: `sum` or `max`.
    pub charge_by: Word,
    /// The numbers of nodes, cores and GPUs of the site. If `charge_by` is `max`, a job is charged only for the
    /// resource of which it has the largest fraction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub totals: Option<[u64; 3]>,
}

/// Returns how jobs are charged; `None` if no queue has a factor and jobs are charged for the sum of their resources.
pub fn charge_stats(view: &View<'_>) -> Option<ChargeStats> {
    let configured = &view.settings.charges;
    let history = view.standing.usages.charging().history();
    if configured.is_empty() && history.is_empty() && view.settings.charge_by == ChargeBy::Sum {
        return None;
    }
    let rule = history.rules().last();
    let charge_by = rule.map_or(ChargeBy::Sum, |rule| rule.charge_by);
    let totals = rule.filter(|rule| rule.charge_by == ChargeBy::Max).map(|rule| rule.totals);
    Some(ChargeStats {
        configured: configured.clone(),
        changes: history.changes().collect(),
        seen_since: view.standing.usages.charging().seen_since(),
        charge_by: charge_by.name().into(),
        totals: totals.map(|Resources { nodes, cores, gpus }| [nodes, cores, gpus]),
    })
}
