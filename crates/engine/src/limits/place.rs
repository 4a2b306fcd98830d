// SPDX-License-Identifier: LGPL-3.0-only
//! The waiting lists of limit scopes. A waiting list has the associations whose jobs lack headroom, in the order of
//! release.
//!
//! The position of an association depends on its first held job: first on whether another plugin blocks the job, then
//! on the job's priority, then on its id. An association
//! is only in waiting lists in which a scan can find a job to release. If the limits in the association's records
//! hold all its jobs, the association is in no waiting list. If a scope lacks headroom for all its jobs, the
//! association is only in the list of this scope, or in the list of the narrowest such scope.
//!
//! If priorities change, the ledger sorts a waiting list again when a scan next needs the list.

use super::accounts::Accounts;
use super::ledger::{Class, Ledger};
use super::overtaken::{OVERTAKEN, OvertakenJobs};
use super::scope::{LimitScope, ScopeId};
use super::{BlockState, Limits, ScanCursor, Size};
use crate::accounts::{AssociationId, Book};
use crate::ids::JobId;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The position of an association in a waiting list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LineKey {
    pub block_state: BlockState,
    priority: Reverse<u32>,
    head: JobId,
    pub association: AssociationId,
}

/// The positions of an association in the waiting lists of its scopes.
#[derive(Clone, Debug, Default)]
pub(super) struct PositionsInScopes {
    /// The position of the association, computed from its first held job in any queue.
    key: Option<LineKey>,
    by_scope: BTreeMap<ScopeId, PositionInScope>,
}

/// The state of an association in the waiting list of one scope. The state is kept when the association leaves the list.
#[derive(Clone, Copy, Debug)]
struct PositionInScope {
    /// The first held job of the association that counts in the scope.
    head: JobId,
    /// The number of jobs that had taken headroom in the scope when `head` became the first held job.
    since: u64,
    /// The position; `None` if the association is not in the waiting list now.
    key: Option<LineKey>,
}

impl PositionsInScopes {
    /// Returns the scope, the position and the value of `since` for each waiting list that contains the association.
    pub fn places(&self) -> impl Iterator<Item = (ScopeId, LineKey, u64)> {
        self.by_scope.iter().filter_map(|(id, place)| Some((*id, place.key?, place.since)))
    }

    pub fn is_in_no_line(&self) -> bool {
        self.places().next().is_none()
    }
}

/// An association whose positions in waiting lists must be computed again, with the jobs that determine the positions.
#[derive(Clone, Debug)]
pub struct Unplaced {
    association: AssociationId,
    /// The first held job of the association; `None` if the association belongs in no waiting list.
    first: Option<HeadJob>,
    /// The scopes in whose waiting lists the association belongs. Each entry has the first of the held jobs that
    /// count in the scope. The size has the minimum of each field over these jobs.
    lines: Vec<(ScopeId, HeadJob, Size)>,
    /// The overtaken jobs of the association.
    overtaken: Vec<JobId>,
}

/// The first held job of an association, and whether other plugins block it.
type HeadJob = (BlockState, JobId);

impl Unplaced {
    /// Finds the waiting lists for an association. Returns `None` if the association is in no list, belongs in no
    /// list, and has no overtaken jobs.
    fn find(ledger: &Ledger, book: &Book, association: AssociationId) -> Option<Unplaced> {
        let line = |id: ScopeId| {
            let scope = ledger.accounts.scopes.get(id)?;
            let held = ledger.accounts.jobs_by_class(association);
            let here = held.filter(|(class, _)| scope.counts_queue(class.queue.as_ref()));
            let least = here.filter_map(|(_, line)| line.least_size()).reduce(Size::take_least_measures)?;
            Some((id, find_head_job(&ledger.accounts, association, Some(scope))?, least))
        };
        let lines: Vec<_> =
            list_scopes_of_held_jobs(ledger, book, association).into_iter().filter_map(line).collect();
        let first = if lines.is_empty() { None } else { find_head_job(&ledger.accounts, association, None) };
        let overtaken = ledger.overtaken.iter().filter(|it| it.association == association);
        let overtaken: Vec<JobId> = overtaken.map(|it| it.job).collect();
        let is_placed = !lines.is_empty() || !ledger.accounts.get(association).waiting.is_in_no_line();
        (is_placed || !overtaken.is_empty()).then_some(Unplaced { association, first, lines, overtaken })
    }

    /// Returns the held jobs whose priorities determine the association's positions in waiting lists.
    pub fn heads(&self) -> BTreeSet<JobId> {
        let heads = self.first.iter().chain(self.lines.iter().map(|(_, head, _)| head));
        heads.map(|(_, id)| *id).chain(self.overtaken.iter().copied()).collect()
    }
}

impl ScanCursor {
    /// Returns the associations whose positions must be computed before the next step of the scan.
    pub fn unplaced(&self, ledger: &mut Ledger, book: &Book) -> Vec<Unplaced> {
        let own = self.association();
        let is_alone = ledger.overtaken.iter().next().is_none()
            && ledger.accounts.all_scopes_of(own).all(|(_, scope)| scope.line.is_empty());
        // If no other association waits in these scopes, the order of the waiting lists does not matter.
        if is_alone && !ledger.held.has_other_stale_positions(own) {
            return Vec::new();
        }
        let mut outdated = ledger.held.take_outdated_associations();
        if !is_alone {
            let (scopes, account) = ledger.accounts.borrow_scopes_and_account(own);
            for id in account.scope_ids() {
                outdated.extend(scopes.take_reordered_associations(*id));
            }
            let scopes = ledger.accounts.all_scopes_of(own);
            outdated.extend(scopes.filter_map(|(id, scope)| find_newly_overtaken(ledger, id, scope)));
        }
        outdated.into_iter().filter_map(|association| Unplaced::find(ledger, book, association)).collect()
    }

    /// Puts an association into its waiting lists during a scan. Also updates the reservations of its overtaken jobs.
    /// `priorities` has the priority of each job in [`Unplaced::heads`].
    pub fn put_association_into_waiting_lists(
        &mut self,
        ledger: &mut Ledger,
        book: &Book,
        unplaced: Unplaced,
        priorities: &[(JobId, u32)],
    ) {
        let Unplaced { association, first, lines, overtaken } = unplaced;
        let priority = |job: JobId| {
            let found = priorities.iter().find(|(id, _)| *id == job);
            found.map_or(0, |(_, priority)| *priority)
        };
        let key = |(block_state, head): HeadJob| LineKey {
            block_state,
            priority: Reverse(priority(head)),
            head,
            association,
        };
        remove_association_from_waiting_lists(&mut ledger.accounts, association);
        let mut overtaken_heads = Vec::new();
        for (id, head, least) in lines {
            let keeps_headroom = ledger.overtaken.kept_in(id).next().is_some();
            let (scopes, account) = ledger.accounts.borrow_scopes_and_account(association);
            let (Some(scope), key) = (scopes.get_mut(id), key(head)) else { continue };
            let new = PositionInScope { head: key.head, since: scope.taken, key: None };
            let place = account.waiting.by_scope.entry(id).or_insert(new);
            if place.head != key.head {
                *place = new;
            }
            place.key = Some(key);
            scope.line.insert(key, least);
            scope.since.insert((place.since, association));
            self.update_search_position(id, key);
            if scope.taken.saturating_sub(place.since) >= OVERTAKEN && !keeps_headroom {
                overtaken_heads.push((id, key.head));
            }
        }
        let (_, account) = ledger.accounts.borrow_scopes_and_account(association);
        account.waiting.key = first.map(key);
        let to_protect: BTreeSet<JobId> =
            overtaken.into_iter().chain(overtaken_heads.iter().map(|(_, id)| *id)).collect();
        let mut is_changed = false;
        for id in to_protect {
            let is_active = priority(id) > 0 && Limits::new(ledger, book).is_held_only_by_scopes(id);
            is_changed |= ledger.protect_job(association, id, is_active);
        }
        is_changed |= ledger.update_overtaken_jobs(Some(association));
        // If an overtaken job cannot get a reservation, the count of jobs that overtook it restarts at 0.
        overtaken_heads.retain(|(_, head)| !ledger.overtaken.contains(*head));
        for (id, _) in overtaken_heads {
            let (scopes, account) = ledger.accounts.borrow_scopes_and_account(association);
            let place = account.waiting.by_scope.get_mut(&id);
            let (Some(scope), Some(place)) = (scopes.get_mut(id), place) else { continue };
            scope.since.remove(&(place.since, association));
            place.since = scope.taken;
            scope.since.insert((place.since, association));
            is_changed = true;
        }
        if is_changed {
            ledger.discard_scan_results();
        }
    }

    /// Returns the association that the scan searches next. This is the scan's own association, or an association in
    /// the waiting list of one of its scopes. An overtaken job that fits in all its scopes comes first. Returns
    /// `None` if the scan has searched all these associations.
    pub(super) fn choose_association(&mut self, ledger: &Ledger) -> Option<AssociationId> {
        if let Some(first) =
            ledger.overtaken.find_first_ready(&ledger.accounts, self.association(), |of| !self.was_tried(of))
        {
            return Some(first);
        }
        let own = Some(self.association()).filter(|own| !self.was_tried(*own));
        let mut best = own.and_then(|own| ledger.accounts.get(own).waiting.key);
        let scopes = ledger.accounts.all_scopes_of(self.association());
        for (id, scope) in scopes.filter(|(_, scope)| !scope.line.is_empty()) {
            best = best.into_iter().chain(self.find_next_in_scope(&ledger.overtaken, id, scope)).min();
        }
        best.map(|key| key.association).or(own)
    }

    /// Returns the first association in the waiting list of scope `id` that the scan has not searched and that has a fitting job. Returns
    /// `None` if there is none.
    fn find_next_in_scope(
        &mut self,
        overtaken: &OvertakenJobs,
        id: ScopeId,
        scope: &LimitScope,
    ) -> Option<LineKey> {
        let kept: Vec<Size> = overtaken.kept_in(id).map(|it| it.size).collect();
        let counters =
            || scope.counters.iter().filter(|counter| kept.iter().any(|size| counter.is_reserved_for(*size)));
        let is_kept_from = |size: Size| counters().any(|counter| size.amount(counter.amount) > 0);
        let start = self.find_search_position(id, scope);
        let (mut after, mut comparisons) = (start, 0);
        loop {
            let found = scope.line.find_next(after, |least| {
                comparisons += 1;
                scope.fits(least) && !is_kept_from(least)
            });
            match found.filter(|key| self.was_tried(key.association) || !self.admits(key.block_state)) {
                Some(key) => after = Some(key),
                None => {
                    // If the scope keeps headroom for an overtaken job, the search position is not stored. When the
                    // overtaken job leaves, jobs of associations that the search passed may fit.
                    let upto = after.filter(|_| after != start && kept.is_empty());
                    self.store_search_position(id, scope, upto, comparisons);
                    return found;
                }
            }
        }
    }
}

/// Returns an association whose first held job has newly been overtaken in the scope. Returns `None` if the scope
/// already keeps headroom for a job.
fn find_newly_overtaken(ledger: &Ledger, id: ScopeId, scope: &LimitScope) -> Option<AssociationId> {
    let overtaken =
        scope.since.iter().take_while(|(since, _)| scope.taken.saturating_sub(*since) >= OVERTAKEN);
    if overtaken.clone().next().is_none() || ledger.overtaken.kept_in(id).next().is_some() {
        return None;
    }
    let is_new = |association: &AssociationId| {
        let place = ledger.accounts.get(*association).waiting.by_scope.get(&id);
        place.is_some_and(|place| !ledger.overtaken.contains(place.head))
    };
    overtaken.map(|(_, association)| *association).find(is_new)
}

/// Returns the first held job of `association`, or `None` if there is none. If a scope is given, considers only jobs
/// that count in the scope.
fn find_head_job(
    accounts: &Accounts,
    association: AssociationId,
    scope: Option<&LimitScope>,
) -> Option<HeadJob> {
    let is_here = |class: &Class| scope.is_none_or(|scope| scope.counts_queue(class.queue.as_ref()));
    let lines = accounts.jobs_by_class(association).filter(|(class, _)| is_here(class));
    lines.filter_map(|(class, line)| Some((class.block_state, line.ids().next()?))).min()
}

/// Returns the scopes in whose waiting lists an association belongs.
fn list_scopes_of_held_jobs(ledger: &Ledger, book: &Book, association: AssociationId) -> BTreeSet<ScopeId> {
    let mut awaited = BTreeSet::new();
    if ledger.accounts.is_unread(association) {
        return awaited;
    }
    for (Class { queue, .. }, line) in ledger.accounts.jobs_by_class(association) {
        let queue = queue.as_ref();
        let own = Limits::new(ledger, book).record_headroom(association, queue);
        if line.find_next(None, |size| own.exceeded(size).is_empty()).is_none() {
            continue;
        }
        let holds_all = |scope: &LimitScope| line.find_next(None, |size| scope.fits(size)).is_none();
        match ledger.accounts.scopes_of(association, queue).find(|(_, scope)| holds_all(scope)) {
            Some((id, _)) => awaited.extend([id]),
            None => awaited.extend(ledger.accounts.scopes_of(association, queue).map(|(id, _)| id)),
        }
    }
    awaited
}

/// Removes an association from all waiting lists.
fn remove_association_from_waiting_lists(accounts: &mut Accounts, association: AssociationId) {
    let (scopes, account) = accounts.borrow_scopes_and_account(association);
    for (id, place) in &mut account.waiting.by_scope {
        if let (Some(key), Some(scope)) = (place.key.take(), scopes.get_mut(*id)) {
            scope.line.remove(key);
            scope.since.remove(&(place.since, association));
        }
    }
}
