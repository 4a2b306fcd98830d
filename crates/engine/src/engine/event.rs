// SPDX-License-Identifier: LGPL-3.0-only
//! What happens to the engine.

use super::{settings::Settings, timer::Timer};
use crate::accounts::{AssociationRecord, ConfigPatch, Policy, PolicyPart, Queue};
use crate::ids::{BankName, JobId, ProjectName, QueueName, UserId};
use crate::limits::{Resources, Size, SizeError};
use crate::standing::{Ended, EvictedUsage, SitePart};

/// Job states as Flux shows them to a plugin (RFC 21).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Submitted.
    New,
    /// Waiting for dependencies.
    Depend,
    /// Waiting for a priority.
    Priority,
    /// Waiting for resources.
    Sched,
    /// Running.
    Run,
    /// Ending.
    Cleanup,
    /// Ended.
    Inactive,
}

impl Event<'_> {
    /// Whether it is about jobs alone: what else their priorities are made of stays as it is.
    pub(super) fn is_of_jobs(&self) -> bool {
        matches!(
            self,
            Event::Created { .. }
                | Event::Validate(_)
                | Event::New(_)
                | Event::Depend(_)
                | Event::Dependency { .. }
                | Event::Priority(..)
                | Event::Bounced { .. }
                | Event::PriorityGet(..)
                | Event::Sched(_)
                | Event::Run(..)
                | Event::Cleanup(_)
                | Event::Inactive(_)
                | Event::Gone(_)
                | Event::UpdateQueue { .. }
                | Event::UpdateBank { .. }
                | Event::Updated(_)
                | Event::Reprioritize
                | Event::Timer(Timer::Turn)
                | Event::Urgency(..)
                | Event::UrgencyChanged(..)
                | Event::ResourcesUpdated
                | Event::Expiration(..)
                | Event::QueueStates(_)
                | Event::OneQueueList(_)
                | Event::Timer(Timer::Queues)
        )
    }
}

/// A job as a callback shows it. Text is borrowed from the callback's arguments.
#[derive(Clone, Debug)]
pub struct JobFacts<'a> {
    /// Its id.
    pub id: JobId,
    /// Who submitted it.
    pub user: UserId,
    /// Its present state.
    pub state: State,
    /// 0 to 31.
    pub urgency: i64,
    /// Its priority; -1 if it has none yet.
    pub priority: i64,
    /// `attributes.system.bank`.
    pub bank: Option<&'a str>,
    /// `attributes.system.queue`.
    pub queue: Option<&'a str>,
    /// `attributes.system.project`.
    pub project: Option<&'a str>,
    /// What it asks for.
    pub size: Result<Size, SizeError>,
    /// When it was submitted, in seconds since the epoch, as far as Flux says.
    pub submitted: Option<f64>,
    /// Its time limit in seconds; 0 for none.
    pub duration: f64,
    /// What it was given.
    pub resources: Resources,
}

/// A job that ended, as job-list tells of it.
#[derive(Clone, Debug, PartialEq)]
pub struct EndedJob {
    /// Its id.
    pub id: JobId,
    /// Whose it was.
    pub user: UserId,
    /// The bank its jobspec names.
    pub bank: Option<BankName>,
    /// Nodes.
    pub nodes: u64,
    /// Cores over all nodes.
    pub cores: u64,
    /// When it ran, from when to when; `None` if it never did.
    pub ran: Option<(f64, f64)>,
    /// When it became inactive.
    pub end: f64,
}

/// What Flux says of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueTold {
    /// Whether it is stopped, or its parent is. `None`: unknown.
    pub is_stopped: Option<bool>,
    /// The queue whose resources a virtual queue uses.
    pub parent: Option<QueueName>,
}

/// An input of the engine. The first group are callbacks, the second RPCs, the third answers to what it asked for.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// `job.create`: the first that is seen of any job.
    Created {
        /// The job.
        id: JobId,
        /// Its present state.
        state: State,
        /// Whether its jobspec declares dependencies, by which other plugins will keep it in DEPEND.
        has_dependencies: bool,
    },
    /// `job.validate`: may the job be accepted, or updated as shown?
    Validate(JobFacts<'a>),
    /// `job.new`: an accepted job, or one replayed.
    New(JobFacts<'a>),
    /// `job.state.depend`.
    Depend(JobId),
    /// `job.event.dependency-add` and `-remove` of a job that we subscribed to.
    Dependency {
        /// The job.
        id: JobId,
        /// The dependency's name.
        name: &'a str,
        /// Added, or removed.
        added: bool,
    },
    /// `job.state.priority`, with the urgency. No effect at all says that the job is unknown: show it first.
    Priority(JobId, i64),
    /// `job.state.priority` of a job that an urgency change or a jobspec update takes from SCHED to PRIORITY. The scheduler may have
    /// decided on the job, so the answer must return the job to SCHED. No effect at all says that the job is unknown.
    Bounced {
        /// The job.
        id: JobId,
        /// Its new urgency.
        urgency: i64,
        /// Its posted priority.
        posted: u32,
    },
    /// `job.priority.get`, with the urgency. No effect at all says that the job is unknown: show it first.
    PriorityGet(JobId, i64),
    /// `job.state.sched`.
    Sched(JobId),
    /// `job.state.run`, with what the job was given.
    Run(JobId, Resources),
    /// `job.state.cleanup`.
    Cleanup(JobId),
    /// `job.state.inactive`.
    Inactive(JobId),
    /// `job.destroy`: the last that is seen of any job, also of rejected ones.
    Gone(JobId),
    /// `job.update.attributes.system.queue`: may the job move to the queue?
    UpdateQueue {
        /// The job.
        id: JobId,
        /// Who submitted it.
        user: UserId,
        /// Its present state.
        state: State,
        /// The wanted queue.
        queue: &'a str,
    },
    /// `job.update.attributes.system.bank`: may the job move to the bank?
    UpdateBank {
        /// The job.
        id: JobId,
        /// Who submitted it.
        user: UserId,
        /// Its present state.
        state: State,
        /// The wanted bank.
        bank: &'a str,
    },
    /// `job.update`: the jobspec was changed to what is shown.
    Updated(JobFacts<'a>),

    /// `conf.update`: how live fair-share is to work from now on.
    Settings(Settings),
    /// `rec_update`.
    Associations(Vec<AssociationRecord>),
    /// `rec_q_update`.
    Queues(Vec<Queue>),
    /// `rec_proj_update`.
    Projects(Vec<ProjectName>),
    /// `rec_bank_update`.
    Banks(Vec<(BankName, f64)>),
    /// `rec_fac_update`.
    Weights(Vec<(String, i64)>),
    /// `rec_config_update`.
    Config(ConfigPatch),
    /// `policy_update`.
    Policy(Policy, SitePart),
    /// `policy_begin`: a policy comes in parts; switches that none mentions stay as they are, or are the defaults.
    PolicyBegin {
        /// Whether they stay.
        keeps_config: bool,
    },
    /// `policy_part`.
    PolicyPart(PolicyPart, SitePart),
    /// `policy_commit`: the parts are in force, all of them.
    PolicyCommit,
    /// `policy_abort`, or nobody went on: the parts are forgotten.
    PolicyAbort,
    /// `reprioritize`.
    Reprioritize,
    /// `rest`: of these jobs, whose urgency is 0, our names are to go.
    Rest(Vec<JobId>),
    /// Jobs that ended before the plugin was loaded, as they were kept, and what was given up of others.
    Recalled(Vec<Ended>, Vec<EvictedUsage>),

    /// A timer that was asked for by [`Effect::Arm`](super::Effect::Arm).
    Timer(Timer),
    /// The number of nodes of the site, asked for by [`Effect::ReadSiteNodes`](super::Effect::ReadSiteNodes). `None`: nobody
    /// could tell.
    SiteNodes(Option<u64>),
    /// The urgency asked for by [`Effect::AskUrgency`](super::Effect::AskUrgency).
    Urgency(JobId, i64),
    /// The urgency of a job that the plugin subscribed to has changed.
    UrgencyChanged(JobId, i64),
    /// `job.event.resource-update` of the running job that the plugin subscribed to.
    ResourcesUpdated,
    /// The expiration asked for by [`Effect::AskExpiration`](super::Effect::AskExpiration), in seconds since the epoch. `None`: the job
    /// may run indefinitely.
    Expiration(JobId, Option<f64>),
    /// The states of queues asked for by [`Effect::AskQueues`](super::Effect::AskQueues).
    QueueStates(Vec<(Option<QueueName>, QueueTold)>),
    /// Flux's configuration: all its named queues, each with its parent if it is virtual.
    ConfiguredQueues(Vec<(QueueName, Option<QueueName>)>),
    /// Whether the scheduler keeps the jobs of all queues in one list, asked for by [`Effect::AskScheduler`](super::Effect::AskScheduler).
    OneQueueList(bool),
    /// The eventlog asked for by [`Effect::ReadEventlog`](super::Effect::ReadEventlog): dependency descriptions that were
    /// added (`true`) and removed, in order. `None`: it can't be read.
    Eventlog(JobId, Option<Vec<(String, bool)>>),
    /// What the same eventlog tells of how long the job was eligible and when it began to run, with the times, in order.
    Past(JobId, Vec<(f64, Past)>),
    /// The outstanding dependencies asked for by [`Effect::ReadDependencies`](super::Effect::ReadDependencies). `None`:
    /// nobody could tell.
    Dependencies(JobId, Option<Vec<String>>),
    /// Ended jobs asked for by [`Effect::ListEnded`](super::Effect::ListEnded). `None`: nobody could tell.
    Ended(Option<Vec<EndedJob>>),
    /// A panic cut a call short, which may have been about this job.
    Panicked(Option<JobId>),
    /// Jobs that could not be compared with Flux after a panic may be compared once more.
    TryAgain,
    /// The job asked for by [`Effect::LookUp`](super::Effect::LookUp).
    Shown(JobFacts<'a>),
}

/// What changes whether time counts for a job, and when it began to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Past {
    /// Its urgency became this, or was at first.
    Urgency(i64),
    /// A dependency of this name was added, or removed.
    Dependency(String, bool),
    /// It was accepted. Dependencies that were added before were there from the beginning: it declares them.
    Accepted,
    /// It got its resources.
    Allocated,
}

/// Why Flux refused an effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// ENOENT: no such job, or no such name.
    Absent,
    /// EINVAL: the job's state does not allow it.
    TooLate,
    /// Anything else, in words.
    Other(String),
}
