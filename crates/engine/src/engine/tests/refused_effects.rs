// SPDX-License-Identifier: LGPL-3.0-only
//! Effects that Flux refuses, and a job that ends between its allocation and its start. A test outside the broker cannot cause these cases.
//! Rules: R18

use super::host::Host;
use super::live::{accounts, leaves, make_host_with_live_fairshare, tree};
use super::site::{HostJob, NOW, association, queue, record};
use crate::accounts::Association;
use crate::engine::{Effect, Engine, Event, Level, Refusal, State, Step, answers};
use crate::ids::{JobId, Limit};
use crate::limits::{HoldName, RULES};
use fairshare::Policy;

/// Returns a host with a job in SCHED and a job that is held, because `max_sched_jobs` is 1.
fn submit_scheduled_and_held() -> (Host, JobId, JobId) {
    let one_association = Association { max_sched_jobs: Limit(1), ..association(7, "A") };
    let mut host = Host::with_data(vec![record(one_association, "A")], vec![queue("q1")]);
    let [first, held_job] = [(); 2].map(|()| host.submit(HostJob::new(7)).unwrap());
    assert_eq!(host.names(held_job), ["max-sched-jobs-user-limit"]);
    (host, first, held_job)
}

fn send_refusal_to_engine(engine: &mut Engine, effect: Effect, why: Refusal) -> Vec<Effect> {
    engine.refused(effect, why)
}

/// Returns the job and the name of the first removal of a dependency, or `None` if `effects` has no removal.
fn find_removal(effects: &[Effect]) -> Option<(JobId, HoldName)> {
    effects.iter().find_map(|effect| match effect {
        Effect::RemoveDependency(id, name) => Some((*id, *name)),
        _ => None,
    })
}

fn outstanding_names(engine: &Engine, id: JobId) -> Vec<String> {
    engine.ledger().job(id).unwrap().names.iter(RULES).map(|name| name.to_string()).collect()
}

#[test]
fn flaw_25_a_dependency_that_flux_refuses_is_logged_and_holds_nothing() {
    let (mut host, _, held) = submit_scheduled_and_held();
    let name = RULES.parse("max-sched-jobs-user-limit").unwrap();
    let why = Refusal::Other("out of memory".to_owned());
    let outcome = send_refusal_to_engine(&mut host.engine, Effect::AddDependency(held, name), why);
    let [Effect::Log(Level::Error, text)] = outcome.as_slice() else { panic!("{outcome:?}") };
    assert_eq!(
        *text,
        format!("job {held}: failed to add dependency max-sched-jobs-user-limit: out of memory")
    );
    assert_eq!(
        outstanding_names(&host.engine, held),
        Vec::<String>::new(),
        "Flux does not hold the job by this name"
    );
    assert_eq!(answers::check(&host.engine.view()).drift, []);
}

#[test]
fn flaw_25_a_dependency_that_flux_fails_to_remove_still_holds_jobs() {
    let (mut host, first, held) = submit_scheduled_and_held();
    let effects = host.engine.handle(NOW, Event::Inactive(first));
    let Some((id, name)) = find_removal(&effects) else { panic!("no removal") };
    assert_eq!((id, name.to_string().as_str()), (held, "max-sched-jobs-user-limit"));
    let why = Refusal::Other("out of memory".to_owned());
    let outcome = send_refusal_to_engine(&mut host.engine, Effect::RemoveDependency(id, name), why);
    let [Effect::Log(Level::Error, text)] = outcome.as_slice() else { panic!("{outcome:?}") };
    assert!(text.contains("failed to remove dependency max-sched-jobs-user-limit: out of memory"), "{text}");
    assert_eq!(outstanding_names(&host.engine, held), ["max-sched-jobs-user-limit"]);
    assert_eq!(answers::check(&host.engine.view()).drift, []);
    assert!(host.engine.ledger().job(held).unwrap().footprint().is_idle());
    // The job has no reservation. The scan continues with other jobs, and the next scan tries to release the job again.
    let steps = effects
        .into_iter()
        .filter_map(|effect| if let Effect::Then(step) = effect { Some(step) } else { None });
    for step in steps {
        let effects = host.engine.execute_step(step);
        assert_eq!(find_removal(&effects), None, "a scan tries once");
        host.apply_effects(effects);
    }
    assert_eq!(find_removal(&host.engine.execute_step(Step::ScanAllHeld)), Some((held, name)));
}

#[test]
fn flaw_25_a_dependency_that_is_gone_already_is_no_error() {
    for why in [Refusal::Absent, Refusal::TooLate] {
        let (mut host, first, held) = submit_scheduled_and_held();
        let (id, name) = find_removal(&host.engine.handle(NOW, Event::Inactive(first))).unwrap();
        let outcome = send_refusal_to_engine(&mut host.engine, Effect::RemoveDependency(id, name), why);
        assert!(outcome.is_empty(), "{outcome:?}");
        assert_eq!(outstanding_names(&host.engine, held), Vec::<String>::new());
    }
}

#[test]
fn flaw_54_a_job_cancelled_between_alloc_and_run_counts_under_no_limit() {
    let (mut host, first_job, held_job) = submit_scheduled_and_held();
    // The job is cancelled before the allocation arrives, so the plugin gets no RUN event.
    host.engine.handle(NOW, Event::Priority(first_job, 16));
    host.end_job(first_job);
    assert_eq!(host.state(held_job), Some(State::Sched), "the first job's headroom is free, once");
    assert_eq!(host.count_jobs(7, "A", State::Sched), 1);
    host.start_job(held_job);
    host.end_job(held_job);
    assert_eq!(answers::check(&host.engine.view()).drift, []);
    let association = host.engine.book().find(crate::ids::UserId(7), None).unwrap();
    assert_eq!(host.engine.ledger().accounts().usage(association).active_jobs, 0);
}

/// Returns the number of pending jobs whose priority is stale.
fn count_stale(host: &Host) -> usize {
    host.jobs
        .iter()
        .filter(|(_, job)| job.state == State::Sched)
        .filter(|(id, job)| {
            job.priority
                != host
                    .engine
                    .view()
                    .priorities_of(**id)
                    .map(|priorities| i64::from(priorities.exact.priority))
        })
        .count()
}

/// No usage changes before the second refresh. The second refresh must repeat the request for all priorities that
/// Flux refused at the first refresh.
#[test]
fn a_refresh_repeats_the_reprioritization_refused_at_the_previous_refresh() {
    let mut host = make_host_with_live_fairshare(Policy::Classic);
    host.engine.batches.posted = 100_000;
    let running_job = host.submit(HostJob::new(7).bank("A")).unwrap();
    for user in [7, 7, 8].iter().cycle().take(900) {
        host.submit(HostJob::new(*user).bank("A")).unwrap();
    }
    host.start_job(running_job);
    host.engine.post_stale();
    host.now += 30.0;
    host.end_job(running_job);
    host.refuse_loops = Some(Refusal::Other("out of memory".to_owned()));
    let loops = host.loops;
    host.advance_time_and_refresh(30.0);
    assert!(host.logged.iter().any(|text| text.contains("failed to reprioritize: out of memory")));
    assert!(host.loops == loops && count_stale(&host) > 300, "{}", count_stale(&host));
    let outcome = host.engine.view().get_live_fairshare_details().last.unwrap();
    assert_eq!(
        (outcome.touched, outcome.lagging, outcome.right_to),
        (0, count_stale(&host), Some(0)),
        "nothing was posted"
    );
    host.refuse_loops = None;
    host.advance_time_and_refresh(30.0);
    assert_eq!((host.loops - loops, count_stale(&host)), (1, 0));
    host.advance_time_and_refresh(30.0);
    assert_eq!(host.loops - loops, 1, "the loop runs once");
}

/// The push changed no priority. It still needs the loop, in which Flux asks for the priorities of jobs that have none.
#[test]
fn a_refresh_repeats_the_reprioritization_refused_at_the_previous_push() {
    let mut host = make_host_with_live_fairshare(Policy::Classic);
    host.submit(HostJob::new(7).bank("A")).unwrap();
    host.refuse_loops = Some(Refusal::Other("out of memory".to_owned()));
    let loops = host.loops;
    host.send_event(Event::Policy(accounts(), tree(Policy::Classic, NOW, leaves())));
    host.refuse_loops = None;
    for _ in 0..2 {
        host.advance_time_and_refresh(30.0);
        assert_eq!(host.loops - loops, 1);
    }
}

#[test]
fn a_fair_share_memo_that_flux_refused_is_sent_again() {
    let (mut host, first, _) = submit_scheduled_and_held();
    let before = host.jobs[&first].memos.len();
    host.send_event(Event::Reprioritize);
    assert_eq!(host.jobs[&first].memos.len(), before, "the fair-share did not change");
    send_refusal_to_engine(
        &mut host.engine,
        Effect::Memo(first, 0.5),
        Refusal::Other("no memory".to_owned()),
    );
    host.send_event(Event::Reprioritize);
    assert_eq!(host.jobs[&first].memos.len(), before + 1);
}

#[test]
fn a_refused_subscription_is_not_cancelled() {
    let mut host = Host::with_data(vec![record(association(7, "A"), "A")], vec![]);
    let id = JobId(77);
    let asked = host.engine.handle(NOW, Event::Created { id, state: State::New, has_dependencies: true });
    assert!(matches!(asked.as_slice(), [Effect::Subscribe(of)] if *of == id), "{asked:?}");
    send_refusal_to_engine(&mut host.engine, Effect::Subscribe(id), Refusal::Absent);
    let effects = host.engine.handle(NOW, Event::Inactive(id));
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Unsubscribe(_))), "{effects:?}");
}
