// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of exempt queues: limits that name no queue do not count or hold the jobs of an exempt queue. Also tests the
//! setting `max-priority` of a queue.
//! Rules: L40, L41, L42, P16

use super::super::why::explain_job;
use super::*;
use crate::accounts::{ExemptQueues, Scope};
use std::collections::BTreeMap;

const ALL: [Scope; 3] = [Scope::Association, Scope::Bank, Scope::User];

/// Returns settings in which queue q2 is exempt from limits of `scopes`.
fn exempt_queue_q2(scopes: &[Scope]) -> Event<'static> {
    let exempt = ExemptQueues::from([("q2".into(), scopes.iter().copied().collect())]);
    Event::Settings(Settings { exempt, ..Settings::default() })
}

/// Returns a site where user 7 may run one job in bank A and have three active jobs there.
fn make_site_with_one_running_job(limits: Vec<SiteLimit>) -> Host {
    let mut policy = policy(limits);
    let record = &mut policy.associations[1].association;
    (record.max_running_jobs, record.max_nodes, record.max_active_jobs) = (Limit(1), Limit(2), Limit(3));
    let mut host = Host::new();
    host.send_event(Event::Policy(policy, SitePart::default()));
    host
}

fn job_in(queue: &str) -> HostJob {
    HostJob::new(7).bank("A").queue(queue)
}

fn start_job_in_queue(host: &mut Host, queue: &str) -> JobId {
    let id = host.submit(job_in(queue)).unwrap();
    host.start_job(id);
    id
}

/// Each scope may have one running job in all queues together, and two in q2. If q2 is exempt, only the second limit
/// applies to jobs in q2.
#[test]
fn scope_limits_neither_count_nor_hold_jobs_in_an_exempt_queue() {
    let targets = || {
        let association = Target::Association(UserId(7), "A".into());
        [
            (association, Scope::Association),
            (bank_target("A"), Scope::Bank),
            (Target::User(UserId(7)), Scope::User),
        ]
    };
    for (target, scope) in targets() {
        for exempt in ALL {
            let in_all = limit(target.clone(), None, "run-jobs", 1);
            let mut host = make_site(vec![in_all, limit(target.clone(), Some("q2"), "run-jobs", 2)]);
            host.send_event(exempt_queue_q2(&[exempt]));
            let is_exempt = exempt == scope;
            let first = start_job_in_queue(&mut host, "q1");
            let second = host.submit(job_in("q2")).unwrap();
            let held_by: &[&str] = if is_exempt { &[] } else { &[get_limit_name_over_all_queues(scope)] };
            assert_eq!(host.names(second), held_by, "{scope:?} {exempt:?}");
            if is_exempt {
                host.start_job(second);
                host.end_job(first);
                let third = host.submit(job_in("q1")).unwrap();
                assert_eq!(host.state(third), Some(State::Sched), "a job in q2 does not count: {scope:?}");
                start_job_in_queue(&mut host, "q2");
                let last = host.submit(job_in("q2")).unwrap();
                assert_eq!(host.names(last), [format!("{}-queue", get_limit_name_over_all_queues(scope))]);
            }
            assert_counters_and_holds(&host);
        }
    }
}

fn get_limit_name_over_all_queues(scope: Scope) -> &'static str {
    match scope {
        Scope::Association => "max-run-jobs-association",
        Scope::Bank => "max-run-jobs-bank",
        _ => "max-run-jobs-user",
    }
}

#[test]
fn limits_in_the_record_of_an_association_do_not_count_jobs_of_exempt_queues() {
    let mut host = make_site_with_one_running_job(vec![]);
    host.send_event(exempt_queue_q2(&[Scope::Association]));
    start_job_in_queue(&mut host, "q1");
    let standby = host.submit(job_in("q2").size(4, 4)).unwrap();
    host.start_job(standby);
    let standing = host.engine.view();
    let id = host.engine.book().find(UserId(7), Some("A")).unwrap();
    assert_eq!(
        (standing.limits().sum_usage_over_queues(id).0, standing.ledger.accounts().usage(id).active_jobs),
        (1, 2)
    );
    let held = host.submit(job_in("q1")).unwrap();
    let why = explain_job(&host, held);
    assert_eq!((&*why.holds[0].limit, why.holds[0].used), ("max-running-jobs-user-limit", 1));
    assert_eq!(why.holds[0].frees.len(), 1, "the job in q2 would free nothing");
    let text = host.submit(job_in("q1").size(4, 4)).unwrap_err();
    assert!(text.contains("max resources limits"), "{text}");
    host.submit(job_in("q1")).unwrap();
    let text = host.submit(job_in("q1")).unwrap_err();
    assert!(text.contains("user has max active jobs; 3 of 3"), "{text}");
    host.submit(job_in("q2")).unwrap();
    assert_counters_and_holds(&host);
}

#[test]
fn a_job_that_leaves_an_exempt_queue_comes_under_all_limits() {
    let mut host = make_site_with_one_running_job(vec![limit(bank_target("C"), None, "run-jobs", 1)]);
    host.send_event(exempt_queue_q2(&[Scope::Association]));
    start_job_in_queue(&mut host, "q1");
    let standby = host.submit(job_in("q2")).unwrap();
    let text = host.update_job(standby, Some("q1"), None).unwrap_err();
    assert!(text.contains("already at max-running-jobs-user-limit limit"), "{text}");
    host.force_update(standby, Some("q1".to_owned()), Some("A".to_owned()));
    assert_eq!(host.state(standby), Some(State::Sched));
    assert_eq!(explain_job(&host, standby).holds[0].limit, "max-running-jobs-user-limit");
    assert_counters_and_holds(&host);
    host.submit(job_in("q1")).unwrap();
    let fourth = host.submit(job_in("q2")).unwrap();
    let text = host.update_job(fourth, Some("q1"), None).unwrap_err();
    assert!(text.contains("already at max-active-jobs limit"), "{text}");
}

/// The exempt queue leaves out the cap of bank A when Flux asks about the bank, and bank B has no cap when Flux asks
/// about the queue.
#[test]
fn a_job_may_not_leave_an_exempt_queue_and_its_bank_for_a_bank_that_is_full_of_active_jobs() {
    let mut policy = policy(vec![]);
    policy.associations[1].association.max_active_jobs = Limit(1);
    let mut host = Host::new();
    host.send_event(Event::Policy(policy, SitePart::default()));
    host.send_event(exempt_queue_q2(&[Scope::Association]));
    host.submit(job_in("q1")).unwrap();
    let standby = host.submit(job_in("q2").bank("B")).unwrap();
    let text = host.update_job(standby, Some("q1"), Some("A")).unwrap_err();
    assert!(text.contains("already at max-active-jobs limit"), "{text}");
    assert_counters_and_holds(&host);
}

#[test]
fn a_reload_that_exempts_a_queue_releases_its_jobs_and_counts_all_jobs_again() {
    let limits = vec![limit(bank_target("science"), None, "run-sched-jobs", 1)];
    let mut host = make_site(limits);
    let first = start_job_in_queue(&mut host, "q2");
    let [standby, held] = ["q2", "q1"].map(|queue| host.submit(job_in(queue)).unwrap());
    assert_eq!([standby, held].map(|id| host.state(id)), [Some(State::Depend); 2]);
    host.send_event(exempt_queue_q2(&ALL));
    host.run_until_idle();
    assert_eq!([standby, held].map(|id| host.state(id)), [Some(State::Sched); 2]);
    assert_counters_and_holds(&host);
    host.send_event(exempt_queue_q2(&[]));
    host.run_until_idle();
    let late = host.submit(job_in("q2")).unwrap();
    assert_eq!(explain_job(&host, late).holds[0].used, 3, "jobs in q2 count again");
    assert_counters_and_holds(&host);
    for id in [first, standby, held] {
        host.start_job(id);
        host.end_job(id);
    }
    assert_eq!(host.state(late), Some(State::Sched));
}

#[test]
fn a_virtual_queue_is_exempt_if_its_parent_is() {
    let mut host = make_site_with_one_running_job(vec![limit(Target::User(UserId(7)), None, "run-jobs", 1)]);
    let exempt = ExemptQueues::from([("q1".into(), ALL.into())]);
    host.send_event(Event::Settings(Settings { exempt, ..Settings::default() }));
    start_job_in_queue(&mut host, "q1");
    start_job_in_queue(&mut host, "q2");
    let held = host.submit(job_in("q2")).unwrap();
    assert_eq!(host.names(held), ["max-run-jobs-user", "max-running-jobs-user-limit"]);
    host.send_event(Event::ConfiguredQueues(vec![("q1".into(), None), ("q2".into(), Some("q1".into()))]));
    host.run_until_idle();
    assert_eq!(host.state(held), Some(State::Sched));
    assert_eq!(crate::engine::answers::check(&host.engine.view()).drift, []);
}

#[test]
fn a_limit_on_active_jobs_or_on_one_job_leaves_out_exempt_queues() {
    let bank = || bank_target("A");
    let limits = vec![limit(bank(), None, "active-jobs", 1), limit(bank(), None, "job-nodes", 2)];
    let mut host = make_site(limits);
    host.send_event(exempt_queue_q2(&[Scope::Bank]));
    let standby = host.submit(job_in("q2").size(4, 4)).unwrap();
    host.submit(job_in("q1")).unwrap();
    let text = host.submit(job_in("q1")).unwrap_err();
    assert!(text.contains("bank A has max active jobs; 1 of 1"), "{text}");
    assert!(host.submit(job_in("q1").size(4, 4)).is_err());
    let text = host.update_job(standby, Some("q1"), None).unwrap_err();
    assert!(text.contains("max-active-jobs-bank"), "{text}");
    assert_counters_and_holds(&host);
}

/// Returns settings in which jobs in `queue` have at most the priority `most`.
fn settings_with_max(most: u32, queue: &str) -> Event<'static> {
    let max_priorities = BTreeMap::from([(queue.into(), most)]);
    Event::Settings(Settings { max_priorities, live: false, ..Settings::default() })
}

#[test]
fn a_job_gets_at_most_the_largest_priority_of_its_queue_except_at_urgency_31() {
    let mut host = make_site(vec![]);
    host.send_event(settings_with_max(100, "q2"));
    let [batch, standby, rising] = ["q1", "q2", "q2"].map(|queue| host.submit(job_in(queue)).unwrap());
    let priority = |host: &Host, id: JobId| host.jobs[&id].priority;
    assert_eq!([batch, standby].map(|id| priority(&host, id)), [Some(20_000), Some(100)]);
    let why = explain_job(&host, standby);
    let posted = why.posted.unwrap();
    assert_eq!((&*posted.made.outcome, posted.made.sum), ("lowered-in-queue", Some(20_000.0)));
    assert_eq!(why.queue_rules.max_priority, Some(100));
    for (urgency, expected) in [(31, u32::MAX), (20, 100), (0, 0), (1, 100)] {
        host.set_urgency(rising, urgency);
        assert_eq!(priority(&host, rising), Some(i64::from(expected)), "urgency {urgency}");
    }
    host.send_event(settings_with_max(30_000, "q2"));
    host.run_until_idle();
    assert_eq!(priority(&host, standby), Some(20_000));
    let posted = explain_job(&host, standby).posted.unwrap();
    assert_eq!(posted.reason.unwrap().code, "max-priority");
    host.send_event(settings_with_max(50, "q1"));
    host.run_until_idle();
    assert_eq!([batch, standby].map(|id| priority(&host, id)), [Some(50), Some(20_000)]);
    host.send_event(Event::ConfiguredQueues(vec![("q1".into(), None), ("q2".into(), Some("q1".into()))]));
    host.run_until_idle();
    assert_eq!(priority(&host, standby), Some(50), "q2 is a virtual queue of q1");
}

/// No other input of the priority changes.
#[test]
fn a_cached_priority_is_not_used_after_a_queue_gets_a_parent_with_a_lower_maximum() {
    let mut host = make_site(vec![]);
    host.send_event(settings_with_max(50, "q1"));
    let standby = host.submit(job_in("q2")).unwrap();
    for _ in 0..2 {
        host.send_event(Event::Reprioritize);
    }
    assert_eq!(host.jobs[&standby].priority, Some(20_000));
    host.send_event(Event::ConfiguredQueues(vec![("q1".into(), None), ("q2".into(), Some("q1".into()))]));
    assert_eq!(host.jobs[&standby].priority, Some(50));
}

/// The usage of the association does not change, so the refresh computes no new fair-share.
#[test]
fn under_live_fair_share_a_refresh_lowers_priorities_to_the_maximum_of_a_new_parent_queue() {
    let mut host = make_host_with_live_fairshare(fairshare::Policy::FairTree);
    let max_priorities = BTreeMap::from([("q1".into(), 50)]);
    host.send_event(Event::Settings(Settings { max_priorities, ..Settings::default() }));
    let standby = host.submit(job_in("q2")).unwrap();
    assert_eq!(host.jobs[&standby].priority, Some(100_000));
    host.send_event(Event::ConfiguredQueues(vec![("q1".into(), None), ("q2".into(), Some("q1".into()))]));
    host.advance_time_and_refresh(30.0);
    assert_eq!(host.jobs[&standby].priority, Some(50));
}

/// The bank admits one job, and jobs of users 7 and 8 are held. User 8 has the better fair-share. But the job of user 8
/// is in queue q2, where `max-priority` lowers its priority.
#[test]
fn held_jobs_are_released_in_the_order_of_their_lowered_priorities() {
    let mut host = make_site(vec![limit(bank_target("science"), None, "run-sched-jobs", 1)]);
    host.send_event(settings_with_max(100, "q2"));
    let first = start_job_in_queue(&mut host, "q1");
    let standby = host.submit(HostJob::new(8).bank("A").queue("q2")).unwrap();
    let batch = host.submit(HostJob::new(7).bank("B").queue("q1")).unwrap();
    host.end_job(first);
    assert_eq!([standby, batch].map(|id| host.state(id)), [Some(State::Depend), Some(State::Sched)]);
}
