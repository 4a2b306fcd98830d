// SPDX-License-Identifier: LGPL-3.0-only
//! Handles effects that Flux refused.

use super::{Effect, Engine, Level, Refusal, blocked, priority_answers};
use crate::limits::Reservation;

impl Engine {
    /// Reverts the record of an effect that Flux refused, and logs the refusal unless it is expected.
    pub fn refused(&mut self, effect: Effect, why: Refusal) -> Vec<Effect> {
        let is_expected = match effect {
            // The job is leaving DEPEND, for example because it was cancelled.
            Effect::AddDependency(..) => why == Refusal::TooLate,
            // The dependency does not hold the job: the job has lost it already, or has left DEPEND.
            Effect::RemoveDependency(..) => matches!(why, Refusal::Absent | Refusal::TooLate),
            // Most likely the job has ended.
            Effect::AskUrgency(_)
            | Effect::AskExpiration(_)
            | Effect::Subscribe(_)
            | Effect::Prioritize(..)
            | Effect::Raise(..) => why == Refusal::Absent,
            _ => false,
        };
        let log_refusal = |what: String| {
            let reason = match &why {
                Refusal::Absent => "no such job or name",
                Refusal::TooLate => "not allowed in the job's state",
                Refusal::Other(text) => text,
            };
            let log = Effect::Log(Level::Error, format!("{what}: {reason}"));
            Vec::from_iter((!is_expected).then_some(log))
        };
        match effect {
            Effect::LookUp(id) => self.handle_refused_lookup(id, &why),
            Effect::AddDependency(id, name) => {
                self.shared.ledger.change(id, |job| job.names.remove(name.hold));
                log_refusal(format!("job {id}: failed to add dependency {name}"))
            }
            // Until the end of the job is known, the engine assumes that Flux would schedule the job, so it may reserve headroom of limits on
            // running jobs.
            Effect::AskUrgency(_) if is_expected => Vec::new(),
            Effect::AskUrgency(id) => {
                let mut effects = log_refusal(format!("job {id}: failed to look up its urgency"));
                effects.extend(priority_answers::handle_refused_post(&mut self.shared, id, &why));
                effects
            }
            Effect::AskExpiration(id) => log_refusal(format!("job {id}: failed to look up its expiration")),
            Effect::Subscribe(id) => {
                if self.shared.expirations.is_subscribed(id) {
                    self.shared.expirations.remove_job(id);
                } else if !self.shared.subscriptions.remove_refused_job(id) && !is_expected {
                    blocked::mark_job_unwatched(&mut self.shared, id);
                }
                log_refusal(format!("job {id}: failed to subscribe to its events"))
            }
            Effect::RemoveDependency(..) if is_expected => Vec::new(),
            Effect::RemoveDependency(id, name) => {
                self.shared.ledger.change(id, |job| {
                    job.names.restore(name);
                    job.reservation = Reservation::None;
                });
                log_refusal(format!("job {id}: failed to remove dependency {name}"))
            }
            Effect::Annotate(id, _) => {
                self.shared.annotations.remove(&id);
                log_refusal(format!("job {id}: failed to annotate it"))
            }
            Effect::Memo(id, _) | Effect::VolatileMemo(id, _) => {
                self.shared.ledger.change(id, |job| job.memo = None);
                log_refusal(format!("job {id}: failed to post memo"))
            }
            Effect::SetJobspec { id, .. } => {
                log_refusal(format!("job {id}: failed to update bank and project in jobspec"))
            }
            Effect::Prioritize(id, _) => {
                self.shared.ledger.cache_priority(id, None);
                let is_of_refresh =
                    self.shared.posted.restore_former_priority(id, matches!(why, Refusal::Other(_)));
                let mut effects = log_refusal(format!("job {id}: failed to set its priority"));
                if !is_expected && !is_of_refresh {
                    effects.extend(priority_answers::handle_refused_post(&mut self.shared, id, &why));
                }
                effects
            }
            Effect::Raise(id, note) => log_refusal(format!("job {id}: failed to raise exception '{note}'")),
            Effect::ReprioritizeAll => {
                self.refresh.handle_refused_flux_loop(&mut self.shared);
                log_refusal("failed to reprioritize".to_owned())
            }
            other => log_refusal(format!("{other:?}")),
        }
    }
}
