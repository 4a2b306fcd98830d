// SPDX-License-Identifier: LGPL-3.0-only
//! Many jobs in PRIORITY without a price, as a restart leaves them: they go on in the order in which Flux lists those that pend.

use super::examples::{exact, submit};
use super::host::Host;
use super::site::{HostJob, NOW, association, record};
use crate::accounts::AssociationRecord;
use crate::engine::{Effect, Engine, Event, State, Timer};
use crate::ids::JobId;
use State::{Priority, Sched};

/// As many are priced in Flux's loop; and as many get their price in one turn where there are more.
const MANY: usize = 4;
const SLICE: usize = 3;

/// User 7 in A and B, with these fair-shares.
fn records(fairshares: [f64; 2]) -> Vec<AssociationRecord> {
    let of = |bank| record(association(7, bank), "A");
    [("A", fairshares[0]), ("B", fairshares[1])]
        .map(|(bank, fairshare)| AssociationRecord { fairshare, ..of(bank) })
        .into()
}

/// Jobs that a restart sent from SCHED to PRIORITY, where there are no data: the last ones urgent, and a bank in turn.
fn restarted(jobs: usize, fairshares: [f64; 2], weight: i64) -> (Host, Vec<JobId>) {
    let mut host = Host::new();
    let data = |host: &mut Host| {
        host.event(Event::Weights(vec![("fairshare".to_owned(), weight)]));
        host.event(Event::Associations(records(fairshares)));
    };
    data(&mut host);
    let ids: Vec<JobId> = (0..jobs)
        .map(|n| {
            let urgency = if n + 2 < jobs { 16 } else { 20 };
            host.submit(HostJob { urgency, ..HostJob::new(7).bank(["A", "B"][n % 2]) }).unwrap()
        })
        .collect();
    host.replay(false, Engine::small());
    assert!(ids.iter().all(|id| host.state(*id) == Some(Priority)));
    data(&mut host);
    host.gone_on.clear();
    (host, ids)
}

/// What Flux has by now, first who goes first.
fn listed(host: &Host, ids: &[JobId]) -> Vec<JobId> {
    let mut all = ids.to_vec();
    all.sort_by_key(|id| (std::cmp::Reverse(host.jobs[id].priority), *id));
    all
}

#[test]
fn many_go_on_in_the_order_in_which_flux_lists_them() {
    let (mut host, ids) = restarted(11, [0.2, 0.9], 100_000);
    host.event(Event::Reprioritize);
    assert!(ids.iter().all(|id| host.state(*id) == Some(Sched)));
    assert_eq!(host.gone_on, listed(&host, &ids));
    assert_eq!(host.loops, 1);
    exact(&host);
}

/// For those Flux begins its walk at the other end.
#[test]
fn of_prices_in_the_upper_half_the_least_comes_first() {
    let (mut host, ids) = restarted(11, [0.2, 0.9], i64::from(u32::MAX));
    host.event(Event::Reprioritize);
    let (mut high, low): (Vec<JobId>, Vec<JobId>) = listed(&host, &ids)
        .into_iter()
        .partition(|id| host.jobs[id].priority > Some(i64::from(u32::MAX / 2)));
    assert!(high.len() > 2 && low.len() > 2);
    high.reverse();
    assert_eq!(host.gone_on, [high, low].concat());
    exact(&host);
}

/// Few are priced by Flux's loop itself.
#[test]
fn few_go_on_at_once() {
    for (jobs, at_once) in [(MANY, true), (MANY + 1, false)] {
        let (mut host, ids) = restarted(jobs, [0.5, 0.5], 100_000);
        let effects = host.engine.handle(NOW, Event::Reprioritize);
        host.apply(effects);
        let gone = ids.iter().filter(|id| host.state(**id) == Some(Sched)).count();
        assert_eq!(gone, if at_once { jobs } else { 0 });
        host.settle();
        assert!(ids.iter().all(|id| host.state(*id) == Some(Sched)));
        exact(&host);
    }
}

/// Others are served between the turns; who ends, or gets its price otherwise, before its turn comes is passed over.
#[test]
fn a_turn_has_so_many_of_those_that_are_still_there() {
    let (mut host, ids) = restarted(4 * SLICE, [0.5, 0.5], 100_000);
    let effects = host.engine.handle(NOW, Event::Reprioritize);
    host.apply(effects);
    let asked = |host: &mut Host| -> Vec<JobId> {
        let effects = host.engine.handle(NOW, Event::Timer(Timer::Turn));
        let asked =
            effects.iter().filter_map(|it| if let Effect::AskUrgency(id) = it { Some(*id) } else { None });
        let asked: Vec<JobId> = asked.collect();
        let goes_on = effects.iter().any(|it| matches!(it, Effect::Arm(Timer::Turn)));
        host.apply(effects);
        assert_eq!(goes_on, asked.len() == SLICE && ids.iter().any(|id| host.state(*id) == Some(Priority)));
        asked
    };
    let order = [&ids[ids.len() - 2..], &ids[..ids.len() - 2]].concat();
    assert_eq!(asked(&mut host), order[..SLICE]);
    // Two of the next are gone.
    for at in [SLICE, SLICE + 2] {
        let effects = host.engine.handle(NOW, Event::Inactive(order[at]));
        host.jobs.remove(&order[at]);
        host.apply(effects);
    }
    let rest: Vec<JobId> = order[SLICE..].iter().copied().filter(|id| host.jobs.contains_key(id)).collect();
    assert_eq!(asked(&mut host), rest[..SLICE]);
    let late = submit(&mut host, 1);
    assert_eq!(host.state(late), Some(Sched));
    assert!(rest.iter().all(|id| host.state(*id) == Some(Sched)), "submit lets the reactor run");
    assert_eq!(asked(&mut host), []);
    exact(&host);
}
