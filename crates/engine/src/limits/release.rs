// SPDX-License-Identifier: LGPL-3.0-only
//! Release scans: which held jobs go, and in which order.

use super::counter::Counter;
use super::ledger::Class;
use super::place::Key;
use super::scope::{LimitScope, ScopeId};
use super::{Demand, Grant, HoldName, HoldSet, Keepers, Ledger, Limits};
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
pub struct ScanCursor {
    association: AssociationId,
    line: Line,
    /// Associations that the scan has begun to look at.
    scans: BTreeMap<AssociationId, AssociationScan>,
    /// Associations without a further job that changes.
    tried: BTreeSet<AssociationId>,
    /// How far the scan has come in the line of each scope.
    search_ends: BTreeMap<ScopeId, SearchEnd>,
    comparisons: usize,
}

/// How far a scan has come in the line of a scope.
#[derive(Clone, Debug)]
struct SearchEnd {
    /// Each association up to here was looked at, finds no headroom, or takes no part.
    upto: Key,
    /// How much of each limit was in use. If a job ends meanwhile, the scan begins the line again.
    used: Box<[u64]>,
}

/// The cost of computing the headroom for a class of held jobs, in comparisons of a size.
const HEADROOM_COST: usize = 8;

impl ScanCursor {
    /// Begins a release scan.
    pub fn new(association: AssociationId, line: Line) -> ScanCursor {
        let (scans, tried, search_ends) = Default::default();
        ScanCursor { association, line, scans, tried, search_ends, comparisons: 0 }
    }

    /// Decides the next step: returns the next held job that changes. A job that exceeds no limit is freed, and reserves headroom at once.
    /// Any other job loses the names of limits that have headroom, but never its last name. Names of limits over scopes go only with the
    /// last: otherwise all jobs that wait would lose and get them whenever one job fits. Jobs of the associations in `undecided` are
    /// skipped. Before each step, the caller [places](ScanCursor::place_association) the [unplaced](ScanCursor::unplaced) associations.
    pub fn release_next(
        &mut self,
        ledger: &mut Ledger,
        book: &Book,
        undecided: &BTreeSet<AssociationId>,
    ) -> Option<Released> {
        loop {
            let association = self.candidate(ledger)?;
            let waits =
                ledger.accounts.get(association).is_some_and(|account| !account.waiting.has_no_place());
            if !undecided.contains(&association) && !ledger.held.skip(association, self.line, waits) {
                let begun = self.scans.remove(&association);
                let is_whole = begun.is_none();
                let mut scan =
                    begun.unwrap_or_else(|| AssociationScan::begin(ledger, association, self.line));
                if let Some(released) = scan.next_change(ledger, book, association, &mut self.comparisons) {
                    self.scans.insert(association, scan);
                    return Some(released);
                }
                // A job that was skipped before others went may find headroom since then, if they have ended.
                if is_whole {
                    ledger.held.note_in_vain(association, self.line);
                }
                // The association may have to wait elsewhere.
                if waits {
                    ledger.held.place_later(association);
                }
            }
            self.tried.insert(association);
        }
    }

    /// Releases all jobs of an excerpt that may go, as a scan does whose jobs leave DEPEND at once. Returns the jobs, and the cost of the
    /// scan in comparisons of sizes.
    pub fn release_all(ledger: &mut Ledger, book: &Book, association: AssociationId) -> (Vec<JobId>, usize) {
        let mut cursor = ScanCursor::new(association, Line::All);
        let mut freed = Vec::new();
        while let Some(released) = cursor.release_next(ledger, book, &BTreeSet::new()) {
            freed.extend(released.is_free.then_some(released.id));
        }
        (freed, cursor.comparisons())
    }

    /// Returns the association with which the scan began.
    pub fn association(&self) -> AssociationId {
        self.association
    }

    /// Returns the cost so far: how many sizes were compared with headroom.
    pub fn comparisons(&self) -> usize {
        self.comparisons
    }

    pub(super) fn was_tried(&self, association: AssociationId) -> bool {
        self.tried.contains(&association)
    }

    /// Returns the place in the line of a scope after which the search continues.
    pub(super) fn search_end(&self, id: ScopeId, scope: &LimitScope) -> Option<Key> {
        let end = self.search_ends.get(&id)?;
        let gave_headroom =
            scope.counters.iter().zip(&end.used).any(|(counter, used)| counter.used() < *used);
        (!gave_headroom).then_some(end.upto)
    }

    /// Notes that the search in a line has come to `upto`, or no further if that is `None`, after `comparisons` comparisons.
    pub(super) fn note_search(
        &mut self,
        id: ScopeId,
        scope: &LimitScope,
        upto: Option<Key>,
        comparisons: usize,
    ) {
        self.comparisons += comparisons;
        if let Some(upto) = upto {
            let used = scope.counters.iter().map(Counter::used).collect();
            self.search_ends.insert(id, SearchEnd { upto, used });
        }
    }

    /// Notes the place of an association in a line. If the search has come further, it begins again.
    pub(super) fn note_place(&mut self, id: ScopeId, key: Key) {
        if !self.was_tried(key.association) && self.search_ends.get(&id).is_some_and(|end| key < end.upto) {
            self.search_ends.remove(&id);
        }
    }

    pub(super) fn admits(&self, keepers: Keepers) -> bool {
        self.line == Line::All || keepers == Keepers::NobodyElse
    }

    #[cfg(test)]
    pub(super) fn restart_lines(&mut self) {
        self.search_ends.clear();
    }
}

/// The part of a scan over the held jobs of one association. It costs O(decisions + classes) searches, whatever the number of held jobs.
#[derive(Clone, Debug)]
struct AssociationScan {
    /// For each searched class, the next job that could be released or lose a name when the class was searched.
    found: BinaryHeap<Reverse<(Keepers, JobId, Class)>>,
    /// Classes to search, each with the job after which the search continues. The search follows when the last step was carried out: only
    /// then is it known whether the released job reserves headroom in RUN.
    unsought: Vec<(Class, Option<JobId>)>,
}

impl AssociationScan {
    /// Begins the scan over one association. Classes take no part while eventlogs are being read of jobs with which they share a limit.
    fn begin(ledger: &mut Ledger, association: AssociationId, line: Line) -> AssociationScan {
        let mut unsought = Vec::new();
        let accounts = &ledger.accounts;
        let lines = accounts.lines(association).filter(|_| !accounts.is_unread(association));
        for (class, _) in lines {
            if line == Line::KeptByNobodyElse && class.keepers == Keepers::Others {
                continue;
            }
            if accounts.shares_with_unread(association, class.queue.as_ref()) {
                ledger.held.put_off(association);
            } else {
                unsought.push((class.clone(), None));
            }
        }
        AssociationScan { found: BinaryHeap::new(), unsought }
    }

    /// Releases the next job of the association that changes. Adds the cost to `comparisons`.
    fn next_change(
        &mut self,
        ledger: &mut Ledger,
        book: &Book,
        association: AssociationId,
        comparisons: &mut usize,
    ) -> Option<Released> {
        loop {
            while let Some((class, after)) = self.unsought.pop() {
                let headroom = Limits::new(ledger, book).headroom(association, class.queue.as_ref());
                *comparisons += HEADROOM_COST;
                let changes = |size| {
                    *comparisons += 1;
                    may_change(class.names, headroom.exceeded(size))
                };
                let line = ledger.accounts.line(association, &class);
                if let Some(id) = line.and_then(|line| line.next(after, changes)) {
                    self.found.push(Reverse((class.keepers, id, class)));
                }
            }
            let Reverse((_, id, class)) = self.found.pop()?;
            let line = ledger.accounts.line(association, &class);
            let is_held = line.is_some_and(|line| line.contains(id));
            let exceeded = is_held.then(|| Limits::new(ledger, book).exceeded_by(id));
            let names = class.names;
            self.unsought.push((class, Some(id)));
            // Since the scan found the job, the job may have left the line, or other jobs may have taken the headroom.
            let Some(exceeded) = exceeded.filter(|exceeded| may_change(names, *exceeded)) else { continue };
            let (is_free, going) = (exceeded.is_empty(), going(names, exceeded));
            let rules = ledger.rules();
            let names = ledger.change(id, |job| {
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
