// SPDX-License-Identifier: LGPL-3.0-only
//! A live job: where it is in its life, and what it therefore occupies.

use super::hold::Names;
use super::size::Size;
use super::usage::Counts;
use crate::accounts::AssociationId;
use crate::ids::{BankName, QueueName, UserId};

/// How far a job has come. It only moves forward: a job that Flux sends from SCHED back to PRIORITY and round again
/// stays [`Phase::Sched`] here, so that it is counted once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Accepted, not yet in DEPEND.
    New,
    /// DEPEND: held by us, or by others.
    Depend,
    /// PRIORITY, never yet in SCHED.
    Priority,
    /// Was in SCHED.
    Sched,
    /// Has resources, until INACTIVE.
    Run,
    /// In CLEANUP without resources.
    Cleanup,
}

/// A promise of headroom to a job that was held and then released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// Never held, or still held.
    None,
    /// Released: reserves until it is charged.
    Given,
    /// Released, but still in DEPEND because of others: reserves nothing until it moves, and may be withdrawn.
    Blocked,
}

/// How the job came to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Seen at submit.
    Submitted,
    /// Shown at plugin load or job-manager restart.
    Replayed,
}

/// A live job.
#[derive(Clone, Debug)]
pub struct Job {
    /// Who submitted it.
    pub user: UserId,
    /// The association it counts in. `None`: it waits for data.
    pub association: Option<AssociationId>,
    /// The bank its jobspec names.
    pub bank: Option<BankName>,
    /// The queue its jobspec names.
    pub queue: Option<QueueName>,
    /// Whether its jobspec names a project.
    pub has_project: bool,
    /// Whether others keep it in DEPEND, as far as is known.
    pub is_kept_by_others: bool,
    /// Nodes and cores.
    pub size: Size,
    /// Progress.
    pub phase: Phase,
    /// First seen as.
    pub origin: Origin,
    /// Our dependency names on it.
    pub names: Names,
    /// Reservation.
    pub grant: Grant,
    /// Held by its user (urgency 0): its reservation of running slots rests. In DEPEND, where plugins are not told of
    /// changes, it is as of when the job was released; before that it reserves nothing.
    pub is_urgency_hold: bool,
    /// In PRIORITY for want of a price. Flux by itself moves it on only if the price differs from the one before.
    pub lacks_price: bool,
    /// Bank and project are still to be posted, and its queue to be checked, at its next priority.
    pub needs_admission: bool,
    /// What its names are is still to be read from its eventlog; until then it is not released.
    pub is_unread: bool,
    /// Marked by flux-accounting's test suite: not counted, fails in DEPEND.
    pub is_broken: bool,
    /// The log says already that data lack its association.
    pub is_missed: bool,
    /// The fair-share last posted as a memo by this plugin instance.
    pub memo: Option<f64>,
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
        let Size { nodes, cores } = self.size;
        let sched = Counts { sched_jobs: 1, sched_nodes: nodes, sched_cores: cores, ..Counts::default() };
        let run = Counts { run_jobs: 1, run_nodes: nodes, run_cores: cores, ..Counts::default() };
        let none = Counts::default();
        if self.is_broken || self.association.is_none() {
            return Footprint { active_jobs: 0, charged: none, reserved: none };
        }
        let charged = match self.phase {
            Phase::New | Phase::Depend | Phase::Priority | Phase::Cleanup => none,
            Phase::Sched => sched,
            Phase::Run => run,
        };
        let to_run = if self.is_urgency_hold { none } else { run };
        let reserved = match (self.grant, self.phase) {
            (Grant::Given, Phase::Depend | Phase::Priority) => sched.plus(to_run),
            (Grant::Given, Phase::Sched) => to_run,
            _ => none,
        };
        Footprint { active_jobs: 1, charged, reserved }
    }

    /// Whether nothing but its price is left to decide.
    pub fn is_admitted(&self) -> bool {
        self.association.is_some() && !self.needs_admission && !self.is_broken
    }

    /// Whether it stands in the line of held jobs.
    pub fn is_held(&self) -> bool {
        self.phase == Phase::Depend
            && self.association.is_some()
            && !self.is_unread
            && !self.names.outstanding().is_empty()
    }

    /// Whether it was released and is still kept in DEPEND by others.
    pub fn is_blocked_grant(&self) -> bool {
        self.phase == Phase::Depend && self.association.is_some() && self.grant == Grant::Blocked
    }

    /// Whether its size was ever counted; from then on it is fixed.
    pub fn is_charged(&self) -> bool {
        matches!(self.phase, Phase::Sched | Phase::Run)
    }
}
