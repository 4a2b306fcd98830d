// SPDX-License-Identifier: LGPL-3.0-only
//! `why` predicts the latest time at which a held job is released. The job must be released by that time, whichever
//! jobs start before.

use super::host::Host;
use super::scopes::virtual_queues::make_q2_virtual_queue;
use super::site::{HostJob, NOW, association, queue, record};
use super::why::{any_jobs, explain_job, limited_record, make_site, submit_all, timed_job};
use crate::accounts::{Association, Cap, Scope, SiteLimit, Target};
use crate::engine::answers::Release;
use crate::engine::{Engine, Event, Settings, State, Timer};
use crate::ids::{Amount, JobId, Limit};
use State::{Depend, Run, Sched};
use proptest::prelude::*;

fn predict_release(host: &Host, id: JobId) -> Release {
    explain_job(host, id).release
}

/// If running limits are not strict, a job that was never held has no reservation. It counts from its start, which
/// may come at any time.
#[test]
fn a_job_in_sched_may_take_the_slot_that_becomes_free() {
    let mut host = Host::with_data(vec![limited_record(1, 9)], vec![queue("q1")]);
    let [running_job, pending_job] = [100.0, 1_000.0].map(|limit| host.submit(timed_job(7, limit)).unwrap());
    host.start_job(running_job);
    let held_job = host.submit(timed_job(7, 50.0)).unwrap();
    assert_eq!(host.states([pending_job, held_job]), [Some(Sched), Some(Depend)]);
    let predicted = predict_release(&host, held_job);
    assert_eq!((predicted.latest, predicted.reason.code.as_ref()), (None, "needs-start"));
    assert_eq!(predicted.if_started, Some(host.now + 1_000.0));
    host.start_job(pending_job);
    host.end_job(running_job);
    assert_eq!(host.state(held_job), Some(Depend), "the other job took the slot");
    // A job at urgency 0 in SCHED may take the headroom too, because its urgency can change.
    let mut host = Host::with_data(vec![limited_record(1, 9)], vec![queue("q1")]);
    let [running_job, at_urgency_0_job] =
        [100.0, 1_000.0].map(|limit| host.submit(timed_job(7, limit)).unwrap());
    host.set_urgency(at_urgency_0_job, 0);
    host.start_job(running_job);
    let held_job = host.submit(timed_job(7, 50.0)).unwrap();
    assert_eq!(predict_release(&host, held_job).latest, None);
}

/// If the job in SCHED does not start, the larger held job uses the headroom of that job and is released first. So
/// the release time of the smaller held job is unknown.
#[test]
fn a_larger_held_job_may_be_released_first_with_more_headroom() {
    let mut host = Host::with_data(vec![limited_record(9, 4)], vec![queue("q1")]);
    let [running_job, pending] =
        [3, 1].map(|nodes| host.submit(timed_job(7, 100.0).size(nodes, nodes)).unwrap());
    host.start_job(running_job);
    let [larger, held] = [4, 2].map(|nodes| host.submit(timed_job(7, 100.0).size(nodes, nodes)).unwrap());
    assert_eq!(host.states([pending, larger, held]), [Some(Sched), Some(Depend), Some(Depend)]);
    assert_eq!(predict_release(&host, held).latest, None);
    let mut starts = host.clone();
    starts.start_job(pending);
    for (mut host, expected) in [(host, larger), (starts, held)] {
        host.end_job(running_job);
        let is_released = [larger, held].map(|id| host.state(id) == Some(Sched));
        assert_eq!(is_released, [larger, held].map(|id| id == expected));
    }
}

/// No other job can take the headroom that the held job needs, so its release time is certain.
#[test]
fn a_job_that_cannot_take_the_headroom_does_not_change_a_predicted_release_time() {
    // The third job is in another queue and behind the held job.
    let mut host = Host::with_data(vec![limited_record(1, 9)], vec![queue("q1"), queue("q2")]);
    let [first, held, behind] =
        ["q1", "q1", "q2"].map(|queue| host.run_new_job(timed_job(7, 100.0).queue(queue)));
    let end = host.jobs[&first].started.map(|start| start + 100.0);
    assert_eq!((predict_release(&host, held).latest, predict_release(&host, behind).latest), (end, None));
    // The larger held job comes first, but does not fit when the first running job ends.
    let mut host = Host::with_data(vec![limited_record(9, 10)], vec![queue("q1")]);
    let [early, late_job] = [(8, 100.0), (2, 1_000.0)]
        .map(|(nodes, limit)| host.run_new_job(timed_job(7, limit).size(nodes, nodes)));
    let [larger, held] = [10, 1].map(|nodes| host.submit(timed_job(7, 100.0).size(nodes, nodes)).unwrap());
    let end = host.jobs[&early].started.map(|start| start + 100.0);
    assert_eq!((predict_release(&host, held).latest, predict_release(&host, larger).latest), (end, None));
    assert_eq!(host.state(late_job), Some(Run));
}

/// Of two jobs that end at the same time, either may end first. If the larger job ends first, a smaller job
/// behind the held job may fit.
#[test]
fn why_predicts_no_time_if_two_jobs_end_together() {
    for (together, is_known) in [(true, false), (false, true)] {
        let mut host = Host::with_data(vec![limited_record(9, 3)], vec![queue("q1")]);
        let [small_job, large_job] =
            [1, 2].map(|nodes| host.submit(timed_job(7, 100.0).size(nodes, nodes)).unwrap());
        host.start_job(small_job);
        host.now -= if together { 1.0 } else { 0.0 };
        host.start_job(large_job);
        let [held, behind] = [3, 2].map(|nodes| host.submit(timed_job(7, 100.0).size(nodes, nodes)).unwrap());
        assert_eq!(host.states([held, behind]), [Some(Depend); 2]);
        assert_eq!(predict_release(&host, held).latest.is_some(), is_known, "{together}");
    }
}

/// The limit of the bank has headroom now, but jobs of other associations may take this headroom at any time.
#[test]
fn why_predicts_no_time_under_a_limit_over_a_scope() {
    let of_bank = |bank: &str| SiteLimit {
        target: Target::Bank(bank.into()),
        queue: Some("q1".into()),
        amount: Amount::parse("run-jobs").unwrap(),
        cap: Cap { limit: Limit(100), is_given: false },
    };
    for (bank, queue_of, code) in [("A", "q1", "shared"), ("A", "q2", "bounded"), ("B", "q1", "bounded")] {
        let mut host = Host::with_data(vec![limited_record(1, 9)], vec![queue("q1"), queue("q2")]);
        host.send_event(Event::Settings(Settings { limits: vec![of_bank(bank)], ..Settings::default() }));
        host.run_new_job(timed_job(7, 100.0).queue(queue_of));
        let held_job = host.submit(timed_job(7, 100.0).queue(queue_of)).unwrap();
        let predicted = predict_release(&host, held_job);
        assert_eq!(
            (predicted.reason.code.as_ref(), predicted.latest.is_some()),
            (code, code == "bounded"),
            "{bank} {queue_of}"
        );
    }
}

/// `why` examines only the running jobs that end first. These are enough, because all other jobs end later.
#[test]
fn why_predicts_a_release_from_the_running_jobs_that_end_first() {
    let mut engine = Engine::with_small_batches();
    let own = |run| {
        let own = Association { max_running_jobs: Limit(run), ..association(7, "A") };
        Event::Associations(vec![record(own, "A")])
    };
    engine.handle(NOW, own(9_999));
    let shown = |engine: &mut Engine, id: u64, state| {
        let job = timed_job(7, 100.0 + id as f64).bank("A");
        let job = HostJob { state, started: Some(NOW), project: Some("*".to_owned()), ..job };
        engine.handle(NOW, Event::New(Host::facts(JobId(id), &job)));
    };
    (1..=1_100).for_each(|id| shown(&mut engine, id, State::Run));
    engine.handle(NOW, Event::Timer(Timer::ReactorTurn));
    engine.handle(NOW, own(1_100));
    let id = JobId(5_000);
    let held = HostJob { project: Some("*".to_owned()), ..timed_job(7, 100.0).bank("A") };
    engine.handle(NOW, Event::Validate(Host::facts(id, &held)));
    engine.handle(NOW, Event::New(Host::facts(id, &held)));
    engine.handle(NOW, Event::Depend(id));
    let held = HostJob { state: Depend, ..held };
    let predict = |engine: &Engine| {
        crate::engine::answers::why(&engine.view(), &Host::facts(id, &held), NOW).unwrap().release
    };
    assert_eq!(predict(&engine).latest, Some(NOW + 101.0));
    shown(&mut engine, 1_101, Sched);
    engine.handle(NOW, Event::Timer(Timer::ReactorTurn));
    engine.handle(NOW, Event::Eventlog(JobId(1_101), Some(Vec::new())));
    assert_eq!((predict(&engine).latest, predict(&engine).reason.code.as_ref()), (None, "many"));
}

fn exempt_queue_from_association_limits(host: &mut Host, queue: &str) {
    let exempt = [(queue.into(), [Scope::Association].into())].into();
    host.send_event(Event::Settings(Settings { exempt, ..Settings::default() }));
}

/// Generates whether q2 is a virtual queue of q1, and the queue that is exempt from limits of associations.
pub fn any_queue_rules() -> impl Strategy<Value = (bool, Option<&'static str>)> {
    (any::<bool>(), prop::option::weighted(0.3, prop::sample::select(vec!["q1", "q2"])))
}

pub fn apply_queue_rules(host: &mut Host, (is_virtual, exempt_queue): (bool, Option<&str>)) {
    if is_virtual {
        make_q2_virtual_queue(host);
    }
    if let Some(queue) = exempt_queue {
        exempt_queue_from_association_limits(host, queue);
    }
}

/// The limit of the association and the limit of the parent queue hold the first held job. The limit of the
/// association does not hold the second one, which takes the headroom of the parent queue.
#[test]
fn why_predicts_no_time_if_a_job_in_an_exempt_virtual_queue_may_overtake() {
    let mut host = make_site([1, 3, 1, 1, 2]);
    make_q2_virtual_queue(&mut host);
    exempt_queue_from_association_limits(&mut host, "q2");
    host.run_new_job(timed_job(7, 65.0));
    let first = host.run_new_job(timed_job(7, 10.0).queue("q2"));
    let held = host.submit(timed_job(7, 10.0).queue("q1")).unwrap();
    let behind = host.submit(HostJob { duration: 0.0, ..HostJob::new(7).queue("q2") }).unwrap();
    assert_eq!(host.states([held, behind]), [Some(Depend); 2]);
    assert_eq!(predict_release(&host, held).latest, None);
    host.end_job(first);
    assert_eq!(host.states([held, behind]), [Some(Depend), Some(Sched)]);
}

/// Adds each newly released job of `held` to `releases`, with the time `now`.
fn add_new_releases(host: &Host, held: &[JobId], now: f64, releases: &mut Vec<(JobId, f64)>) {
    for id in held {
        if !releases.iter().any(|(released, _)| released == id) && host.state(*id) != Some(Depend) {
            releases.push((*id, now));
        }
    }
}

/// Returns the next time at which a running job ends, and this job. Returns `None` if no job runs.
fn find_next_job_end(host: &Host) -> Option<(f64, JobId)> {
    let ends = host.jobs.iter().filter(|(_, job)| job.state == Run);
    let ends = ends.filter_map(|(id, job)| Some((job.started? + job.limit?, *id)));
    ends.min_by(|a, b| a.0.total_cmp(&b.0))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    /// Running jobs end at their time limits, jobs in SCHED start at any time or never, and no job is submitted. Then no held job is
    /// released after the predicted time, and a job that only running jobs delay is released exactly then.
    #[test]
    fn no_job_is_released_later_than_predicted_whichever_jobs_start(
        jobs in any_jobs(),
        limits in (0..4i64, 3..9i64, 1..6i64, 1..4i64, 2..9i64),
        starts in prop::collection::vec((0..24usize, 0..5u32), 0..24),
        rules in any_queue_rules(),
    ) {
        let mut host = make_site([limits.0, limits.1, limits.2, limits.3, limits.4]);
        apply_queue_rules(&mut host, rules);
        let ids = submit_all(&mut host, &jobs);
        let held: Vec<JobId> = ids.into_iter().filter(|id| host.state(*id) == Some(Depend)).collect();
        let predicted: Vec<_> = held.iter().map(|id| (*id, explain_job(&host, *id))).collect();
        for (id, predicted) in &predicted {
            prop_assert!(!predicted.holds.is_empty(), "no limit holds {}", id);
            // With this job, the counter of each limit that holds it would exceed the cap.
            for hold in &predicted.holds {
                prop_assert!(hold.used + hold.needed > hold.cap);
                let taken: u64 = hold.frees.iter().map(|one| one.amount).sum();
                prop_assert_eq!(taken, hold.used, "{}", hold.limit);
            }
        }
        let (asked, starts_none) = (host.now, starts.is_empty());
        let has_one_pending = |user: u32| {
            let pending = |job: &&HostJob| job.user == user && job.state < Run;
            host.jobs.values().filter(pending).count() == 1
        };
        let alone: Vec<JobId> =
            held.iter().copied().filter(|id| has_one_pending(host.jobs[id].user)).collect();
        let (mut starts, mut releases) = (starts.into_iter(), Vec::new());
        loop {
            let next = find_next_job_end(&host);
            let pending: Vec<JobId> =
                host.jobs.iter().filter(|(_, job)| job.state == Sched).map(|(id, _)| *id).collect();
            // In some steps, a pending job starts before the next running job ends.
            let start = starts.next().filter(|_| !pending.is_empty());
            if let Some((at, part)) = start {
                let span = next.map_or(0.0, |(end, _)| (end - host.now - 1.0).max(0.0));
                host.now += (span * f64::from(part) / 4.0).floor();
                if next.is_none_or(|(end, _)| host.now + 1.0 <= end) {
                    host.start_job(pending[at % pending.len()]);
                    add_new_releases(&host, &held, host.now, &mut releases);
                    continue;
                }
            }
            let Some((end, id)) = next else { break };
            host.now = end.max(host.now) - 1.0;
            host.end_job(id);
            // A job that is past its time limit ends now.
            add_new_releases(&host, &held, end.max(asked), &mut releases);
        }
        for (id, predicted) in &predicted {
            let released = releases.iter().find(|(job, _)| job == id).map(|(_, time)| *time);
            let Release { latest, reason, if_started } = &predicted.release;
            prop_assert_eq!(reason.code == "bounded", latest.is_some());
            if let Some(latest) = latest {
                prop_assert!(released.is_some_and(|time| time <= *latest), "{} {:?}: {:?}", id, predicted.release, released);
                prop_assert!(if_started.is_some_and(|started| started <= *latest), "{} {:?}", id, predicted.release);
            }
            if starts_none && alone.contains(id) {
                prop_assert_eq!(*latest, released, "{} {:?}", id, reason);
            }
        }
    }
}
