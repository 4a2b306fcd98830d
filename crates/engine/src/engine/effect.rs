// SPDX-License-Identifier: LGPL-3.0-only
//! The outputs of the engine. The engine does not carry out an output itself, because Flux calls back into
//! the plugin meanwhile.
//!
//! Three words have one meaning each. The plugin *rejects* a job, an update or a push when Flux or a client asks whether to accept it
//! ([`Effect::Reject`]). A call is *refused* if its answer is an error: Flux refuses an effect ([`Refusal`](super::Refusal)), and the
//! plugin refuses a request. A job *ends* when it is over for any reason; the plugin ends an accepted job that can never have a priority
//! ([`Effect::Raise`]).

use super::{step::Step, timer::Timer};
use crate::ids::{BankName, JobId, ProjectName, QueueName};
use crate::limits::HoldName;

/// The level of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// LOG_ERR.
    Error,
    /// LOG_WARNING.
    Warning,
    /// LOG_DEBUG.
    Debug,
}

/// How a jobspec update is posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posting {
    /// The jobspec update is for the job whose callback is running.
    Current,
    /// The jobspec update is for another job, which Flux finds by its id.
    ById,
}

impl Effect {
    /// Returns the reason if the effect is [`Effect::RejectPush`].
    pub fn push_rejection(&self) -> Option<&str> {
        if let Effect::RejectPush(text) = self { Some(text) } else { None }
    }
}

/// An output of the engine. The plugin carries out the effects in their order.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Reject the job or the update, with this text.
    Reject(String),
    /// Reject the pushed site document, with this text. No part of the document takes effect.
    RejectPush(String),
    /// Answer with a priority.
    SetPriority(u32),
    /// Let a job in SCHED keep its priority, and let a job in PRIORITY stay there.
    KeepPriority,
    /// Leave the job in PRIORITY.
    PriorityUnavailable,
    /// Show this text with the job, as a volatile memo.
    Annotate(JobId, String),
    /// Add the bank and project to the jobspec.
    SetJobspec {
        /// The job.
        id: JobId,
        /// Whether the update is for the job of the running callback.
        posting: Posting,
        /// `attributes.system.bank`.
        bank: Option<BankName>,
        /// `attributes.system.project`.
        project: Option<ProjectName>,
    },
    /// Add a dependency, which holds the job.
    AddDependency(JobId, HoldName),
    /// Ask for the urgency, and call back with [`Event::Urgency`](super::Event::Urgency). In DEPEND and
    /// PRIORITY, no callback reports a change of the urgency.
    AskUrgency(JobId),
    /// Ask which of these queues are stopped, and call back with [`Event::QueueStates`](super::Event::QueueStates). `None` is the queue
    /// without a name.
    AskQueues(Vec<Option<QueueName>>),
    /// Ask whether the scheduler keeps all queues in one list, and call back with
    /// [`Event::OneQueueList`](super::Event::OneQueueList).
    AskScheduler,
    /// Look up the expiration of a running job, and call back with [`Event::Expiration`](super::Event::Expiration).
    AskExpiration(JobId),
    /// Subscribe to the job's events.
    Subscribe(JobId),
    /// End the subscription to the job's events.
    Unsubscribe(JobId),
    /// Look the job up in Flux, and call back with [`Event::Shown`](super::Event::Shown).
    LookUp(JobId),
    /// Remove a dependency that holds the job.
    RemoveDependency(JobId, HoldName),
    /// Post a memo with the fair-share that the priority was computed from.
    Memo(JobId, f64),
    /// Post the memo of [`Effect::Memo`] as a volatile memo, which Flux does not write to the eventlog.
    VolatileMemo(JobId, f64),
    /// Raise a fatal exception with this note. The exception ends the job at once. So the engine does not
    /// return this effect in a callback that another plugin may have caused.
    Raise(JobId, String),
    /// A log line.
    Log(Level, String),
    /// Call back with [`Event::Timer`](super::Event::Timer) after the period of the timer. Has no effect if the timer
    /// is already armed for an earlier time.
    Arm(Timer),
    /// Call back with [`Event::Timer`](super::Event::Timer) after this number of seconds. Replaces the time for which the timer was armed.
    ArmIn(Timer, f64),
    /// Read the job's eventlog and call back with [`Event::Eventlog`](super::Event::Eventlog).
    ReadEventlog(JobId),
    /// Find out how many nodes the site has, and call back with [`Event::SiteNodes`](super::Event::SiteNodes).
    ReadSiteNodes,
    /// Ask Flux which dependencies are outstanding, and call back with [`Event::Dependencies`](super::Event::Dependencies).
    ReadDependencies(JobId),
    /// Ask job-list for the jobs that ended after `since`, sorted by descending end, and call back with
    /// [`Event::Ended`](super::Event::Ended).
    ListEnded {
        /// List only jobs that ended after this time, in seconds since the epoch.
        since: f64,
        /// If set, list only jobs that ended at this time or earlier, in seconds since the epoch.
        before: Option<f64>,
        /// The largest number of jobs in the answer.
        most: usize,
    },
    /// Post the priority of a job by id. This moves a job from PRIORITY to SCHED even if its priority does
    /// not change.
    Prioritize(JobId, u32),
    /// Make Flux ask for the priority of every pending job.
    ReprioritizeAll,
    /// Continue with this step after the plugin has carried out all previous effects.
    Then(Step),
}

/// Returns the effects by which Flux asks for the priority of every pending job. Steps mark the begin and the end of Flux's loop.
pub fn reprioritize_all() -> Vec<Effect> {
    vec![Effect::Then(Step::LoopBegins), Effect::ReprioritizeAll, Effect::Then(Step::LoopEnded)]
}
