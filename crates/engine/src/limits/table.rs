// SPDX-License-Identifier: LGPL-3.0-only
//! The limits in the records of associations and queues: those on counters, which hold a job, and caps on a single job, which reject it.
//!
//! To add a limit, add a row to a table of [`RULES`].

use super::counter::{Applied, Counter};
use super::counts::Tally;
use super::hold::{Hold, HoldSet};
use super::scope_rows::{Row, rows};
use super::size::Size;
use super::usage::Usage;
use crate::accounts::{Association, Book, Cap, Queue};
use crate::ids::{Amount, Limit, Measure, QueueName, Stage};

/// Caps of a queue or an association, each on one measure.
pub type CapsOf<T> = &'static [(Measure, fn(&T) -> Limit)];

/// Whose caps count. A job that exceeds any of them exceeds the limit.
#[derive(Clone, Copy, Debug)]
pub enum Caps {
    /// Those of the job's queue, if the site has configured that queue.
    InQueue(CapsOf<Queue>),
    /// Those of the association.
    InAll(CapsOf<Association>),
}

impl Caps {
    /// Returns the caps on a job of `association` in the configured queue `queue`.
    fn on(self, association: &Association, queue: Option<&Queue>) -> impl Iterator<Item = (Measure, Limit)> {
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

/// A limit on a counter of an association: a job that exceeds it is held in DEPEND.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The name of the dependency.
    pub name: &'static str,
    /// Which jobs count.
    pub stage: Stage,
    /// The caps. Under those of a queue, only jobs of that queue count.
    pub caps: Caps,
}

impl Rule {
    /// Returns true if the limit counts jobs of one queue.
    pub fn is_of_queue(&self) -> bool {
        matches!(self.caps, Caps::InQueue(_))
    }

    /// Returns true if the limit counts running jobs of the association, whatever their size.
    pub fn is_running_jobs(&self) -> bool {
        matches!((self.stage, self.caps), (Stage::Running, Caps::InAll([(Measure::Jobs, _)])))
    }
}

/// A limit on a single job: a larger job is rejected at submission.
#[derive(Clone, Copy, Debug)]
pub struct PerJob {
    /// The caps.
    pub caps: Caps,
    /// The text of the rejection. `{nodes}` stands for the nodes of the job, and `{max-nodes}` for the cap, likewise for cores and gpus.
    pub rejection: &'static str,
}

impl PerJob {
    fn reject(&self, association: &Association, queue: Option<&Queue>, size: Size) -> Option<String> {
        let caps = || self.caps.on(association, queue);
        caps().find(|(measure, cap)| !cap.admits(0, size.amount(*measure)))?;
        let sizes =
            Measure::ALL.map(|measure| (format!("{{{}}}", measure.name()), size.amount(measure).to_string()));
        let caps = caps().map(|(measure, cap)| (format!("{{max-{}}}", measure.name()), cap.to_string()));
        let values = sizes.into_iter().chain(caps);
        Some(values.fold(self.rejection.to_owned(), |text, (key, value)| text.replace(&key, &value)))
    }
}

/// `max-resources-queue`: what an association may have in use in a queue.
const RESOURCES_IN_QUEUE: Caps = Caps::InQueue(&[(Measure::Nodes, |queue| queue.max_nodes_per_assoc)]);

/// `max-resources-user-limit`: what an association may have in use.
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
        PerJob {
            caps: RESOURCES_IN_QUEUE,
            rejection: "job size ({nodes} node(s)) is greater than max resources limit configured for queue \
                        ({max-nodes} node(s))",
        },
        PerJob {
            caps: RESOURCES,
            rejection: "job size ({nodes} node(s), {cores} core(s)) is greater than max resources limits configured \
                        for association ({max-nodes} node(s), {max-cores} core(s))",
        },
    ],
};

/// The most limits of an association in a queue and its parent, so that [`Rules::applied`] allocates once.
const CAPACITY: usize = 24;

/// The tables of limits whose caps are in the records of associations and queues.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Limits on counters, in the order in which names are added and shown. At most 64: [`HoldSet`] has a bit for each, and as many for the
    /// rows of limits over scopes, which come after these.
    pub counters: &'static [Rule],
    /// Limits on a single job, in the order in which they are tested.
    pub per_job: &'static [PerJob],
}

impl Rules {
    /// Returns the limits of this table that apply to jobs of `association` in `queue`, whose jobs count as `usage`. A virtual queue and its
    /// parent both limit them, and the parent counts the jobs of its virtual queues.
    pub(super) fn applied<'a>(
        self,
        book: &'a Book,
        association: &Association,
        queue: Option<&QueueName>,
        usage: Option<&Usage>,
    ) -> Vec<Applied<'a>> {
        let in_queue = |queue: &Queue| {
            let count = |queue: &str| usage.map_or(Tally::default(), |usage| usage.in_queue(queue));
            let virtual_queues = book.site_limits().virtual_queues(queue.name.as_str());
            virtual_queues.fold(count(queue.name.as_str()), |sum, queue| sum.plus(count(queue.as_str())))
        };
        let mut queues =
            book.queues_of(queue.map(QueueName::as_str)).map(|queue| (Some(queue), in_queue(queue)));
        let total = (None, usage.map_or(Tally::default(), |usage| usage.total));
        let counted = [queues.next(), queues.next(), Some(total)];
        let mut applied = Vec::with_capacity(CAPACITY);
        for (hold, rule) in self.all() {
            for (queue, tally) in
                counted.iter().flatten().filter(|(queue, _)| queue.is_some() == rule.is_of_queue())
            {
                applied.extend(rule.caps.on(association, *queue).map(|(measure, limit)| {
                    let amount = Amount { stage: rule.stage, measure };
                    let counter = Counter::new(hold, amount, Cap { limit, is_given: false }, tally);
                    Applied::new(counter, None, queue.map(|queue| &queue.name))
                }));
            }
        }
        applied
    }

    /// Returns the rejection of a job that is larger than a cap on a single job.
    pub fn rejection(
        self,
        book: &Book,
        association: &Association,
        queue: Option<&str>,
        size: Size,
    ) -> Option<String> {
        self.per_job.iter().find_map(|row| match row.caps {
            Caps::InQueue(_) => {
                book.queues_of(queue).find_map(|queue| row.reject(association, Some(queue), size))
            }
            Caps::InAll(_) => row.reject(association, None, size),
        })
    }

    /// Returns the limits on counters, in the order in which names are added and shown.
    pub fn all(self) -> impl DoubleEndedIterator<Item = (Hold, &'static Rule)> {
        let rules = self.counters.iter().enumerate();
        rules.filter_map(|(index, rule)| Some((Hold::of_rule(index, rule.name)?, rule)))
    }

    /// Returns all limits that hold jobs: those on counters, and those over scopes.
    pub(super) fn names(self) -> impl Iterator<Item = Hold> {
        self.all().map(|(hold, _)| hold).chain(rows().map(Row::hold))
    }

    /// Returns the members of a set, in that order.
    pub fn members(self, set: HoldSet) -> impl DoubleEndedIterator<Item = Hold> {
        let ours = self.all().map(|(hold, _)| hold).filter(move |hold| set.contains(*hold));
        ours.chain(set.rows().filter_map(Row::from_index).map(Row::hold))
    }

    /// Returns the limits on counters of which `which` is true.
    pub fn select(self, which: impl Fn(&Rule) -> bool) -> HoldSet {
        self.all().filter(|(_, rule)| which(rule)).map(|(hold, _)| hold).collect()
    }
}
