// SPDX-License-Identifier: LGPL-3.0-only
//! Compares scans that skip associations with scans that visit all associations: both must release the same jobs in the same order, and
//! leave the same positions in all waiting lists.

use super::super::place::LineKey;
use super::super::scope::ScopeId;
use super::*;
use crate::accounts::{Cap, SiteLimit, SiteRecords, Target};
use crate::ids::Amount;
use proptest::prelude::*;
use std::collections::BTreeSet;

const USERS: u32 = 8;
const QUEUES: [Option<&str>; 2] = [None, Some("q1")];

/// Returns a site with `users` users in two banks. `caps` are the limits on each bank, on both banks together, and on each user.
fn make_book_with_site_limits(users: u32, caps: [i64; 6]) -> Book {
    let record = |user: u32| {
        let mut association = make_book_with_running_limit(9)
            .association(make_book_with_running_limit(9).find(UserId(1), None).unwrap())
            .unwrap()
            .clone();
        (association.user, association.bank) =
            (UserId(user), if user.is_multiple_of(2) { "A" } else { "B" }.into());
        association.max_running_jobs = Limit(if user == 3 { 1 } else { 5 });
        AssociationRecord { def_bank: association.bank.clone(), association, fairshare: 0.5 }
    };
    let limit = |target, queue: Option<&str>, amount: &str, cap| SiteLimit {
        target,
        queue: queue.map(Into::into),
        amount: Amount::parse(amount).unwrap(),
        cap: Cap { limit: Limit(cap), is_given: false },
    };
    let bank = |name: &str| Target::Bank(name.into());
    let mut book = Book::default();
    book.replace_records(SiteRecords {
        associations: (1..=users).map(record).collect(),
        parents: [("A", "root"), ("B", "root")].map(|(bank, above)| (bank.into(), above.into())).to_vec(),
        limits: vec![
            limit(bank("root"), None, "run-nodes", caps[0]),
            limit(bank("root"), None, "run-cores", caps[1]),
            limit(bank("A"), None, "run-sched-jobs", caps[2]),
            limit(bank("B"), Some("q1"), "run-sched-nodes", caps[3]),
            limit(Target::EachUser, None, "run-sched-jobs", caps[4]),
            limit(Target::EachAssociation, Some("q1"), "run-cores", caps[5]),
        ],
        ..SiteRecords::default()
    });
    book
}

#[derive(Clone, Debug)]
enum Op {
    Submit {
        user: u32,
        queue: usize,
        nodes: u64,
        cores: u64,
        is_blocked: bool,
        runs: bool,
    },
    End(usize),
    /// In each scope, this number of jobs takes headroom.
    TakeHeadroom(u64),
    ChangePriorities,
    /// Runs one scan for each entry of the list. The scan begins with the association of the user in the entry. No
    /// scan releases jobs of the users in the second field.
    Scans(Vec<(u32, Candidates)>, BTreeSet<u32>),
    /// Computes all positions in waiting lists again, then runs a scan for each association with held jobs.
    ScanAll,
}

fn any_op() -> impl Strategy<Value = Op> {
    let line = || prop_oneof![4 => Just(Candidates::All), 1 => Just(Candidates::Unblocked)];
    let scans = prop::collection::vec((1..=USERS, line()), 1..6);
    prop_oneof![
        8 => (1..=USERS, 0..2usize, 0..4u64, 0..4u64, any::<bool>(), any::<bool>()).prop_map(
            |(user, queue, nodes, cores, is_blocked, runs)| Op::Submit { user, queue, nodes, cores, is_blocked, runs }
        ),
        3 => (0..32usize).prop_map(Op::End),
        1 => (40..OVERTAKEN + 10).prop_map(Op::TakeHeadroom),
        1 => Just(Op::ChangePriorities),
        3 => (scans, prop::collection::btree_set(1..=USERS, 0..2)).prop_map(|(scans, not)| Op::Scans(scans, not)),
        2 => Just(Op::ScanAll),
    ]
}

#[derive(Clone)]
struct World {
    book: Book,
    ledger: Ledger,
    /// True if each scan visits all associations.
    visits_all: bool,
    /// The priority of each job is a function of its id and of this number. A larger number changes all priorities.
    shift: u64,
    /// The number of comparisons in all scans until now.
    comparisons: usize,
}

/// The positions in each waiting list, and the overtaken jobs in the order in which they were overtaken.
type Places = (Vec<(ScopeId, LineKey, u64)>, Vec<JobId>);

impl World {
    fn new(book: &Book, visits_all: bool) -> World {
        let mut ledger = Ledger::new(RULES);
        ledger.apply_scope_limits(book);
        World { book: book.clone(), ledger, visits_all, shift: 0, comparisons: 0 }
    }

    fn find_association(&self, user: u32) -> AssociationId {
        self.book.find(UserId(user), None).unwrap()
    }

    fn places(&self) -> Places {
        let accounts = self.ledger.accounts.iter();
        (
            accounts.flat_map(|(_, account)| account.waiting.places()).collect(),
            self.ledger.overtaken().iter().map(|it| it.job).collect(),
        )
    }

    /// Adds a job. If it exceeds a limit, it is held; otherwise it is in SCHED or, if `runs`, in RUN.
    fn add_job(&mut self, id: u64, mut job: Job, runs: bool) {
        let association = job.association().unwrap();
        self.ledger.assign_scopes(&self.book, association);
        let headroom = Limits::new(&self.ledger, &self.book).headroom(association, job.queue.as_ref());
        let exceeded = headroom.exceeded(job.size);
        if exceeded.is_empty() {
            job.phase = if runs { Phase::Run } else { Phase::Sched };
        } else {
            job.names.add_all(RULES, exceeded);
        }
        self.ledger.insert(JobId(id), job);
    }

    fn end_job(&mut self, at: usize) {
        let count = self.ledger.job_count().max(1);
        let id = self.ledger.jobs().nth(at % count).map(|(id, _)| id);
        id.into_iter().for_each(|id| drop(self.ledger.remove(id)));
    }

    fn release_next(
        &mut self,
        cursor: &mut ScanCursor,
        undecided: &BTreeSet<AssociationId>,
    ) -> Option<Released> {
        self.discard_results(cursor);
        for unplaced in cursor.unplaced(&mut self.ledger, &self.book) {
            let priority = |id: JobId| (id, ((id.0 + self.shift) * 7_919 % 5) as u32);
            let priorities: Vec<(JobId, u32)> = unplaced.heads().into_iter().map(priority).collect();
            cursor.put_association_into_waiting_lists(&mut self.ledger, &self.book, unplaced, &priorities);
        }
        self.discard_results(cursor);
        cursor.release_next(&mut self.ledger, &self.book, undecided)
    }

    fn discard_results(&mut self, cursor: &mut ScanCursor) {
        if self.visits_all {
            self.ledger.discard_scan_results();
            cursor.reset_search_positions();
        }
    }

    /// Moves a released job to its next state. The test chooses the next state by the job id.
    fn advance_released_job(&mut self, id: JobId) {
        match id.0 % 5 {
            0 => {}
            1 => {
                self.ledger.change(id, |job| (job.demand, job.phase) = (Demand::Resting, Phase::Sched));
            }
            2 => {
                self.ledger.change(id, |job| job.phase = Phase::Sched);
                self.end_job(id.0 as usize);
            }
            _ => {
                self.ledger.change(id, |job| job.phase = Phase::Sched);
            }
        }
    }

    fn run_scan(
        &mut self,
        user: u32,
        line: Candidates,
        undecided: &BTreeSet<AssociationId>,
    ) -> Vec<(Released, Places)> {
        let mut cursor = ScanCursor::new(self.find_association(user), line);
        let mut all = Vec::new();
        while let Some(released) = self.release_next(&mut cursor, undecided) {
            if released.is_free {
                self.advance_released_job(released.id);
            }
            all.push((released, self.places()));
        }
        self.comparisons += cursor.comparisons();
        // If another plugin blocks a released job, its reservation ends with the scan.
        for (released, _) in &all {
            let is_blocked = |job: &&Job| job.phase == Phase::Depend && job.reservation == Reservation::Given;
            if self.ledger.job(released.id).filter(is_blocked).is_some() {
                self.ledger.change(released.id, |job| job.reservation = Reservation::Blocked);
            }
        }
        all
    }

    fn apply(&mut self, id: u64, op: &Op) -> Vec<Vec<(Released, Places)>> {
        self.ledger.discard_scan_results();
        match op {
            Op::Submit { user, queue, nodes, cores, is_blocked, runs } => {
                let one = Job {
                    user: UserId(*user),
                    admission: Admission::Admitted(self.find_association(*user)),
                    queue: QUEUES[*queue].map(Into::into),
                    size: Size::new(*nodes, *cores, 0),
                    block_state: if *is_blocked { BlockState::Blocked } else { BlockState::Unblocked },
                    ..make_job(&self.book, Phase::Depend)
                };
                self.add_job(id, one, *runs);
            }
            Op::End(at) => self.end_job(*at),
            Op::TakeHeadroom(many) => self.ledger.take_headroom(*many),
            Op::ChangePriorities => {
                self.shift += 1;
                self.ledger.mark_priorities_changed();
            }
            Op::Scans(scans, undecided) => {
                let undecided = undecided.iter().map(|user| self.find_association(*user)).collect();
                return scans.iter().map(|(user, line)| self.run_scan(*user, *line, &undecided)).collect();
            }
            Op::ScanAll => {
                self.ledger.request_all_position_updates();
                let all: BTreeSet<AssociationId> = self.ledger.associations_with_held().collect();
                let users = (1..=USERS).filter(|user| all.contains(&self.find_association(*user)));
                let users: Vec<u32> = users.collect();
                return users
                    .into_iter()
                    .map(|user| self.run_scan(user, Candidates::All, &BTreeSet::new()))
                    .collect();
            }
        }
        Vec::new()
    }
}

impl Ledger {
    fn take_headroom(&mut self, count: u64) {
        let ids: Vec<ScopeId> = self.accounts.scopes.iter().map(|(id, _)| id).collect();
        for id in ids {
            self.accounts.scopes.get_mut(id).into_iter().for_each(|scope| scope.taken += count);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_scan_that_skips_associations_releases_the_same_jobs_as_a_scan_that_visits_all(
        caps in prop::array::uniform6(1..7i64), ops in prop::collection::vec(any_op(), 1..120),
    ) {
        let book = make_book_with_site_limits(USERS, caps);
        let (mut skipping, mut visiting) = (World::new(&book, false), World::new(&book, true));
        for (id, op) in (1..).zip(&ops) {
            let (taken, wanted) = (skipping.apply(id, op), visiting.apply(id, op));
            prop_assert_eq!(taken, wanted, "{:?}", op);
            prop_assert_eq!(skipping.places(), visiting.places(), "{:?}", op);
            prop_assert_eq!(skipping.ledger.drift(), []);
        }
        prop_assert!(skipping.comparisons <= visiting.comparisons);
    }
}

/// Returns a site with one running job. Each further user has two held jobs: one job lacks nodes, and one job lacks
/// cores. A job that needs the smaller number of nodes and the smaller number of cores would fit.
fn make_site_without_headroom(users: u32) -> World {
    let mut world = World::new(&make_book_with_site_limits(users, [9, 9, 999, 999, 999, 999]), false);
    let mut add_job = |id: u64, user: u32, nodes, cores| {
        let admission = Admission::Admitted(world.find_association(user));
        let size = Size::new(nodes, cores, 0);
        let one =
            Job { user: UserId(user), admission, queue: None, size, ..make_job(&world.book, Phase::Depend) };
        world.add_job(id, one, true);
    };
    add_job(1, 1, 8, 8);
    for user in 2..=users {
        add_job(1_000 + u64::from(user), user, 1, 3);
        add_job(2_000 + u64::from(user), user, 3, 1);
    }
    world
}

/// Runs a scan, which must release no job. Returns its number of comparisons.
fn measure_scan_cost(world: &mut World, user: u32) -> usize {
    let before = world.comparisons;
    assert_eq!(world.run_scan(user, Candidates::All, &BTreeSet::new()), []);
    world.comparisons - before
}

/// Many associations wait for the same headroom. The first scan visits each of them, and later scans only read the waiting list.
#[test]
fn no_scan_visits_an_association_again_while_nothing_changes() {
    let mut world = make_site_without_headroom(USERS);
    let first = measure_scan_cost(&mut world, 2);
    let others: Vec<usize> = (3..=USERS).map(|user| measure_scan_cost(&mut world, user)).collect();
    assert!(others.iter().all(|cost| cost * 4 < first), "{first} {others:?}");
    // After the addition and the removal of a job, a scan visits each association again.
    add_and_remove_job(&mut world);
    let again = measure_scan_cost(&mut world, 3);
    assert!(again * 2 > first, "{first} {again}");
}

/// If a scan started at the front of the waiting list for each association, its cost would be quadratic in the number of users.
#[test]
fn a_scan_visits_each_association_of_a_scope_once() {
    let measure_costs = |users: u32| {
        let mut world = make_site_without_headroom(users);
        // The first scan puts the associations into the waiting list.
        (measure_scan_cost(&mut world, 2), add_and_remove_job(&mut world), measure_scan_cost(&mut world, 3))
    };
    let ((_, (), few), (_, (), many)) = (measure_costs(100), measure_costs(400));
    assert!(many < 5 * few, "{few} {many}");
}

fn add_and_remove_job(world: &mut World) {
    let admission = Admission::Admitted(world.find_association(1));
    let one = Job { admission, size: Size::new(0, 0, 0), ..make_job(&world.book, Phase::Sched) };
    world.ledger.insert(JobId(99), one);
    world.ledger.remove(JobId(99));
}
