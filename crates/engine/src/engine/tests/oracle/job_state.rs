// SPDX-License-Identifier: LGPL-3.0-only
//! Decides whether a job of the model host is held, released, or on its way to SCHED.

use super::super::site::HostJob;
use super::{Oracle, is_ours};
use crate::engine::State;

impl Oracle {
    /// Returns true if one of our dependencies holds the job in DEPEND, or if limits hold the job in PRIORITY or SCHED.
    pub(super) fn is_held(&self, job: &HostJob) -> bool {
        let is_held = job.state == State::Depend && job.dependencies.iter().any(|name| is_ours(name));
        is_held
            || is_held_in_priority_or_sched(job)
                && !self.is_half_pushed(job)
                && self.association(job).is_some()
    }

    pub(super) fn is_half_pushed(&self, job: &HostJob) -> bool {
        let of = self.association(job).map(|of| (of.user, of.bank.clone()));
        of.is_some_and(|of| self.half_pushed.contains(&of))
    }
}

/// Returns true if the job was ever held. The engine assumes this for a job whose eventlog cannot be read. The eventlog does not show a hold in
/// PRIORITY, so the host records such holds.
pub(super) fn was_held(job: &HostJob) -> bool {
    job.was_unreadable || job.was_held_in_priority || job.log.iter().any(|(name, _)| is_ours(name))
}

/// Returns true if the job is in PRIORITY and has got a priority, so that Flux sends it to SCHED.
pub(super) fn is_on_its_way(job: &HostJob) -> bool {
    job.state == State::Priority && job.answered.is_some() && !is_held_in_priority_or_sched(job)
}

/// Returns true if the job is held in SCHED or PRIORITY. Such a job does not count as scheduled.
pub(super) fn is_held_in_priority_or_sched(job: &HostJob) -> bool {
    job.is_held_in_sched || job.state == State::Priority && job.lacks_priority && !job.was_sched
}

pub(super) fn has_no_limit_dependency(job: &HostJob) -> bool {
    !job.dependencies.iter().any(|name| is_ours(name))
}
