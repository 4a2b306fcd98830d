// SPDX-License-Identifier: LGPL-3.0-only
//! Which held jobs may go: first come, first served, among those that nobody else keeps; then among the others.

use super::{Grant, Group, HoldSet, Ledger, Name};
use crate::accounts::{AssociationId, Book};
use crate::ids::JobId;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::ops::Bound;

/// A decision about one held job. The ledger has already taken it over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Released {
    /// The job.
    pub id: JobId,
    /// Names to take off it, in the order of the limits.
    pub names: Vec<Name>,
    /// Whether these were the last: the job is free, and reserves its headroom from now on, that to run too until its
    /// urgency is known to be 0.
    pub is_free: bool,
}

/// Who takes part in a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// All that are held.
    All,
    /// Those that nobody else keeps in DEPEND.
    KeptByNobodyElse,
}

/// A walk along the held jobs of an association in ascending id, those that others keep in DEPEND too after those that
/// nobody else keeps. It is a value: between two steps the last one may be carried out.
///
/// Headroom only shrinks during a walk (whoever makes room begins one of their own), so once a member of a group of
/// equal jobs must stay unchanged, all later members must: the cost is O(decisions + groups), not O(held).
#[derive(Clone, Debug)]
pub struct Walk {
    association: AssociationId,
    /// Of each group the member whose turn it is.
    turns: BinaryHeap<Reverse<(bool, JobId, Group)>>,
}

impl Walk {
    /// Whose held jobs these are.
    pub fn association(&self) -> AssociationId {
        self.association
    }
}

impl Ledger {
    /// Begins a walk. Nobody takes part while eventlogs of the association's jobs are being read.
    pub fn walk(&self, association: AssociationId, line: Line) -> Walk {
        let account = self.accounts.get(association.index()).filter(|account| account.unread == 0);
        let held = account.into_iter().flat_map(|account| &account.held);
        let first = |(group, line): (&Group, &BTreeSet<JobId>)| {
            line.first().map(|id| Reverse((group.is_kept_by_others, *id, group.clone())))
        };
        let takes_part = |group: &Group| line == Line::All || !group.is_kept_by_others;
        Walk { association, turns: held.filter(|(group, _)| takes_part(group)).filter_map(first).collect() }
    }

    /// Goes on to the next held job that changes. A job none of whose limits is exceeded is freed and reserves its
    /// headroom at once; of any other job the names that are satisfied go, but never the last.
    pub fn release_next(&mut self, book: &Book, walk: &mut Walk) -> Option<Released> {
        while let Some(Reverse((is_kept, id, group))) = walk.turns.pop() {
            let account = self.accounts.get(walk.association.index())?;
            // What was carried out since its turn came may have taken it, or its whole group, out of the line.
            let Some(line) = account.held.get(&group) else { continue };
            let is_here = line.contains(&id);
            let next = line.range((Bound::Excluded(id), Bound::Unbounded)).next().copied();
            let exceeded = self.exceeded(book, walk.association, group.queue.as_ref(), group.size);
            let is_free = exceeded.is_empty();
            let going = if is_free { group.names } else { keep_one(group.names, exceeded) };
            if is_here && going.is_empty() {
                continue;
            }
            if let Some(next) = next {
                walk.turns.push(Reverse((is_kept, next, group)));
            }
            if !is_here {
                continue;
            }
            let names = self.change(id, |job| {
                if is_free {
                    job.grant = Grant::Given;
                    job.is_urgency_hold = false;
                }
                going.iter().filter_map(|hold| job.names.remove(hold)).collect()
            });
            return Some(Released { id, names: names.unwrap_or_default(), is_free });
        }
        None
    }
}

/// The names that are satisfied; if that is all of them, all but the last.
fn keep_one(names: HoldSet, exceeded: HoldSet) -> HoldSet {
    let mut going = names.without(exceeded);
    if going == names
        && let Some(last) = names.iter().last()
    {
        going.remove(last);
    }
    going
}
