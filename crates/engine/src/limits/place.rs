// SPDX-License-Identifier: LGPL-3.0-only
//! The lines of limit scopes: associations that wait for headroom, in the order in which their held jobs are released.
//!
//! The place of an association in a line depends on its first held job: on the priority that the job would have, and on its id if
//! priorities are equal. An association waits only where a scan can find a job that goes: nowhere if the limits of its own records hold
//! all of its jobs, and of several scopes only in the narrowest that alone holds them all, if there is one. After priorities have moved,
//! the ledger computes the places in a line again when a scan needs them.

use super::accounts::Accounts;
use super::ledger::{Class, Ledger};
use super::overtaken::{OVERTAKEN, OvertakenJobs};
use super::scope::{LimitScope, ScopeId};
use super::{Keepers, Limits, ScanCursor, Size};
use crate::accounts::{AssociationId, Book};
use crate::ids::JobId;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The place of an association in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub keepers: Keepers,
    priority: Reverse<u32>,
    head: JobId,
    pub association: AssociationId,
}

/// How an association waits.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiting {
    /// Its place among others, wherever they wait.
    key: Option<Key>,
    stands: BTreeMap<ScopeId, Stand>,
}

/// How an association waits, or has waited, in one scope.
#[derive(Clone, Copy, Debug)]
struct Stand {
    /// The first held job of the association here.
    head: JobId,
    /// How many jobs had taken headroom here when `head` became the first.
    since: u64,
    /// The place in the line; `None` if the association does not wait here.
    key: Option<Key>,
}

impl Waiting {
    /// Returns the places of the association in lines, each with the number of jobs since which it counts overtakes.
    pub fn places(&self) -> impl Iterator<Item = (ScopeId, Key, u64)> {
        self.stands.iter().filter_map(|(id, stand)| Some((*id, stand.key?, stand.since)))
    }

    /// Returns true if the association waits in no line.
    pub fn has_no_place(&self) -> bool {
        self.places().next().is_none()
    }
}

/// An association whose places are to be computed, as far as they do not depend on priorities.
#[derive(Clone, Debug)]
pub struct Unplaced {
    association: AssociationId,
    /// The first held job of the association; `None` if it waits nowhere.
    first: Option<Head>,
    /// The scopes where the association waits, each with its first held job there and the least sizes of all its held jobs there.
    lines: Vec<(ScopeId, Head, Size)>,
    /// The overtaken jobs of the association.
    overtaken: Vec<JobId>,
}

/// The first held job of an association.
type Head = (Keepers, JobId);

impl Unplaced {
    /// Returns where an association is to wait.
    fn find(ledger: &Ledger, book: &Book, association: AssociationId) -> Unplaced {
        let line = |id: ScopeId| {
            let scope = ledger.accounts.scopes.get(id)?;
            let here =
                ledger.accounts.lines(association).filter(|(class, _)| scope.has(class.queue.as_ref()));
            let least = here.filter_map(|(_, line)| line.least()).reduce(Size::min_of)?;
            Some((id, find_head(&ledger.accounts, association, Some(scope))?, least))
        };
        let lines: Vec<_> =
            scopes_waited_for(ledger, book, association).into_iter().filter_map(line).collect();
        let first = if lines.is_empty() { None } else { find_head(&ledger.accounts, association, None) };
        let overtaken = ledger.overtaken.iter().filter(|it| it.association == association);
        Unplaced { association, first, lines, overtaken: overtaken.map(|it| it.job).collect() }
    }

    /// Returns the held jobs on whose priorities the places depend.
    pub fn heads(&self) -> BTreeSet<JobId> {
        let heads = self.first.iter().chain(self.lines.iter().map(|(_, head, _)| head));
        heads.map(|(_, id)| *id).chain(self.overtaken.iter().copied()).collect()
    }
}

impl ScanCursor {
    /// Returns the associations whose places must be known before the scan goes on.
    pub fn unplaced(&self, ledger: &mut Ledger, book: &Book) -> Vec<Unplaced> {
        let own = self.association();
        // If no other association waits for headroom that this one shares, its place does not matter.
        if !ledger.held.are_others_unplaced(own)
            && ledger.overtaken.iter().next().is_none()
            && ledger.accounts.all_scopes_of(own).all(|(_, scope)| scope.line.is_empty())
        {
            return Vec::new();
        }
        let mut due = ledger.held.take_unplaced();
        let (scopes, account) = ledger.accounts.entry(own);
        for id in account.into_iter().flat_map(|account| account.member_of()) {
            due.extend(scopes.take_stale(*id));
        }
        let scopes = ledger.accounts.all_scopes_of(own);
        due.extend(scopes.filter_map(|(id, scope)| newly_overtaken(ledger, id, scope)));
        due.into_iter().map(|association| Unplaced::find(ledger, book, association)).collect()
    }

    /// Puts an association where it waits, in the middle of a scan, and protects those of its jobs that were overtaken. `priorities` are
    /// those that its [heads](Unplaced::heads) would have.
    pub fn place_association(
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
        let key =
            |(keepers, head): Head| Key { keepers, priority: Reverse(priority(head)), head, association };
        leave_lines(&mut ledger.accounts, association);
        let mut late = Vec::new();
        for (id, head, least) in lines {
            let keeps_headroom = ledger.overtaken.kept_in(id).next().is_some();
            let (scopes, account) = ledger.accounts.entry(association);
            let (Some(scope), Some(account), key) = (scopes.get_mut(id), account, key(head)) else {
                continue;
            };
            let new = Stand { head: key.head, since: scope.taken, key: None };
            let stand = account.waiting.stands.entry(id).or_insert(new);
            if stand.head != key.head {
                *stand = new;
            }
            stand.key = Some(key);
            scope.enter(key, least, stand.since);
            self.note_place(id, key);
            if scope.taken.saturating_sub(stand.since) >= OVERTAKEN && !keeps_headroom {
                late.push((id, key.head));
            }
        }
        let (_, account) = ledger.accounts.entry(association);
        account.into_iter().for_each(|account| account.waiting.key = first.map(key));
        let to_protect: BTreeSet<JobId> =
            overtaken.into_iter().chain(late.iter().map(|(_, id)| *id)).collect();
        let mut is_changed = false;
        for id in to_protect {
            let is_active = priority(id) > 0 && Limits::new(ledger, book).is_held_by_scopes_alone(id);
            is_changed |= ledger.protect(association, id, is_active);
        }
        is_changed |= ledger.update_overtaken(Some(association));
        // If no scope may keep headroom for a job, its overtakes are counted again from 0.
        late.retain(|(_, head)| !ledger.overtaken.contains(*head));
        for (id, _) in late {
            let (scopes, account) = ledger.accounts.entry(association);
            let stand = account.and_then(|account| account.waiting.stands.get_mut(&id));
            let (Some(scope), Some(stand)) = (scopes.get_mut(id), stand) else { continue };
            scope.since.remove(&(stand.since, association));
            stand.since = scope.taken;
            scope.since.insert((stand.since, association));
            is_changed = true;
        }
        if is_changed {
            ledger.note_any_change();
        }
    }

    /// Returns the next association to look at, of those that the scan has not looked at: of the scopes of its own association, and this
    /// one. An overtaken job for which all its scopes have headroom goes first.
    pub(super) fn candidate(&mut self, ledger: &Ledger) -> Option<AssociationId> {
        if let Some(first) =
            ledger.overtaken.first_ready(&ledger.accounts, self.association(), |of| !self.was_tried(of))
        {
            return Some(first);
        }
        let own = Some(self.association()).filter(|own| !self.was_tried(*own));
        let mut best = own.and_then(|own| ledger.accounts.get(own)?.waiting.key);
        for (id, scope) in ledger.accounts.all_scopes_of(self.association()) {
            best = best.into_iter().chain(self.next_in_scope(&ledger.overtaken, id, scope)).min();
        }
        best.map(|key| key.association).or(own)
    }

    fn next_in_scope(&mut self, overtaken: &OvertakenJobs, id: ScopeId, scope: &LimitScope) -> Option<Key> {
        let kept: Vec<Size> = overtaken.kept_in(id).map(|it| it.size).collect();
        let counters =
            || scope.counters.iter().filter(|counter| kept.iter().any(|size| counter.lacks(*size)));
        let is_kept_from = |size: Size| counters().any(|counter| size.amount(counter.amount.measure) > 0);
        let begun = self.search_end(id, scope);
        let (mut after, mut comparisons) = (begun, 0);
        loop {
            let found = scope.line.next(after, |least| {
                comparisons += 1;
                scope.fits(least) && !is_kept_from(least)
            });
            match found.filter(|key| self.was_tried(key.association) || !self.admits(key.keepers)) {
                Some(key) => after = Some(key),
                None => {
                    // Headroom that is kept now is for others when the overtaken job has gone: the scan passes over no one because of it.
                    let upto = after.filter(|_| after != begun && kept.is_empty());
                    self.note_search(id, scope, upto, comparisons);
                    return found;
                }
            }
        }
    }
}

/// Returns an association whose first job in a scope has become overtaken. While the scope keeps headroom for a job, no other job
/// becomes overtaken there.
fn newly_overtaken(ledger: &Ledger, id: ScopeId, scope: &LimitScope) -> Option<AssociationId> {
    let late = scope.since.iter().take_while(|(since, _)| scope.taken.saturating_sub(*since) >= OVERTAKEN);
    if late.clone().next().is_none() || ledger.overtaken.kept_in(id).next().is_some() {
        return None;
    }
    let is_new = |association: &AssociationId| {
        let stand = ledger.accounts.get(*association).and_then(|account| account.waiting.stands.get(&id));
        stand.is_some_and(|stand| !ledger.overtaken.contains(stand.head))
    };
    late.map(|(_, association)| *association).find(is_new)
}

/// Returns the first held job of an association, of all or of those that count in a scope.
fn find_head(accounts: &Accounts, association: AssociationId, scope: Option<&LimitScope>) -> Option<Head> {
    let is_here = |class: &Class| scope.is_none_or(|scope| scope.has(class.queue.as_ref()));
    let lines = accounts.lines(association).filter(|(class, _)| is_here(class));
    lines.filter_map(|(class, line)| Some((class.keepers, line.ids().next()?))).min()
}

/// Returns the scopes for whose headroom an association waits.
fn scopes_waited_for(ledger: &Ledger, book: &Book, association: AssociationId) -> BTreeSet<ScopeId> {
    let mut waits = BTreeSet::new();
    if ledger.accounts.is_unread(association) {
        return waits;
    }
    for (Class { queue, .. }, line) in ledger.accounts.lines(association) {
        let queue = queue.as_ref();
        let own = Limits::new(ledger, book).own_headroom(association, queue);
        if line.next(None, |size| own.exceeded(size).is_empty()).is_none() {
            continue;
        }
        let holds_all = |scope: &LimitScope| line.next(None, |size| scope.fits(size)).is_none();
        match ledger.accounts.scopes_of(association, queue).find(|(_, scope)| holds_all(scope)) {
            Some((id, _)) => waits.extend([id]),
            None => waits.extend(ledger.accounts.scopes_of(association, queue).map(|(id, _)| id)),
        }
    }
    waits
}

/// Takes an association out of all lines.
fn leave_lines(accounts: &mut Accounts, association: AssociationId) {
    let (scopes, account) = accounts.entry(association);
    for (id, stand) in account.into_iter().flat_map(|account| &mut account.waiting.stands) {
        if let (Some(key), Some(scope)) = (stand.key.take(), scopes.get_mut(*id)) {
            scope.leave(key, stand.since);
        }
    }
}
