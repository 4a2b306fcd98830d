// SPDX-License-Identifier: LGPL-3.0-only
//! Carries out the work of the next reactor turn and of the next retry, in a fixed order.

use super::{
    Effect, Engine, Timer, admission,
    age::{self, ask_site_nodes},
    blocked, priority_answers, unmoved,
};

/// Timers may fire too early by at most this number of seconds.
const EARLY: f64 = 0.1;

impl Engine {
    /// Carries out the work that was noted for this reactor turn.
    pub(super) fn run_reactor_turn(&mut self) -> Vec<Effect> {
        // Timers do not fire during Flux's loop or during a release scan. So both are over, even if a panic prevented
        // the engine from noticing their end.
        self.scanner.begin_reactor_turn();
        self.refresh.exit_loop();
        if let Some(effects) = self.look_up_next_jobs() {
            return effects;
        }
        let mut effects = priority_answers::end_jobs_without_priority(&mut self.shared);
        effects.extend(unmoved::request_next_urgencies(&mut self.shared));
        effects.extend(admission::complete_jobspecs(&mut self.shared));
        effects.extend(blocked::watch_blocked_jobs(&mut self.shared));
        // The engine must determine which eventlogs to read before it releases a job.
        let replayed = self.recovery.finish_replay(&mut self.shared);
        let due_scans = self.shared.due.take_scans_for_reactor_turn();
        effects.extend(self.scanner.scan_associations(&mut self.shared, &mut self.recovery, due_scans));
        effects.extend(self.recovery.scan_associations_with_read_eventlogs(&mut self.shared));
        effects.extend(self.scanner.run_requested_scans(&mut self.shared, &mut self.recovery));
        effects.extend(replayed);
        let has_new_terms = self.shared.due.take_priority_settings_change();
        effects.extend(age::reprioritize_if_changed(&self.shared, has_new_terms));
        effects.extend(self.shared.expirations.look_up_next_expirations());
        effects
    }

    /// Repeats reads that failed. Ends jobs that have waited too long for the record of the instance owner.
    pub fn retry_failed_reads(&mut self) -> Vec<Effect> {
        let Engine { shared, recovery, .. } = self;
        let (now, patience) = (shared.now, Timer::Retry.seconds());
        // If the clock was set back, the time that a job has waited is unknown.
        let is_over = |since: f64| !(0.0..patience - EARLY).contains(&(now - since));
        shared.due.end_jobs_after_long_wait(is_over);
        let mut effects = priority_answers::end_jobs_without_priority(shared);
        effects.extend(shared.due.is_awaiting_owner_record().then_some(Effect::Arm(Timer::Retry)));
        effects.extend(recovery.unreadable().iter().copied().map(Effect::ReadEventlog));
        effects.extend(shared.ended.repeat_request(&mut shared.standing, &shared.book, shared.now));
        effects.extend(ask_site_nodes(shared));
        effects.extend(shared.unmoved.timer());
        effects
    }
}
