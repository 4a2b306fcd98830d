// SPDX-License-Identifier: LGPL-3.0-only
//! Where in its life a job of the host is, as the oracle sees it.

use super::super::site::HostJob;
use super::{Oracle, is_ours};
use crate::engine::State;

impl Oracle {
    /// Whether it waits for its turn, by our names or in PRIORITY.
    pub(super) fn is_in_line(&self, job: &HostJob) -> bool {
        let is_held = job.state == State::Depend && job.dependencies.iter().any(|name| is_ours(name));
        is_held || is_waiting(job) && !self.is_half_pushed(job) && self.association(job).is_some()
    }

    pub(super) fn is_half_pushed(&self, job: &HostJob) -> bool {
        let of = self.association(job).map(|of| (of.user, of.bank.clone()));
        of.is_some_and(|of| self.half_pushed.contains(&of))
    }
}

/// Of a job whose eventlog could not be read it is not known: a place to run is reserved for it, as if it had been. Of one that was
/// held in PRIORITY no eventlog tells.
pub(super) fn was_held(job: &HostJob) -> bool {
    job.was_unreadable || job.was_awaiting || job.log.iter().any(|(name, _)| is_ours(name))
}

/// In PRIORITY, with a price by which it goes on.
pub(super) fn is_on_its_way(job: &HostJob) -> bool {
    job.state == State::Priority && job.answered.is_some() && !is_waiting(job)
}

/// Past DEPEND, and not to be scheduled before it is told so: it has no place in SCHED.
pub(super) fn is_waiting(job: &HostJob) -> bool {
    job.is_in_line || job.state == State::Priority && job.waits && !job.was_sched
}

pub(super) fn carries_none(job: &HostJob) -> bool {
    !job.dependencies.iter().any(|name| is_ours(name))
}
