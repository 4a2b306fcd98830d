// SPDX-License-Identifier: LGPL-3.0-only
//! Properties that hold in any simulation after each step.

use fairshare_engine::engine::answers;
use proptest::prelude::*;

use super::{HALF_LIFE, Random, make_host, make_owner_of_trace_job, make_scenario, remove_weights};
use crate::host::Host;
use crate::{Scenario, Scheduler, Trace, replay};
use fairshare::Policy;
use fairshare_engine::accounts::{Cap, SiteLimit, Target};
use fairshare_engine::engine::answers::{AssociationFilter, Open};
use fairshare_engine::ids::{Amount, Limit, Measure, Stage};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

const CORES: u64 = 16;
const USERS: [(u32, &str, u64); 4] = [(1, "a", 1), (2, "a", 3), (3, "b", 1), (4, "b", 1)];

/// Generates the history of a busy site. Times are whole seconds, so that many events are simultaneous.
fn make_history(seed: u64, jobs: u64) -> Trace {
    let mut random = Random(seed);
    let mut trace = Trace::default();
    let mut now = 1e9;
    for _ in 0..jobs {
        now += random.generate_number_below(120) as f64;
        let (user, bank, _) = USERS[random.generate_number_below(4) as usize];
        let most = 1 + random.generate_number_below(CORES);
        let cores = 1 + random.generate_number_below(most) as u32;
        let run = random.generate_number_below(600) as f64;
        let walltime = run * (1.0 + random.generate_number_below(3) as f64);
        trace.push(make_owner_of_trace_job(user, bank), now, (run, walltime), [1 + cores / 5, cores, 0]);
    }
    trace.sort();
    trace
}

fn make_site(scheduler: Scheduler, policy: Policy, running: i64) -> Scenario {
    let mut scenario = make_scenario(CORES, &[("a", 1), ("b", 2)], &USERS);
    scenario.scheduler = scheduler;
    scenario.site.rule.as_mut().unwrap().policy = policy;
    for record in &mut scenario.policy.associations {
        record.association.max_running_jobs = Limit(running);
    }
    // The limit of the association counts only running jobs. The limit on each user also counts jobs in SCHED.
    scenario.policy.limits = vec![SiteLimit {
        target: Target::EachUser,
        queue: None,
        amount: Amount { measure: Measure::Jobs, stage: Stage::RunningAndScheduled },
        cap: Cap { limit: Limit(running), is_given: false },
    }];
    scenario
}

/// Returns the number of cores in use, computed from the starts of the jobs.
fn count_running_cores(host: &Host<'_>, trace: &Trace) -> u64 {
    let runs = |start: f64, run: f64| start <= host.now && host.now < start + run;
    let jobs = trace.jobs().iter().zip(&host.starts).filter(|(job, start)| runs(**start, job.run));
    jobs.map(|(job, _)| u64::from(job.cores)).sum()
}

/// Computes the decayed usage of each user from the run times of their jobs.
fn sum_usage(host: &Host<'_>, trace: &Trace) -> BTreeMap<u32, f64> {
    let mut used = BTreeMap::new();
    let decay = std::f64::consts::LN_2 / HALF_LIFE;
    for (job, start) in trace.jobs().iter().zip(&host.starts).filter(|(_, start)| start.is_finite()) {
        let end = (start + job.run).min(host.now);
        let left = |at: f64| (-decay * (host.now - at)).exp();
        let user = trace.parties()[trace.get_trace_job_owner_index(job)].user.0;
        *used.entry(user).or_default() += f64::from(job.cores) / decay * (left(end) - left(*start));
    }
    used
}

fn check_replay(trace: &Trace, scenario: Scenario) -> Vec<f64> {
    let max_running = scenario.policy.associations[0].association.max_running_jobs.0;
    let mut host = make_host(trace, scenario);
    let mut steps = 0;
    while host.step() {
        steps += 1;
        assert!(host.meter.busy() <= CORES);
        assert_eq!(host.cluster.free + host.meter.busy(), CORES);
        if steps % 8 == 0 {
            assert_eq!(answers::check(&host.engine.view()).drift, []);
            assert!(count_running_cores(&host, trace) <= CORES);
            let wanted = AssociationFilter { user: None, bank: None, after: None, most: 10, open: Open::All };
            let answer = answers::standings(&host.engine.view(), &wanted, host.now).associations;
            let recount = sum_usage(&host, trace);
            for user in answer {
                let (live, counted) =
                    (user.usage.unwrap(), recount.get(&user.userid.0).copied().unwrap_or(0.0));
                assert!((live - counted).abs() <= 1e-6 * (1.0 + counted), "{} {live} {counted}", user.userid);
            }
        }
    }
    for (job, start) in trace.jobs().iter().zip(&host.starts) {
        assert!(*start >= job.submit && start.is_finite(), "{job:?} starts at {start}");
    }
    // No user ran more jobs at once than the limit allows.
    for (user, ..) in USERS {
        let own: Vec<(f64, f64)> = (trace.jobs().iter().zip(&host.starts))
            .filter(|(job, _)| {
                trace.parties()[trace.get_trace_job_owner_index(job)].user.0 == user && job.run > 0.0
            })
            .map(|(job, start)| (*start, start + job.run))
            .collect();
        let most =
            own.iter().map(|(at, _)| own.iter().filter(|(from, to)| from <= at && at < to).count()).max();
        assert!(most.unwrap_or(0) as i64 <= max_running, "user {user} ran {most:?} at once");
    }
    host.starts
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn every_job_runs_once_within_the_cluster_and_the_limits(
        seed: u64, easy: bool, policy in 0usize..5, running in 1i64..6, weighty: bool,
    ) {
        let trace = make_history(seed, 150);
        let scheduler = if easy { Scheduler::Easy } else { Scheduler::Fcfs };
        let scenario = make_site(scheduler, Policy::ALL[policy], running);
        check_replay(&trace, if weighty { scenario } else { remove_weights(scenario) });
    }

    #[test]
    fn the_fcfs_scheduler_without_weights_starts_jobs_in_the_order_of_submission(seed: u64) {
        let trace = make_history(seed, 200);
        let mut host = make_host(&trace, remove_weights(make_site(Scheduler::Fcfs, Policy::FairTree, 1_000)));
        while host.step() {}
        prop_assert!(host.starts.is_sorted());
    }

    /// While a job is the first pending job, its reservation is never postponed.
    #[test]
    fn backfill_never_delays_the_first_job(seed: u64) {
        let trace = make_history(seed, 200);
        let mut host = make_host(&trace, remove_weights(make_site(Scheduler::Easy, Policy::FairTree, 1_000)));
        let mut reserved: Option<(u32, f64)> = None;
        while host.step() {
            let head = host.queue.head();
            let start = head.and_then(|head| host.cluster.reserve(trace.jobs()[head as usize].cores));
            if let Some((first, promised)) = reserved {
                let started = host.starts[first as usize];
                if started.is_finite() {
                    prop_assert!(started <= promised, "job {first} starts at {started}, {promised} was reserved");
                } else if head == Some(first) {
                    prop_assert!(start.unwrap().start <= promised);
                }
            }
            reserved = head.zip(start.map(|reservation| reservation.start));
        }
    }

    /// Skipped refreshes do not change the outcome.
    #[test]
    fn skipped_refreshes_do_not_change_when_jobs_start(seed: u64, easy: bool) {
        let trace = make_history(seed, 120);
        let scheduler = if easy { Scheduler::Easy } else { Scheduler::Fcfs };
        let mut skipping = make_host(&trace, make_site(scheduler, Policy::FairTree, 4));
        while skipping.step() {}
        let mut diligent = make_host(&trace, make_site(scheduler, Policy::FairTree, 4));
        diligent.is_diligent = true;
        while diligent.step() {}
        prop_assert_eq!(&skipping.starts, &diligent.starts);
        prop_assert!(skipping.refreshes <= diligent.refreshes);
    }
}

#[test]
fn backfill_shortens_waits_and_weights_change_the_order() {
    let trace = make_history(7, 400);
    let starts = |scenario| check_replay(&trace, scenario);
    let site_with = |scheduler| make_site(scheduler, Policy::FairTree, 1_000);
    let sum = |starts: &[f64]| starts.iter().sum::<f64>();
    let (plain, easy) = (
        starts(remove_weights(site_with(Scheduler::Fcfs))),
        starts(remove_weights(site_with(Scheduler::Easy))),
    );
    assert!(sum(&easy) < sum(&plain), "backfill fills");
    assert!(!starts(site_with(Scheduler::Fcfs)).is_sorted(), "fair-share reorders");
}

#[test]
fn the_same_job_history_gives_the_same_replay_summary() {
    let trace = make_history(11, 300);
    let run = || replay(&trace, make_site(Scheduler::Easy, Policy::FairTree, 5), &AtomicU64::new(0)).unwrap();
    let measures = run();
    assert_eq!(measures, run());
    assert_eq!((measures.all.jobs, measures.rejected, measures.never), (300, 0, 0));
    assert_eq!(measures.sizes.values().map(|group| group.jobs).sum::<usize>(), 300);
    let shares: Vec<(f64, Option<f64>)> =
        measures.banks.values().map(|(_, share)| (share.promised, share.delivered)).collect();
    assert!(shares.iter().all(|(_, delivered)| delivered.is_some()), "{shares:?}");
    assert_eq!(shares.iter().map(|(promised, _)| *promised).collect::<Vec<_>>(), [1.0 / 3.0, 2.0 / 3.0]);
}

#[test]
fn jobs_that_never_run_are_counted_separately() {
    let mut trace = Trace::default();
    for (user, cores) in [(1, 1), (1, 17), (9, 1), (2, 2)] {
        trace.push(make_owner_of_trace_job(user, "a"), 1e9, (5.0, 5.0), [1, cores, 0]);
    }
    let mut scenario = make_site(Scheduler::Easy, Policy::FairTree, 1_000);
    scenario.policy.associations[1].association.max_running_jobs = Limit(0);
    let measures = replay(&trace, scenario, &AtomicU64::new(0)).unwrap();
    // One job is too large for the cluster, one has no association, and user 2 may not run jobs.
    assert_eq!((measures.all.jobs, measures.rejected, measures.never), (1, 2, 1));
    assert_eq!(measures.makespan, 5.0, "a job that never starts does not extend the makespan");
}
