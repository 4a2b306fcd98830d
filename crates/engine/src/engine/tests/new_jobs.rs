// SPDX-License-Identifier: LGPL-3.0-only
//! New jobs: the jobspec keys that the plugin sets, the facts that the engine stores, and the facts that an update changes.

use super::examples::make_site;
use super::host::Host;
use super::site::{HostJob, NOW, association, record};
use crate::engine::{Effect, Event, JobFacts, State, Timer};
use crate::ids::{JobId, Limit};
use crate::limits::Admission;

const ID: JobId = JobId(1);

fn make_job(bank: Option<&str>, project: Option<&str>) -> HostJob {
    HostJob { bank: bank.map(str::to_owned), project: project.map(str::to_owned), ..HostJob::new(7) }
}

#[test]
fn the_plugin_sets_exactly_the_keys_that_a_jobspec_lacks() {
    for (bank, project, wanted) in [
        (None, None, Some((true, true))),
        (Some("A"), None, Some((false, true))),
        (None, Some("*"), Some((true, false))),
        (Some("A"), Some("*"), None),
    ] {
        let mut host = make_site(|_| ());
        let job = make_job(bank, project);
        host.engine.handle(NOW, Event::Validate(Host::facts(ID, &job)));
        let effects = host.engine.handle(NOW, Event::New(Host::facts(ID, &job)));
        let posted = effects.iter().find_map(|effect| match effect {
            Effect::SetJobspec { bank, project, .. } => Some((bank.is_some(), project.is_some())),
            _ => None,
        });
        assert_eq!(posted, wanted, "{bank:?} {project:?}");
    }
}

/// If a new job without dependencies of ours is still in DEPEND in the next turn, another plugin blocks the job. The
/// engine need not check this for a job that is held or known to be blocked.
#[test]
fn only_jobs_without_dependencies_are_checked_again_in_the_next_reactor_turn() {
    for (limit, is_blocked, arms_turn) in
        [(9, false, true), (9, true, false), (0, false, false), (0, true, false)]
    {
        let mut host = make_site(|a| a.max_sched_jobs = Limit(limit));
        let job = make_job(Some("A"), Some("*"));
        host.engine.handle(NOW, Event::Created { id: ID, state: State::New, has_dependencies: is_blocked });
        host.engine.handle(NOW, Event::Validate(Host::facts(ID, &job)));
        if is_blocked {
            host.engine.handle(NOW, Event::Dependency { id: ID, name: "keep=x", added: true });
        }
        host.engine.handle(NOW, Event::New(Host::facts(ID, &job)));
        let effects = host.engine.handle(NOW, Event::Depend(ID));
        let is_armed = effects.iter().any(|effect| matches!(effect, Effect::Arm(Timer::ReactorTurn)));
        assert_eq!(is_armed, arms_turn, "limit {limit}, blocked {is_blocked}");
    }
}

#[test]
fn a_replayed_job_joins_its_association_without_the_checks_of_a_submission() {
    for is_submitted in [true, false] {
        let mut host = make_site(|_| ());
        let state = if is_submitted { State::New } else { State::Sched };
        let job = HostJob { state, ..make_job(Some("A"), Some("*")) };
        if is_submitted {
            host.engine.handle(NOW, Event::Validate(Host::facts(ID, &job)));
        }
        host.engine.handle(NOW, Event::New(Host::facts(ID, &job)));
        let admission = host.engine.ledger().job(ID).unwrap().admission;
        assert_eq!(matches!(admission, Admission::Admitted(_)), is_submitted);
        assert_eq!(matches!(admission, Admission::Attached(_)), !is_submitted);
    }
}

#[test]
fn a_job_whose_size_cannot_be_counted_is_logged() {
    let mut host = make_site(|_| ());
    let job = HostJob { state: State::Sched, ..make_job(Some("A"), Some("*")) };
    let facts = JobFacts {
        size: Err("resources exceed 1099511627776 nodes, cores or GPUs".to_owned()),
        ..Host::facts(ID, &job)
    };
    let effects = host.engine.handle(NOW, Event::New(facts));
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Log(..))), "{effects:?}");
}

/// Flux counts a new duration from the start of the job. If the duration does not change, the job's end must not change
/// either, because the scheduler may have set an earlier end.
#[test]
fn a_new_duration_of_a_running_job_changes_its_end() {
    for (duration, after) in [(3_600.0, Some(100.0)), (50.0, Some(50.0)), (0.0, None)] {
        let mut host = Host::with_data(vec![record(association(7, "A"), "A")], Vec::new());
        let id = host.run_new_job(HostJob { limit: Some(100.0), ..HostJob::new(7) });
        let start = host.jobs[&id].started.unwrap();
        let updated = HostJob { duration, ..host.jobs[&id].clone() };
        host.engine.handle(NOW, Event::Updated(Host::facts(id, &updated)));
        let ends = host.engine.ledger().job(id).unwrap().latest_end();
        assert_eq!(ends, after.map(|after| start + after), "{duration}");
    }
}

/// When a counted job ends, the ledger subtracts the size that it added before. So an update must not change the stored
/// size of a counted job.
#[test]
fn a_new_size_is_stored_until_the_job_is_counted() {
    for (state, is_stored) in [(State::Depend, true), (State::Sched, false)] {
        let mut host = make_site(|_| ());
        let job = HostJob::new(7);
        let id = host.submit(if is_stored { job.blocked_by("afterany:1") } else { job }).unwrap();
        assert_eq!(host.state(id), Some(state));
        let updated = host.jobs[&id].clone().size(5, 6);
        host.engine.handle(NOW, Event::Updated(Host::facts(id, &updated)));
        let size = host.engine.ledger().job(id).unwrap().size;
        assert_eq!((size.nodes, size.cores), if is_stored { (5, 6) } else { (1, 1) });
    }
}

/// flux-accounting's test suite marks an association as broken with the limit -1.
#[test]
fn a_job_of_an_association_with_limit_minus_1_fails_in_depend() {
    for (limit, fails) in [(-1, true), (1, false)] {
        let mut host = make_site(|a| a.max_running_jobs = Limit(limit));
        let job = make_job(Some("A"), Some("*"));
        host.engine.handle(NOW, Event::Validate(Host::facts(ID, &job)));
        host.engine.handle(NOW, Event::New(Host::facts(ID, &job)));
        let effects = host.engine.handle(NOW, Event::Depend(ID));
        assert_eq!(effects.iter().any(|effect| matches!(effect, Effect::Raise(..))), fails);
    }
}
