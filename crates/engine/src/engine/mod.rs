// SPDX-License-Identifier: LGPL-3.0-only
//! The brain: [`Event`] and its time in, [`Effect`]s out. No I/O, no clock, no unsafe, no panic.
//!
//! Flux calls back into the plugin while it carries out an effect (removing a job's last dependency runs that job's
//! priority and sched callbacks before the call returns). So every decision is booked when it is made, and effects
//! are only values: whoever carries them out holds no borrow of the engine. An effect Flux refuses comes back through
//! [`Engine::refused`]; what is to be done after an effect is itself one ([`Effect::Then`]).

mod accrual;
mod admission;
mod age;
mod annotate;
pub mod answers;
mod batches;
mod due;
mod effect;
mod ended;
mod event;
mod expirations;
mod foreign;
mod hand_over;
mod hold;
mod keepers;
mod kept;
mod life;
mod news;
mod panicked;
mod posted;
mod preview;
mod price;
mod queues;
mod recovery;
mod refresh;
mod refused;
mod release;
mod settings;
mod shared;
mod site;
mod step;
mod subscriptions;
mod terms;
#[cfg(test)]
mod tests;
mod timer;
mod turn;
mod turns;
mod unmoved;
mod updates;
mod validate;
mod view;

pub use age::AgeSnapshot;
pub use batches::Batches;
pub use effect::{Effect, Level, Posting};
pub use event::{EndedJob, Event, JobFacts, Past, QueueTold, Refusal, State};
pub use hand_over::{Fate, HandedOver, hand_over};
pub use kept::{Kept, Rest, as_pushed, has_news, kept, kept_rest, uncovered};
pub use news::News;
pub use posted::{Change, Changes, Price, PricedJob};
pub use preview::{Move, Preview};
pub use refresh::{LastRefresh, LiveOutline, LiveSnapshot, RefreshProgress, Used};
pub use settings::{Memo, Settings};
pub use shared::Shared;
pub use step::Step;
pub use timer::Timer;
pub use turns::Turn;
pub use view::View;

use crate::ids::{JobId, UserId};
use crate::limits::{RULES, Rules};
use crate::priority::Factors;
use crate::standing::{Memory, Standing};
use life::Lives;
use recovery::Recovery;
use refresh::Refresh;
use release::Release;
use site::Site;

/// The tables by which jobs are held and priced. A row of either touches nothing else.
#[derive(Clone, Copy, Debug)]
pub struct Tables {
    /// The limits.
    pub rules: Rules,
    /// The factors of the priority.
    pub factors: Factors,
    /// How many jobs are handled at a time.
    pub batches: Batches,
}

impl Default for Tables {
    fn default() -> Self {
        Tables { rules: RULES, factors: Factors::default(), batches: Batches::default() }
    }
}

/// All state of the plugin that is not Flux's.
#[derive(Clone, Debug)]
pub struct Engine {
    shared: Shared,
    lives: Lives,
    recovery: Recovery,
    release: Release,
    refresh: Refresh,
    site: Site,
}

impl Engine {
    /// An engine without data. `owner` is the user the instance runs as.
    pub fn new(owner: UserId) -> Self {
        Engine::with_tables(owner, Tables::default())
    }

    /// An engine without data that holds and prices jobs by these tables.
    pub fn with_tables(owner: UserId, tables: Tables) -> Self {
        Engine {
            shared: Shared::new(owner, tables),
            lives: Lives::default(),
            recovery: Recovery::default(),
            release: Release::default(),
            refresh: Refresh::default(),
            site: Site::default(),
        }
    }

    /// The same, which remembers so many ended jobs one by one. It is to be called before anything ended.
    #[must_use]
    pub fn remembering(mut self, memory: Memory) -> Self {
        self.shared.standing = Standing::new(memory);
        self
    }

    /// Returns the jobs that ended since they were taken last.
    pub fn news(&mut self) -> &mut News {
        &mut self.shared.news
    }

    /// Takes one event in and says what is to be done about it. `now` is when it happened, in seconds since the epoch.
    /// Times may go back: clocks are set, and an event that an eventlog dates comes later than it says.
    pub fn handle(&mut self, now: f64, event: Event<'_>) -> Vec<Effect> {
        self.shared.now = now;
        self.shared.revision = self.shared.revision.saturating_add(u64::from(!event.is_of_jobs()));
        // Whatever it changes, it may be that others go.
        self.shared.ledger.look_anew();
        // No effect of these says that the job is unknown.
        let asks_priority = matches!(event, Event::Priority(..) | Event::PriorityGet(..));
        let mut effects = self.handle_event(event);
        effects.extend(self.release.scan_noted(&mut self.shared, &mut self.recovery));
        release::scan_where_reservations_lapsed(&mut self.shared, &mut effects);
        if !asks_priority || !effects.is_empty() {
            queues::watch_queues(&mut self.shared, &mut effects);
        }
        effects
    }

    fn handle_event(&mut self, event: Event<'_>) -> Vec<Effect> {
        match event {
            Event::Created { id, state, has_dependencies } => {
                keepers::created(&mut self.shared, id, state, has_dependencies)
            }
            Event::Validate(facts) => self.lives.validate(&mut self.shared, &facts),
            Event::New(facts) => self.lives.new_job(&mut self.shared, &mut self.recovery, &facts),
            Event::Depend(id) => life::depend(&mut self.shared, &mut self.recovery, id),
            Event::Dependency { id, name, added } => keepers::dependency(&mut self.shared, id, name, added),
            Event::Priority(id, urgency) => self.enter_priority(id, urgency, None),
            Event::Bounced { id, urgency, posted } => self.enter_priority(id, urgency, Some(posted)),
            Event::PriorityGet(id, urgency) => self.asked_in_loop(id, urgency),
            Event::Sched(id) => life::sched(&mut self.shared, id),
            Event::Run(id, resources) => life::run(&mut self.shared, id, &resources),
            Event::Cleanup(id) => life::cleanup(&mut self.shared, &mut self.recovery, id),
            Event::Inactive(id) | Event::Gone(id) => {
                self.lives.inactive(&mut self.shared, &mut self.recovery, id)
            }
            Event::UpdateQueue { id, user, state, queue } => {
                updates::update_queue(&mut self.shared, id, user, state, queue)
            }
            Event::UpdateBank { id, user, state, bank } => {
                updates::update_bank(&mut self.shared, id, user, state, bank)
            }
            Event::Updated(facts) => updates::updated(&mut self.shared, &mut self.recovery, &facts),
            Event::Settings(settings) => {
                site::set(&mut self.shared, &mut self.recovery, &mut self.refresh, settings)
            }
            Event::Associations(records) => site::associations(&mut self.shared, &mut self.recovery, records),
            Event::Queues(queues) => {
                site::configure(&mut self.shared, &mut self.recovery, &mut self.refresh, |book| {
                    book.set_queues(queues)
                })
            }
            Event::Projects(projects) => {
                site::configure(&mut self.shared, &mut self.recovery, &mut self.refresh, |book| {
                    book.set_projects(projects)
                })
            }
            Event::Banks(banks) => {
                site::configure(&mut self.shared, &mut self.recovery, &mut self.refresh, |book| {
                    book.set_banks(banks)
                })
            }
            Event::Weights(weights) => {
                site::configure(&mut self.shared, &mut self.recovery, &mut self.refresh, |book| {
                    book.set_weights(weights)
                })
            }
            Event::Config(patch) => {
                site::configure(&mut self.shared, &mut self.recovery, &mut self.refresh, |book| {
                    book.set_config(patch)
                })
            }
            Event::Policy(policy, site) => {
                self.site.policy(&mut self.shared, &mut self.recovery, &mut self.refresh, policy, site)
            }
            Event::PolicyBegin { keeps_config } => self.site.begin(&mut self.shared, keeps_config),
            Event::PolicyPart(part, site) => self.site.stage(&mut self.shared, part, site),
            Event::PolicyCommit => {
                self.site.policy_commit(&mut self.shared, &mut self.recovery, &mut self.refresh)
            }
            Event::PolicyAbort => self.site.abort(&mut self.shared),
            Event::Reprioritize => self.refresh.reprioritize(&mut self.shared, &self.recovery),
            Event::Rest(ids) => hand_over::let_rest(&mut self.shared, ids),
            Event::Timer(Timer::Turn) => self.deferred(),
            Event::Timer(Timer::Retry) => self.retry(),
            Event::Timer(Timer::Remember | Timer::Expire | Timer::Answer) => Vec::new(),
            Event::Timer(Timer::Queues) => queues::ask_queues(&mut self.shared),
            Event::QueueStates(states) => queues::queues_told(&mut self.shared, states),
            Event::ConfiguredQueues(queues) => queues::queues_configured(&mut self.shared, queues),
            Event::OneQueueList(is_one) => queues::scheduler_told(&mut self.shared, is_one),
            Event::ResourcesUpdated => self.shared.expirations.look_up_all(),
            Event::Expiration(id, expiration) => accrual::take_expiration(&mut self.shared, id, expiration),
            Event::UrgencyChanged(id, urgency) => price::held_urgency(&mut self.shared, id, urgency),
            Event::Recalled(ended, sums) => kept::recall(&mut self.shared, ended, sums),
            Event::Timer(Timer::Refresh) => self.refresh.refresh_due(&mut self.shared, &self.recovery),
            Event::Timer(Timer::Slice) => self.refresh.go_on_refreshing(&mut self.shared, &self.recovery),
            Event::Urgency(id, urgency) => {
                price::told_urgency(&mut self.shared, &mut self.refresh, id, urgency)
            }
            Event::Eventlog(id, history) => self.recovery.eventlog(&mut self.shared, id, history),
            Event::Past(id, past) => age::past(&mut self.shared, id, &past),
            Event::SiteNodes(nodes) => age::told_site_nodes(&mut self.shared, nodes),
            Event::Dependencies(id, names) => self.recovery.dependencies(&mut self.shared, id, names),
            Event::Ended(jobs) => self.ended_jobs(jobs),
            Event::Panicked(id) => self.panicked(id),
            Event::TryAgain => self.recovery.try_again(&mut self.shared),
            Event::Shown(facts) => self.shown(&facts),
        }
    }

    /// Takes over that a job is in PRIORITY, and answers with its priority. `posted` is the posted priority of a job that was in SCHED.
    fn enter_priority(&mut self, id: JobId, urgency: i64, posted: Option<u32>) -> Vec<Effect> {
        let entered = life::enter_priority(&mut self.shared, &self.recovery, id);
        let Some(mut effects) = entered else { return Vec::new() };
        effects.extend(price::prioritized(&mut self.shared, &mut self.refresh, id, urgency, posted));
        effects
    }

    /// Takes over a page of ended jobs; `None` if job-list did not answer.
    fn ended_jobs(&mut self, jobs: Option<Vec<EndedJob>>) -> Vec<Effect> {
        let Shared { ended, standing, book, now, .. } = &mut self.shared;
        ended.listed(standing, book, *now, jobs)
    }

    /// Goes on where [`Effect::Then`] says.
    pub fn step(&mut self, step: Step) -> Vec<Effect> {
        let mut effects = self.take_step(step);
        release::scan_where_reservations_lapsed(&mut self.shared, &mut effects);
        effects
    }

    fn take_step(&mut self, step: Step) -> Vec<Effect> {
        match step {
            Step::Pass(pass) => self.release.pass_on(&mut self.shared, &mut self.recovery, *pass),
            Step::ReleaseAll => self.release.release_all(&mut self.shared, &mut self.recovery),
            Step::ReplayRead(association) => recovery::hold_replayed(&mut self.shared, association),
            Step::LoopBegins => {
                self.release.begin_loop();
                self.refresh.begin_loop(&self.shared);
                Vec::new()
            }
            Step::LoopEnded => {
                self.release.end_loop();
                self.refresh.end_loop();
                Vec::new()
            }
        }
    }
}
