// SPDX-License-Identifier: LGPL-3.0-only
//! The answer about a job before its submission, compared with the outcome of the submission.

use super::super::host::Host;
use super::*;
use crate::accounts::Association;
use crate::engine::Effect;
use crate::engine::answers::{CheckedJob, Heading, Open, check_job};
use std::collections::BTreeSet;

/// Asks the engine what would happen if `count` jobs like `job` were submitted by the next call of [`Host::submit`].
fn predict_submission(host: &Host, job: &HostJob, count: u64) -> CheckedJob {
    let now = host.now + 1.0;
    let job = HostJob { submitted: now, ..job.clone() };
    let facts = Host::facts(JobId(u64::MAX), &job);
    let view = host.engine.view();
    check_job(&view, &facts, count, Open::All, Heading::new(&view, now, None))
}

/// Returns true if the engine decides about a submission at once: no eventlog is unread, and the push is
/// complete.
fn is_settled(host: &Host) -> bool {
    let view = host.engine.view();
    !view.ledger.has_unread()
        && !view.needs_comparison()
        && view.has_push_ended
        && host.engine.recovery.half_pushed().is_empty()
}

/// Returns the position of a job in its scheduler queue, and the number of jobs in this queue.
fn find_place(host: &Host, id: JobId) -> (usize, usize) {
    let own = &host.jobs[&id];
    let scheduler_queue = |job: &HostJob| {
        let parent = job.queue.as_ref().and_then(|queue| host.oracle.queue_parents.get(queue)).cloned();
        parent.or_else(|| job.queue.clone())
    };
    let is_sorted = |job: &HostJob| {
        let is_here = scheduler_queue(job) == scheduler_queue(own);
        job.is_scheduled() && is_here && job.priority > Some(0) && !job.lacks_priority
    };
    let others = host.jobs.iter().filter(|(other, job)| **other != id && is_sorted(job));
    let (mut before, mut of) = (0, 1);
    for (_, other) in others {
        of += 1;
        before += usize::from(other.priority >= own.priority);
    }
    (1 + before, of)
}

/// Returns the priorities of all jobs except `id`. A predicted place can be checked only if these priorities
/// have not changed since.
fn list_priorities_of_other_jobs(host: &Host, id: Option<JobId>) -> Vec<(JobId, Option<i64>)> {
    let others = host.jobs.iter().filter(|(other, _)| Some(**other) != id);
    others.map(|(other, job)| (*other, job.priority)).collect()
}

/// Submits the job, and compares the outcome with the prediction.
fn submit_and_check_prediction(host: &mut Host, job: HostJob) {
    let predicted = predict_submission(host, &job, 1);
    let others = list_priorities_of_other_jobs(host, None);
    let exceptions = host.exceptions.len();
    let submitted = host.submit(job);
    let id = match submitted {
        Ok(id) => id,
        Err(text) => {
            assert_eq!(predicted.rejection, Some(text));
            assert_eq!((predicted.jobs_rejected, predicted.jobs_held), (1, 0));
            return;
        }
    };
    let ended = host.exceptions.get(exceptions..).and_then(|new| new.first()).map(|(_, text)| text.clone());
    assert_eq!(predicted.rejection, ended);
    let Some(job) = host.jobs.get(&id).filter(|_| ended.is_none()) else { return };
    let held: BTreeSet<&str> = job.dependencies.iter().map(String::as_str).collect();
    let names: BTreeSet<String> =
        host.engine.view().holding(id).iter().map(|it| it.hold.name().into()).collect();
    let expected: BTreeSet<String> = predicted.holds.iter().map(|hold| hold.limit.to_string()).collect();
    assert_eq!(held.is_empty(), expected.is_empty(), "{held:?} {predicted:?}");
    if !held.is_empty() {
        assert_eq!(names, expected);
        assert_eq!((predicted.jobs_held, predicted.first_limit.is_some()), (1, true));
        return;
    }
    assert_eq!((predicted.jobs_held, predicted.jobs_rejected), (0, 0));
    let priority = predicted.priority.map(|made| i64::from(made.priority));
    assert_eq!(job.priority, priority);
    let has_same_others = list_priorities_of_other_jobs(host, Some(id)) == others;
    if job.is_scheduled() && priority > Some(0) && has_same_others {
        assert_eq!((predicted.place, predicted.place_of), {
            let (place, of) = find_place(host, id);
            (Some(place), of)
        });
    }
}

/// Generates submissions, also of a user without an association.
fn any_submission() -> impl Strategy<Value = Op> {
    let bank = prop::option::of(0..2usize);
    (7..10u32, bank, 0..4usize, 1..5u64, 0..3u64, any_urgency()).prop_map(
        |(user, bank, queue, nodes, gpus, urgency)| Op::Submit {
            user,
            bank,
            queue,
            nodes,
            gpus,
            urgency,
            foreign: DependencyOfOtherPlugin::None,
        },
    )
}

#[test]
fn a_job_of_an_association_with_invalid_limits_gets_the_predicted_exception() {
    let broken = Association { max_running_jobs: Limit(-1), ..association(7, "A") };
    let mut host = Host::with_data(vec![record(broken, "A")], vec![]);
    let job = HostJob::new(7).bank("A");
    let predicted = predict_submission(&host, &job, 1);
    let id = JobId(1);
    let facts = Host::facts(id, &job);
    let mut effects = Vec::new();
    for event in [Event::Validate(facts.clone()), Event::New(facts), Event::Depend(id)] {
        effects.extend(host.engine.handle(NOW, event));
    }
    let raised = effects.into_iter().find_map(|effect| match effect {
        Effect::Raise(job, text) if job == id => Some(text),
        _ => None,
    });
    assert!(raised.is_some() && predicted.rejection == raised, "{predicted:?} {raised:?}");
}

proptest! {
    #![proptest_config(proptest_config())]

    #[test]
    fn a_submitted_job_has_the_predicted_outcome(
        site in any_site(),
        ops in prop::collection::vec(prop_oneof![any_op(), any_submission()], 1..60),
    ) {
        let mut world = World::new(site);
        for op in &ops {
            let is_alone = matches!(op, Op::Submit { foreign: DependencyOfOtherPlugin::None, .. });
            if is_alone && is_settled(&world.host) {
                submit_and_check_prediction(&mut world.host, build_job(op));
            } else {
                world.apply(op);
            }
        }
    }

    #[test]
    fn the_engine_rejects_and_holds_as_many_jobs_as_it_predicted(
        site in any_site(),
        ops in prop::collection::vec(harmless_op(), 0..30),
        job in any_submission(),
        count in 1..12u64,
        starts_at_once in any::<bool>(),
    ) {
        let mut world = World::new(site);
        ops.iter().for_each(|op| world.apply(op));
        let job = HostJob { urgency: 16, ..build_job(&job) };
        let predicted = predict_submission(&world.host, &job, count);
        prop_assume!(predicted.priority.as_ref().is_none_or(|made| made.priority > 0));
        let (mut rejected, mut held) = (0, 0);
        for _ in 0..count {
            match world.host.submit(job.clone()) {
                Err(_) => rejected += 1,
                Ok(id) if !world.host.jobs[&id].dependencies.is_empty() => held += 1,
                Ok(id) if starts_at_once => world.host.start_job(id),
                Ok(_) => {}
            }
        }
        prop_assert_eq!(predicted.jobs_rejected, rejected);
        prop_assert!(held <= predicted.jobs_held, "{} of {:?}", held, predicted);
        let is_of_scheduled = predicted.first_limit.as_ref().is_some_and(|name| name.contains("sched"));
        if starts_at_once != is_of_scheduled {
            prop_assert_eq!(held, predicted.jobs_held, "{:?}", predicted);
        }
    }
}
