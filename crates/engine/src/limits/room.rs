// SPDX-License-Identifier: LGPL-3.0-only
//! What the limits still leave to one association in one queue.

use super::hold::{Hold, HoldSet};
use super::job::Job;
use super::ledger::Ledger;
use super::overtaken::Asker;
use super::size::Size;
use super::table::{Counted, Rules};
use super::usage::Usage;
use crate::accounts::{Association, AssociationId, Book};
use crate::ids::{JobId, Measure, QueueName};

/// Of each limit that applies, what is left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Room(Vec<(Hold, Measure, u64)>);

impl Room {
    /// What `usage` leaves under the limits of the association and of the queues that the site has configured.
    pub fn left(
        rules: Rules,
        book: &Book,
        association: &Association,
        queue: Option<&QueueName>,
        usage: &Usage,
    ) -> Room {
        let mut room = Room(Vec::with_capacity(rules.0.len() + 1));
        room.0.extend(rules.counted(book, association, queue, usage).map(|counted| {
            let Counted { hold, rule, tally, measure, limit, .. } = counted;
            (hold, measure, limit.cap().saturating_sub(tally.used(rule.stage, measure, false)))
        }));
        room
    }

    /// The limits that one more job of `size` would exceed. A larger job never exceeds fewer.
    pub fn exceeded(&self, size: Size) -> HoldSet {
        self.0.iter().filter(|(_, measure, left)| size.of(*measure) > *left).map(|(hold, ..)| *hold).collect()
    }
}

impl Ledger {
    /// What the limits of associations and queues leave to one more job of `association` in `queue`, given what is charged
    /// and reserved.
    pub(super) fn own_room(
        &self,
        book: &Book,
        association: AssociationId,
        queue: Option<&QueueName>,
    ) -> Room {
        let Some(limits) = book.association(association) else { return Room::default() };
        match self.usage(association) {
            Some(usage) => Room::left(self.rules(), book, limits, queue, usage),
            None => Room::left(self.rules(), book, limits, queue, &Usage::default()),
        }
    }

    /// The same of all limits.
    pub fn room(&self, book: &Book, association: AssociationId, queue: Option<&QueueName>) -> Room {
        let mut room = self.own_room(book, association, queue);
        room.0.extend(self.shared_left(Asker { association, queue, job: None }, None));
        room
    }

    /// The limits over scopes that one more job of `size` would exceed; `but` is not counted.
    pub(super) fn shared_exceeded(&self, asker: Asker<'_>, size: Size, but: Option<&Job>) -> HoldSet {
        let left = self.shared_left(asker, but);
        left.filter(|(_, measure, left)| size.of(*measure) > *left).map(|(hold, ..)| hold).collect()
    }

    fn shared_left<'a>(
        &'a self,
        asker: Asker<'a>,
        but: Option<&'a Job>,
    ) -> impl Iterator<Item = (Hold, Measure, u64)> + 'a {
        let Asker { association, queue, .. } = asker;
        let theirs = but.and_then(Job::association).map(|theirs| self.member_of(theirs)).unwrap_or_default();
        let groups = self.member_of(association).iter().filter_map(|id| Some((id, self.groups.get(*id)?)));
        groups.filter(move |(_, group)| group.has(queue)).flat_map(move |(id, group)| {
            let but = but.filter(|job| theirs.contains(id) && group.has(job.queue.as_ref()));
            let but = but.map(Job::footprint);
            let kept = self.kept_from(group, asker);
            group.meters.iter().map(move |meter| {
                // What the job has there already is its own.
                let own = || but.map_or(0, |footprint| meter.used_by(footprint));
                let left = if kept.of(meter).is_some() { own() } else { meter.left(but) };
                (meter.hold, meter.amount.measure, left)
            })
        })
    }

    /// The limits that a job of `size` in `queue` would exceed in `association`. It must not be counted there itself.
    pub fn exceeded(
        &self,
        book: &Book,
        association: AssociationId,
        queue: Option<&QueueName>,
        size: Size,
    ) -> HoldSet {
        let own = self.own_room(book, association, queue).exceeded(size);
        own.or(self.shared_exceeded(Asker { association, queue, job: None }, size, None))
    }

    /// The limits that a live job would exceed if it were moved to another association or queue.
    pub fn exceeded_if_moved(
        &self,
        book: &Book,
        job: &Job,
        association: AssociationId,
        queue: Option<&QueueName>,
    ) -> HoldSet {
        let none = Usage::default();
        let usage = self.usage(association).unwrap_or(&none);
        let limits = book.association(association);
        let counted = limits.into_iter().flat_map(|of| self.rules().counted(book, of, queue, usage));
        let own = counted.filter_map(|Counted { hold, rule, queue, tally, measure, limit }| {
            // It may count in the queue already: in the parent of its virtual queue.
            let is_there = job.association() == Some(association)
                && queue.is_some_and(|queue| {
                    book.site_limits().counts_in(Some(&queue.name), job.queue.as_ref().map(QueueName::as_str))
                });
            let tally = if is_there { tally.without(job) } else { tally };
            (!limit.admits(tally.used(rule.stage, measure, false), job.size.of(measure))).then_some(hold)
        });
        let own: HoldSet = own.collect();
        own.or(self.shared_exceeded(Asker { association, queue, job: None }, job.size, Some(job)))
    }

    /// The limits of associations and queues that a job would exceed if nothing were promised to anybody: what is counted
    /// then is what is in SCHED and what runs.
    pub fn exceeded_by_charges(&self, book: &Book, job: &Job) -> HoldSet {
        let limits = job.association().and_then(|id| Some((book.association(id)?, self.usage(id)?)));
        let Some((limits, usage)) = limits else { return HoldSet::NONE };
        let usage = usage.without_promises();
        Room::left(self.rules(), book, limits, job.queue.as_ref(), &usage).exceeded(job.size)
    }

    /// The limits that keep `id` where it is, as if it held nothing itself.
    pub fn exceeded_by(&self, book: &Book, id: JobId) -> HoldSet {
        let Some(job) = self.job(id) else { return HoldSet::NONE };
        let Some(association) = job.association() else { return HoldSet::NONE };
        let asker = Asker { association, queue: job.queue.as_ref(), job: Some(id) };
        let own = self.own_room(book, association, asker.queue).exceeded(job.size);
        own.or(self.shared_exceeded(asker, job.size, None))
    }
}
