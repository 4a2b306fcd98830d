// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of answers about one association: the use of its limits, the positions of its held jobs, and the jobs that
//! compete with a job for headroom.

use super::*;
use crate::ids::{Measure, Stage};
use proptest::prelude::*;

/// One job runs, one job is in SCHED, one job is released and has reservations, and one job is held.
#[test]
fn the_use_of_a_limit_includes_reservations() {
    let mut book = make_book_with_running_limit(5);
    let id = book.find(UserId(1), None).unwrap();
    let mut association = book.association(id).unwrap().clone();
    (association.max_nodes, association.max_sched_jobs) = (Limit(9), Limit(7));
    book.upsert(vec![AssociationRecord { association, fairshare: 0.5, def_bank: "A".into() }], UserId(0));
    let mut ledger = Ledger::new(RULES);
    ledger.insert(JobId(1), make_job(&book, Phase::Run));
    ledger.insert(JobId(2), make_job(&book, Phase::Sched));
    ledger.insert(JobId(3), Job { reservation: Reservation::Given, ..make_job(&book, Phase::Priority) });
    ledger.insert(JobId(4), make_held_job(&book));
    let limits_in_records = Limits::new(&ledger, &book).limits_in_records(id, None);
    let found: Vec<_> = limits_in_records
        .iter()
        .filter(|it| !it.limit.is_unlimited())
        .map(|it| (it.hold.name(), it.amount.stage, it.amount.measure, (it.used, it.reserved, it.limit.0)))
        .collect();
    assert_eq!(
        found,
        [
            ("max-running-jobs-user-limit", Stage::Running, Measure::Jobs, (2, 1, 5)),
            ("max-sched-jobs-user-limit", Stage::Scheduled, Measure::Jobs, (2, 1, 7)),
            ("max-resources-user-limit", Stage::Running, Measure::Nodes, (4, 2, 9)),
        ]
    );
    let needed = limits_in_records.iter().map(|it| (it.needed, it.count_fitting_jobs()));
    assert!(needed.into_iter().all(|it| it == (0, u64::MAX)), "no job asks");
    assert_eq!([id, AssociationId::from_index(1).unwrap()].map(|id| ledger.accounts.held_count(id)), [1, 0]);
}

/// The unread eventlog may show that there is no headroom.
#[test]
fn a_partial_ledger_copy_releases_no_job_while_an_eventlog_is_unread() {
    let book = make_book_with_running_limit(5);
    let id = book.find(UserId(1), None).unwrap();
    for (knowledge, released) in [(Knowledge::Known, vec![JobId(2)]), (Knowledge::Unread, Vec::new())] {
        let mut ledger = Ledger::new(RULES);
        ledger.insert(JobId(1), Job { knowledge, ..make_job(&book, Phase::Sched) });
        ledger.insert(JobId(2), make_held_job(&book));
        let mut excerpt = ledger.excerpt(id, [JobId(2)].into_iter());
        assert_eq!(ScanCursor::release_fitting_jobs(&mut excerpt, &book, id).0, released, "{knowledge:?}");
    }
}

/// Jobs that another plugin blocks come last, in whichever queue they are. Otherwise the lower id comes first.
#[test]
fn held_jobs_that_are_not_blocked_come_first_and_then_lower_ids() {
    let book = make_book_with_running_limit(0);
    let mut ledger = Ledger::new(RULES);
    let other_queue = || Some("other".into());
    for (id, block_state, queue) in [
        (1, BlockState::Blocked, None),
        (2, BlockState::Unblocked, None),
        (3, BlockState::Unblocked, other_queue()),
        (4, BlockState::Blocked, other_queue()),
        (5, BlockState::Unblocked, None),
    ] {
        ledger.insert(JobId(id), Job { block_state, queue, ..make_held_job(&book) });
    }
    ledger.insert(JobId(6), make_job(&book, Phase::Sched));
    let find_place = |id| {
        ledger
            .accounts
            .find_position_of_held_job(JobId(id), ledger.job(JobId(id))?)
            .map(|at| (at.place, at.of))
    };
    let wanted = [(1, 4), (2, 1), (3, 2), (4, 5), (5, 3)].map(|(id, place)| (id, Some((place, 5))));
    assert_eq!([1, 2, 3, 4, 5].map(|id| (id, find_place(id))), wanted);
    assert_eq!(find_place(6), None, "a job in SCHED has no place");
}

/// A generated held job.
#[derive(Clone, Debug)]
struct HeldJob {
    is_blocked: bool,
    is_in_other_queue: bool,
    nodes: u64,
    cores: u64,
}

fn any_held_job() -> impl Strategy<Value = HeldJob> {
    (any::<bool>(), any::<bool>(), 1..4u64, 1..4u64).prop_map(
        |(is_blocked, is_in_other_queue, nodes, cores)| HeldJob {
            is_blocked,
            is_in_other_queue,
            nodes,
            cores,
        },
    )
}

proptest! {
    /// All earlier jobs compete with a job. Later jobs compete if they request less or belong to another class. A
    /// blocked job does not compete with an unblocked job.
    #[test]
    fn competitors_of_a_job_are_all_jobs_that_may_be_released_first(all in prop::collection::vec(any_held_job(), 1..20), at in 0..20usize, most in 0..20usize) {
        let book = make_book_with_running_limit(0);
        let at = at % all.len();
        let mut ledger = Ledger::new(RULES);
        for (id, it) in all.iter().enumerate() {
            let block_state = if it.is_blocked { BlockState::Blocked } else { BlockState::Unblocked };
            let size = Size::new(it.nodes, it.cores, 0);
            let queue = it.is_in_other_queue.then(|| "other".into());
            ledger.insert(JobId(id as u64), Job { block_state, size, queue, ..make_held_job(&book) });
        }
        let job = &all[at];
        let is_rival = |id: usize, it: &HeldJob| {
            let is_same_class =
                (it.is_blocked, it.is_in_other_queue) == (job.is_blocked, job.is_in_other_queue);
            id != at
                && (!it.is_blocked || job.is_blocked)
                && (id < at || !is_same_class || it.nodes < job.nodes || it.cores < job.cores)
        };
        let mut wanted: Vec<u64> =
            all.iter().enumerate().filter(|(id, it)| is_rival(*id, it)).map(|(id, _)| id as u64).collect();
        wanted.sort_unstable();
        let found = ledger.rivals(JobId(at as u64), most).map(|rivals| {
            let mut rivals: Vec<u64> = rivals.into_iter().map(|id| id.0).collect();
            rivals.sort_unstable();
            rivals
        });
        prop_assert_eq!(found, (wanted.len() <= most).then_some(wanted));
    }
}
