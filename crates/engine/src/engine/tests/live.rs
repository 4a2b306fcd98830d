// SPDX-License-Identifier: LGPL-3.0-only
//! Live fair-share: between pushes, the plugin itself computes usages and fair-shares. The tests use a model of Flux,
//! and have one example for each rule.
//! Rules: F1, F2, F8, F21

use super::host::Host;
use super::site::{HostJob, NOW, association, queue, record};
use crate::accounts::SiteRecords;
use crate::engine::{Effect, Engine, Event, Refusal, Settings, State, Timer};
use crate::ids::{JobId, UserId};
use crate::standing::{Bank, Charges, Leaf, RESET, Rule, SitePart, Watermark};
use fairshare::accrual::HalfLife;
use fairshare::periods::Weights;
use fairshare::{Options, Policy};

pub const HALF_LIFE: f64 = 1000.0;

fn bank(name: &str, parent: Option<&str>) -> Bank {
    let parent = parent.map(Into::into);
    Bank { name: name.into(), parent, shares: 1, active: true }
}

/// Returns the tree's entry of a user in `bank`, with a usage that covers jobs that ended by `until`.
pub fn leaf(user: u32, bank: &str, usage: f64, until: f64) -> Leaf {
    Leaf {
        user: Some(UserId(user)),
        name: user.to_string().into(),
        bank: bank.into(),
        shares: 1,
        active: true,
        usage: Some(usage),
        counted: Watermark::through(until),
    }
}

/// Returns a tree with banks A and B, and with usages as of the time `at`.
pub fn tree(policy: Policy, at: f64, associations: Vec<Leaf>) -> SitePart {
    SitePart {
        charges: Charges::default(),
        budgets: Vec::new(),
        rule: Some(Rule {
            instant: at,
            half_life: HalfLife::new(HALF_LIFE).unwrap(),
            reset: RESET,
            weights: Weights::default(),
            policy,
            options: Options::default(),
            replaces_all: false,
        }),
        banks: vec![bank("root", None), bank("A", Some("root")), bank("B", Some("root"))],
        associations,
    }
}

/// Returns records of users 7 and 8 in bank A and of user 7 in bank B, each with the pushed fair-share 0.5.
pub fn accounts() -> SiteRecords {
    SiteRecords {
        associations: [(7, "A"), (8, "A"), (7, "B")]
            .map(|(user, bank)| record(association(user, bank), "A"))
            .into(),
        queues: vec![queue("q1"), queue("q2")],
        projects: vec!["*".into()],
        weights: vec![("fairshare".to_owned(), 100_000)],
        ..SiteRecords::default()
    }
}

pub fn leaves() -> Vec<Leaf> {
    vec![leaf(7, "A", 0.0, 0.0), leaf(8, "A", 0.0, 0.0), leaf(7, "B", 0.0, 0.0)]
}

/// Returns a host with live fair-share under `policy`, without usage.
pub fn make_host_with_live_fairshare(policy: Policy) -> Host {
    let mut host = Host::new();
    host.send_event(Event::Policy(accounts(), tree(policy, NOW, leaves())));
    host
}

fn posted_priority(host: &Host, id: JobId) -> i64 {
    host.jobs[&id].priority.unwrap()
}

/// Returns the usage of an association at the host's time.
pub fn usage(host: &Host, user: u32, bank: &str) -> f64 {
    let standing = &host.engine.standing;
    standing.usage(standing.find(UserId(user), &bank.into()).unwrap(), host.now).unwrap()
}

/// Checks that the priority of each job in Flux equals the posted priority of the engine.
fn assert_explained(host: &Host) {
    for (id, job) in host.jobs.iter().filter(|(_, job)| job.state == State::Sched) {
        let priorities = host.engine.view().priorities_of(*id).unwrap();
        assert_eq!(Some(i64::from(priorities.posted.priority)), job.priority, "job {id}");
    }
}

#[test]
fn a_running_job_lowers_its_users_priorities_at_the_next_refresh() {
    let mut host = make_host_with_live_fairshare(Policy::FairTree);
    let [running_job, mine, other] = [7, 7, 8].map(|user| host.submit(HostJob::new(user).bank("A")).unwrap());
    assert_eq!(posted_priority(&host, mine), posted_priority(&host, other));
    host.start_job(running_job);
    host.advance_time_and_refresh(30.0);
    assert!(posted_priority(&host, mine) < posted_priority(&host, other));
    assert_explained(&host);
    assert!((usage(&host, 7, "A") - 30.0 * (1.0 - 0.5 * 30.0 / HALF_LIFE * 0.69)).abs() < 0.1);
    let last = host.engine.view().get_live_fairshare_details().last.unwrap();
    // Two jobs change places, and the refresh posts one priority.
    assert_eq!((last.ranked, last.touched, last.lagging, last.right_to), (true, 1, 1, Some(1000)));
}

#[test]
fn a_refresh_posts_nothing_if_no_usage_changed() {
    let mut host = make_host_with_live_fairshare(Policy::FairTree);
    host.submit(HostJob::new(7)).unwrap();
    let generation = host.engine.view().get_live_fairshare_details().generation;
    let posts = host.posts;
    for _ in 0..5 {
        host.advance_time_and_refresh(30.0);
        assert!(host.refresh_at.is_some(), "the timer stays armed");
    }
    assert_eq!((host.engine.view().get_live_fairshare_details().generation, host.posts), (generation, posts));
}

#[test]
fn an_ended_job_counts_until_a_push_covers_it() {
    let mut host = make_host_with_live_fairshare(Policy::Classic);
    let id = host.run_new_job(HostJob::new(8).size(2, 2).bank("A"));
    let start = host.jobs[&id].started.unwrap();
    host.now += 99.0;
    host.end_job(id);
    let end = host.now;
    let used = |now: f64| {
        2.0 * HALF_LIFE / 2f64.ln()
            * (0.5f64.powf((now - end) / HALF_LIFE) - 0.5f64.powf((now - start) / HALF_LIFE))
    };
    host.now += 400.0;
    assert!((usage(&host, 8, "A") - used(host.now)).abs() < 1e-9);
    let mut associations = leaves();
    associations[1] = leaf(8, "A", 5.0, end - 1.0);
    host.send_event(Event::Policy(accounts(), tree(Policy::Classic, host.now, associations.clone())));
    assert!((usage(&host, 8, "A") - 5.0 - used(host.now)).abs() < 1e-9, "not covered");
    associations[1] = leaf(8, "A", used(host.now), end);
    host.send_event(Event::Policy(accounts(), tree(Policy::Classic, host.now, associations)));
    assert!((usage(&host, 8, "A") - used(host.now)).abs() < 1e-9, "covered");
}

#[test]
fn a_running_job_accrues_from_its_start_in_r_after_a_reload_and_a_restart() {
    for (is_reload, has_data) in [(true, false), (false, false), (true, true), (false, true)] {
        let mut host = make_host_with_live_fairshare(Policy::Pbs);
        let id = host.run_new_job(HostJob::new(8).size(3, 3).bank("A"));
        host.now += 50.0;
        let before = usage(&host, 8, "A");
        let push = || Event::Policy(accounts(), tree(Policy::Pbs, NOW, leaves()));
        let mut engine = Engine::with_small_batches();
        if has_data {
            engine.handle(host.now, push());
        }
        host.replay_jobs(is_reload, engine);
        if !has_data {
            host.send_event(push());
        }
        assert_eq!(usage(&host, 8, "A").to_bits(), before.to_bits());
        host.end_job(id);
        assert!(usage(&host, 8, "A") > before);
    }
}

#[test]
fn a_job_counts_in_the_bank_in_which_it_starts() {
    let mut host = make_host_with_live_fairshare(Policy::FairTree);
    let id = host.submit(HostJob::new(7).bank("A")).unwrap();
    host.update_job(id, None, Some("B")).unwrap();
    host.start_job(id);
    host.now += 50.0;
    assert_eq!(usage(&host, 7, "A"), 0.0);
    assert!(usage(&host, 7, "B") > 40.0);
}

/// Until the push comes, the running job has no association.
#[test]
fn a_running_job_accrues_usage_from_its_start_if_its_association_is_pushed_later() {
    let mut host = make_host_with_live_fairshare(Policy::FairTree);
    host.run_new_job(HostJob::new(8).bank("A"));
    host.replay_jobs(true, Engine::with_small_batches());
    host.now += 50.0;
    host.send_event(Event::Policy(accounts(), tree(Policy::FairTree, NOW, leaves())));
    assert!(usage(&host, 8, "A") > 45.0);
}

#[test]
fn the_pushed_fair_share_applies_if_live_fair_share_is_off() {
    let mut host = make_host_with_live_fairshare(Policy::FairTree);
    let id = host.submit(HostJob::new(8)).unwrap();
    assert_ne!(posted_priority(&host, id), 50_000);
    host.send_event(Event::Settings(Settings { live: false, ..Settings::default() }));
    assert_eq!(posted_priority(&host, id), 50_000, "the setting takes effect at once");
    host.send_event(Event::Settings(Settings::default()));
    assert_ne!(posted_priority(&host, id), 50_000);
    host.send_event(Event::Policy(accounts(), SitePart::default()));
    assert_eq!(posted_priority(&host, id), 50_000);
    assert!(!host.engine.view().get_live_fairshare_details().is_on);
    assert_explained(&host);
}

#[test]
fn an_association_missing_from_the_tree_has_its_pushed_fair_share() {
    let mut host = Host::new();
    host.send_event(Event::Policy(accounts(), tree(Policy::FairTree, NOW, vec![leaf(7, "A", 0.0, 0.0)])));
    let id = host.submit(HostJob::new(8)).unwrap();
    assert_eq!(posted_priority(&host, id), 50_000);
    // A push by flux-accounting's methods does not change the tree.
    host.push(accounts().associations);
    let own_job = host.submit(HostJob::new(7)).unwrap();
    assert_eq!(posted_priority(&host, own_job), 100_000);
}

#[test]
fn the_timer_runs_at_the_period_of_the_settings() {
    let mut host = make_host_with_live_fairshare(Policy::FairTree);
    assert_eq!(host.refresh_at, Some(host.now + 30.0));
    host.send_event(Event::Settings(Settings { refresh: 5.0, ..Settings::default() }));
    assert_eq!(host.refresh_at, Some(host.now + 5.0));
    host.send_event(Event::Settings(Settings { refresh: 0.0, ..Settings::default() }));
    host.refresh_at = None;
    let effects = host.engine.handle(host.now, Event::Timer(Timer::Refresh));
    assert!(
        !effects.iter().any(|effect| matches!(effect, Effect::ArmIn(..))),
        "a period of 0 refreshes only at pushes: {effects:?}"
    );
}

/// `flux account jobs -v` recomputes a priority from the fair-share in the memo, so the two must agree.
#[test]
fn the_eventlog_memo_has_the_fair_share_of_the_posted_priority() {
    let mut host = make_host_with_live_fairshare(Policy::Classic);
    let leaves = vec![leaf(7, "A", 1e5, 0.0), leaf(8, "A", 1e5 + 10.0, 0.0), leaf(8, "B", 1e4, 0.0)];
    host.send_event(Event::Policy(accounts(), tree(Policy::Classic, NOW, leaves)));
    let [running_job, waits, behind] =
        [7, 7, 8].map(|user| host.submit(HostJob::new(user).bank("A")).unwrap());
    let first = host.jobs[&waits].priority;
    host.start_job(running_job);
    // The usage of the running job gives user 7 a lower fair-share than user 8.
    host.advance_time_and_refresh(30.0);
    assert_ne!(host.jobs[&waits].priority, first);
    for id in [waits, behind] {
        let job = &host.jobs[&id];
        assert_eq!(job.stored_memos, 1, "later memos are in no eventlog");
        let recomputed = job.memos.last().map(|fairshare| (fairshare * 100_000.0).round() as i64);
        assert_eq!(recomputed, job.priority);
    }
}

#[test]
fn a_refused_priority_is_posted_again_at_the_next_refresh() {
    let mut host = make_host_with_live_fairshare(Policy::FairTree);
    let [running_job, mine, other] = [7, 7, 8].map(|user| host.submit(HostJob::new(user).bank("A")).unwrap());
    host.start_job(running_job);
    host.refuse_priorities = Some(Refusal::Other("out of memory".to_owned()));
    host.advance_time_and_refresh(30.0);
    assert!(host.logged.iter().any(|text| text.contains("failed to set its priority: out of memory")));
    assert_explained(&host);
    assert_eq!(posted_priority(&host, mine), posted_priority(&host, other));
    host.refuse_priorities = None;
    host.advance_time_and_refresh(30.0);
    assert!(posted_priority(&host, mine) < posted_priority(&host, other));
    assert_explained(&host);
}

#[test]
fn jobs_at_urgency_0_and_31_keep_their_priority() {
    let mut host = make_host_with_live_fairshare(Policy::Classic);
    let running_job = host.submit(HostJob::new(7)).unwrap();
    let [held, first] = [0, 31].map(|urgency| host.submit(HostJob { urgency, ..HostJob::new(7) }).unwrap());
    host.start_job(running_job);
    host.advance_time_and_refresh(30.0);
    assert_eq!([held, first].map(|id| posted_priority(&host, id)), [0, i64::from(u32::MAX)]);
    let changed_job = host.submit(HostJob::new(7)).unwrap();
    host.set_urgency(changed_job, 0);
    host.advance_time_and_refresh(30.0);
    assert_eq!(posted_priority(&host, changed_job), 0);
    assert_explained(&host);
}

#[test]
fn a_refresh_orders_the_first_jobs_of_a_queue_and_leaves_other_priorities_stale() {
    let mut host = make_host_with_live_fairshare(Policy::Classic);
    host.engine.batches.ordered = 10;
    let [own_job, others] = [7, 8].map(|user| host.submit(HostJob::new(user).bank("A")).unwrap());
    for _ in 0..400 {
        host.submit(HostJob::new(8).bank("A")).unwrap();
        host.submit(HostJob::new(7).bank("A")).unwrap();
    }
    host.start_job(own_job);
    host.start_job(others);
    let before = host.posts;
    host.advance_time_and_refresh(300.0);
    host.advance_time_and_refresh(7.0);
    let last = host.engine.view().get_live_fairshare_details().last.unwrap();
    assert!(last.lagging > 300 && last.right_to == Some(10), "{last:?}");
    assert!(host.posts - before < 700, "{}", host.posts - before);
    let first_ten = |priority: &dyn Fn(&HostJob, JobId) -> i64| {
        let mut jobs: Vec<_> = host.jobs.iter().filter(|(_, job)| job.state == State::Sched).collect();
        jobs.sort_by_key(|(id, job)| (-priority(job, **id), **id));
        jobs.into_iter().map(|(id, _)| *id).take(10).collect::<Vec<_>>()
    };
    let exact =
        |_: &HostJob, id: JobId| i64::from(host.engine.view().priorities_of(id).unwrap().exact.priority);
    assert_eq!(first_ten(&|job, _| job.priority.unwrap()), first_ten(&exact));
    assert_explained(&host);
}

/// The engine posts a few priorities by id, and many priorities by Flux's loop. If the loop would block the
/// job manager for too long, the engine posts many priorities by id too.
#[test]
fn priorities_posted_one_by_one_equal_those_posted_by_flux_reprioritization() {
    let check_refresh = |pending: usize, by_loop: bool| {
        let mut host = make_host_with_live_fairshare(Policy::Classic);
        host.engine.batches.posted = 100_000;
        let running_job = host.submit(HostJob::new(7).bank("A")).unwrap();
        for k in 0..pending {
            let (user, bank) = [(7, "A"), (7, "A"), (8, "A")][k % 3];
            host.submit(HostJob::new(user).bank(bank)).unwrap();
        }
        host.start_job(running_job);
        host.engine.post_stale();
        let (posts, loops) = (host.posts, host.loops);
        host.advance_time_and_refresh(30.0);
        let last = host.engine.view().get_live_fairshare_details().last.unwrap();
        assert_eq!(host.loops - loops, usize::from(by_loop), "{pending}: {last:?}");
        assert_eq!(host.posts - posts, if by_loop { 0 } else { last.touched }, "{pending}: {last:?}");
        assert!(last.touched > 0 && last.lagging == 0, "{last:?}");
        assert_explained(&host);
        for (id, job) in host.jobs.iter().filter(|(_, job)| job.state == State::Sched) {
            let exact = host.engine.view().priorities_of(*id).unwrap().exact;
            assert_eq!(job.priority, Some(i64::from(exact.priority)), "job {id}");
        }
    };
    check_refresh(60, false);
    check_refresh(900, true);
    check_refresh(4_000, false);
}

#[test]
fn jobs_that_ended_while_the_plugin_was_away_are_read_from_job_list() {
    // job-list answers at once, at the third request, or never.
    for (has_job_list, answers_at) in [(true, 0), (true, 3), (false, usize::MAX)] {
        let mut host = make_host_with_live_fairshare(Policy::Classic);
        let ids: Vec<JobId> = (0..1500).map(|_| host.submit(HostJob::new(8).bank("A")).unwrap()).collect();
        for id in ids.iter().rev() {
            host.start_job(*id);
            host.end_job(*id);
        }
        let before = usage(&host, 8, "A");
        assert!(before > 1.0);
        host.has_job_list = answers_at == 0;
        host.logged.clear();
        host.replay_jobs(true, Engine::with_small_batches());
        host.send_event(Event::Policy(accounts(), tree(Policy::Classic, NOW, leaves())));
        for tried in 1..20 {
            host.has_job_list = tried >= answers_at;
            host.fire_retry_timer();
        }
        let after = usage(&host, 8, "A");
        let gave_up = host.logged.iter().filter(|text| text.contains("job-list does not answer")).count();
        assert_eq!(gave_up, usize::from(!has_job_list), "{:?}", host.logged);
        let wanted = if has_job_list { before } else { 0.0 };
        assert!((after - wanted).abs() <= 1e-9 * wanted, "{after}, before {wanted}");
    }
}

/// For ages alone, the time between two refreshes is a thousandth of `age_max`. Live fair-share needs the shorter
/// period of the settings.
#[test]
fn a_pushed_tree_makes_refreshes_more_frequent_than_ages_need() {
    let mut host = Host::new();
    host.send_event(Event::Settings(Settings { age_weight: 1000, refresh: 1.0, ..Settings::default() }));
    host.send_event(Event::Policy(accounts(), SitePart::default()));
    host.submit(HostJob::new(7).bank("A")).unwrap();
    assert!(host.refresh_at.is_some_and(|at| at > host.now + 100.0), "{:?}", host.refresh_at);
    host.send_event(Event::Policy(accounts(), tree(Policy::FairTree, NOW, leaves())));
    assert!(host.refresh_at.is_some_and(|at| at <= host.now + 1.0), "{:?}", host.refresh_at);
}
