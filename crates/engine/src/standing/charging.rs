// SPDX-License-Identifier: LGPL-3.0-only
//! The charge factors of queues over time: the changes of the last push, followed by those of the
//! configurations that the plugin has read since it was loaded.

use super::staged_site::Charges;
use crate::ids::QueueName;
use fairshare::charging::ChargeHistory;
use std::collections::BTreeMap;

/// The charge factors of queues.
#[derive(Clone, Debug, Default)]
pub struct ChargeFactors {
    pushed: ChargeHistory,
    /// The changes in the configurations that the plugin has read.
    seen: ChargeHistory,
    /// The time of the first configuration, in seconds since the epoch.
    seen_since: Option<f64>,
    /// The changes in `pushed`, followed by those in `seen`.
    history: ChargeHistory,
    /// The queues of jobs. The number of a queue is its index + 1.
    queues: Vec<QueueName>,
}

impl ChargeFactors {
    /// Returns the charge factors of all queues over time.
    pub fn history(&self) -> &ChargeHistory {
        &self.history
    }

    /// Returns the time of the first configuration that the plugin has read, in seconds since the epoch; `None` if it has read none.
    pub fn seen_since(&self) -> Option<f64> {
        self.seen_since
    }

    /// Records that a configuration with these factors was read at `now`, in seconds since the epoch. Returns true if a factor
    /// changed.
    pub(super) fn configure(&mut self, factors: &BTreeMap<QueueName, f64>, now: f64) -> bool {
        let now = now.max(*self.seen_since.get_or_insert(now));
        let configured = factors.iter().map(|(queue, factor)| (queue.as_str(), *factor));
        self.seen.add_configuration(configured, now);
        self.merge_pushed_and_seen_history()
    }

    /// Replaces the charges of the last push. Returns true if a factor or a rule changed. The caller then recomputes all
    /// rates.
    pub(super) fn set_pushed(&mut self, Charges { factors, rules }: Charges) -> bool {
        self.pushed = factors.into_iter().collect::<ChargeHistory>().with_rules(rules);
        self.merge_pushed_and_seen_history()
    }

    fn merge_pushed_and_seen_history(&mut self) -> bool {
        let history = match self.seen_since {
            Some(since) => self.pushed.append_later_history(&self.seen, since),
            None => self.pushed.clone(),
        };
        let has_changed = history != self.history;
        self.history = history;
        has_changed
    }

    /// Returns the number of a queue. Returns 0 without a queue, and for a new queue if 65,535 queues have
    /// numbers.
    pub(super) fn assign_queue_number(&mut self, queue: Option<&QueueName>) -> u16 {
        let Some(queue) = queue else { return 0 };
        let known = self.queues.iter().position(|known| known == queue);
        let at = known.unwrap_or(self.queues.len());
        let number = u16::try_from(at + 1).unwrap_or(0);
        if known.is_none() && number > 0 {
            self.queues.push(queue.clone());
        }
        number
    }

    /// Returns the name of the queue with this number. Returns `None` for the number 0.
    pub(super) fn queue(&self, number: u16) -> Option<&QueueName> {
        self.queues.get(usize::from(number).checked_sub(1)?)
    }

    /// Returns the queue if its charge factors affect the usage of its jobs, or `None`. The snapshot stores
    /// only such queues.
    pub fn charged_queue<'a>(&self, queue: Option<&'a QueueName>) -> Option<&'a QueueName> {
        queue.filter(|queue| self.history.has_queue(queue.as_str()))
    }
}
