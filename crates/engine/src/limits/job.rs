// SPDX-License-Identifier: LGPL-3.0-only
//! Live jobs: their state, and the amounts that they count as.

use super::allocation::Allocation;
use super::counts::{Amounts, Counts, Tally};
use super::eligible::Eligible;
use super::hold_names::HoldNames;
use super::size::Size;
use crate::accounts::{AssociationId, RunningLimits};
use crate::ids::{Amount, BankName, Measure, ProjectName, QueueName, UserId};
use std::num::NonZeroU64;

/// The state of a job. A job that Flux sends from SCHED back to PRIORITY stays in [`Phase::Sched`], so that it counts once, except if a
/// limit then holds it in PRIORITY.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Accepted, not yet in DEPEND.
    New,
    /// In DEPEND.
    Depend,
    /// In PRIORITY, or held in SCHED.
    Priority,
    /// In SCHED, or on a way back to it.
    Sched,
    /// Has resources, until INACTIVE.
    Run,
    /// In CLEANUP without resources.
    Cleanup,
}

/// The reservation of a job that was held. It also says whether a limit holds a job in PRIORITY, where no dependency can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// Never held, or still held.
    None,
    /// Released: the job reserves headroom until it counts by itself.
    Given,
    /// Released, but another plugin keeps the job in DEPEND: it reserves nothing. Limits are tested again when that plugin releases it.
    Blocked,
    /// Held in PRIORITY or in SCHED: the job reserves nothing.
    Awaited,
}

/// Whether the dependency names of a job are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knowledge {
    /// All names are known.
    Known,
    /// The eventlog is being read.
    Unread,
    /// The eventlog cannot be read, and reading is retried. Until then the job is not released, and no other job waits for it.
    Unreadable,
}

/// The association of a job, and what remains to be done for the job there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The job has no association, and waits for data.
    Waiting {
        /// Whether data without the association have come, which is logged once.
        was_passed_over: bool,
    },
    /// The job counts in its association. At its next priority, bank and project are posted, and queue and project are checked.
    Attached(AssociationId),
    /// Only the priority is left to decide.
    Admitted(AssociationId),
    /// Marked by flux-accounting's test suite: the job does not count, and fails in DEPEND.
    Broken(AssociationId),
}

impl Admission {
    /// Returns the association.
    pub fn association(self) -> Option<AssociationId> {
        match self {
            Admission::Waiting { .. } => None,
            Admission::Attached(association)
            | Admission::Admitted(association)
            | Admission::Broken(association) => Some(association),
        }
    }

    /// Returns the admission after a move to another association. A job without an association becomes attached.
    pub fn moved_to(self, association: AssociationId) -> Admission {
        match self {
            Admission::Waiting { .. } | Admission::Attached(_) => Admission::Attached(association),
            Admission::Admitted(_) => Admission::Admitted(association),
            Admission::Broken(_) => Admission::Broken(association),
        }
    }
}

/// Whether other plugins keep a job in DEPEND, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Keepers {
    /// No other plugin keeps the job.
    NobodyElse,
    /// Other plugins keep the job.
    Others,
}

/// Whether a job would be scheduled if limits allowed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// The job would be scheduled.
    ToRun,
    /// The urgency or the priority is 0, so that the reservation for RUN is suspended. In DEPEND, Flux reports no change of urgency, so
    /// this is the state at the time of the release.
    Resting,
}

impl Demand {
    /// Returns the demand of a job with a priority.
    pub fn for_priority(priority: u32) -> Demand {
        if priority == 0 { Demand::Resting } else { Demand::ToRun }
    }
}

/// How the plugin learned of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// From the submission.
    Submitted,
    /// From the replay when the plugin was loaded or the job manager restarted.
    Replayed,
}

/// The project in a jobspec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Project {
    /// The jobspec names no project.
    Missing,
    /// The association could charge the project when this was checked.
    Judged,
    /// The association is not known yet, so the project is not checked.
    Unjudged(ProjectName),
}

/// The priority of a job, and the inputs from which it was computed. If neither the job nor these have changed since, the priority is
/// valid. The value, or none, takes 16 bytes next to the id of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachedPriority {
    /// The revision of the inputs that all priorities share.
    pub revision: NonZeroU64,
    /// The urgency of the job.
    pub urgency: i32,
    /// The priority.
    pub priority: u32,
}

/// A live job. The fields that every priority reads come first, next to each other: Flux asks for jobs in an order in which successive
/// jobs are far apart in memory.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Job {
    /// The state.
    pub phase: Phase,
    /// Whether other plugins keep the job in DEPEND.
    pub keepers: Keepers,
    /// Whether the job would be scheduled.
    pub demand: Demand,
    /// The rule of its queue: from when on the job counts for limits on running jobs.
    pub running: RunningLimits,
    /// Reservation.
    pub grant: Grant,
    /// How the plugin learned of the job.
    pub origin: Origin,
    /// Whether `names` are all names of the job.
    pub knowledge: Knowledge,
    /// Whether the queue of the job is stopped.
    pub is_queue_stopped: bool,
    /// Whether a job that is held past DEPEND is in SCHED, at priority 0, instead of in PRIORITY.
    pub is_in_sched: bool,
    /// The association, and what remains to be done for the job there.
    pub admission: Admission,
    /// The time for which the job has been eligible.
    pub eligible: Eligible,
    /// The queue in the jobspec.
    pub queue: Option<QueueName>,
    /// The fair-share last posted as a memo by this plugin instance.
    pub memo: Option<f64>,
    /// The size that the job requests and counts as.
    pub size: Size,
    /// The dependency names by which limits hold the job.
    pub names: HoldNames,
    /// The resources that a running job got, if its R can be read. Limits with "counts" set to "given" count these.
    pub allocation: Option<Box<Allocation>>,
    /// The user.
    pub user: UserId,
    /// The bank in the jobspec.
    pub bank: Option<BankName>,
    /// The urgency at the submission, or at the last question in DEPEND.
    pub urgency: i64,
    /// The project in the jobspec.
    pub project: Project,
    /// The time of the submission in seconds since the epoch, if Flux reports it.
    pub submitted: Option<f64>,
}

/// The memory of a live job is bounded.
const _: () = assert!(size_of::<Job>() <= 224);

/// The amounts that a job adds to the counters of its association, its queue and its limit scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// 0 or 1.
    pub active_jobs: u64,
    /// In use by the phase of the job, and reserved by its grant.
    pub tally: Tally,
    /// The size that the job requests.
    pub size: Size,
}

impl Footprint {
    /// Returns how much of `amount` the job uses, reserves, and has as a suspended reservation. If `is_given` is true, a running job counts
    /// the resources that it got; amounts of time always count requested resources.
    pub fn parts(&self, amount: Amount, is_given: bool) -> (u64, u64, u64) {
        if !amount.measure.is_time() {
            let (charged, reserved) = self.tally.parts(amount, is_given);
            return (charged, reserved, self.tally.suspended_of(amount));
        }
        let (charged, reserved, suspended) = self.parts(Amount { measure: Measure::Jobs, ..amount }, false);
        let each = self.size.amount(amount.measure);
        (charged * each, reserved * each, suspended * each)
    }

    /// Returns true if the job counts as an active job only.
    pub fn is_idle(&self) -> bool {
        let Tally { charged, reserved, suspended } = &self.tally;
        [charged.run, charged.sched, reserved.run, reserved.sched, *suspended].iter().all(|it| it.jobs() == 0)
    }
}

impl Job {
    /// Returns the footprint. It is a function of the job alone, so that counters are exact.
    ///
    /// The reservation for RUN is suspended while urgency, priority or a stopped queue keep the job from being scheduled. Under the strict
    /// rule, a stopped queue suspends nothing: when the queue starts, Flux starts jobs without a callback first.
    pub fn footprint(&self) -> Footprint {
        let amounts = Amounts::of_job(self.size);
        let sched = Counts { sched: amounts, ..Counts::default() };
        let run = Counts { run: amounts, given: amounts, ..Counts::default() };
        let none = Counts::default();
        if matches!(self.admission, Admission::Waiting { .. } | Admission::Broken(_)) {
            return Footprint { active_jobs: 0, tally: Tally::default(), size: self.size };
        }
        let charged = match self.phase {
            Phase::New | Phase::Depend | Phase::Priority | Phase::Cleanup => none,
            Phase::Sched => sched,
            Phase::Run => {
                let given = self.allocation.as_deref().map(Allocation::size);
                Counts { given: Amounts::of_job(given.unwrap_or(self.size)), ..run }
            }
        };
        let is_suspended = self.is_queue_stopped && self.running == RunningLimits::Upstream;
        let (to_run, suspended) = match self.demand {
            Demand::ToRun if is_suspended => (none, amounts),
            Demand::ToRun => (run, Amounts::default()),
            Demand::Resting => (none, Amounts::default()),
        };
        let (reserved, suspended) = match self.phase {
            Phase::Depend | Phase::Priority if self.is_reserved() => (sched.plus(to_run), suspended),
            Phase::Sched if self.is_reserved() => (to_run, suspended),
            _ => (none, Amounts::default()),
        };
        Footprint { active_jobs: 1, tally: Tally { charged, reserved, suspended }, size: self.size }
    }

    /// Returns true if the job reserves headroom for the states ahead of it. A released job does. A job in SCHED does while its eventlog is
    /// unread, because it may have been released before the plugin was loaded. Under the strict rule, each job does after DEPEND.
    fn is_reserved(&self) -> bool {
        match (self.grant, self.running) {
            (Grant::Given, _) => true,
            (Grant::None, RunningLimits::Strict) => self.phase > Phase::Depend,
            (Grant::None, RunningLimits::Upstream) => self.phase == Phase::Sched && self.is_unread(),
            (Grant::Blocked | Grant::Awaited, _) => false,
        }
    }

    /// Returns the time limit in seconds; `None` if the job has none.
    pub fn time_limit(&self) -> Option<f64> {
        let milliseconds = self.size.time_limit_ms;
        (milliseconds < Size::MOST_TIME).then(|| milliseconds as f64 / 1000.0)
    }

    /// Returns the association in which the job counts.
    pub fn association(&self) -> Option<AssociationId> {
        self.admission.association()
    }

    /// Returns true if the eventlog of the job is being read.
    pub fn is_unread(&self) -> bool {
        self.knowledge == Knowledge::Unread
    }

    /// Returns true if only other plugins keep the job in DEPEND, as far as is known. Limits are tested when they release it.
    pub fn is_only_blocked(&self) -> bool {
        self.phase == Phase::Depend
            && self.association().is_some()
            && self.knowledge == Knowledge::Known
            && self.names.outstanding().is_empty()
    }

    /// Returns true if a limit holds the job: by dependency names in DEPEND, or past DEPEND when only its release is left to decide.
    pub fn is_held(&self) -> bool {
        let is_here = match self.phase {
            Phase::Depend => self.association().is_some() && !self.names.outstanding().is_empty(),
            Phase::Priority => self.is_awaiting() && matches!(self.admission, Admission::Admitted(_)),
            Phase::New | Phase::Sched | Phase::Run | Phase::Cleanup => false,
        };
        is_here && self.knowledge == Knowledge::Known
    }

    /// Returns true if the job is held past DEPEND.
    pub fn is_awaiting(&self) -> bool {
        self.phase == Phase::Priority && self.grant == Grant::Awaited
    }

    /// Holds the job past DEPEND. It no longer counts in SCHED.
    pub fn await_headroom(&mut self) {
        self.is_in_sched |= self.phase == Phase::Sched;
        (self.phase, self.grant, self.keepers) = (Phase::Priority, Grant::Awaited, Keepers::NobodyElse);
    }

    /// Returns the time when the job ends at the latest, if it is known. Flux sets no limit to the time that signals and epilogs take.
    pub fn ends_by(&self) -> Option<f64> {
        let given = self.allocation.as_ref().filter(|_| self.phase == Phase::Run)?;
        given.expiration
    }

    /// Returns true if the size of the job has been counted. From then on the size is fixed.
    pub fn is_charged(&self) -> bool {
        matches!(self.phase, Phase::Sched | Phase::Run)
    }
}
