// SPDX-License-Identifier: LGPL-3.0-only
//! The metrics: their names, their help texts, and their values from the plugin's answer.

use std::collections::BTreeMap;

use super::exposition::{Family, Kind};
use super::window::{BankShares, Window, jain_index};
use crate::ui::words::Words;

use Kind::{Counter, Gauge};
use fairshare_engine::engine::answers::{AssociationJobs, BankStats, BudgetShown, Load, Standings, Stats};

/// Returns all families for an answer to `stats`. At most `most` banks, and `most` pairs of bank and queue, get labels of their own.
pub(crate) fn build_metric_families(stats: &Stats, window: &Window, most: usize) -> Vec<Family> {
    let counter = |name, help, value: f64| Family::single(name, Counter, help, Some(value));
    let mut all = vec![
        gauge("up", "Whether the plugin answered", 1.0),
        gauge(
            "associations",
            "Associations in the plugin's data, with that of the instance owner",
            stats.associations as f64,
        ),
        gauge("queues", "Queues in the plugin's data", stats.queues as f64),
        gauge("banks", "Banks in the tree", stats.banks.len() as f64),
        gauge(
            "generation",
            "Generation of the data in force, which each push increments",
            stats.heading.generation as f64,
        ),
        gauge(
            "live",
            "Whether the plugin computes fair-shares itself (live fair-share)",
            f64::from(u8::from(stats.heading.live)),
        ),
    ];
    let age = stats.updated.map(|updated| (stats.heading.now - updated).max(0.0));
    all.push(gauge("data_age_seconds", "Seconds since the data were last updated", age));
    all.push(jobs_family(stats));
    let mut held = Family::new("held_jobs", Gauge, "Jobs held, by limit");
    for (limit, jobs) in &stats.held_by_limit {
        held.add(&[("limit", limit)], *jobs as f64);
    }
    all.push(held);
    all.extend(make_bank_and_queue_metric_families(stats, most));
    all.extend(make_bank_metric_families(stats, window, most));
    all.extend(make_budget_metric_families(stats, most));
    let refresh = &stats.refresh;
    let last = refresh.last.as_ref();
    all.extend([
        counter("refreshes", "Live fair-share refreshes", refresh.total as f64),
        counter(
            "refresh_seconds",
            "Time that refreshes kept the job manager busy, without the pauses between their steps",
            refresh.seconds_total,
        ),
        counter("posted_priorities", "Priorities that refreshes posted", refresh.touched_total as f64),
        gauge(
            "last_refresh_seconds",
            "Time that the last refresh kept the job manager busy",
            last.and_then(|last| last.seconds),
        ),
        gauge(
            "refresh_age_seconds",
            "Seconds since the last refresh",
            last.map(|last| (stats.heading.now - last.when).max(0.0)),
        ),
        gauge(
            "last_posted_priorities",
            "Priorities that the last refresh posted",
            last.map(|last| last.touched as f64),
        ),
        gauge(
            "stale_jobs",
            "Pending jobs whose posted priority differs from the current one",
            refresh.lagging as f64,
        ),
        gauge("refreshing", "Whether a refresh is in progress", f64::from(u8::from(refresh.under_way))),
        counter("pushes", "Pushes that put data in force", stats.push.total as f64),
        counter(
            "push_seconds",
            "Time that these pushes kept the job manager busy, summed over all their requests",
            stats.push.seconds_total,
        ),
        gauge(
            "last_push_seconds",
            "Time that the last push kept the job manager busy, summed over all its requests",
            stats.push.last.as_ref().map(|last| last.seconds),
        ),
        gauge(
            "drift",
            "Associations whose counters differ from a recount",
            stats.drift.map(|drift| drift as f64),
        ),
        gauge(
            "overruled",
            "1 while another priority plugin decides the priorities of jobs",
            f64::from(u8::from(stats.heading.overruled.is_some())),
        ),
    ]);
    all.extend(build_request_metric_families(stats));
    all
}

/// Returns a gauge with one sample, or without samples if the value is `None`.
fn gauge(name: &'static str, help: &'static str, value: impl Into<Option<f64>>) -> Family {
    Family::single(name, Gauge, help, value.into())
}

/// Returns the families that are exported if the plugin does not answer.
pub(crate) fn build_metric_families_without_plugin() -> Vec<Family> {
    vec![gauge("up", "Whether the plugin answered", 0.0)]
}

/// Returns the metric families with a label for each user. They are exported only on request.
pub(crate) fn user_families(standing: &Standings, words: &Words<'_>) -> Vec<Family> {
    let mut fairshare = Family::new("association_fairshare", Gauge, "Fair-share of an association");
    let mut usage = Family::new(
        "association_usage_weighted_seconds",
        Gauge,
        "Decayed usage of an association: seconds of its nodes, cores and GPUs, each by its weight",
    );
    let mut waiting = Family::new("association_jobs", Gauge, "Jobs of an association, by state");
    for association in &standing.associations {
        let user = words.user(association.userid.0);
        let labels = [("user", user.as_str()), ("bank", association.bank.as_str())];
        if let Some(value) = association.fairshare {
            fairshare.add(&labels, value);
        }
        if let Some(value) = association.usage {
            usage.add(&labels, value);
        }
        let AssociationJobs { running, pending, held, blocked, .. } = association.jobs;
        let states = [("running", running), ("pending", pending), ("held", held), ("blocked", blocked)];
        for (state, jobs) in states {
            waiting.add(&[labels[0], labels[1], ("state", state)], jobs as f64);
        }
    }
    vec![fairshare, usage, waiting]
}

fn jobs_family(stats: &Stats) -> Family {
    let mut family = Family::new(
        "jobs",
        Gauge,
        "Active jobs by state; held: by a limit of this plugin, waiting: for data about its user, blocked: held in DEPEND by something other than this plugin, or at priority 0 by its urgency or its score",
    );
    let jobs = stats.jobs;
    for (state, jobs) in [
        ("running", jobs.running),
        ("pending", jobs.pending),
        ("held", jobs.held),
        ("waiting", jobs.waiting),
        ("blocked", jobs.blocked),
        ("ending", jobs.ending),
    ] {
        family.add(&[("state", state)], jobs as f64);
    }
    family
}

/// Returns jobs, nodes and cores by bank and queue. The `most` pairs with the most jobs get labels of their own. All other
/// pairs are summed under empty labels.
fn make_bank_and_queue_metric_families(stats: &Stats, most: usize) -> Vec<Family> {
    type Pick = fn(&Load) -> u64;
    let kinds: [(&'static str, &'static str, &[Load], Pick); 6] = [
        ("pending_jobs", "Pending jobs, by bank and queue", &stats.pending, |load| load.jobs),
        ("pending_nodes", "Nodes that pending jobs ask for, by bank and queue", &stats.pending, |load| {
            load.nodes
        }),
        ("pending_cores", "Cores that pending jobs ask for, by bank and queue", &stats.pending, |load| {
            load.cores
        }),
        ("running_jobs", "Running jobs, by bank and queue", &stats.running, |load| load.jobs),
        (
            "running_nodes",
            "Nodes of running jobs, by bank and queue; a shared node counts once per job",
            &stats.running,
            |load| load.nodes,
        ),
        ("running_cores", "Cores of running jobs, by bank and queue", &stats.running, |load| load.cores),
    ];
    let family = |(name, help, loads, pick): (&'static str, &'static str, &[Load], Pick)| {
        let mut sorted: Vec<&Load> = loads.iter().collect();
        sorted.sort_by_key(|load| std::cmp::Reverse(load.jobs));
        let mut sums: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for (at, load) in sorted.into_iter().enumerate() {
            let key = match at < most {
                true => (load.bank.as_deref().unwrap_or_default(), load.queue.as_deref().unwrap_or_default()),
                false => ("", ""),
            };
            *sums.entry(key).or_default() += pick(load);
        }
        let mut family = Family::new(name, Gauge, help);
        for ((bank, queue), sum) in sums {
            family.add(&[("bank", bank), ("queue", queue)], sum as f64);
        }
        family
    };
    kinds.into_iter().map(family).collect()
}

/// Returns the share and the usage of each bank. If there are more than `most` banks, returns only the banks
/// with the largest shares.
fn make_bank_metric_families(stats: &Stats, window: &Window, most: usize) -> Vec<Family> {
    type Value = fn(&BankStats, Option<&BankShares>) -> Option<f64>;
    let metrics: [(&'static str, &'static str, Value); 6] = [
        ("bank_promised_ratio", "Part of the site that a bank's shares entitle it to", |bank, _| {
            Some(bank.promised)
        }),
        ("bank_usage_ratio", "Decayed usage of a bank as a part of the site's", |bank, _| {
            Some(bank.delivered)
        }),
        (
            "bank_usage_weighted_seconds",
            "Decayed usage of a bank: seconds of its nodes, cores and GPUs, each by its weight",
            |bank, _| Some(bank.usage),
        ),
        (
            "bank_level_ratio",
            "Share of a bank divided by its usage, both relative to its siblings; 1 if the usage equals the share",
            |bank, _| bank.level(),
        ),
        (
            "bank_delivered_ratio",
            "Part of the cores in use that the jobs of a bank had, while the bank had pending jobs in the window",
            |_, shares| shares?.delivered,
        ),
        ("bank_demand_ratio", "Part of the window in which a bank had pending jobs", |_, shares| {
            Some(shares?.demand)
        }),
    ];
    let mut sorted: Vec<_> = stats.banks.iter().collect();
    sorted.sort_by(|a, b| b.promised.total_cmp(&a.promised));
    let shares = window.bank_shares();
    let by_bank: BTreeMap<&str, &BankShares> =
        shares.iter().map(|shares| (shares.bank.as_str(), shares)).collect();
    let family = |(name, help, value): (&'static str, &'static str, Value)| {
        let mut family = Family::new(name, Gauge, help);
        for bank in sorted.iter().take(most) {
            if let Some(value) = value(bank, by_bank.get(bank.bank.as_str()).copied()) {
                family.add(&[("bank", &bank.bank)], value);
            }
        }
        family
    };
    let left_out = sorted.len().saturating_sub(most) as f64;
    let mut families: Vec<Family> = metrics.into_iter().map(family).collect();
    families.extend([
        gauge(
            "banks_left_out",
            "Banks without metrics, because the number of banks with metrics is limited",
            left_out,
        ),
        gauge("window_seconds", "Length of the window of the delivered shares", window.seconds()),
        gauge(
            "jain_ratio",
            "Jain's index of delivered over promised share, for banks with pending jobs; 1 is even",
            jain_index(&shares),
        ),
    ]);
    families
}

/// Milliseconds in an hour.
const HOUR: f64 = 3_600_000.0;

/// A metric of budgets: its name, its help, and its value.
type BudgetMetric = (&'static str, &'static str, fn(&BudgetShown) -> f64);

const BUDGET_METRICS: [BudgetMetric; 5] = [
    ("budget_deposited_hours", "Sum of the deposits of a budget", |it| it.deposited as f64 / HOUR),
    (
        "budget_spent_hours",
        "Amount of a budget that ended jobs have spent and running jobs have used so far",
        |it| it.spent.unwrap_or_default() as f64 / HOUR,
    ),
    ("budget_committed_hours", "Amount of a budget that running and released jobs may still use", |it| {
        it.committed.unwrap_or_default() as f64 / HOUR
    }),
    ("budget_end_seconds", "End of the window of a budget, since the epoch", |it| it.end as f64),
    ("budget_known", "1 if the spent amount includes all ended jobs", |it| f64::from(it.complete)),
];

/// Returns the metrics of at most `most` budgets with a current window.
fn make_budget_metric_families(stats: &Stats, most: usize) -> Vec<Family> {
    let family = |(name, help, value): BudgetMetric| {
        let mut family = Family::new(name, Gauge, help);
        for budget in stats.budgets.iter().filter(|budget| budget.in_force).take(most) {
            let labels = [("scope", &*budget.scope), ("name", &*budget.name), ("unit", &*budget.unit)];
            family.add(&labels, value(budget));
        }
        family
    };
    BUDGET_METRICS.map(family).into()
}

fn build_request_metric_families(stats: &Stats) -> Vec<Family> {
    let mut all = Family::new("requests", Counter, "Requests of users, by method");
    let mut deferred =
        Family::new("requests_deferred", Counter, "Requests of users answered with a delay, by method");
    let mut refused = Family::new("requests_refused", Counter, "Requests of users refused, by method");
    for (method, requests) in &stats.requests {
        let labels = [("method", method.as_ref())];
        all.add(&labels, requests.total as f64);
        deferred.add(&labels, requests.deferred as f64);
        refused.add(&labels, requests.refused as f64);
    }
    let waiting = gauge(
        "requests_waiting",
        "Requests of users that are waiting for an answer",
        Some(stats.waiting_requests as f64),
    );
    vec![all, deferred, refused, waiting]
}
