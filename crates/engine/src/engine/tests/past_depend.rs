// SPDX-License-Identifier: LGPL-3.0-only
//! Jobs that are past DEPEND when limits begin to apply to them. The engine holds them in PRIORITY, or in SCHED at priority 0, and releases
//! them in the same order as other held jobs.
//! Rules: L16

use super::examples::{assert_no_drift, make_site, submit};
use super::host::Host;
use super::site::{HostJob, NOW, association, make_engine_with_associations, queue, record};
use super::strict::running_limit_settings;
use crate::accounts::{Association, AssociationRecord, Queue, RunningLimits};
use crate::engine::{Effect, Engine, Event, JobFacts, Settings, State, answers};
use crate::ids::{JobId, Limit};
use State::{Depend, Priority, Run, Sched};

pub fn list_states(host: &Host, jobs: &[JobId]) -> Vec<State> {
    jobs.iter().filter_map(|id| host.state(*id)).collect()
}

/// Returns for each job whether it may run: the job is in SCHED and not held there. All jobs must be in SCHED.
pub fn list_whether_jobs_may_run(host: &Host, jobs: &[JobId]) -> Vec<bool> {
    assert!(jobs.iter().all(|id| host.state(*id) == Some(Sched)));
    jobs.iter().map(|id| host.jobs[id].is_scheduled()).collect()
}

fn limited_record(run: i64) -> AssociationRecord {
    let one_association =
        Association { max_running_jobs: Limit(run), max_sched_jobs: Limit(2), ..association(7, "A") };
    record(one_association, "A")
}

/// Checks the counters, and that no job is held without a reason.
pub fn assert_counters_and_holds(host: &Host) {
    assert_no_drift(host);
    host.oracle.check_no_job_is_stranded(&host.jobs);
}

/// Returns a host with three jobs that were submitted before the first push. The push allows two jobs in SCHED, so
/// the third job is held in PRIORITY.
fn push_after_three_jobs() -> (Host, [JobId; 3]) {
    let mut host = Host::new();
    let jobs = [(); 3].map(|()| submit(&mut host, 1));
    assert_eq!(list_states(&host, &jobs), [Priority; 3]);
    host.send_event(Event::Queues(vec![queue("q1"), queue("q2")]));
    host.send_event(Event::Associations(vec![limited_record(3)]));
    assert_eq!(list_states(&host, &jobs), [Priority; 3], "records alone move no job");
    host.send_event(Event::Reprioritize);
    (host, jobs)
}

#[test]
fn jobs_that_came_before_a_push_are_released_in_order_up_to_the_limit() {
    let (mut host, jobs) = push_after_three_jobs();
    assert_eq!(list_states(&host, &jobs), [Sched, Sched, Priority]);
    let late_job = submit(&mut host, 1);
    assert_eq!(host.state(late_job), Some(Depend));
    assert_counters_and_holds(&host);
    host.start_job(jobs[0]);
    assert_eq!(list_states(&host, &jobs), [Run, Sched, Sched], "the job goes before the later job");
    assert_eq!(host.state(late_job), Some(Depend));
    host.start_job(jobs[1]);
    assert_eq!(host.state(late_job), Some(Depend), "the third job has a reservation to run");
    host.end_job(jobs[0]);
    assert_eq!(host.state(late_job), Some(Sched));
    assert_counters_and_holds(&host);
}

#[test]
fn a_job_held_in_priority_is_shown_as_held_with_its_limit() {
    let (host, jobs) = push_after_three_jobs();
    let held = answers::snapshot(&host.engine.view()).users[0].banks[0].held_jobs.clone();
    let shown: Vec<(JobId, Vec<String>)> = held.into_iter().map(|(id, job)| (id, job.deps)).collect();
    assert_eq!(shown, [(jobs[2], vec!["max-sched-jobs-user-limit".to_owned()])]);
    let facts: JobFacts<'_> = Host::facts(jobs[2], &host.jobs[&jobs[2]]);
    let why = answers::why(&host.engine.view(), &facts, host.now).unwrap();
    assert!(why.is_held && why.carries.is_empty());
    let holds: Vec<&str> = why.holds.iter().map(|hold| hold.limit.as_ref()).collect();
    assert_eq!(holds, ["max-sched-jobs-user-limit"]);
    assert_eq!(why.line.map(|line| (line.place, line.of)), Some((1, 1)));
    let stats = host.stats();
    let held: u64 = stats.held_by_limit.values().sum();
    assert_eq!(held, 1);
}

/// The event `Rest` removes our dependencies from held jobs. A job that is held in PRIORITY has no dependencies of
/// our plugin.
#[test]
fn removal_of_our_dependencies_ignores_a_job_held_in_priority() {
    let (mut host, jobs) = push_after_three_jobs();
    assert!(!host.engine.view().can_rest(jobs[2]));
    assert!(host.engine.handle(NOW, Event::Rest(vec![jobs[2]])).is_empty(), "the request reserves nothing");
    assert_eq!(list_states(&host, &jobs), [Sched, Sched, Priority]);
    host.end_job(jobs[0]);
    assert_eq!(host.state(jobs[2]), Some(Sched), "the job is released as before");
    assert_counters_and_holds(&host);
}

#[test]
fn a_job_that_ends_while_held_in_priority_leaves_no_count() {
    let (mut host, jobs) = push_after_three_jobs();
    host.end_job(jobs[2]);
    host.end_job(jobs[0]);
    assert_counters_and_holds(&host);
    host.end_job(jobs[1]);
    assert_eq!(answers::check(&host.engine.view()).jobs, 0);
}

#[test]
fn a_job_of_urgency_0_released_from_priority_reserves_no_headroom_to_run() {
    let (mut host, jobs) = push_after_three_jobs();
    host.set_urgency(jobs[2], 0);
    host.start_job(jobs[0]);
    let late_job = submit(&mut host, 1);
    assert_eq!(list_states(&host, &[jobs[2], late_job]), [Sched, Depend], "SCHED is full again");
    host.start_job(jobs[1]);
    assert_eq!(host.state(late_job), Some(Sched), "the limit has headroom for a third running job");
    assert_counters_and_holds(&host);
}

#[test]
fn jobs_held_in_priority_stay_held_after_a_reload_and_a_restart() {
    for is_reload in [true, false] {
        for data_first in [true, false] {
            let (mut host, jobs) = push_after_three_jobs();
            let mut engine = Engine::with_small_batches();
            if data_first {
                engine.handle(NOW, Event::Associations(vec![limited_record(3)]));
            }
            host.replay_jobs(is_reload, engine);
            if !data_first {
                host.push(vec![limited_record(3)]);
            }
            assert_eq!(list_states(&host, &jobs), [Sched, Sched, Priority], "{is_reload} {data_first}");
            assert_counters_and_holds(&host);
            host.end_job(jobs[1]);
            assert_eq!(list_states(&host, &jobs), [Sched, Sched], "{is_reload} {data_first}");
            assert_counters_and_holds(&host);
        }
    }
}

#[test]
fn a_job_in_sched_is_held_after_an_update_to_a_full_queue_that_no_plugin_checked() {
    let full_queue = Queue { max_sched_jobs: Limit(1), ..queue("q2") };
    let mut host = Host::with_data(vec![record(association(7, "A"), "A")], vec![queue("q1"), full_queue]);
    let mut in_queue = |queue: &str| host.submit(HostJob::new(7).queue(queue)).unwrap();
    let [job_a, job_b] = ["q2", "q1"].map(&mut in_queue);
    host.force_update(job_b, Some("q2".to_owned()), Some("A".to_owned()));
    assert_eq!(list_whether_jobs_may_run(&host, &[job_a, job_b]), [true, false]);
    let id = host.engine.book().find(crate::ids::UserId(7), None).unwrap();
    assert_eq!(
        host.engine.ledger().accounts().usage(id).total.sched.jobs(),
        1,
        "the held job no longer counts as scheduled"
    );
    assert_counters_and_holds(&host);
    host.end_job(job_a);
    assert_eq!(list_whether_jobs_may_run(&host, &[job_b]), [true]);
    assert_counters_and_holds(&host);
}

#[test]
fn a_job_held_in_sched_is_released_by_an_update_to_a_queue_with_headroom() {
    let full_queue = Queue { max_sched_jobs: Limit(1), ..queue("q2") };
    let mut host = Host::with_data(vec![record(association(7, "A"), "A")], vec![queue("q1"), full_queue]);
    let mut in_queue = |queue: &str| host.submit(HostJob::new(7).queue(queue)).unwrap();
    let [a, job_b] = ["q2", "q1"].map(&mut in_queue);
    host.force_update(job_b, Some("q2".to_owned()), Some("A".to_owned()));
    assert_eq!(host.update_job(job_b, Some("q1"), None), Ok(()));
    assert_eq!(list_whether_jobs_may_run(&host, &[a, job_b]), [true; 2]);
    assert_counters_and_holds(&host);
}

#[test]
fn a_job_update_is_checked_against_bank_limits_only_for_another_bank() {
    let record_in = |bank: &str, most: i64| {
        record(Association { max_sched_jobs: Limit(most), ..association(7, bank) }, "A")
    };
    let mut host =
        Host::with_data(vec![record_in("A", 9), record_in("B", 1)], vec![queue("q1"), queue("q2")]);
    let mut in_bank = |bank: &str| host.submit(HostJob::new(7).queue("q1").bank(bank)).unwrap();
    let [job_a, job_b, job_c] = ["B", "A", "A"].map(&mut in_bank);
    host.force_update(job_b, Some("q1".to_owned()), Some("B".to_owned()));
    assert_eq!(
        list_whether_jobs_may_run(&host, &[job_a, job_b, job_c]),
        [true, false, true],
        "bank B is full"
    );
    assert_counters_and_holds(&host);
    host.send_event(Event::Associations(vec![record_in("A", 0), record_in("B", 1)]));
    host.force_update(job_c, Some("q2".to_owned()), Some("A".to_owned()));
    assert_eq!(list_whether_jobs_may_run(&host, &[job_c]), [true], "the job still counts in its bank");
    host.end_job(job_a);
    assert_eq!(list_whether_jobs_may_run(&host, &[job_b]), [true]);
    assert_counters_and_holds(&host);
}

#[test]
fn a_job_that_moves_counts_by_the_running_limits_of_the_new_queue_at_once() {
    let mut host = make_site(|job_a| job_a.max_running_jobs = Limit(1));
    host.send_event(Event::Settings(running_limit_settings(
        RunningLimits::Upstream,
        &[("q2", RunningLimits::Strict)],
    )));
    let mut in_queue = |queue: &str| host.submit(HostJob::new(7).queue(queue)).unwrap();
    let [job_b, job_a] = ["q1", "q2"].map(&mut in_queue);
    assert_eq!(list_whether_jobs_may_run(&host, &[job_a, job_b]), [true; 2]);
    host.force_update(job_b, Some("q2".to_owned()), Some("A".to_owned()));
    assert_eq!(list_whether_jobs_may_run(&host, &[job_a, job_b]), [true, false]);
    assert_counters_and_holds(&host);
    host.end_job(job_a);
    assert_eq!(list_whether_jobs_may_run(&host, &[job_b]), [true]);
    assert_counters_and_holds(&host);
}

#[test]
fn with_strict_full_running_limits_a_job_leaving_urgency_0_is_held() {
    for (settings, wanted) in [
        (Settings::default(), [true; 2]),
        (running_limit_settings(RunningLimits::Strict, &[]), [false, true]),
    ] {
        let mut host = make_site(|a| a.max_running_jobs = Limit(1));
        host.send_event(Event::Settings(settings));
        let at_urgency_0_job = submit(&mut host, 1);
        host.set_urgency(at_urgency_0_job, 0);
        let next_job = submit(&mut host, 1);
        assert_eq!(list_whether_jobs_may_run(&host, &[at_urgency_0_job, next_job]), [true; 2]);
        host.set_urgency(at_urgency_0_job, 16);
        assert_eq!(list_whether_jobs_may_run(&host, &[at_urgency_0_job, next_job]), wanted);
        host.end_job(next_job);
        assert_eq!(list_whether_jobs_may_run(&host, &[at_urgency_0_job]), [true]);
        assert_counters_and_holds(&host);
    }
}

/// Before the engine releases a job from PRIORITY, it looks up the urgency, and then posts the priority. Flux may refuse either request.
#[test]
fn a_job_keeps_no_reservation_if_flux_refuses_to_look_up_its_urgency_or_to_set_its_priority() {
    for is_priority in [true, false] {
        let (mut host, jobs) = push_after_three_jobs();
        let why = Some(crate::engine::Refusal::Other("out of memory".to_owned()));
        *(if is_priority { &mut host.refuse_priorities } else { &mut host.refuse_urgency_requests }) = why;
        host.start_job(jobs[0]);
        assert_eq!(list_states(&host, &jobs), [Run, Sched, Priority]);
        let last = host.engine.ledger().job(jobs[2]).unwrap();
        assert!(last.is_held() && last.footprint().is_idle(), "{is_priority}");
        (host.refuse_priorities, host.refuse_urgency_requests) = (None, None);
        host.start_job(jobs[1]);
        assert_eq!(list_states(&host, &jobs), [Run, Run, Sched], "the next scan tries again: {is_priority}");
        assert_counters_and_holds(&host);
    }
}

#[test]
fn a_job_in_sched_whose_score_rises_is_held_without_headroom() {
    let mut host = make_site(|a| a.max_running_jobs = Limit(1));
    host.send_event(Event::Settings(running_limit_settings(RunningLimits::Strict, &[])));
    host.send_event(Event::Weights(vec![("fairshare".to_owned(), 0)]));
    let at_urgency_0 = submit(&mut host, 1);
    let next_job = host.submit(HostJob { urgency: 17, ..HostJob::new(7) }).unwrap();
    assert_eq!(list_whether_jobs_may_run(&host, &[at_urgency_0, next_job]), [true; 2], "its score is 0");
    host.push_weights(vec![("fairshare".to_owned(), 100_000)]);
    assert_eq!(list_whether_jobs_may_run(&host, &[at_urgency_0, next_job]), [false, true]);
    assert_counters_and_holds(&host);
    host.end_job(next_job);
    assert_eq!(list_whether_jobs_may_run(&host, &[at_urgency_0]), [true]);
    assert_counters_and_holds(&host);
}

/// Between a push and its reprioritize the jobs have their association, but no limit has been checked.
#[test]
fn a_job_that_waits_for_its_first_priority_is_not_shown_as_held() {
    let mut host = Host::new();
    let id = submit(&mut host, 1);
    let full_association = Association { max_sched_jobs: Limit(0), ..association(7, "A") };
    host.send_event(Event::Associations(vec![record(full_association, "A")]));
    let held = |host: &Host| answers::snapshot(&host.engine.view()).users[0].banks[0].held_jobs.len();
    assert_eq!((host.state(id), held(&host)), (Some(Priority), 0));
    host.send_event(Event::Reprioritize);
    assert_eq!((host.state(id), held(&host)), (Some(Priority), 1));
}

/// After the reload, the job is in SCHED without an association. An update assigns an association whose limit is
/// full. This limit must not hold the job, which is in SCHED already.
#[test]
fn a_job_in_sched_that_gets_its_first_association_by_an_update_stays_in_sched() {
    let mut host = make_site(|_| ());
    let id = host.submit(HostJob::new(7).bank("A")).unwrap();
    host.jobs.get_mut(&id).unwrap().bank = Some("unknown".to_owned());
    let full_association = Association { max_sched_jobs: Limit(0), ..association(7, "A") };
    host.replay_jobs(true, make_engine_with_associations(vec![record(full_association, "A")]));
    assert_eq!(host.state(id), Some(Sched));
    host.force_update(id, None, Some("A".to_owned()));
    assert_eq!(host.state(id), Some(Sched));
    assert_counters_and_holds(&host);
}

/// Flux refuses a new dependency of a job past DEPEND.
#[test]
fn a_job_held_in_priority_gets_no_dependency_when_its_queue_changes() {
    let (mut host, jobs) = push_after_three_jobs();
    let mut moved = host.jobs[&jobs[2]].clone();
    moved.queue = Some("q2".to_owned());
    let effects = host.engine.handle(NOW, Event::Updated(Host::facts(jobs[2], &moved)));
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::AddDependency(..))), "{effects:?}");
    host.jobs.insert(jobs[2], moved);
    host.end_job(jobs[0]);
    assert_eq!(host.state(jobs[2]), Some(Sched));
    assert_counters_and_holds(&host);
}

/// After a restart, the job has no association and stays in PRIORITY. Flux does not ask for the job's priority after
/// the update. So the engine must post the priority.
#[test]
fn a_job_that_moves_from_a_removed_bank_to_a_bank_with_headroom_goes_to_sched() {
    for was_sched in [true, false] {
        let mut host = Host::with_data(vec![record(association(7, "A"), "A")], vec![]);
        let id = if was_sched {
            host.submit(HostJob::new(7).bank("A")).unwrap()
        } else {
            let mut waiting = Host::new();
            std::mem::swap(&mut host.engine, &mut waiting.engine);
            host.submit(HostJob::new(7).bank("A")).unwrap()
        };
        host.replay_jobs(false, make_engine_with_associations(vec![record(association(7, "B"), "B")]));
        assert_eq!(host.state(id), Some(Priority), "{was_sched}");
        host.update_job(id, None, Some("B")).unwrap();
        assert_eq!(host.state(id), Some(Sched), "{was_sched}");
        assert_counters_and_holds(&host);
    }
}

/// A job that was in PRIORITY when the plugin was loaded must get its priority then, because no push follows.
#[test]
fn a_job_in_priority_reaches_sched_if_loading_provides_its_association() {
    for is_reload in [true, false] {
        let mut host = make_site(|_| ());
        let id = host.submit(HostJob { project: Some("*".into()), ..HostJob::new(7).bank("A") }).unwrap();
        host.jobs.get_mut(&id).unwrap().state = Priority;
        host.replay_jobs(is_reload, make_engine_with_associations(vec![record(association(7, "A"), "A")]));
        assert_eq!(host.state(id), Some(Sched), "{is_reload}");
        assert_counters_and_holds(&host);
    }
}
