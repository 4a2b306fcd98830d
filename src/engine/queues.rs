// SPDX-License-Identifier: LGPL-3.0-only
//! Which queues are stopped. A job in a stopped queue is not scheduled, so its reservation of a place to run lapses, and no scope keeps
//! headroom for it.
//!
//! Flux calls no plugin when a queue is stopped or started: the plugin asks, as long as jobs are held or a queue is known to be stopped.

use super::{Effect, Engine, Timer};
use crate::accounts::AssociationId;
use crate::ids::{JobId, QueueName};
use crate::limits::{Line, Phase};
use std::collections::BTreeSet;

/// So many queues are asked about. Queue names come from Flux's configuration.
const MOST_QUEUES: usize = 100;
/// Seconds until the next question when nobody answered.
const UNANSWERED: f64 = 30.0;

/// What is known of queues; `None` is the queue without a name.
#[derive(Clone, Debug, Default)]
pub(super) struct Queues {
    /// Queues of jobs that came since the plugin was loaded.
    seen: BTreeSet<Option<QueueName>>,
    stopped: BTreeSet<Option<QueueName>>,
    /// Whether a question or its timer is under way.
    is_asking: bool,
    /// Seconds until the first question.
    delay: f64,
}

impl Queues {
    /// Notes the queue of a job. Says whether that is stopped.
    pub fn note(&mut self, queue: Option<&QueueName>) -> bool {
        let queue = queue.cloned();
        let is_stopped = self.stopped.contains(&queue);
        if self.seen.len() < MOST_QUEUES {
            self.seen.insert(queue);
        }
        is_stopped
    }

    /// Starts again after a panic lost the question or its timer. The delay keeps a timer that always panics from spinning.
    pub fn ask_again(&mut self) {
        (self.is_asking, self.delay) = (false, UNANSWERED);
    }
}

impl Engine {
    fn needs_queue_states(&self) -> bool {
        !self.queues.stopped.is_empty() || self.ledger.in_line().next().is_some()
    }

    /// Begins to ask about queues as soon as the answer matters.
    pub(super) fn watch_queues(&mut self, effects: &mut Vec<Effect>) {
        if !self.queues.is_asking && self.needs_queue_states() {
            self.queues.is_asking = true;
            effects.push(Effect::ArmIn(Timer::Queues, std::mem::take(&mut self.queues.delay)));
        }
    }

    /// Asks which queues are stopped.
    pub(super) fn ask_queues(&mut self) -> Vec<Effect> {
        self.queues.is_asking = self.needs_queue_states();
        let is_due = self.queues.is_asking;
        is_due.then(|| Effect::AskQueues(self.queues.seen.iter().cloned().collect())).into_iter().collect()
    }

    /// Takes over which queues are stopped. Where that changes what is reserved, a release scan follows at once.
    pub(super) fn queues_told(&mut self, states: Vec<(Option<QueueName>, Option<bool>)>) -> Vec<Effect> {
        let is_answered = states.iter().any(|(_, is_stopped)| is_stopped.is_some());
        let mut changed = BTreeSet::new();
        for (queue, is_stopped) in states {
            let Some(is_stopped) = is_stopped else { continue };
            let is_news = match is_stopped {
                true => self.queues.stopped.insert(queue.clone()),
                false => self.queues.stopped.remove(&queue),
            };
            if is_news {
                changed.insert(queue);
            }
        }
        let mut effects = self.suspend_in(&changed);
        effects.push(match is_answered {
            true => Effect::Arm(Timer::Queues),
            false => Effect::ArmIn(Timer::Queues, UNANSWERED),
        });
        effects
    }

    /// Suspends the reservations of jobs in queues that were stopped, and ends that of jobs in queues that were started.
    fn suspend_in(&mut self, changed: &BTreeSet<Option<QueueName>>) -> Vec<Effect> {
        if changed.is_empty() {
            return Vec::new();
        }
        let pending =
            self.ledger.jobs().filter(|(_, job)| job.phase < Phase::Run && changed.contains(&job.queue));
        let pending: Vec<JobId> = pending.map(|(id, _)| id).collect();
        let mut freed = BTreeSet::new();
        for id in pending {
            let Some(job) = self.ledger.job(id) else { continue };
            let is_queue_stopped = self.queues.stopped.contains(&job.queue);
            let (association, reserved) = (job.association(), job.footprint().reserved);
            self.ledger.change(id, |job| job.is_queue_stopped = is_queue_stopped);
            let is_other = self.ledger.job(id).is_some_and(|job| job.footprint().reserved != reserved);
            freed.extend(association.filter(|_| is_other));
        }
        self.passes(freed.into_iter().map(|association: AssociationId| (association, Line::All)))
    }
}
