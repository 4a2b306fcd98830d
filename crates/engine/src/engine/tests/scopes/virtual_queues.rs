// SPDX-License-Identifier: LGPL-3.0-only
//! Limits on a queue count the jobs of its virtual queues too, because Flux schedules a queue and its virtual queues together.
//! Rules: L5

use super::*;
use crate::engine::Effect;
use crate::engine::answers::{AssociationFilter, LimitUsage, Open};
use crate::ids::QueueName;

/// Makes q2 a virtual queue of q1.
pub fn make_q2_virtual_queue(host: &mut Host) {
    host.send_event(Event::ConfiguredQueues(vec![("q1".into(), None), ("q2".into(), Some("q1".into()))]));
}

/// Returns a policy with `limits`. Each association may run one job in q1, of at most two nodes. Queue q2 has no limits of its own.
fn make_policy_with_limited_q1(limits: Vec<SiteLimit>) -> SiteRecords {
    let mut parent = queue("q1");
    (parent.max_running_jobs, parent.max_nodes_per_assoc) = (Limit(1), Limit(2));
    SiteRecords { queues: vec![parent, queue("q2")], ..policy(limits) }
}

fn make_job_in_queue(user: u32, queue: &str) -> HostJob {
    HostJob::new(user).bank("A").queue(queue)
}

#[test]
fn a_running_job_in_a_virtual_queue_counts_under_the_limits_of_its_parent() {
    for (is_virtual, [first, second]) in [(true, ["q2", "q1"]), (true, ["q1", "q2"]), (false, ["q2", "q1"])] {
        let mut host = Host::new();
        if is_virtual {
            make_q2_virtual_queue(&mut host);
        }
        host.send_event(Event::Policy(make_policy_with_limited_q1(vec![]), SitePart::default()));
        let running_job = host.submit(make_job_in_queue(7, first)).unwrap();
        host.start_job(running_job);
        let waiting_job = host.submit(make_job_in_queue(7, second)).unwrap();
        let expected: &[&str] = if is_virtual { &["max-run-jobs-queue"] } else { &[] };
        assert_eq!(host.names(waiting_job), expected, "{first}, {second}");
        if !is_virtual {
            continue;
        }
        let why = super::super::why::explain_job(&host, waiting_job);
        assert_eq!(why.holds[0].queue, Some(QueueName::from("q1")));
        assert_eq!((why.holds[0].used, why.holds[0].frees[0].id), (1, running_job));
        // Jobs of another association do not count under this limit.
        let other_job = host.submit(make_job_in_queue(8, second)).unwrap();
        assert_eq!(host.state(other_job), Some(State::Sched));
        host.end_job(running_job);
        assert_eq!(host.state(waiting_job), Some(State::Sched));
        assert_eq!(crate::engine::answers::check(&host.engine.view()).drift, []);
    }
}

#[test]
fn the_query_shows_the_rules_that_a_virtual_queue_has_from_its_parent() {
    let mut host = Host::new();
    make_q2_virtual_queue(&mut host);
    host.send_event(Event::Settings(Settings {
        max_priorities: [("q1".into(), 7)].into(),
        ..Settings::default()
    }));
    let rules = crate::engine::answers::snapshot(&host.engine.view()).queue_rules;
    let shown: Vec<_> = rules.iter().map(|(queue, rules)| (queue.as_str(), rules.max_priority)).collect();
    assert_eq!(shown, [("q1", Some(7)), ("q2", Some(7))]);
}

#[test]
fn a_job_in_a_virtual_queue_that_is_too_large_for_the_parent_is_rejected() {
    let mut host = Host::new();
    make_q2_virtual_queue(&mut host);
    host.send_event(Event::Policy(make_policy_with_limited_q1(vec![]), SitePart::default()));
    let text = host.submit(make_job_in_queue(7, "q2").size(3, 3)).unwrap_err();
    assert!(text.contains("max resources limit configured for queue"), "{text}");
}

#[test]
fn a_limit_on_a_queue_counts_the_jobs_of_its_virtual_queues() {
    for (target, in_queue) in [(Target::Queue("q1".into()), Some("q1")), (Target::EachQueue, None)] {
        let mut host = make_site(vec![limit(target.clone(), in_queue, "run-sched-jobs", 1)]);
        make_q2_virtual_queue(&mut host);
        let first = host.submit(make_job_in_queue(7, "q2")).unwrap();
        let second = host.submit(make_job(9, "C", 0)).unwrap();
        assert_eq!(host.names(second), ["max-run-sched-jobs-in-queue"], "{target}");
        let why = super::super::why::explain_job(&host, second);
        let hold = &why.holds[0];
        assert_eq!((&*hold.scope, hold.name.as_deref(), hold.used), ("queue", Some("q1"), 1));
        assert_eq!(hold.text, "1 of 1 running and scheduled jobs of queue q1 are in use; this job takes 1");
        assert_eq!(hold.frees.iter().map(|it| it.id).collect::<Vec<_>>(), [first]);
        // The limit on each queue applies to the virtual queue too.
        let third = host.submit(make_job_in_queue(8, "q2")).unwrap();
        assert_eq!(host.state(third), Some(State::Depend));
        host.start_job(first);
        host.end_job(first);
        assert_eq!([second, third].map(|id| host.state(id)), [Some(State::Depend), Some(State::Sched)]);
        host.start_job(third);
        host.end_job(third);
        assert_eq!(host.state(second), Some(State::Sched));
        assert_eq!(crate::engine::answers::check(&host.engine.view()).drift, []);
    }
}

#[test]
fn a_shared_queue_limit_also_counts_jobs_in_its_virtual_queues() {
    let shared = limit(bank_target("root"), Some("q1"), "run-sched-jobs", 1);
    let mut host = make_site(vec![shared]);
    let first = host.submit(make_job(7, "A", 0)).unwrap();
    let [second, third_job] = ["q2", "q2"].map(|queue| host.submit(make_job_in_queue(8, queue)).unwrap());
    assert_eq!([first, second, third_job].map(|id| host.state(id)), [Some(State::Sched); 3]);
    make_q2_virtual_queue(&mut host);
    let fourth_job = host.submit(make_job_in_queue(8, "q2")).unwrap();
    assert_eq!(host.names(fourth_job), ["max-run-sched-jobs-bank-queue"]);
    for id in [first, second] {
        host.start_job(id);
        host.end_job(id);
    }
    assert_eq!(host.state(fourth_job), Some(State::Depend));
    host.start_job(third_job);
    host.end_job(third_job);
    assert_eq!(host.state(fourth_job), Some(State::Sched));
    // When q2 is no longer a virtual queue, its jobs do not count in q1.
    let fifth_job = host.submit(make_job(7, "A", 0)).unwrap();
    assert_eq!(host.state(fifth_job), Some(State::Depend));
    host.send_event(Event::ConfiguredQueues(vec![("q1".into(), None), ("q2".into(), None)]));
    assert_eq!(host.state(fifth_job), Some(State::Sched));
    assert_eq!(crate::engine::answers::check(&host.engine.view()).drift, []);
}

#[test]
fn a_job_that_moves_from_a_virtual_queue_to_its_parent_counts_once() {
    let shared = limit(bank_target("root"), Some("q1"), "run-sched-jobs", 1);
    let mut host = Host::new();
    make_q2_virtual_queue(&mut host);
    host.send_event(Event::Policy(make_policy_with_limited_q1(vec![shared]), SitePart::default()));
    let id = host.submit(make_job_in_queue(7, "q2")).unwrap();
    let event = Event::UpdateQueue { id, user: UserId(7), state: State::Sched, queue: "q1" };
    let effects = host.engine.handle(host.now, event);
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Reject(_))), "{effects:?}");
}

/// The record of the association names only the virtual queue.
#[test]
fn the_answer_about_an_association_lists_the_limits_of_the_parent_of_its_virtual_queue() {
    let mut host = Host::new();
    make_q2_virtual_queue(&mut host);
    let mut policy = make_policy_with_limited_q1(vec![]);
    policy.associations.iter_mut().for_each(|record| record.association.queues = ["q2".into()].into());
    host.send_event(Event::Policy(policy, SitePart::default()));
    host.run_new_job(make_job_in_queue(7, "q2"));
    let held_job = host.submit(make_job_in_queue(7, "q2")).unwrap();
    assert_eq!(host.names(held_job), ["max-run-jobs-queue"]);
    let (user, bank) = (Some(UserId(7)), Some("A".to_owned()));
    let wanted = AssociationFilter { user, bank, after: None, most: 9, open: Open::Banks };
    let page = crate::engine::answers::standings(&host.engine.view(), &wanted, host.now);
    let is_parents = |limit: &&LimitUsage| limit.queue.as_deref() == Some("q1");
    let shown = page.associations[0].limits.iter().filter(is_parents);
    let shown: Vec<_> = shown.map(|limit| (limit.limit.as_ref(), limit.used, limit.cap)).collect();
    let expected = [("max-run-jobs-queue", Some(1), Some(1)), ("max-resources-queue", Some(1), Some(2))];
    assert!(expected.iter().all(|limit| shown.contains(limit)), "{shown:?}");
}
