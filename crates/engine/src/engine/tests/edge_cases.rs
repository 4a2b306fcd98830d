// SPDX-License-Identifier: LGPL-3.0-only
//! Edge cases: a full limit, equal usages, no usage, a page that contains exactly the jobs that are left, and a timer that is due.
//! Rules: R7

use super::examples::{make_site, start, submit};
use super::host::Host;
use super::live::{accounts, leaf, make_host_with_live_fairshare, tree};
use super::site::{HostJob, NOW, OWNER};
use super::why::explain_job;
use crate::engine::answers::{AssociationFilter, JobFilter, Open};
use crate::engine::{Effect, Engine, Event, QueueReport, Settings, Timer};
use crate::ids::{JobId, Limit, UserId};
use fairshare::Policy;

fn armed_refresh(effects: &[Effect]) -> Option<f64> {
    effects
        .iter()
        .find_map(|it| if let Effect::ArmIn(Timer::Refresh, after) = it { Some(*after) } else { None })
}

#[test]
fn why_suggests_no_smaller_job_when_the_limit_is_full() {
    let mut host = make_site(|a| a.max_nodes = Limit(2));
    start(&mut host, 2);
    let held_job = submit(&mut host, 2);
    let answer = explain_job(&host, held_job);
    assert_eq!((answer.holds[0].used, answer.holds[0].cap, answer.holds[0].needed), (2, 2, 2));
    assert!(answer.helps.iter().all(|help| help.code != "smaller"), "{:?}", answer.helps);
}

/// The engine must not divide by the total usage, which is 0 here.
#[test]
fn the_usage_fractions_are_0_when_the_total_usage_is_0() {
    let host = make_host_with_live_fairshare(Policy::FairTree);
    let stats = host.stats();
    assert!(stats.banks.len() > 1);
    for bank in stats.banks.into_iter().filter(|bank| bank.parent.is_some()) {
        assert_eq!((bank.usage, bank.usage_part, bank.delivered), (0.0, 0.0, 0.0), "{}", bank.bank);
    }
}

#[test]
fn no_recovery_time_is_predicted_if_the_usage_equals_the_share() {
    let mut host = Host::new();
    let leaves = vec![leaf(7, "A", 64.0, 0.0), leaf(8, "A", 64.0, 0.0)];
    host.send_event(Event::Policy(accounts(), tree(Policy::FairTree, NOW, leaves)));
    let wanted =
        AssociationFilter { user: Some(UserId(8)), bank: None, after: None, most: 9, open: Open::All };
    let answer = crate::engine::answers::standings(&host.engine.view(), &wanted, host.now);
    let level = answer.associations[0].levels.last().unwrap();
    assert_eq!((level.node.usage, level.even_usage, level.even_at), (64.0, Some(64.0), None));
}

/// The page is not full, but the search has reached the last job, so there is no next page.
#[test]
fn a_page_that_examined_every_job_is_the_last() {
    let mut host = make_site(|_| ());
    let ids = ["q1", "q2"].map(|queue| host.submit(HostJob::new(7).queue(queue)).unwrap());
    let read_page = |most| {
        let (user, queue) = (Some(UserId(7)), Some("q1".to_owned()));
        let page = crate::engine::answers::jobs_page(
            &host.engine.view(),
            &JobFilter { after: None, ids: None, user, bank: None, queue, most },
            host.now,
        );
        (page.jobs.iter().map(|job| job.id).collect::<Vec<JobId>>(), page.next)
    };
    assert_eq!(read_page(2), (vec![ids[0]], None));
}

#[test]
fn each_refresh_is_counted() {
    let mut host = make_host_with_live_fairshare(Policy::FairTree);
    let before = host.engine.refresh.totals().0;
    (0..3).for_each(|_| host.advance_time_and_refresh(30.0));
    assert_eq!(host.engine.refresh.totals().0, before + 3);
}

/// Live fair-share is off and ages have no weight, so no priority changes with time.
#[test]
fn a_panic_arms_no_refresh_timer_that_was_not_armed_before() {
    for refresh in [30.0, 0.0] {
        let mut host = make_site(|_| ());
        host.send_event(Event::Settings(Settings { refresh, ..Settings::default() }));
        assert_eq!(host.refresh_at, None);
        let effects = host.engine.handle(NOW, Event::Panicked(None));
        assert_eq!(armed_refresh(&effects), None, "{effects:?}");
    }
}

/// The refresh may have caused the panic, so it must not run again in the same turn.
#[test]
fn a_refresh_that_is_due_when_a_call_panics_comes_a_period_later() {
    let mut host = make_host_with_live_fairshare(Policy::FairTree);
    let due = host.refresh_at.unwrap();
    let effects = host.engine.handle(due, Event::Panicked(None));
    assert_eq!(armed_refresh(&effects), Some(30.0), "{effects:?}");
}

/// At a restart, Flux loads the scheduler after the plugin, and cannot report the states of queues before that.
/// Flux reports no state of such a queue until the queue is configured again.
#[test]
fn the_engine_asks_about_a_queue_that_flux_no_longer_has_when_it_is_configured_again() {
    let asked_queues = |engine: &mut Engine| match engine.handle(NOW, Event::Timer(Timer::Queues)).pop() {
        Some(Effect::AskQueues(queues)) => queues.len(),
        _ => 0,
    };
    let configure = |engine: &mut Engine, queues: &[&str]| {
        let queues = queues.iter().map(|name| ((*name).into(), None)).collect();
        engine.handle(NOW, Event::ConfiguredQueues(queues));
    };
    for (name, others) in [(Some("q1"), ["q2", "q1"].as_slice()), (None, &[])] {
        let mut engine = Engine::new(OWNER);
        let job = HostJob { queue: name.map(str::to_owned), ..HostJob::new(7) };
        engine.handle(NOW, Event::New(Host::facts(JobId(1), &job)));
        engine.handle(NOW, Event::Gone(JobId(1)));
        for (report, asked) in [(QueueReport::Stopped, 1), (QueueReport::Missing, 0)] {
            engine.handle(NOW, Event::QueueStates(vec![(name.map(Into::into), report)]));
            assert_eq!(asked_queues(&mut engine), asked);
        }
        configure(&mut engine, &["q2"]);
        engine.handle(NOW, Event::New(Host::facts(JobId(2), &job)));
        assert_eq!(asked_queues(&mut engine), 0);
        configure(&mut engine, others);
        assert_eq!(asked_queues(&mut engine), 1);
    }
}

/// By an answer without effects the plugin knows that it must pass the job to the engine first. A request for the states of
/// queues is due here, and must wait for another event.
#[test]
fn the_engine_has_no_effects_for_the_priority_of_an_unknown_job() {
    let mut host = make_site(|a| a.max_running_jobs = Limit(1));
    start(&mut host, 1);
    submit(&mut host, 1);
    host.engine.shared.queues.repeat_request();
    let id = JobId(99);
    let bounced = Event::Bounced { id, urgency: 16, posted: 5 };
    for event in [Event::Priority(id, 16), Event::PriorityGet(id, 16), bounced] {
        let effects = host.engine.handle(NOW, event);
        assert!(effects.is_empty(), "{effects:?}");
    }
    let effects = host.engine.handle(NOW, Event::Sched(id));
    assert!(matches!(effects.as_slice(), [Effect::ArmIn(Timer::Queues, _)]), "{effects:?}");
}

#[test]
fn the_engine_asks_again_soon_if_flux_does_not_know_the_states_of_queues() {
    let mut engine = Engine::new(OWNER);
    let unknown = engine.handle(NOW, Event::QueueStates(Vec::new()));
    assert!(matches!(unknown.as_slice(), [Effect::Arm(Timer::Queues)]), "{unknown:?}");
    let unanswered = vec![(Some("q1".into()), QueueReport::Unknown)];
    let effects = engine.handle(NOW, Event::QueueStates(unanswered));
    assert!(matches!(effects.as_slice(), [Effect::ArmIn(Timer::Queues, _)]), "{effects:?}");
}
