// SPDX-License-Identifier: LGPL-3.0-only
//! The brain: [`Event`] and its time in, [`Effect`]s out. No I/O, no clock, no unsafe, no panic.
//!
//! Flux calls back into the plugin while it carries out an effect (removing a job's last dependency runs that job's
//! priority and sched callbacks before the call returns). So every decision is booked when it is made, and effects
//! are only values: whoever carries them out holds no borrow of the engine. An effect Flux refuses comes back through
//! [`Engine::refused`]; what is to be done after an effect is itself one ([`Effect::Then`]).

mod admission;
mod age;
mod annotate;
pub mod answers;
mod batches;
mod due;
mod effect;
mod event;
mod expirations;
mod foreign;
mod hand_over;
mod hold;
mod keepers;
mod kept;
mod life;
mod live;
mod pass;
mod preview;
mod price;
mod pushes;
mod queues;
mod refused;
mod replay;
mod resync;
mod settings;
mod shared;
mod step;
mod subscriptions;
mod terms;
#[cfg(test)]
mod tests;
mod timer;
mod unasked;
mod unmoved;
mod updates;
mod validate;
mod view;

pub use age::AgeSnapshot;
pub use batches::Batches;
pub use effect::{Effect, Level, Posting};
pub use event::{EndedJob, Event, JobFacts, Past, QueueTold, Refusal, State};
pub use hand_over::{Fate, HandedOver, hand_over};
pub use kept::{Kept, News, Rest, as_pushed, has_news, kept, kept_rest, uncovered};
pub use live::{
    Change, Changes, LastRefresh, LiveOutline, LiveSnapshot, Price, PricedJob, RefreshProgress, Turn, Used,
};
pub use preview::{Move, Preview};
pub use settings::{Memo, Settings};
pub use shared::Shared;
pub use step::Step;
pub use timer::Timer;
pub use view::View;

use crate::accounts::AssociationId;
use crate::engine::live::ended;
use crate::ids::{JobId, QueueName, UserId};
use crate::limits::{RULES, Rules};
use crate::priority::Factors;
use crate::standing::{Draft, Memory, Standing};
use replay::Replay;
use resync::Resync;
use std::collections::{BTreeMap, BTreeSet};

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
    /// What the open push said of the tree so far.
    draft: Draft,
    /// Jobs that passed our validate and were not seen since: their `job.new` is a submission, any other a replay.
    validated: BTreeSet<JobId>,
    replay: Replay,
    /// Replayed jobs in SCHED that were not asked whether they were released, since no limit on what runs was in reach.
    unasked: BTreeMap<(AssociationId, Option<QueueName>), BTreeSet<JobId>>,
    /// Jobs whose names are not known because nobody can tell.
    unreadable: BTreeSet<JobId>,
    /// Flux goes through its jobs: no other job than the one it asks about may be touched.
    is_looping: bool,
    /// A pass has decided to let a job go, and goes on when that is done.
    is_passing: bool,
    /// After a panic: jobs to be compared with Flux.
    resync: Resync,
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
            draft: Draft::default(),
            validated: BTreeSet::new(),
            replay: Replay::default(),
            unasked: BTreeMap::new(),
            unreadable: BTreeSet::new(),
            is_looping: false,
            is_passing: false,
            resync: Resync::default(),
        }
    }

    /// The same, which remembers so many ended jobs one by one. It is to be called before anything ended.
    #[must_use]
    pub fn remembering(mut self, memory: Memory) -> Self {
        self.shared.standing = Standing::new(memory);
        self
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
        effects.extend(self.scan_noted());
        self.scan_where_reservations_lapsed(&mut effects);
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
            Event::Validate(facts) => self.validate(&facts),
            Event::New(facts) => self.new_job(&facts),
            Event::Depend(id) => self.depend(id),
            Event::Dependency { id, name, added } => keepers::dependency(&mut self.shared, id, name, added),
            Event::Priority(id, urgency) => self.priority(id, urgency, None),
            Event::Bounced { id, urgency, posted } => self.priority(id, urgency, Some(posted)),
            Event::PriorityGet(id, urgency) => self.asked_in_loop(id, urgency),
            Event::Sched(id) => life::sched(&mut self.shared, id),
            Event::Run(id, resources) => life::run(&mut self.shared, id, &resources),
            Event::Cleanup(id) => self.cleanup(id),
            Event::Inactive(id) | Event::Gone(id) => self.inactive(id),
            Event::UpdateQueue { id, user, state, queue } => {
                updates::update_queue(&mut self.shared, id, user, state, queue)
            }
            Event::UpdateBank { id, user, state, bank } => {
                updates::update_bank(&mut self.shared, id, user, state, bank)
            }
            Event::Updated(facts) => self.updated(&facts),
            Event::Settings(settings) => self.set(settings),
            Event::Associations(records) => self.associations(records),
            Event::Queues(queues) => self.configure(|book| book.set_queues(queues)),
            Event::Projects(projects) => self.configure(|book| book.set_projects(projects)),
            Event::Banks(banks) => self.configure(|book| book.set_banks(banks)),
            Event::Weights(weights) => self.configure(|book| book.set_weights(weights)),
            Event::Config(patch) => self.configure(|book| book.set_config(patch)),
            Event::Policy(policy, site) => self.policy(policy, site),
            Event::PolicyBegin { keeps_config } => self.begin(keeps_config),
            Event::PolicyPart(part, site) => self.stage(part, site),
            Event::PolicyCommit => self.policy_commit(),
            Event::PolicyAbort => self.abort(),
            Event::Reprioritize => self.reprioritize(),
            Event::Rest(ids) => hand_over::let_rest(&mut self.shared, ids),
            Event::Timer(Timer::Turn) => self.deferred(),
            Event::Timer(Timer::Retry) => self.retry(),
            Event::Timer(Timer::Remember | Timer::Expire | Timer::Answer) => Vec::new(),
            Event::Timer(Timer::Queues) => queues::ask_queues(&mut self.shared),
            Event::QueueStates(states) => queues::queues_told(&mut self.shared, states),
            Event::ConfiguredQueues(queues) => queues::queues_configured(&mut self.shared, queues),
            Event::OneQueueList(is_one) => queues::scheduler_told(&mut self.shared, is_one),
            Event::ResourcesUpdated => self.shared.expirations.look_up_all(),
            Event::Expiration(id, expiration) => {
                expirations::told_expiration(&mut self.shared, id, expiration)
            }
            Event::UrgencyChanged(id, urgency) => price::held_urgency(&mut self.shared, id, urgency),
            Event::Recalled(ended, sums) => kept::recall(&mut self.shared, ended, sums),
            Event::Timer(Timer::Refresh) => self.refresh_due(),
            Event::Timer(Timer::Slice) => self.go_on_refreshing(),
            Event::Urgency(id, urgency) => self.told_urgency(id, urgency),
            Event::Eventlog(id, history) => self.eventlog(id, history),
            Event::Past(id, past) => age::past(&mut self.shared, id, &past),
            Event::SiteNodes(nodes) => age::told_site_nodes(&mut self.shared, nodes),
            Event::Dependencies(id, names) => self.dependencies(id, names),
            Event::Ended(jobs) => ended::listed(&mut self.shared, jobs),
            Event::Panicked(id) => self.panicked(id),
            Event::TryAgain => self.try_again(),
            Event::Shown(facts) => self.shown(&facts),
        }
    }

    /// Goes on where [`Effect::Then`] says.
    pub fn step(&mut self, step: Step) -> Vec<Effect> {
        let mut effects = self.take_step(step);
        self.scan_where_reservations_lapsed(&mut effects);
        effects
    }

    fn take_step(&mut self, step: Step) -> Vec<Effect> {
        match step {
            Step::Pass(pass) => self.pass_on(*pass),
            Step::ReleaseAll => self.release_all(),
            Step::ReplayRead(association) => self.hold_replayed(association),
            Step::LoopBegins => {
                self.is_looping = true;
                self.shared.live.stale.begin_loop(self.shared.now);
                Vec::new()
            }
            Step::LoopEnded => {
                self.is_looping = false;
                self.shared.live.loop_ended();
                Vec::new()
            }
        }
    }
}
