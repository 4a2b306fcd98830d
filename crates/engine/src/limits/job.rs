// SPDX-License-Identifier: LGPL-3.0-only
//! A live job: where it is in its life, and what it therefore occupies.

use super::allocation::Allocation;
use super::counts::{Amounts, Counts};
use super::eligible::Eligible;
use super::hold_names::HoldNames;
use super::size::Size;
use crate::accounts::{AssociationId, RunningLimits};
use crate::ids::{BankName, ProjectName, QueueName, UserId};
use std::num::NonZeroU64;

/// How far a job has come. It only moves forward: a job that Flux sends from SCHED back to PRIORITY and round again
/// stays [`Phase::Sched`] here, so that it is counted once; but for one that finds no room and stays in PRIORITY.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Accepted, not yet in DEPEND.
    New,
    /// DEPEND: held by us, or by others.
    Depend,
    /// PRIORITY: on its way to SCHED, or held there.
    Priority,
    /// Was in SCHED.
    Sched,
    /// Has resources, until INACTIVE.
    Run,
    /// In CLEANUP without resources.
    Cleanup,
}

/// A promise of headroom to a job that was held and then released. It is what holds a job in PRIORITY, where no dependency
/// can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// Never held, or still held.
    None,
    /// Released: reserves until it is charged.
    Given,
    /// Released, but still in DEPEND because of others: reserves nothing, and is judged again when they let it go.
    Blocked,
    /// In PRIORITY, without a price until its turn comes: reserves nothing.
    Awaited,
}

/// What is known of the names that the job carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knowledge {
    /// All.
    Known,
    /// Its eventlog is being read.
    Unread,
    /// Its eventlog can't be read, and is tried again. Until then the job is not called free, and nobody waits for it.
    Unreadable,
}

/// How far a job has come with its association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It has none: it waits for data.
    Waiting {
        /// A price was asked for when there were data, and they lacked its association. The log says so, once.
        was_passed_over: bool,
    },
    /// It counts in its association. Bank and project are still to be posted, and its queue and project to be checked, at
    /// its next priority.
    Attached(AssociationId),
    /// Nothing but its price is left to decide.
    Admitted(AssociationId),
    /// Marked by flux-accounting's test suite: not counted, fails in DEPEND.
    Broken(AssociationId),
}

impl Admission {
    /// The association.
    pub fn association(self) -> Option<AssociationId> {
        match self {
            Admission::Waiting { .. } => None,
            Admission::Attached(association)
            | Admission::Admitted(association)
            | Admission::Broken(association) => Some(association),
        }
    }

    /// The same in another association. A job that waited for one is attached.
    pub fn moved_to(self, association: AssociationId) -> Admission {
        match self {
            Admission::Waiting { .. } | Admission::Attached(_) => Admission::Attached(association),
            Admission::Admitted(_) => Admission::Admitted(association),
            Admission::Broken(_) => Admission::Broken(association),
        }
    }
}

/// Who keeps a job in DEPEND besides us, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Keepers {
    /// Nobody.
    NobodyElse,
    /// Other plugins.
    Others,
}

/// Whether a job that may run would.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// It would.
    ToRun,
    /// Its urgency or its score is 0, so that it won't be scheduled for now: its reservation of a place to run rests. In
    /// DEPEND, where plugins are not told of changes, this is as of when the job was released; before that it reserves
    /// nothing.
    Resting,
}

impl Demand {
    /// Of a job of this priority.
    pub fn of_price(price: u32) -> Demand {
        if price == 0 { Demand::Resting } else { Demand::ToRun }
    }
}

/// How the job came to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Seen at submit.
    Submitted,
    /// Shown at plugin load or job-manager restart.
    Replayed,
}

/// What a jobspec says of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Project {
    /// Nothing.
    Missing,
    /// A name that the association may charge, or could when it was judged.
    Judged,
    /// A name that can't be judged before the association is known.
    Unjudged(ProjectName),
}

/// A job's price and what it was made of. Where neither the job nor that has changed since, it is the price still. One, or none,
/// takes 16 bytes, which are beside the job's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// Of what the prices of all jobs are made of.
    pub revision: NonZeroU64,
    /// The job's urgency.
    pub urgency: i32,
    /// The price.
    pub price: u32,
}

/// A live job. What every price looks at comes first, in one place of the memory: jobs are asked about in an order in which none is
/// near the one before.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Job {
    /// Progress.
    pub phase: Phase,
    /// Who else keeps it in DEPEND.
    pub keepers: Keepers,
    /// Whether the place to run that is reserved for it is wanted.
    pub demand: Demand,
    /// The rule of its queue: from when on it counts for limits on what runs.
    pub running: RunningLimits,
    /// Reservation.
    pub grant: Grant,
    /// First seen as.
    pub origin: Origin,
    /// Whether its names are all that it carries and carried.
    pub knowledge: Knowledge,
    /// Whether its queue is stopped: until that is started the job is not scheduled.
    pub is_queue_stopped: bool,
    /// Where it is held past DEPEND, that is in SCHED, at priority 0, and not in PRIORITY.
    pub is_in_sched: bool,
    /// The association it counts in, and what is still to be done for it there.
    pub admission: Admission,
    /// How long it was eligible.
    pub eligible: Eligible,
    /// The queue its jobspec names.
    pub queue: Option<QueueName>,
    /// The fair-share last posted as a memo by this plugin instance.
    pub memo: Option<f64>,
    /// What it asks for: what it counts as.
    pub size: Size,
    /// Our dependency names on it.
    pub names: HoldNames,
    /// What it was given, while it runs, as far as its R can be read. It counts where a limit says so.
    pub allocation: Option<Box<Allocation>>,
    /// Who submitted it.
    pub user: UserId,
    /// The bank its jobspec names.
    pub bank: Option<BankName>,
    /// The urgency it was submitted with, or had when it was asked for in DEPEND.
    pub urgency: i64,
    /// What its jobspec says of a project.
    pub project: Project,
    /// When it was submitted, in seconds since the epoch, as far as Flux says.
    pub submitted: Option<f64>,
    /// The time limit its jobspec names, in seconds; 0 for none.
    pub duration: f64,
}

/// What a job adds to the counters of its association and queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// 0 or 1.
    pub active_jobs: u64,
    /// By its phase.
    pub charged: Counts,
    /// By its grant.
    pub reserved: Counts,
}

impl Footprint {
    /// Nothing but an active job.
    pub fn is_idle(&self) -> bool {
        self.charged == Counts::default() && self.reserved == Counts::default()
    }
}

impl Job {
    /// The footprint: a function of the job alone, never of what happened to it. This is what makes counters exact.
    pub fn footprint(&self) -> Footprint {
        let amounts = Amounts::of_job(self.size);
        let sched = Counts { sched: amounts, ..Counts::default() };
        let run = Counts { run: amounts, given: amounts, ..Counts::default() };
        let none = Counts::default();
        if matches!(self.admission, Admission::Waiting { .. } | Admission::Broken(_)) {
            return Footprint { active_jobs: 0, charged: none, reserved: none };
        }
        let charged = match self.phase {
            Phase::New | Phase::Depend | Phase::Priority | Phase::Cleanup => none,
            Phase::Sched => sched,
            Phase::Run => {
                let given = self.allocation.as_deref().map(Allocation::size);
                Counts { given: Amounts::of_job(given.unwrap_or(self.size)), ..run }
            }
        };
        let to_run = if self.may_be_scheduled() { run } else { none };
        let reserved = match (self.is_promised(), self.phase) {
            (true, Phase::Depend | Phase::Priority) => sched.plus(to_run),
            (true, Phase::Sched) => to_run,
            _ => none,
        };
        Footprint { active_jobs: 1, charged, reserved }
    }

    /// Whether it reserves what it is on its way to: one that was released does. While its eventlog is unread, so does one in SCHED: it
    /// may have been released before the plugin was loaded. One that was never held does so too under the strict rule, once it has left DEPEND.
    fn is_promised(&self) -> bool {
        match (self.grant, self.running) {
            (Grant::Given, _) => true,
            (Grant::None, RunningLimits::Strict) => self.phase > Phase::Depend,
            (Grant::None, RunningLimits::Upstream) => self.phase == Phase::Sched && self.is_unread(),
            (Grant::Blocked | Grant::Awaited, _) => false,
        }
    }

    /// Whether a reservation of a place to run counts: not while the job is not scheduled, because of its urgency, its score, or its queue.
    /// Under the strict rule jobs count in a stopped queue too: when the queue starts, Flux starts them before it asks anybody.
    fn may_be_scheduled(&self) -> bool {
        let is_stopped = self.is_queue_stopped && self.running == RunningLimits::Upstream;
        self.demand == Demand::ToRun && !is_stopped
    }

    /// The association it counts in.
    pub fn association(&self) -> Option<AssociationId> {
        self.admission.association()
    }

    /// Whether its eventlog is being read.
    pub fn is_unread(&self) -> bool {
        self.knowledge == Knowledge::Unread
    }

    /// Whether it is in DEPEND for others' sake alone, as far as we know it: what the limits say of it counts when
    /// they let it go.
    pub fn is_up_to_others(&self) -> bool {
        self.phase == Phase::Depend
            && self.association().is_some()
            && self.knowledge == Knowledge::Known
            && self.names.outstanding().is_empty()
    }

    /// Whether it stands in the line of held jobs: in DEPEND by our names, or past it, once nothing is to be decided but when it
    /// goes.
    pub fn is_held(&self) -> bool {
        let is_here = match self.phase {
            Phase::Depend => self.association().is_some() && !self.names.outstanding().is_empty(),
            Phase::Priority => self.is_awaiting() && matches!(self.admission, Admission::Admitted(_)),
            Phase::New | Phase::Sched | Phase::Run | Phase::Cleanup => false,
        };
        is_here && self.knowledge == Knowledge::Known
    }

    /// Whether it is held past DEPEND until it is released.
    pub fn is_awaiting(&self) -> bool {
        self.phase == Phase::Priority && self.grant == Grant::Awaited
    }

    /// It is held past DEPEND until it is released; what it had in SCHED it gives up.
    pub fn await_room(&mut self) {
        self.is_in_sched |= self.phase == Phase::Sched;
        (self.phase, self.grant, self.keepers) = (Phase::Priority, Grant::Awaited, Keepers::NobodyElse);
    }

    /// When it ends at the latest, as far as anybody can say. Flux sets no term to what comes after its time: signals and
    /// epilogs.
    pub fn ends_by(&self) -> Option<f64> {
        let given = self.allocation.as_ref().filter(|_| self.phase == Phase::Run)?;
        given.expiration
    }

    /// Whether it would age if others let it go: in DEPEND nobody tells of an urgency that changed since it was submitted.
    pub fn eligible_when_alone(&self) -> bool {
        self.demand == Demand::ToRun
    }

    /// Whether its size was ever counted; from then on it is fixed.
    pub fn is_charged(&self) -> bool {
        matches!(self.phase, Phase::Sched | Phase::Run)
    }
}
