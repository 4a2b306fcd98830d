// SPDX-License-Identifier: LGPL-3.0-only
//! After a panic, the engine compares its jobs with Flux, in slices. These tests check the slices, the number of attempts, and the state
//! of the engine afterwards.

use super::examples::{assert_no_drift, make_site, submit};
use super::host::Host;
use super::live::{accounts, leaf, leaves, make_host_with_live_fairshare, tree};
use super::site::{HostJob, NOW, association, make_engine_with_associations, queue, record};
use crate::accounts::{Association, Queue};
use crate::engine::{Effect, Engine, Event, Refusal, Settings, State, Timer};
use crate::ids::{JobId, Limit};
use fairshare::Policy;

/// The number of jobs that the engine looks up in one reactor turn.
const SLICE: usize = 250;

pub fn report_panic_to_engine(host: &mut Host, id: Option<JobId>) -> Vec<Effect> {
    host.engine.handle(NOW, Event::Panicked(id))
}

fn looked_up_jobs(effects: &[Effect]) -> Vec<JobId> {
    effects.iter().filter_map(|e| if let Effect::LookUp(id) = e { Some(*id) } else { None }).collect()
}

/// Returns true if the only effect arms the timer of the next reactor turn.
fn arms_only_timer_of_next_turn(effects: &[Effect]) -> bool {
    matches!(effects, [Effect::Arm(Timer::ReactorTurn)])
}

fn has_log_effect_with_text(effects: &[Effect], text: &str) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::Log(_, said) if said.contains(text)))
}

#[test]
fn a_comparison_looks_up_each_job_once_and_then_requests_all_priorities() {
    let mut host = make_site(|_| ());
    let ids: Vec<JobId> = (0..SLICE + 10).map(|_| submit(&mut host, 1)).collect();
    assert!(!host.engine.view().needs_comparison());
    assert!(arms_only_timer_of_next_turn(&report_panic_to_engine(&mut host, None)));
    assert!(host.engine.view().needs_comparison());
    let turns: Vec<Vec<Effect>> =
        (0..2).map(|_| host.engine.handle(NOW, Event::Timer(Timer::ReactorTurn))).collect();
    let mut seen: Vec<JobId> = turns.iter().flat_map(|turn| looked_up_jobs(turn)).collect();
    assert_eq!(turns.iter().map(|turn| looked_up_jobs(turn).len()).collect::<Vec<_>>(), [SLICE, 10]);
    seen.sort();
    assert_eq!(seen, ids);
    let asks = |turn: &Vec<Effect>| turn.iter().any(|effect| matches!(effect, Effect::ReprioritizeAll));
    assert_eq!(turns.iter().map(asks).collect::<Vec<_>>(), [false, true]);
    assert!(turns.iter().all(|turn| matches!(turn.last(), Some(Effect::Arm(Timer::ReactorTurn)))));
}

/// After a panic, the engine may store jobs that Flux no longer has. So it releases no job before it has compared its
/// jobs with Flux.
#[test]
fn after_a_panic_a_release_scan_waits_for_the_comparison_with_flux() {
    let mut host = make_site(|a| a.max_sched_jobs = Limit(1));
    let [_, held_job] = [submit(&mut host, 1), submit(&mut host, 1)];
    host.send_event(Event::Associations(vec![record(association(7, "A"), "A")]));
    let effects = host.engine.handle(NOW, Event::Reprioritize);
    report_panic_to_engine(&mut host, None);
    host.apply_effects(effects);
    assert_eq!(host.state(held_job), Some(State::Depend));
    host.run_until_idle();
    assert_eq!(host.state(held_job), Some(State::Sched));
    assert_no_drift(&host);
}

/// The panic may have interrupted a change of the counters, and the next decision about a job needs correct counters.
#[test]
fn the_counters_are_recounted_at_once_after_a_panic() {
    let mut host = make_site(|a| a.max_sched_jobs = Limit(1));
    let [first, second_job] = [submit(&mut host, 1), submit(&mut host, 1)];
    assert_eq!(host.states([first, second_job]), [Some(State::Sched), Some(State::Depend)]);
    host.engine.ledger.change_job_without_counting(first, |job| job.phase = crate::limits::Phase::Run);
    assert!(!host.engine.ledger.drift().is_empty());
    report_panic_to_engine(&mut host, Some(first));
    assert_eq!(host.engine.ledger.drift(), []);
}

#[test]
fn after_a_panic_the_engine_rereads_fluxs_jobs_and_drops_vanished_jobs() {
    let mut host = make_site(|a| a.max_sched_jobs = Limit(2));
    let [first_job, gone_job, held_job, blocked_job] = [
        submit(&mut host, 1),
        submit(&mut host, 1),
        submit(&mut host, 1),
        host.submit(HostJob::new(7).blocked_by("afterany:1")).unwrap(),
    ];
    assert_eq!(host.state(held_job), Some(State::Depend));
    // In Flux, one job ended and another started, but the engine got no callback. The panic is reported for a job
    // that does not exist.
    host.jobs.remove(&gone_job);
    host.jobs.get_mut(&first_job).unwrap().state = State::Run;
    let effects = report_panic_to_engine(&mut host, Some(JobId(999)));
    assert!(host.engine.view().has_job(gone_job));
    host.apply_effects(effects);
    host.run_until_idle();
    assert!(!host.engine.view().has_job(gone_job) && !host.engine.view().has_job(JobId(999)));
    assert_eq!(host.state(held_job), Some(State::Sched), "there is headroom now");
    assert!(!host.engine.view().needs_comparison() && !host.engine.view().is_replaying());
    // The engine is still subscribed to the blocked job.
    assert!(host.subscribed.contains(&blocked_job));
    host.unblock(blocked_job, "afterany:1");
    assert_eq!(host.state(blocked_job), Some(State::Sched));
    assert_no_drift(&host);
}

#[test]
fn after_a_panic_only_the_failed_callbacks_job_gets_a_memo() {
    let mut host = make_site(|_| ());
    let [one, other] = [(); 2].map(|()| submit(&mut host, 1));
    let count_memos = |host: &Host| [one, other].map(|id| host.jobs[&id].memos.len());
    assert_eq!(count_memos(&host), [1, 1]);
    let effects = report_panic_to_engine(&mut host, Some(one));
    host.apply_effects(effects);
    host.run_until_idle();
    assert_eq!(count_memos(&host), [2, 1]);
}

#[test]
fn a_job_that_ended_before_its_lookup_is_dropped() {
    let mut host = make_site(|_| ());
    let [ended, other] = [(); 2].map(|()| submit(&mut host, 1));
    report_panic_to_engine(&mut host, None);
    let looked_up = looked_up_jobs(&host.engine.handle(NOW, Event::Timer(Timer::ReactorTurn)));
    assert_eq!(looked_up.len(), 2);
    host.jobs.get_mut(&ended).unwrap().state = State::Inactive;
    for id in [ended, other] {
        let job = host.jobs[&id].clone();
        host.engine.handle(NOW, Event::Shown(Host::facts(id, &job)));
    }
    assert!(!host.engine.view().has_job(ended) && host.engine.view().has_job(other));
    assert_eq!(crate::engine::answers::check(&host.engine.view()).drift, []);
}

#[test]
fn a_failed_lookup_leaves_the_job_unchanged_unless_flux_does_not_have_it() {
    let mut host = make_site(|_| ());
    let id = submit(&mut host, 1);
    report_panic_to_engine(&mut host, None);
    let asked_effects = host.engine.handle(NOW, Event::Timer(Timer::ReactorTurn));
    assert_eq!(looked_up_jobs(&asked_effects), [id]);
    let effects = host.engine.refused(Effect::LookUp(id), Refusal::Other("no memory".to_owned()));
    assert!(has_log_effect_with_text(&effects, &format!("job {id}: failed to look it up: no memory")));
    assert!(host.engine.view().has_job(id));
    assert!(host.engine.refused(Effect::LookUp(id), Refusal::Absent).is_empty());
    assert!(!host.engine.view().has_job(id));
}

#[test]
fn the_engine_compares_jobs_after_three_panics_in_a_row_and_then_only_on_request() {
    let mut host = make_site(|_| ());
    let id = submit(&mut host, 1);
    for _ in 0..3 {
        assert!(arms_only_timer_of_next_turn(&report_panic_to_engine(&mut host, None)));
    }
    assert!(host.engine.handle(NOW, Event::TryAgain).is_empty(), "a comparison is under way");
    let effects = report_panic_to_engine(&mut host, None);
    assert!(has_log_effect_with_text(&effects, "cannot compare the plugin"));
    assert_eq!(
        looked_up_jobs(&host.engine.handle(NOW, Event::Timer(Timer::ReactorTurn))),
        [],
        "no comparison after the fourth panic"
    );
    assert!(host.engine.view().needs_comparison());
    assert!(arms_only_timer_of_next_turn(&host.engine.handle(NOW, Event::TryAgain)));
    assert!(
        host.engine.handle(NOW, Event::TryAgain).is_empty(),
        "a second request starts no second comparison"
    );
    assert_eq!(looked_up_jobs(&host.engine.handle(NOW, Event::Timer(Timer::ReactorTurn))), [id]);
    // After one more panic, the engine abandons this comparison with Flux too.
    assert!(has_log_effect_with_text(&report_panic_to_engine(&mut host, None), "cannot compare"));
}

#[test]
fn a_request_to_compare_jobs_with_flux_does_nothing_if_no_call_panicked() {
    let mut host = make_site(|_| ());
    submit(&mut host, 1);
    assert!(host.engine.handle(NOW, Event::TryAgain).is_empty());
    for _ in 0..3 {
        report_panic_to_engine(&mut host, None);
        host.apply_effects(vec![Effect::Arm(Timer::ReactorTurn)]);
        host.run_until_idle();
        assert!(!host.engine.view().needs_comparison(), "a complete comparison resets the count of panics");
    }
}

#[test]
fn the_engine_waits_for_no_eventlog_after_the_fourth_panic() {
    let mut host = make_site(|a| a.max_sched_jobs = Limit(1));
    let [_, held] = [(); 2].map(|()| submit(&mut host, 1));
    host.never_answered.insert(held);
    let limited_association = Association { max_sched_jobs: Limit(1), ..association(7, "A") };
    host.replay_jobs(true, make_engine_with_associations(vec![record(limited_association, "A")]));
    assert!(host.engine.ledger().job(held).unwrap().is_unread() && host.engine.ledger().has_unread());
    for _ in 0..4 {
        report_panic_to_engine(&mut host, None);
    }
    assert!(!host.engine.ledger().job(held).unwrap().is_unread() && !host.engine.ledger().has_unread());
}

#[test]
fn the_comparison_with_flux_ends_when_no_lookup_is_pending() {
    for why in [Refusal::Absent, Refusal::Other("no memory".to_owned())] {
        let mut host = make_site(|_| ());
        let id = submit(&mut host, 1);
        report_panic_to_engine(&mut host, None);
        assert_eq!(looked_up_jobs(&host.engine.handle(NOW, Event::Timer(Timer::ReactorTurn))), [id]);
        host.engine.refused(Effect::LookUp(id), why);
        assert!(host.engine.view().needs_comparison());
        host.engine.handle(NOW, Event::Timer(Timer::ReactorTurn));
        assert!(!host.engine.view().needs_comparison());
    }
}

/// A panic may have interrupted a change of subscriptions. So the engine ends the subscription to each job, and subscribes again to a job
/// that may be blocked.
#[test]
fn a_panic_renews_the_subscription_to_a_job_that_may_be_blocked() {
    for (state, has_dependencies, needs_priority_request) in [
        (State::New, true, true),
        (State::New, false, false),
        (State::Depend, true, true),
        (State::Depend, false, false),
        (State::Sched, true, false),
    ] {
        let mut engine = Engine::with_small_batches();
        let (id, mut job) = (JobId(1), HostJob::new(7));
        engine.handle(NOW, Event::Created { id, state: State::New, has_dependencies });
        engine.handle(NOW, Event::Validate(Host::facts(id, &job)));
        engine.handle(NOW, Event::New(Host::facts(id, &job)));
        engine.handle(NOW, Event::Panicked(Some(id)));
        engine.handle(NOW, Event::Timer(Timer::ReactorTurn));
        job.state = state;
        let effects = engine.handle(NOW, Event::Shown(Host::facts(id, &job)));
        let which = |effect: &Effect| match effect {
            Effect::Unsubscribe(left) => Some((*left, false)),
            Effect::Subscribe(join_names) => Some((*join_names, true)),
            _ => None,
        };
        let mut wanted = vec![(id, false)];
        wanted.extend(needs_priority_request.then_some((id, true)));
        let asked: Vec<_> = effects.iter().filter_map(which).collect();
        assert_eq!(asked, wanted, "{state:?} {has_dependencies}");
    }
}

/// If the callback about a job fails, Flux still moves the job to the next state. The limits must apply to
/// that job too.
#[test]
fn a_callback_that_panics_lets_no_job_past_a_limit() {
    let mut host = make_site(|a| a.max_sched_jobs = Limit(1));
    let first_job = submit(&mut host, 1);
    host.panics_at = Some(|event| matches!(event, Event::Depend(_)));
    let second_job = submit(&mut host, 1);
    assert!(host.panics_at.is_none() && !host.engine.view().needs_comparison());
    assert_eq!(host.states([first_job, second_job]), [Some(State::Sched), Some(State::Priority)]);
    host.start_job(first_job);
    assert_eq!(host.state(second_job), Some(State::Sched));
    assert_no_drift(&host);
    // The limits must also apply to two blocked jobs whose dependencies end.
    let narrow_queue = Queue { max_nodes_per_assoc: Limit(1), ..queue("q1") };
    let mut host = Host::with_data(vec![record(association(7, "A"), "A")], vec![narrow_queue]);
    let jobs = [(); 2].map(|()| host.submit(HostJob::new(7).queue("q1").blocked_by("afterany:1")).unwrap());
    host.remove_dependency(jobs[0], "afterany:1");
    host.panics_at = Some(|event| matches!(event, Event::Dependency { .. }));
    host.remove_dependency(jobs[1], "afterany:1");
    host.run_until_idle();
    assert!(host.panics_at.is_none());
    assert_eq!(host.states(jobs), [Some(State::Sched), Some(State::Priority)]);
    host.end_job(jobs[0]);
    assert_eq!(host.state(jobs[1]), Some(State::Sched));
    assert_no_drift(&host);
}

#[test]
fn a_job_submitted_after_the_fourth_panic_is_held_and_released_as_usual() {
    let mut host = make_site(|a| a.max_sched_jobs = Limit(1));
    (0..4).for_each(|_| drop(report_panic_to_engine(&mut host, None)));
    assert!(host.engine.view().needs_comparison());
    let jobs = [(); 2].map(|()| submit(&mut host, 1));
    assert_eq!(host.states(jobs), [Some(State::Sched), Some(State::Depend)]);
    host.start_job(jobs[0]);
    assert_eq!(host.state(jobs[1]), Some(State::Sched));
    assert_no_drift(&host);
}

/// A panic drops the timers and the state of the refresh, so the engine must arm the timer again.
#[test]
fn a_refresh_that_panicked_is_repeated_after_one_refresh_interval() {
    for (users, refresh) in [(8, 30.0), (5_000, 30.0), (8, 0.0)] {
        let mut host = make_host_with_live_fairshare(Policy::FairTree);
        let mut all_accounts = accounts();
        all_accounts.associations.extend((100..100 + users).map(|user| record(association(user, "A"), "A")));
        let many = leaves().into_iter().chain((100..100 + users).map(|user| leaf(user, "A", 1.0, 0.0)));
        host.send_event(Event::Settings(Settings { refresh, ..Settings::default() }));
        host.send_event(Event::Policy(all_accounts, tree(Policy::FairTree, NOW, many.collect())));
        let [running_job, mine, other] =
            [7, 7, 8].map(|user| host.submit(HostJob::new(user).bank("A")).unwrap());
        host.start_job(running_job);
        host.now += 30.0;
        drop(host.engine.handle(host.now, Event::Timer(Timer::Refresh)));
        host.refresh_at = None;
        let effects = report_panic_to_engine(&mut host, None);
        host.apply_effects(effects);
        host.run_until_idle();
        assert_eq!(host.refresh_at, Some(host.now + 30.0), "{users} {refresh}");
        host.advance_time_and_refresh(30.0);
        assert_eq!(host.engine.view().get_live_fairshare_details().last.unwrap().when, host.now);
        assert!(host.jobs[&mine].priority < host.jobs[&other].priority, "{users} {refresh}");
        assert_eq!(host.refresh_at.is_some(), refresh > 0.0);
    }
}

/// If each panic moved the refresh by a period, a panic every 20 seconds would prevent all refreshes.
#[test]
fn repeated_panics_do_not_delay_the_next_refresh() {
    let mut host = make_host_with_live_fairshare(Policy::FairTree);
    let due = host.refresh_at.unwrap();
    host.now += 20.0;
    let effects = host.engine.handle(host.now, Event::Panicked(None));
    host.apply_effects(effects);
    host.run_until_idle();
    assert_eq!(host.refresh_at, Some(due));
    host.now += 5.0;
    let effects = host.engine.handle(host.now, Event::Panicked(None));
    host.apply_effects(effects);
    host.run_until_idle();
    assert_eq!(host.refresh_at, Some(due));
}

/// After a panic, the engine also compares jobs without an association with Flux. The comparison ends when the job's
/// eventlog is read, or when the job ends.
#[test]
fn the_comparison_with_flux_includes_jobs_without_an_association() {
    for ends in [false, true] {
        let mut host = Host::new();
        let id = host.submit(HostJob::new(9).blocked_by("afterany:1")).unwrap();
        host.never_answered = [id].into();
        let effects = report_panic_to_engine(&mut host, None);
        host.apply_effects(effects);
        host.run_until_idle();
        assert!(host.engine.view().needs_comparison(), "the eventlog is unread");
        if ends {
            host.end_job(id);
        } else {
            let log = host.jobs[&id].log.clone();
            host.send_event(Event::Eventlog(id, Some(log)));
        }
        assert!(!host.engine.view().needs_comparison(), "{ends}");
    }
}

/// Pending requests get no answer after a panic, so the engine repeats them. After 12 panics it no longer asks job-list for ended jobs.
#[test]
fn pending_requests_are_repeated_after_a_panic() {
    let asks = |effects: &[Effect]| {
        effects.iter().filter(|effect| matches!(effect, Effect::ListEnded { .. })).count()
    };
    let mut engine = Engine::with_small_batches();
    let pushed_effects = engine.handle(NOW, Event::Policy(accounts(), tree(Policy::FairTree, NOW, leaves())));
    assert_eq!(asks(&pushed_effects), 1);
    for time in 1..=12 {
        let effects = engine.handle(NOW, Event::Panicked(None));
        let gives_up = has_log_effect_with_text(&effects, "job-list does not answer");
        assert_eq!(gives_up, time == 12, "{time}");
        assert_eq!(effects.iter().any(|effect| matches!(effect, Effect::Arm(Timer::Retry))), !gives_up);
        assert_eq!(asks(&engine.handle(NOW, Event::Timer(Timer::Retry))), usize::from(!gives_up));
    }
    let weights = [("size".to_owned(), 10)].into();
    engine.handle(NOW, Event::Weights(weights));
    for is_known in [false, true] {
        let effects = engine.handle(NOW, Event::Panicked(None));
        let asks = |effects: &[Effect]| effects.iter().any(|effect| matches!(effect, Effect::ReadSiteNodes));
        assert!(!asks(&effects), "an immediate request could panic again and again");
        assert_eq!(effects.iter().any(|effect| matches!(effect, Effect::Arm(Timer::Retry))), !is_known);
        assert_eq!(asks(&engine.handle(NOW, Event::Timer(Timer::Retry))), !is_known);
        engine.handle(NOW, Event::SiteNodes(Some(4)));
    }
}

/// The panic interrupted the callback that reports the end of the job, before or after the ledger dropped the job.
#[test]
fn a_job_whose_end_a_panic_interrupted_no_longer_runs() {
    for (is_cached, is_dropped) in [(true, false), (false, false), (true, true), (false, true)] {
        let mut host = make_host_with_live_fairshare(Policy::FairTree);
        let id = host.run_new_job(HostJob::new(7));
        assert_eq!(host.engine.view().get_live_fairshare_details().running, 1);
        report_panic_to_engine(&mut host, Some(id));
        if is_dropped {
            host.engine.ledger.remove(id);
        }
        assert!(looked_up_jobs(&host.engine.handle(NOW, Event::Timer(Timer::ReactorTurn))).contains(&id));
        host.jobs.get_mut(&id).unwrap().state = State::Inactive;
        host.now += 10.0;
        if is_cached {
            let job = host.jobs[&id].clone();
            host.engine.handle(host.now, Event::Shown(Host::facts(id, &job)));
        } else {
            host.engine.refused(Effect::LookUp(id), Refusal::Absent);
        }
        assert_eq!(host.engine.view().get_live_fairshare_details().running, 0, "{is_cached} {is_dropped}");
        assert!(!host.engine.view().has_job(id));
    }
}
