// SPDX-License-Identifier: LGPL-3.0-only
//! A scan that skips associations releases the same jobs in the same order as a scan that visits all, and leaves the same places in all
//! scopes.

use super::super::place::Key;
use super::super::scope::ScopeId;
use super::*;
use crate::accounts::{Cap, Policy, SiteLimit, Target};
use crate::ids::Amount;
use proptest::prelude::*;
use std::collections::BTreeSet;

const USERS: u32 = 8;
const QUEUES: [Option<&str>; 2] = [None, Some("q1")];

/// Returns a site with `users` users in two banks. `caps` are the limits on each bank, on both banks together, and on each user.
fn book_of(users: u32, caps: [i64; 6]) -> Book {
    let record = |user: u32| {
        let mut one = book(9).association(book(9).find(UserId(1), None).unwrap()).unwrap().clone();
        (one.user, one.bank) = (UserId(user), if user.is_multiple_of(2) { "A" } else { "B" }.into());
        one.max_running_jobs = Limit(if user == 3 { 1 } else { 5 });
        AssociationRecord { def_bank: one.bank.clone(), association: one, fairshare: 0.5 }
    };
    let limit = |target, queue: Option<&str>, amount: &str, cap| SiteLimit {
        target,
        queue: queue.map(Into::into),
        amount: Amount::parse(amount).unwrap(),
        cap: Cap { limit: Limit(cap), is_given: false },
    };
    let bank = |name: &str| Target::Bank(name.into());
    let mut book = Book::default();
    book.replace(Policy {
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
        ..Policy::default()
    });
    book
}

#[derive(Clone, Debug)]
enum Op {
    Come {
        user: u32,
        queue: usize,
        nodes: u64,
        cores: u64,
        is_kept: bool,
        runs: bool,
    },
    End(usize),
    /// In each scope, this number of jobs takes headroom.
    Overtaken(u64),
    Prices,
    /// Consecutive scans. They release no job of the users in the set.
    Walks(Vec<(u32, Line)>, BTreeSet<u32>),
    /// All associations are placed again. Then each association with held jobs has a scan.
    All,
}

fn op() -> impl Strategy<Value = Op> {
    let line = || prop_oneof![4 => Just(Line::All), 1 => Just(Line::KeptByNobodyElse)];
    let roots = prop::collection::vec((1..=USERS, line()), 1..6);
    prop_oneof![
        8 => (1..=USERS, 0..2usize, 0..4u64, 0..4u64, any::<bool>(), any::<bool>()).prop_map(
            |(user, queue, nodes, cores, is_kept, runs)| Op::Come { user, queue, nodes, cores, is_kept, runs }
        ),
        3 => (0..32usize).prop_map(Op::End),
        1 => (40..OVERTAKEN + 10).prop_map(Op::Overtaken),
        1 => Just(Op::Prices),
        3 => (roots, prop::collection::btree_set(1..=USERS, 0..2)).prop_map(|(roots, not)| Op::Walks(roots, not)),
        2 => Just(Op::All),
    ]
}

#[derive(Clone)]
struct World {
    book: Book,
    ledger: Ledger,
    /// Whether each scan visits all associations.
    is_plain: bool,
    /// A number that increases when the priorities change.
    shift: u64,
    /// The cost of all scans until now.
    looks: usize,
}

/// The places in each scope, and the overtaken jobs in the order of their overtaking.
type Places = (Vec<(ScopeId, Key, u64)>, Vec<JobId>);

impl World {
    fn new(book: &Book, is_plain: bool) -> World {
        let mut ledger = Ledger::new(RULES);
        ledger.regroup(book);
        World { book: book.clone(), ledger, is_plain, shift: 0, looks: 0 }
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
    fn add_job(&mut self, id: u64, one: Job, runs: bool) {
        let association = one.association().unwrap();
        self.ledger.assign_scopes(&self.book, association);
        let headroom = Limits::new(&self.ledger, &self.book).headroom(association, one.queue.as_ref());
        let exceeded = headroom.exceeded(one.size);
        let mut one = one;
        if exceeded.is_empty() {
            one.phase = if runs { Phase::Run } else { Phase::Sched };
        } else {
            one.names.add_all(RULES, exceeded);
        }
        self.ledger.insert(JobId(id), one);
    }

    fn end(&mut self, at: usize) {
        let count = self.ledger.job_count().max(1);
        let id = self.ledger.jobs().nth(at % count).map(|(id, _)| id);
        id.into_iter().for_each(|id| drop(self.ledger.remove(id)));
    }

    fn step(&mut self, walk: &mut ScanCursor, undecided: &BTreeSet<AssociationId>) -> Option<Released> {
        self.forget_results(walk);
        for unplaced in walk.unplaced(&mut self.ledger, &self.book) {
            let priority = |id: JobId| (id, ((id.0 + self.shift) * 7_919 % 5) as u32);
            let priorities: Vec<(JobId, u32)> = unplaced.heads().into_iter().map(priority).collect();
            walk.place_association(&mut self.ledger, &self.book, unplaced, &priorities);
        }
        self.forget_results(walk);
        walk.release_next(&mut self.ledger, &self.book, undecided)
    }

    fn forget_results(&mut self, walk: &mut ScanCursor) {
        if self.is_plain {
            self.ledger.note_any_change();
            walk.restart_lines();
        }
    }

    /// Moves a released job to its next state. Depending on the id, the job stays in DEPEND, cannot be scheduled, or ends other jobs.
    fn move_on(&mut self, id: JobId) {
        match id.0 % 5 {
            0 => {}
            1 => {
                self.ledger.change(id, |job| (job.demand, job.phase) = (Demand::Resting, Phase::Sched));
            }
            2 => {
                self.ledger.change(id, |job| job.phase = Phase::Sched);
                self.end(id.0 as usize);
            }
            _ => {
                self.ledger.change(id, |job| job.phase = Phase::Sched);
            }
        }
    }

    fn walk(
        &mut self,
        user: u32,
        line: Line,
        undecided: &BTreeSet<AssociationId>,
    ) -> Vec<(Released, Places)> {
        let mut walk = ScanCursor::new(self.find_association(user), line);
        let mut all = Vec::new();
        while let Some(released) = self.step(&mut walk, undecided) {
            if released.is_free {
                self.move_on(released.id);
            }
            all.push((released, self.places()));
        }
        self.looks += walk.comparisons();
        // Reservations end with the scan for jobs that other plugins hold.
        for (released, _) in &all {
            let stays = |job: &&Job| job.phase == Phase::Depend && job.grant == Grant::Given;
            if self.ledger.job(released.id).filter(stays).is_some() {
                self.ledger.change(released.id, |job| job.grant = Grant::Blocked);
            }
        }
        all
    }

    fn apply(&mut self, id: u64, op: &Op) -> Vec<Vec<(Released, Places)>> {
        // The engine makes this call at each event.
        self.ledger.note_any_change();
        match op {
            Op::Come { user, queue, nodes, cores, is_kept, runs } => {
                let one = Job {
                    user: UserId(*user),
                    admission: Admission::Admitted(self.find_association(*user)),
                    queue: QUEUES[*queue].map(Into::into),
                    size: Size::new(*nodes, *cores, 0),
                    keepers: if *is_kept { Keepers::Others } else { Keepers::NobodyElse },
                    ..job(&self.book, Phase::Depend)
                };
                self.add_job(id, one, *runs);
            }
            Op::End(at) => self.end(*at),
            Op::Overtaken(many) => self.ledger.overtake(*many),
            Op::Prices => {
                self.shift += 1;
                self.ledger.note_priorities_changed();
            }
            Op::Walks(roots, undecided) => {
                let undecided = undecided.iter().map(|user| self.find_association(*user)).collect();
                return roots.iter().map(|(user, line)| self.walk(*user, *line, &undecided)).collect();
            }
            Op::All => {
                self.ledger.recompute_all_places();
                let all: BTreeSet<AssociationId> = self.ledger.associations_with_held().collect();
                let users = (1..=USERS).filter(|user| all.contains(&self.find_association(*user)));
                let users: Vec<u32> = users.collect();
                return users.into_iter().map(|user| self.walk(user, Line::All, &BTreeSet::new())).collect();
            }
        }
        Vec::new()
    }
}

impl Ledger {
    fn overtake(&mut self, many: u64) {
        let ids: Vec<ScopeId> = self.accounts.scopes.iter().map(|(id, _)| id).collect();
        for id in ids {
            self.accounts.scopes.get_mut(id).into_iter().for_each(|scope| scope.taken += many);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_scan_that_skips_associations_releases_the_same_jobs_as_one_that_looks_at_all(
        caps in prop::array::uniform6(1..7i64), ops in prop::collection::vec(op(), 1..120),
    ) {
        let book = book_of(USERS, caps);
        let (mut ours, mut plain) = (World::new(&book, false), World::new(&book, true));
        for (id, op) in (1..).zip(&ops) {
            let (taken, wanted) = (ours.apply(id, op), plain.apply(id, op));
            prop_assert_eq!(taken, wanted, "{:?}", op);
            prop_assert_eq!(ours.places(), plain.places(), "{:?}", op);
            prop_assert_eq!(ours.ledger.drift(), []);
        }
        prop_assert!(ours.looks <= plain.looks);
    }
}

/// Returns a site with one running job. Each user has a held job that lacks nodes and one that lacks cores. A job with the smaller nodes
/// and the smaller cores of the two would fit.
fn world_without_headroom(users: u32) -> World {
    let mut world = World::new(&book_of(users, [9, 9, 999, 999, 999, 999]), false);
    let mut add_job = |id: u64, user: u32, nodes, cores| {
        let admission = Admission::Admitted(world.find_association(user));
        let size = Size::new(nodes, cores, 0);
        let one = Job { user: UserId(user), admission, queue: None, size, ..job(&world.book, Phase::Depend) };
        world.add_job(id, one, true);
    };
    add_job(1, 1, 8, 8);
    for user in 2..=users {
        add_job(1_000 + u64::from(user), user, 1, 3);
        add_job(2_000 + u64::from(user), user, 3, 1);
    }
    world
}

/// Returns the cost of a scan that releases no job.
fn cost(world: &mut World, user: u32) -> usize {
    let before = world.looks;
    assert_eq!(world.walk(user, Line::All, &BTreeSet::new()), []);
    world.looks - before
}

/// Many associations wait for the same headroom. The first scan visits each of them. Later scans only read the scope's list.
#[test]
fn a_scan_looks_at_no_association_twice_while_nothing_changes() {
    let mut world = world_without_headroom(USERS);
    let first = cost(&mut world, 2);
    let others: Vec<usize> = (3..=USERS).map(|user| cost(&mut world, user)).collect();
    assert!(others.iter().all(|cost| cost * 4 < first), "{first} {others:?}");
    // After a job was added or ended, a scan visits each association again.
    add_and_remove_job(&mut world);
    let again = cost(&mut world, 3);
    assert!(again * 2 > first, "{first} {again}");
}

/// A scan that restarted at the front of the list for each association would cost a quadratic time.
#[test]
fn a_scan_goes_through_the_associations_of_a_scope_once() {
    let of = |users: u32| {
        let mut world = world_without_headroom(users);
        // The first scan places the associations.
        (cost(&mut world, 2), add_and_remove_job(&mut world), cost(&mut world, 3))
    };
    let ((_, (), few), (_, (), many)) = (of(100), of(400));
    assert!(many < 5 * few, "{few} {many}");
}

fn add_and_remove_job(world: &mut World) {
    let admission = Admission::Admitted(world.find_association(1));
    let one = Job { admission, size: Size::new(0, 0, 0), ..job(&world.book, Phase::Sched) };
    world.ledger.insert(JobId(99), one);
    world.ledger.remove(JobId(99));
}
