// SPDX-License-Identifier: LGPL-3.0-only
//! Rejections with their texts, default banks and projects, and priorities.
//! Rules: L6, L14, L15, P6, P10, P11, P13

use super::host::Host;
use super::site::{HostJob, NOW, OWNER, association, make_engine_with_associations, queue, record};
use crate::accounts::{Association, AssociationRecord, ConfigPatch, Queue, SiteRecords, ZeroScore};
use crate::engine::{Effect, Engine, Event, State, answers};
use crate::ids::{JobId, Limit, UserId};
use crate::standing::SitePart;

fn make_site() -> Host {
    let mut a = association(7, "A");
    (a.max_active_jobs, a.max_nodes, a.max_cores) = (Limit(2), Limit(8), Limit(16));
    a.queues = ["q1"].map(Into::into).into();
    a.projects = ["p1", "p2"].map(Into::into).into();
    a.def_project = Some("own".into());
    let disabled = Association { active: false, ..association(8, "A") };
    let small_queue = Queue { max_nodes_per_assoc: Limit(4), ..queue("q1") };
    let mut host =
        Host::with_data(vec![record(a, "A"), record(disabled, "A")], vec![small_queue, queue("q2")]);
    host.send_event(Event::Projects(vec!["p1".into(), "other".into()]));
    host
}

#[test]
fn a_rejection_names_its_cause() {
    let user = || HostJob::new(7);
    let project = |name: &str| HostJob { project: Some(name.to_owned()), ..user() };
    for (job, text) in [
        (HostJob::new(9), "cannot find user/bank or user/default bank entry for uid: 9"),
        (
            user().bank("B"),
            "cannot find user/bank or user/default bank entry for uid: 7; yours: A (default A)",
        ),
        (HostJob::new(8), "user/bank entry has been disabled from flux-accounting DB"),
        (user().queue("q2"), "queue \"q2\" not valid for user; valid queues for user: q1"),
        (project("p2"), "project \"p2\" not valid for user; valid projects for user: p1,p2"),
        (project("other"), "project \"other\" not valid for user; valid projects for user: p1,p2"),
        (
            user().queue("q1").size(5, 5),
            "job size (5 node(s)) is greater than max resources limit configured for queue (4 node(s))",
        ),
        (
            user().size(9, 9),
            "job size (9 node(s), 9 core(s)) is greater than max resources limits configured for association \
             (8 node(s), 16 core(s))",
        ),
        (
            user().size(1, 17),
            "job size (1 node(s), 17 core(s)) is greater than max resources limits configured for association \
             (8 node(s), 16 core(s))",
        ),
    ] {
        assert_eq!(make_site().submit(job.clone()), Err(text.to_owned()), "{job:?}");
    }
    for job in [user(), project("p1"), project("own"), user().queue("unknown"), user().size(8, 16)] {
        assert!(make_site().submit(job.clone()).is_ok(), "{job:?}");
    }
}

#[test]
fn a_rejection_names_the_alternatives() {
    let first_association = Association { max_active_jobs: Limit(1), ..association(7, "A") };
    let second_association = association(7, "B");
    let third_association = Association { active: false, ..association(7, "C") };
    let records =
        vec![record(first_association, "A"), record(second_association, "A"), record(third_association, "A")];
    let mut host = Host::with_data(records, vec![]);
    for (job, text) in [
        (
            HostJob::new(7).bank("X"),
            "cannot find user/bank or user/default bank entry for uid: 7; yours: A, B (default A)",
        ),
        (
            HostJob::new(7).bank("C"),
            "user/bank entry has been disabled from flux-accounting DB; yours: A, B (default A)",
        ),
    ] {
        assert_eq!(host.submit(job), Err(text.to_owned()));
    }
    host.submit(HostJob::new(7)).unwrap();
    let full = host.submit(HostJob::new(7));
    let text = "user has max active jobs; 1 of 1 in bank A: wait until one ends, or use bank B";
    assert_eq!(full, Err(text.to_owned()));
}

#[test]
fn unknown_queues_are_rejected_if_the_site_denies_them() {
    let mut host = make_site();
    host.send_event(Event::Config(ConfigPatch { deny_unknown_queues: Some(true), ..ConfigPatch::default() }));
    let text = "queue \"lost\" is unknown to flux-accounting and deny-unknown-queues is enabled; yours: q1";
    assert_eq!(host.submit(HostJob::new(7).queue("lost")), Err(text.to_owned()));
    assert!(host.submit(HostJob::new(7)).is_ok());
    // The message must not suggest a queue that the site does not have.
    let own_association =
        Association { queues: ["gone", "q2", "lost"].map(Into::into).into(), ..association(9, "A") };
    host.send_event(Event::Associations(vec![record(own_association, "A")]));
    assert_eq!(host.submit(HostJob::new(9).queue("lost")), Err(text.replace("yours: q1", "yours: q2")));
    host.send_event(Event::Queues(vec![queue("q1")]));
    assert_eq!(host.submit(HostJob::new(9).queue("lost")), Err(text.replace("; yours: q1", "")));
}

#[test]
fn the_limit_on_active_jobs_is_checked_on_submission_only() {
    let mut host = make_site();
    let first_job = host.submit(HostJob::new(7)).unwrap();
    host.submit(HostJob::new(7)).unwrap();
    assert_eq!(
        host.submit(HostJob::new(7)),
        Err("user has max active jobs; 2 of 2 in bank A: wait until one ends".to_owned())
    );
    assert_eq!(host.update_job(first_job, Some("q1"), None), Ok(()));
    host.end_job(first_job);
    assert!(host.submit(HostJob::new(7)).is_ok());
}

#[test]
fn a_job_of_unknown_size_is_rejected_even_before_the_first_push() {
    for mut host in [make_site(), Host::new()] {
        let job = HostJob::new(7);
        let mut facts = Host::facts(JobId(1), &job);
        facts.size = Err("resources have no slot".to_owned());
        let effects = host.engine.handle(NOW, Event::Validate(facts));
        assert!(
            matches!(effects.as_slice(), [Effect::Log(..), Effect::Reject(text)] if text == "unable to count resources for job; resources have no slot"),
            "{effects:?}"
        );
    }
}

#[test]
fn a_job_without_bank_and_project_gets_the_defaults() {
    let mut host = make_site();
    let id = host.submit(HostJob::new(7)).unwrap();
    let job = &host.jobs[&id];
    assert_eq!((job.bank.as_deref(), job.project.as_deref()), (Some("A"), Some("own")));
    assert_eq!(job.memos, [0.5]);
    host.send_event(Event::Reprioritize);
    assert_eq!(host.jobs[&id].memos, [0.5], "an unchanged fair-share is not sent again");
}

#[test]
fn a_priority_uses_the_jobs_queue_and_bank() {
    let special = Queue { priority: 3, ..queue("q1") };
    let rich_record = AssociationRecord { fairshare: 0.25, ..record(association(7, "B"), "A") };
    let mut host =
        Host::with_data(vec![record(association(7, "A"), "A"), rich_record], vec![special, queue("q2")]);
    host.send_event(Event::Banks(vec![("B".into(), 2.5)]));
    host.send_event(Event::Weights(vec![("bank".to_owned(), 100)]));
    let plain = host.submit(HostJob::new(7)).unwrap();
    let other = host.submit(HostJob::new(7).bank("B").queue("q1")).unwrap();
    let held = host.submit(HostJob { urgency: 0, ..HostJob::new(7) }).unwrap();
    let urgent = host.submit(HostJob { urgency: 31, ..HostJob::new(7) }).unwrap();
    let priorities = |host: &Host| [plain, other, held, urgent].map(|id| host.jobs[&id].priority.unwrap());
    assert_eq!(priorities(&host), [50_000, 25_000 + 30_000 + 250, 0, 4_294_967_295]);
    assert!(host.jobs[&held].memos.is_empty() && host.jobs[&urgent].memos.is_empty());
    // A pushed weight applies to pending jobs at the next reprioritize.
    host.send_event(Event::Weights(vec![("queue".to_owned(), 0)]));
    assert_eq!(priorities(&host)[1], 55_250);
    host.send_event(Event::Reprioritize);
    assert_eq!(priorities(&host)[1], 25_250);
}

#[test]
fn a_score_of_0_gives_the_priority_that_the_site_chose() {
    let mut host = make_site();
    host.send_event(Event::Weights(vec![("fairshare".to_owned(), 0)]));
    let id = host.submit(HostJob::new(7)).unwrap();
    assert_eq!(host.jobs[&id].priority, Some(0));
    host.send_event(Event::Config(ConfigPatch {
        zero_score: Some(ZeroScore::Floor),
        ..ConfigPatch::default()
    }));
    host.send_event(Event::Reprioritize);
    assert_eq!(host.jobs[&id].priority, Some(1));
}

#[test]
fn a_job_submitted_before_any_push_is_neither_held_nor_counted() {
    let mut host = Host::new();
    let named = host.submit(HostJob::new(7).bank("A")).unwrap();
    let plain = host.submit(HostJob::new(7)).unwrap();
    let unknown_user = host.submit(HostJob::new(9).bank("X")).unwrap();
    let owner_job = host.submit(HostJob::new(OWNER.0)).unwrap();
    let states = |host: &Host| host.states([named, plain, unknown_user, owner_job]);
    assert_eq!(states(&host), [Some(State::Priority); 4]);
    let changed_association = Association { max_running_jobs: Limit(0), ..association(7, "A") };
    host.send_event(Event::Associations(vec![record(changed_association, "A")]));
    assert_eq!(states(&host), [Some(State::Priority); 4], "records move no job");
    let id = host.engine.book().find(UserId(7), Some("A")).unwrap();
    assert_eq!(host.engine.ledger().accounts().usage(id).active_jobs, 2, "the jobs are counted");
    host.send_event(Event::Reprioritize);
    assert_eq!(states(&host), [Some(State::Priority), Some(State::Priority), None, Some(State::Priority)]);
    host.push(vec![record(Association { max_running_jobs: Limit(2), ..association(7, "A") }, "A")]);
    assert_eq!(states(&host), [Some(State::Sched), Some(State::Sched), None, Some(State::Priority)]);
    assert_eq!(host.jobs[&plain].bank.as_deref(), Some("A"));
    assert_eq!(
        host.exceptions,
        [(unknown_user, "cannot find user/bank or user/default bank entry for uid: 9".to_owned())]
    );
    host.push(vec![record(association(OWNER.0, "root"), "root")]);
    assert_eq!(host.state(owner_job), Some(State::Sched));
    assert_eq!(answers::check(&host.engine.view()).drift, []);
}

/// In flux-accounting's push, the record of the instance owner comes last, after the reprioritize. So this
/// record must start a release scan.
#[test]
fn a_held_job_of_the_instance_owner_is_released_when_the_owners_record_is_pushed() {
    let narrow_queue = || Queue { max_running_jobs: Limit(1), ..queue("q1") };
    let own = || Event::Associations(vec![record(association(OWNER.0, "me"), "me")]);
    let mut host = Host::new();
    host.send_event(Event::Queues(vec![narrow_queue()]));
    host.send_event(own());
    let mut jobs = Vec::new();
    for _ in 0..3 {
        jobs.push(host.submit(HostJob::new(OWNER.0).queue("q1")).unwrap());
        host.start_job(jobs[0]);
    }
    assert_eq!(host.names(jobs[2]), ["max-run-jobs-queue"]);
    host.replay_jobs(true, Engine::with_small_batches());
    host.end_job(jobs[0]);
    host.send_event(Event::Queues(vec![narrow_queue()]));
    host.push(vec![record(association(7, "A"), "A")]);
    assert_eq!(host.state(jobs[1]), Some(State::Depend), "the owner's record has not come");
    // The request that brings the owner's record may also bring the record of another user.
    let with_other = vec![record(association(OWNER.0, "me"), "me"), record(association(8, "A"), "A")];
    host.send_event(Event::Associations(with_other));
    assert_eq!((host.state(jobs[1]), host.state(jobs[2])), (Some(State::Sched), Some(State::Depend)));
    assert_eq!(answers::check(&host.engine.view()).drift, []);
    // If the owner is the only user, the push sends the owner's record twice: before the queues, and at the end. The
    // first record must release no job.
    host.start_job(jobs[1]);
    host.replay_jobs(true, Engine::with_small_batches());
    for event in [own(), Event::Queues(vec![narrow_queue()]), Event::Reprioritize, own()] {
        host.send_event(event);
        assert_eq!(host.state(jobs[2]), Some(State::Depend), "the other job runs");
    }
    host.end_job(jobs[1]);
    assert_eq!(host.state(jobs[2]), Some(State::Sched));
    assert_eq!(answers::check(&host.engine.view()).drift, []);
}

/// Another plugin updates the job during the push, without asking our plugin. So our plugin must check the project
/// when the push ends.
#[test]
fn the_project_of_a_job_without_data_is_checked_after_an_update() {
    let mut host = Host::new();
    let id = host.submit(HostJob { project: Some("secret".to_owned()), ..HostJob::new(7) }).unwrap();
    host.send_event(Event::Projects(vec!["p1".into(), "secret".into()]));
    let own_association = Association { projects: ["p1"].map(Into::into).into(), ..association(7, "A") };
    host.send_event(Event::Associations(vec![record(own_association, "A")]));
    host.force_update(id, Some("q1".to_owned()), None);
    host.send_event(Event::Reprioritize);
    let text = "project \"secret\" not valid for user; valid projects for user: p1";
    assert_eq!(host.exceptions, [(id, text.to_owned())]);
}

#[test]
fn a_name_of_more_than_1024_bytes_is_rejected() {
    for has_data in [false, true] {
        let mut host = if has_data { make_site() } else { Host::new() };
        let long_name = "x".repeat(1025);
        for (what, job) in [
            ("bank", HostJob::new(7).bank(&long_name)),
            ("queue", HostJob::new(7).queue(&long_name)),
            ("project", HostJob { project: Some(long_name.clone()), ..HostJob::new(7) }),
        ] {
            let text = host.submit(job).unwrap_err();
            let other =
                ["cannot find user/bank", "project \"xxx"].iter().any(|known| text.starts_with(known));
            let wanted = format!("{what}: expected a name of at most 1024 bytes, got 1025 bytes");
            assert!(text == wanted || (has_data && other), "{has_data} {what}: {text}");
        }
        assert!(has_data || host.submit(HostJob::new(7).bank(&long_name[1..])).is_ok());
    }
}

#[test]
fn a_job_submitted_before_a_push_ends_if_its_queue_is_forbidden() {
    let mut host = Host::new();
    let id = host.submit(HostJob::new(7).queue("q9")).unwrap();
    host.send_event(Event::Queues(vec![queue("q9")]));
    host.push(vec![record(association(7, "A"), "A")]);
    let text = "queue \"q9\" not valid for user; valid queues for user: q1,q2";
    assert_eq!(host.exceptions, [(id, text.to_owned())]);
}

#[test]
fn active_jobs_of_a_removed_association_are_still_counted() {
    let mut host = make_site();
    let id = host.submit(HostJob::new(7)).unwrap();
    let policy =
        SiteRecords { associations: vec![record(association(8, "A"), "A")], ..SiteRecords::default() };
    host.send_event(Event::Policy(policy, SitePart::default()));
    assert_eq!(host.state(id), Some(State::Sched));
    assert_eq!(host.jobs[&id].priority, Some(50_000));
    assert!(host.submit(HostJob::new(7)).is_err());
    // An update of the job is checked against the last record of the association.
    assert_eq!(host.update_duration(id, 60.0), Ok(()));
    assert_eq!(host.update_job(id, Some("q2"), Some("A")), Ok(()));
    let narrow_queue = Queue { max_sched_jobs: Limit(0), ..queue("q1") };
    host.send_event(Event::Queues(vec![narrow_queue, queue("q3")]));
    let text = "updating to queue q1 while it is already at max-sched-jobs-queue-limit limit is not allowed; try again later";
    assert_eq!(host.update_job(id, Some("q1"), None), Err(text.to_owned()));
    assert_eq!(
        host.update_job(id, Some("q3"), None),
        Err("mf_priority: queue not valid for user: q3".to_owned())
    );
    assert!(host.update_job(id, None, Some("B")).is_err(), "the user has no association in bank B");
    host.end_job(id);
    assert_eq!(answers::check(&host.engine.view()).drift, []);
}

#[test]
fn a_held_job_without_association_is_released_by_an_update_to_a_valid_bank() {
    let mut host = make_site();
    let narrow_association = Association { max_running_jobs: Limit(0), ..association(7, "A") };
    host.send_event(Event::Associations(vec![record(narrow_association, "A")]));
    let id = host.submit(HostJob::new(7)).unwrap();
    host.replay_jobs(true, make_engine_with_associations(vec![record(association(7, "B"), "B")]));
    assert_eq!((host.state(id), answers::check(&host.engine.view()).waiting), (Some(State::Depend), 1));
    host.update_job(id, None, Some("B")).unwrap();
    host.run_until_idle();
    assert_eq!((host.state(id), answers::check(&host.engine.view()).waiting), (Some(State::Sched), 0));
    assert_eq!(answers::check(&host.engine.view()).drift, []);
}

#[test]
fn the_generated_record_of_the_instance_owner_keeps_an_active_default_bank() {
    let synthetic = || Event::Associations(vec![record(association(OWNER.0, "root"), "root")]);
    for (active, default) in [(true, "A"), (false, "root")] {
        let own_association = Association { active, ..association(OWNER.0, "A") };
        let mut engine = Engine::with_small_batches();
        engine.handle(
            NOW,
            Event::Associations(vec![record(own_association, "A"), record(association(7, "A"), "A")]),
        );
        engine.handle(NOW, synthetic());
        assert_eq!(engine.book().default_bank(OWNER).map(|b| b.as_str()), Some(default));
        assert!(engine.book().find(OWNER, Some("root")).is_some());
    }
}

#[test]
fn a_scheduled_job_keeps_its_priority_until_the_first_push() {
    let mut host = make_site();
    let id = host.submit(HostJob::new(7)).unwrap();
    host.replay_jobs(true, Engine::with_small_batches());
    assert_eq!((host.state(id), host.jobs[&id].priority), (Some(State::Sched), Some(50_000)));
    let answer = host.engine.handle(NOW, Event::PriorityGet(id, 16));
    assert!(matches!(answer.first(), Some(Effect::KeepPriority)), "{answer:?}");
    // In PRIORITY the job has no priority to keep.
    let answer = host.engine.handle(NOW, Event::Priority(id, 16));
    assert!(matches!(answer.as_slice(), [Effect::PriorityUnavailable]), "{answer:?}");
}

#[test]
fn a_replayed_job_without_an_association_stays_in_priority_and_is_logged_once() {
    let mut host = make_site();
    let id = host.submit(HostJob::new(7).bank("A").blocked_by("afterany:1")).unwrap();
    host.remove_dependency(id, "afterany:1");
    host.replay_jobs(false, Engine::with_small_batches());
    host.send_event(Event::Associations(vec![record(association(8, "A"), "A")]));
    for _ in 0..3 {
        host.send_event(Event::Reprioritize);
    }
    let logged = host.logged.iter().filter(|line| line.contains("cannot find user/bank")).count();
    assert_eq!(
        (host.state(id), logged, host.exceptions.len()),
        (Some(State::Priority), 1, 0),
        "{:?}",
        host.logged
    );
    host.push(vec![record(association(7, "A"), "A")]);
    assert_eq!(host.state(id), Some(State::Sched));
}
