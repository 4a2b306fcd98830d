// SPDX-License-Identifier: LGPL-3.0-only
//! Which held jobs may go: first come, first served, among those that nobody else keeps; then among the others.

use super::{Grant, Group, HoldSet, Ledger, Name};
use crate::accounts::{AssociationId, Book};
use crate::ids::JobId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A decision about one held job. The ledger has already taken it over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Released {
    /// The job.
    pub id: JobId,
    /// Names to take off it, in the order of the limits.
    pub names: Vec<Name>,
    /// Whether these were the last: the job is free, and reserves its headroom from now on.
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

impl Ledger {
    /// Walks the held jobs of an association in ascending id, those that others keep in DEPEND too after those that
    /// nobody else keeps. A job none of whose limits is exceeded is freed and reserves its headroom at once; of any
    /// other job the names that are satisfied go, but never the last.
    ///
    /// Headroom only shrinks during the walk, so once a member of a group of equal jobs must stay unchanged, all
    /// later members must: the cost is O(decisions + groups), not O(held).
    pub fn release(&mut self, book: &Book, association: AssociationId, line: Line) -> Vec<Released> {
        let Some(account) = self.accounts.get(association.index()) else { return Vec::new() };
        if account.unread > 0 {
            return Vec::new();
        }
        let first = |(group, line): (&Group, &std::collections::BTreeSet<JobId>)| {
            line.first().map(|id| Reverse((group.is_kept_by_others, *id, group.clone())))
        };
        let takes_part = |group: &Group| line == Line::All || !group.is_kept_by_others;
        let held = account.held.iter().filter(|(group, _)| takes_part(group));
        let mut turns: BinaryHeap<Reverse<(bool, JobId, Group)>> = held.filter_map(first).collect();
        let mut decisions = Vec::new();
        while let Some(Reverse((is_kept, id, group))) = turns.pop() {
            let exceeded = self.exceeded(book, association, group.queue.as_ref(), group.size);
            let going = if exceeded.is_empty() { group.names } else { keep_one(group.names, exceeded) };
            if going.is_empty() {
                continue;
            }
            // Its successor in line has the next turn of this group.
            let line = self.accounts.get(association.index()).and_then(|a| a.held.get(&group));
            let next = line.and_then(|line| line.range(JobId(id.0.saturating_add(1))..).next().copied());
            if let Some(next) = next {
                turns.push(Reverse((is_kept, next, group)));
            }
            let is_free = exceeded.is_empty();
            let names = self.change(id, |job| {
                if is_free {
                    job.grant = Grant::Given;
                }
                going.iter().filter_map(|hold| job.names.remove(hold)).collect()
            });
            decisions.push(Released { id, names: names.unwrap_or_default(), is_free });
        }
        decisions
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
