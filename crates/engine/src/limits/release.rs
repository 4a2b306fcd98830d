// SPDX-License-Identifier: LGPL-3.0-only
//! Release scans: which held jobs go, and in which order.

use super::counter::Counter;
use super::ledger::Class;
use super::place::Key;
use super::scope::{LimitScope, ScopeId};
use super::{Demand, Grant, HoldName, HoldSet, Keepers, Ledger};
use crate::accounts::{AssociationId, Book};
use crate::ids::JobId;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// A decision about one held job, which the ledger has already recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Released {
    /// The job.
    pub id: JobId,
    /// The names to remove, in the order of the limits.
    pub names: Vec<HoldName>,
    /// Whether these were the last names. Then the job reserves headroom, in RUN until it is known that it would not be scheduled.
    pub is_free: bool,
}

/// Which held jobs take part in a release scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Line {
    /// Those that no other plugin keeps in DEPEND.
    KeptByNobodyElse,
    /// All.
    All,
}

/// A release scan over the held jobs of an association, and of all associations that share a limit with it. The value holds the cursor of
/// the scan, so that each step can be carried out before the next is decided.
///
/// Within an association, jobs that no other plugin keeps come before the others, and earlier ids before later ones. The lines of scopes
/// (`place.rs`) order the associations. Headroom only shrinks from one step to the next, because a job that gives headroom back begins a
/// scan of its own. So the scan skips an association in which it has found no job that changes.
#[derive(Clone, Debug)]
pub struct Walk {
    association: AssociationId,
    line: Line,
    /// Associations that the scan has begun to look at.
    courses: BTreeMap<AssociationId, Course>,
    /// Associations without a further job that changes.
    tried: BTreeSet<AssociationId>,
    /// How far the scan has come in the line of each scope.
    passed: BTreeMap<ScopeId, Passed>,
    looks: usize,
}

/// How far a scan has come in the line of a scope.
#[derive(Clone, Debug)]
struct Passed {
    /// Each association up to here was looked at, finds no headroom, or takes no part.
    upto: Key,
    /// How much of each limit was in use. If a job ends meanwhile, the scan begins the line again.
    used: Box<[u64]>,
}

/// The cost of computing the headroom for a class of held jobs, in comparisons of a size.
const ROOM: usize = 8;

impl Walk {
    /// Returns the association with which the scan began.
    pub fn association(&self) -> AssociationId {
        self.association
    }

    /// Returns the cost so far: how many sizes were compared with headroom.
    pub fn looks(&self) -> usize {
        self.looks
    }

    pub(super) fn was_tried(&self, association: AssociationId) -> bool {
        self.tried.contains(&association)
    }

    /// Returns the place in the line of a scope after which the search continues.
    pub(super) fn passed(&self, id: ScopeId, scope: &LimitScope) -> Option<Key> {
        let passed = self.passed.get(&id)?;
        let gave_room = scope.counters.iter().zip(&passed.used).any(|(counter, used)| counter.used() < *used);
        (!gave_room).then_some(passed.upto)
    }

    /// Notes that the search in a line has come to `upto`, or no further if that is `None`, after `looks` comparisons.
    pub(super) fn pass(&mut self, id: ScopeId, scope: &LimitScope, upto: Option<Key>, looks: usize) {
        self.looks += looks;
        if let Some(upto) = upto {
            let used = scope.counters.iter().map(Counter::used).collect();
            self.passed.insert(id, Passed { upto, used });
        }
    }

    /// Notes the place of an association in a line. If the search has come further, it begins again.
    pub(super) fn note_place(&mut self, id: ScopeId, key: Key) {
        if !self.was_tried(key.association) && self.passed.get(&id).is_some_and(|passed| key < passed.upto) {
            self.passed.remove(&id);
        }
    }

    pub(super) fn admits(&self, keepers: Keepers) -> bool {
        self.line == Line::All || keepers == Keepers::NobodyElse
    }

    #[cfg(test)]
    pub(super) fn begin_lines_anew(&mut self) {
        self.passed.clear();
    }
}

/// The part of a scan over the held jobs of one association. It costs O(decisions + classes) searches, whatever the number of held jobs.
#[derive(Clone, Debug)]
struct Course {
    /// Of each class the next job that was to change when the scan found it.
    found: BinaryHeap<Reverse<(Keepers, JobId, Class)>>,
    /// Classes to search, each with the job after which the search continues. The search follows when the last step was carried out: only
    /// then is it known whether the released job reserves headroom in RUN.
    unsought: Vec<(Class, Option<JobId>)>,
}

impl Ledger {
    /// Begins a release scan.
    pub fn walk(&self, association: AssociationId, line: Line) -> Walk {
        let (courses, tried, passed) = Default::default();
        Walk { association, line, courses, tried, passed, looks: 0 }
    }

    /// Notes that something has changed, so that each association is worth a look. Until then [`release_next`](Ledger::release_next)
    /// skips associations in which a scan found no job that changes. After a push there is a scan for each association with held jobs, and
    /// without this each scan would look at all associations that wait for the same headroom.
    pub fn look_anew(&mut self) {
        self.in_vain.clear();
        self.unplaced.extend(self.passed_over.drain(..));
    }

    /// Decides the next step: returns the next held job that changes. A job that exceeds no limit is freed, and reserves headroom at once.
    /// Any other job loses the names of limits that have headroom, but never its last name. Names of limits over scopes go only with the
    /// last: otherwise all jobs that wait would lose and get them whenever one job fits. Jobs of the associations in `undecided` are
    /// skipped. Before each step, the caller [places](Ledger::place) the [unplaced](Ledger::unplaced) associations.
    pub fn release_next(
        &mut self,
        book: &Book,
        walk: &mut Walk,
        undecided: &BTreeSet<AssociationId>,
    ) -> Option<Released> {
        loop {
            let association = self.candidate(walk)?;
            let waits = self.account_of(association).is_some_and(|account| !account.waiting.is_nowhere());
            let is_in_vain = self.in_vain.get(&association).is_some_and(|line| *line >= walk.line);
            if is_in_vain && !undecided.contains(&association) {
                self.passed_over.extend(Some(association).filter(|_| waits));
            } else if !undecided.contains(&association) {
                let begun = walk.courses.remove(&association);
                let is_whole = begun.is_none();
                let mut course = begun.unwrap_or_else(|| self.course(association, walk.line));
                if let Some(released) = self.next_of(book, association, &mut course, &mut walk.looks) {
                    walk.courses.insert(association, course);
                    return Some(released);
                }
                // A job that was skipped before others went may find headroom since then, if they have ended.
                if is_whole {
                    let line = self.in_vain.entry(association).or_insert(walk.line);
                    *line = walk.line.max(*line);
                }
                // The association may have to wait elsewhere.
                self.unplaced.extend(Some(association).filter(|_| waits));
            }
            walk.tried.insert(association);
        }
    }

    /// Begins the scan over one association. Classes take no part while eventlogs are being read of jobs with which they share a limit.
    fn course(&mut self, association: AssociationId, line: Line) -> Course {
        let mut unsought = Vec::new();
        let classes = if self.is_unread(association) { Vec::new() } else { self.classes(association) };
        for class in classes {
            if line == Line::KeptByNobodyElse && class.keepers == Keepers::Others {
                continue;
            }
            if self.shares_with_unread(association, class.queue.as_ref()) {
                self.put_off.insert(association);
            } else {
                unsought.push((class, None));
            }
        }
        Course { found: BinaryHeap::new(), unsought }
    }

    /// Returns the associations that have taken no part in a scan since the last call because eventlogs were being read.
    pub fn take_put_off(&mut self) -> BTreeSet<AssociationId> {
        std::mem::take(&mut self.put_off)
    }

    fn next_of(
        &mut self,
        book: &Book,
        association: AssociationId,
        course: &mut Course,
        looks: &mut usize,
    ) -> Option<Released> {
        loop {
            while let Some((class, after)) = course.unsought.pop() {
                let room = self.room(book, association, class.queue.as_ref());
                *looks += ROOM;
                let changes = |size| {
                    *looks += 1;
                    may_change(class.names, room.exceeded(size))
                };
                if let Some(id) = self.next_held(association, &class, after, changes) {
                    course.found.push(Reverse((class.keepers, id, class)));
                }
            }
            let Reverse((_, id, class)) = course.found.pop()?;
            let exceeded = self.is_in_line(association, &class, id).then(|| self.exceeded_by(book, id));
            let names = class.names;
            course.unsought.push((class, Some(id)));
            // Since the scan found the job, the job may have left the line, or other jobs may have taken the headroom.
            let Some(exceeded) = exceeded.filter(|exceeded| may_change(names, *exceeded)) else { continue };
            let (is_free, going) = (exceeded.is_empty(), going(names, exceeded));
            let rules = self.rules();
            let names = self.change(id, |job| {
                if is_free {
                    (job.grant, job.demand) = (Grant::Given, Demand::ToRun);
                }
                rules.members(going).filter_map(|hold| job.names.remove(hold)).collect()
            });
            return Some(Released { id, names: names.unwrap_or_default(), is_free });
        }
    }
}

/// Returns true if a held job would go or lose a name. A search skips jobs of which this is false.
pub(super) fn may_change(names: HoldSet, exceeded: HoldSet) -> bool {
    exceeded.is_empty() || !going(names, exceeded).is_empty()
}

/// Returns the names to remove: all if no limit is exceeded, and otherwise those of limits that have headroom, except the last.
fn going(names: HoldSet, exceeded: HoldSet) -> HoldSet {
    let satisfied = names.without(exceeded);
    if exceeded.is_empty() {
        return satisfied;
    }
    let going = if satisfied == names { names.without_last() } else { satisfied };
    going.without(names.over_scopes())
}
