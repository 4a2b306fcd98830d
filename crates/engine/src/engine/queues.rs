// SPDX-License-Identifier: LGPL-3.0-only
//! Which queues are stopped, and which are scheduled together.
//!
//! A job in a stopped queue is not scheduled, so its reservation of a place to run lapses, and no scope keeps headroom for it. Flux calls
//! no plugin when a queue is stopped or started: the plugin asks, as long as jobs are held or a queue is known to be stopped.
//!
//! The jobs of one **scheduler queue** form one order. A virtual queue (`[queues.NAME] parent = "P"`, RFC 33) is scheduled with its
//! parent, and sched-simple keeps the jobs of all queues in one list (live 4 #2). Parents come from the configuration, and from the state
//! of a queue that the configuration does not have.

use super::due::Scan;
use super::{Effect, QueueTold, Timer};
use crate::engine::shared::Shared;
use crate::ids::{JobId, QueueName};
use crate::limits::{Line, Phase};
use std::collections::{BTreeMap, BTreeSet};

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
    /// Queues of the configuration.
    configured: BTreeSet<QueueName>,
    /// Whether a queue has been seen that the configuration does not have and nobody was asked about.
    has_unasked: bool,
    /// The parent of each virtual queue.
    parents: BTreeMap<QueueName, QueueName>,
    /// Whether the scheduler keeps the jobs of all queues in one list. `None`: nobody has asked it, which a refresh does.
    is_one_list: Option<bool>,
}

impl Queues {
    /// Notes the queue of a job. Says whether that is stopped.
    pub fn note(&mut self, queue: Option<&QueueName>) -> bool {
        let queue = queue.cloned();
        let is_stopped = self.stopped.contains(&queue);
        if self.seen.len() < MOST_QUEUES {
            let is_configured = queue.as_ref().is_none_or(|name| self.configured.contains(name));
            let is_new = self.seen.insert(queue);
            self.has_unasked |= is_new && !is_configured;
        }
        is_stopped
    }

    /// The queue in whose order the scheduler looks at jobs of a queue. `None`: the list of all jobs, or that of jobs without a queue.
    pub fn scheduler_queue<'a>(&'a self, queue: Option<&'a QueueName>) -> Option<&'a QueueName> {
        let parent = || queue.map(|queue| self.parents.get(queue).unwrap_or(queue));
        if self.is_one_list == Some(true) { None } else { parent() }
    }

    /// Whether the scheduler keeps the jobs of all queues in one list. `None`: unknown.
    pub fn is_one_list(&self) -> Option<bool> {
        self.is_one_list
    }

    /// The parent of a virtual queue.
    pub fn parent(&self, queue: &QueueName) -> Option<&QueueName> {
        self.parents.get(queue)
    }

    /// Starts again after a panic lost the question or its timer. The delay keeps a timer that always panics from spinning.
    pub fn ask_again(&mut self) {
        (self.is_asking, self.delay) = (false, UNANSWERED);
    }
}

/// Begins to ask about queues as soon as the answer matters.
pub(super) fn watch_queues(shared: &mut Shared, effects: &mut Vec<Effect>) {
    if !shared.queues.is_asking && needs_queue_states(shared) {
        shared.queues.is_asking = true;
        effects.push(Effect::ArmIn(Timer::Queues, std::mem::take(&mut shared.queues.delay)));
    }
}

/// Asks which queues are stopped.
pub(super) fn ask_queues(shared: &mut Shared) -> Vec<Effect> {
    shared.queues.is_asking = needs_queue_states(shared);
    let is_due = shared.queues.is_asking;
    shared.queues.has_unasked = false;
    is_due.then(|| Effect::AskQueues(shared.queues.seen.iter().cloned().collect())).into_iter().collect()
}

/// Takes over which queues are stopped. If that changes a reservation, a release scan follows at once. A queue whose question was not
/// answered has no state. A queue whose state Flux does not know, as before the scheduler is loaded, is not in `states`: the plugin
/// asks again soon.
pub(super) fn queues_told(shared: &mut Shared, states: Vec<(Option<QueueName>, QueueTold)>) -> Vec<Effect> {
    let is_unanswered = !states.is_empty() && states.iter().all(|(_, told)| told.is_stopped.is_none());
    let (mut changed, mut parents) = (BTreeSet::new(), shared.queues.parents.clone());
    for (queue, QueueTold { is_stopped, parent }) in states {
        let Some(is_stopped) = is_stopped else { continue };
        if let Some(name) = &queue {
            match parent {
                Some(parent) => parents.insert(name.clone(), parent),
                None => parents.remove(name),
            };
        }
        let is_news = match is_stopped {
            true => shared.queues.stopped.insert(queue.clone()),
            false => shared.queues.stopped.remove(&queue),
        };
        if is_news {
            changed.insert(queue);
        }
    }
    let mut effects = set_parents(shared, parents);
    suspend_in(shared, &changed);
    effects.push(match is_unanswered {
        true => Effect::ArmIn(Timer::Queues, UNANSWERED),
        false => Effect::Arm(Timer::Queues),
    });
    effects
}

/// Takes over the named queues of Flux's configuration.
pub(super) fn queues_configured(
    shared: &mut Shared,
    queues: Vec<(QueueName, Option<QueueName>)>,
) -> Vec<Effect> {
    let mut parents = shared.queues.parents.clone();
    for (queue, parent) in &queues {
        match parent {
            Some(parent) => parents.insert(queue.clone(), parent.clone()),
            None => parents.remove(queue),
        };
    }
    shared.queues.configured = queues.into_iter().map(|(queue, _)| queue).collect();
    set_parents(shared, parents)
}

/// Takes over whether the scheduler keeps the jobs of all queues in one list.
pub(super) fn scheduler_told(shared: &mut Shared, is_one_list: bool) -> Vec<Effect> {
    let before = shared.queues.is_one_list.replace(is_one_list);
    if before.unwrap_or(false) != is_one_list { regroup_orders(shared) } else { Vec::new() }
}

fn set_parents(shared: &mut Shared, parents: BTreeMap<QueueName, QueueName>) -> Vec<Effect> {
    if shared.queues.parents == parents {
        return Vec::new();
    }
    shared.book.set_queue_parents(parents.clone());
    shared.queues.parents = parents;
    shared.ledger.regroup(&shared.book);
    // Limits on a parent count the jobs of its virtual queues.
    let mut effects = regroup_orders(shared);
    shared.due.passes.extend(shared.ledger.in_line().map(|association| (association, Line::All)));
    effects.extend((!shared.due.passes.is_empty()).then_some(Effect::Arm(Timer::Turn)));
    effects
}

/// Puts each pending job into the order of its scheduler queue. The next refresh corrects the orders.
fn regroup_orders(shared: &mut Shared) -> Vec<Effect> {
    let (queues, ledger) = (&shared.queues, &shared.ledger);
    shared.posted.regroup(|id| {
        let queue = ledger.job(id).and_then(|job| job.queue.as_ref());
        queues.scheduler_queue(queue).cloned()
    });
    Vec::new()
}

/// Suspends the reservations of jobs in queues that were stopped, and ends that of jobs in queues that were started.
fn suspend_in(shared: &mut Shared, changed: &BTreeSet<Option<QueueName>>) {
    if changed.is_empty() {
        return;
    }
    let pending =
        shared.ledger.jobs().filter(|(_, job)| job.phase < Phase::Run && changed.contains(&job.queue));
    let pending: Vec<JobId> = pending.map(|(id, _)| id).collect();
    let mut freed = BTreeSet::new();
    for id in pending {
        let Some(job) = shared.ledger.job(id) else { continue };
        let is_queue_stopped = shared.queues.stopped.contains(&job.queue);
        let (association, reserved) = (job.association(), job.footprint().reserved);
        shared.ledger.change(id, |job| job.is_queue_stopped = is_queue_stopped);
        let is_other = shared.ledger.job(id).is_some_and(|job| job.footprint().reserved != reserved);
        freed.extend(association.filter(|_| is_other));
    }
    let scans = freed.into_iter().map(|association| (association, Line::All)).collect();
    shared.due.scans.push(Scan::Several(scans));
}

fn needs_queue_states(shared: &Shared) -> bool {
    let queues = &shared.queues;
    queues.has_unasked || !queues.stopped.is_empty() || shared.ledger.in_line().next().is_some()
}
