// SPDX-License-Identifier: LGPL-3.0-only
//! Where a job of the host is between submission and its run, as the oracle sees it.

use super::super::site::HostJob;
use super::{Oracle, is_ours};
use crate::engine::State;

impl Oracle {
    /// Whether the job is held, by our dependencies or in PRIORITY.
    pub(super) fn is_in_line(&self, job: &HostJob) -> bool {
        let is_held = job.state == State::Depend && job.dependencies.iter().any(|name| is_ours(name));
        is_held || is_waiting(job) && !self.is_half_pushed(job) && self.association(job).is_some()
    }

    pub(super) fn is_half_pushed(&self, job: &HostJob) -> bool {
        let of = self.association(job).map(|of| (of.user, of.bank.clone()));
        of.is_some_and(|of| self.half_pushed.contains(&of))
    }
}

/// Whether the job was held. A job whose eventlog could not be read reserves headroom as if it had been. An eventlog does not show
/// that a job was held in PRIORITY.
pub(super) fn was_held(job: &HostJob) -> bool {
    job.was_unreadable || job.was_awaiting || job.log.iter().any(|(name, _)| is_ours(name))
}

/// Whether the job is in PRIORITY with a priority, so that Flux sends it to SCHED.
pub(super) fn is_on_its_way(job: &HostJob) -> bool {
    job.state == State::Priority && job.answered.is_some() && !is_waiting(job)
}

/// Whether the job is held past DEPEND: it does not count as scheduled.
pub(super) fn is_waiting(job: &HostJob) -> bool {
    job.is_in_line || job.state == State::Priority && job.waits && !job.was_sched
}

pub(super) fn carries_none(job: &HostJob) -> bool {
    !job.dependencies.iter().any(|name| is_ours(name))
}
