// SPDX-License-Identifier: LGPL-3.0-only
//! What the engine wants done. Nothing is done in the engine itself: Flux re-enters callbacks.
//!
//! Three words, one meaning each. A job or an update is *rejected* when Flux asks whether to take it and we say no
//! ([`Effect::Reject`]). A call is *refused* when an error is its answer: Flux refuses an effect
//! ([`Refusal`](super::Refusal)), the plugin refuses a request. A job *ends* when it is over, whoever brought that about;
//! one that was accepted and can never have a priority we end ourselves ([`Effect::Raise`]).

use super::{step::Step, timer::Timer};
use crate::ids::{BankName, JobId, ProjectName, QueueName};
use crate::limits::HoldName;

/// How important a log line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// LOG_ERR.
    Error,
    /// LOG_WARNING.
    Warning,
    /// LOG_DEBUG.
    Debug,
}

/// Which way a jobspec is updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posting {
    /// The job whose callback is running.
    Current,
    /// Any other job.
    ById,
}

impl Effect {
    /// Why a policy was rejected, if this says so.
    pub fn rejected_policy(&self) -> Option<&str> {
        match self {
            Effect::RejectPolicy(text) => Some(text),
            _ => None,
        }
    }
}

/// An output of the engine, applied in order.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Flux asks whether it may take the job or the update: no, with this text.
    Reject(String),
    /// Refuse the pushed policy, with this text: nothing of it is in force.
    RejectPolicy(String),
    /// The priority asked for.
    SetPriority(u32),
    /// A job in SCHED keeps the priority it has; one in PRIORITY stays there.
    KeepPriority,
    /// The job stays in PRIORITY.
    PriorityUnavailable,
    /// Show this text with the job, in no eventlog.
    Annotate(JobId, String),
    /// Put the bank and project into the jobspec.
    SetJobspec {
        /// The job.
        id: JobId,
        /// How.
        posting: Posting,
        /// `attributes.system.bank`.
        bank: Option<BankName>,
        /// `attributes.system.project`.
        project: Option<ProjectName>,
    },
    /// Hold a job.
    AddDependency(JobId, HoldName),
    /// Call back with [`Event::Urgency`](super::Event::Urgency): in DEPEND and PRIORITY no callback tells of a change.
    AskUrgency(JobId),
    /// Ask which of these queues are stopped, and call back with [`Event::QueueStates`](super::Event::QueueStates). `None` is the queue
    /// without a name.
    AskQueues(Vec<Option<QueueName>>),
    /// Ask whether the scheduler keeps all queues in one list, and call back with
    /// [`Event::OneQueueList`](super::Event::OneQueueList).
    AskScheduler,
    /// Look up the expiration of a running job, and call back with [`Event::Expiration`](super::Event::Expiration).
    AskExpiration(JobId),
    /// Have Flux tell of the job's events.
    Subscribe(JobId),
    /// No longer.
    Unsubscribe(JobId),
    /// Show the job as it is in Flux, as [`Event::Shown`](super::Event::Shown).
    LookUp(JobId),
    /// Take a hold off a job.
    RemoveDependency(JobId, HoldName),
    /// Tell the job's owner the fair-share its priority was made from.
    Memo(JobId, f64),
    /// The same, in no eventlog.
    VolatileMemo(JobId, f64),
    /// A fatal exception, with its note. It ends the job at once, so not in a callback that others may have caused.
    Raise(JobId, String),
    /// A log line.
    Log(Level, String),
    /// Call back with [`Event::Timer`](super::Event::Timer) within the time of the timer. A timer that is due earlier keeps its time.
    Arm(Timer),
    /// Call back with [`Event::Timer`](super::Event::Timer) after so many seconds, whenever the timer was due before.
    ArmIn(Timer, f64),
    /// Read the job's eventlog and call back with [`Event::Eventlog`](super::Event::Eventlog).
    ReadEventlog(JobId),
    /// Find out how many nodes the site has, and call back with [`Event::SiteNodes`](super::Event::SiteNodes).
    ReadSiteNodes,
    /// Ask who else knows which dependencies are outstanding, and call back with
    /// [`Event::Dependencies`](super::Event::Dependencies).
    ReadDependencies(JobId),
    /// Ask job-list for the jobs that ended after `since`, the last ones first, and call back with
    /// [`Event::Ended`](super::Event::Ended).
    ListEnded {
        /// In seconds since the epoch.
        since: f64,
        /// Only those that ended up to then.
        before: Option<f64>,
        /// So many at most.
        most: usize,
    },
    /// Give a job in PRIORITY its priority, though it may be the one it had before.
    Prioritize(JobId, u32),
    /// Have Flux ask for the priority of every pending job.
    ReprioritizeAll,
    /// Go on with this, after the effects before it.
    Then(Step),
}

/// Returns the effects by which Flux asks for the priority of every pending job. Steps mark the begin and the end of Flux's loop.
pub(super) fn reprioritize_all() -> Vec<Effect> {
    vec![Effect::Then(Step::LoopBegins), Effect::ReprioritizeAll, Effect::Then(Step::LoopEnded)]
}
