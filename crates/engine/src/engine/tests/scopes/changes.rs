// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of site limits after changes of caps, jobs or priorities, and after a reload of the plugin.
//! Rules: L4, L21, L22, L23

use super::*;
use crate::accounts::Association;

#[test]
fn a_push_lowers_raises_and_moves_caps() {
    let jobs = |cap| vec![limit(bank_target("science"), None, "run-sched-jobs", cap)];
    let mut host = make_site(jobs(3));
    let ids: Vec<JobId> = (0..3).map(|_| host.submit(make_job(8, "A", 0)).unwrap()).collect();
    host.start_job(ids[0]);
    push_limits(&mut host, jobs(1));
    assert!(ids.iter().all(|id| host.state(*id) > Some(State::Depend)), "no job is sent back");
    let held: Vec<JobId> = (0..3).map(|_| host.submit(make_job(7, "B", 0)).unwrap()).collect();
    host.end_job(ids[1]);
    host.end_job(ids[2]);
    assert!(held.iter().all(|id| host.state(*id) == Some(State::Depend)), "no job is released");
    push_limits(&mut host, jobs(2));
    let are_scheduled =
        |host: &Host| held.iter().map(|id| host.state(*id) == Some(State::Sched)).collect::<Vec<_>>();
    assert_eq!(are_scheduled(&host), [true, false, false]);
    // The limit moves to bank A. Bank B and its parents now have no limit.
    push_limits(&mut host, vec![limit(bank_target("A"), None, "run-sched-jobs", 1)]);
    assert_eq!(are_scheduled(&host), [true; 3]);
    assert_counters_and_holds(&host);
    push_limits(&mut host, Vec::new());
    assert_eq!(crate::engine::answers::snapshot(&host.engine.view()).limits, []);
    assert_counters_and_holds(&host);
}

#[test]
fn a_gpu_limit_counts_allocated_gpus_if_so_configured() {
    for (is_given, is_held) in [(true, true), (false, false)] {
        let mut given_limit = limit(bank_target("A"), None, "run-gpus", 4);
        given_limit.cap.is_given = is_given;
        let mut host = make_site(vec![given_limit]);
        let first_job = host.submit(make_job(8, "A", 1)).unwrap();
        host.jobs.get_mut(&first_job).unwrap().extra_gpus = 3;
        host.start_job(first_job);
        let second_job = host.submit(make_job(7, "A", 1)).unwrap();
        assert_eq!(host.state(second_job) == Some(State::Depend), is_held);
        let used = crate::engine::answers::snapshot(&host.engine.view()).limits[0].used;
        assert_eq!(used, Some(if is_given { 4 } else { 1 }));
        host.end_job(first_job);
        assert_eq!(host.state(second_job), Some(State::Sched));
        assert_counters_and_holds(&host);
    }
}

/// The first job requests no GPUs, but gets a whole node with four GPUs.
#[test]
fn an_explanation_names_the_job_whose_allocated_gpus_a_limit_counts() {
    let mut given_limit = limit(bank_target("A"), None, "run-gpus", 4);
    given_limit.cap.is_given = true;
    let mut host = make_site(vec![given_limit]);
    let first_job = host.submit(make_job(8, "A", 0)).unwrap();
    host.jobs.get_mut(&first_job).unwrap().extra_gpus = 4;
    host.start_job(first_job);
    let held = host.submit(make_job(7, "A", 1)).unwrap();
    let why = super::super::why::explain_job(&host, held);
    let frees: Vec<_> = why.holds[0].frees.iter().map(|job| (job.id, job.amount)).collect();
    assert_eq!((why.holds[0].used, frees), (4, vec![(first_job, 4)]));
    host.end_job(first_job);
    assert_eq!(host.state(held), Some(State::Sched));
}

#[test]
fn a_job_update_moves_counts_unless_the_new_limit_scope_is_full() {
    let limits = vec![
        limit(bank_target("B"), None, "run-sched-jobs", 1),
        limit(bank_target("science"), None, "run-sched-jobs", 2),
        limit(bank_target("science"), Some("q2"), "run-sched-jobs", 1),
    ];
    let mut host = make_site(limits);
    let [job_a, job_b] = ["A", "B"].map(|bank| host.submit(make_job(7, bank, 0)).unwrap());
    let later = "is not allowed; try again later";
    let full =
        |to: &str, name: &str| Err(format!("updating to {to} while it is already at {name} limit {later}"));
    assert_eq!(host.update_job(job_a, None, Some("B")), full("bank B", "max-run-sched-jobs-bank"));
    assert_eq!(host.update_job(job_b, None, Some("A")), Ok(()), "bank science already counts the job");
    assert_eq!(host.update_job(job_a, None, Some("B")), Ok(()), "the bank has headroom now");
    assert_eq!(host.update_job(job_a, Some("q2"), None), Ok(()));
    assert_eq!(host.update_job(job_b, Some("q2"), None), full("queue q2", "max-run-sched-jobs-bank-queue"));
    assert_counters_and_holds(&host);
    let usages = crate::engine::answers::snapshot(&host.engine.view()).limits;
    let used: Vec<_> = usages.iter().map(|one| one.used.unwrap()).collect();
    assert_eq!(used, [1, 2, 1]);
}

/// The user has no other job in bank A, so the bank's limit has counted no job of this user yet.
#[test]
fn a_moved_job_counts_in_a_bank_without_jobs_of_its_user() {
    let mut host = make_site(vec![limit(bank_target("A"), None, "run-sched-jobs", 1)]);
    let used = |host: &Host| crate::engine::answers::snapshot(&host.engine.view()).limits[0].used;
    let [first_job, moving_job] =
        [(8, "A"), (7, "B")].map(|(user, bank)| host.submit(make_job(user, bank, 0)).unwrap());
    let text = "updating to bank A while it is already at max-run-sched-jobs-bank limit is not allowed; try again later";
    assert_eq!(host.update_job(moving_job, None, Some("A")), Err(text.to_owned()));
    host.end_job(first_job);
    assert_eq!((host.update_job(moving_job, None, Some("A")), used(&host)), (Ok(()), Some(1)));
    assert_counters_and_holds(&host);
    // The engine does not check a forced update, but must still count the job in its new bank.
    let mut host = make_site(vec![limit(bank_target("A"), None, "run-sched-jobs", 3)]);
    let moving_job = host.submit(make_job(7, "B", 0)).unwrap();
    host.force_update(moving_job, Some("q1".to_owned()), Some("A".to_owned()));
    assert_eq!(used(&host), Some(1));
    assert_counters_and_holds(&host);
}

#[test]
fn shared_limits_hold_the_same_jobs_after_a_restart_and_a_reload() {
    for is_reload in [true, false] {
        for data_first in [true, false] {
            let limits = || {
                vec![
                    limit(bank_target("science"), None, "run-gpus", 2),
                    limit(Target::EachUser, None, "run-jobs", 2),
                ]
            };
            let mut host = make_site(limits());
            let running_job = host.submit(make_job(8, "A", 2)).unwrap();
            host.start_job(running_job);
            let poor_job = host.submit(make_job(7, "B", 1)).unwrap();
            let rich_job = host.submit(make_job(8, "A", 2)).unwrap();
            let mut engine = Engine::with_small_batches();
            if data_first {
                engine.handle(NOW, Event::Policy(policy(limits()), SitePart::default()));
            }
            host.replay_jobs(is_reload, engine);
            if !data_first {
                push_limits(&mut host, limits());
            }
            for id in [poor_job, rich_job] {
                assert_eq!(host.names(id), ["max-run-gpus-bank"]);
            }
            host.end_job(running_job);
            assert_eq!(
                [host.state(rich_job), host.state(poor_job)],
                [Some(State::Sched), Some(State::Depend)]
            );
            assert_counters_and_holds(&host);
            // A released job in SCHED keeps its reservation.
            let mut engine = Engine::with_small_batches();
            engine.handle(NOW, Event::Policy(policy(limits()), SitePart::default()));
            host.replay_jobs(is_reload, engine);
            assert_eq!(host.state(poor_job), Some(State::Depend));
            host.end_job(rich_job);
            assert_eq!(host.state(poor_job), Some(State::Sched));
            assert_counters_and_holds(&host);
        }
    }
}

#[test]
fn limits_from_the_configuration_apply_until_a_push_replaces_them() {
    let configured = |cap| Settings {
        limits: vec![limit(Target::EachUser, None, "run-sched-jobs", cap)],
        live: false,
        ..Settings::default()
    };
    let mut host = make_site(Vec::new());
    host.send_event(Event::Settings(configured(1)));
    let [first_job, second_job, third_job] = [(); 3].map(|()| host.submit(make_job(8, "A", 0)).unwrap());
    assert_eq!(host.names(second_job), ["max-run-sched-jobs-user"]);
    push_limits(&mut host, vec![limit(Target::EachUser, None, "run-sched-jobs", 2)]);
    assert_eq!([host.state(second_job), host.state(third_job)], [Some(State::Sched), Some(State::Depend)]);
    push_limits(&mut host, Vec::new());
    host.end_job(first_job);
    assert_eq!(host.state(third_job), Some(State::Depend), "the limit of the configuration holds again");
    host.send_event(Event::Settings(configured(3)));
    assert_eq!(host.state(third_job), Some(State::Sched), "a reload of the configuration releases a job");
    assert_counters_and_holds(&host);
}

/// The site and its bank A have limits, and bank A is full. The held jobs of bank A must not delay jobs of other banks under the site's
/// limit.
#[test]
fn a_full_bank_does_not_delay_jobs_of_other_banks() {
    let limits = vec![
        limit(bank_target("root"), None, "run-sched-jobs", 3),
        limit(bank_target("A"), None, "run-sched-jobs", 1),
    ];
    let mut host = make_site(limits);
    let [job_a, job_b, job_c] =
        [(8, "A"), (7, "B"), (9, "C")].map(|(user, bank)| host.submit(make_job(user, bank, 0)).unwrap());
    let waiting: Vec<JobId> = (0..5).map(|_| host.submit(make_job(8, "A", 0)).unwrap()).collect();
    let elsewhere_job = host.submit(make_job(7, "B", 0)).unwrap();
    host.end_job(job_c);
    assert_eq!(
        host.state(elsewhere_job),
        Some(State::Sched),
        "although held jobs of bank A have a higher priority"
    );
    host.end_job(job_a);
    assert_eq!(host.state(waiting[0]), Some(State::Sched));
    host.end_job(job_b);
    assert!(waiting[1..].iter().all(|id| host.state(*id) == Some(State::Depend)));
    assert_counters_and_holds(&host);
}

#[test]
fn a_site_without_scope_limits_stores_no_scope_data() {
    let mut host = make_site(Vec::new());
    let mut one_association = association(7, "A");
    one_association.max_running_jobs = Limit(1);
    one_association.max_nodes = UNLIMITED;
    host.send_event(Event::Associations(vec![record(one_association, "A")]));
    let first_job = host.submit(make_job(7, "A", 1)).unwrap();
    host.start_job(first_job);
    host.submit(make_job(7, "A", 1)).unwrap();
    assert!(host.engine.ledger().has_no_scope_data());
}

/// Two users with 3 shares and 1 share submit jobs without end to a bank that may have four jobs. Their usages approach 3 to 1.
#[test]
fn users_of_a_capped_bank_use_it_in_proportion_to_their_shares() {
    let mut host = make_host_with_live_fairshare(fairshare::Policy::FairTree);
    let mut leaves = leaves();
    for leaf in leaves.iter_mut().filter(|leaf| leaf.user == Some(UserId(7))) {
        leaf.shares = 3;
    }
    let policy = SiteRecords {
        limits: vec![limit(bank_target("A"), None, "run-sched-jobs", 4)],
        parents: vec![("A".into(), "root".into()), ("B".into(), "root".into())],
        ..accounts()
    };
    host.send_event(Event::Policy(policy, tree(fairshare::Policy::FairTree, host.now, leaves)));
    let mut used = [0.0; 2];
    for round in 0..1200 {
        for user in [7, 8] {
            let waits = |job: &&HostJob| job.user == user && job.state == State::Depend;
            while host.jobs.values().filter(waits).count() < 3 {
                host.submit(HostJob::new(user).bank("A")).unwrap();
            }
        }
        let all: Vec<(JobId, HostJob)> = host.jobs.iter().map(|(id, job)| (*id, job.clone())).collect();
        for (id, job) in all {
            match job.started {
                None if job.state == State::Sched => host.start_job(id),
                Some(start) if host.now - start >= 40.0 => {
                    if round >= 600 {
                        used[usize::from(job.user == 8)] += host.now - start;
                    }
                    host.end_job(id);
                }
                _ => {}
            }
        }
        host.advance_time_and_refresh(10.0);
    }
    let ratio = used[0] / used[1];
    assert!((ratio - 3.0).abs() < 0.15, "{used:?}: {ratio}");
    assert_counters_and_holds(&host);
}

/// A release scan skips associations that share a limit with a job whose eventlog is unread. When the last eventlog is
/// read, the engine scans these associations.
#[test]
fn a_replay_removes_satisfied_limit_dependencies_for_any_order_of_eventlogs() {
    let narrow_record = || AssociationRecord {
        association: Association { max_sched_jobs: Limit(0), ..association(7, "A") },
        ..record_with_fairshare(7, "A", 0.2)
    };
    for is_first in [true, false] {
        for is_reload in [true, false] {
            let limits = || vec![limit(bank_target("science"), None, "run-sched-jobs", 1)];
            let mut host = make_site(limits());
            host.send_event(Event::Associations(vec![narrow_record()]));
            let running_job = host.submit(make_job(8, "A", 0)).unwrap();
            host.start_job(running_job);
            let mut others =
                if is_first { Vec::new() } else { vec![host.submit(make_job(8, "A", 0)).unwrap()] };
            let held_job = host.submit(make_job(7, "A", 0)).unwrap();
            others.extend(is_first.then(|| host.submit(make_job(8, "A", 0)).unwrap()));
            assert_eq!(host.names(held_job), ["max-run-sched-jobs-bank", "max-sched-jobs-user-limit"]);
            // The limit is raised, but no scan follows before the replay.
            host.send_event(Event::Associations(vec![record_with_fairshare(7, "A", 0.2)]));
            let mut engine = Engine::with_small_batches();
            engine.handle(NOW, Event::Policy(policy(limits()), SitePart::default()));
            host.replay_jobs(is_reload, engine);
            assert_eq!(
                host.names(held_job),
                ["max-run-sched-jobs-bank"],
                "first: {is_first}, reload: {is_reload}"
            );
            assert_eq!(host.names(others[0]), ["max-run-sched-jobs-bank"]);
            assert_counters_and_holds(&host);
        }
    }
}

/// Each scan must count the reservations of the previous scan. Before, the engine looks up the urgencies of the
/// released jobs, because the reservations depend on them.
#[test]
fn a_scan_of_an_association_ends_before_the_next_begins() {
    let with_running_limit = |user: u32, running: i64| {
        let limits =
            Association { max_running_jobs: Limit(running), max_nodes: Limit(3), ..association(user, "A") };
        AssociationRecord { fairshare: 0.5, ..record(limits, "A") }
    };
    let mut host = make_site(vec![limit(bank_target("science"), None, "run-sched-gpus", 100)]);
    host.send_event(Event::Associations(vec![with_running_limit(7, 0), with_running_limit(8, 0)]));
    let at_urgency_0 = |nodes| HostJob { urgency: 0, ..make_job(7, "A", 0).size(nodes, nodes) };
    let ids = [1, 3, 1].map(|nodes| host.submit(at_urgency_0(nodes)).unwrap());
    let other_job = host.submit(make_job(8, "A", 0)).unwrap();
    host.send_event(Event::Associations(vec![with_running_limit(7, 9)]));
    host.send_event(Event::Reprioritize);
    assert_eq!(
        ids.map(|id| host.state(id)),
        [Some(State::Sched); 3],
        "jobs at urgency 0 reserve no headroom under limits on RUN"
    );
    assert_eq!(host.state(other_job), Some(State::Depend));
    assert_counters_and_holds(&host);
}

/// The limit counts allocated GPUs. A released job has no allocation yet, so its request counts.
#[test]
fn a_released_job_counts_by_its_request_before_it_has_an_allocation() {
    let given = SiteLimit {
        cap: Cap { limit: Limit(4), is_given: true },
        ..limit(bank_target("A"), None, "run-gpus", 4)
    };
    let mut host = make_site(vec![given]);
    let first_job = host.submit(make_job(8, "A", 4)).unwrap();
    host.start_job(first_job);
    let [next_job, last_job] =
        [(8, 4), (7, 1)].map(|(user, gpus)| host.submit(make_job(user, "A", gpus)).unwrap());
    host.end_job(first_job);
    assert_eq!([next_job, last_job].map(|id| host.state(id)), [Some(State::Sched), Some(State::Depend)]);
    host.end_job(next_job);
    assert_eq!(host.state(last_job), Some(State::Sched));
    assert_counters_and_holds(&host);
}

#[test]
fn an_added_queue_is_subject_to_the_limit_on_each_queue() {
    let mut host = make_site(vec![limit(Target::EachQueue, None, "run-sched-jobs", 1)]);
    let submit = |host: &mut Host| host.submit(make_job(7, "A", 0).queue("q2")).unwrap();
    host.send_event(Event::Queues(vec![queue("q1")]));
    let [first, second] = [(); 2].map(|()| submit(&mut host));
    assert_eq!([first, second].map(|id| host.state(id)), [Some(State::Sched); 2]);
    host.send_event(Event::Queues(vec![queue("q1"), queue("q2")]));
    let third = submit(&mut host);
    assert_eq!(host.names(third), ["max-run-sched-jobs-in-queue"]);
    host.end_job(first);
    assert_eq!(host.state(third), Some(State::Depend));
    host.end_job(second);
    assert_eq!(host.state(third), Some(State::Sched));
    assert_eq!(crate::engine::answers::check(&host.engine.view()).drift, []);
}
