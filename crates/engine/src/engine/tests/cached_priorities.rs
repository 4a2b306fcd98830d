// SPDX-License-Identifier: LGPL-3.0-only
//! The engine caches the priority of a job, and computes it again only if one of its inputs has changed.

use super::host::Host;
use super::live::{leaf, tree};
use super::site::{HostJob, association, queue, record};
use crate::accounts::{AssociationRecord, ConfigPatch, Queue, SiteRecords, ZeroScore};
use crate::engine::{Effect, Engine, Event, Refusal, Settings};
use crate::ids::JobId;
use crate::standing::SitePart;
use fairshare::Policy as Rule;

/// Checks that the engine gives the same answer from the cached priority of job `id` as without it. Does nothing if none is cached.
pub fn check_cached_priority(engine: &Engine, now: f64, id: JobId, urgency: i64) {
    if engine.ledger().cached_priority(id).is_none() {
        return;
    }
    let (mut cached, mut computed) = (engine.clone(), engine.clone());
    computed.drop_cached_priority(id);
    let [cached, computed] = [&mut cached, &mut computed].map(|engine| {
        let effects = format!("{:?}", engine.handle(now, Event::PriorityGet(id, urgency)));
        let noted = engine
            .view()
            .priorities_of(id)
            .map(|it| (it.posted.priority, it.noted.urgency, it.exact.priority));
        let eligible = engine.ledger().job(id).map(|job| job.eligible);
        (effects, noted, eligible)
    });
    assert_eq!(cached, computed, "{id}");
}

fn make_records(fairshare: f64) -> Vec<AssociationRecord> {
    let of = |user, bank| AssociationRecord { fairshare, ..record(association(user, bank), bank) };
    vec![of(7, "A"), of(7, "B"), of(8, "A")]
}

fn make_queues(priority: i64) -> Vec<Queue> {
    vec![Queue { priority, ..queue("q1") }, Queue { priority: 3, ..queue("q2") }]
}

/// Returns a host with a job whose priority is cached. The priority is 50,000 for the fair-share plus 10,000 for the queue.
fn make_site() -> (Host, JobId) {
    let mut host = Host::with_data(make_records(0.5), make_queues(1));
    let id = host.submit(HostJob::new(7).queue("q1").bank("A")).unwrap();
    reprioritize(&mut host);
    reprioritize(&mut host);
    assert_eq!(posted_priority(&host, id), 60_000);
    assert!(host.engine.ledger().cached_priority(id).is_some());
    (host, id)
}

fn reprioritize(host: &mut Host) {
    host.send_event(Event::Reprioritize);
}

fn posted_priority(host: &Host, id: JobId) -> i64 {
    host.jobs[&id].priority.unwrap()
}

fn weights_event(name: &str, weight: i64) -> Event<'static> {
    Event::Weights(vec![(name.to_owned(), weight)])
}

#[test]
fn a_priority_is_computed_once() {
    let (mut host, id) = make_site();
    let revision = |host: &Host| host.engine.ledger().cached_priority(id).map(|settled| settled.revision);
    let first = revision(&host);
    host.now += 100.0;
    host.run_new_job(HostJob::new(8));
    reprioritize(&mut host);
    assert_eq!(revision(&host), first, "other jobs and time do not change the priority");
    host.send_event(weights_event("urgency", 1_000));
    reprioritize(&mut host);
    assert!(revision(&host) > first);
    assert_eq!(posted_priority(&host, id), 60_000);
}

#[test]
fn a_change_of_any_input_changes_the_priority() {
    type Change = fn(&mut Host, JobId);
    let rows: &[(&str, Change, i64)] = &[
        ("nothing", |_, _| {}, 60_000),
        ("fair-share", |host, _| host.send_event(Event::Associations(make_records(0.25))), 35_000),
        ("queue", |host, _| host.send_event(Event::Queues(make_queues(2))), 70_000),
        (
            "bank",
            |host, _| {
                host.send_event(weights_event("bank", 10));
                reprioritize(host);
                host.send_event(Event::Banks(vec![("A".into(), 7.0)]));
            },
            60_070,
        ),
        ("weight", |host, _| host.send_event(weights_event("fairshare", 200_000)), 110_000),
        (
            "zero score",
            |host, _| {
                host.send_event(weights_event("queue", -10_000_000));
                reprioritize(host);
                reprioritize(host);
                let zero_score = Some(ZeroScore::Floor);
                host.send_event(Event::Config(ConfigPatch { zero_score, ..ConfigPatch::default() }));
            },
            1,
        ),
        ("urgency", |host, id| host.set_urgency(id, 20), 64_000),
        (
            "urgency and back",
            |host, id| {
                host.set_urgency(id, 0);
                reprioritize(host);
                host.set_urgency(id, 16);
            },
            60_000,
        ),
        ("expedited", |host, id| host.set_urgency(id, 31), 4_294_967_295),
        ("its queue", |host, id| host.update_job(id, Some("q2"), None).unwrap(), 80_000),
        (
            "its bank",
            |host, id| {
                host.send_event(weights_event("bank", 10));
                host.send_event(Event::Banks(vec![("B".into(), 7.0)]));
                reprioritize(host);
                host.update_job(id, None, Some("B")).unwrap();
            },
            60_070,
        ),
        (
            "all at once",
            |host, _| {
                let policy = SiteRecords {
                    associations: make_records(0.75),
                    queues: make_queues(1),
                    projects: vec!["*".into()],
                    ..SiteRecords::default()
                };
                host.send_event(Event::Policy(policy, SitePart::default()));
            },
            85_000,
        ),
        (
            "a weight of sizes",
            |host, _| {
                host.send_event(Event::Settings(Settings { size_weight: 8_000, ..Settings::default() }));
                reprioritize(host);
                host.send_event(Event::SiteNodes(Some(16)));
            },
            60_500,
        ),
        (
            "live",
            |host, _| {
                host.send_event(Event::Settings(Settings { live: true, ..Settings::default() }));
                let leaves = vec![leaf(7, "A", 1.0, 0.0), leaf(8, "A", 1.0, 1.0)];
                let policy = SiteRecords {
                    associations: make_records(0.5),
                    queues: make_queues(1),
                    projects: vec!["*".into()],
                    ..SiteRecords::default()
                };
                host.send_event(Event::Policy(policy, tree(Rule::WeightedWalk, 0.0, leaves)));
            },
            110_000,
        ),
    ];
    for (what, act, expected) in rows {
        let (mut host, id) = make_site();
        act(&mut host, id);
        for _ in 0..3 {
            reprioritize(&mut host);
            assert_eq!(posted_priority(&host, id), *expected, "{what}");
        }
        assert_eq!(crate::engine::answers::check(&host.engine.view()).drift, []);
    }
}

/// Ages and live fair-shares change without an event, so a cached priority could be stale.
#[test]
fn a_priority_that_changes_with_time_is_not_cached() {
    let (mut host, id) = make_site();
    host.send_event(Event::Settings(Settings { age_weight: 1, ..Settings::default() }));
    reprioritize(&mut host);
    assert_eq!(host.engine.ledger().cached_priority(id), None);
}

/// The urgency changes and changes back while another plugin keeps the job in PRIORITY. Flux reports only the first change.
#[test]
fn a_priority_is_computed_again_after_the_urgency_changed_and_changed_back() {
    for other in [20, 0] {
        let (mut host, id) = make_site();
        host.engine.handle(host.now, Event::Priority(id, other));
        assert_eq!(host.engine.view().priorities_of(id).unwrap().noted.urgency, other as u8);
        check_cached_priority(&host.engine, host.now, id, 16);
        host.engine.handle(host.now, Event::PriorityGet(id, 16));
        let priorities = host.engine.view().priorities_of(id).unwrap();
        assert_eq!((priorities.posted.priority, priorities.noted.urgency), (60_000, 16));
        assert!(
            host.engine.ledger().job(id).unwrap().eligible.since().is_some(),
            "the job is eligible again"
        );
    }
}

/// Another plugin keeps the job in PRIORITY. The job manager therefore asks for the job's priority after the update.
#[test]
fn a_priority_is_computed_again_after_an_update() {
    let (mut host, id) = make_site();
    let moved_facts = HostJob { queue: Some("q2".to_owned()), ..host.jobs[&id].clone() };
    host.engine.handle(host.now, Event::Updated(Host::facts(id, &moved_facts)));
    check_cached_priority(&host.engine, host.now, id, 16);
    host.engine.handle(host.now, Event::PriorityGet(id, 16));
    assert_eq!(host.engine.view().priorities_of(id).unwrap().posted.priority, 80_000);
}

/// After Flux refused a priority, the job may have another priority in Flux than the cached priority, or no priority.
#[test]
fn a_priority_that_flux_refused_is_computed_again() {
    let (mut host, id) = make_site();
    host.engine.refused(Effect::Prioritize(id, 5), Refusal::TooLate);
    assert_eq!(host.engine.ledger().cached_priority(id), None);
    reprioritize(&mut host);
    assert_eq!(host.engine.view().priorities_of(id).unwrap().posted.priority, 60_000);
}
