// SPDX-License-Identifier: LGPL-3.0-only
//! Stores which queues the engine asks about, and which queues are scheduled together. The ledger has the
//! stopped queues.
//!
//! A job in a stopped queue is not scheduled, so its reservation under limits on running jobs is suspended,
//! and no scope reserves headroom for it. Flux calls no plugin when a queue is stopped or started. So the
//! plugin asks for the states of queues while jobs are held or a queue is known to be stopped.
//!
//! A **scheduler queue** is a set of queues whose jobs are scheduled in one order. A virtual queue
//! (`[queues.NAME] parent = "P"`, RFC 33) is scheduled with its parent, and sched-simple keeps the jobs of all queues in
//! one list. The parents come from the configuration.

use super::Effect;
use crate::ids::QueueName;
use std::collections::{BTreeMap, BTreeSet};

/// The largest number of queues that the engine asks about. Queue names come from Flux's configuration.
const MOST_QUEUES: usize = 100;
/// Seconds until the engine asks again if it got no answer.
pub(super) const UNANSWERED: f64 = 30.0;

/// The known queues; `None` is the queue without a name.
#[derive(Clone, Debug, Default)]
pub(super) struct Queues {
    /// The queues of all jobs that the plugin has seen since it was loaded.
    seen: BTreeSet<Option<QueueName>>,
    /// True while the engine waits for an answer, or for the timer of the next request.
    is_asking: bool,
    /// Seconds until the first request.
    delay: f64,
    /// Queues that Flux no longer has. They may still have jobs.
    missing: BTreeSet<Option<QueueName>>,
    /// The parent of each virtual queue.
    parents: BTreeMap<QueueName, QueueName>,
    /// Whether the scheduler keeps the jobs of all queues in one list; `None` until the first refresh has asked.
    is_one_list: Option<bool>,
}

impl Queues {
    /// Adds the queue of a job to the queues whose states the engine asks for.
    pub fn add_queue_to_request(&mut self, queue: Option<&QueueName>) {
        let queue = queue.cloned();
        if self.seen.len() < MOST_QUEUES && !self.missing.contains(&queue) {
            self.seen.insert(queue);
        }
    }

    /// Returns the scheduler queue of a queue. Returns `None` if there is one list of all jobs, and for jobs
    /// without a queue.
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

    /// Returns the virtual queues.
    pub fn virtual_queues(&self) -> impl Iterator<Item = &QueueName> {
        self.parents.keys()
    }

    /// Makes the engine ask for the states of queues again after a panic, because the panic may have lost the request.
    /// The engine waits [`UNANSWERED`] seconds before it asks, because each request may cause another panic.
    pub fn repeat_request(&mut self) {
        (self.is_asking, self.delay) = (false, UNANSWERED);
    }

    /// Returns true if the engine needs the states of queues: of the queues in `stopped`, or of all queues if limits hold
    /// jobs.
    pub fn are_states_needed(&self, stopped: &BTreeSet<Option<QueueName>>, has_held: bool) -> bool {
        !self.seen.is_disjoint(stopped) || has_held && !self.seen.is_empty()
    }

    /// Stores that Flux no longer has the queue. The engine does not ask for its state until it is configured again.
    pub fn mark_missing(&mut self, queue: Option<QueueName>) {
        self.seen.remove(&queue);
        self.missing.insert(queue);
    }

    /// Returns true while the engine waits for an answer, or for the timer of the next request.
    pub fn is_asking(&self) -> bool {
        self.is_asking
    }

    /// Notes that the engine will ask for the states of queues. Returns the number of seconds until it asks.
    pub fn begin_queue_requests(&mut self) -> f64 {
        self.is_asking = true;
        std::mem::take(&mut self.delay)
    }

    /// Returns the request for the states of all queues. If `is_needed` is false, ends the requests and
    /// returns `None`.
    pub fn make_queue_state_request(&mut self, is_needed: bool) -> Option<Effect> {
        self.is_asking = is_needed;
        is_needed.then(|| Effect::AskQueues(self.seen.iter().cloned().collect()))
    }

    /// Stores the named queues of the configuration, each with its parent, or `None` for a queue that is not virtual.
    /// Returns the parents of all virtual queues if a parent changed.
    pub fn set_configured_queues(
        &mut self,
        queues: Vec<(QueueName, Option<QueueName>)>,
    ) -> Option<&BTreeMap<QueueName, QueueName>> {
        // Flux has the queue without a name only if no queue is configured.
        let exists = |queue: &Option<QueueName>| match queue {
            Some(_) => queues.iter().any(|(name, _)| Some(name) == queue.as_ref()),
            None => queues.is_empty(),
        };
        self.seen.extend(self.missing.extract_if(.., exists));
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
    pub fn set_single_list_flag(&mut self, is_one_list: bool) -> bool {
        self.is_one_list.replace(is_one_list).unwrap_or(false) != is_one_list
    }
}
