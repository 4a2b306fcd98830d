// SPDX-License-Identifier: LGPL-3.0-only
//! The terms of age and size, event by event: since when a job counts, what has all prices asked for, what is read and shown.

use super::examples::{site, submit};
use super::host::Host;
use super::site::{HostJob, NOW, SITE_NODES, association, queue, record};
use crate::accounts::{Association, Policy, Queue};
use crate::engine::answers::JobsWanted;
use crate::engine::{Effect, Engine, Event, Past, Settings, State, Timer};
use crate::ids::{JobId, Limit};
use crate::limits::Eligible;
use crate::standing::SitePart;

const ID: JobId = JobId(1);
const HOUR: f64 = 3_600.0;
/// No job is older than this.
const MOST: f64 = 100.0 * HOUR;

fn settings() -> Settings {
    Settings { age_weight: 1_000, age_max: MOST, ..Settings::default() }
}

fn aged(settings: Settings) -> Host {
    let mut host = site(|_| ());
    host.event(Event::Settings(settings));
    host
}

fn count(effects: &[Effect], which: impl Fn(&Effect) -> bool) -> usize {
    effects.iter().filter(|effect| which(effect)).count()
}

fn asks_for_all(effects: &[Effect]) -> bool {
    count(effects, |effect| matches!(effect, Effect::ReprioritizeAll)) == 1
}

/// Whether settings have all prices asked for: in the next reactor turn, since Flux is telling its plugins of them.
fn has_all_asked(host: &mut Host, now: f64, settings: Settings) -> bool {
    let effects = host.engine.handle(now, Event::Settings(settings));
    assert!(!asks_for_all(&effects), "{effects:?}");
    asks_for_all(&host.engine.handle(now, Event::Timer(Timer::Turn)))
}

/// Jobs whose eventlog is asked for.
fn reads(effects: &[Effect]) -> Vec<JobId> {
    effects.iter().filter_map(|e| if let Effect::ReadEventlog(id) = e { Some(*id) } else { None }).collect()
}

fn eligible(host: &Host, id: JobId) -> Eligible {
    host.engine.ledger().job(id).unwrap().eligible
}

/// What a promise takes: all that other terms may differ by, and a point, within the time it names.
#[test]
fn a_promise_weighs_what_other_terms_may_differ_by() {
    for (weights, weight) in [
        ([0, 0, 0, 0], 3),
        ([100, 0, 0, 0], 211),
        // Queues from -3 to 5, banks from 2 to 7: none is at 0, where jobs without a queue are.
        ([0, 10, 0, 0], 169),
        ([0, -10, 0, 0], 169),
        ([0, 0, 10, 0], 148),
        ([0, 0, 0, 2], 123),
        ([100, 10, 10, 2], 644),
    ] {
        let mut host = aged(Settings { max_wait_behind: 48.0 * HOUR, age_max: MOST, ..Settings::default() });
        let of = |name: &str, priority| Queue { priority, ..queue(name) };
        host.event(Event::Queues(vec![of("q1", -3), of("q2", 5)]));
        host.event(Event::Banks(vec![("A".into(), 2.0), ("B".into(), 7.0)]));
        let given = ["fairshare", "queue", "bank", "urgency"].into_iter().zip(weights);
        host.event(Event::Weights(given.map(|(name, weight)| (name.to_owned(), weight)).collect()));
        assert_eq!(crate::engine::age::age_snapshot(&host.engine.view()).weight, weight, "{weights:?}");
    }
}

#[test]
fn nodes_of_the_site_are_asked_for_once_and_where_they_count() {
    let sized = |size_weight| Settings { size_weight, ..settings() };
    let asks = |engine: &mut Engine, settings| {
        let effects = engine.handle(NOW, Event::Settings(settings));
        count(&effects, |effect| matches!(effect, Effect::ReadSiteNodes))
    };
    let mut engine = site(|_| ()).engine;
    assert_eq!([0, 5].map(|weight| asks(&mut engine, sized(weight))), [0, 1]);
    let told = |engine: &mut Engine, nodes| asks_for_all(&engine.handle(NOW, Event::SiteNodes(Some(nodes))));
    assert_eq!([8, 8, 9].map(|nodes| told(&mut engine, nodes)), [true, false, true], "all prices are others");
    assert_eq!(asks(&mut engine, sized(6)), 0);
    engine.handle(NOW, Event::Settings(sized(0)));
    assert!(!told(&mut engine, 10), "they count nowhere");
}

#[test]
fn new_settings_of_ages_have_all_priced_anew_and_others_do_not() {
    let mut host = aged(settings());
    for (what, settings, asks) in [
        ("the cap", Settings { age_max: MOST / 2.0, ..settings() }, true),
        ("the weight", settings(), true),
        ("a note", Settings { annotate: true, ..settings() }, false),
        ("a size", Settings { size_weight: 1, ..settings() }, true),
        ("a promise", Settings { max_wait_behind: 1.0, size_weight: 1, ..settings() }, true),
    ] {
        assert_eq!(has_all_asked(&mut host, NOW, settings), asks, "{what}");
    }
}

/// Where fair-share is live, a refresh does that.
#[test]
fn where_a_refresh_is_to_come_ages_ask_for_nothing() {
    let mut host = super::live::live(fairshare::Policy::FairTree);
    assert!(!has_all_asked(&mut host, NOW, settings()));
}

#[test]
fn ages_are_looked_at_a_thousand_times_until_they_end_and_not_more_often_than_all_is() {
    for (age_weight, age_max, period) in
        [(1_000, MOST, 360.0), (1_000, 20_000.0, 30.0), (1_000, 30_500.0, 30.5), (0, MOST, 0.0)]
    {
        let host = aged(Settings { age_weight, age_max, ..Settings::default() });
        assert_eq!(crate::engine::age::age_period(&host.engine.view()), period, "{age_weight} {age_max}");
    }
}

/// The reference is reached after `MOST`; a job's own end of ages comes as long after it was submitted.
#[test]
fn time_alone_asks_for_prices_where_it_changes_one() {
    let young = |_: &mut Host| ();
    let capped = |host: &mut Host| host.jobs.get_mut(&ID).unwrap().submitted -= 2.0 * MOST;
    let kept = |host: &mut Host| {
        capped(host);
        host.jobs.get_mut(&ID).unwrap().state = State::Depend;
    };
    let running = |host: &mut Host| {
        capped(host);
        host.jobs.get_mut(&ID).unwrap().state = State::Run;
    };
    for (what, change, age_weight, after, asks) in [
        ("young", &young as &dyn Fn(&mut Host), 1_000, 1.0, false),
        ("young, and the reference is reached", &young, 1_000, 2.0 * MOST, true),
        ("without weight", &young, 0, 2.0 * MOST, false),
        ("at the cap", &capped, 1_000, 1.0, true),
        ("at the cap, without weight", &capped, 0, 1.0, false),
        ("at the cap, in DEPEND", &kept, 1_000, 1.0, false),
        ("at the cap, running", &running, 1_000, 1.0, false),
    ] {
        let mut host = aged(Settings { age_weight, ..settings() });
        submit(&mut host, 1);
        change(&mut host);
        let mut engine = site(|_| ()).engine;
        engine.handle(NOW, Event::Settings(Settings { age_weight, ..settings() }));
        engine.handle(NOW, Event::New(Host::facts(ID, &host.jobs[&ID])));
        engine.handle(NOW, Event::Timer(Timer::Turn));
        let effects = engine.handle(NOW + after, Event::Timer(Timer::Refresh));
        assert_eq!(asks_for_all(&effects), asks, "{what}");
    }
}

#[test]
fn a_reference_that_moves_is_news_where_ages_weigh_anything() {
    for (age_weight, after, is_news) in
        [(1_000, 0.0, false), (1_000, 2.0 * MOST, true), (0, 2.0 * MOST, false)]
    {
        let mut host = aged(Settings { age_weight, ..settings() });
        host.engine.handle(NOW + after, Event::Gone(JobId(9)));
        assert_eq!(host.engine.move_reference(), is_news, "{age_weight} {after}");
        assert!(!host.engine.move_reference(), "once");
    }
}

/// A job counts from its submission, not from when that is told; one that is held by its user, or kept, not yet.
#[test]
fn a_new_job_counts_from_its_submission() {
    for (what, urgency, is_kept, wanted) in [
        ("free", 16, false, Eligible::Since(NOW - 5.0)),
        ("held by its user", 0, false, Eligible::For(0.0)),
        ("kept by others", 16, true, Eligible::For(0.0)),
    ] {
        let mut host = aged(settings());
        let job = HostJob { urgency, submitted: NOW - 5.0, ..HostJob::new(7) };
        host.engine.handle(NOW, Event::Created { id: ID, state: State::New, has_dependencies: is_kept });
        host.engine.handle(NOW, Event::Validate(Host::facts(ID, &job)));
        if is_kept {
            host.engine.handle(NOW, Event::Dependency { id: ID, name: "keep=x", added: true });
        }
        host.engine.handle(NOW, Event::New(Host::facts(ID, &job)));
        assert_eq!(eligible(&host, ID), wanted, "{what}");
    }
}

/// One that turns out to be kept stops; one that is past DEPEND counts whoever was known to keep it.
#[test]
fn who_is_kept_does_not_count_until_it_has_left_depend() {
    let mut host = aged(settings());
    let job = HostJob::new(7);
    host.engine.handle(NOW, Event::Validate(Host::facts(ID, &job)));
    host.engine.handle(NOW, Event::New(Host::facts(ID, &job)));
    host.engine.handle(NOW, Event::Depend(ID));
    assert_eq!(eligible(&host, ID), Eligible::Since(NOW));
    host.engine.handle(NOW + 7.0, Event::Timer(Timer::Turn));
    assert_eq!(eligible(&host, ID), Eligible::For(7.0));
    host.engine.handle(NOW + 500.0, Event::Priority(ID, 16));
    assert_eq!(eligible(&host, ID), Eligible::Since(NOW + 493.0));
}

#[test]
fn what_counted_is_kept_while_nothing_counts() {
    let mut host = aged(settings());
    let id = submit(&mut host, 1);
    host.now += 10.0 * HOUR;
    host.set_urgency(id, 0);
    host.now += 20.0 * HOUR;
    host.engine.handle(host.now, Event::Gone(JobId(9)));
    let job = host.engine.ledger().job(id).unwrap();
    let reference = host.engine.ages().reference();
    let shown = host.engine.view().age(job) * MOST;
    assert!((shown - (reference - host.now + 10.0 * HOUR)).abs() < 1e-3, "{shown}");
}

/// Where ages come to count: of replayed jobs that pend, and as long as nothing else reads them.
#[test]
fn eventlogs_are_read_when_ages_come_to_count() {
    let all = [State::Depend, State::Priority, State::Sched, State::Run];
    let shown = |age_weight| {
        let mut engine = site(|_| ()).engine;
        engine.handle(NOW, Event::Settings(Settings { age_weight, ..settings() }));
        for (number, state) in all.into_iter().enumerate() {
            let job = HostJob { state, bank: Some("A".to_owned()), ..HostJob::new(7) };
            engine.handle(NOW, Event::New(Host::facts(JobId(number as u64 + 1), &job)));
        }
        engine
    };
    let seen = |age_weight| {
        let mut engine = shown(age_weight);
        engine.handle(NOW, Event::Timer(Timer::Turn));
        let job = HostJob::new(7);
        engine.handle(NOW, Event::Validate(Host::facts(JobId(9), &job)));
        engine.handle(NOW, Event::New(Host::facts(JobId(9), &job)));
        engine
    };
    let pending = [1, 2, 3].map(JobId).to_vec();
    for (what, mut engine, age_weight, wanted) in [
        ("they did not count, and do", seen(0), 7, pending),
        ("they counted before", seen(5), 7, Vec::new()),
        ("they count no more", seen(5), 0, Vec::new()),
        ("all are still being shown", shown(0), 7, Vec::new()),
    ] {
        let effects = engine.handle(NOW, Event::Settings(Settings { age_weight, ..settings() }));
        assert_eq!(reads(&effects), wanted, "{what}");
    }
    let mut engine = seen(0);
    let effects =
        engine.handle(NOW, Event::Settings(Settings { age_max: MOST / 2.0, age_weight: 0, ..settings() }));
    assert_eq!(reads(&effects), [], "nor do they afterwards");
}

/// So they are where a push brings the weight, as what is remembered of the last one does after each reload.
#[test]
fn eventlogs_are_read_when_a_push_has_ages_count() {
    let mut host = site(|_| ());
    let job = HostJob { state: State::Sched, ..HostJob::new(7) };
    host.engine.handle(NOW, Event::New(Host::facts(ID, &job)));
    host.engine.handle(NOW, Event::Timer(Timer::Turn));
    let push = |weight| Event::Weights(vec![("age".to_owned(), weight)]);
    assert_eq!(reads(&host.engine.handle(NOW, push(0))), []);
    assert_eq!(reads(&host.engine.handle(NOW, push(1_000))), [ID]);
    assert_eq!(reads(&host.engine.handle(NOW, push(2_000))), []);
}

/// What a policy that is given at load asks for is not carried out: nobody is there yet who could.
#[test]
fn what_a_load_asks_for_is_asked_for_when_settings_come_first() {
    let mut engine = Engine::small();
    let weights = ["age", "size"].map(|factor| (factor.to_owned(), 1_000)).to_vec();
    drop(engine.handle(NOW, Event::Policy(Policy { weights, ..Policy::default() }, SitePart::default())));
    let asks = |effects: &[Effect]| {
        let armed = |effect: &Effect| matches!(effect, Effect::ArmIn(Timer::Refresh, _));
        (count(effects, armed), count(effects, |effect| matches!(effect, Effect::ReadSiteNodes)))
    };
    for times in [(1, 1), (0, 0)] {
        let effects = engine.handle(NOW, Event::Settings(Settings::default()));
        assert_eq!(asks(&effects), times);
    }
}

/// Other settings move the reference on their way: prices that were made before follow.
#[test]
fn a_reference_that_moves_amid_settings_is_news() {
    let settings = Settings { age_weight: 1_000_000, age_max: 100.0, ..Settings::default() };
    let mut host = aged(settings.clone());
    let reference = host.engine.view().live_snapshot().ages.reference.unwrap();
    host.engine.handle(reference - 1.0, Event::Settings(Settings { remember: false, ..settings.clone() }));
    assert!(has_all_asked(&mut host, reference + 1.0, Settings { annotate: true, ..settings }));
    assert!(host.engine.view().live_snapshot().ages.reference.unwrap() > reference);
}

/// Names of ours and of others, as an eventlog has them.
#[test]
fn an_eventlog_tells_since_when_a_job_counts() {
    let own = |added| Past::Dependency("max-running-jobs-user-limit".to_owned(), added);
    let other = |added| Past::Dependency("afterany:1".to_owned(), added);
    let begins = [(0.0, Past::Urgency(16)), (1.0, Past::Accepted)];
    for (what, more, wanted) in [
        ("held by a limit", vec![(2.0, own(true)), (50.0, own(false))], Eligible::Since(NOW)),
        ("held by a limit now", vec![(2.0, own(true))], Eligible::Since(NOW)),
        ("kept by others", vec![(2.0, other(true)), (50.0, other(false))], Eligible::Since(NOW + 48.0)),
        ("kept by others now", vec![(2.0, other(true))], Eligible::For(2.0)),
        ("held by its user", vec![(5.0, Past::Urgency(0))], Eligible::For(5.0)),
    ] {
        let mut host = aged(settings());
        let id = submit(&mut host, 1);
        let past = begins.iter().cloned().chain(more).map(|(after, what)| (NOW + after, what)).collect();
        host.engine.handle(NOW + 100.0, Event::Past(id, past));
        assert_eq!(eligible(&host, id), wanted, "{what}");
    }
}

#[test]
fn who_has_a_price_is_priced_anew_when_its_past_is_read_and_ages_count() {
    for (age_weight, limit, asks) in [(1_000, 9, true), (0, 9, false), (1_000, 0, false), (0, 0, false)] {
        let limits = Association { max_sched_jobs: Limit(limit), ..association(7, "A") };
        let mut host = Host::with(vec![record(limits, "A")], Vec::new());
        host.event(Event::Settings(Settings { age_weight, ..settings() }));
        let id = submit(&mut host, 1);
        let past = vec![(NOW, Past::Urgency(16)), (NOW, Past::Accepted)];
        let effects = host.engine.handle(NOW, Event::Past(id, past));
        let asked = count(&effects, |effect| matches!(effect, Effect::AskUrgency(asked) if *asked == id));
        assert_eq!(asked == 1, asks, "weight {age_weight}, limit {limit}");
    }
}

#[test]
fn what_is_shown_of_ages() {
    let mut host = aged(settings());
    let plain = crate::engine::age::age_snapshot(&host.engine.view());
    assert_eq!((plain.promise, plain.site_nodes, plain.weight), (None, None, 1_000));
    // A thousand in a hundred hours.
    assert_eq!(plain.per_day, 240.0);
    host.event(Event::Settings(Settings { size_weight: 1, max_wait_behind: 40.0 * HOUR, ..settings() }));
    let submitted = [0.0, 20.0, 31.0].map(|hour| {
        host.now = NOW + hour * HOUR;
        submit(&mut host, 1)
    });
    host.now = NOW + 51.0 * HOUR;
    host.engine.handle(host.now, Event::Gone(JobId(9)));
    let shown = crate::engine::age::age_snapshot(&host.engine.view());
    assert_eq!((shown.promise, shown.site_nodes), (Some(40.0 * HOUR), Some(SITE_NODES)));
    let near: Vec<JobId> = shown.near.iter().map(|(id, _)| *id).collect();
    assert_eq!(
        (near, shown.near_total),
        (submitted[..2].to_vec(), 2),
        "three quarters of forty hours, or more"
    );
}

/// People are shown how old a job is; what the common reference adds to all ages is a term by itself.
#[test]
fn the_age_of_a_job_is_shown_as_it_is_and_terms_still_sum_to_its_priority() {
    for (max_wait_behind, waited, most) in [
        (0.0, 4.0, 1.0),
        (0.0, 10.0 * HOUR, 1.0),
        (0.0, 250.0 * HOUR, 1.0),
        (48.0 * HOUR, 250.0 * HOUR, f64::INFINITY),
    ] {
        let mut host = aged(Settings { max_wait_behind, ..settings() });
        let ids = [1, 1].map(|nodes| submit(&mut host, nodes));
        host.now += waited;
        let later = submit(&mut host, 1);
        let names = crate::engine::answers::term_names(&host.engine.view());
        assert_eq!(names, ["fairshare", "queue", "bank", "urgency", "age", "age_offset", "size"]);
        let page = crate::engine::answers::jobs_page(
            &host.engine.view(),
            &JobsWanted { most: 9, ..JobsWanted::default() },
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
                let expected = ((host.now - job.submitted.unwrap()) / MOST).min(most);
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
        if waited < MOST {
            let is_alike = |offset: &f64| (offset - offsets[0]).abs() < 1e-9;
            assert!(offsets.iter().all(is_alike), "one reference: {offsets:?}");
        }
    }
}
