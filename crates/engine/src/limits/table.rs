// SPDX-License-Identifier: LGPL-3.0-only
//! The limits in the records of associations and queues. Limits on counters hold a job; limits on a single job reject it.
//!
//! To add a limit with a constant cap, add a row to a table of [`RULES`]. The answer to "How do I add a limit?" in
//! docs/design/README.md names the places of a cap that is in a record.

use super::counter::{AppliedLimit, Counter};
use super::counts::Tally;
use super::hold::{Hold, HoldSet};
use super::scope_rows::{ScopeRow, list_rows};
use super::size::Size;
use super::usage::Usage;
use crate::accounts::{Association, Book, Cap, Queue};
use crate::ids::{Amount, Limit, Measure, QueueName, Stage};

/// The limits that records of type `T` (queues or associations) contain, each with the measure that it limits.
pub type CapsOf<T> = &'static [(Measure, fn(&T) -> Limit)];

/// The caps of a limit. A job that exceeds any of them exceeds the limit.
#[derive(Clone, Copy, Debug)]
pub enum Caps {
    /// The caps of the job's queue, if the queue was pushed.
    InQueue(CapsOf<Queue>),
    /// The caps of the association.
    InAll(CapsOf<Association>),
}

impl Caps {
    /// Returns the caps on a job of `association` in the pushed queue `queue`.
    fn list_caps(
        self,
        association: &Association,
        queue: Option<&Queue>,
    ) -> impl Iterator<Item = (Measure, Limit)> {
        let (of_queue, of_all): (CapsOf<Queue>, CapsOf<Association>) = match self {
            Caps::InQueue(caps) => (caps, &[]),
            Caps::InAll(caps) => (&[], caps),
        };
        let of_queue = queue
            .into_iter()
            .flat_map(move |queue| of_queue.iter().map(move |(measure, cap)| (*measure, cap(queue))));
        of_queue.chain(of_all.iter().map(move |(measure, cap)| (*measure, cap(association))))
    }
}

/// A limit that holds jobs. A job is held if it would exceed the limit on a counter of its association.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The name of the dependency.
    pub name: &'static str,
    /// The states in which a job counts under the limit.
    pub stage: Stage,
    /// The caps. Only jobs of the same queue count under the caps of a queue.
    pub caps: Caps,
}

impl Rule {
    /// Returns true if the limit counts only the jobs of one queue.
    pub fn is_of_queue(&self) -> bool {
        matches!(self.caps, Caps::InQueue(_))
    }

    /// Returns true if this is the limit on the number of running jobs of an association.
    pub fn is_limit_on_running_jobs(&self) -> bool {
        matches!((self.stage, self.caps), (Stage::Running, Caps::InAll([(Measure::Jobs, _)])))
    }
}

/// A limit on a single job: a larger job is rejected at submission.
#[derive(Clone, Copy, Debug)]
pub struct JobSizeLimit {
    /// The caps.
    pub caps: Caps,
    /// The text of the rejection. `{nodes}` stands for the nodes of the job, and `{max-nodes}` for the cap. Cores and
    /// GPUs have placeholders of the same form.
    pub rejection: &'static str,
}

impl JobSizeLimit {
    fn rejection(&self, association: &Association, queue: Option<&Queue>, size: Size) -> Option<String> {
        let caps = || self.caps.list_caps(association, queue);
        caps().find(|(measure, cap)| !cap.admits(0, size.measure(*measure)))?;
        let sizes = Measure::ALL
            .map(|measure| (format!("{{{}}}", measure.name()), size.measure(measure).to_string()));
        let caps = caps().map(|(measure, cap)| (format!("{{max-{}}}", measure.name()), cap.to_string()));
        let values = sizes.into_iter().chain(caps);
        Some(values.fold(self.rejection.to_owned(), |text, (key, value)| text.replace(&key, &value)))
    }
}

/// The caps of `max-resources-queue`, on the resources of an association in a queue.
const RESOURCES_IN_QUEUE: Caps = Caps::InQueue(&[(Measure::Nodes, |queue| queue.max_nodes_per_assoc)]);

/// The caps of `max-resources-user-limit`, on the resources of an association.
const RESOURCES: Caps = Caps::InAll(&[
    (Measure::Nodes, |association| association.max_nodes),
    (Measure::Cores, |association| association.max_cores),
]);

/// The limits of flux-accounting.
pub const RULES: Rules = Rules {
    counters: &[
        Rule {
            name: "max-run-jobs-queue",
            stage: Stage::Running,
            caps: Caps::InQueue(&[(Measure::Jobs, |queue| queue.max_running_jobs)]),
        },
        Rule {
            name: "max-sched-jobs-queue-limit",
            stage: Stage::Scheduled,
            caps: Caps::InQueue(&[(Measure::Jobs, |queue| queue.max_sched_jobs)]),
        },
        Rule {
            name: "max-sched-nodes-queue-limit",
            stage: Stage::Scheduled,
            caps: Caps::InQueue(&[(Measure::Nodes, |queue| queue.max_sched_nodes_per_assoc)]),
        },
        Rule {
            name: "max-sched-cores-queue-limit",
            stage: Stage::Scheduled,
            caps: Caps::InQueue(&[(Measure::Cores, |queue| queue.max_sched_cores_per_assoc)]),
        },
        Rule { name: "max-resources-queue", stage: Stage::RunningAndScheduled, caps: RESOURCES_IN_QUEUE },
        Rule {
            name: "max-running-jobs-user-limit",
            stage: Stage::Running,
            caps: Caps::InAll(&[(Measure::Jobs, |association| association.max_running_jobs)]),
        },
        Rule {
            name: "max-sched-jobs-user-limit",
            stage: Stage::Scheduled,
            caps: Caps::InAll(&[(Measure::Jobs, |association| association.max_sched_jobs)]),
        },
        Rule { name: "max-resources-user-limit", stage: Stage::Running, caps: RESOURCES },
    ],
    per_job: &[
        JobSizeLimit {
            caps: RESOURCES_IN_QUEUE,
            rejection: "job size ({nodes} node(s)) is greater than max resources limit configured for queue \
                        ({max-nodes} node(s))",
        },
        JobSizeLimit {
            caps: RESOURCES,
            rejection: "job size ({nodes} node(s), {cores} core(s)) is greater than max resources limits configured \
                        for association ({max-nodes} node(s), {max-cores} core(s))",
        },
    ],
};

/// The initial capacity of the list in [`Rules::list_applied_limits`]. It suffices for the limits of flux-accounting with those of a parent
/// queue, so that the function allocates once.
const CAPACITY: usize = 24;

/// The tables of limits whose caps are in the records of associations and queues.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Limits that have counters, in the order in which their dependencies are added and shown. [`HoldSet`] has 16
    /// bits for these limits, so there may be at most 16. The remaining 112 bits are for the limits that a site sets.
    pub counters: &'static [Rule],
    /// Limits on a single job, in the order in which they are tested.
    pub per_job: &'static [JobSizeLimit],
}

impl Default for Rules {
    fn default() -> Self {
        RULES
    }
}

impl Rules {
    /// Lists the limits of this table that apply to jobs of `association` in `queue`, converted by `convert`. `usage`
    /// has the counters of the association. If `queue` is a virtual queue, the limits of its parent queue apply too.
    /// The limits of a parent queue also count the jobs of its virtual queues.
    pub(super) fn list_applied_limits<'a, T>(
        self,
        book: &'a Book,
        association: &Association,
        queue: Option<&QueueName>,
        usage: &Usage,
        convert: impl Fn(AppliedLimit<'a>) -> T,
    ) -> Vec<T> {
        let count_queue = |queue: &Queue| {
            let virtual_queues = book.site_limits().virtual_queues(queue.name.as_str());
            let add =
                |sum: Tally, queue: &QueueName| sum.zip(usage.tally_in_queue(queue), u64::saturating_add);
            virtual_queues.fold(usage.tally_in_queue(&queue.name), add)
        };
        let name = queue.map(QueueName::as_str);
        let mut queues = book.queues_of(name).map(|queue| (queue, count_queue(queue)));
        let queues = [queues.next(), queues.next()];
        let limits = book.site_limits();
        let total = usage.without_exempt_queues(limits).1;
        let is_counted = limits.counts_in(None, None, name);
        let mut applied = Vec::with_capacity(CAPACITY);
        for (hold, Rule { stage, caps, .. }) in self.all() {
            let mut add = |measure: &Measure, limit, tally, queue: Option<&'a Queue>| {
                let amount = Amount { stage: *stage, measure: *measure };
                let counter = Counter::new(hold, amount, Cap { limit, is_given: false }, tally);
                applied.push(convert(AppliedLimit::new(counter, None, queue.map(|queue| &queue.name))));
            };
            match caps {
                Caps::InQueue(caps) => queues.iter().flatten().for_each(|(queue, tally)| {
                    caps.iter().for_each(|(measure, cap)| add(measure, cap(queue), tally, Some(queue)));
                }),
                Caps::InAll(caps) => caps.iter().filter(|_| is_counted).for_each(|(measure, cap)| {
                    add(measure, cap(association), &total, None);
                }),
            }
        }
        applied
    }

    /// Returns the text of the rejection if a job of `size` exceeds a limit on a single job.
    pub fn rejection(
        self,
        book: &Book,
        association: &Association,
        queue: Option<&str>,
        size: Size,
    ) -> Option<String> {
        self.per_job.iter().find_map(|row| match row.caps {
            Caps::InQueue(_) => {
                book.queues_of(queue).find_map(|queue| row.rejection(association, Some(queue), size))
            }
            Caps::InAll(_) if !book.site_limits().counts_in(None, None, queue) => None,
            Caps::InAll(_) => row.rejection(association, None, size),
        })
    }

    /// Returns the limits that have counters, in the order in which their dependencies are added and shown.
    pub fn all(self) -> impl DoubleEndedIterator<Item = (Hold, &'static Rule)> {
        let rules = self.counters.iter().enumerate();
        rules.filter_map(|(index, rule)| Some((Hold::from_rule(index, rule.name)?, rule)))
    }

    /// Returns all limits that hold jobs: the limits on counters of this table, then the limits over scopes.
    pub(super) fn names(self) -> impl Iterator<Item = Hold> {
        self.all().map(|(hold, _)| hold).chain(list_rows().map(ScopeRow::hold))
    }

    /// Returns the members of `set` in the order in which dependency names are added and shown.
    pub fn members(self, set: HoldSet) -> impl DoubleEndedIterator<Item = Hold> {
        let counters = self.all().map(|(hold, _)| hold).filter(move |hold| set.contains(*hold));
        counters.chain(set.list_scope_row_indices().filter_map(ScopeRow::from_index).map(ScopeRow::hold))
    }

    /// Returns the limits on counters for which `is_wanted` returns true.
    pub fn select_limits(self, is_wanted: impl Fn(&Rule) -> bool) -> HoldSet {
        self.all().filter(|(_, rule)| is_wanted(rule)).map(|(hold, _)| hold).collect()
    }
}
