// SPDX-License-Identifier: LGPL-3.0-only
//! Limits over scopes: the changes after which the ledger places an association again in the order of its scopes. `engine/tests/scopes.rs`
//! tests which jobs are released.

use super::super::place::Unplaced;
use super::*;
use crate::accounts::{Cap, Policy, SiteLimit, Target};
use crate::ids::Amount;
use std::collections::BTreeSet;

const LAST: u32 = 50;

/// Returns a book with users 1 and 2 in bank A below science, user 3 in bank B below science, and users from 4 on in bank C. One job of each
/// bank and two jobs of science may be in SCHED or RUN.
fn site() -> (Book, Ledger) {
    let record_of = |user: u32, bank: &str| {
        let mut one = book(9).association(book(9).find(UserId(1), None).unwrap()).unwrap().clone();
        (one.user, one.bank) = (UserId(user), bank.into());
        AssociationRecord { association: one, fairshare: 0.5, def_bank: bank.into() }
    };
    let limit = |bank: &str, cap| SiteLimit {
        target: Target::Bank(bank.into()),
        queue: None,
        amount: Amount::parse("run-sched-jobs").unwrap(),
        cap: Cap { limit: Limit(cap), is_given: false },
    };
    let mut associations = vec![record_of(1, "A"), record_of(2, "A"), record_of(3, "B")];
    associations.extend((4..=LAST).map(|user| record_of(user, "C")));
    let parents = [("A", "science"), ("B", "science"), ("science", "root"), ("C", "root")];
    let mut book = Book::default();
    book.replace(Policy {
        associations,
        parents: parents.map(|(bank, parent)| (bank.into(), parent.into())).to_vec(),
        limits: vec![limit("A", 1), limit("B", 1), limit("C", 1), limit("science", 2)],
        ..Policy::default()
    });
    let mut ledger = Ledger::new(RULES);
    ledger.regroup(&book);
    (book, ledger)
}

fn association_of(book: &Book, user: u32) -> AssociationId {
    book.find(UserId(user), None).unwrap()
}

fn job_of(book: &Book, user: u32, phase: Phase) -> Job {
    Job { user: UserId(user), admission: Admission::Admitted(association_of(book, user)), ..job(book, phase) }
}

fn add_job(ledger: &mut Ledger, book: &Book, id: u64, one: Job) {
    ledger.assign_scopes(book, one.association().unwrap());
    ledger.insert(JobId(id), one);
}

fn held_of(book: &Book, user: u32) -> Job {
    let mut one = job_of(book, user, Phase::Depend);
    let of_bank = RULES.names().filter(|hold| hold.name() == "max-run-sched-jobs-bank");
    one.names.add_all(RULES, of_bank.collect());
    one
}

/// Places all unplaced associations, at equal priorities. Returns the jobs whose priorities were needed.
fn place_unplaced(ledger: &mut Ledger, book: &Book, cursor: &mut ScanCursor) -> Vec<JobId> {
    let due = cursor.unplaced(ledger, book);
    let heads: Vec<JobId> = due.iter().flat_map(Unplaced::heads).collect();
    for unplaced in due {
        cursor.place_association(ledger, book, unplaced, &[]);
    }
    heads
}

#[test]
fn one_held_association_is_not_placed_and_two_are() {
    let (book, mut ledger) = site();
    add_job(&mut ledger, &book, 1, job_of(&book, 1, Phase::Sched));
    add_job(&mut ledger, &book, 2, held_of(&book, 1));
    let mut cursor = ScanCursor::new(association_of(&book, 1), Line::All);
    assert_eq!(place_unplaced(&mut ledger, &book, &mut cursor), []);
    add_job(&mut ledger, &book, 3, held_of(&book, 2));
    assert_eq!(place_unplaced(&mut ledger, &book, &mut cursor), [JobId(2), JobId(3)]);
    assert_eq!(place_unplaced(&mut ledger, &book, &mut cursor), [], "placed once");
    ledger.note_priorities_changed();
    assert_eq!(
        place_unplaced(&mut ledger, &book, &mut cursor),
        [JobId(2), JobId(3)],
        "placed again when priorities changed"
    );
    assert_eq!(ledger.drift(), []);
}

#[test]
fn only_associations_with_jobs_belong_to_scopes_when_limits_change() {
    let (book, mut ledger) = site();
    add_job(&mut ledger, &book, 1, job_of(&book, LAST, Phase::Depend));
    let (other, _) = site();
    ledger.regroup(&other);
    let members = |ledger: &Ledger| {
        let member_of = |(_, account): &(AssociationId, &Account)| account.member_of.is_some();
        ledger.accounts.iter().filter(member_of).count()
    };
    assert_eq!((ledger.accounts.iter().count() > 1, members(&ledger)), (true, 1));
}

/// The job is added to an association that has a held job, and removed again. Only a change of held jobs or counters can move the
/// association's place.
#[test]
fn a_job_that_is_neither_held_nor_counted_displaces_no_association() {
    let (book, mut ledger) = site();
    let of_first = |phase| job_of(&book, 1, phase);
    add_job(&mut ledger, &book, 1, held_of(&book, 1));
    let unread = Job { knowledge: Knowledge::Unread, ..of_first(Phase::Depend) };
    for (what, one, is_displaced) in [
        ("held", held_of(&book, 1), true),
        ("takes headroom", of_first(Phase::Sched), true),
        ("unread", unread, true),
        ("new", of_first(Phase::New), false),
        ("after its run", of_first(Phase::Cleanup), false),
    ] {
        ledger.held.take_unplaced();
        add_job(&mut ledger, &book, 7, one);
        assert_eq!(!ledger.held.unplaced().is_empty(), is_displaced, "{what}, added");
        ledger.held.take_unplaced();
        ledger.remove(JobId(7));
        assert_eq!(!ledger.held.unplaced().is_empty(), is_displaced, "{what}, removed");
    }
}

/// If a scan releases no job of an association that has a place in a scope, another scope may hold its jobs. So its place is computed again.
#[test]
fn an_association_without_a_released_job_is_placed_again_if_it_has_a_place_in_a_scope() {
    let (book, mut ledger) = site();
    add_job(&mut ledger, &book, 1, job_of(&book, 1, Phase::Sched));
    add_job(&mut ledger, &book, 2, held_of(&book, 1));
    add_job(&mut ledger, &book, 3, held_of(&book, 2));
    let mut cursor = ScanCursor::new(association_of(&book, 1), Line::All);
    place_unplaced(&mut ledger, &book, &mut cursor);
    assert_eq!(cursor.release_next(&mut ledger, &book, &BTreeSet::new()), None);
    assert_eq!(*ledger.held.unplaced(), [association_of(&book, 1)].into());
    ledger.held.take_unplaced();
    add_job(&mut ledger, &book, 4, job_of(&book, 3, Phase::Depend));
    let mut cursor = ScanCursor::new(association_of(&book, 3), Line::All);
    assert_eq!(cursor.release_next(&mut ledger, &book, &BTreeSet::new()), None);
    assert_eq!(*ledger.held.unplaced(), [].into());
}

/// The eventlog of a job of user 1 is unread. The held job is of the same bank, of another bank of science, or of bank C.
#[test]
fn only_jobs_that_share_a_limit_with_an_unread_job_wait_for_its_eventlog() {
    for (user, is_put_off) in [(2, true), (3, true), (LAST, false)] {
        let (book, mut ledger) = site();
        let unread = Job { knowledge: Knowledge::Unread, ..job_of(&book, 1, Phase::Depend) };
        add_job(&mut ledger, &book, 1, unread);
        add_job(&mut ledger, &book, 2, held_of(&book, user));
        assert_eq!(
            release(&mut ledger, &book, association_of(&book, user)).is_empty(),
            is_put_off,
            "user {user}"
        );
        assert_eq!(!ledger.take_put_off().is_empty(), is_put_off, "user {user}");
    }
}

/// A scan must examine all held jobs, and return only a job that it can release or that loses a dependency.
#[test]
fn a_scan_skips_jobs_that_a_shared_limit_holds() {
    for (is_bank_full, own_cap, may_change) in
        [(false, 9, true), (true, 9, false), (false, 0, false), (true, 0, false)]
    {
        let (mut book, mut ledger) = site();
        if is_bank_full {
            add_job(&mut ledger, &book, 1, job_of(&book, 1, Phase::Sched));
        }
        let mut held = held_of(&book, 2);
        if own_cap == 0 {
            held.names.add_all(RULES, RULES.select(Rule::is_running_jobs));
        }
        add_job(&mut ledger, &book, 2, held.clone());
        let mut record = book.association(association_of(&book, 2)).unwrap().clone();
        record.max_running_jobs = Limit(own_cap);
        book.upsert(
            vec![AssociationRecord { association: record, fairshare: 0.5, def_bank: "A".into() }],
            UserId(0),
        );
        let exceeded =
            Limits::new(&ledger, &book).headroom(association_of(&book, 2), None).exceeded(held.size);
        let found = super::super::release::may_change(held.names.outstanding(), exceeded);
        assert_eq!(found, may_change, "bank full: {is_bank_full}, own cap: {own_cap}");
    }
}

/// Blocked jobs come after jobs that are not blocked. A scan of jobs that are not blocked must not return them.
#[test]
fn a_scan_of_jobs_that_no_other_plugin_keeps_skips_the_others() {
    for (line, wanted) in [(Line::All, vec![3, 2]), (Line::KeptByNobodyElse, vec![3])] {
        let (book, mut ledger) = site();
        add_job(&mut ledger, &book, 1, held_of(&book, 1));
        ledger.change(JobId(1), |job| job.knowledge = Knowledge::Unreadable);
        add_job(&mut ledger, &book, 2, Job { keepers: Keepers::Others, ..held_of(&book, 2) });
        add_job(&mut ledger, &book, 3, held_of(&book, 3));
        let mut cursor = ScanCursor::new(association_of(&book, 1), line);
        place_unplaced(&mut ledger, &book, &mut cursor);
        let mut freed = Vec::new();
        while let Some(released) = cursor.release_next(&mut ledger, &book, &BTreeSet::new()) {
            freed.push(released.id.0);
            place_unplaced(&mut ledger, &book, &mut cursor);
        }
        assert_eq!(freed, wanted, "{line:?}");
    }
}

#[test]
fn limits_that_are_set_later_count_the_present_jobs() {
    let (book, _) = site();
    let mut ledger = Ledger::new(RULES);
    for (id, phase) in [(1, Phase::Sched), (2, Phase::Run)] {
        ledger.insert(JobId(id), job_of(&book, 1, phase));
    }
    ledger.insert(JobId(3), held_of(&book, 2));
    ledger.recompute_all_places();
    assert!(ledger.keeps_nothing_for_scopes(), "no scope exists");
    ledger.regroup(&book);
    let used: Vec<_> =
        Limits::new(&ledger, &book).scope_usages().into_iter().map(|it| (it.limit.target, it.used)).collect();
    assert!(used.contains(&(Target::Bank("A".into()), Some(2))), "{used:?}");
    assert_eq!(*ledger.held.unplaced(), [association_of(&book, 2)].into());
    assert_eq!(ledger.drift(), []);
}

/// The headroom of an association in a queue is the least headroom under its own limits and under the shared limits.
#[test]
fn the_headroom_of_an_association_includes_shared_limits() {
    let (book, mut ledger) = site();
    add_job(&mut ledger, &book, 1, held_of(&book, 2));
    let size = held_of(&book, 2).size;
    for (is_full, holds) in [(false, 0), (true, 1)] {
        if is_full {
            add_job(&mut ledger, &book, 2, job_of(&book, 1, Phase::Sched));
        }
        let exceeded = Limits::new(&ledger, &book).headroom(association_of(&book, 2), None).exceeded(size);
        assert_eq!(exceeded, Limits::new(&ledger, &book).exceeded_by(JobId(1)));
        assert_eq!(RULES.members(exceeded).count(), holds, "{is_full}");
    }
}

#[test]
fn after_a_recount_no_association_has_a_place_and_no_job_is_overtaken() {
    let (book, mut ledger) = site();
    add_job(&mut ledger, &book, 1, job_of(&book, 1, Phase::Sched));
    add_job(&mut ledger, &book, 2, held_of(&book, 1));
    add_job(&mut ledger, &book, 3, held_of(&book, 2));
    let unread = Job { knowledge: Knowledge::Unread, ..job_of(&book, 3, Phase::Depend) };
    add_job(&mut ledger, &book, 4, unread);
    let mut cursor = ScanCursor::new(association_of(&book, 1), Line::All);
    assert_eq!(place_unplaced(&mut ledger, &book, &mut cursor), [JobId(2), JobId(3)]);
    let count = |ledger: &Ledger| {
        let scopes = ledger.accounts.scopes.iter().map(|(_, scope)| (scope.line.len(), scope.since.len()));
        (
            ledger.overtaken().iter().count(),
            scopes.fold((0, 0), |sum, (line, since)| (sum.0 + line, sum.1 + since)),
        )
    };
    for id in ledger.accounts.member_of(association_of(&book, 1)).to_vec() {
        ledger.accounts.scopes.get_mut(id).expect("a scope").taken += OVERTAKEN;
    }
    ledger.recompute_all_places();
    for unplaced in cursor.unplaced(&mut ledger, &book) {
        cursor.place_association(&mut ledger, &book, unplaced, &[(JobId(2), 1), (JobId(3), 1)]);
    }
    let (overtaken, (lines, since)) = count(&ledger);
    assert!(overtaken > 0 && lines > 0 && since > 0);
    ledger.recount();
    assert_eq!(ledger.drift(), []);
    assert_eq!(count(&ledger), (0, (0, 0)));
    assert_eq!(*ledger.held.unplaced(), [association_of(&book, 1), association_of(&book, 2)].into());
    ledger.remove(JobId(4));
    assert!(!ledger.accounts.shares_with_unread(association_of(&book, 1), None), "no eventlog is unread");
    assert_eq!(place_unplaced(&mut ledger, &book, &mut cursor), [JobId(2), JobId(3)]);
    assert_eq!(ledger.drift(), []);
}
