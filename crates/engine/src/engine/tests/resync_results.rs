// SPDX-License-Identifier: LGPL-3.0-only
//! Results of the comparison with Flux after a panic, and jobs that cannot be compared.

use super::examples::{assert_no_drift, restart_without_data};
use super::host::Host;
use super::resync;
use super::site::{HostJob, NOW, association, make_record_with_one_job_limit, queue, record};
use crate::accounts::Association;
use crate::engine::{Effect, Event, Refusal, State, Timer};
use crate::ids::{JobId, Limit};

/// Returns a host with user 7 in banks A and B. In bank A, one job may be in SCHED.
fn make_site() -> Host {
    let one_association = Association { max_sched_jobs: Limit(1), ..association(7, "A") };
    Host::with_data(vec![record(one_association, "A"), record(association(7, "B"), "A")], vec![queue("q1")])
}

fn apply_effects_after_panic(host: &mut Host) {
    let effects = resync::report_panic_to_engine(host, None);
    host.apply_effects(effects);
}

/// Submits job 9999, and brings it to DEPEND within one reactor turn. Returns its id.
fn submit_and_move_to_depend(host: &mut Host, facts: HostJob) -> JobId {
    let late_job = JobId(9_999);
    host.jobs.insert(late_job, HostJob { state: State::Depend, ..facts.clone() });
    for event in [Event::New(Host::facts(late_job, &facts)), Event::Depend(late_job)] {
        let effects = host.engine.handle(NOW, event);
        host.apply_effects(effects);
    }
    late_job
}

/// The engine got no event when a job moved from bank A to bank B. So it holds a new job in bank A although there is
/// headroom.
#[test]
fn a_job_held_because_of_a_wrong_counter_is_released_after_the_comparison_with_flux() {
    let mut host = make_site();
    let moved_job = host.submit(HostJob::new(7).bank("A")).unwrap();
    host.jobs.get_mut(&moved_job).unwrap().bank = Some("B".to_owned());
    apply_effects_after_panic(&mut host);
    let late_job = submit_and_move_to_depend(&mut host, HostJob::new(7).bank("A"));
    assert_eq!(host.names(late_job), ["max-sched-jobs-user-limit"]);
    host.run_until_idle();
    assert_eq!(host.state(late_job), Some(State::Sched));
    assert_no_drift(&host);
}

/// A panic may lose the answer that contains the eventlog of a job. If Flux also refuses to look up the job, the engine
/// must request the job's eventlog again. Otherwise the engine would never scan the job's association.
#[test]
fn a_job_that_cannot_be_looked_up_has_its_eventlog_read_again() {
    let mut host = make_site();
    let jobs = [(); 2].map(|()| host.submit(HostJob::new(7).bank("A")).unwrap());
    host.never_answered = jobs.into();
    apply_effects_after_panic(&mut host);
    host.run_until_idle();
    let reads = |host: &mut Host, id| {
        let refused = Refusal::Other("out of memory".to_owned());
        let effects = host.engine.refused(Effect::LookUp(id), refused);
        effects.iter().any(|effect| matches!(effect, Effect::ReadEventlog(read) if *read == id))
    };
    assert!(!reads(&mut host, jobs[0]), "in SCHED, and no limit on running jobs is in reach");
    assert!(reads(&mut host, jobs[1]), "held by unknown dependencies");
}

/// The job is in PRIORITY, and its current priority equals the posted priority that Flux refused. So only a repeated post moves the job to
/// SCHED.
#[test]
fn a_refused_priority_is_posted_again() {
    let mut host = Host::with_data(vec![record(association(7, "A"), "A")], vec![queue("q1")]);
    let id = host.submit(HostJob::new(7)).unwrap();
    restart_without_data(&mut host, id);
    assert_eq!(host.state(id), Some(State::Priority));
    host.refuse_priorities = Some(Refusal::Other("out of memory".to_owned()));
    host.push(vec![record(association(7, "A"), "A")]);
    assert_eq!(host.state(id), Some(State::Priority));
    let effects = host.engine.handle(host.now, Event::Timer(Timer::Retry));
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Arm(Timer::ReactorTurn))));
    host.apply_effects(effects);
    host.run_until_idle();
    assert_eq!(host.state(id), Some(State::Priority), "Flux refuses the priority again");
    host.refuse_priorities = None;
    host.fire_retry_timer();
    assert_eq!(host.state(id), Some(State::Sched));
    assert_no_drift(&host);
    let effects = host.engine.handle(host.now, Event::Timer(Timer::Retry));
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Arm(Timer::ReactorTurn))), "{effects:?}");
}

/// A job is submitted during the comparison with Flux, so the comparison does not include this job. Then another job
/// ends, and frees headroom for the submitted job.
#[test]
fn a_job_submitted_during_the_comparison_with_flux_is_released_afterwards() {
    let mut host = Host::with_data(
        vec![make_record_with_one_job_limit(7, "A"), record(association(8, "A"), "A")],
        vec![queue("q1")],
    );
    let running_job = host.run_new_job(HostJob::new(7));
    (0..260).for_each(|_| drop(host.submit(HostJob::new(8))));
    apply_effects_after_panic(&mut host);
    let effects = host.engine.handle(NOW, Event::Timer(Timer::ReactorTurn));
    host.apply_effects(effects);
    assert!(host.engine.view().needs_comparison());
    let late_job = submit_and_move_to_depend(&mut host, HostJob::new(7));
    assert_eq!(host.names(late_job), ["max-running-jobs-user-limit"]);
    host.jobs.remove(&running_job);
    for event in [Event::Cleanup(running_job), Event::Inactive(running_job)] {
        let effects = host.engine.handle(NOW, event);
        host.apply_effects(effects);
    }
    host.run_until_idle();
    assert_eq!(host.state(late_job), Some(State::Sched));
    assert_no_drift(&host);
}
