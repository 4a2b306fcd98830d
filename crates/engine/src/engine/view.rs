// SPDX-License-Identifier: LGPL-3.0-only
//! The engine's state, read-only, from which answers and priorities are computed. `terms.rs` computes priorities.

use super::{
    Engine, Settings, Shared, age,
    answers::SiteSize,
    hold::can_rest,
    posted::JobPriorities,
    recovery::Recovery,
    refresh::{LiveSnapshot, Refresh, RefreshProgress},
};
use crate::accounts::Difference;
use crate::ids::{JobId, QueueName, UserId, Word};
use crate::limits::{Job, Phase, PositionAmongJobs};
use crate::standing::TreePage;
use fairshare::{Options, insert_all};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ops::Deref;

/// The state that answers are computed from.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The state that several parts of the engine read and change.
    pub(super) shared: &'a Shared,
    pub(super) refresh: &'a Refresh,
    pub(super) recovery: &'a Recovery,
}

impl Deref for View<'_> {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        self.shared
    }
}

impl Engine {
    /// Returns a read-only view of the state.
    pub fn view(&self) -> View<'_> {
        View { shared: &self.shared, refresh: &self.refresh, recovery: &self.recovery }
    }
}

impl<'a> View<'a> {
    /// Returns the current settings.
    pub fn settings(&self) -> &'a Settings {
        &self.shared.settings
    }

    /// Returns true if the job is live.
    pub fn has_job(&self, id: JobId) -> bool {
        self.ledger.job(id).is_some()
    }

    /// Returns true while the engine reads eventlogs after a reload.
    pub fn is_replaying(&self) -> bool {
        self.recovery.is_replaying()
    }

    /// Returns true if a callback panicked and the jobs have not been compared with Flux since.
    pub fn needs_comparison(&self) -> bool {
        self.recovery.needs_comparison()
    }

    /// Returns the user of job `id`, or `None` for an unknown job.
    pub fn user_of(&self, id: JobId) -> Option<UserId> {
        self.ledger.job(id).map(|job| job.user)
    }

    /// Returns true if limits hold the job.
    pub fn is_held(&self, id: JobId) -> bool {
        self.ledger.job(id).is_some_and(Job::is_held)
    }

    /// Returns the queue of a job that does not run yet; `None` for any other job.
    pub fn queue_of_unstarted_job(&self, id: JobId) -> Option<Option<&'a QueueName>> {
        let job = self.shared.ledger.job(id).filter(|job| job.phase < Phase::Run)?;
        Some(job.queue.as_ref())
    }

    /// Returns the limits of all scopes that hold a job now, or that would hold the job if it were released
    /// now.
    #[cfg(test)]
    pub fn holding(&self, id: JobId) -> Vec<crate::limits::Holding> {
        self.limits().holding(id)
    }

    /// Returns true if only dependencies of this plugin hold the job in DEPEND. The job can then be moved to SCHED at urgency 0.
    pub fn can_rest(&self, id: JobId) -> bool {
        self.ledger.job(id).is_some_and(can_rest)
    }

    /// Returns the numbers of associations, queues and live jobs.
    pub fn site_size(&self) -> SiteSize {
        SiteSize {
            associations: self.book.len(),
            queues: self.book.tables().queues.len(),
            jobs: self.ledger.job_count(),
        }
    }

    /// Returns the number of accepted updates.
    pub fn generation(&self) -> u64 {
        self.book.generation()
    }

    /// Returns the changes of the last push of associations or of a whole site document.
    pub fn last_difference(&self) -> Difference {
        self.book.latest()
    }

    /// Returns the name of an array that no part of the staged push contained, or `None` if the push is complete.
    pub fn missing_array(&self) -> Option<&'static str> {
        self.book.missing_array()
    }

    /// Returns a page of the live tree, as [`Standing::tree_page`](crate::standing::Standing::tree_page); `None` if fair-share is
    /// not live.
    pub fn tree_page(&self, first: usize, most: usize, now: f64) -> Option<TreePage> {
        self.standing.tree_page(first, most, now).filter(|_| self.is_live())
    }

    /// Returns the name of the ranking policy, or `None` if no tree was pushed.
    pub fn ranking_policy(&self) -> Option<Word> {
        Some(Cow::Borrowed(self.standing.rule()?.policy.name()))
    }

    /// Returns the options of the ranking policy, by name, or `None` if no tree was pushed.
    pub fn ranking_options(&self) -> Option<BTreeMap<String, String>> {
        let rule = self.standing.rule()?;
        let settings = rule.options.settings().into_iter();
        let applied = settings.filter(|(name, _)| Options::applies(name, rule.policy));
        Some(insert_all(applied.map(|(name, value)| (name.to_owned(), value))))
    }

    /// Returns the state of live fair-share for the answer to `query`.
    pub fn get_live_fairshare_details(&self) -> LiveSnapshot {
        let (last, is_refreshing) = self.refresh.last_refresh();
        let (pending, lagging) = self.posted.count_pending_and_stale();
        let (associations, running, ended) = self.standing.usages.counts();
        LiveSnapshot {
            accrual: Cow::Borrowed(self.settings.accrual.name()),
            ages: age::get_age_state_for_query(self),
            associations,
            ended,
            generation: self.standing.generation(),
            interleave: self.settings.interleave,
            lagging,
            last,
            is_on: self.is_live(),
            options: self.ranking_options(),
            pending,
            policy: self.ranking_policy(),
            refresh: self.settings.refresh,
            is_refreshing,
            running,
        }
    }

    /// Returns how many refreshes have ended, and whether one is in progress.
    pub fn refresh_progress(&self) -> RefreshProgress {
        RefreshProgress { total: self.refresh.totals().0, is_under_way: self.refresh.last_refresh().1 }
    }

    /// Returns the posted and the current priority of job `id`, or `None` if the job is not pending.
    pub fn priorities_of(&self, id: JobId) -> Option<JobPriorities<'a>> {
        let (job, noted) = self.shared.posted.pending().get(id)?;
        let (exact, turn) = (self.current_priority(id)?, self.turn(id, noted.association));
        Some(JobPriorities { noted, posted: noted.explanation(job.posted), exact, turn })
    }

    /// Returns at most `most` pending jobs by ascending id, beginning after job `after`.
    pub fn list_pending_jobs_after(&self, after: Option<JobId>, most: usize) -> Vec<JobId> {
        self.posted.pending().ids_after(after).take(most).collect()
    }

    /// Returns the position of each pending job in `ids` in its scheduler queue.
    pub fn places(&self, ids: impl IntoIterator<Item = JobId>) -> HashMap<JobId, PositionAmongJobs> {
        let places = self.posted.pending().places(ids).into_iter();
        places.map(|(id, (place, of))| (id, PositionAmongJobs { place, of })).collect()
    }

    /// Returns the posted priority of a pending job; `None` for any other job.
    pub fn posted_priority(&self, id: JobId) -> Option<u32> {
        self.posted.posted_priority(id)
    }
}
