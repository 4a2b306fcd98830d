// SPDX-License-Identifier: LGPL-3.0-only
//! The engine's state, read-only: what answers to people are computed from, and priorities. `terms.rs` computes priorities.

use super::answers::Extent;
use super::batches::Batches;
use super::due::Due;
use super::kept::News;
use super::live::{LiveOutline, LiveSnapshot, budget};
use super::queues::Queues;
use super::subscriptions::Subscriptions;
use super::validate::joined;
use super::{Engine, Settings, age};
use crate::accounts::{AssociationId, Book, Difference};
use crate::ids::{BankName, JobId, QueueName, UserId};
use crate::limits::{Holding, Job, Keepers, Ledger, Phase};
use crate::priority::{Ages, Weighed};
use crate::standing::Standing;
use std::collections::BTreeSet;
use std::num::NonZeroU64;

/// The state that answers are computed from.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub(super) book: &'a Book,
    pub(super) ledger: &'a Ledger,
    pub(super) standing: &'a Standing,
    pub(super) live: &'a super::Live,
    pub(super) weighed: &'a Weighed,
    pub(super) ages: &'a Ages,
    pub(super) settings: &'a Settings,
    pub(super) queues: &'a Queues,
    pub(super) subscriptions: &'a Subscriptions,
    pub(super) unreadable: &'a BTreeSet<JobId>,
    pub(super) unpriced: &'a BTreeSet<JobId>,
    pub(super) due: &'a Due,
    pub(super) news: &'a News,
    pub(super) batches: &'a Batches,
    /// Nodes of the site; 0 if unknown.
    pub(super) site_nodes: u64,
    pub(super) owner: UserId,
    /// Whether eventlogs are being read after a reload.
    pub(super) is_replaying: bool,
    /// Whether a panic came, and jobs were not compared with Flux since.
    pub(super) is_doubtful: bool,
    /// The number of events so far that may have changed any priority.
    pub(super) revision: NonZeroU64,
    /// The time of the last event, in seconds since the epoch.
    pub(super) now: f64,
}

impl Engine {
    /// Returns the state to read.
    pub fn view(&self) -> View<'_> {
        View {
            book: &self.book,
            ledger: &self.ledger,
            standing: &self.standing,
            live: &self.live,
            weighed: &self.weighed,
            ages: &self.ages,
            settings: &self.settings,
            queues: &self.queues,
            subscriptions: &self.subscriptions,
            unreadable: &self.unreadable,
            unpriced: &self.unpriced,
            due: &self.due,
            news: &self.news,
            batches: &self.batches,
            site_nodes: self.site_nodes,
            owner: self.owner,
            is_replaying: self.replay.is_due(),
            is_doubtful: self.resync.is_doubtful(),
            revision: self.revision,
            now: self.now,
        }
    }
}

impl<'a> View<'a> {
    /// Returns the settings in force.
    pub fn settings(&self) -> &'a Settings {
        self.settings
    }

    /// Returns true if the job is live.
    pub fn knows(&self, id: JobId) -> bool {
        self.ledger.job(id).is_some()
    }

    /// Returns true while eventlogs are being read after a reload.
    pub fn is_replaying(&self) -> bool {
        self.is_replaying
    }

    /// Returns true if a call panicked and jobs were not compared with Flux since.
    pub fn is_doubtful(&self) -> bool {
        self.is_doubtful
    }

    /// Returns the user of a live job.
    pub fn user_of(&self, id: JobId) -> Option<UserId> {
        self.ledger.job(id).map(|job| job.user)
    }

    /// Returns true if limits hold the job.
    pub fn is_held(&self, id: JobId) -> bool {
        self.ledger.job(id).is_some_and(Job::is_held)
    }

    /// Returns the queue of a job that does not run yet; `None` for any other job.
    pub fn queue_of_waiting(&self, id: JobId) -> Option<Option<&'a QueueName>> {
        let job = self.ledger.job(id).filter(|job| job.phase < Phase::Run)?;
        Some(job.queue.as_ref())
    }

    /// Returns the limits that hold a job now, or would hold it if it were released now, of all scopes.
    pub fn holding(&self, id: JobId) -> Vec<Holding> {
        self.ledger.holding(self.book, id)
    }

    /// Returns true if the job is held in DEPEND by names of this plugin alone, so that it can be put into SCHED at urgency 0.
    pub fn may_rest(&self, id: JobId) -> bool {
        let may =
            |job: &Job| job.is_held() && job.phase == Phase::Depend && job.keepers == Keepers::NobodyElse;
        self.ledger.job(id).is_some_and(may)
    }

    /// Returns the numbers of associations, queues and live jobs.
    pub fn extent(&self) -> Extent {
        Extent { associations: self.book.len(), queues: self.book.queues().count(), jobs: self.ledger.len() }
    }

    /// Returns the number of accepted updates.
    pub fn generation(&self) -> u64 {
        self.book.generation()
    }

    /// Returns what the last push of associations or of a whole site document changed.
    pub fn latest_difference(&self) -> Difference {
        self.book.latest()
    }

    /// Returns the name of an array that no part of the staged push contained.
    pub fn lacks(&self) -> Option<&'static str> {
        self.book.lacks()
    }

    /// Returns the state of live fair-share that all answers contain.
    pub fn outline(&self) -> LiveOutline {
        LiveOutline {
            is_on: self.is_live(),
            rule: self.standing.rule(),
            generation: self.standing.generation(),
            half_life: self.standing.scale().and_then(|scale| scale.half_life().seconds()),
            refreshed: self.live.last_refresh().0.map(|last| last.when),
        }
    }

    /// Returns the state of live fair-share that `query` shows.
    pub fn live_snapshot(&self) -> LiveSnapshot {
        let (last, is_refreshing) = self.live.last_refresh();
        let (pending, lagging) = self.live.pending_and_stale();
        LiveSnapshot {
            is_on: self.is_live(),
            settings: self.settings.clone(),
            rule: self.standing.rule(),
            generation: self.standing.generation(),
            counts: self.standing.counts(),
            pending,
            lagging,
            last,
            is_refreshing,
            ages: age::age_snapshot(self),
        }
    }

    /// Returns how many priorities a refresh posts at most.
    pub(super) fn budget(&self) -> usize {
        budget(self.live, self.settings)
    }

    /// Returns the bank of an association.
    pub(super) fn bank_of(&self, association: Option<AssociationId>) -> Option<BankName> {
        Some(self.book.association(association?)?.bank.clone())
    }

    /// Returns true if the user owns the instance.
    pub(super) fn is_owner(&self, user: UserId) -> bool {
        user == self.owner
    }

    /// Returns the text that rejects a queue of the site if the association may not use it. A push may make up a record for the
    /// instance owner, which lists no queue; the owner may use all.
    pub(super) fn forbidden_queue(&self, association: AssociationId, queue: Option<&str>) -> Option<String> {
        let queue = queue.filter(|q| self.book.queue(q).is_some())?;
        let association = self.book.association(association)?;
        let is_made_up = self.is_owner(association.user) && association.queues.is_empty();
        if is_made_up || association.permits_queue(queue) {
            return None;
        }
        let valid = joined(&association.queues);
        Some(format!("queue \"{queue}\" not valid for user; valid queues for user: {valid}"))
    }

    /// Returns the text that rejects a project if the association may not charge it.
    pub(super) fn forbidden_project(
        &self,
        association: AssociationId,
        project: Option<&str>,
    ) -> Option<String> {
        let (project, association) = (project?, self.book.association(association)?);
        let is_known = self.book.has_project(project) || association.is_default_project(project);
        if is_known && association.permits_project(project) {
            return None;
        }
        let valid = joined(&association.projects);
        Some(format!("project \"{project}\" not valid for user; valid projects for user: {valid}"))
    }
}
