// SPDX-License-Identifier: LGPL-3.0-only
//! The engine handles an [`Event`] and its time, and returns [`Effect`]s. It does no I/O, reads no clock, has
//! no unsafe code, and does not panic.
//!
//! Flux calls back into the plugin while it carries out an effect: if the plugin removes the last dependency
//! of a job, Flux calls the priority and sched callbacks of the job before the removal returns. So the engine
//! records each decision before it returns the effect. An effect is only a value. The caller must not hold a
//! borrow of the engine while it carries out an effect. An effect that Flux refuses comes back through
//! [`Engine::refused`].
//!
//! # Parts
//! [`Engine::handle`] lists the events, and passes each to one module. A module calls only modules below it:
//!
//! ```text
//! mod.rs, reactor_turn.rs, panicked.rs, refused.rs, preview.rs   Engine: events, the next reactor turn, panics, refusals, previews
//! site.rs                             StagedPush: pushes and settings
//! priority_answers.rs                 answers with a priority
//! release.rs                          ReleaseScanner: releases held jobs
//! refresh/                            Refresh: live fair-share in slices, and which priorities to post
//! recovery/                           Recovery: unknown facts after a restart or a panic
//! validate.rs, updates.rs, life.rs    functions for the events of a job from validation to INACTIVE
//! priorities.rs, admission.rs, hold.rs, blocked.rs, age.rs, accrual.rs, ...   functions that change Shared
//! shared.rs, terms.rs                 Shared: the state that several types use; how a priority is computed
//! posted/, due.rs, queues.rs, subscriptions.rs, ended.rs, ...                 the tables in Shared
//! ```
//!
//! The state of each of these types is private to its module.
//!
//! # How work continues
//! - A release scan that an event calls for is noted in `Due`. [`Engine::handle`] carries it out at the end of the event.
//! - Work that must not begin before earlier effects are carried out is an effect itself: [`Effect::Then`] with a [`Step`].
//! - Work that must not be done in the running callback is noted for the next reactor turn (`reactor_turn.rs`), mostly in `Due`.
//! - A refresh continues in slices ([`Timer::Slice`]), because it visits all associations and jobs. It may pause between posts.
//! - Flux may refuse a post or a read again in the next reactor turn. So the engine repeats it after 5 s ([`Timer::Retry`]).
//!
//! docs/design/README.md says why none of these ways can replace another.

mod accrual;
mod admission;
mod age;
mod annotate;
pub mod answers;
mod batches;
mod blocked;
mod budgets;
mod due;
mod effect;
mod ended;
mod event;
mod expirations;
mod hand_over;
mod hold;
mod life;
mod panicked;
mod posted;
mod preview;
mod priorities;
mod priority_answers;
mod queue_shapes;
mod queue_states;
mod queues;
mod reactor_turn;
mod recovery;
mod refresh;
mod refused;
mod release;
mod settings;
mod shared;
mod site;
mod snapshot_source;
mod step;
mod subscriptions;
mod terms;
#[cfg(test)]
pub(crate) mod tests;
mod time_left;
mod timer;
mod unmoved;
mod unsaved_ended;
mod updates;
mod validate;
mod view;

pub use age::AgeSnapshot;
pub use batches::Batches;
pub use effect::{Effect, Level, Posting};
pub use event::{EndedJob, Event, JobFacts, Past, QueueReport, Refusal, State};
pub use hand_over::{HandOverOutcome, JobForHandOver, JobsToHandOverPage, Resting, hand_over};
pub use posted::{Change, Changes, JobPriorities, Posted};
pub use refresh::{LastRefresh, LiveSnapshot, RefreshProgress, Turn};
pub use settings::Settings;
pub use shared::Shared;
pub use snapshot_source::{
    SavedAssociation, SavedSite, as_pushed, associations_page, has_unsaved_jobs, site_document, uncovered,
};
pub use step::Step;
pub use timer::Timer;
pub use unsaved_ended::UnsavedEndedJobs;
pub use view::View;

use crate::accounts::Book;
use crate::ids::{JobId, UserId};
use crate::limits::Rules;
use crate::priority::Factors;
use crate::standing::{Retention, Standing};
use recovery::Recovery;
use refresh::Refresh;
use release::ReleaseScanner;
use site::StagedPush;

/// The tables of limits and factors, and the sizes of batches. The rows of a table are independent of each other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tables {
    /// The limits.
    pub rules: Rules,
    /// The factors of the priority.
    pub factors: Factors,
    /// The number of jobs that the engine handles in one reactor turn, for each kind of work.
    pub batches: Batches,
}

/// All state of the plugin that Flux does not have.
#[derive(Clone, Debug)]
pub struct Engine {
    shared: Shared,
    recovery: Recovery,
    scanner: ReleaseScanner,
    refresh: Refresh,
    staged_push: StagedPush,
}

impl Engine {
    /// Returns an engine without data. `owner` is the user that runs the instance.
    pub fn new(owner: UserId) -> Self {
        Engine::with_tables(owner, Tables::default())
    }

    /// Returns an engine without data, with the limits, factors and batches in `tables`.
    pub fn with_tables(owner: UserId, tables: Tables) -> Self {
        Engine {
            shared: Shared::new(owner, tables),
            recovery: Recovery::default(),
            scanner: ReleaseScanner::default(),
            refresh: Refresh::default(),
            staged_push: StagedPush::default(),
        }
    }

    /// Sets how many ended jobs are stored before jobs are evicted. Must be called before any job ends.
    #[must_use]
    pub fn with_retention(mut self, memory: Retention) -> Self {
        self.shared.standing = Standing::new(memory);
        self
    }

    /// Returns the ended jobs that the snapshot does not contain yet.
    pub fn unsaved_ended(&mut self) -> &mut UnsavedEndedJobs {
        &mut self.shared.unsaved_ended
    }

    /// Handles one event, and returns the effects to carry out. `now` is the time of the event, in seconds
    /// since the epoch. `now` may be earlier than the time of the previous event: a clock may be set back,
    /// and events from an eventlog have the time of their entry.
    pub fn handle(&mut self, now: f64, event: Event<'_>) -> Vec<Effect> {
        self.shared.now = now;
        self.shared.revision += u64::from(!event.concerns_single_jobs());
        // Any event may give held jobs headroom.
        self.shared.ledger.discard_scan_results();
        // For these events, no effect means that the job is unknown.
        let asks_priority =
            matches!(event, Event::Priority(..) | Event::PriorityGet(..) | Event::Bounced { .. });
        budgets::follow_clock(&mut self.shared, &mut self.recovery);
        let mut effects = self.route_event(event);
        budgets::follow_clock(&mut self.shared, &mut self.recovery);
        effects.extend(self.scanner.run_requested_scans(&mut self.shared, &mut self.recovery));
        release::schedule_scans_after_reservations_end(&mut self.shared, &mut effects);
        if !asks_priority || !effects.is_empty() {
            queue_states::watch_queues(&mut self.shared, &mut effects);
            time_left::arm_timer_if_needed(&mut self.shared, &mut effects);
            effects.extend(budgets::scan_if_changed(&mut self.shared));
        }
        effects
    }

    fn route_event(&mut self, event: Event<'_>) -> Vec<Effect> {
        let Engine { shared, recovery, refresh, staged_push, .. } = self;
        match event {
            Event::Created { id, state, has_dependencies } => {
                blocked::subscribe_at_creation(shared, id, state, has_dependencies)
            }
            Event::Validate(facts) => validate::validate_job(shared, &facts),
            Event::New(facts) => life::add_job(shared, recovery, &facts),
            Event::Depend(id) => life::enter_depend(shared, recovery, id),
            Event::Dependency { id, name, added } => blocked::note_dependency(shared, id, name, added),
            Event::Priority(id, urgency) => self.answer_priority_state(id, urgency, None),
            Event::Bounced { id, urgency, posted } => self.answer_priority_state(id, urgency, Some(posted)),
            Event::PriorityGet(id, urgency) => self.answer_priority_get(id, urgency),
            Event::Sched(id) => life::enter_sched(shared, id),
            Event::Run(id, resources) => life::enter_run(shared, id, &resources),
            Event::Cleanup(id) => life::enter_cleanup(shared, recovery, id),
            Event::Inactive(id) | Event::Gone(id) => life::end_job(shared, recovery, id),
            Event::UpdateQueue { id, user, state, queue } => {
                updates::update_queue(shared, id, user, state, queue)
            }
            Event::UpdateBank { id, user, state, bank } => {
                updates::update_bank(shared, id, user, state, bank)
            }
            Event::Updated(facts) => updates::apply_update(shared, recovery, &facts),
            Event::Settings(settings) => site::apply_settings(shared, recovery, refresh, settings),
            Event::Associations(records) => site::store_associations(shared, recovery, records),
            Event::Queues(queues) => self.change_configuration(|book| book.set_queues(queues)),
            Event::Projects(projects) => self.change_configuration(|book| book.set_projects(projects)),
            Event::Banks(banks) => self.change_configuration(|book| book.set_banks(banks)),
            Event::Weights(weights) => self.change_configuration(|book| book.set_weights(weights)),
            Event::Config(patch) => self.change_configuration(|book| book.set_config(patch)),
            Event::Policy(records, site) => {
                staged_push.push_site_document(shared, recovery, refresh, records, site)
            }
            Event::PolicyBegin { keeps_config } => staged_push.begin_push(shared, keeps_config),
            Event::PolicyPart(records, site) => staged_push.stage_part(shared, records, site),
            Event::PolicyCommit => staged_push.commit_push(shared, recovery, refresh),
            Event::PolicyAbort => staged_push.abort_push(shared),
            Event::Reprioritize => refresh.post_all_priorities(shared, recovery),
            Event::Rest(ids) => hand_over::remove_names_of_plugin(shared, ids),
            Event::Timer(Timer::ReactorTurn) => self.run_reactor_turn(),
            Event::Timer(Timer::Retry) => self.retry_failed_reads(),
            Event::Timer(Timer::Remember | Timer::Expire | Timer::Answer) => Vec::new(),
            Event::Timer(Timer::Queues) => queue_states::ask_queues(shared),
            Event::Timer(Timer::TimeLeft) => time_left::update_next_jobs(shared),
            Event::QueueStates(states) => queue_states::store_queue_states(shared, states),
            Event::ConfiguredQueues(queues) => {
                queue_states::store_configured_queues(shared, recovery, queues)
            }
            Event::OneQueueList(is_one) => queue_states::store_single_list_flag(shared, is_one),
            Event::ResourcesUpdated => shared.expirations.request_all_expirations(),
            Event::Expiration(id, expiration) => accrual::store_expiration(shared, id, expiration),
            Event::UrgencyChanged(id, urgency) => priority_answers::store_held_urgency(shared, id, urgency),
            Event::Recalled(ended, sums) => snapshot_source::restore_ended_jobs(shared, ended, sums),
            Event::Timer(Timer::Refresh) => refresh.handle_refresh_timer(shared, recovery),
            Event::Timer(Timer::Slice) => refresh.continue_refresh(shared, recovery),
            Event::Urgency(id, urgency) => priority_answers::handle_urgency(shared, refresh, id, urgency),
            Event::Eventlog(id, history) => recovery.store_eventlog_names(shared, id, history),
            Event::Past(id, past) => age::store_eligible_time(shared, id, &past),
            Event::SiteNodes(nodes) => age::store_site_nodes(shared, nodes),
            Event::Dependencies(id, names) => recovery.store_outstanding_dependencies(shared, id, names),
            Event::Ended(jobs) => self.store_ended_jobs(jobs),
            Event::Panicked(id) => self.handle_panic(id),
            Event::TryAgain => recovery.retry_comparison(shared),
            Event::Shown(facts) => self.replay_looked_up_job(&facts),
        }
    }

    fn change_configuration(&mut self, change: impl FnOnce(&mut Book)) -> Vec<Effect> {
        site::change_configuration(&mut self.shared, &mut self.recovery, &mut self.refresh, change)
    }

    /// Notes that a job is in PRIORITY, and returns the answer with its priority. If the job was in SCHED until now,
    /// `posted` is its posted priority.
    fn answer_priority_state(&mut self, id: JobId, urgency: i64, posted: Option<u32>) -> Vec<Effect> {
        let Engine { shared, recovery, refresh, .. } = self;
        let Some(mut effects) = life::enter_priority(shared, recovery, id) else { return Vec::new() };
        effects.extend(priority_answers::answer_priority_callback(shared, refresh, id, urgency, posted));
        effects
    }

    /// Returns the answer to `job.priority.get`. Flux asks only in its loop over its jobs. If another plugin began the
    /// loop, nothing reports its end, so the engine assumes that the loop ends before the next reactor turn. Until then
    /// other plugins may start a job that the loop asks about.
    fn answer_priority_get(&mut self, id: JobId, urgency: i64) -> Vec<Effect> {
        let began = self.scanner.note_flux_loop_start();
        if began {
            self.refresh.note_flux_loop_start(&self.shared);
        }
        let mut effects = priority_answers::answer_in_loop(&mut self.shared, &mut self.refresh, id, urgency);
        if began {
            if effects.is_empty() {
                self.scanner.exit_loop()
            } else {
                effects.push(Effect::Arm(Timer::ReactorTurn))
            }
        }
        effects
    }

    /// Stores a page of ended jobs, and asks for the next page. `jobs` is `None` if job-list did not answer.
    fn store_ended_jobs(&mut self, jobs: Option<Vec<EndedJob>>) -> Vec<Effect> {
        let Shared { ended, standing, book, unsaved_ended, now, .. } = &mut self.shared;
        let before = standing.usages.counts().2;
        let effects = ended.store_page(standing, book, *now, jobs);
        if standing.usages.counts().2 > before {
            // Flux may purge these jobs before the next push.
            unsaved_ended.require_whole_snapshot();
        }
        budgets::recount_if_ended_jobs_are_known(&mut self.shared);
        effects
    }

    /// Carries out a step that the engine requested by [`Effect::Then`].
    pub fn execute_step(&mut self, step: Step) -> Vec<Effect> {
        let mut effects = self.apply_step(step);
        release::schedule_scans_after_reservations_end(&mut self.shared, &mut effects);
        effects
    }

    fn apply_step(&mut self, step: Step) -> Vec<Effect> {
        match step {
            Step::Scan(scan) => self.scanner.continue_scan(&mut self.shared, &mut self.recovery, *scan),
            Step::ScanAllHeld => self.scanner.scan_all_held(&mut self.shared, &mut self.recovery),
            Step::ReplayRead(association) => self.recovery.hold_replayed_jobs(&mut self.shared, association),
            Step::LoopBegins => {
                self.scanner.note_flux_loop_start();
                self.refresh.note_flux_loop_start(&self.shared);
                Vec::new()
            }
            Step::LoopEnded => {
                self.scanner.exit_loop();
                self.refresh.exit_loop();
                Vec::new()
            }
        }
    }
}
