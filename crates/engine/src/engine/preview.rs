// SPDX-License-Identifier: LGPL-3.0-only
//! The effects of the staged push on jobs. The push is committed to a copy of the configuration without jobs, and the priorities of the
//! live jobs are computed there.

use super::{
    Effect, Engine, Tables, View,
    admission::{rejection_in_association, unknown_association_text},
    answers::{DefaultBankChange, Move, Preview, PushChanges, RejectedJob, RemovedAssociation},
    queues::Queues,
};
use crate::accounts::{Difference, SiteRecords};
use crate::ids::QueueName;
use crate::limits::{Job, Origin};
use crate::priority::URGENCY_DEFAULT;
use crate::standing::SitePart;
use std::collections::HashMap;

/// The maximum length of each list in a preview: jobs that would end, and removed associations with live jobs.
const MAX_LISTED: usize = 100;

impl Move {
    fn distance(&self) -> (usize, u32) {
        let ([priority_now, priority_then], [place_now, place_then]) = (self.priority, self.place);
        (place_now.abs_diff(place_then), priority_now.abs_diff(priority_then))
    }
}

impl Engine {
    /// Returns what the staged push would change if it were committed at `now`. Lists the `most` jobs whose positions
    /// would change most. Fails with the reason if the push would be rejected.
    pub fn preview(&self, now: f64, most: usize) -> Result<Preview, String> {
        let copy = self.commit_push_to_engine_copy(now)?;
        let (generation, difference) = (self.view().generation(), copy.shared.book.latest());
        let changes = PushChanges { generation, is_dry_run: true, difference };
        let mut preview = Preview { changes, ..Preview::default() };
        let mut moves = Vec::new();
        for (id, job) in self.shared.ledger.jobs() {
            if let Some(posted) = self.view().priorities_of(id) {
                preview.pending += 1;
                let urgency = self.shared.posted.urgency(id).unwrap_or(URGENCY_DEFAULT);
                // If jobs are interleaved, each priority depends on the other jobs. The engine's copy with the pushed
                // data has no jobs, so the priorities before and after the push are computed without interleaving.
                let without_turn = |engine: &Engine| engine.shared.priority_without_turn(job, urgency);
                let priority_now = without_turn(self)
                    .filter(|_| self.shared.settings.interleave)
                    .unwrap_or(posted.posted.priority);
                let priority_then = without_turn(&copy).unwrap_or(priority_now);
                moves.push(Move {
                    id,
                    user: job.user,
                    bank: self.view().bank_of(job.association()),
                    queue: job.queue.clone(),
                    priority: [priority_now, priority_then],
                    place: [0, 0],
                });
            } else if job.association().is_none()
                && job.origin == Origin::Submitted
                && let Some(reason) = rejection_of_waiting_job(&copy.view(), job)
            {
                preview.rejected.push(RejectedJob { id, user: job.user, reason });
            }
        }
        let queues = &self.shared.queues;
        set_positions(queues, &mut moves, |job| job.priority[0], |job, place| job.place[0] = place);
        set_positions(queues, &mut moves, |job| job.priority[1], |job, place| job.place[1] = place);
        preview.repriced = moves.iter().filter(|job| job.priority[0] != job.priority[1]).count();
        moves.retain(|job| job.place[0] != job.place[1]);
        preview.moved = moves.len();
        // If the positions of two jobs change by the same number, the job with the lower id comes first.
        moves.sort_by(|a, b| b.distance().cmp(&a.distance()).then(a.id.cmp(&b.id)));
        moves.truncate(most);
        preview.moves = moves;
        let removed = copy.shared.book.removed().filter(|(id, _)| self.shared.book.is_in_force(*id));
        let removed = removed.map(|(id, association)| RemovedAssociation {
            user: association.user,
            bank: association.bank.clone(),
            jobs: self.shared.ledger.accounts().usage(id).active_jobs,
        });
        preview.removed_with_jobs = removed.filter(|association| association.jobs > 0).collect();
        let defaults = self.shared.book.changed_default_banks(&copy.shared.book);
        let changed =
            defaults.map(|(user, banks)| DefaultBankChange { user, banks: banks.map(Clone::clone) });
        preview.default_banks = changed.collect();
        preview.rejected_count = preview.rejected.len();
        preview.removed_with_jobs_count = preview.removed_with_jobs.len();
        preview.rejected.truncate(MAX_LISTED);
        preview.removed_with_jobs.truncate(MAX_LISTED);
        Ok(preview)
    }

    /// Returns the records that a push in one part would change. Fails with the reason if the push would be rejected.
    pub fn difference(&self, records: SiteRecords, site: SitePart) -> Result<Difference, String> {
        let mut copy = self.copy_without_jobs(self.shared.now);
        let Engine { shared, staged_push, recovery, refresh, .. } = &mut copy;
        check_rejection(&staged_push.push_site_document(shared, recovery, refresh, records, site))?;
        Ok(copy.shared.book.latest())
    }

    /// Returns an engine without jobs in which the staged push is committed, with fair-shares as of `now`.
    fn commit_push_to_engine_copy(&self, now: f64) -> Result<Engine, String> {
        let mut copy = self.copy_without_jobs(now);
        let Engine { shared, staged_push, recovery, refresh, .. } = &mut copy;
        check_rejection(&staged_push.commit_push(shared, recovery, refresh))?;
        copy.shared.standing.refresh(now);
        Ok(copy)
    }

    /// Returns an engine with the same configuration, but without jobs.
    fn copy_without_jobs(&self, now: f64) -> Engine {
        let tables = Tables {
            rules: self.shared.ledger.rules(),
            factors: self.shared.weighed.factors(),
            batches: self.shared.batches,
        };
        let mut copy = Engine::with_tables(self.shared.owner, tables);
        copy.shared.now = now;
        copy.shared.book = self.shared.book.clone();
        copy.shared.standing = self.shared.standing.clone();
        copy.shared.settings = self.shared.settings.clone();
        copy.shared.budgets = self.shared.budgets.clone();
        copy.shared.queues = self.shared.queues.clone();
        (copy.shared.ages, copy.shared.site_nodes) = (self.shared.ages, self.shared.site_nodes);
        copy.staged_push = self.staged_push.clone();
        copy
    }
}

/// Returns the text with which a job that waits for data would be rejected, or `None` if it would be accepted.
fn rejection_of_waiting_job(view: &View<'_>, job: &Job) -> Option<String> {
    let bank = job.bank.as_deref();
    let Some(association) = view.book.find(job.user, bank) else {
        return bank.filter(|_| !view.is_owner(job.user)).map(|_| unknown_association_text(job.user));
    };
    rejection_in_association(view, association, job)
}

/// Returns the text of the first [`Effect::RejectPush`] in `effects` as an error.
fn check_rejection(effects: &[Effect]) -> Result<(), String> {
    let text = effects.iter().find_map(|effect| effect.push_rejection());
    text.map_or(Ok(()), |text| Err(text.to_owned()))
}

/// Sets the position of each job in its scheduler queue, by descending priority and then by id.
fn set_positions(queues: &Queues, jobs: &mut [Move], priority: fn(&Move) -> u32, put: fn(&mut Move, usize)) {
    jobs.sort_unstable_by_key(|job| (std::cmp::Reverse(priority(job)), job.id));
    let mut places: HashMap<Option<QueueName>, usize> = HashMap::new();
    for job in jobs {
        let place = places.entry(queues.scheduler_queue(job.queue.as_ref()).cloned()).or_default();
        *place += 1;
        put(job, *place);
    }
}
