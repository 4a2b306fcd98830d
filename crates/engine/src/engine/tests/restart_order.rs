// SPDX-License-Identifier: LGPL-3.0-only
//! After a restart, many jobs are in PRIORITY without a priority. They must go to SCHED in the order of Flux's list of pending jobs, because
//! Flux searches that list for the place of each job.

use super::examples::{assert_no_drift, submit};
use super::host::Host;
use super::site::{HostJob, NOW, association, record};
use crate::accounts::AssociationRecord;
use crate::engine::{Effect, Engine, Event, State, Timer};
use crate::ids::JobId;
use State::{Priority, Sched};

/// The largest number of jobs that get their priorities in Flux's loop. If more jobs need a priority, the engine
/// posts `SLICE` priorities in each reactor turn.
const MAX_IN_LOOP: usize = 4;
const SLICE: usize = 3;

/// Returns the records of user 7 in banks A and B.
fn make_records(fairshares: [f64; 2]) -> Vec<AssociationRecord> {
    [("A", fairshares[0]), ("B", fairshares[1])]
        .map(|(bank, fairshare)| AssociationRecord { fairshare, ..record(association(7, bank), "A") })
        .into()
}

/// Submits jobs in alternating banks, the last two at urgency 20, and restarts the job manager without data. Then pushes the data. All jobs
/// are in PRIORITY.
fn restart_and_push(jobs: usize, fairshares: [f64; 2], weight: i64) -> (Host, Vec<JobId>) {
    let mut host = Host::new();
    let data = |host: &mut Host| {
        host.send_event(Event::Weights(vec![("fairshare".to_owned(), weight)]));
        host.send_event(Event::Associations(make_records(fairshares)));
    };
    data(&mut host);
    let ids: Vec<JobId> = (0..jobs)
        .map(|n| {
            let urgency = if n + 2 < jobs { 16 } else { 20 };
            host.submit(HostJob { urgency, ..HostJob::new(7).bank(["A", "B"][n % 2]) }).unwrap()
        })
        .collect();
    host.replay_jobs(false, Engine::with_small_batches());
    assert!(ids.iter().all(|id| host.state(*id) == Some(Priority)));
    data(&mut host);
    host.moved_to_sched.clear();
    (host, ids)
}

/// Returns the jobs in the order of Flux's list of pending jobs.
fn sort_by_priority_and_id(host: &Host, ids: &[JobId]) -> Vec<JobId> {
    let mut all = ids.to_vec();
    all.sort_by_key(|id| (std::cmp::Reverse(host.jobs[id].priority), *id));
    all
}

#[test]
fn many_jobs_get_their_priorities_in_the_order_of_flux_s_list() {
    let (mut host, ids) = restart_and_push(11, [0.2, 0.9], 100_000);
    host.send_event(Event::Reprioritize);
    assert!(ids.iter().all(|id| host.state(*id) == Some(Sched)));
    assert_eq!(host.moved_to_sched, sort_by_priority_and_id(&host, &ids));
    assert_eq!(host.loops, 1);
    assert_no_drift(&host);
}

/// For priorities in the upper half of the range, Flux searches its list of pending jobs from the beginning.
#[test]
fn flux_gets_high_priorities_in_ascending_order_after_a_restart() {
    let (mut host, ids) = restart_and_push(11, [0.2, 0.9], i64::from(u32::MAX));
    host.send_event(Event::Reprioritize);
    let (mut high, low): (Vec<JobId>, Vec<JobId>) = sort_by_priority_and_id(&host, &ids)
        .into_iter()
        .partition(|id| host.jobs[id].priority > Some(i64::from(u32::MAX / 2)));
    assert!(high.len() > 2 && low.len() > 2);
    high.reverse();
    assert_eq!(host.moved_to_sched, [high, low].concat());
    assert_no_drift(&host);
}

#[test]
fn few_jobs_without_a_priority_get_it_within_fluxs_reprioritization() {
    for (jobs, at_once) in [(MAX_IN_LOOP, true), (MAX_IN_LOOP + 1, false)] {
        let (mut host, ids) = restart_and_push(jobs, [0.5, 0.5], 100_000);
        let effects = host.engine.handle(NOW, Event::Reprioritize);
        host.apply_effects(effects);
        let scheduled = ids.iter().filter(|id| host.state(**id) == Some(Sched)).count();
        assert_eq!(scheduled, if at_once { jobs } else { 0 });
        host.run_until_idle();
        assert!(ids.iter().all(|id| host.state(*id) == Some(Sched)));
        assert_no_drift(&host);
    }
}

/// Between the turns Flux serves other requests. The engine must skip jobs that have ended or have a priority by then.
#[test]
fn each_reactor_turn_sets_the_priorities_of_some_jobs_without_a_priority() {
    let (mut host, ids) = restart_and_push(4 * SLICE, [0.5, 0.5], 100_000);
    let effects = host.engine.handle(NOW, Event::Reprioritize);
    host.apply_effects(effects);
    let asked = |host: &mut Host| -> Vec<JobId> {
        let effects = host.engine.handle(NOW, Event::Timer(Timer::ReactorTurn));
        let asked =
            effects.iter().filter_map(|it| if let Effect::AskUrgency(id) = it { Some(*id) } else { None });
        let asked: Vec<JobId> = asked.collect();
        let goes_on = effects.iter().any(|it| matches!(it, Effect::Arm(Timer::ReactorTurn)));
        host.apply_effects(effects);
        assert_eq!(goes_on, asked.len() == SLICE && ids.iter().any(|id| host.state(*id) == Some(Priority)));
        asked
    };
    let order = [&ids[ids.len() - 2..], &ids[..ids.len() - 2]].concat();
    assert_eq!(asked(&mut host), order[..SLICE]);
    // Two jobs end before they get a priority.
    for at in [SLICE, SLICE + 2] {
        let effects = host.engine.handle(NOW, Event::Inactive(order[at]));
        host.jobs.remove(&order[at]);
        host.apply_effects(effects);
    }
    let rest: Vec<JobId> = order[SLICE..].iter().copied().filter(|id| host.jobs.contains_key(id)).collect();
    assert_eq!(asked(&mut host), rest[..SLICE]);
    let late_job = submit(&mut host, 1);
    assert_eq!(host.state(late_job), Some(Sched));
    assert!(
        rest.iter().all(|id| host.state(*id) == Some(Sched)),
        "`submit` runs the reactor until it is idle"
    );
    assert_eq!(asked(&mut host), []);
    assert_no_drift(&host);
}
