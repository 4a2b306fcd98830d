// SPDX-License-Identifier: LGPL-3.0-only
//! The inputs of the engine.

use super::{settings::Settings, timer::Timer};
use crate::accounts::{AssociationRecord, ConfigPatch, Queue, SiteRecords};
use crate::ids::{BankName, JobId, ProjectName, QueueName, UserId};
use crate::limits::{Resources, Size};
use crate::standing::{Ended, EvictedUsage, SitePart};
use strum::IntoStaticStr;

/// Job states as Flux shows them to a plugin (RFC 21).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
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
    /// Ended. Answers show it as the state before.
    #[strum(serialize = "cleanup")]
    Inactive,
}

impl Event<'_> {
    /// Returns true if the event is about single jobs. Such an event changes no input on which several priorities
    /// depend.
    pub(super) fn concerns_single_jobs(&self) -> bool {
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
                | Event::Timer(Timer::ReactorTurn)
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

/// A job as a callback reports it. Text is borrowed from the callback's arguments.
#[derive(Clone, Debug)]
pub struct JobFacts<'a> {
    /// The id of the job.
    pub id: JobId,
    /// The user that submitted the job.
    pub user: UserId,
    /// The present state of the job.
    pub state: State,
    /// The urgency, 0 to 31.
    pub urgency: i64,
    /// The priority of the job; -1 if it has none yet.
    pub priority: i64,
    /// `attributes.system.bank`.
    pub bank: Option<&'a str>,
    /// `attributes.system.queue`.
    pub queue: Option<&'a str>,
    /// `attributes.system.project`.
    pub project: Option<&'a str>,
    /// The resources that the job requests, or why they cannot be counted.
    pub size: Result<Size, String>,
    /// When the job was submitted, in seconds since the epoch; `None` if Flux does not report the time.
    pub submitted: Option<f64>,
    /// The time limit of the job in seconds; 0 for none.
    pub duration: f64,
    /// The resources that Flux allocated to the job.
    pub resources: Resources,
}

impl JobFacts<'_> {
    /// Returns the size with the time limit; `None` if the resources cannot be counted.
    pub fn full_size(&self) -> Option<Size> {
        Some(self.size.as_ref().ok()?.with_time_limit(self.duration))
    }
}

/// An ended job as job-list reports it.
#[derive(Clone, Debug, PartialEq)]
pub struct EndedJob {
    /// The id of the job.
    pub id: JobId,
    /// The user that submitted the job.
    pub user: UserId,
    /// The bank that the jobspec names.
    pub bank: Option<BankName>,
    /// The queue that the jobspec names.
    pub queue: Option<QueueName>,
    /// The number of nodes.
    pub nodes: u64,
    /// The number of cores on all nodes.
    pub cores: u64,
    /// When the job started and stopped running, in seconds since the epoch; `None` if the job never ran.
    pub ran: Option<(f64, f64)>,
    /// The start time in R and the end of the time limit, in seconds since the epoch; `None` without a time limit.
    /// `ran` begins later than this start time, because Flux first stores R.
    pub allocated: Option<(f64, f64)>,
    /// When the job became INACTIVE, in seconds since the epoch.
    pub end: f64,
}

/// The state of a queue as Flux reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueReport {
    /// Flux did not report the state.
    Unknown,
    /// The queue and its parent are started.
    Started,
    /// The queue or its parent is stopped.
    Stopped,
    /// Flux no longer has the queue, and schedules no more jobs of the queue.
    Missing,
}

/// An input of the engine. The variants are sorted: callbacks, RPCs, answers to effects.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// `job.create`, the first callback about any job.
    Created {
        /// The job.
        id: JobId,
        /// Its present state.
        state: State,
        /// True if the jobspec declares dependencies, by which other plugins will block the job in DEPEND.
        has_dependencies: bool,
    },
    /// `job.validate`: may the job be accepted, or updated as shown?
    Validate(JobFacts<'a>),
    /// `job.new`: an accepted job, or a replayed job.
    New(JobFacts<'a>),
    /// `job.state.depend`: the job has entered DEPEND.
    Depend(JobId),
    /// `job.event.dependency-add` and `-remove` of a job that the plugin subscribed to.
    Dependency {
        /// The job.
        id: JobId,
        /// The dependency's name.
        name: &'a str,
        /// True if the dependency was added, false if the dependency was removed.
        added: bool,
    },
    /// `job.state.priority`, with the urgency. If the engine returns no effects, the job is unknown: the caller then
    /// sends [`Event::New`] for the job, and this event again.
    Priority(JobId, i64),
    /// `job.state.priority` of a job that was in SCHED, and is in PRIORITY because its urgency or jobspec changed.
    /// The scheduler may have decided on the job, so the answer must return the job to SCHED. If the engine returns
    /// no effects, the job is unknown.
    Bounced {
        /// The job.
        id: JobId,
        /// Its new urgency.
        urgency: i64,
        /// Its posted priority.
        posted: u32,
    },
    /// `job.priority.get`, with the urgency. If the engine returns no effects, the job is unknown: the caller then
    /// sends [`Event::New`] for the job, and this event again.
    PriorityGet(JobId, i64),
    /// `job.state.sched`: the job has entered SCHED.
    Sched(JobId),
    /// `job.state.run`, with the allocated resources.
    Run(JobId, Resources),
    /// `job.state.cleanup`: the job has entered CLEANUP, because it ended or was cancelled.
    Cleanup(JobId),
    /// `job.state.inactive`: the job has entered INACTIVE.
    Inactive(JobId),
    /// `job.destroy`: the last callback about a job. Flux also calls it for rejected jobs.
    Gone(JobId),
    /// `job.update.attributes.system.queue`: may the job move to the queue?
    UpdateQueue {
        /// The job.
        id: JobId,
        /// The user that submitted the job.
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
        /// The user that submitted the job.
        user: UserId,
        /// Its present state.
        state: State,
        /// The wanted bank.
        bank: &'a str,
    },
    /// `job.update`: the jobspec was changed to these values.
    Updated(JobFacts<'a>),

    /// `conf.update`: the settings from now on.
    Settings(Settings),
    /// `rec_update`: records of associations.
    Associations(Vec<AssociationRecord>),
    /// `rec_q_update`: all queues.
    Queues(Vec<Queue>),
    /// `rec_proj_update`: all projects.
    Projects(Vec<ProjectName>),
    /// `rec_bank_update`: the priorities of all banks.
    Banks(Vec<(BankName, f64)>),
    /// `rec_fac_update`: weights of factors. Other weights do not change.
    Weights(Vec<(String, i64)>),
    /// `rec_config_update`: switches of the site. Other switches do not change.
    Config(ConfigPatch),
    /// `policy_update`: a whole site document.
    Policy(SiteRecords, SitePart),
    /// `policy_begin`: a site document comes in parts.
    PolicyBegin {
        /// If no part of the document contains a switch, the switch keeps its value if `keeps_config` is true, and gets
        /// its default otherwise.
        keeps_config: bool,
    },
    /// `policy_part`: a part of a site document.
    PolicyPart(SiteRecords, SitePart),
    /// `policy_commit`: all parts come into force.
    PolicyCommit,
    /// `policy_abort`, or no part came for too long: the parts are dropped.
    PolicyAbort,
    /// `reprioritize`: post the current priorities of all pending jobs.
    Reprioritize,
    /// `rest`: remove the dependencies of this plugin from these jobs, whose urgency is 0.
    Rest(Vec<JobId>),
    /// Ended jobs from the snapshot, and the usage of evicted jobs.
    Recalled(Vec<Ended>, Vec<EvictedUsage>),

    /// A timer that [`Effect::Arm`](super::Effect::Arm) armed fired.
    Timer(Timer),
    /// The number of nodes of the site, asked for by [`Effect::ReadSiteNodes`](super::Effect::ReadSiteNodes).
    /// `None` if the number cannot be read.
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
    QueueStates(Vec<(Option<QueueName>, QueueReport)>),
    /// Flux's configuration: all its named queues, each with its parent if it is virtual.
    ConfiguredQueues(Vec<(QueueName, Option<QueueName>)>),
    /// The answer to [`Effect::AskScheduler`](super::Effect::AskScheduler): true if the scheduler keeps the jobs of all
    /// queues in one list.
    OneQueueList(bool),
    /// The eventlog that [`Effect::ReadEventlog`](super::Effect::ReadEventlog) asked for: the descriptions of
    /// dependencies, in order, each with `true` if the dependency was added, and `false` if it was removed.
    /// `None` if the eventlog cannot be read.
    Eventlog(JobId, Option<Vec<(String, bool)>>),
    /// The events of a job's eventlog that show how long the job was eligible and when it began to run, in
    /// their order, with their times in seconds since the epoch.
    Past(JobId, Vec<(f64, Past)>),
    /// The outstanding dependencies asked for by [`Effect::ReadDependencies`](super::Effect::ReadDependencies). `None`: unknown.
    Dependencies(JobId, Option<Vec<String>>),
    /// A page of ended jobs asked for by [`Effect::ListEnded`](super::Effect::ListEnded). `None`: job-list did not answer.
    Ended(Option<Vec<EndedJob>>),
    /// A callback or a request panicked. The id is the job of the callback or request, if known.
    Panicked(Option<JobId>),
    /// Compare jobs with Flux again, if the engine abandoned the comparison after too many panics.
    TryAgain,
    /// The present facts of the job that [`Effect::LookUp`](super::Effect::LookUp) named.
    Shown(JobFacts<'a>),
}

/// An event that starts or stops a job's eligible time, or the start of its run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Past {
    /// The user or the administrator set the urgency of the job to this value, at submission or later.
    Urgency(i64),
    /// A dependency of this name was added (`true`) or removed.
    Dependency(String, bool),
    /// The job was accepted. Dependencies that were added before this event are declared in the jobspec.
    Accepted,
    /// The job got its resources.
    Allocated,
}

impl Past {
    /// Returns the description of a dependency, and true if the dependency was added, or false if it was removed.
    pub fn dependency(&self) -> Option<(String, bool)> {
        match self {
            Past::Dependency(description, added) => Some((description.clone(), *added)),
            Past::Urgency(_) | Past::Accepted | Past::Allocated => None,
        }
    }
}

/// Why Flux refused an effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// ENOENT: the job or the dependency does not exist.
    Absent,
    /// EINVAL: the job's state does not allow the effect.
    TooLate,
    /// Any other error, with its text.
    Other(String),
}
