// SPDX-License-Identifier: LGPL-3.0-only
//! Tests the limits that reject jobs at submission. These limits never hold a job.
//! Rules: L28, L29, L31

use super::*;
use crate::accounts::Queue;

/// Two jobs of user 7 in bank A and queue q1 are active. Each row of the table says which further jobs one limit rejects.
#[test]
fn a_limit_on_active_jobs_rejects_the_next_job_of_its_scope() {
    let others: [(u32, &str, &str); 5] =
        [(7, "A", "q1"), (7, "A", "q2"), (8, "A", "q1"), (7, "B", "q1"), (9, "C", "q1")];
    for (target, in_queue, scope, is_rejected) in [
        (
            Target::EachAssociation,
            Some("q1"),
            "user 7 in bank A in queue q1",
            [true, false, false, false, false],
        ),
        (bank_target("A"), None, "bank A", [true, true, true, false, false]),
        (Target::EachBank, None, "bank A", [true, true, true, false, false]),
        (bank_target("science"), None, "bank science", [true, true, true, true, false]),
        (bank_target("science"), Some("q1"), "bank science in queue q1", [true, false, true, true, false]),
        (Target::User(UserId(7)), None, "user 7", [true, true, false, true, false]),
        (Target::EachUser, Some("q1"), "user 7 in queue q1", [true, false, false, true, false]),
        (Target::Queue("q1".into()), Some("q1"), "queue q1", [true, false, true, true, true]),
        (Target::EachQueue, None, "queue q1", [true, false, true, true, true]),
    ] {
        let mut host = make_site(vec![limit(target.clone(), in_queue, "active-jobs", 2)]);
        let [first, _] = [(); 2].map(|()| host.submit(make_job(7, "A", 0)).unwrap());
        host.start_job(first);
        for ((user, bank, queue), is_rejected) in others.into_iter().zip(is_rejected) {
            let mut trial = host.clone();
            let result = trial.submit(make_job(user, bank, 0).queue(queue));
            let text = format!("{scope} has max active jobs; 2 of 2: wait until one of them ends");
            let wanted = if is_rejected { Err(text) } else { Ok(()) };
            assert_eq!(result.map(|_| ()), wanted, "{target}: {user} in {bank}, {queue}");
        }
        host.end_job(first);
        let next = host.submit(make_job(7, "A", 0)).unwrap();
        assert_eq!(host.names(next), [""; 0], "a limit on active jobs holds no job");
        assert_counters_and_holds(&host);
    }
}

#[test]
fn a_job_may_not_move_to_a_scope_that_is_full_of_active_jobs() {
    let limits = vec![
        limit(bank_target("A"), None, "active-jobs", 1),
        limit(bank_target("science"), None, "active-jobs", 9),
        limit(Target::Queue("q2".into()), Some("q2"), "active-jobs", 1),
    ];
    let mut host = make_site(limits);
    let first = host.submit(make_job(7, "A", 0).queue("q2")).unwrap();
    let moving_job = host.submit(make_job(7, "B", 0)).unwrap();
    let text = "updating to bank A while it is already at max-active-jobs-bank limit is not allowed; try again later";
    assert_eq!(host.update_job(moving_job, None, Some("A")), Err(text.to_owned()));
    let text = "updating to queue q2 while it is already at max-active-jobs-in-queue limit is not allowed; try again later";
    assert_eq!(host.update_job(moving_job, Some("q2"), None), Err(text.to_owned()));
    // The job is counted in its scope already, so it may be updated within the scope.
    assert_eq!(host.update_job(first, Some("q1"), None), Ok(()));
    assert_eq!(host.update_job(first, Some("q2"), None), Ok(()));
    host.end_job(first);
    assert_eq!(host.update_job(moving_job, None, Some("A")), Ok(()));
    assert_eq!(host.update_job(moving_job, Some("q2"), None), Ok(()));
    assert_counters_and_holds(&host);
}

/// Flux asks about the queue and about the bank of one update separately. Neither of the two moves alone reaches the
/// full scope.
#[test]
fn an_update_of_queue_and_bank_may_not_move_a_job_to_a_scope_that_is_full_of_active_jobs() {
    for is_blocked in [false, true] {
        let mut host = make_site(vec![limit(bank_target("A"), Some("q2"), "active-jobs", 1)]);
        let first = host.submit(make_job(8, "A", 0).queue("q2")).unwrap();
        let job = make_job(7, "B", 0);
        let job = if is_blocked { job.blocked_by("afterany:1") } else { job };
        let moving_job = host.submit(job).unwrap();
        let text = "updating to queue q2 while it is already at max-active-jobs-bank-queue limit is not allowed; try again later";
        assert_eq!(host.update_job(moving_job, Some("q2"), Some("A")), Err(text.to_owned()), "{is_blocked}");
        host.end_job(first);
        assert_eq!(host.update_job(moving_job, Some("q2"), Some("A")), Ok(()));
        assert_counters_and_holds(&host);
    }
}

/// The user has no job in bank A, so the engine has not assigned scopes to the user's association there yet.
#[test]
fn a_job_may_move_to_a_bank_without_jobs_under_a_full_limit_that_counts_the_job() {
    let mut host = make_site(vec![limit(Target::User(UserId(7)), None, "active-jobs", 1)]);
    let id = host.submit(make_job(7, "B", 0)).unwrap();
    assert_eq!(host.update_job(id, None, Some("A")), Ok(()));
    assert!(host.submit(make_job(7, "B", 0)).is_err());
    assert_counters_and_holds(&host);
}

/// The counters of active jobs survive a reload, a panic, and a change of the limits.
#[test]
fn active_jobs_are_counted_again_when_limits_change() {
    let mut host = make_site(vec![]);
    for (user, bank) in [(7, "A"), (8, "A"), (7, "B")] {
        host.submit(make_job(user, bank, 0)).unwrap();
    }
    push_limits(
        &mut host,
        vec![
            limit(bank_target("A"), None, "active-jobs", 2),
            limit(bank_target("root"), None, "active-jobs", 3),
        ],
    );
    let used = |host: &Host| -> Vec<Option<u64>> {
        host.engine.view().limits().scope_usages().into_iter().map(|usage| usage.used).collect()
    };
    assert_eq!(used(&host), [Some(2), Some(3)]);
    let text = host.submit(make_job(9, "C", 0)).unwrap_err();
    assert_eq!(text, "bank root has max active jobs; 3 of 3: wait until one of them ends");
    let shown = crate::engine::answers::snapshot(&host.engine.view()).limits;
    assert_eq!(
        shown.iter().map(|it| (&*it.measure, it.used)).collect::<Vec<_>>(),
        [("active-jobs", Some(2)), ("active-jobs", Some(3))]
    );
    assert_counters_and_holds(&host);
}

/// Each limit admits a job of 4 nodes for 30 minutes, and rejects a larger or longer job, in its own scope only.
#[test]
fn a_job_that_exceeds_a_cap_on_one_job_is_rejected() {
    for (target, in_queue, scope) in [
        (Target::EachAssociation, None, "user 7 in bank A"),
        (bank_target("science"), Some("q1"), "bank science in queue q1"),
        (Target::EachUser, None, "user 7"),
        (Target::EachQueue, None, "queue q1"),
    ] {
        for (amount, cap, nodes, minutes, text) in [
            (
                "job-nodes",
                4,
                5,
                30.0,
                "job size (5 node(s)) is greater than the limit of SCOPE on one job (4 node(s))",
            ),
            (
                "job-time",
                1800,
                4,
                31.0,
                "job time limit (1860 s) is greater than the limit of SCOPE on one job (1800 s)",
            ),
            (
                "job-time",
                1800,
                4,
                0.0,
                "job has no time limit; the limit of SCOPE on one job is 1800 s: set a time limit with -t",
            ),
            (
                "job-node-hours",
                2,
                4,
                31.0,
                "job size (2.067 node-hours) is greater than the limit of SCOPE on one job (2 node-hours)",
            ),
            (
                "job-node-hours",
                2,
                1,
                0.0,
                "job has no time limit; the limit of SCOPE on one job is 2 node-hours: set a time limit with -t",
            ),
        ] {
            let mut host = make_site(vec![limit(target.clone(), in_queue, amount, cap)]);
            let sized = |user, bank, nodes, minutes| HostJob {
                duration: 60.0 * minutes,
                ..make_job(user, bank, 0).size(nodes, nodes)
            };
            let text = text.replace("SCOPE", scope);
            // The rejection is the same before and after the association has had a job.
            assert_eq!(host.submit(sized(7, "A", nodes, minutes)), Err(text.clone()));
            let fitting = host.submit(sized(7, "A", 4, 30.0)).unwrap();
            assert_eq!(host.names(fitting), [""; 0]);
            assert_eq!(host.submit(sized(7, "A", nodes, minutes)), Err(text));
            if in_queue.is_some() {
                host.submit(sized(7, "A", nodes, minutes).queue("q2")).unwrap();
                host.submit(sized(9, "C", nodes, minutes)).unwrap();
            }
            let standing = host.engine.view().limits().scope_usages();
            assert_eq!(standing.iter().map(|usage| usage.used).collect::<Vec<_>>(), [None]);
            assert_counters_and_holds(&host);
        }
    }
}

#[test]
fn job_size_and_time_limits_of_a_queue_apply_only_if_enforced() {
    for (is_enforced, queue_of_job, is_rejected) in
        [(false, "q1", false), (true, "q1", true), (true, "q2", true), (true, "q3", false)]
    {
        let mut host = Host::new();
        let parents = [("q1".into(), None), ("q2".into(), Some("q1".into())), ("q3".into(), None)];
        host.send_event(Event::ConfiguredQueues(parents.to_vec()));
        let shaped = |name, most| Queue { max_nodes_per_job: most, ..queue(name) };
        let queues = vec![shaped("q1", 2), shaped("q2", 9), shaped("q3", 9)];
        let mut associations = policy(Vec::new()).associations;
        for record in &mut associations {
            record.association.queues = ["q1", "q2", "q3"].map(Into::into).into();
        }
        let policy = SiteRecords { queues, associations, ..policy(Vec::new()) };
        host.send_event(Event::Policy(policy, SitePart::default()));
        host.send_event(Event::Settings(Settings {
            enforce_queue_shapes: is_enforced,
            ..Settings::default()
        }));
        let result = host.submit(make_job(7, "A", 0).size(3, 3).queue(queue_of_job));
        let text = "requested nnodes (3) exceeds policy limit of 2 for queue q1".to_owned();
        assert_eq!(result.map(|_| ()), if is_rejected { Err(text) } else { Ok(()) });
    }
}

/// The rejection in bank A may suggest bank B only if bank B accepts the job.
#[test]
fn a_rejection_names_no_bank_whose_limits_over_scopes_reject_the_job() {
    for (amount, is_named) in [("run-jobs", true), ("active-jobs", false), ("job-nodes", false)] {
        let mut site = policy(vec![limit(bank_target("B"), None, amount, 1)]);
        for record in site.associations.iter_mut().filter(|record| record.association.bank.as_str() == "A") {
            (record.association.max_active_jobs, record.association.max_nodes) = (Limit(1), Limit(2));
        }
        let mut host = Host::new();
        host.send_event(Event::Policy(site, SitePart::default()));
        let job = |bank| make_job(7, bank, 0);
        for bank in ["A", "B"] {
            host.submit(job(bank)).unwrap();
        }
        let is_size = amount == "job-nodes";
        let next = if is_size { job("A").size(3, 3) } else { job("A") };
        if is_size {
            host.end_job(JobId(1));
        }
        let text = host.submit(next).unwrap_err();
        assert_eq!(text.contains("bank B"), is_named, "{amount}: {text}");
    }
}
