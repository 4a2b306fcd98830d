// SPDX-License-Identifier: LGPL-3.0-only
//! Tests which changes make the ledger compute an association's positions in waiting lists again.
//! `engine/tests/scopes.rs` tests which jobs are released.

use super::super::place::Unplaced;
use super::*;
use crate::accounts::{Cap, SiteLimit, SiteRecords, Target};
use crate::ids::Amount;
use std::collections::BTreeSet;

const LAST: u32 = 50;

/// Returns the accounting data of a site, and an empty ledger. Users 1 and 2 are in bank A, user 3 is in bank B, and
/// users from 4 on are in bank C. Banks A and B are below science. One job of each bank and two jobs of science may
/// be in SCHED or RUN.
fn make_site() -> (Book, Ledger) {
    let make_record = |user: u32, bank: &str| {
        let mut association = make_book_with_running_limit(9)
            .association(make_book_with_running_limit(9).find(UserId(1), None).unwrap())
            .unwrap()
            .clone();
        (association.user, association.bank) = (UserId(user), bank.into());
        AssociationRecord { association, fairshare: 0.5, def_bank: bank.into() }
    };
    let limit = |bank: &str, cap| SiteLimit {
        target: Target::Bank(bank.into()),
        queue: None,
        amount: Amount::parse("run-sched-jobs").unwrap(),
        cap: Cap { limit: Limit(cap), is_given: false },
    };
    let mut associations = vec![make_record(1, "A"), make_record(2, "A"), make_record(3, "B")];
    associations.extend((4..=LAST).map(|user| make_record(user, "C")));
    let parents = [("A", "science"), ("B", "science"), ("science", "root"), ("C", "root")];
    let mut book = Book::default();
    book.replace_records(SiteRecords {
        associations,
        parents: parents.map(|(bank, parent)| (bank.into(), parent.into())).to_vec(),
        limits: vec![limit("A", 1), limit("B", 1), limit("C", 1), limit("science", 2)],
        ..SiteRecords::default()
    });
    let mut ledger = Ledger::new(RULES);
    ledger.apply_scope_limits(&book);
    (book, ledger)
}

fn find_association(book: &Book, user: u32) -> AssociationId {
    book.find(UserId(user), None).unwrap()
}

fn make_job_of_user(book: &Book, user: u32, phase: Phase) -> Job {
    Job {
        user: UserId(user),
        admission: Admission::Admitted(find_association(book, user)),
        ..make_job(book, phase)
    }
}

fn add_job(ledger: &mut Ledger, book: &Book, id: u64, job: Job) {
    ledger.assign_scopes(book, job.association().unwrap());
    ledger.insert(JobId(id), job);
}

fn make_held_job_of_user(book: &Book, user: u32) -> Job {
    let mut job = make_job_of_user(book, user, Phase::Depend);
    let bank_limit = RULES.names().filter(|hold| hold.name() == "max-run-sched-jobs-bank");
    job.names.add_all(RULES, bank_limit.collect());
    job
}

/// Puts associations with outdated positions into their waiting lists, with the same priority for all jobs. Returns
/// the jobs whose priorities determine the positions.
fn place_associations(ledger: &mut Ledger, book: &Book, cursor: &mut ScanCursor) -> Vec<JobId> {
    let unplaced_associations = cursor.unplaced(ledger, book);
    let heads: Vec<JobId> = unplaced_associations.iter().flat_map(Unplaced::heads).collect();
    for unplaced in unplaced_associations {
        cursor.put_association_into_waiting_lists(ledger, book, unplaced, &[]);
    }
    heads
}

#[test]
fn a_scope_orders_associations_only_if_two_have_held_jobs() {
    let (book, mut ledger) = make_site();
    add_job(&mut ledger, &book, 1, make_job_of_user(&book, 1, Phase::Sched));
    add_job(&mut ledger, &book, 2, make_held_job_of_user(&book, 1));
    let mut cursor = ScanCursor::new(find_association(&book, 1), Candidates::All);
    assert_eq!(place_associations(&mut ledger, &book, &mut cursor), []);
    add_job(&mut ledger, &book, 3, make_held_job_of_user(&book, 2));
    assert_eq!(place_associations(&mut ledger, &book, &mut cursor), [JobId(2), JobId(3)]);
    assert_eq!(
        place_associations(&mut ledger, &book, &mut cursor),
        [],
        "the associations are already placed"
    );
    ledger.mark_priorities_changed();
    assert_eq!(
        place_associations(&mut ledger, &book, &mut cursor),
        [JobId(2), JobId(3)],
        "placed again when priorities changed"
    );
    assert_eq!(ledger.drift(), []);
}

#[test]
fn a_change_of_limits_assigns_scopes_only_to_associations_with_jobs() {
    let (book, mut ledger) = make_site();
    add_job(&mut ledger, &book, 1, make_job_of_user(&book, LAST, Phase::Depend));
    add_job(&mut ledger, &book, 2, make_job_of_user(&book, 1, Phase::Depend));
    ledger.remove(JobId(2));
    let (other, _) = make_site();
    ledger.apply_scope_limits(&other);
    let count_members = |ledger: &Ledger| {
        let has_scopes = |(_, account): &(AssociationId, &Account)| account.scope_ids.is_some();
        ledger.accounts.iter().filter(has_scopes).count()
    };
    assert_eq!((ledger.accounts.iter().count() > 1, count_members(&ledger)), (true, 1));
}

/// An association with a held job gets another job, which is then removed. Only a change of held jobs or counters can change the
/// association's position.
#[test]
fn removing_an_uncounted_job_keeps_the_position_of_its_association() {
    let (book, mut ledger) = make_site();
    let make_first_users_job = |phase| make_job_of_user(&book, 1, phase);
    add_job(&mut ledger, &book, 1, make_held_job_of_user(&book, 1));
    let unread = Job { knowledge: Knowledge::Unread, ..make_first_users_job(Phase::Depend) };
    for (what, job, is_displaced) in [
        ("held", make_held_job_of_user(&book, 1), true),
        ("takes headroom", make_first_users_job(Phase::Sched), true),
        ("unread", unread, true),
        ("new", make_first_users_job(Phase::New), false),
        ("after its run", make_first_users_job(Phase::Cleanup), false),
    ] {
        ledger.held.take_outdated_associations();
        add_job(&mut ledger, &book, 7, job);
        assert_eq!(!ledger.held.unplaced().is_empty(), is_displaced, "{what}, added");
        ledger.held.take_outdated_associations();
        ledger.remove(JobId(7));
        assert_eq!(!ledger.held.unplaced().is_empty(), is_displaced, "{what}, removed");
    }
}

/// A scan may release no job of a waiting association, because a different scope holds its jobs. The positions of the
/// association must then be computed again.
#[test]
fn positions_are_recomputed_if_a_scan_releases_no_job_of_an_association() {
    let (book, mut ledger) = make_site();
    add_job(&mut ledger, &book, 1, make_job_of_user(&book, 1, Phase::Sched));
    add_job(&mut ledger, &book, 2, make_held_job_of_user(&book, 1));
    add_job(&mut ledger, &book, 3, make_held_job_of_user(&book, 2));
    let mut cursor = ScanCursor::new(find_association(&book, 1), Candidates::All);
    place_associations(&mut ledger, &book, &mut cursor);
    assert_eq!(cursor.release_next(&mut ledger, &book, &BTreeSet::new()), None);
    assert_eq!(*ledger.held.unplaced(), [find_association(&book, 1)].into());
    ledger.held.take_outdated_associations();
    add_job(&mut ledger, &book, 4, make_job_of_user(&book, 3, Phase::Depend));
    let mut cursor = ScanCursor::new(find_association(&book, 3), Candidates::All);
    assert_eq!(cursor.release_next(&mut ledger, &book, &BTreeSet::new()), None);
    assert_eq!(*ledger.held.unplaced(), [].into());
}

/// The eventlog of a job of user 1 in bank A is unread. The held job belongs to bank A, to bank B, or to bank C.
#[test]
fn a_job_waits_for_an_unread_eventlog_only_if_limits_are_shared() {
    for (user, is_put_off) in [(2, true), (3, true), (LAST, false)] {
        let (book, mut ledger) = make_site();
        let unread = Job { knowledge: Knowledge::Unread, ..make_job_of_user(&book, 1, Phase::Depend) };
        add_job(&mut ledger, &book, 1, unread);
        add_job(&mut ledger, &book, 2, make_held_job_of_user(&book, user));
        assert_eq!(
            release_held_jobs(&mut ledger, &book, find_association(&book, user)).is_empty(),
            is_put_off,
            "user {user}"
        );
        assert_eq!(!ledger.take_associations_skipped_by_scans().is_empty(), is_put_off, "user {user}");
    }
}

/// `may_change` is true for jobs that the scan can release, and for jobs that lose a dependency. The scan skips all other jobs.
#[test]
fn a_scan_skips_jobs_that_a_shared_limit_holds() {
    for (is_bank_full, own_cap, may_change) in
        [(false, 9, true), (true, 9, false), (false, 0, false), (true, 0, false)]
    {
        let (mut book, mut ledger) = make_site();
        if is_bank_full {
            add_job(&mut ledger, &book, 1, make_job_of_user(&book, 1, Phase::Sched));
        }
        let mut held_job = make_held_job_of_user(&book, 2);
        if own_cap == 0 {
            held_job.names.add_all(RULES, RULES.select_limits(Rule::is_limit_on_running_jobs));
        }
        add_job(&mut ledger, &book, 2, held_job.clone());
        let mut record = book.association(find_association(&book, 2)).unwrap().clone();
        record.max_running_jobs = Limit(own_cap);
        book.upsert(
            vec![AssociationRecord { association: record, fairshare: 0.5, def_bank: "A".into() }],
            UserId(0),
        );
        let exceeded =
            Limits::new(&ledger, &book).headroom(find_association(&book, 2), None).exceeded(held_job.size);
        let found = super::super::release::may_change(held_job.names.outstanding(), exceeded);
        assert_eq!(found, may_change, "bank full: {is_bank_full}, own cap: {own_cap}");
    }
}

/// A scan of all jobs releases blocked jobs last. A scan of jobs that no other plugin blocks must not return blocked jobs.
#[test]
fn a_scan_of_jobs_that_no_other_plugin_blocks_skips_blocked_jobs() {
    for (line, wanted) in [(Candidates::All, vec![3, 2]), (Candidates::Unblocked, vec![3])] {
        let (book, mut ledger) = make_site();
        add_job(&mut ledger, &book, 1, make_held_job_of_user(&book, 1));
        ledger.change(JobId(1), |job| job.knowledge = Knowledge::Unreadable);
        add_job(
            &mut ledger,
            &book,
            2,
            Job { block_state: BlockState::Blocked, ..make_held_job_of_user(&book, 2) },
        );
        add_job(&mut ledger, &book, 3, make_held_job_of_user(&book, 3));
        let mut cursor = ScanCursor::new(find_association(&book, 1), line);
        place_associations(&mut ledger, &book, &mut cursor);
        let mut released_ids = Vec::new();
        while let Some(released) = cursor.release_next(&mut ledger, &book, &BTreeSet::new()) {
            released_ids.push(released.id.0);
            place_associations(&mut ledger, &book, &mut cursor);
        }
        assert_eq!(released_ids, wanted, "{line:?}");
    }
}

#[test]
fn limits_that_are_set_later_count_the_present_jobs() {
    let (book, _) = make_site();
    let mut ledger = Ledger::new(RULES);
    for (id, phase) in [(1, Phase::Sched), (2, Phase::Run)] {
        ledger.insert(JobId(id), make_job_of_user(&book, 1, phase));
    }
    ledger.insert(JobId(3), make_held_job_of_user(&book, 2));
    ledger.request_all_position_updates();
    assert!(ledger.has_no_scope_data(), "no scope exists");
    ledger.apply_scope_limits(&book);
    let used: Vec<_> =
        Limits::new(&ledger, &book).scope_usages().into_iter().map(|it| (it.limit.target, it.used)).collect();
    assert!(used.contains(&(Target::Bank("A".into()), Some(2))), "{used:?}");
    assert_eq!(*ledger.held.unplaced(), [find_association(&book, 2)].into());
    assert_eq!(ledger.drift(), []);
}

/// The headroom of an association in a queue is the least headroom under its own limits and under the shared limits.
#[test]
fn the_headroom_of_an_association_includes_shared_limits() {
    let (book, mut ledger) = make_site();
    add_job(&mut ledger, &book, 1, make_held_job_of_user(&book, 2));
    let size = make_held_job_of_user(&book, 2).size;
    for (is_full, limit_count) in [(false, 0), (true, 1)] {
        if is_full {
            add_job(&mut ledger, &book, 2, make_job_of_user(&book, 1, Phase::Sched));
        }
        let exceeded = Limits::new(&ledger, &book).headroom(find_association(&book, 2), None).exceeded(size);
        assert_eq!(exceeded, Limits::new(&ledger, &book).exceeded_by(JobId(1)));
        assert_eq!(RULES.members(exceeded).count(), limit_count, "{is_full}");
    }
}

#[test]
fn a_recount_clears_the_waiting_lists_and_the_overtaken_jobs() {
    let (book, mut ledger) = make_site();
    add_job(&mut ledger, &book, 1, make_job_of_user(&book, 1, Phase::Sched));
    add_job(&mut ledger, &book, 2, make_held_job_of_user(&book, 1));
    add_job(&mut ledger, &book, 3, make_held_job_of_user(&book, 2));
    let unread = Job { knowledge: Knowledge::Unread, ..make_job_of_user(&book, 3, Phase::Depend) };
    add_job(&mut ledger, &book, 4, unread);
    let mut cursor = ScanCursor::new(find_association(&book, 1), Candidates::All);
    assert_eq!(place_associations(&mut ledger, &book, &mut cursor), [JobId(2), JobId(3)]);
    let count_entries = |ledger: &Ledger| {
        let scopes = ledger.accounts.scopes.iter().map(|(_, scope)| (scope.line.len(), scope.since.len()));
        (
            ledger.overtaken().iter().count(),
            scopes.fold((0, 0), |sum, (line, since)| (sum.0 + line, sum.1 + since)),
        )
    };
    for id in ledger.accounts.get(find_association(&book, 1)).scope_ids().to_vec() {
        ledger.accounts.scopes.get_mut(id).expect("a scope").taken += OVERTAKEN;
    }
    ledger.request_all_position_updates();
    for unplaced in cursor.unplaced(&mut ledger, &book) {
        cursor.put_association_into_waiting_lists(
            &mut ledger,
            &book,
            unplaced,
            &[(JobId(2), 1), (JobId(3), 1)],
        );
    }
    let (overtaken, (lines, since)) = count_entries(&ledger);
    assert!(overtaken > 0 && lines > 0 && since > 0);
    ledger.recount();
    assert_eq!(ledger.drift(), []);
    assert_eq!(count_entries(&ledger), (0, (0, 0)));
    assert_eq!(*ledger.held.unplaced(), [find_association(&book, 1), find_association(&book, 2)].into());
    ledger.remove(JobId(4));
    assert!(!ledger.accounts.shares_unread_scope(find_association(&book, 1), None), "no eventlog is unread");
    assert_eq!(place_associations(&mut ledger, &book, &mut cursor), [JobId(2), JobId(3)]);
    assert_eq!(ledger.drift(), []);
}

/// A job without a time limit counts with 2^50 node-milliseconds, so the sum over 16,384 jobs exceeds 64 bits.
#[test]
fn counters_are_exact_for_many_jobs_without_a_time_limit() {
    let (mut book, _) = make_site();
    let limit = |amount: Amount, cap| SiteLimit {
        target: Target::Bank("A".into()),
        queue: None,
        amount,
        cap: Cap { limit: cap, is_given: false },
    };
    let budget = limit(Amount::BUDGETS[0], crate::accounts::UNLIMITED_BUDGET);
    book.set_budget_limits(vec![limit(Amount::parse("run-node-hours").unwrap(), Limit(9)), budget]);
    let mut ledger = Ledger::new(RULES);
    ledger.apply_scope_limits(&book);
    const COUNT: u64 = (1 << 14) + 2;
    for id in 1..=COUNT {
        add_job(&mut ledger, &book, id, make_job_of_user(&book, 1, Phase::Run));
    }
    add_job(&mut ledger, &book, COUNT + 1, make_held_job_of_user(&book, 1));
    let holding = Limits::new(&ledger, &book).holding(JobId(COUNT + 1));
    assert!(
        holding.iter().all(|it| !it.amount.is_budget()),
        "a budget in the mode warn holds no job: {holding:?}"
    );
    for id in 2..=COUNT {
        ledger.remove(JobId(id));
    }
    assert_eq!(ledger.drift(), []);
    let usages = Limits::new(&ledger, &book).scope_usages();
    let used = usages.iter().find(|it| it.limit.amount.counts_time_left()).unwrap().used;
    assert_eq!(used, Some(Size::MOST_TIME.div_ceil(3_600_000)));
}
