// SPDX-License-Identifier: LGPL-3.0-only
//! Handles effects that Flux refused.

use super::{Effect, Engine, Level, Refusal, blocked, priority_answers};
use crate::limits::Reservation;

impl Engine {
    /// Reverts the record of an effect that Flux refused, and logs the refusal unless it is expected.
    pub fn refused(&mut self, effect: Effect, why: Refusal) -> Vec<Effect> {
        let log_refusal = |what: String| {
            let reason = match &why {
                Refusal::Absent => "no such job or name",
                Refusal::TooLate => "not allowed in the job's state",
                Refusal::Other(text) => text,
            };
            vec![Effect::Log(Level::Error, format!("{what}: {reason}"))]
        };
        match effect {
            Effect::LookUp(id) => self.handle_refused_lookup(id, &why),
            Effect::AddDependency(id, name) => {
                self.shared.ledger.change(id, |job| job.names.remove(name.hold));
                // The job is leaving DEPEND, for example because it was cancelled.
                if why == Refusal::TooLate {
                    return Vec::new();
                }
                log_refusal(format!("job {id}: failed to add dependency {name}"))
            }
            // Most likely the job has ended. Until this is known, the engine assumes that Flux would schedule the
            // job, so it may reserve headroom of limits on running jobs.
            Effect::AskUrgency(_) if why == Refusal::Absent => Vec::new(),
            Effect::AskUrgency(id) => {
                let mut effects = log_refusal(format!("job {id}: failed to look up its urgency"));
                effects.extend(priority_answers::handle_refused_post(&mut self.shared, id, &why));
                effects
            }
            Effect::AskExpiration(_) if why == Refusal::Absent => Vec::new(),
            Effect::AskExpiration(id) => log_refusal(format!("job {id}: failed to look up its expiration")),
            Effect::Subscribe(id) if self.shared.expirations.is_subscribed(id) => {
                self.shared.expirations.remove_job(id);
                if why == Refusal::Absent {
                    return Vec::new();
                }
                log_refusal(format!("job {id}: failed to subscribe to its events"))
            }
            Effect::Subscribe(id) => {
                let is_overtaken = self.shared.subscriptions.remove_refused_job(id);
                if why == Refusal::Absent {
                    return Vec::new();
                }
                if !is_overtaken {
                    blocked::mark_job_unwatched(&mut self.shared, id);
                }
                log_refusal(format!("job {id}: failed to subscribe to its events"))
            }
            // The dependency does not hold the job: the job has lost it already, or has left DEPEND.
            Effect::RemoveDependency(..) if matches!(why, Refusal::Absent | Refusal::TooLate) => Vec::new(),
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
                if why == Refusal::Absent {
                    return Vec::new();
                }
                let mut effects = log_refusal(format!("job {id}: failed to set its priority"));
                effects.extend(if is_of_refresh {
                    None
                } else {
                    priority_answers::handle_refused_post(&mut self.shared, id, &why)
                });
                effects
            }
            // The job has ended already.
            Effect::Raise(..) if why == Refusal::Absent => Vec::new(),
            Effect::Raise(id, note) => log_refusal(format!("job {id}: failed to raise exception '{note}'")),
            Effect::ReprioritizeAll => {
                self.refresh.handle_refused_flux_loop(&mut self.shared);
                log_refusal("failed to reprioritize".to_owned())
            }
            other => log_refusal(format!("{other:?}")),
        }
    }
}
