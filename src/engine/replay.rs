// SPDX-License-Identifier: LGPL-3.0-only
//! Jobs shown at plugin load or job-manager restart.
//!
//! What Flux shows then is not enough: names added in an earlier life are in the eventlog only, jobs in PRIORITY are
//! never asked about, and updates from these callbacks may land on other jobs. So a replayed job is only counted, and
//! a zero-delay timer does the rest when all have been seen.

use super::others::Others;
use super::{Effect, Engine, Event, JobFacts, Posting, State};
use crate::ids::{JobId, Limit};
use crate::limits::{Grant, Job, Line, Name, Names, Origin, Phase};

impl Engine {
    /// Counts a replayed job by its state. Nothing is refused, nothing is raised.
    pub(super) fn replayed(&mut self, mut job: Job, facts: &JobFacts<'_>) -> Vec<Effect> {
        job.phase = match facts.state {
            State::New => Phase::New,
            State::Depend => Phase::Depend,
            State::Priority => Phase::Priority,
            State::Sched => Phase::Sched,
            State::Run => Phase::Run,
            // Resources are held until INACTIVE.
            State::Cleanup if facts.has_resources => Phase::Run,
            State::Cleanup => Phase::Cleanup,
            State::Inactive => return Vec::new(),
        };
        job.is_unread = job.phase == Phase::Depend;
        self.unread += usize::from(job.is_unread);
        self.ledger.insert(facts.id, job);
        let mut effects = Engine::log_unmeasured(facts);
        if !self.is_replaying {
            self.is_replaying = true;
            effects.push(Effect::Defer);
        }
        effects
    }

    /// The next reactor turn: what could not be done inside callbacks.
    pub(super) fn deferred(&mut self) -> Vec<Effect> {
        if let Some(effects) = self.resync_step() {
            return effects;
        }
        let mut effects = self.refuse();
        let moves = std::mem::take(&mut self.moves);
        effects.extend(moves.into_iter().map(|(id, price)| Effect::Prioritize(id, price)));
        effects.extend(self.complete_jobspecs());
        for association in std::mem::take(&mut self.passed_over) {
            effects.extend(self.pass_along(association, Line::KeptByNobodyElse));
        }
        if !std::mem::take(&mut self.is_replaying) {
            return effects;
        }
        effects.extend(self.read_eventlogs());
        // Flux asks about jobs in PRIORITY at plugin load, but not after a restart.
        let is_due = |job: &Job| job.phase == Phase::Priority && job.origin == Origin::Replayed;
        if self.ledger.jobs().any(|(_, job)| is_due(job)) {
            effects.push(Effect::ReprioritizeAll);
        }
        if self.unread == 0 {
            self.resync.ended();
            effects.push(Effect::Then(Event::ReleaseAll));
        }
        effects
    }

    /// Posts banks and projects that are missing in jobspecs of attached jobs which are still pending.
    fn complete_jobspecs(&mut self) -> Vec<Effect> {
        let is_due = |job: &Job| {
            let is_pending = matches!(job.phase, Phase::Depend | Phase::Priority | Phase::Sched);
            let is_ours = job.origin == Origin::Replayed && job.association.is_some() && !job.is_broken;
            job.needs_admission && is_ours && is_pending
        };
        let due: Vec<JobId> = self.ledger.jobs().filter(|(_, job)| is_due(job)).map(|(id, _)| id).collect();
        let mut effects = Vec::new();
        for id in due {
            let Some(job) = self.ledger.job(id) else { continue };
            let Some(association) = job.association else { continue };
            effects.extend(self.complete_jobspec(id, job, association, Posting::ById));
            self.ledger.change(id, |job| job.needs_admission = false);
        }
        effects
    }

    /// Asks for the eventlogs of pending jobs that may have been held by us: which names are outstanding, and which jobs
    /// were released and have headroom reserved. These are all of a user who has one in DEPEND, and those that a limit
    /// on running jobs can concern; of the thousands of others nothing needs to be read.
    fn read_eventlogs(&mut self) -> Vec<Effect> {
        let users = self.ledger.users_with_replayed_holds();
        let is_due = |job: &Job| {
            let is_pending = matches!(job.phase, Phase::Depend | Phase::Priority | Phase::Sched);
            let may_be_held = users.contains(&job.user) || self.is_limited(job);
            job.origin == Origin::Replayed && is_pending && may_be_held
        };
        let due: Vec<JobId> = self.ledger.jobs().filter(|(_, job)| is_due(job)).map(|(id, _)| id).collect();
        self.read_eventlogs_of(due)
    }

    pub(super) fn read_eventlogs_of(&mut self, due: Vec<JobId>) -> Vec<Effect> {
        for id in &due {
            let was_unread = self.ledger.change(*id, |job| std::mem::replace(&mut job.is_unread, true));
            self.unread += usize::from(was_unread == Some(false));
        }
        due.into_iter().map(Effect::ReadEventlog).collect()
    }

    /// Whether a limit on what runs concerns the job: only for those does a released job in SCHED still reserve.
    pub(super) fn is_limited(&self, job: &Job) -> bool {
        let association = job.association.and_then(|id| self.book.association(id));
        let by_association = association.is_some_and(|limits| {
            let caps = [limits.max_running_jobs, limits.max_nodes, limits.max_cores];
            !caps.into_iter().all(Limit::is_unlimited)
        });
        let queue = job.queue.as_ref().and_then(|queue| self.book.queue(queue.as_str()));
        by_association || queue.is_some_and(|limits| !limits.max_running_jobs.is_unlimited())
    }

    /// Takes over the names an eventlog tells of.
    pub(super) fn eventlog(&mut self, id: JobId, history: Option<Vec<(String, bool)>>) -> Vec<Effect> {
        if !self.ledger.job(id).is_some_and(|job| job.is_unread) {
            return Vec::new();
        }
        // What callbacks told meanwhile is known already, and may be later than what is read here.
        for (name, added) in history.iter().flatten().filter(|(name, _)| Name::parse(name).is_none()) {
            self.others.entry(id).or_default().note(name, *added);
        }
        let is_kept = self.others.get(&id).is_some_and(Others::keep_it);
        self.ledger.change(id, |job| {
            job.is_unread = false;
            job.is_kept_by_others = is_kept;
            match &history {
                Some(history) => {
                    let ours = history.iter().filter_map(|(text, added)| Some((Name::parse(text)?, *added)));
                    ours.for_each(|(name, added)| job.names.replay(name, added));
                }
                // Removing a name that is not there does no harm to an idle job.
                None if job.phase == Phase::Depend => job.names = Names::unknown(),
                None => {}
            }
            if job.names.were_used() && job.names.outstanding().is_empty() {
                job.grant = match job.phase {
                    Phase::Depend => Grant::Blocked,
                    Phase::Priority | Phase::Sched => Grant::Given,
                    Phase::New | Phase::Run | Phase::Cleanup => Grant::None,
                };
            }
        });
        self.one_less_unread()
    }

    /// When all eventlogs are read, whoever may go is released, and then whoever must be held is.
    pub(super) fn one_less_unread(&mut self) -> Vec<Effect> {
        self.unread = self.unread.saturating_sub(1);
        if self.unread > 0 {
            return Vec::new();
        }
        let mut effects = self.release_all();
        effects.push(Effect::Then(Event::ReplayRead));
        effects
    }

    /// Holds replayed jobs that carry no name of ours and don't fit.
    pub(super) fn hold_replayed(&mut self) -> Vec<Effect> {
        self.resync.ended();
        let is_free = |job: &Job| {
            let is_nameless = job.names.outstanding().is_empty() && job.grant == Grant::None;
            job.origin == Origin::Replayed
                && job.phase == Phase::Depend
                && job.association.is_some()
                && is_nameless
        };
        let free: Vec<JobId> = self.ledger.jobs().filter(|(_, job)| is_free(job)).map(|(id, _)| id).collect();
        free.into_iter().flat_map(|id| self.hold(id)).collect()
    }
}
