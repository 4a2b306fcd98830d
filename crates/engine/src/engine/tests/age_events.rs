// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of the age factor and the size factor: when a job begins to age, when the engine asks for all priorities, and
//! what queries return.

use super::examples::{make_site, submit};
use super::host::Host;
use super::site::{HostJob, NOW, SITE_NODES, association, queue, record};
use crate::accounts::{Association, Queue, SiteRecords};
use crate::engine::answers::JobFilter;
use crate::engine::{Effect, Engine, Event, Past, Settings, State, Timer};
use crate::ids::{JobId, Limit};
use crate::limits::Eligible;
use crate::standing::SitePart;

const ID: JobId = JobId(1);
const HOUR: f64 = 3_600.0;
/// The age, in seconds, from which the age term no longer grows.
const AGE_MAX: f64 = 100.0 * HOUR;

fn settings_with_age() -> Settings {
    Settings { age_weight: 1_000, age_max: AGE_MAX, ..Settings::default() }
}

fn make_host_with_settings(settings: Settings) -> Host {
    let mut host = make_site(|_| ());
    host.send_event(Event::Settings(settings));
    host
}

fn count_matching_effects(effects: &[Effect], which: impl Fn(&Effect) -> bool) -> usize {
    effects.iter().filter(|effect| which(effect)).count()
}

fn asks_for_all_priorities(effects: &[Effect]) -> bool {
    count_matching_effects(effects, |effect| matches!(effect, Effect::ReprioritizeAll)) == 1
}

/// Returns true if `settings` make the engine request all priorities. The request must come in the next reactor turn, because Flux is
/// still passing the settings to its plugins.
fn requests_all_priorities_in_next_turn(host: &mut Host, now: f64, settings: Settings) -> bool {
    let effects = host.engine.handle(now, Event::Settings(settings));
    assert!(!asks_for_all_priorities(&effects), "{effects:?}");
    asks_for_all_priorities(&host.engine.handle(now, Event::Timer(Timer::ReactorTurn)))
}

/// Returns the jobs whose eventlogs are requested.
fn requested_eventlogs(effects: &[Effect]) -> Vec<JobId> {
    effects.iter().filter_map(|e| if let Effect::ReadEventlog(id) = e { Some(*id) } else { None }).collect()
}

fn eligible_time(host: &Host, id: JobId) -> Eligible {
    host.engine.ledger().job(id).unwrap().eligible
}

#[test]
fn the_setting_max_wait_behind_makes_age_outweigh_all_other_terms() {
    for (weights, weight) in [
        ([0, 0, 0, 0], 3),
        ([100, 0, 0, 0], 211),
        // Queue priorities are -3 and 5, and bank priorities 2 and 7. A job without a queue or bank has the value 0.
        ([0, 10, 0, 0], 169),
        ([0, -10, 0, 0], 169),
        ([0, 0, 10, 0], 148),
        ([0, 0, 0, 2], 123),
        ([100, 10, 10, 2], 644),
    ] {
        let mut host = make_host_with_settings(Settings {
            max_wait_behind: 48.0 * HOUR,
            age_max: AGE_MAX,
            ..Settings::default()
        });
        let ranked = |name: &str, priority| Queue { priority, ..queue(name) };
        host.send_event(Event::Queues(vec![ranked("q1", -3), ranked("q2", 5)]));
        host.send_event(Event::Banks(vec![("A".into(), 2.0), ("B".into(), 7.0)]));
        let given = ["fairshare", "queue", "bank", "urgency"].into_iter().zip(weights);
        host.send_event(Event::Weights(given.map(|(name, weight)| (name.to_owned(), weight)).collect()));
        assert_eq!(
            crate::engine::age::get_age_state_for_query(&host.engine.view()).weight,
            weight,
            "{weights:?}"
        );
    }
}

#[test]
fn the_engine_reads_the_site_node_count_once_if_size_is_weighted() {
    let sized = |size_weight| Settings { size_weight, ..settings_with_age() };
    let asks = |engine: &mut Engine, settings| {
        let effects = engine.handle(NOW, Event::Settings(settings));
        count_matching_effects(&effects, |effect| matches!(effect, Effect::ReadSiteNodes))
    };
    let mut engine = make_site(|_| ()).engine;
    assert_eq!([0, 5].map(|weight| asks(&mut engine, sized(weight))), [0, 1]);
    let reprioritizes = |engine: &mut Engine, nodes| {
        asks_for_all_priorities(&engine.handle(NOW, Event::SiteNodes(Some(nodes))))
    };
    assert_eq!(
        [8, 8, 9].map(|nodes| reprioritizes(&mut engine, nodes)),
        [true, false, true],
        "a new number of nodes changes all priorities"
    );
    assert_eq!(asks(&mut engine, sized(6)), 0);
    engine.handle(NOW, Event::Settings(sized(0)));
    assert!(!reprioritizes(&mut engine, 10), "the number of nodes counts nowhere");
}

#[test]
fn only_changed_age_and_size_settings_trigger_a_reprioritization() {
    let mut host = make_host_with_settings(settings_with_age());
    for (what, settings, asks) in [
        ("the cap", Settings { age_max: AGE_MAX / 2.0, ..settings_with_age() }, true),
        ("the weight", settings_with_age(), true),
        ("annotations", Settings { annotate: true, ..settings_with_age() }, false),
        ("a size", Settings { size_weight: 1, ..settings_with_age() }, true),
        ("max_wait_behind", Settings { max_wait_behind: 1.0, size_weight: 1, ..settings_with_age() }, true),
    ] {
        assert_eq!(requests_all_priorities_in_next_turn(&mut host, NOW, settings), asks, "{what}");
    }
}

#[test]
fn with_live_fair_share_new_age_settings_apply_at_the_next_refresh() {
    let mut host = super::live::make_host_with_live_fairshare(fairshare::Policy::FairTree);
    assert!(!requests_all_priorities_in_next_turn(&mut host, NOW, settings_with_age()));
}

#[test]
fn the_age_period_is_a_thousandth_of_age_max_and_at_least_the_refresh_period() {
    for (age_weight, age_max, period) in
        [(1_000, AGE_MAX, 360.0), (1_000, 20_000.0, 30.0), (1_000, 30_500.0, 30.5), (0, AGE_MAX, 0.0)]
    {
        let host = make_host_with_settings(Settings { age_weight, age_max, ..Settings::default() });
        assert_eq!(crate::engine::age::age_period(&host.engine.view()), period, "{age_weight} {age_max}");
    }
}

/// The engine computes all ages for a reference time, `AGE_MAX` from now. Priorities change only when the reference
/// time is reached, or if a pending job is at the maximum age.
#[test]
fn the_age_timer_requests_all_priorities_only_if_time_changes_a_priority() {
    let young = |_: &mut Host| ();
    let capped = |host: &mut Host| host.jobs.get_mut(&ID).unwrap().submitted -= 2.0 * AGE_MAX;
    let in_depend = |host: &mut Host| {
        capped(host);
        host.jobs.get_mut(&ID).unwrap().state = State::Depend;
    };
    let running = |host: &mut Host| {
        capped(host);
        host.jobs.get_mut(&ID).unwrap().state = State::Run;
    };
    for (what, change, age_weight, after, asks) in [
        ("young", &young as &dyn Fn(&mut Host), 1_000, 1.0, false),
        ("young, and the reference is reached", &young, 1_000, 2.0 * AGE_MAX, true),
        ("without weight", &young, 0, 2.0 * AGE_MAX, false),
        ("at the cap", &capped, 1_000, 1.0, true),
        ("at the cap, without weight", &capped, 0, 1.0, false),
        ("at the cap, in DEPEND", &in_depend, 1_000, 1.0, false),
        ("at the cap, running", &running, 1_000, 1.0, false),
    ] {
        let mut host = make_host_with_settings(Settings { age_weight, ..settings_with_age() });
        submit(&mut host, 1);
        change(&mut host);
        let mut engine = make_site(|_| ()).engine;
        engine.handle(NOW, Event::Settings(Settings { age_weight, ..settings_with_age() }));
        engine.handle(NOW, Event::New(Host::facts(ID, &host.jobs[&ID])));
        engine.handle(NOW, Event::Timer(Timer::ReactorTurn));
        let effects = engine.handle(NOW + after, Event::Timer(Timer::Refresh));
        assert_eq!(asks_for_all_priorities(&effects), asks, "{what}");
    }
}

#[test]
fn a_new_age_reference_changes_priorities_only_if_age_has_a_weight() {
    for (age_weight, after, changes_priorities) in
        [(1_000, 0.0, false), (1_000, 2.0 * AGE_MAX, true), (0, 2.0 * AGE_MAX, false)]
    {
        let mut host = make_host_with_settings(Settings { age_weight, ..settings_with_age() });
        host.engine.handle(NOW + after, Event::Gone(JobId(9)));
        assert_eq!(host.engine.advance_age_reference_time(), changes_priorities, "{age_weight} {after}");
        assert!(
            !host.engine.advance_age_reference_time(),
            "a reference that has just moved does not move again"
        );
    }
}

/// The age starts at t_submit, not at the callback. A blocked job and a job at urgency 0 have no age yet.
#[test]
fn a_new_job_ages_from_its_submission() {
    for (what, urgency, is_blocked, wanted) in [
        ("free", 16, false, Eligible::Since(NOW - 5.0)),
        ("urgency 0", 0, false, Eligible::For(0.0)),
        ("blocked", 16, true, Eligible::For(0.0)),
    ] {
        let mut host = make_host_with_settings(settings_with_age());
        let job = HostJob { urgency, submitted: NOW - 5.0, ..HostJob::new(7) };
        host.engine.handle(NOW, Event::Created { id: ID, state: State::New, has_dependencies: is_blocked });
        host.engine.handle(NOW, Event::Validate(Host::facts(ID, &job)));
        if is_blocked {
            host.engine.handle(NOW, Event::Dependency { id: ID, name: "keep=x", added: true });
        }
        host.engine.handle(NOW, Event::New(Host::facts(ID, &job)));
        assert_eq!(eligible_time(&host, ID), wanted, "{what}");
    }
}

/// A job that is still in DEPEND in the next reactor turn is blocked, so its age stops. A priority request shows that the job has left
/// DEPEND, and the age continues.
#[test]
fn a_blocked_job_does_not_age_until_it_has_left_depend() {
    let mut host = make_host_with_settings(settings_with_age());
    let job = HostJob::new(7);
    host.engine.handle(NOW, Event::Validate(Host::facts(ID, &job)));
    host.engine.handle(NOW, Event::New(Host::facts(ID, &job)));
    host.engine.handle(NOW, Event::Depend(ID));
    assert_eq!(eligible_time(&host, ID), Eligible::Since(NOW));
    host.engine.handle(NOW + 7.0, Event::Timer(Timer::ReactorTurn));
    assert_eq!(eligible_time(&host, ID), Eligible::For(7.0));
    host.engine.handle(NOW + 500.0, Event::Priority(ID, 16));
    assert_eq!(eligible_time(&host, ID), Eligible::Since(NOW + 493.0));
}

#[test]
fn a_job_keeps_its_age_while_its_urgency_is_0() {
    let mut host = make_host_with_settings(settings_with_age());
    let id = submit(&mut host, 1);
    host.now += 10.0 * HOUR;
    host.set_urgency(id, 0);
    host.now += 20.0 * HOUR;
    host.engine.handle(host.now, Event::Gone(JobId(9)));
    let job = host.engine.ledger().job(id).unwrap();
    let reference = host.engine.ages().reference();
    let shown = host.engine.view().age(job) * AGE_MAX;
    assert!((shown - (reference - host.now + 10.0 * HOUR)).abs() < 1e-3, "{shown}");
}

/// The eventlog of a replayed pending job shows how long the job was eligible. The engine reads the eventlog
/// only if the weight of the age is not 0.
#[test]
fn eventlogs_are_read_when_an_age_weight_is_set() {
    let all = [State::Depend, State::Priority, State::Sched, State::Run];
    let during_replay = |age_weight| {
        let mut engine = make_site(|_| ()).engine;
        engine.handle(NOW, Event::Settings(Settings { age_weight, ..settings_with_age() }));
        for (number, state) in all.into_iter().enumerate() {
            let job = HostJob { state, bank: Some("A".to_owned()), ..HostJob::new(7) };
            engine.handle(NOW, Event::New(Host::facts(JobId(number as u64 + 1), &job)));
        }
        engine
    };
    let after_replay = |age_weight| {
        let mut engine = during_replay(age_weight);
        engine.handle(NOW, Event::Timer(Timer::ReactorTurn));
        let job = HostJob::new(7);
        engine.handle(NOW, Event::Validate(Host::facts(JobId(9), &job)));
        engine.handle(NOW, Event::New(Host::facts(JobId(9), &job)));
        engine
    };
    let pending = [1, 2, 3].map(JobId).to_vec();
    for (what, mut engine, age_weight, wanted) in [
        ("ages begin to count", after_replay(0), 7, pending),
        ("ages counted before", after_replay(5), 7, Vec::new()),
        ("ages stop counting", after_replay(5), 0, Vec::new()),
        ("the replay has not ended", during_replay(0), 7, Vec::new()),
    ] {
        let effects = engine.handle(NOW, Event::Settings(Settings { age_weight, ..settings_with_age() }));
        assert_eq!(requested_eventlogs(&effects), wanted, "{what}");
    }
    let mut engine = after_replay(0);
    let effects = engine.handle(
        NOW,
        Event::Settings(Settings { age_max: AGE_MAX / 2.0, age_weight: 0, ..settings_with_age() }),
    );
    assert_eq!(requested_eventlogs(&effects), [], "another age_max without a weight requests no eventlog");
}

/// A push can set the weight of the age, as the settings can. The engine then needs the eventlogs of pending
/// jobs.
#[test]
fn eventlogs_are_read_when_a_push_sets_an_age_weight() {
    let mut host = make_site(|_| ());
    let job = HostJob { state: State::Sched, ..HostJob::new(7) };
    host.engine.handle(NOW, Event::New(Host::facts(ID, &job)));
    host.engine.handle(NOW, Event::Timer(Timer::ReactorTurn));
    let push = |weight| Event::Weights(vec![("age".to_owned(), weight)]);
    assert_eq!(requested_eventlogs(&host.engine.handle(NOW, push(0))), []);
    assert_eq!(requested_eventlogs(&host.engine.handle(NOW, push(1_000))), [ID]);
    assert_eq!(requested_eventlogs(&host.engine.handle(NOW, push(2_000))), []);
}

/// While Flux loads the plugin, the engine gets data, but Flux does not carry out the engine's requests. The engine
/// repeats these requests when it gets the first settings.
#[test]
fn the_first_settings_event_repeats_requests_that_were_lost_at_load() {
    let mut engine = Engine::with_small_batches();
    let weights = ["age", "size"].map(|factor| (factor.to_owned(), 1_000)).to_vec();
    drop(
        engine.handle(
            NOW,
            Event::Policy(SiteRecords { weights, ..SiteRecords::default() }, SitePart::default()),
        ),
    );
    let asks = |effects: &[Effect]| {
        let armed = |effect: &Effect| matches!(effect, Effect::ArmIn(Timer::Refresh, _));
        (
            count_matching_effects(effects, armed),
            count_matching_effects(effects, |effect| matches!(effect, Effect::ReadSiteNodes)),
        )
    };
    for times in [(1, 1), (0, 0)] {
        let effects = engine.handle(NOW, Event::Settings(Settings::default()));
        assert_eq!(asks(&effects), times);
    }
}

/// When the reference time has passed, any new settings set a new reference time. All posted priorities are then
/// stale.
#[test]
fn a_new_reference_time_for_ages_triggers_a_reprioritization() {
    let settings = Settings { age_weight: 1_000_000, age_max: 100.0, ..Settings::default() };
    let mut host = make_host_with_settings(settings.clone());
    let reference = host.engine.view().get_live_fairshare_details().ages.reference.unwrap();
    host.engine.handle(reference - 1.0, Event::Settings(Settings { remember: false, ..settings.clone() }));
    assert!(requests_all_priorities_in_next_turn(
        &mut host,
        reference + 1.0,
        Settings { annotate: true, ..settings }
    ));
    assert!(host.engine.view().get_live_fairshare_details().ages.reference.unwrap() > reference);
}

#[test]
fn the_eventlog_of_a_job_gives_the_time_from_which_it_ages() {
    let held = |added| Past::Dependency("max-running-jobs-user-limit".to_owned(), added);
    let blocked = |added| Past::Dependency("afterany:1".to_owned(), added);
    let begins = [(0.0, Past::Urgency(16)), (1.0, Past::Accepted)];
    for (what, more, wanted) in [
        ("held and released", vec![(2.0, held(true)), (50.0, held(false))], Eligible::Since(NOW)),
        ("held", vec![(2.0, held(true))], Eligible::Since(NOW)),
        (
            "blocked and unblocked",
            vec![(2.0, blocked(true)), (50.0, blocked(false))],
            Eligible::Since(NOW + 48.0),
        ),
        ("blocked", vec![(2.0, blocked(true))], Eligible::For(2.0)),
        ("urgency 0", vec![(5.0, Past::Urgency(0))], Eligible::For(5.0)),
    ] {
        let mut host = make_host_with_settings(settings_with_age());
        let id = submit(&mut host, 1);
        let past = begins.iter().cloned().chain(more).map(|(after, what)| (NOW + after, what)).collect();
        host.engine.handle(NOW + 100.0, Event::Past(id, past));
        assert_eq!(eligible_time(&host, id), wanted, "{what}");
    }
}

#[test]
fn reading_the_eventlog_of_a_released_job_updates_its_age_based_priority() {
    for (age_weight, limit, asks) in [(1_000, 9, true), (0, 9, false), (1_000, 0, false), (0, 0, false)] {
        let limits = Association { max_sched_jobs: Limit(limit), ..association(7, "A") };
        let mut host = Host::with_data(vec![record(limits, "A")], Vec::new());
        host.send_event(Event::Settings(Settings { age_weight, ..settings_with_age() }));
        let id = submit(&mut host, 1);
        let past = vec![(NOW, Past::Urgency(16)), (NOW, Past::Accepted)];
        let effects = host.engine.handle(NOW, Event::Past(id, past));
        let asked = count_matching_effects(
            &effects,
            |effect| matches!(effect, Effect::AskUrgency(asked) if *asked == id),
        );
        assert_eq!(asked == 1, asks, "weight {age_weight}, limit {limit}");
    }
}

#[test]
fn the_age_status_has_the_settings_and_jobs_near_max_wait_behind() {
    let mut host = make_host_with_settings(settings_with_age());
    let ages_only = crate::engine::age::get_age_state_for_query(&host.engine.view());
    assert_eq!((ages_only.max_wait_behind, ages_only.site_nodes, ages_only.weight), (None, None, 1_000));
    // 1,000 points in 100 hours are 240 points a day.
    assert_eq!(ages_only.per_day, 240.0);
    host.send_event(Event::Settings(Settings {
        size_weight: 1,
        max_wait_behind: 40.0 * HOUR,
        ..settings_with_age()
    }));
    let submitted = [0.0, 20.0, 31.0].map(|hour| {
        host.now = NOW + hour * HOUR;
        submit(&mut host, 1)
    });
    host.now = NOW + 51.0 * HOUR;
    host.engine.handle(host.now, Event::Gone(JobId(9)));
    let shown = crate::engine::age::get_age_state_for_query(&host.engine.view());
    assert_eq!((shown.max_wait_behind, shown.site_nodes), (Some(40.0 * HOUR), Some(SITE_NODES)));
    let near_jobs: Vec<JobId> = shown.near.iter().map(|job| job.id).collect();
    assert_eq!(
        (near_jobs, shown.near_total),
        (submitted[..2].to_vec(), 2),
        "jobs that have waited at least three quarters of 40 hours"
    );
}

/// The reference time in the future adds the same amount to all ages. The answer shows this amount as the separate term age_offset, so that
/// users see the true age.
#[test]
fn an_explanation_shows_the_age_and_terms_that_sum_to_the_priority() {
    for (max_wait_behind, waited, most) in [
        (0.0, 4.0, 1.0),
        (0.0, 10.0 * HOUR, 1.0),
        (0.0, 250.0 * HOUR, 1.0),
        (48.0 * HOUR, 250.0 * HOUR, f64::INFINITY),
    ] {
        let mut host = make_host_with_settings(Settings { max_wait_behind, ..settings_with_age() });
        let ids = [1, 1].map(|nodes| submit(&mut host, nodes));
        host.now += waited;
        let later = submit(&mut host, 1);
        let names = crate::engine::answers::list_priority_term_names(&host.engine.view());
        assert_eq!(names, ["fairshare", "queue", "bank", "urgency", "age", "age_offset", "size"]);
        let page = crate::engine::answers::jobs_page(
            &host.engine.view(),
            &JobFilter { most: 9, ..JobFilter::default() },
            host.now,
        );
        assert!(
            page.weighings.iter().all(|weights| weights.len() == names.len() && weights[4] == weights[5])
        );
        let offsets: Vec<f64> = page
            .jobs
            .iter()
            .map(|job| {
                assert_eq!(job.values.len(), names.len());
                let expected = ((host.now - job.submitted.unwrap()) / AGE_MAX).min(most);
                assert!((job.values[4] - expected).abs() < 1e-9, "{waited}: {job:?}");
                let weights = &page.weighings[job.weighing.unwrap()];
                let sum: f64 =
                    job.values.iter().zip(weights).map(|(value, weight)| value * *weight as f64).sum();
                assert!((sum - job.sum.unwrap()).abs() < 1e-6, "{sum} {job:?}");
                assert_eq!(sum.round(), f64::from(job.priority.unwrap()));
                job.values[5]
            })
            .collect();
        assert_eq!(page.jobs.iter().map(|job| job.id).collect::<Vec<_>>(), [ids[0], ids[1], later]);
        if waited < AGE_MAX {
            let is_alike = |offset: &f64| (offset - offsets[0]).abs() < 1e-9;
            assert!(offsets.iter().all(is_alike), "all jobs share one reference: {offsets:?}");
        }
    }
}

/// The eventlog was read before other plugins released the job.
#[test]
fn an_eventlog_does_not_undo_a_later_change_of_the_block_state() {
    let mut host = make_host_with_settings(settings_with_age());
    let (job, name) = (HostJob::new(7).blocked_by("afterany:1"), "afterany:1");
    let facts = Host::facts(ID, &job);
    let past = [Past::Urgency(16), Past::Dependency(name.to_owned(), true), Past::Accepted];
    for (seconds, event) in [
        (0.0, Event::Created { id: ID, state: State::New, has_dependencies: true }),
        (0.0, Event::Validate(facts.clone())),
        (0.0, Event::Dependency { id: ID, name, added: true }),
        (0.0, Event::New(facts.clone())),
        (0.0, Event::Depend(ID)),
        (10.0, Event::Dependency { id: ID, name, added: false }),
    ] {
        host.engine.handle(NOW + seconds, event);
    }
    assert_eq!(eligible_time(&host, ID), Eligible::Since(NOW + 10.0));
    host.engine.handle(NOW + 11.0, Event::Past(ID, past.map(|what| (NOW, what)).into()));
    assert_eq!(eligible_time(&host, ID), Eligible::Since(NOW + 11.0));
}

/// A score of 0 gives priority 0, but only urgency 0 and other plugins stop the age of a job.
#[test]
fn a_job_with_score_0_ages_when_other_plugins_release_it() {
    let mut host = make_host_with_settings(settings_with_age());
    host.push_weights(vec![("fairshare".to_owned(), 0), ("age".to_owned(), 1)]);
    let (job, name) = (HostJob::new(7).blocked_by("afterany:1"), "afterany:1");
    let facts = Host::facts(ID, &job);
    for event in [
        Event::Created { id: ID, state: State::New, has_dependencies: true },
        Event::Validate(facts.clone()),
        Event::Dependency { id: ID, name, added: true },
        Event::New(facts.clone()),
        Event::Depend(ID),
        Event::Urgency(ID, 16),
    ] {
        host.engine.handle(NOW, event);
    }
    assert_eq!(host.engine.ledger().job(ID).unwrap().demand, crate::limits::Demand::Resting);
    host.engine.handle(NOW + 10.0, Event::Dependency { id: ID, name, added: false });
    assert_eq!(eligible_time(&host, ID), Eligible::Since(NOW + 10.0));
}
