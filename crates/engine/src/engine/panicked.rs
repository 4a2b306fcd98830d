// SPDX-License-Identifier: LGPL-3.0-only
//! Compares all jobs with Flux after a panic. `recovery/resync.rs` has the reasons and the list of jobs.

use super::{
    Effect, Engine, JobFacts, Level, Refusal, State, Timer, accrual, age::ask_site_nodes,
    effect::reprioritize_all, life,
};
use crate::ids::JobId;
use crate::limits::Job;

impl Engine {
    /// Notes that a callback panicked. The callback may have been about job `id`.
    pub(super) fn handle_panic(&mut self, id: Option<JobId>) -> Vec<Effect> {
        let is_compared = self.recovery.record_callback_panic(&mut self.shared, id);
        let mut effects =
            if is_compared { self.recovery.begin_comparison(&mut self.shared) } else { self.keep_records() };
        // The panicked callback may have lost requests to Flux and timers. So the engine sends the requests and
        // arms the timers again.
        self.shared.queues.repeat_request();
        self.shared.time_left.mark_timer_lost();
        effects.extend(self.store_ended_jobs(None));
        effects.extend(self.refresh.refresh_after_panic(&mut self.shared));
        effects.extend(ask_site_nodes(&self.shared).map(|_| Effect::Arm(Timer::Retry)));
        effects
    }

    /// Abandons the comparison after too many panics: the records of jobs stay as they are, and release scans no
    /// longer wait for unread eventlogs.
    fn keep_records(&mut self) -> Vec<Effect> {
        let text =
            "cannot compare the plugin's job records with Flux's jobs; the plugin retries at the next request".to_owned();
        let mut effects = vec![Effect::Log(Level::Error, text)];
        for id in self.recovery.abandon_comparison(&self.shared) {
            effects.extend(self.recovery.store_eventlog_names(&mut self.shared, id, None));
            effects.extend(self.scanner.run_requested_scans(&mut self.shared, &mut self.recovery));
        }
        effects
    }

    /// Returns the effects that look up the next jobs in Flux, or `None` if no jobs are left.
    pub(super) fn look_up_next_jobs(&mut self) -> Option<Vec<Effect>> {
        let (jobs, are_last) = self.recovery.take_next_lookups()?;
        let mut effects: Vec<Effect> = jobs.into_iter().map(Effect::LookUp).collect();
        if are_last {
            // The panic may have lost posted priorities.
            self.refresh.allow_stale_posts();
            effects.extend(reprioritize_all());
        }
        effects.push(Effect::Arm(Timer::ReactorTurn));
        Some(effects)
    }

    /// Replays a job as Flux shows it now.
    pub(super) fn replay_looked_up_job(&mut self, facts: &JobFacts<'_>) -> Vec<Effect> {
        let memo = self.shared.ledger.job(facts.id).and_then(|job| job.memo);
        let is_over = facts.state == State::Inactive;
        let mut effects =
            if is_over { accrual::record_unreported_end(&mut self.shared, facts.id) } else { Vec::new() };
        life::remove_job(&mut self.shared, &mut self.recovery, facts.id);
        self.shared.expirations.remove_job(facts.id);
        effects.extend(self.shared.subscriptions.renew_subscription(facts.id, facts.state));
        if !is_over {
            effects.extend(life::add_job(&mut self.shared, &mut self.recovery, facts));
            self.shared.ledger.store_posted_fairshare_memo(facts.id, memo);
        }
        self.recovery.record_job_lookup(facts.id);
        let runs = facts.state == State::Run;
        effects.extend(self.shared.expirations.update_job(&self.shared.ledger, facts.id, runs));
        effects
    }

    /// Handles a refused lookup. If Flux does not have the job, removes the job, which has most likely ended.
    pub(super) fn handle_refused_lookup(&mut self, id: JobId, why: &Refusal) -> Vec<Effect> {
        self.recovery.record_job_lookup(id);
        if let Refusal::Other(text) = why {
            let mut effects =
                vec![Effect::Log(Level::Error, format!("job {id}: failed to look it up: {text}"))];
            // The panic may have lost the answer that contains the eventlog of the job.
            let is_unread = self.shared.ledger.job(id).is_some_and(Job::is_unread);
            effects.extend(is_unread.then_some(Effect::ReadEventlog(id)));
            return effects;
        }
        let mut effects = accrual::record_unreported_end(&mut self.shared, id);
        effects.extend(self.shared.expirations.update_job(&self.shared.ledger, id, false));
        life::remove_job(&mut self.shared, &mut self.recovery, id);
        // Flux has no subscription to end, because it does not have the job.
        drop(self.shared.subscriptions.end_subscription(id));
        effects
    }
}
