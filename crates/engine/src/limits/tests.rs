// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of the ledger: the footprints of jobs, the counters, and the order in which release scans release held jobs.

mod excerpts;
mod scans;
mod scopes;
mod sets;

use super::ledger::Account;
use super::*;
use crate::accounts::{Association, AssociationRecord, RunningLimits};
use crate::accounts::{AssociationId, Book};
use crate::engine::tests::site::association;
use crate::ids::{JobId, Limit, UserId};
use std::collections::BTreeSet;

fn make_book_with_running_limit(max_running_jobs: i64) -> Book {
    let association = Association { max_running_jobs: Limit(max_running_jobs), ..association(1, "A") };
    let mut book = Book::default();
    book.upsert(vec![AssociationRecord { association, fairshare: 0.5, def_bank: "A".into() }], UserId(0));
    book
}

fn make_job(book: &Book, phase: Phase) -> Job {
    Job {
        user: UserId(1),
        submitted: None,
        admission: Admission::Admitted(book.find(UserId(1), None).unwrap()),
        bank: None,
        queue: Some("q".into()),
        urgency: 16,
        project: Project::Missing,
        block_state: BlockState::Unblocked,
        allocation: None,
        size: Size::new(2, 8, 1),
        elapsed_ms: 0,
        phase,
        origin: Origin::Submitted,
        names: HoldNames::default(),
        reservation: Reservation::None,
        running: RunningLimits::Upstream,
        demand: Demand::ToRun,
        knowledge: Knowledge::Known,
        is_in_sched: false,
        is_queue_stopped: false,
        memo: None,
        eligible: Eligible::For(0.0),
    }
}

fn make_held_job(book: &Book) -> Job {
    let mut job = make_job(book, Phase::Depend);
    job.names.add_all(RULES, RULES.select_limits(Rule::is_limit_on_running_jobs));
    job
}

#[test]
fn the_phase_and_reservation_of_a_job_determine_its_counter_amounts() {
    let book = make_book_with_running_limit(1);
    use Reservation::{Blocked, Given, None};
    for (phase, reservation, charged, reserved) in [
        (Phase::New, None, (0, 0), (0, 0)),
        (Phase::Depend, None, (0, 0), (0, 0)),
        (Phase::Depend, Given, (0, 0), (1, 1)),
        (Phase::Depend, Blocked, (0, 0), (0, 0)),
        (Phase::Priority, Given, (0, 0), (1, 1)),
        (Phase::Sched, None, (1, 0), (0, 0)),
        (Phase::Sched, Given, (1, 0), (0, 1)),
        (Phase::Run, Given, (0, 1), (0, 0)),
        (Phase::Cleanup, None, (0, 0), (0, 0)),
    ] {
        let footprint = Job { reservation, ..make_job(&book, phase) }.footprint();
        let tally = footprint.tally();
        let Tally { run, sched, reserved_run, reserved_sched, .. } = tally.map(Amounts::jobs);
        assert_eq!(
            ((sched, run), (reserved_sched, reserved_run)),
            (charged, reserved),
            "{phase:?} {reservation:?}"
        );
        assert_eq!((tally.run.nodes(), tally.sched.cores()), (2 * charged.1, 8 * charged.0));
        assert_eq!(footprint.active_jobs, 1);
    }
    use RunningLimits::{Strict, Upstream};
    for (phase, reservation, running, reserved) in [
        (Phase::Depend, None, Strict, (0, 0)),
        (Phase::Priority, None, Strict, (1, 1)),
        (Phase::Priority, None, Upstream, (0, 0)),
        (Phase::Sched, None, Strict, (0, 1)),
        (Phase::Run, None, Strict, (0, 0)),
        (Phase::Priority, Reservation::Awaited, Strict, (0, 0)),
        (Phase::Priority, Reservation::Awaited, Upstream, (0, 0)),
    ] {
        let jobs = Job { reservation, running, ..make_job(&book, phase) }.footprint().jobs;
        assert_eq!(
            (jobs.reserved_sched, jobs.reserved_run),
            reserved,
            "{phase:?} {reservation:?} {running:?}"
        );
    }
    let resting_footprint =
        Job { reservation: Given, demand: Demand::Resting, ..make_job(&book, Phase::Sched) }.footprint();
    assert_eq!(
        resting_footprint.jobs,
        Tally { sched: 1, ..Tally::default() },
        "a job with urgency 0 has no reservation for RUN"
    );
    let waiting_footprint =
        Job { admission: Admission::Waiting { was_passed_over: false }, ..make_job(&book, Phase::Run) }
            .footprint();
    assert!(waiting_footprint.active_jobs == 0 && waiting_footprint.is_idle());
}

#[test]
fn a_job_that_left_depend_is_held_only_if_it_was_admitted() {
    let book = make_book_with_running_limit(1);
    let association = book.find(UserId(1), None).unwrap();
    for (admission, is_held) in [
        (Admission::Waiting { was_passed_over: false }, false),
        (Admission::Attached(association), false),
        (Admission::Admitted(association), true),
    ] {
        let mut job = Job { admission, ..make_job(&book, Phase::Sched) };
        assert!(!job.is_held() && !job.is_awaiting());
        job.hold_past_depend();
        assert!(job.is_awaiting());
        assert_eq!(job.is_held(), is_held, "{admission:?}");
        assert!(job.footprint().is_idle());
    }
}

/// Runs a release scan from `association` to its end. Returns the ids of the released jobs in order.
fn release_held_jobs(ledger: &mut Ledger, book: &Book, association: AssociationId) -> Vec<u64> {
    let mut cursor = ScanCursor::new(association, Candidates::All);
    std::iter::from_fn(|| cursor.release_next(ledger, book, &BTreeSet::new()))
        .map(|released| released.id.0)
        .collect()
}

#[test]
fn a_release_scan_reserves_headroom_for_each_job_in_order() {
    let book = make_book_with_running_limit(2);
    let mut ledger = Ledger::new(RULES);
    for id in [30, 10, 20] {
        ledger.insert(JobId(id), make_held_job(&book));
    }
    let association = book.find(UserId(1), None).unwrap();
    let released = release_held_jobs(&mut ledger, &book, association);
    assert_eq!(released, [10, 20]);
    assert!(release_held_jobs(&mut ledger, &book, association).is_empty(), "reservations take the headroom");
    assert_eq!(ledger.drift(), []);
    ledger.remove(JobId(10));
    let released = release_held_jobs(&mut ledger, &book, association);
    assert_eq!(released, [30]);
    assert_eq!(ledger.associations_with_held().count(), 0);
}

#[test]
fn no_job_is_released_while_an_eventlog_is_unread() {
    let book = make_book_with_running_limit(1);
    let mut ledger = Ledger::new(RULES);
    ledger.insert(JobId(1), make_held_job(&book));
    ledger.insert(JobId(2), Job { knowledge: Knowledge::Unread, ..make_job(&book, Phase::Sched) });
    let association = book.find(UserId(1), None).unwrap();
    assert!(ledger.accounts.is_unread(association));
    assert!(release_held_jobs(&mut ledger, &book, association).is_empty());
    ledger.change(JobId(2), |job| job.knowledge = Knowledge::Known);
    assert_eq!(release_held_jobs(&mut ledger, &book, association).len(), 1);
}

#[test]
fn drift_reports_wrong_counters_and_a_recount_corrects_them() {
    let book = make_book_with_running_limit(1);
    let mut ledger = Ledger::new(RULES);
    ledger.insert(JobId(1), make_job(&book, Phase::Run));
    let association = book.find(UserId(1), None).unwrap();
    ledger.change_job_without_counting(JobId(1), |job| job.phase = Phase::Sched);
    assert_eq!(ledger.drift().len(), 1);
    ledger.recount();
    assert_eq!(ledger.drift(), []);
    assert_eq!(ledger.accounts.usage(association).total.sched.jobs(), 1);
    ledger.drop_all_jobs();
    assert_eq!(ledger.drift().len(), 1, "counters without jobs differ too");
}

/// Each case changes a stored job but not the counters. `drift` must then report one difference of the kind `wanted`.
/// If no counter depends on the changed value, `drift` must report nothing.
#[test]
fn the_counter_check_names_the_kind_of_the_wrong_counter() {
    let book = make_book_with_running_limit(1);
    let unread = Job { knowledge: Knowledge::Unread, ..make_job(&book, Phase::Depend) };
    for (job, change, wanted) in [
        (unread, (|job| job.knowledge = Knowledge::Known) as fn(&mut Job), "lists of held jobs"),
        (make_held_job(&book), |job| job.block_state = BlockState::Blocked, "lists of held jobs"),
        (make_job(&book, Phase::Depend), |job| job.phase = Phase::New, "lists of jobs"),
        (make_job(&book, Phase::Sched), |job| job.queue = None, "counters"),
        (
            Job { queue: None, ..make_job(&book, Phase::Sched) },
            |job| job.queue = Some("q".into()),
            "counters",
        ),
        (Job { queue: None, ..make_job(&book, Phase::Sched) }, |job| job.size.nodes = 9, "counters"),
        (make_held_job(&book), |job| job.size.nodes = 1, "none"),
        (make_held_job(&book), |job| job.reservation = Reservation::Blocked, "none"),
    ] {
        let mut ledger = Ledger::new(RULES);
        ledger.insert(JobId(1), job);
        ledger.change_job_without_counting(JobId(1), change);
        let drift = ledger.drift().into_iter();
        let kinds: Vec<String> = drift.map(|(_, text)| text.split(':').next().unwrap().to_owned()).collect();
        let wanted: &[&str] = if wanted == "none" { &[] } else { &[wanted] };
        assert_eq!(kinds, wanted);
    }
    // `drift` finds a wrong index entry even if the index of the same class also has a correct job.
    let mut ledger = Ledger::new(RULES);
    [1, 2].into_iter().for_each(|id| ledger.insert(JobId(id), make_held_job(&book)));
    ledger.change_job_without_counting(JobId(2), |job| job.knowledge = Knowledge::Unreadable);
    let kinds: Vec<String> = ledger.drift().into_iter().map(|(_, text)| text).collect();
    assert_eq!(kinds, ["lists of held jobs"]);
}

/// The scan finds the candidates of both queues before it releases job 1. If job 2 is removed afterwards, job 3 is next.
#[test]
fn a_scan_skips_a_job_that_is_no_longer_held() {
    let book = make_book_with_running_limit(9);
    for is_removed in [false, true] {
        let mut ledger = Ledger::new(RULES);
        for (id, queue) in [(1, "q"), (2, "other"), (3, "other")] {
            ledger.insert(JobId(id), Job { queue: Some(queue.into()), ..make_held_job(&book) });
        }
        let mut cursor = ScanCursor::new(book.find(UserId(1), None).unwrap(), Candidates::All);
        let mut release_next = |ledger: &mut Ledger| {
            cursor.release_next(ledger, &book, &BTreeSet::new()).map(|released| released.id.0)
        };
        assert_eq!(release_next(&mut ledger), Some(1));
        if is_removed {
            ledger.remove(JobId(2));
        }
        assert_eq!(release_next(&mut ledger), Some(if is_removed { 3 } else { 2 }));
    }
}

#[test]
fn a_job_is_charged_in_sched_and_run() {
    let book = make_book_with_running_limit(1);
    let all = [Phase::New, Phase::Depend, Phase::Priority, Phase::Sched, Phase::Run, Phase::Cleanup];
    let is_charged = all.map(|phase| make_job(&book, phase).is_charged());
    assert_eq!(is_charged, [false, false, false, true, true, false]);
}

#[test]
fn the_job_count_includes_each_inserted_job() {
    let book = make_book_with_running_limit(1);
    let mut ledger = Ledger::new(RULES);
    assert_eq!(ledger.job_count(), 0);
    ledger.insert(JobId(1), make_job(&book, Phase::New));
    assert_eq!(ledger.job_count(), 1);
}

#[test]
fn only_a_job_in_depend_can_be_blocked_by_other_plugins() {
    let book = make_book_with_running_limit(1);
    let make_known_job = |phase| Job { knowledge: Knowledge::Known, ..make_job(&book, phase) };
    for (job, wanted) in [
        (make_known_job(Phase::Depend), true),
        (make_known_job(Phase::New), false),
        (make_known_job(Phase::Priority), false),
        (make_known_job(Phase::Sched), false),
        (make_held_job(&book), false),
        (Job { knowledge: Knowledge::Unread, ..make_job(&book, Phase::Depend) }, false),
    ] {
        assert_eq!(job.is_only_blocked_by_plugins(), wanted, "{:?}", job.phase);
    }
}
