// SPDX-License-Identifier: LGPL-3.0-only
//! The metrics: their names, their help texts, and their values from the plugin's answer.

use std::collections::BTreeMap;

use super::exposition::{Family, Kind};
use super::window::{BankShares, Window, jain_index};
use crate::ui::words::Words;

use Kind::{Counter, Gauge};
use fairshare_engine::engine::answers::{Load, Standings, Stats};

/// Returns all families for an answer to `stats`. At most `most` banks, and `most` pairs of bank and queue, get labels of their own.
pub(crate) fn build_families(stats: &Stats, window: &Window, most: usize) -> Vec<Family> {
    let gauge = |name, help, value: f64| Family::single(name, Gauge, help, Some(value));
    let counter = |name, help, value: f64| Family::single(name, Counter, help, Some(value));
    let mut all = vec![
        gauge("flux_fairshare_up", "Whether the plugin answered", 1.0),
        gauge("flux_fairshare_associations", "Associations in the plugin's data", stats.associations as f64),
        gauge("flux_fairshare_queues", "Queues in the plugin's data", stats.queues as f64),
        gauge("flux_fairshare_banks", "Banks in the tree", stats.banks.len() as f64),
        gauge(
            "flux_fairshare_generation",
            "Generation of the data in force, which each push increments",
            stats.heading.generation as f64,
        ),
        gauge(
            "flux_fairshare_live",
            "Whether the plugin computes fair-shares itself (live fair-share)",
            f64::from(u8::from(stats.heading.live)),
        ),
    ];
    let age = stats.updated.map(|updated| (stats.heading.now - updated).max(0.0));
    all.push(Family::single(
        "flux_fairshare_data_age_seconds",
        Gauge,
        "Seconds since the data were last updated",
        age,
    ));
    all.push(jobs_family(stats));
    let mut held = Family::new("flux_fairshare_held_jobs", Gauge, "Jobs held, by limit");
    for (limit, jobs) in &stats.held_by_limit {
        held.add(&[("limit", limit)], *jobs as f64);
    }
    all.push(held);
    all.extend(load_families(stats, most));
    all.extend(bank_families(stats, window, most));
    let refresh = &stats.refresh;
    let last = refresh.last.as_ref();
    all.extend([
        counter("flux_fairshare_refreshes", "Live fair-share refreshes", refresh.total as f64),
        counter(
            "flux_fairshare_refresh_seconds",
            "Time that refreshes kept the job manager busy, without the pauses between their steps",
            refresh.seconds_total,
        ),
        counter(
            "flux_fairshare_posted_priorities",
            "Priorities that refreshes posted",
            refresh.touched_total as f64,
        ),
        Family::single(
            "flux_fairshare_last_refresh_seconds",
            Gauge,
            "Time that the last refresh kept the job manager busy",
            last.and_then(|last| last.seconds),
        ),
        Family::single(
            "flux_fairshare_refresh_age_seconds",
            Gauge,
            "Seconds since the last refresh",
            last.map(|last| (stats.heading.now - last.when).max(0.0)),
        ),
        Family::single(
            "flux_fairshare_last_posted_priorities",
            Gauge,
            "Priorities that the last refresh posted",
            last.map(|last| last.touched as f64),
        ),
        gauge(
            "flux_fairshare_stale_jobs",
            "Pending jobs whose posted priority differs from the current one",
            refresh.lagging as f64,
        ),
        gauge(
            "flux_fairshare_refreshing",
            "Whether a refresh is in progress",
            f64::from(u8::from(refresh.under_way)),
        ),
        counter("flux_fairshare_pushes", "Pushes that put data in force", stats.push.total as f64),
        counter(
            "flux_fairshare_push_seconds",
            "Time that these pushes kept the job manager busy, summed over all their requests",
            stats.push.seconds_total,
        ),
        Family::single(
            "flux_fairshare_last_push_seconds",
            Gauge,
            "Time that the last push kept the job manager busy, summed over all its requests",
            stats.push.last.as_ref().map(|last| last.seconds),
        ),
        Family::single(
            "flux_fairshare_drift",
            Gauge,
            "Associations whose counters differ from a recount",
            stats.drift.map(|drift| drift as f64),
        ),
        Family::single(
            "flux_fairshare_overruled",
            Gauge,
            "1 while another priority plugin decides the priorities of jobs",
            Some(f64::from(u8::from(stats.heading.overruled.is_some()))),
        ),
    ]);
    all.extend(request_families(stats));
    all
}

/// Returns the families if the plugin does not answer.
pub(crate) fn down_families() -> Vec<Family> {
    vec![Family::single("flux_fairshare_up", Gauge, "Whether the plugin answered", Some(0.0))]
}

/// Returns the families with labels per user, which are exported only on request.
pub(crate) fn user_families(standing: &Standings, words: &Words<'_>) -> Vec<Family> {
    let mut fairshare =
        Family::new("flux_fairshare_association_fairshare", Gauge, "Fair-share of an association");
    let mut usage = Family::new(
        "flux_fairshare_association_usage_weighted_seconds",
        Gauge,
        "Decayed usage of an association: seconds of its nodes, cores and GPUs, each by its weight",
    );
    let mut waiting =
        Family::new("flux_fairshare_association_jobs", Gauge, "Jobs of an association, by state");
    for association in &standing.associations {
        let user = words.user(association.userid.0);
        let labels = [("user", user.as_str()), ("bank", association.bank.as_str())];
        if let Some(value) = association.fairshare {
            fairshare.add(&labels, value);
        }
        if let Some(value) = association.usage {
            usage.add(&labels, value);
        }
        let jobs = association.jobs;
        for (state, jobs) in [("running", jobs.running), ("pending", jobs.pending), ("held", jobs.held)] {
            waiting.add(&[labels[0], labels[1], ("state", state)], jobs as f64);
        }
    }
    vec![fairshare, usage, waiting]
}

fn jobs_family(stats: &Stats) -> Family {
    let mut family = Family::new(
        "flux_fairshare_jobs",
        Gauge,
        "Active jobs by state; held: by a limit of this plugin, waiting: for data about its user, blocked: held in DEPEND by something other than this plugin",
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

/// Returns jobs, nodes and cores by bank and queue. The `most` pairs with the most jobs get labels; the others are summed under
/// empty labels.
fn load_families(stats: &Stats, most: usize) -> Vec<Family> {
    type Pick = fn(&Load) -> u64;
    let kinds: [(&'static str, &'static str, &[Load], Pick); 6] = [
        ("flux_fairshare_pending_jobs", "Pending jobs, by bank and queue", &stats.pending, |load| load.jobs),
        (
            "flux_fairshare_pending_nodes",
            "Nodes that pending jobs ask for, by bank and queue",
            &stats.pending,
            |load| load.nodes,
        ),
        (
            "flux_fairshare_pending_cores",
            "Cores that pending jobs ask for, by bank and queue",
            &stats.pending,
            |load| load.cores,
        ),
        ("flux_fairshare_running_jobs", "Running jobs, by bank and queue", &stats.running, |load| load.jobs),
        (
            "flux_fairshare_running_nodes",
            "Nodes of running jobs, by bank and queue; a shared node counts once per job",
            &stats.running,
            |load| load.nodes,
        ),
        (
            "flux_fairshare_running_cores",
            "Cores of running jobs, by bank and queue",
            &stats.running,
            |load| load.cores,
        ),
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

/// Returns the share and the usage of each bank. If there are more than `most` banks, those with the largest shares are returned.
fn bank_families(stats: &Stats, window: &Window, most: usize) -> Vec<Family> {
    let new = |name, help| Family::new(name, Gauge, help);
    let mut promised =
        new("flux_fairshare_bank_promised_ratio", "Part of the site that a bank's shares entitle it to");
    let mut used = new("flux_fairshare_bank_usage_ratio", "Decayed usage of a bank as a part of the site's");
    let mut usage = new(
        "flux_fairshare_bank_usage_weighted_seconds",
        "Decayed usage of a bank: seconds of its nodes, cores and GPUs, each by its weight",
    );
    let mut level = new(
        "flux_fairshare_bank_level_ratio",
        "Share of a bank divided by its usage, both relative to its siblings; 1 is even",
    );
    let mut delivered = new(
        "flux_fairshare_bank_delivered_ratio",
        "Part of the cores in use that a bank's jobs had, over the time of the window with pending jobs of the bank",
    );
    let mut demand =
        new("flux_fairshare_bank_demand_ratio", "Part of the window in which a bank had pending jobs");
    let mut sorted: Vec<_> = stats.banks.iter().collect();
    sorted.sort_by(|a, b| b.promised.total_cmp(&a.promised));
    let shares = window.bank_shares();
    let by_bank: BTreeMap<&str, &BankShares> =
        shares.iter().map(|shares| (shares.bank.as_str(), shares)).collect();
    for bank in sorted.iter().take(most) {
        let labels = [("bank", bank.bank.as_str())];
        promised.add(&labels, bank.promised);
        used.add(&labels, bank.delivered);
        usage.add(&labels, bank.usage);
        if let Some(value) = bank.level() {
            level.add(&labels, value);
        }
        if let Some(over_window) = by_bank.get(bank.bank.as_str()) {
            demand.add(&labels, over_window.demand);
            if let Some(part) = over_window.delivered {
                delivered.add(&labels, part);
            }
        }
    }
    let left_out = sorted.len().saturating_sub(most) as f64;
    vec![
        promised,
        used,
        usage,
        level,
        delivered,
        demand,
        Family::single(
            "flux_fairshare_banks_left_out",
            Gauge,
            "Banks without metrics of their own, because there are more banks than labels allowed",
            Some(left_out),
        ),
        Family::single(
            "flux_fairshare_window_seconds",
            Gauge,
            "Length of the window of the delivered shares",
            Some(window.seconds()),
        ),
        Family::single(
            "flux_fairshare_jain_ratio",
            Gauge,
            "Jain's index of delivered over promised share, for banks with pending jobs; 1 is even",
            jain_index(&shares),
        ),
    ]
}

fn request_families(stats: &Stats) -> Vec<Family> {
    let mut all = Family::new("flux_fairshare_requests", Counter, "Requests of users, by method");
    let mut deferred = Family::new(
        "flux_fairshare_requests_deferred",
        Counter,
        "Requests of users answered with a delay, by method",
    );
    let mut refused =
        Family::new("flux_fairshare_requests_refused", Counter, "Requests of users refused, by method");
    for (method, requests) in &stats.requests {
        let labels = [("method", method.as_ref())];
        all.add(&labels, requests.total as f64);
        deferred.add(&labels, requests.deferred as f64);
        refused.add(&labels, requests.refused as f64);
    }
    let waiting = Family::single(
        "flux_fairshare_requests_waiting",
        Gauge,
        "Requests of users that wait for an answer",
        Some(stats.waiting_requests as f64),
    );
    vec![all, deferred, refused, waiting]
}
