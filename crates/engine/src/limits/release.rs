// SPDX-License-Identifier: LGPL-3.0-only
//! Which held jobs may go: first come, first served, among those that nobody else keeps; then among the others. Where
//! associations share a limit, the one whose first job would have the highest price comes first.

use super::counter::Counter;
use super::groups::{Group, GroupId};
use super::ledger::Class;
use super::place::Key;
use super::{Demand, Grant, HoldName, HoldSet, Keepers, Ledger};
use crate::accounts::{AssociationId, Book};
use crate::ids::JobId;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// A decision about one held job. The ledger has already taken it over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Released {
    /// The job.
    pub id: JobId,
    /// HoldNames to take off it, in the order of the limits.
    pub names: Vec<HoldName>,
    /// Whether these were the last: the job is free, and reserves its headroom from now on, that to run too until it is
    /// known that it won't be scheduled.
    pub is_free: bool,
}

/// Who takes part in a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Line {
    /// Those that nobody else keeps in DEPEND.
    KeptByNobodyElse,
    /// All that are held.
    All,
}

/// A walk along the held jobs of an association, and of all that share a limit with it: room that is made there is not its
/// own. Within an association, in ascending id, those that others keep in DEPEND too after those that nobody else keeps;
/// among associations, as they stand in line (see `place.rs`). It is a value: between two steps the last one may be carried
/// out.
///
/// Headroom only shrinks from one step to the next (whoever makes room begins a walk of their own), so an association of
/// which nobody was found to change need not be looked at again, nor passed over in a line one by one.
#[derive(Clone, Debug)]
pub struct Walk {
    association: AssociationId,
    line: Line,
    /// Associations that are being looked at.
    courses: BTreeMap<AssociationId, Course>,
    /// Those of which nobody is left to change.
    tried: BTreeSet<AssociationId>,
    /// How far it has come in the line of each group.
    passed: BTreeMap<GroupId, Passed>,
    /// What it has cost so far, in sizes that were compared with the room there is: of held jobs, and of who stands in line.
    looks: usize,
}

/// Up to here whoever stands in the line of a group was looked at, or finds no room there, or takes no part.
#[derive(Clone, Debug)]
struct Passed {
    upto: Key,
    /// What was in use of the group's limits then. A job that ends meanwhile gives room back: for those that found none.
    used: Box<[u64]>,
}

/// What it costs to find out which room there is for a class of held jobs, in looks.
const ROOM: usize = 8;

impl Walk {
    /// Whose held jobs these are.
    pub fn association(&self) -> AssociationId {
        self.association
    }

    /// What it has cost so far.
    pub fn looks(&self) -> usize {
        self.looks
    }

    pub(super) fn was_tried(&self, association: AssociationId) -> bool {
        self.tried.contains(&association)
    }

    /// After whom the search in a line goes on.
    pub(super) fn passed(&self, id: GroupId, group: &Group) -> Option<Key> {
        let passed = self.passed.get(&id)?;
        let gave_room = group.meters.iter().zip(&passed.used).any(|(meter, used)| meter.used() < *used);
        (!gave_room).then_some(passed.upto)
    }

    /// The search in a line has come to here, after so many looks; no further than it had if that is `None`.
    pub(super) fn pass(&mut self, id: GroupId, group: &Group, upto: Option<Key>, looks: usize) {
        self.looks += looks;
        if let Some(upto) = upto {
            let used = group.meters.iter().map(Counter::used).collect();
            self.passed.insert(id, Passed { upto, used });
        }
    }

    /// An association stands in a line: one that is to be looked at yet is not to be missed.
    pub(super) fn lines_up(&mut self, id: GroupId, key: Key) {
        if !self.was_tried(key.association) && self.passed.get(&id).is_some_and(|passed| key < passed.upto) {
            self.passed.remove(&id);
        }
    }

    pub(super) fn admits(&self, is_kept: bool) -> bool {
        self.line == Line::All || !is_kept
    }

    #[cfg(test)]
    pub(super) fn begin_lines_anew(&mut self) {
        self.passed.clear();
    }
}

/// A walk along the held jobs of one association. A job that was found not to change need not be looked at again. The cost
/// is O(decisions + classes) searches, never O(held).
#[derive(Clone, Debug)]
struct Course {
    association: AssociationId,
    /// Of each class the next member that was to change when it was looked for.
    turns: BinaryHeap<Reverse<(Keepers, JobId, Class)>>,
    /// Classes whose next member is to be looked for, and after which one: not before the last step was carried out,
    /// since only then is it known whether the job that went takes a place to run.
    unsought: Vec<(Class, Option<JobId>)>,
}

impl Ledger {
    /// Begins a walk.
    pub fn walk(&self, association: AssociationId, line: Line) -> Walk {
        Walk {
            association,
            line,
            courses: BTreeMap::new(),
            tried: BTreeSet::new(),
            passed: BTreeMap::new(),
            looks: 0,
        }
    }

    /// Goes on to the next held job that changes. A job none of whose limits is exceeded is freed and reserves its
    /// headroom at once; of any other job the names that are satisfied go, but never the last. Names of limits over scopes
    /// go with the last: they would come and go on all who wait whenever one place is free. Jobs of the associations in
    /// `undecided` are left as they are. Before each step whoever is [unplaced](Ledger::unplaced) is to be placed.
    pub fn release_next(
        &mut self,
        book: &Book,
        walk: &mut Walk,
        undecided: &BTreeSet<AssociationId>,
    ) -> Option<Released> {
        loop {
            let association = self.candidate(walk)?;
            if undecided.contains(&association) {
                walk.tried.insert(association);
                continue;
            }
            if self.in_vain.is_known(association, walk.line) {
                walk.tried.insert(association);
                if self.stands_in_line(association) {
                    self.in_vain.passed_over.push(association);
                }
                continue;
            }
            let begun = walk.courses.remove(&association);
            let is_all = begun.is_none();
            let mut course = begun.unwrap_or_else(|| self.course(association, walk.line));
            match self.next_of(book, &mut course, &mut walk.looks) {
                Some(released) => {
                    walk.courses.insert(association, course);
                    return Some(released);
                }
                None => {
                    walk.tried.insert(association);
                    // Whom a course passed before others went may find room since then, if they ended.
                    if is_all {
                        self.in_vain.note(association, walk.line);
                    }
                    // It may turn out to wait elsewhere.
                    if self.stands_in_line(association) {
                        self.unplaced.insert(association);
                    }
                }
            }
        }
    }

    fn stands_in_line(&self, association: AssociationId) -> bool {
        self.account_of(association).is_some_and(|account| !account.waiting.is_nowhere())
    }

    /// Nobody takes part while eventlogs are being read of the association's jobs, or of others with which it shares a limit:
    /// then its turn is put off.
    fn course(&mut self, association: AssociationId, line: Line) -> Course {
        let mut classes = if self.is_unread(association) { Vec::new() } else { self.classes(association) };
        classes.retain(|class| line == Line::All || class.keepers == Keepers::NobodyElse);
        let takes_part = |class: &Class| !self.shares_with_unread(association, class.queue.as_ref());
        let (known, later): (Vec<Class>, Vec<Class>) = classes.into_iter().partition(takes_part);
        if !later.is_empty() {
            self.put_off.insert(association);
        }
        let unsought = known.into_iter().map(|class| (class, None)).collect();
        Course { association, turns: BinaryHeap::new(), unsought }
    }

    /// Associations whose turn was put off because of eventlogs that were being read.
    pub fn take_put_off(&mut self) -> BTreeSet<AssociationId> {
        std::mem::take(&mut self.put_off)
    }

    fn next_of(&mut self, book: &Book, course: &mut Course, looks: &mut usize) -> Option<Released> {
        let association = course.association;
        loop {
            while let Some((class, after)) = course.unsought.pop() {
                let room = self.room(book, association, class.queue.as_ref());
                *looks += ROOM;
                let changes = |size| {
                    *looks += 1;
                    may_change(class.names, room.exceeded(size))
                };
                if let Some(id) = self.next_held(association, &class, after, changes) {
                    course.turns.push(Reverse((class.keepers, id, class)));
                }
            }
            let Reverse((_, id, class)) = course.turns.pop()?;
            let exceeded = self.is_in_line(association, &class, id).then(|| self.exceeded_by(book, id));
            let names = class.names;
            course.unsought.push((class, Some(id)));
            // What was carried out since it was found may have taken it out of the line, or the room it would have had.
            let Some(exceeded) = exceeded else { continue };
            let (is_free, going) = (exceeded.is_empty(), going(names, exceeded));
            if !is_free && going.is_empty() {
                continue;
            }
            let rules = self.rules();
            let names = self.change(id, |job| {
                if is_free {
                    job.grant = Grant::Given;
                    job.demand = Demand::ToRun;
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

/// The names to take off: all where no limit is exceeded, else those that are satisfied, but never the last.
fn going(names: HoldSet, exceeded: HoldSet) -> HoldSet {
    let satisfied = names.without(exceeded);
    if exceeded.is_empty() {
        return satisfied;
    }
    let going = if satisfied == names { names.without_last() } else { satisfied };
    going.without(names.over_scopes())
}
