// SPDX-License-Identifier: LGPL-3.0-only
//! The steps that `why` suggests to the user of a job, and the predicted time of the job's release with its reason.

use super::host::Host;
use super::site::{HostJob, NOW, association, make_record_with_one_job_limit, queue, record};
use super::why::explain_job;
use crate::accounts::{Association, Cap, Queue, SiteLimit, Target};
use crate::engine::{Event, Settings, State, Timer};
use crate::ids::{Amount, JobId, Limit, f58};

#[test]
fn why_suggests_the_steps_that_would_release_a_held_job() {
    let own_association = |nodes| Association { max_nodes: Limit(nodes), ..association(7, "A") };
    let small_queue = Queue { max_nodes_per_assoc: Limit(2), ..queue("q1") };
    let second_record =
        |bank: &str| record(Association { active: bank != "off", ..association(7, bank) }, "A");
    let helps =
        |host: &Host, id| explain_job(host, id).helps.into_iter().map(|note| note.code).collect::<Vec<_>>();
    // The association's own limit holds the job.
    let mut host = Host::with_data(
        vec![record(own_association(4), "A"), second_record("off")],
        vec![small_queue.clone(), queue("q2")],
    );
    host.run_new_job(HostJob::new(7).size(3, 3));
    let held_job = host.submit(HostJob { duration: 0.0, ..HostJob::new(7).size(2, 2) }).unwrap();
    assert_eq!(helps(&host, held_job), ["cancel", "smaller"]);
    let one_job = host.submit(HostJob::new(7).size(4, 4)).unwrap();
    assert_eq!(helps(&host, one_job), ["smaller"], "the earlier held job would take two of the nodes");
    let mut alone_host = host.clone();
    alone_host.end_job(held_job);
    assert_eq!(
        helps(&alone_host, one_job),
        ["cancel", "smaller"],
        "the job needs all nodes, and all would be free"
    );
    host.send_event(Event::Associations(vec![second_record("B")]));
    assert_eq!(helps(&host, held_job), ["cancel", "smaller", "bank"]);
    let update = format!("bank B has headroom for it: flux update {} bank=B", f58(held_job.0));
    assert_eq!(explain_job(&host, held_job).helps[2].text, update);
    // The limit of a queue holds the job.
    let mut host =
        Host::with_data(vec![record(own_association(9), "A")], vec![small_queue.clone(), queue("q2")]);
    let [first_job, held_job] =
        [2, 1].map(|nodes| host.submit(HostJob::new(7).queue("q1").size(nodes, 1)).unwrap());
    host.start_job(first_job);
    let held_job = if host.state(held_job) == Some(State::Depend) {
        held_job
    } else {
        host.submit(HostJob::new(7).queue("q1").size(1, 1)).unwrap()
    };
    assert_eq!(helps(&host, held_job), ["cancel", "queue"]);
    let answer = explain_job(&host, held_job);
    let update = format!("queue q2 has headroom for it: flux update {} queue=q2", f58(held_job.0));
    assert_eq!(answer.helps[1].text, update);
    assert_eq!((answer.is_held, answer.carries.len(), answer.duration), (true, 1, Some(3600.0)));
    assert_eq!(explain_job(&host, first_job).duration, Some(3600.0));
    assert!(!explain_job(&host, first_job).is_held && explain_job(&host, first_job).others.is_empty());
    // `why` does not suggest a queue without a record.
    let mut host = Host::with_data(vec![record(own_association(9), "A")], vec![small_queue]);
    let [_, held_job] = [2, 1].map(|nodes| host.submit(HostJob::new(7).queue("q1").size(nodes, 1)).unwrap());
    assert_eq!((host.state(held_job), helps(&host, held_job)), (Some(State::Depend), vec!["cancel".into()]));
}

/// The answer gives the latest time of the release, or the reason why the time is unknown.
#[test]
fn why_names_the_reason_for_the_time_of_a_release() {
    let limits = |run, sched| {
        let own =
            Association { max_running_jobs: Limit(run), max_sched_jobs: Limit(sched), ..association(7, "A") };
        Host::with_data(vec![record(own, "A")], vec![queue("q1")])
    };
    let timed = |limit: f64| HostJob { limit: Some(limit), duration: limit, ..HostJob::new(7) };
    let ask = |host: &Host, id| {
        let release = explain_job(host, id).release;
        (release.reason.code.to_string(), release.latest.is_some(), release.if_started.is_some())
    };
    // The running job has no time limit.
    let mut host = limits(1, 9);
    host.run_new_job(HostJob::new(7));
    let held = host.submit(timed(50.0)).unwrap();
    assert_eq!(ask(&host, held), ("no-time-limit".to_owned(), false, false));
    // Another held job must be released first.
    let behind_job = host.submit(timed(50.0)).unwrap();
    assert_eq!(ask(&host, behind_job), ("needs-start".to_owned(), false, false));
    let blocked_job = host.submit(timed(50.0).blocked_by("afterany:1")).unwrap();
    assert_eq!(ask(&host, blocked_job), ("others".to_owned(), false, false));
    // The held job is released when the job in SCHED starts. At urgency 0, the job in SCHED never starts.
    for (urgency, if_started) in [(16, true), (0, false)] {
        let mut host = limits(9, 1);
        let first_job = host.submit(timed(50.0)).unwrap();
        host.set_urgency(first_job, urgency);
        let held = host.submit(timed(50.0)).unwrap();
        assert_eq!(ask(&host, held), ("needs-start".to_owned(), false, if_started), "{urgency}");
    }
    let mut host = limits(1, 9);
    let first_job = host.run_new_job(timed(100.0));
    let held = host.submit(timed(50.0)).unwrap();
    host.now = host.jobs[&first_job].started.unwrap() + 10.0;
    let release = explain_job(&host, held).release;
    assert_eq!((release.reason.code.as_ref(), release.latest), ("bounded", Some(host.now + 90.0)));
    assert!(release.reason.text.contains("within 1 min 30 s"), "{}", release.reason.text);
}

#[test]
fn why_suggests_only_actions_that_help_the_held_job() {
    let helps =
        |host: &Host, id| explain_job(host, id).helps.into_iter().map(|note| note.code).collect::<Vec<_>>();
    let own_association = Association { max_nodes: Limit(4), ..association(7, "A") };
    let full_association = Association { max_sched_jobs: Limit(0), ..association(7, "B") };
    // The other bank is full, the site has no second queue, and the limit has no headroom.
    let mut host =
        Host::with_data(vec![record(own_association, "A"), record(full_association, "A")], vec![queue("q1")]);
    let first_job =
        host.submit(HostJob { limit: Some(100.0), ..HostJob::new(7).queue("q1").size(4, 4) }).unwrap();
    host.start_job(first_job);
    let held_job = host.submit(HostJob::new(7).queue("q1").size(2, 2)).unwrap();
    assert_eq!(helps(&host, held_job), ["wait", "cancel"]);
    let hold = &explain_job(&host, held_job).holds[0];
    assert_eq!((hold.frees[0].id, hold.frees[0].state.as_ref()), (first_job, "run"));
    let others = |host: &Host, id| {
        let others = explain_job(host, id).others;
        others.into_iter().map(|it| (it.cause, it.name)).collect::<Vec<_>>()
    };
    assert_eq!(others(&host, held_job), [], "no other plugin blocks the job");
    let free = host.submit(HostJob { duration: 0.0, ..HostJob::new(7).bank("A").size(0, 0) });
    if let Ok(free) = free {
        assert_eq!((explain_job(&host, free).duration, helps(&host, free)), (None, vec![]));
    }
    // A job that a dependency with an unreadable name blocks.
    let mut blocked_job = HostJob::new(7);
    blocked_job.dependencies.insert("keep=x".to_owned());
    let mut host = Host::with_data(vec![record(association(7, "A"), "A")], vec![]);
    let next = JobId(1);
    host.never_answered = [next].into();
    let blocked_job = host.submit(blocked_job).unwrap();
    assert_eq!((blocked_job, host.state(blocked_job)), (next, Some(State::Depend)));
    assert_eq!(others(&host, blocked_job), [("dependency".into(), None)]);
    let pending_job = host.submit(HostJob::new(7)).unwrap();
    assert_eq!(
        (others(&host, pending_job), helps(&host, pending_job)),
        (vec![("resources".into(), None)], vec![])
    );
    host.push_weights(vec![("fairshare".to_owned(), 0)]);
    host.run_until_idle();
    assert_eq!(
        (others(&host, pending_job), helps(&host, pending_job)),
        (vec![("score".into(), None)], vec!["ask".into()])
    );
    // The weights of fair-share and urgency, the urgency, and the suggestions.
    for (fairshare, weight, urgency, expected) in [
        (1000, 100, 6, &["urgency"][..]),
        (1000, 60, 6, &["urgency", "ask"]),
        (0, 100, 6, &["ask"]),
        (-10, 0, 16, &["ask"]),
    ] {
        host.push_weights(vec![("fairshare".to_owned(), fairshare), ("urgency".to_owned(), weight)]);
        host.set_urgency(pending_job, urgency);
        host.run_until_idle();
        assert_eq!(helps(&host, pending_job), expected, "{fairshare} {weight}");
    }
}

/// Each further job makes the search longer, so `why` computes a time only for up to 1,000 jobs.
#[test]
fn why_predicts_no_time_if_it_must_search_over_a_thousand_jobs() {
    let mut host = Host::new();
    host.engine.handle(NOW, Event::Queues(vec![queue("q1")]));
    let own_record = |run| record(Association { max_running_jobs: Limit(run), ..association(7, "A") }, "A");
    host.engine.handle(NOW, Event::Associations(vec![own_record(9_999)]));
    let run = |host: &mut Host, id: u64| {
        let job = HostJob { state: State::Run, bank: Some("A".to_owned()), duration: 0.0, ..HostJob::new(7) };
        let job = HostJob { started: Some(NOW), ..job };
        host.engine.handle(NOW, Event::New(Host::facts(JobId(id), &job)));
    };
    (1..=1_000).for_each(|id| run(&mut host, id));
    host.engine.handle(NOW, Event::Timer(Timer::ReactorTurn));
    host.engine.handle(NOW, Event::Associations(vec![own_record(1_000)]));
    let held = HostJob { bank: Some("A".to_owned()), project: Some("*".to_owned()), ..HostJob::new(7) };
    let id = JobId(5_000);
    host.engine.handle(NOW, Event::Validate(Host::facts(id, &held)));
    host.engine.handle(NOW, Event::New(Host::facts(id, &held)));
    host.engine.handle(NOW, Event::Depend(id));
    let ask = |host: &Host| {
        let held = HostJob { state: State::Depend, ..held.clone() };
        crate::engine::answers::why(&host.engine.view(), &Host::facts(id, &held), NOW)
            .unwrap()
            .release
            .reason
            .code
    };
    assert_eq!(ask(&host), "no-time-limit");
    run(&mut host, 1_001);
    host.engine.handle(NOW, Event::Timer(Timer::ReactorTurn));
    assert_eq!(ask(&host), "many");
}

/// Returns an association of user 7 in bank B that allows only `project`.
fn association_with_project(project: &str) -> Association {
    let projects = [project].map(Into::into).into();
    Association { projects, def_project: Some(project.into()), ..association(7, "B") }
}

#[test]
fn why_suggests_no_bank_that_refuses_the_project() {
    for (project, helps) in [("*", true), ("p", false)] {
        let records =
            vec![make_record_with_one_job_limit(7, "A"), record(association_with_project(project), "A")];
        let mut host = Host::with_data(records, vec![queue("q1")]);
        host.run_new_job(HostJob::new(7));
        let held_job = host.submit(HostJob::new(7)).unwrap();
        let is_suggested = explain_job(&host, held_job).helps.iter().any(|help| help.code == "bank");
        assert_eq!(
            (is_suggested, host.update_job(held_job, None, Some("B")).is_ok()),
            (helps, helps),
            "{project}"
        );
    }
}

/// Half of the held jobs before this job request all nodes, and the other half request all cores. Whenever a running
/// job ends, the search tries all of these jobs, but none can be released. So `why` limits the number of tries.
#[test]
fn why_predicts_no_time_if_the_search_is_too_long() {
    let mut host = Host::new();
    host.engine.handle(NOW, Event::Queues(vec![queue("q1")]));
    let own_association = Association { max_nodes: Limit(500), max_cores: Limit(500), ..association(7, "A") };
    host.engine.handle(NOW, Event::Associations(vec![record(own_association, "A")]));
    let job_in = |state| HostJob {
        state,
        bank: Some("A".to_owned()),
        project: Some("*".to_owned()),
        ..HostJob::new(7)
    };
    for id in 1..=500 {
        let limit = Some(f64::from(id as u32));
        let job = HostJob { started: Some(NOW), limit, ..job_in(State::Run) };
        host.engine.handle(NOW, Event::New(Host::facts(JobId(id), &job)));
    }
    host.engine.handle(NOW, Event::Timer(Timer::ReactorTurn));
    let hold = |host: &mut Host, id: u64, nodes, cores| {
        let job = job_in(State::New).size(nodes, cores);
        host.engine.handle(NOW, Event::Validate(Host::facts(JobId(id), &job)));
        host.engine.handle(NOW, Event::New(Host::facts(JobId(id), &job)));
        host.engine.handle(NOW, Event::Depend(JobId(id)));
    };
    (1_000..1_499).for_each(|id| hold(&mut host, id, 1 + 499 * (id % 2), 500 - 499 * (id % 2)));
    // The job of 40 nodes is released when 40 jobs have ended. For the job of 300 nodes, the search would take too many steps.
    for (id, nodes, wanted) in [(1_499, 40, Ok(40.0)), (1_500, 300, Err("many"))] {
        hold(&mut host, id, nodes, nodes);
        let job = job_in(State::Depend).size(nodes, nodes);
        let answer = crate::engine::answers::why(&host.engine.view(), &Host::facts(JobId(id), &job), NOW)
            .unwrap()
            .release;
        assert_eq!(
            answer.latest.map(|at| at - NOW).ok_or(answer.reason.code.as_ref()),
            wanted,
            "{nodes} nodes"
        );
    }
}

#[test]
fn a_rejection_names_a_bank_that_would_accept_the_job() {
    let small_association = |bank: &str| Association { max_nodes: Limit(2), ..association(7, bank) };
    for (case, other, is_named) in [
        ("fits", association(7, "B"), true),
        ("too small", small_association("B"), false),
        ("disabled", Association { active: false, ..association(7, "B") }, false),
        ("not in its queue", Association { queues: [].into(), ..association(7, "B") }, false),
        ("another user", association(8, "B"), false),
        ("not for its project", association_with_project("p"), false),
    ] {
        let mut host =
            Host::with_data(vec![record(small_association("A"), "A"), record(other, "A")], vec![queue("q1")]);
        let job = HostJob { project: Some("*".to_owned()), ..HostJob::new(7).queue("q1").size(3, 3) };
        let text = host.submit(job).unwrap_err();
        assert_eq!(text.contains('B'), is_named, "{case}: {text}");
    }
}

#[test]
fn why_names_20_dependencies_of_other_plugins_and_counts_the_rest() {
    let mut host = Host::with_data(vec![record(association(7, "A"), "A")], vec![queue("q1")]);
    let name = |number: u32| format!("after-finish={}", 100 + number);
    let blocked_job = (0..23).fold(HostJob::new(7), |job, number| job.blocked_by(&name(number)));
    let blocked_job = host.submit(blocked_job).unwrap();
    let ask = |host: &Host| {
        let why = explain_job(host, blocked_job);
        (why.others.len(), why.others_total - why.others.len())
    };
    assert_eq!(ask(&host), (20, 3));
    // A repeated event changes nothing, and Flux does not accept a removed name again.
    for (number, added, wanted) in [
        (0, true, (20, 3)),
        (22, false, (20, 2)),
        (22, false, (20, 2)),
        (22, true, (20, 2)),
        (23, true, (20, 3)),
    ] {
        host.send_event(Event::Dependency { id: blocked_job, name: &name(number), added });
        assert_eq!(ask(&host), wanted, "{number} {added}");
    }
    for number in 0..22 {
        host.remove_dependency(blocked_job, &name(number));
    }
    assert_eq!(ask(&host), (1, 0));
    host.send_event(Event::Dependency { id: blocked_job, name: &name(23), added: false });
    assert_eq!(
        explain_job(&host, blocked_job).others.iter().filter(|other| other.cause == "dependency").count(),
        0
    );
}

#[test]
fn why_suggests_no_smaller_job_without_headroom() {
    let own_association = Association { max_nodes: Limit(4), ..association(7, "A") };
    let mut host = Host::with_data(vec![record(own_association, "A")], vec![queue("q1")]);
    host.run_new_job(HostJob::new(7).size(4, 4));
    let held_job = host.submit(HostJob::new(7).size(2, 2)).unwrap();
    assert_eq!(explain_job(&host, held_job).holds.len(), 1);
    assert!(explain_job(&host, held_job).helps.iter().all(|note| note.code != "smaller"));
}

/// The queue holds the job, so both another bank and another queue would help. `why` may suggest them only if the
/// plugin accepts the update.
#[test]
fn why_suggests_no_bank_or_queue_that_refuses_the_update() {
    let limit = |target: Target, amount: &str, cap| {
        let queue = if let Target::Queue(queue) = &target { Some(queue.clone()) } else { None };
        let (amount, cap) = (Amount::parse(amount).unwrap(), Cap { limit: Limit(cap), is_given: false });
        SiteLimit { target, queue, amount, cap }
    };
    let (bank_b, queue_q2) = (|| Target::Bank("B".into()), || Target::Queue("q2".into()));
    for (limits, enforce_queue_shapes, expected) in [
        (vec![], false, [true, true]),
        (vec![limit(bank_b(), "active-jobs", 1)], false, [false, true]),
        (vec![limit(queue_q2(), "active-jobs", 1)], false, [true, false]),
        (vec![limit(bank_b(), "job-time", 1800)], false, [false, true]),
        (vec![limit(queue_q2(), "job-time", 1800)], false, [true, false]),
        (vec![], true, [true, false]),
    ] {
        let records = [(7, "A"), (7, "B"), (8, "B")].map(|(user, bank)| record(association(user, bank), "A"));
        let full_queue = Queue { max_running_jobs: Limit(1), max_nodes_per_job: 1, ..queue("q1") };
        let short_queue = Queue { max_time_per_job: 30, max_nodes_per_job: 1, ..queue("q2") };
        let mut host = Host::with_data(records.into(), vec![full_queue, short_queue]);
        let short_job = HostJob { duration: 60.0, ..HostJob::new(8).bank("B").queue("q2") };
        host.submit(short_job).unwrap();
        host.send_event(Event::Settings(Settings { limits, enforce_queue_shapes, ..Settings::default() }));
        host.run_new_job(HostJob::new(7).bank("A").queue("q1"));
        let held_job = host.submit(HostJob::new(7).bank("A").queue("q1")).unwrap();
        assert_eq!(host.names(held_job), ["max-run-jobs-queue"]);
        let helps = explain_job(&host, held_job).helps;
        let are_suggested = ["bank", "queue"].map(|code| helps.iter().any(|help| help.code == code));
        let are_accepted = [(None, Some("B")), (Some("q2"), None)]
            .map(|(queue, bank)| host.clone().update_job(held_job, queue, bank).is_ok());
        assert_eq!((are_suggested, are_accepted), (expected, expected), "{helps:?}");
    }
}
