// SPDX-License-Identifier: LGPL-3.0-only
//! The terms of age and size, compared with sums of intervals and with priorities that were computed by hand.
//! Rules: P8, P9

use super::FEW;
use super::host::Host;
use super::live::{accounts, leaf, make_host_with_live_fairshare, tree};
use super::site::{HostJob, NOW, SITE_NODES, association, queue, record};
use crate::accounts::{AssociationRecord, ConfigPatch, SiteRecords, ZeroScore};
use crate::engine::{Batches, Engine, Event, Settings, State};
use crate::ids::JobId;
use fairshare::Policy;
use proptest::prelude::*;

const HOUR: f64 = 3_600.0;

fn settings_with_age_weight(age_weight: i64) -> Settings {
    Settings { age_weight, age_max: 100.0 * HOUR, ..Settings::default() }
}

fn make_engine_with_data() -> Engine {
    let mut engine = Engine::with_small_batches();
    engine.handle(NOW, Event::Queues(vec![queue("q1")]));
    engine.handle(NOW, Event::Projects(vec!["*".into()]));
    let records = vec![record(association(7, "A"), "A"), record(association(8, "A"), "A")];
    engine.handle(NOW, Event::Associations(records));
    engine
}

fn make_site(settings: Settings) -> Host {
    let mut host = Host::new();
    host.engine = make_engine_with_data();
    host.send_event(Event::Settings(settings));
    host
}

fn posted_priority(host: &Host, id: JobId) -> i64 {
    host.jobs[&id].priority.unwrap()
}

/// Returns the eligible time of a job as the engine counts it, in seconds.
fn counted_seconds(host: &Host, id: JobId) -> f64 {
    host.engine.ledger().job(id).unwrap().eligible.seconds(host.now)
}

#[test]
fn the_priority_difference_of_two_jobs_is_their_weighted_age_difference() {
    let mut host = make_site(settings_with_age_weight(100_000));
    let first_job = host.submit(HostJob::new(7)).unwrap();
    host.now += 10.0 * HOUR - 1.0;
    let second_job = host.submit(HostJob::new(8)).unwrap();
    assert_eq!(posted_priority(&host, first_job) - posted_priority(&host, second_job), 10_000);
    let posted = posted_priority(&host, first_job);
    host.now += 50.0 * HOUR;
    host.send_event(Event::Reprioritize);
    assert_eq!(posted_priority(&host, first_job), posted, "the ages of all jobs grow equally");
    assert_eq!(
        crate::engine::age::get_age_state_for_query(&host.engine.view()).reference,
        Some(host.engine.ages().reference())
    );
    // After the second step, the first job has been at the maximum age for 5 hours. After the third step, both jobs
    // are at the maximum age.
    for (after, difference) in [(35.0, 10_000), (10.0, 5_000), (10.0, 0), (1_000.0, 0)] {
        host.now += after * HOUR;
        host.send_event(Event::Reprioritize);
        assert_eq!(
            posted_priority(&host, first_job) - posted_priority(&host, second_job),
            difference,
            "{after}"
        );
    }
}

#[test]
fn an_age_without_a_weight_adds_nothing_to_a_priority() {
    let mut host = make_site(settings_with_age_weight(0));
    let id = host.submit(HostJob::new(7).size(3, 3)).unwrap();
    host.now += 70.0 * HOUR;
    host.send_event(Event::Reprioritize);
    assert_eq!(posted_priority(&host, id), 50_000);
    assert_eq!(crate::engine::age::get_age_state_for_query(&host.engine.view()).reference, None);
}

#[test]
fn a_pushed_weight_takes_precedence_over_a_configured_one() {
    let mut host = make_site(settings_with_age_weight(100_000));
    host.push_weights(vec![("age".to_owned(), 0)]);
    let id = host.submit(HostJob::new(7)).unwrap();
    assert_eq!(posted_priority(&host, id), 50_000);
}

#[test]
fn the_age_term_does_not_raise_the_priority_of_a_job_with_score_0() {
    for (zero_score, priority) in [(ZeroScore::Hold, 0), (ZeroScore::Floor, 1)] {
        let mut host = make_site(settings_with_age_weight(10_000_000));
        host.send_event(Event::Config(ConfigPatch {
            zero_score: Some(zero_score),
            ..ConfigPatch::default()
        }));
        host.send_event(Event::Weights(vec![("fairshare".to_owned(), 0)]));
        let id = host.submit(HostJob { urgency: 15, ..HostJob::new(7) }).unwrap();
        for _ in 0..5 {
            host.now += 40.0 * HOUR;
            host.send_event(Event::Reprioritize);
            assert_eq!(posted_priority(&host, id), priority);
        }
        let held = host.submit(HostJob { urgency: 0, ..HostJob::new(8) }).unwrap();
        host.now += 40.0 * HOUR;
        host.send_event(Event::Reprioritize);
        assert_eq!(posted_priority(&host, held), 0);
    }
}

#[test]
fn the_terms_show_an_age_whose_weight_is_0() {
    let mut host = make_site(settings_with_age_weight(100_000));
    host.send_event(Event::Weights(vec![("fairshare".to_owned(), 0), ("age".to_owned(), 0)]));
    let id = host.submit(HostJob { urgency: 15, ..HostJob::new(7) }).unwrap();
    let exact = host.engine.view().priorities_of(id).unwrap().exact;
    let age = exact.terms().iter().find(|term| term.name == "age").unwrap();
    assert!(exact.priority == 0 && age.value > 0.0 && age.product == 0.0, "{exact:?}");
}

#[test]
fn the_size_term_is_the_fraction_of_the_sites_nodes_that_a_job_requests() {
    let mut host = make_site(Settings { size_weight: 1_000, ..Settings::default() });
    for (nodes, term) in [(1, 125), (4, 500), (SITE_NODES, 1_000), (SITE_NODES * 3, 1_000)] {
        let id = host.submit(HostJob::new(7).size(nodes, nodes)).unwrap();
        assert_eq!(posted_priority(&host, id), 50_000 + term, "{nodes} nodes");
    }
    host.send_event(Event::SiteNodes(Some(16)));
    assert_eq!(posted_priority(&host, JobId(2)), 50_250, "all priorities are recomputed");
    host.send_event(Event::SiteNodes(None));
    assert_eq!(posted_priority(&host, JobId(2)), 50_000, "the number of nodes is unknown");
}

#[test]
fn a_job_older_than_max_wait_behind_outweighs_all_other_terms() {
    let mut host = make_site(Settings { max_wait_behind: 48.0 * HOUR, ..Settings::default() });
    host.send_event(Event::Queues(vec![crate::accounts::Queue { priority: 3, ..queue("q1") }]));
    let scored = |user, fairshare| AssociationRecord { fairshare, ..record(association(user, "A"), "A") };
    host.push(vec![scored(7, 0.2), scored(8, 1.0)]);
    let waits = host.submit(HostJob { urgency: 1, ..HostJob::new(7) }).unwrap();
    let best = || HostJob { urgency: 30, ..HostJob::new(8) }.queue("q1");
    host.now += 40.0 * HOUR;
    let early_job = host.submit(best()).unwrap();
    assert!(posted_priority(&host, early_job) > posted_priority(&host, waits));
    assert_eq!(
        crate::engine::age::get_age_state_for_query(&host.engine.view())
            .near
            .iter()
            .map(|job| job.id)
            .collect::<Vec<_>>(),
        [waits]
    );
    host.now += 8.0 * HOUR;
    let late_job = host.submit(best()).unwrap();
    assert!(
        posted_priority(&host, late_job) <= posted_priority(&host, waits),
        "{} {}",
        posted_priority(&host, late_job),
        posted_priority(&host, waits)
    );
    // With the setting `max-wait-behind`, ages have no maximum. Even after a year, the order of the jobs has not
    // changed.
    host.now += 365.0 * 24.0 * HOUR;
    host.send_event(Event::Reprioritize);
    assert!(
        posted_priority(&host, early_job) > posted_priority(&host, waits)
            && posted_priority(&host, late_job) <= posted_priority(&host, waits)
    );
}

/// Submits a job. Asserts that its posted priority is current, and lower than the posted priorities of the
/// first `depth` jobs of `jobs`.
fn assert_new_job_is_last(host: &mut Host, jobs: &[JobId], depth: usize) {
    let late_job = host.submit(HostJob::new(8).bank("A")).unwrap();
    let priorities = host.engine.view().priorities_of(late_job).unwrap();
    assert_eq!(priorities.posted.priority, priorities.exact.priority);
    for id in &jobs[..depth.min(jobs.len())] {
        assert!(
            posted_priority(host, *id) > posted_priority(host, late_job),
            "{id}: {} {}",
            posted_priority(host, *id),
            posted_priority(host, late_job)
        );
    }
}

/// A refresh sorts all jobs of a queue, or only the first five.
const ORDERED: [Batches; 2] = [FEW, Batches { ordered: 5, posted: 6, ..FEW }];

#[test]
fn a_job_submitted_after_the_reference_time_moved_is_ordered_by_its_current_priority() {
    for batches in ORDERED {
        let mut host = make_host_with_live_fairshare(Policy::FairTree);
        let week = 7.0 * 24.0 * HOUR;
        let settings = Settings { age_weight: 486_000, age_max: week, ..Settings::default() };
        host.engine.batches = batches;
        host.send_event(Event::Settings(settings));
        let reference = host.engine.ages().reference();
        host.now += 60.0 * HOUR;
        let jobs: Vec<JobId> = (0..10)
            .map(|_| {
                host.now += 10.0 * HOUR;
                host.submit(HostJob::new(7).bank("A")).unwrap()
            })
            .collect();
        host.advance_time_and_refresh(reference + 1.0 - host.now);
        assert!(host.engine.ages().reference() > reference);
        host.now += 1.0;
        assert_new_job_is_last(&mut host, &jobs, batches.ordered);
    }
}

#[test]
fn a_job_submitted_after_a_push_of_new_weights_is_ordered_by_its_current_priority() {
    for batches in ORDERED {
        let mut host = Host::new();
        host.engine.batches = batches;
        let push = |weight| {
            let weights = vec![("fairshare".to_owned(), weight)];
            let leaves = [(7, 0.0), (8, 1e6)].map(|(user, usage)| leaf(user, "A", usage, 0.0));
            Event::Policy(SiteRecords { weights, ..accounts() }, tree(Policy::FairTree, NOW, leaves.into()))
        };
        host.send_event(push(100_000));
        let jobs: Vec<JobId> = (0..10).map(|_| host.submit(HostJob::new(7).bank("A")).unwrap()).collect();
        host.send_event(push(1_000_000));
        assert_new_job_is_last(&mut host, &jobs, batches.ordered);
    }
}

#[derive(Clone, Debug)]
enum Action {
    Wait(u32),
    Urgency(usize, i64),
    Unblock(usize),
    Replay(bool),
}

fn any_action() -> impl Strategy<Value = Action> {
    prop_oneof![
        (1..100_000u32).prop_map(Action::Wait),
        (0..4usize, prop_oneof![Just(0i64), Just(10), Just(31)])
            .prop_map(|(job, urgency)| Action::Urgency(job, urgency)),
        (0..4usize).prop_map(Action::Unblock),
        any::<bool>().prop_map(Action::Replay),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// The age of a job grows only while the job is not blocked and its urgency is above 0. Jobs with a higher age
    /// must have a higher priority.
    #[test]
    fn a_job_counts_only_the_seconds_in_which_it_could_have_run(acts in prop::collection::vec(any_action(), 1..40)) {
        let mut host = make_site(settings_with_age_weight(100_000_000));
        let jobs = [0, 1, 2, 3].map(|number| {
            let job = HostJob { urgency: if number == 1 { 0 } else { 16 }, ..HostJob::new(7) };
            host.submit(if number >= 2 { job.blocked_by("after=1") } else { job }).unwrap()
        });
        let mut counted = jobs.map(|id| {
            let job = &host.jobs[&id];
            if job.state == State::Sched && job.urgency > 0 { host.now - job.submitted } else { 0.0 }
        });
        let advance_time = |host: &mut Host, counted: &mut [f64; 4], passed: f64| {
            host.now += passed;
            for (id, counted) in jobs.iter().zip(counted) {
                let job = &host.jobs[id];
                if job.dependencies.is_empty() && job.urgency > 0 {
                    *counted += passed;
                }
            }
        };
        for action in acts {
            match action {
                Action::Wait(seconds) => advance_time(&mut host, &mut counted, f64::from(seconds)),
                // Flux does not report the urgency of a job in DEPEND to a plugin that is not subscribed. So
                // the history changes only urgencies of jobs in SCHED.
                Action::Urgency(job, urgency) if host.state(jobs[job]) == Some(State::Sched) => {
                    host.set_urgency(jobs[job], urgency);
                }
                Action::Unblock(job) => {
                    if host.names(jobs[job]).iter().any(|name| name == "after=1") {
                        let (id, now) = (jobs[job], host.now);
                        host.unblock(id, "after=1");
                        prop_assert_eq!(host.now, now);
                    }
                }
                Action::Replay(is_reload) => {
                    let mut engine = make_engine_with_data();
                    engine.handle(host.now, Event::Settings(settings_with_age_weight(100_000_000)));
                    host.replay_jobs(is_reload, engine);
                }
                Action::Urgency(..) => {}
            }
            for (id, counted) in jobs.iter().zip(counted) {
                let seconds = counted_seconds(&host, *id);
                prop_assert!((seconds - counted).abs() < 1e-3, "job {}: {} {}", id, seconds, counted);
            }
            host.send_event(Event::Reprioritize);
            for (younger, age) in jobs.iter().zip(counted) {
                for (older, older_age) in jobs.iter().zip(counted) {
                    let pair = [*younger, *older].map(|id| &host.jobs[&id]);
                    if pair.iter().all(|job| job.state == State::Sched && job.urgency == 16) && older_age > age + 1.0 {
                        let cap = 100.0 * HOUR;
                        let [low, high] = [*younger, *older].map(|id| posted_priority(&host, id));
                        prop_assert!(high > low || age >= cap, "{} {}: {} {}", age, older_age, low, high);
                    }
                }
            }
        }
    }
}

/// New settings change the reference time of ages between two refreshes, so all posted priorities are stale. The next
/// refresh must post all priorities, although no usage changed.
#[test]
fn a_refresh_posts_all_priorities_after_the_age_reference_time_changed() {
    let mut host = make_host_with_live_fairshare(Policy::FairTree);
    host.send_event(Event::Settings(settings_with_age_weight(100_000)));
    host.advance_time_and_refresh(30.0);
    host.now += 51.0 * HOUR;
    let id = host.submit(HostJob::new(7).bank("A")).unwrap();
    let reference = host.engine.ages().reference();
    host.now += 50.0 * HOUR;
    host.send_event(Event::Settings(Settings { annotate: true, ..settings_with_age_weight(100_000) }));
    assert_ne!(host.engine.ages().reference(), reference);
    host.advance_time_and_refresh(30.0);
    let fresh_job = host.submit(HostJob::new(7).bank("A")).unwrap();
    let difference = posted_priority(&host, id) - posted_priority(&host, fresh_job);
    assert!((50_000..=50_010).contains(&difference), "between half of age_max and a new job: {difference}");
}
