// SPDX-License-Identifier: LGPL-3.0-only
//! Release scans: they decide which held jobs are released, and in which order.

use super::counter::Counter;
use super::ledger::Class;
use super::place::LineKey;
use super::scope::{LimitScope, ScopeId};
use super::{BlockState, Demand, HoldName, HoldSet, Ledger, Limits, Reservation};
use crate::accounts::{AssociationId, Book};
use crate::ids::JobId;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// A decision of a release scan about one held job. The ledger has already recorded this decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Released {
    /// The job.
    pub id: JobId,
    /// The dependency names to remove, in the order of the limits.
    pub names: Vec<HoldName>,
    /// True if no dependency of ours remains, so that the job is released. The job then reserves headroom in SCHED,
    /// and also in RUN unless it turns out that the job would not be scheduled.
    pub is_free: bool,
}

/// The held jobs that a release scan may release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Candidates {
    /// The held jobs that no other plugin blocks in DEPEND.
    Unblocked,
    /// All held jobs.
    All,
}

/// The cursor of a release scan over the held jobs of an association, and of all associations that share a limit with it. The caller carries
/// out each step before it asks for the next step.
///
/// Within an association, jobs that no other plugin blocks come first, then smaller ids come first. The waiting lists of scopes
/// (`place.rs`) order the associations. When the scan has found nothing to change in an association, it skips that association from then
/// on, because headroom usually only shrinks from one step to the next. A job that ends between two steps starts another scan.
#[derive(Clone, Debug)]
pub struct ScanCursor {
    association: AssociationId,
    candidates: Candidates,
    /// The scans within associations that have begun and are not finished.
    scans: BTreeMap<AssociationId, HeldJobScan>,
    /// Associations in which the scan has found nothing more to change.
    tried: BTreeSet<AssociationId>,
    /// For each scope, the position in the waiting list from which the scan continues its search.
    search_ends: BTreeMap<ScopeId, SearchPosition>,
    /// The cost of the scan so far. The unit is one comparison of a job's size with headroom.
    comparisons: usize,
}

/// The position that a scan has reached in the waiting list of a scope.
#[derive(Clone, Debug)]
struct SearchPosition {
    /// The last position that the scan has searched. The scan finds no more jobs to release up to this position.
    upto: LineKey,
    /// The amount in use under each limit of the scope when the search stopped. If one of them falls, the search starts again.
    used: Box<[u64]>,
}

/// The cost of computing the headroom for a class of held jobs, as a number of comparisons.
const HEADROOM_COST: usize = 8;

impl ScanCursor {
    /// Begins a release scan.
    pub fn new(association: AssociationId, candidates: Candidates) -> ScanCursor {
        let (scans, tried, search_ends) = Default::default();
        ScanCursor { association, candidates, scans, tried, search_ends, comparisons: 0 }
    }

    /// Changes the next held job of the scan, and returns this job. If the job exceeds no limit, the job is released
    /// and reserves headroom at once. If the job exceeds a limit, the scan removes only dependencies of limits that
    /// are in records and have headroom. The job then keeps at least one dependency.
    ///
    /// Dependencies of limit scopes are removed only when the job is released, because the headroom of a scope is
    /// shared. Many held jobs would lose these dependencies, but only one job would be released.
    ///
    /// The scan skips the associations in `half_pushed`. Before each step, the caller must call
    /// [`ScanCursor::put_association_into_waiting_lists`] for each association that [`ScanCursor::unplaced`] returns.
    pub fn release_next(
        &mut self,
        ledger: &mut Ledger,
        book: &Book,
        half_pushed: &BTreeSet<AssociationId>,
    ) -> Option<Released> {
        loop {
            let association = self.choose_association(ledger)?;
            let waits = !ledger.accounts.get(association).waiting.is_in_no_line();
            if !half_pushed.contains(&association)
                && !ledger.held.may_skip_scan(association, self.candidates, waits)
            {
                let begun = self.scans.remove(&association);
                let is_new = begun.is_none();
                let mut scan =
                    begun.unwrap_or_else(|| HeldJobScan::begin(ledger, association, self.candidates));
                if let Some(released) =
                    scan.apply_next_change(ledger, book, association, &mut self.comparisons)
                {
                    self.scans.insert(association, scan);
                    return Some(released);
                }
                // A job that this scan released may have ended already, so a skipped job may fit now. Only a new scan
                // can show that no job of the association can be released.
                if is_new {
                    ledger.held.store_empty_scan(association, self.candidates);
                }
                // The changes of its jobs may move the association to different waiting lists.
                if waits {
                    ledger.held.mark_positions_stale(association);
                }
            }
            self.tried.insert(association);
        }
    }

    /// Releases all held jobs of an excerpt that fit, to simulate releases. Each released job leaves DEPEND at once.
    /// Returns the released jobs, and the cost of the scan in comparisons.
    pub fn release_fitting_jobs(ledger: &mut Ledger, book: &Book, id: AssociationId) -> (Vec<JobId>, usize) {
        let mut cursor = ScanCursor::new(id, Candidates::All);
        let mut released_jobs = Vec::new();
        while let Some(released) = cursor.release_next(ledger, book, &BTreeSet::new()) {
            released_jobs.extend(released.is_free.then_some(released.id));
        }
        (released_jobs, cursor.comparisons())
    }

    /// Returns the association with which the scan began.
    pub fn association(&self) -> AssociationId {
        self.association
    }

    /// Returns the cost of the scan so far. The unit is one comparison of a job's size with headroom.
    pub fn comparisons(&self) -> usize {
        self.comparisons
    }

    pub(super) fn was_tried(&self, association: AssociationId) -> bool {
        self.tried.contains(&association)
    }

    /// Returns the position in the waiting list of scope `id` after which the search continues, or `None` if the search begins at the front.
    pub(super) fn find_search_position(&self, id: ScopeId, scope: &LimitScope) -> Option<LineKey> {
        let end = self.search_ends.get(&id)?;
        let gave_headroom =
            scope.counters.iter().zip(&end.used).any(|(counter, used)| counter.used() < *used);
        (!gave_headroom).then_some(end.upto)
    }

    /// Stores how far the search in the waiting list of scope `id` has come. If `upto` is `None`, the position stays
    /// the same. Adds `comparisons` to the cost of the scan.
    pub(super) fn store_search_position(
        &mut self,
        id: ScopeId,
        scope: &LimitScope,
        upto: Option<LineKey>,
        comparisons: usize,
    ) {
        self.comparisons += comparisons;
        if let Some(upto) = upto {
            let used = scope.counters.iter().map(Counter::used).collect();
            self.search_ends.insert(id, SearchPosition { upto, used });
        }
    }

    /// Records that an association got position `key` in the waiting list of scope `id`. If the search has passed `key`, it starts again.
    pub(super) fn update_search_position(&mut self, id: ScopeId, key: LineKey) {
        if !self.was_tried(key.association) && self.search_ends.get(&id).is_some_and(|end| key < end.upto) {
            self.search_ends.remove(&id);
        }
    }

    pub(super) fn admits(&self, block_state: BlockState) -> bool {
        self.candidates == Candidates::All || block_state == BlockState::Unblocked
    }

    #[cfg(test)]
    pub(super) fn reset_search_positions(&mut self) {
        self.search_ends.clear();
    }
}

/// A scan over the held jobs of one association. The scan makes one search for each class of jobs, and one more
/// search for each job that a search finds.
#[derive(Clone, Debug)]
struct HeldJobScan {
    /// For each class of held jobs, the next job to release or to change.
    found: BinaryHeap<Reverse<(BlockState, JobId, Class)>>,
    /// The classes to search, each with the job after which the search continues. The scan searches these classes at
    /// the beginning of its next step, when the last released job has reserved its headroom.
    unsearched: Vec<(Class, Option<JobId>)>,
}

impl HeldJobScan {
    /// Begins the scan over the held jobs of one association. Skips jobs that share a limit with a job whose eventlog is unread.
    fn begin(ledger: &mut Ledger, association: AssociationId, candidates: Candidates) -> HeldJobScan {
        let mut unsearched = Vec::new();
        let accounts = &ledger.accounts;
        let lines = accounts.jobs_by_class(association).filter(|_| !accounts.is_unread(association));
        for (class, _) in lines {
            if candidates == Candidates::Unblocked && class.block_state == BlockState::Blocked {
                continue;
            }
            if accounts.shares_unread_scope(association, class.queue.as_ref()) {
                ledger.held.defer_scan(association);
            } else {
                unsearched.push((class.clone(), None));
            }
        }
        HeldJobScan { found: BinaryHeap::new(), unsearched }
    }

    /// Releases the next job of `association` that fits. If a job cannot be released but has dependencies that are no
    /// longer needed, removes these dependencies instead. Returns `None` if no job changes. Adds the cost to
    /// `comparisons`.
    fn apply_next_change(
        &mut self,
        ledger: &mut Ledger,
        book: &Book,
        association: AssociationId,
        comparisons: &mut usize,
    ) -> Option<Released> {
        loop {
            while let Some((class, after)) = self.unsearched.pop() {
                let Some(line) = ledger.accounts.get(association).held.get(&class) else { continue };
                let headroom = Limits::new(ledger, book).headroom(association, class.queue.as_ref());
                *comparisons += HEADROOM_COST;
                let is_changeable = |size| {
                    *comparisons += 1;
                    may_change(class.names, headroom.exceeded(size))
                };
                if let Some(id) = line.find_next(after, is_changeable) {
                    self.found.push(Reverse((class.block_state, id, class)));
                }
            }
            let Reverse((_, id, class)) = self.found.pop()?;
            let line = ledger.accounts.get(association).held.get(&class);
            let is_held = line.is_some_and(|line| line.contains(id));
            let exceeded = is_held.then(|| Limits::new(ledger, book).exceeded_by(id));
            let names = class.names;
            self.unsearched.push((class, Some(id)));
            // After the search, the job may have been released, or other jobs may have used the headroom.
            let Some(exceeded) = exceeded.filter(|exceeded| may_change(names, *exceeded)) else { continue };
            let (is_free, removed) = (exceeded.is_empty(), select_names_to_remove(names, exceeded));
            let rules = ledger.rules();
            let names = ledger.change(id, |job| {
                if is_free {
                    (job.reservation, job.demand) = (Reservation::Given, Demand::ToRun);
                }
                rules.members(removed).filter_map(|hold| job.names.remove(hold)).collect()
            });
            return Some(Released { id, names: names.unwrap_or_default(), is_free });
        }
    }
}

/// Returns true if a scan would release a held job, or remove a dependency from the job.
pub(super) fn may_change(names: HoldSet, exceeded: HoldSet) -> bool {
    exceeded.is_empty() || !select_names_to_remove(names, exceeded).is_empty()
}

/// Returns the limits whose dependencies a scan removes from a held job. If the job exceeds no limit, returns all
/// limits that hold the job. If the job exceeds a limit, returns only limits in records that have headroom. At least
/// one dependency remains then.
fn select_names_to_remove(names: HoldSet, exceeded: HoldSet) -> HoldSet {
    let satisfied = names.without(exceeded);
    if exceeded.is_empty() {
        return satisfied;
    }
    let removed = if satisfied == names { names.without_last_member() } else { satisfied };
    removed.without(names.scope_limits())
}
