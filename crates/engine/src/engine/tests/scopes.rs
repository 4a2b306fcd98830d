// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of site limits: which jobs they hold, release and reject, and how pushes and restarts change the limits.
//! Rules: L19, R12, R13

mod changes;
mod exempt_queues;
mod node_hours;
mod overtaken;
mod reservation_holders;
mod standings;
mod stopped_queues;
mod submissions;
pub mod virtual_queues;

use super::host::Host;
use super::live::{accounts, leaves, make_host_with_live_fairshare, tree};
use super::site::{HostJob, NOW, UNLIMITED, association, queue, record};
use crate::accounts::{AssociationRecord, Cap, SiteLimit, SiteRecords, Target};
use crate::engine::{Engine, Event, Settings, State};
use crate::ids::{Amount, JobId, Limit, UserId};
use crate::limits::OVERTAKEN;
use crate::standing::SitePart;

fn limit(target: Target, queue: Option<&str>, amount: &str, cap: i64) -> SiteLimit {
    let (amount, cap) = (Amount::parse(amount).unwrap(), Cap { limit: Limit(cap), is_given: false });
    SiteLimit { target, queue: queue.map(Into::into), amount, cap }
}

fn bank_target(name: &str) -> Target {
    Target::Bank(name.into())
}

fn record_with_fairshare(user: u32, bank: &str, fairshare: f64) -> AssociationRecord {
    AssociationRecord { fairshare, ..record(association(user, bank), bank) }
}

/// Returns a policy with banks A and B below science, and with science and C below root. User 7 is in A and B, user 8 in A, and user 9
/// in C.
fn policy(limits: Vec<SiteLimit>) -> SiteRecords {
    let parents = [("A", "science"), ("B", "science"), ("science", "root"), ("C", "root")];
    SiteRecords {
        associations: vec![
            record_with_fairshare(7, "B", 0.2),
            record_with_fairshare(7, "A", 0.2),
            record_with_fairshare(8, "A", 0.9),
            record_with_fairshare(9, "C", 0.5),
        ],
        queues: vec![queue("q1"), queue("q2")],
        projects: vec!["*".into()],
        parents: parents.map(|(bank, parent)| (bank.into(), parent.into())).to_vec(),
        limits,
        ..SiteRecords::default()
    }
}

fn push_limits(host: &mut Host, limits: Vec<SiteLimit>) {
    host.send_event(Event::Policy(policy(limits), SitePart::default()));
}

fn make_site(limits: Vec<SiteLimit>) -> Host {
    let mut host = Host::new();
    push_limits(&mut host, limits);
    host
}

fn make_job(user: u32, bank: &str, gpus: u64) -> HostJob {
    HostJob::new(user).bank(bank).queue("q1").gpus(gpus)
}

fn assert_counters_and_holds(host: &Host) {
    assert_eq!(crate::engine::answers::check(&host.engine.view()).drift, []);
    host.oracle.check_no_job_is_stranded(&host.jobs);
}

/// A scan also checks blocked jobs. It must reserve nothing for them, because they may stay blocked indefinitely.
#[test]
fn a_blocked_job_reserves_nothing_so_others_take_the_headroom() {
    let mut host = make_site(vec![limit(bank_target("science"), None, "run-sched-gpus", 4)]);
    let [first_job, _] = [3, 1].map(|gpus| host.submit(make_job(7, "B", gpus)).unwrap());
    let wide_job = host.submit(make_job(8, "A", 4)).unwrap();
    let blocked_job = host.submit(make_job(8, "A", 3).blocked_by("afterany:1")).unwrap();
    let other_job = host.submit(make_job(7, "A", 3)).unwrap();
    host.end_job(first_job);
    assert_eq!(host.state(other_job), Some(State::Sched));
    assert_eq!([wide_job, blocked_job].map(|id| host.state(id)), [Some(State::Depend); 2]);
    assert_counters_and_holds(&host);
}

/// A site limit on a bank counts the jobs of all banks below it. So the snapshot must contain the parents of banks,
/// even if the push contained no tree.
#[test]
fn the_snapshot_contains_the_parents_of_banks() {
    let banks = ["A", "B", "C", "science", "root"].map(|name| (name.into(), 0.0)).to_vec();
    let limits = vec![limit(bank_target("science"), None, "run-sched-gpus", 4)];
    let mut host = Host::new();
    host.send_event(Event::Policy(SiteRecords { banks, ..policy(limits) }, SitePart::default()));
    let banks = crate::engine::site_document(&host.engine.view()).banks;
    let parents: Vec<_> = banks.iter().map(|((name, _), bank)| (name.as_str(), bank.as_ref())).collect();
    assert!(!parents.is_empty());
    for (name, bank) in parents {
        let wanted = policy(Vec::new()).parents.into_iter().find(|(below, _)| below.as_str() == name);
        assert_eq!(bank.and_then(|bank| bank.parent.clone()), wanted.map(|(_, parent)| parent), "{name}");
    }
}

/// All limits count GPUs. One GPU is left under each limit, and each job in `others` requests two GPUs. Each row has
/// a limit, and says which of these jobs the limit holds.
#[test]
fn a_scope_limit_counts_all_jobs_of_its_scope_and_no_others() {
    let association = || Target::Association(UserId(7), "A".into());
    let others: [(u32, &str, &str); 5] =
        [(7, "A", "q1"), (7, "A", "q2"), (8, "A", "q1"), (7, "B", "q1"), (9, "C", "q1")];
    for (target, in_queue, name, is_held) in [
        (association(), None, "max-run-sched-gpus-association", [true, true, false, false, false]),
        (Target::EachAssociation, None, "max-run-sched-gpus-association", [true, true, false, false, false]),
        (
            association(),
            Some("q1"),
            "max-run-sched-gpus-association-queue",
            [true, false, false, false, false],
        ),
        (bank_target("A"), None, "max-run-sched-gpus-bank", [true, true, true, false, false]),
        (Target::EachBank, None, "max-run-sched-gpus-bank", [true, true, true, false, false]),
        (bank_target("science"), None, "max-run-sched-gpus-bank", [true, true, true, true, false]),
        (bank_target("root"), None, "max-run-sched-gpus-bank", [true; 5]),
        (
            bank_target("science"),
            Some("q1"),
            "max-run-sched-gpus-bank-queue",
            [true, false, true, true, false],
        ),
        (Target::User(UserId(7)), None, "max-run-sched-gpus-user", [true, true, false, true, false]),
        (Target::EachUser, None, "max-run-sched-gpus-user", [true, true, false, true, false]),
        (Target::EachUser, Some("q1"), "max-run-sched-gpus-user-queue", [true, false, false, true, false]),
        (
            Target::Queue("q1".into()),
            Some("q1"),
            "max-run-sched-gpus-in-queue",
            [true, false, true, true, true],
        ),
        (Target::EachQueue, None, "max-run-sched-gpus-in-queue", [true, false, true, true, true]),
    ] {
        for ((user, bank, queue), is_held) in others.into_iter().zip(is_held) {
            let mut host = make_site(vec![limit(target.clone(), in_queue, "run-sched-gpus", 4)]);
            let first_job = host.submit(make_job(7, "A", 3)).unwrap();
            host.start_job(first_job);
            let second_job = host.submit(make_job(user, bank, 2).queue(queue)).unwrap();
            let names: &[&str] = if is_held { &[name] } else { &[] };
            assert_eq!(host.names(second_job), names, "{target} {in_queue:?}: {user} in {bank}, {queue}");
            let third_job = host.submit(make_job(user, bank, 1).queue(queue)).unwrap();
            assert_eq!(host.state(third_job), Some(State::Sched), "a smaller job has headroom");
            host.end_job(third_job);
            host.end_job(first_job);
            assert_eq!(host.state(second_job), Some(State::Sched));
            assert_counters_and_holds(&host);
        }
    }
}

#[test]
fn each_limit_counts_only_its_resource_and_its_job_states() {
    for (amount, first, second) in [
        ("run-jobs", (1, 1, 0), (1, 1, 0)),
        ("run-nodes", (3, 3, 0), (2, 2, 0)),
        ("run-cores", (1, 3, 0), (1, 2, 0)),
        ("run-gpus", (1, 1, 3), (1, 1, 2)),
        ("sched-jobs", (1, 1, 0), (1, 1, 0)),
        ("run-sched-jobs", (1, 1, 0), (1, 1, 0)),
        ("run-sched-nodes", (3, 3, 0), (2, 2, 0)),
        ("run-sched-cores", (1, 3, 0), (1, 2, 0)),
        ("run-sched-gpus", (1, 1, 3), (1, 1, 2)),
    ] {
        let cap = if amount.ends_with("jobs") { 1 } else { 4 };
        let mut host = make_site(vec![limit(bank_target("science"), None, amount, cap)]);
        let sized = |user, bank, (nodes, cores, gpus)| make_job(user, bank, gpus).size(nodes, cores);
        let earlier_job = host.submit(sized(7, "B", first)).unwrap();
        let counts_sched = amount.starts_with("sched");
        if !counts_sched {
            host.start_job(earlier_job);
        }
        let held_job = host.submit(sized(8, "A", second)).unwrap();
        assert_eq!(host.names(held_job), [format!("max-{amount}-bank")]);
        let holding = host.engine.view().holding(held_job);
        let shown: Vec<_> = holding.iter().map(|one| (one.used, one.limit.0, one.needed)).collect();
        let measure = |(nodes, cores, gpus): (u64, u64, u64)| match amount.rsplit('-').next() {
            Some("nodes") => nodes,
            Some("cores") => cores,
            Some("gpus") => gpus,
            _ => 1,
        };
        assert_eq!(shown, [(measure(first), cap, measure(second))], "{amount}");
        if counts_sched {
            host.start_job(earlier_job)
        } else {
            host.end_job(earlier_job)
        }
        assert_eq!(host.state(held_job), Some(State::Sched), "{amount}");
        assert_eq!(host.engine.view().holding(held_job), []);
        assert_counters_and_holds(&host);
    }
}

#[test]
fn a_job_that_requests_more_than_a_cap_is_rejected() {
    let limits = vec![
        limit(bank_target("science"), None, "run-gpus", 8),
        limit(Target::EachUser, None, "run-nodes", 2),
        limit(bank_target("A"), Some("q2"), "run-sched-cores", 3),
        limit(bank_target("C"), None, "run-jobs", 0),
        limit(bank_target("C"), None, "run-gpus", 0),
    ];
    let mut host = make_site(limits);
    for (wanted, text) in [
        (
            make_job(7, "A", 9),
            "job size (9 gpu(s)) is greater than the limit of bank science on running jobs (8 gpu(s))",
        ),
        (
            make_job(9, "C", 0).size(3, 3),
            "job size (3 node(s)) is greater than the limit of user 9 on running jobs (2 node(s))",
        ),
        (
            make_job(7, "A", 0).queue("q2").size(1, 4),
            "job size (4 core(s)) is greater than the limit of bank A in queue q2 on running and scheduled jobs (3 core(s))",
        ),
        (
            make_job(9, "C", 1),
            "job size (1 gpu(s)) is greater than the limit of bank C on running jobs (0 gpu(s))",
        ),
    ] {
        assert_eq!(host.submit(wanted), Err(text.to_owned()));
    }
    let held_job = host.submit(make_job(9, "C", 0)).unwrap();
    assert_eq!(host.names(held_job), ["max-run-jobs-bank"], "a job beyond a limit on jobs is held");
    let id = host.submit(make_job(7, "A", 0).queue("q1").size(1, 4)).unwrap();
    let text = "updating to queue q2 while it is already at max-run-sched-cores-bank-queue limit is not allowed; try \
                again later";
    assert_eq!(
        host.update_job(id, Some("q2"), None),
        Err(text.to_owned()),
        "an update into the queue is rejected too"
    );
    assert_counters_and_holds(&host);
}

#[test]
fn associations_are_released_by_priority_and_jobs_of_an_association_by_id() {
    let mut host = make_site(vec![limit(bank_target("science"), None, "run-sched-jobs", 1)]);
    let first = host.submit(make_job(7, "A", 0)).unwrap();
    let low = [make_job(7, "B", 0), make_job(7, "A", 0)].map(|job| host.submit(job).unwrap());
    let [rich, richer] =
        [16, 31].map(|urgency| host.submit(HostJob { urgency, ..make_job(8, "A", 0) }).unwrap());
    let mut order = Vec::new();
    let mut last_job = first;
    for _ in 0..4 {
        host.end_job(last_job);
        let freed: Vec<JobId> =
            host.jobs.iter().filter(|(_, job)| job.state == State::Sched).map(|(id, _)| *id).collect();
        assert_eq!(freed.len(), 1, "one job is released");
        last_job = freed[0];
        order.push(last_job);
        assert_counters_and_holds(&host);
    }
    assert_eq!(order, [rich, richer, low[0], low[1]]);
    assert!(host.oracle.compared_orders > 0, "the oracle compared priorities too");
}

#[test]
fn the_order_of_held_jobs_follows_a_changed_fair_share() {
    let mut host = make_site(vec![limit(bank_target("science"), None, "run-sched-jobs", 1)]);
    let first_job = host.submit(make_job(7, "B", 0)).unwrap();
    let [poor_job, rich_job] = [7, 8].map(|user| host.submit(make_job(user, "A", 0)).unwrap());
    host.send_event(Event::Associations(vec![record_with_fairshare(7, "A", 0.95)]));
    host.end_job(first_job);
    assert_eq!([host.state(poor_job), host.state(rich_job)], [Some(State::Sched), Some(State::Depend)]);
    assert_counters_and_holds(&host);
}

#[test]
fn a_job_held_by_its_own_limit_does_not_delay_others_under_a_shared_limit() {
    let mut host = make_site(vec![limit(bank_target("science"), None, "run-sched-jobs", 2)]);
    let mut narrow_association = association(8, "A");
    narrow_association.max_sched_jobs = Limit(0);
    host.send_event(Event::Associations(vec![AssociationRecord {
        fairshare: 0.9,
        ..record(narrow_association, "A")
    }]));
    let [one_job, two_job] = [(); 2].map(|()| host.submit(make_job(7, "B", 0)).unwrap());
    let own_job = host.submit(make_job(8, "A", 0)).unwrap();
    assert_eq!(host.names(own_job), ["max-run-sched-jobs-bank", "max-sched-jobs-user-limit"]);
    let next_job = host.submit(make_job(7, "A", 0)).unwrap();
    host.end_job(one_job);
    assert_eq!([host.state(own_job), host.state(next_job)], [Some(State::Depend), Some(State::Sched)]);
    // First the association's own limit is raised, then the shared limit gets headroom.
    host.send_event(Event::Associations(vec![record_with_fairshare(8, "A", 0.9)]));
    host.send_event(Event::Reprioritize);
    assert_eq!(host.names(own_job), ["max-run-sched-jobs-bank"]);
    host.end_job(two_job);
    assert_eq!(host.state(own_job), Some(State::Sched));
    assert_counters_and_holds(&host);
}

/// The job requests all GPUs that the limit allows, while another user submits small jobs without end.
#[test]
fn no_job_is_overtaken_indefinitely() {
    let mut host = make_site(vec![limit(bank_target("science"), None, "run-sched-gpus", 4)]);
    let mut running: Vec<JobId> = (0..4).map(|_| host.submit(make_job(8, "A", 1)).unwrap()).collect();
    let large_job = host.submit(make_job(7, "B", 4)).unwrap();
    let small_jobs: Vec<JobId> =
        (0..2 * OVERTAKEN).map(|_| host.submit(make_job(8, "A", 1)).unwrap()).collect();
    let scheduled =
        |host: &Host| small_jobs.iter().filter(|id| host.state(**id) != Some(State::Depend)).count();
    let mut ends = 0;
    while host.state(large_job) == Some(State::Depend) {
        let over_job = running.remove(0);
        host.end_job(over_job);
        running.extend(small_jobs.iter().filter(|id| host.state(**id) == Some(State::Sched)));
        running.dedup();
        running.sort_unstable();
        running.dedup();
        ends += 1;
        assert!(ends < 3 * OVERTAKEN, "the job is held indefinitely");
    }
    assert_eq!(scheduled(&host) as u64, OVERTAKEN, "exactly `OVERTAKEN` jobs overtook the large job");
    // Jobs that were submitted while the headroom was reserved are released afterwards.
    assert_eq!(host.state(small_jobs[small_jobs.len() - 1]), Some(State::Depend));
    host.end_job(large_job);
    let released = host.jobs.values().filter(|job| job.state == State::Sched).count();
    assert_eq!(released, 4);
    assert_counters_and_holds(&host);
}

#[test]
fn the_end_of_a_reserving_job_releases_the_job_it_held_back() {
    let mut host = make_site(vec![limit(bank_target("science"), None, "run-sched-gpus", 4)]);
    let mut running: Vec<JobId> = (0..4).map(|_| host.submit(make_job(8, "A", 1)).unwrap()).collect();
    let large_job = host.submit(make_job(7, "B", 4)).unwrap();
    for _ in 0..OVERTAKEN {
        host.end_job(running.remove(0));
        running.push(host.submit(make_job(8, "A", 1)).unwrap());
    }
    assert_eq!(host.state(large_job), Some(State::Depend));
    host.end_job(running.remove(0));
    let late_job = host.submit(make_job(8, "A", 1)).unwrap();
    assert_eq!(host.names(late_job), ["max-run-sched-gpus-bank"], "headroom is reserved");
    assert!(host.engine.view().holding(late_job)[0].kept_for == Some(large_job));
    let reservations =
        |host: &Host| [large_job, late_job].map(|id| host.engine.ledger().overtaken().contains(id));
    assert_eq!(reservations(&host), [true, false]);
    let without_job = host.submit(make_job(8, "A", 0)).unwrap();
    assert_eq!(host.state(without_job), Some(State::Sched), "a job that takes nothing of the limit goes");
    host.end_job(large_job);
    assert_eq!(host.state(late_job), Some(State::Sched), "the reservation ended with the job");
    assert_counters_and_holds(&host);
}

/// A forced update moved the job into a full queue, so the engine holds the job in SCHED.
#[test]
fn an_anti_starvation_reservation_of_a_job_held_in_sched_ends_with_the_job() {
    let mut host = make_site(vec![limit(bank_target("science"), Some("q2"), "run-sched-gpus", 4)]);
    let small = || make_job(8, "A", 1).queue("q2");
    let mut running: Vec<JobId> = (0..4).map(|_| host.submit(small()).unwrap()).collect();
    let large_job = host.submit(make_job(7, "B", 4)).unwrap();
    host.force_update(large_job, Some("q2".to_owned()), Some("B".to_owned()));
    assert!(host.jobs[&large_job].is_held_in_sched);
    for _ in 0..OVERTAKEN {
        host.end_job(running.remove(0));
        running.push(host.submit(small()).unwrap());
    }
    host.end_job(running.remove(0));
    let late_job = host.submit(small()).unwrap();
    assert_eq!(host.names(late_job), ["max-run-sched-gpus-bank-queue"], "headroom is reserved");
    host.end_job(large_job);
    assert_eq!(host.state(late_job), Some(State::Sched), "the reservation ended with the job");
    assert_counters_and_holds(&host);
}

/// The annotation and the explanation name the shared limit on GPUs, and no limit on a resource that the job
/// does not request.
#[test]
fn an_annotation_and_an_explanation_name_the_limit_that_holds_a_job() {
    let mut host = make_site(vec![
        limit(bank_target("A"), None, "run-sched-gpus", 4),
        limit(bank_target("A"), None, "run-jobs", 9),
    ]);
    host.send_event(Event::Settings(Settings { annotate: true, ..Settings::default() }));
    let first_job = host.submit(make_job(7, "A", 3)).unwrap();
    host.start_job(first_job);
    let second_job = host.submit(make_job(8, "A", 2)).unwrap();
    let text = crate::engine::annotate::annotation_text(&host.engine.view(), second_job);
    assert_eq!(text.as_deref(), Some("held: max-run-sched-gpus-bank 3/4"));
    assert_eq!(super::why::explain_job(&host, second_job).release.reason.code, "shared");
    // The cap is now below the present use. The limit must not hold a job that requests no GPUs.
    push_limits(
        &mut host,
        vec![
            limit(bank_target("A"), None, "run-sched-gpus", 2),
            limit(bank_target("A"), None, "run-jobs", 1),
        ],
    );
    assert_eq!(host.state(second_job), Some(State::Depend));
    let none_job = host.submit(make_job(9, "C", 0)).unwrap();
    assert_eq!(host.state(none_job), Some(State::Sched));
    let held = host.submit(make_job(8, "A", 0)).unwrap();
    let holding: Vec<_> = host.engine.view().holding(held).iter().map(|it| it.hold.name()).collect();
    assert_eq!(
        (holding, host.names(held)),
        (vec!["max-run-jobs-bank"], vec!["max-run-jobs-bank".to_owned()])
    );
}
