// SPDX-License-Identifier: LGPL-3.0-only
//! Live jobs: their state, and the amounts that limits count for them.

use super::allocation::Allocation;
use super::counts::{Amounts, Tally};
use super::eligible::Eligible;
use super::hold_names::HoldNames;
use super::size::{ChargeFactor, Size};
use crate::accounts::{AssociationId, RunningLimits};
use crate::ids::{Amount, BankName, ProjectName, QueueName, UserId};
use fairshare::charging::ChargeHistory;
use std::num::NonZeroU64;

/// The state of a job as limits see it. A job that Flux sends from SCHED back to PRIORITY stays in [`Phase::Sched`], unless a limit then holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Flux has accepted the job, but the job is not in DEPEND yet.
    New,
    /// The job is in DEPEND.
    Depend,
    /// The job is in PRIORITY, or a limit holds it in SCHED.
    Priority,
    /// The job is in SCHED, or on its way back to SCHED.
    Sched,
    /// The job has resources. This state lasts until INACTIVE.
    Run,
    /// The job is in CLEANUP without resources.
    Cleanup,
}

/// Whether a job reserves headroom. [`Reservation::Awaited`] also marks a job that a limit holds in PRIORITY or
/// SCHED, where no dependency can hold the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reservation {
    /// The job was never held, or is still held.
    None,
    /// The job was released. It reserves headroom until limits count the job in SCHED or RUN.
    Given,
    /// The job was released, but another plugin blocks it in DEPEND. It reserves nothing, and its limits are tested again when the other
    /// plugin releases it.
    Blocked,
    /// The job is held in PRIORITY or in SCHED. It reserves nothing.
    Awaited,
}

/// Whether the dependency names of a job are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knowledge {
    /// All dependency names of the job are known.
    Known,
    /// The eventlog is being read.
    Unread,
    /// Reading the eventlog failed and is repeated. Until it succeeds the job is not released, but other jobs can be.
    Unreadable,
}

/// The association of a job, and which checks of the job are still due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The job has no association, and waits for a push.
    Waiting {
        /// True if a push without the job's association has ended. The engine logs this only once.
        was_passed_over: bool,
    },
    /// Limits count the job for this association. When Flux next asks for the job's priority, the engine checks
    /// whether the association may use the job's queue and project, and posts a missing bank and project.
    Attached(AssociationId),
    /// The bank, the project and the queue are checked. When Flux asks for the job's priority, the engine only
    /// computes the priority.
    Admitted(AssociationId),
    /// flux-accounting's test suite marks the association as broken. The job does not count, and fails in DEPEND.
    Broken(AssociationId),
}

impl Admission {
    /// Returns the association, if the job has one.
    pub fn association(self) -> Option<AssociationId> {
        match self {
            Admission::Waiting { .. } => None,
            Admission::Attached(association)
            | Admission::Admitted(association)
            | Admission::Broken(association) => Some(association),
        }
    }

    /// Returns the admission state after the job moves to `association`. A job that had no association now counts in `association`.
    pub fn get_admission_after_move(self, association: AssociationId) -> Admission {
        match self {
            Admission::Waiting { .. } | Admission::Attached(_) => Admission::Attached(association),
            Admission::Admitted(_) => Admission::Admitted(association),
            Admission::Broken(_) => Admission::Broken(association),
        }
    }
}

/// Whether other plugins block a job in DEPEND, according to the events that the engine has received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BlockState {
    /// No other plugin blocks the job.
    Unblocked,
    /// Other plugins block the job.
    Blocked,
}

/// Whether a job would be scheduled if limits allowed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// The job would be scheduled.
    ToRun,
    /// The urgency or the priority is 0, so the job reserves no headroom for RUN. Flux reports no change of urgency
    /// in DEPEND, so the urgency at the release of the job applies.
    Resting,
}

impl Demand {
    /// Returns whether a job with this priority would be scheduled. A job with priority 0 would not be scheduled.
    pub fn for_priority(priority: u32) -> Demand {
        if priority == 0 { Demand::Resting } else { Demand::ToRun }
    }
}

/// How the plugin learned of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The submission of the job.
    Submitted,
    /// A replay, because the plugin was loaded or the job manager restarted.
    Replayed,
}

/// The project in a jobspec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Project {
    /// The jobspec names no project.
    Missing,
    /// The project was checked, and the association could charge it at that time.
    Checked,
    /// The project is not checked yet, because the job has no association.
    Unchecked(ProjectName),
}

/// The priority of a job, and the inputs from which it was computed. The priority is valid as long as neither the job nor these inputs change.
/// An `Option` of this type takes 16 bytes.
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
    /// The state of the job.
    pub phase: Phase,
    /// Whether other plugins block the job in DEPEND.
    pub block_state: BlockState,
    /// Whether the job would be scheduled if limits allowed it.
    pub demand: Demand,
    /// The rule of the job's queue for when the job begins to count under limits on running jobs.
    pub running: RunningLimits,
    /// The reservation of the job.
    pub reservation: Reservation,
    /// How the plugin learned of the job.
    pub origin: Origin,
    /// Whether `names` has all dependency names of the job.
    pub knowledge: Knowledge,
    /// Whether the queue of the job is stopped.
    pub is_queue_stopped: bool,
    /// True if the job is held in SCHED at priority 0, otherwise false.
    pub is_in_sched: bool,
    /// The association of the job, and the progress of the job's checks.
    pub admission: Admission,
    /// The user.
    pub user: UserId,
    /// The time for which the job has been eligible.
    pub eligible: Eligible,
    /// The queue in the jobspec.
    pub queue: Option<QueueName>,
    /// The fair-share that this plugin instance last posted as a memo of the job.
    pub memo: Option<f64>,
    /// The size that the job requests. Most limits count this size.
    pub size: Size,
    /// The time for which the job has run, in milliseconds, as of the last update; 0 before RUN. It may be out of date, and is then too
    /// small. Only jobs under a limit on the time that running jobs have left are updated.
    pub elapsed_ms: u64,
    /// The allocated resources of a running job, if its R can be read. Limits with "counts" set to "given" count these.
    pub allocation: Option<Box<Allocation>>,
    /// The dependency names by which limits hold the job.
    pub names: HoldNames,
    /// The bank in the jobspec.
    pub bank: Option<BankName>,
    /// The urgency at the submission, or the last urgency that Flux reported in DEPEND.
    pub urgency: i64,
    /// The project in the jobspec.
    pub project: Project,
    /// The time of the submission in seconds since the epoch, if Flux reports it.
    pub submitted: Option<f64>,
}

// The memory of a live job is bounded.
const _: () = assert!(size_of::<Job>() <= 224);

/// The amounts that a job adds to the counters of its association, its queue and its limit scopes. The counters depend on nothing else.
#[derive(Clone, Debug, PartialEq)]
pub struct Footprint {
    /// The association of the job.
    pub association: Option<AssociationId>,
    /// The queue in the jobspec.
    pub queue: Option<QueueName>,
    /// True if the eventlog of the job is being read.
    pub is_unread: bool,
    /// 1 if the job counts as an active job, otherwise 0.
    pub active_jobs: u64,
    /// 1 for each state in which the job counts, otherwise 0.
    pub jobs: Tally<u64>,
    /// The size that the job requests.
    pub size: Size,
    /// The size that a running job got, with the requested time limit. For other jobs, this is `size`.
    pub given_size: Size,
    /// The time when the job started to run, in seconds since the epoch; `None` if the job does not run, or if its R cannot be read.
    pub start: Option<f64>,
    /// An upper bound of the time that the job may still run, in milliseconds.
    pub time_left_ms: u64,
}

impl Footprint {
    /// Returns three amounts of the job for a limit on `amount`: the used, the reserved and the suspended amount. If
    /// `is_given` is true, a running job counts with its allocated resources.
    ///
    /// For limits on time, a job counts with its requested resources, and for budgets with its allocated resources. A
    /// limit on the time of running jobs counts the time that each job has left.
    pub fn amounts(&self, amount: Amount, is_given: bool) -> (u64, u64, u64) {
        let (charged, reserved, suspended) = self.jobs.get_amounts_counted_in_stage(amount.stage);
        let each = self.size.amount(amount);
        let counts_given = if amount.measure.is_time() { amount.is_budget() } else { is_given };
        let charged_each = match () {
            () if counts_given => self.given_size.amount(amount),
            () if amount.counts_time_left() => {
                Size { time_limit_ms: self.time_left_ms, ..self.size }.amount(amount)
            }
            () => each,
        };
        (charged * charged_each, reserved * each, suspended * each)
    }

    /// Returns true if a limit on `amount` counts the same amount for both footprints. Always returns false for
    /// limits that count time or allocated resources.
    pub fn counts_equally(&self, other: &Footprint, amount: Amount, is_given: bool) -> bool {
        let counts = |it: &Footprint| (it.jobs.get_amounts_counted_in_stage(amount.stage), it.size);
        !is_given && !amount.measure.is_time() && counts(self) == counts(other)
    }

    /// Returns a footprint with the same association and queue, and with all amounts 0.
    pub fn with_zero_amounts(&self) -> Footprint {
        Footprint { jobs: Tally::default(), active_jobs: 0, is_unread: false, ..self.clone() }
    }

    /// Returns true if the job uses and reserves nothing. It may still count as an active job.
    pub fn is_idle(&self) -> bool {
        self.jobs == Tally::default()
    }

    /// Returns the number of jobs, nodes, cores and GPUs that the job uses and reserves.
    pub fn tally(&self) -> Tally {
        let given = Amounts::sum_amounts_of_equal_jobs(self.jobs.given, self.given_size);
        Tally { given, ..self.jobs.map(|count| Amounts::sum_amounts_of_equal_jobs(count, self.size)) }
    }
}

impl Job {
    /// Returns the amounts that the job adds to counters. They depend on the job alone, so that counters are exact.
    ///
    /// A job at urgency or priority 0 reserves no headroom for RUN. In a stopped queue, a reservation for RUN is
    /// suspended. If running limits are strict, the reservation is not suspended, because Flux starts the jobs
    /// without a callback when the queue starts.
    pub fn footprint(&self) -> Footprint {
        let is_counted = !matches!(self.admission, Admission::Waiting { .. } | Admission::Broken(_));
        let is_before_sched = matches!(self.phase, Phase::Depend | Phase::Priority);
        let is_reserved = is_counted && self.is_reserved();
        let is_to_run =
            is_reserved && self.demand == Demand::ToRun && (is_before_sched || self.phase == Phase::Sched);
        let is_suspended = self.is_queue_stopped && self.running == RunningLimits::Upstream;
        let run = u64::from(is_counted && self.phase == Phase::Run);
        let jobs = Tally {
            run,
            given: run,
            sched: u64::from(is_counted && self.phase == Phase::Sched),
            reserved_run: u64::from(is_to_run && !is_suspended),
            reserved_sched: u64::from(is_reserved && is_before_sched),
            suspended: u64::from(is_to_run && is_suspended),
        };
        let given = self.allocation.as_deref().filter(|_| self.phase == Phase::Run);
        let Size { time_limit_ms, charge_factor, .. } = self.size;
        Footprint {
            association: self.association(),
            queue: self.queue.clone(),
            is_unread: self.is_unread(),
            active_jobs: u64::from(is_counted),
            jobs,
            size: self.size,
            given_size: given.map_or(self.size, |it| Size { time_limit_ms, charge_factor, ..it.size() }),
            start: given.and_then(|it| it.start),
            time_left_ms: self.time_left_ms(),
        }
    }

    /// Returns true if the job reserves headroom: if it was released, or may have been released before the plugin was
    /// loaded. If running limits are strict, each job past DEPEND reserves headroom.
    fn is_reserved(&self) -> bool {
        match (self.reservation, self.running) {
            (Reservation::Given, _) => true,
            (Reservation::None, RunningLimits::Strict) => self.phase > Phase::Depend,
            (Reservation::None, RunningLimits::Upstream) => self.phase == Phase::Sched && self.is_unread(),
            (Reservation::Blocked | Reservation::Awaited, _) => false,
        }
    }

    /// Returns the time limit in seconds; `None` if the job has none.
    pub fn time_limit(&self) -> Option<f64> {
        let milliseconds = self.size.time_limit_ms;
        (milliseconds < Size::MOST_TIME).then(|| milliseconds as f64 / 1000.0)
    }

    /// Returns the time that the job may still run, in milliseconds. If the job has no time limit, returns [`Size::MOST_TIME`].
    fn time_left_ms(&self) -> u64 {
        match self.phase {
            Phase::Run if self.size.has_time_limit() => {
                self.size.time_limit_ms.saturating_sub(self.elapsed_ms)
            }
            _ => self.size.time_limit_ms,
        }
    }

    /// Returns the time for which a job in RUN has run at the time `now`, in milliseconds, at most its time limit. Returns 0 if the start of
    /// the job is unknown.
    pub fn compute_elapsed_time(&self, now: f64) -> u64 {
        let start = self.allocation.as_ref().filter(|_| self.phase == Phase::Run).and_then(|it| it.start);
        // A conversion to an integer saturates, and rounds down.
        start.map_or(0, |start| ((now - start) * 1000.0) as u64).min(self.size.time_limit_ms)
    }

    /// Returns the size of the job with the charge factor of the job's queue. A job in RUN keeps the charge factor
    /// from the start of the job.
    pub fn charged_size(&self, charges: &ChargeHistory) -> Size {
        let given = self.allocation.as_deref().filter(|_| self.phase == Phase::Run);
        let start = given.and_then(|given| given.start).unwrap_or(f64::INFINITY);
        let factor = charges.factor(self.queue.as_deref(), start);
        Size { charge_factor: ChargeFactor::new(factor), ..self.size }
    }

    /// Returns the association in which the job counts.
    pub fn association(&self) -> Option<AssociationId> {
        self.admission.association()
    }

    /// Returns true if the eventlog of the job is being read.
    pub fn is_unread(&self) -> bool {
        self.knowledge == Knowledge::Unread
    }

    /// Returns true if the job is in DEPEND without dependencies of ours. Only another plugin can block such a job.
    /// The engine tests the job's limits when the other plugin releases the job.
    pub fn is_only_blocked_by_plugins(&self) -> bool {
        self.phase == Phase::Depend
            && self.association().is_some()
            && self.knowledge == Knowledge::Known
            && self.names.outstanding().is_empty()
    }

    /// Returns true if a limit holds the job: with dependency names in DEPEND, or without names in a later state.
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
        self.phase == Phase::Priority && self.reservation == Reservation::Awaited
    }

    /// Holds a job that has left DEPEND. The job no longer counts in SCHED.
    pub fn hold_past_depend(&mut self) {
        self.is_in_sched |= self.phase == Phase::Sched;
        (self.phase, self.reservation, self.block_state) =
            (Phase::Priority, Reservation::Awaited, BlockState::Unblocked);
    }

    /// Returns the time at which the job ends at the latest, if it is known. Signals and epilogs may delay the end, because Flux does not
    /// limit their time.
    pub fn latest_end(&self) -> Option<f64> {
        let allocation = self.allocation.as_ref().filter(|_| self.phase == Phase::Run)?;
        allocation.expiration
    }

    /// Returns true if the job counts with its size in SCHED or RUN. Its size must not change then.
    pub fn is_charged(&self) -> bool {
        matches!(self.phase, Phase::Sched | Phase::Run)
    }
}
