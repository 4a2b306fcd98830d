// SPDX-License-Identifier: LGPL-3.0-only
//! Which queues the engine asks about, and which are scheduled together. The ledger has the stopped queues.
//!
//! A job in a stopped queue is not scheduled, so its reservation in RUN is suspended, and no scope keeps headroom for it. Flux calls no
//! plugin when a queue is stopped or started: the plugin asks, as long as jobs are held or a queue is known to be stopped.
//!
//! The jobs of one **scheduler queue** form one order. A virtual queue (`[queues.NAME] parent = "P"`, RFC 33) is scheduled with its
//! parent, and sched-simple keeps the jobs of all queues in one list (live 4 #2). Parents come from the configuration, and from the state
//! of a queue that the configuration does not have.

use super::Effect;
use crate::ids::QueueName;
use std::collections::{BTreeMap, BTreeSet};

/// The largest number of queues that the engine asks about. Queue names come from Flux's configuration.
const MOST_QUEUES: usize = 100;
/// Seconds until the next question if no question was answered.
pub(super) const UNANSWERED: f64 = 30.0;

/// The known queues; `None` is the queue without a name.
#[derive(Clone, Debug, Default)]
pub(super) struct Queues {
    /// Queues of jobs that came since the plugin was loaded.
    seen: BTreeSet<Option<QueueName>>,
    /// Whether a question or its timer is under way.
    is_asking: bool,
    /// Seconds until the first question.
    delay: f64,
    /// Queues of the configuration.
    configured: BTreeSet<QueueName>,
    /// Whether a queue was seen that is not in the configuration and whose state the engine has not asked for.
    has_unasked: bool,
    /// The parent of each virtual queue.
    parents: BTreeMap<QueueName, QueueName>,
    /// Whether the scheduler keeps the jobs of all queues in one list; `None` until a refresh has asked.
    is_one_list: Option<bool>,
}

impl Queues {
    /// Adds the queue of a job to the queues whose states the engine asks for.
    pub fn note_queue(&mut self, queue: Option<&QueueName>) {
        let queue = queue.cloned();
        if self.seen.len() < MOST_QUEUES {
            let is_configured = queue.as_ref().is_none_or(|name| self.configured.contains(name));
            let is_new = self.seen.insert(queue);
            self.has_unasked |= is_new && !is_configured;
        }
    }

    /// Returns the scheduler queue of a queue. `None`: the list of all jobs, or that of jobs without a queue.
    pub fn scheduler_queue<'a>(&'a self, queue: Option<&'a QueueName>) -> Option<&'a QueueName> {
        let parent = || queue.map(|queue| self.parents.get(queue).unwrap_or(queue));
        if self.is_one_list == Some(true) { None } else { parent() }
    }

    /// Returns whether the scheduler keeps the jobs of all queues in one list; `None` if unknown.
    pub fn is_one_list(&self) -> Option<bool> {
        self.is_one_list
    }

    /// Returns the parent of a virtual queue, or `None` for any other queue.
    pub fn parent(&self, queue: &QueueName) -> Option<&QueueName> {
        self.parents.get(queue)
    }

    /// Asks again after a panic lost the question or its timer. The delay bounds the rate of a timer that panics each time.
    pub fn ask_again(&mut self) {
        (self.is_asking, self.delay) = (false, UNANSWERED);
    }

    /// Returns true if a queue was seen whose state the engine has not asked for.
    pub fn has_unasked(&self) -> bool {
        self.has_unasked
    }

    /// Returns true while a question or its timer is under way.
    pub fn is_asking(&self) -> bool {
        self.is_asking
    }

    /// Begins to ask. Returns the seconds until the first question.
    pub fn begin_asking(&mut self) -> f64 {
        self.is_asking = true;
        std::mem::take(&mut self.delay)
    }

    /// Returns the question about all queues, or ends the questions if `is_needed` is false.
    pub fn make_question(&mut self, is_needed: bool) -> Option<Effect> {
        (self.is_asking, self.has_unasked) = (is_needed, false);
        is_needed.then(|| Effect::AskQueues(self.seen.iter().cloned().collect()))
    }

    /// Stores the named queues of the configuration.
    pub fn set_configured(&mut self, queues: impl Iterator<Item = QueueName>) {
        self.configured = queues.collect();
    }

    /// Stores the parents of these queues; `None` if the queue is not virtual. Returns the parents of all virtual queues if one changed.
    pub fn set_parents(
        &mut self,
        queues: impl Iterator<Item = (QueueName, Option<QueueName>)>,
    ) -> Option<&BTreeMap<QueueName, QueueName>> {
        let mut has_changed = false;
        for (queue, parent) in queues {
            let before = match parent.clone() {
                Some(parent) => self.parents.insert(queue, parent),
                None => self.parents.remove(&queue),
            };
            has_changed |= before != parent;
        }
        has_changed.then_some(&self.parents)
    }

    /// Stores whether the scheduler keeps the jobs of all queues in one list. Returns true if this has changed.
    pub fn set_one_list(&mut self, is_one_list: bool) -> bool {
        self.is_one_list.replace(is_one_list).unwrap_or(false) != is_one_list
    }
}
