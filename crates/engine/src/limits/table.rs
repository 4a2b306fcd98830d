// SPDX-License-Identifier: LGPL-3.0-only
//! The limits that hold a job, one row each: whose jobs are counted, in which stage, what of them, against which cap; the
//! name of the dependency, and the text for a job that could never run.
//!
//! To add a limit, add a row: its place is the order in which names are added and shown.

use super::counter::{Applied, Counter};
use super::counts::Tally;
use super::hold::{Hold, HoldSet};
use super::scope_rows::{Row, rows};
use super::size::Size;
use super::usage::Usage;
use crate::accounts::{Association, Book, Cap, Queue};
use crate::ids::{Amount, Limit, Measure, QueueName, Stage};

/// Caps that a queue or an association has, each on one measure.
pub type CapsOf<T> = &'static [(Measure, fn(&T) -> Limit)];

/// Whose jobs count, and against which caps. A job that exceeds any of them is held.
#[derive(Clone, Copy, Debug)]
pub enum Caps {
    /// Jobs of the association in the job's queue, if that is a queue the site has configured.
    InQueue(CapsOf<Queue>),
    /// All jobs of the association.
    InAll(CapsOf<Association>),
}

/// A limit that keeps jobs in DEPEND.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The name of the dependency that says so.
    pub name: &'static str,
    /// Which jobs count.
    pub stage: Stage,
    /// Whose, and how many.
    pub caps: Caps,
    /// What is said of a job that alone exceeds the limit, so that it could never run: it is rejected at submit. `None`:
    /// it is held like any other, until the limit is raised.
    /// `{nodes}` stands for what the job has of a measure, `{max-nodes}` for the cap on it.
    pub too_large: Option<&'static str>,
}

impl Rule {
    /// Its caps on a job of `association` in `queue`, a queue the site has configured. None where it does not apply.
    pub fn caps_on(
        &self,
        association: &Association,
        queue: Option<&Queue>,
    ) -> impl Iterator<Item = (Measure, Limit)> {
        let (of_queue, of_all): (CapsOf<Queue>, CapsOf<Association>) = match self.caps {
            Caps::InQueue(caps) => (caps, &[]),
            Caps::InAll(caps) => (&[], caps),
        };
        let of_queue = queue
            .into_iter()
            .flat_map(move |queue| of_queue.iter().map(move |(measure, cap)| (*measure, cap(queue))));
        of_queue.chain(of_all.iter().map(move |(measure, cap)| (*measure, cap(association))))
    }

    /// The rejection of a job that is too large for it.
    fn rejection(&self, association: &Association, queue: Option<&Queue>, size: Size) -> Option<String> {
        let text = self.too_large?;
        let mut caps = self.caps_on(association, queue);
        caps.any(|(measure, cap)| !cap.admits(0, size.of(measure))).then(|| {
            let amounts =
                Measure::ALL.map(|measure| (format!("{{{}}}", measure.name()), size.of(measure).to_string()));
            let caps = self.caps_on(association, queue);
            let caps = caps.map(|(measure, cap): (Measure, Limit)| {
                (format!("{{max-{}}}", measure.name()), cap.to_string())
            });
            amounts
                .into_iter()
                .chain(caps)
                .fold(text.to_owned(), |text, (key, value)| text.replace(&key, &value))
        })
    }

    /// Whether it is a limit of the job's queue.
    pub fn is_of_queue(&self) -> bool {
        matches!(self.caps, Caps::InQueue(_))
    }

    /// Whether it counts running jobs of the association, whatever their size.
    pub fn is_running_jobs(&self) -> bool {
        matches!((self.stage, self.caps), (Stage::Running, Caps::InAll([(Measure::Jobs, _)])))
    }
}

/// The limits of flux-accounting.
pub const RULES: Rules = Rules(&[
    Rule {
        name: "max-run-jobs-queue",
        stage: Stage::Running,
        caps: Caps::InQueue(&[(Measure::Jobs, |queue| queue.max_running_jobs)]),
        too_large: None,
    },
    Rule {
        name: "max-sched-jobs-queue-limit",
        stage: Stage::Scheduled,
        caps: Caps::InQueue(&[(Measure::Jobs, |queue| queue.max_sched_jobs)]),
        too_large: None,
    },
    Rule {
        name: "max-sched-nodes-queue-limit",
        stage: Stage::Scheduled,
        caps: Caps::InQueue(&[(Measure::Nodes, |queue| queue.max_sched_nodes_per_assoc)]),
        too_large: None,
    },
    Rule {
        name: "max-sched-cores-queue-limit",
        stage: Stage::Scheduled,
        caps: Caps::InQueue(&[(Measure::Cores, |queue| queue.max_sched_cores_per_assoc)]),
        too_large: None,
    },
    Rule {
        name: "max-resources-queue",
        stage: Stage::RunningAndScheduled,
        caps: Caps::InQueue(&[(Measure::Nodes, |queue| queue.max_nodes_per_assoc)]),
        too_large: Some(
            "job size ({nodes} node(s)) is greater than max resources limit configured for queue \
             ({max-nodes} node(s))",
        ),
    },
    Rule {
        name: "max-running-jobs-user-limit",
        stage: Stage::Running,
        caps: Caps::InAll(&[(Measure::Jobs, |association| association.max_running_jobs)]),
        too_large: None,
    },
    Rule {
        name: "max-sched-jobs-user-limit",
        stage: Stage::Scheduled,
        caps: Caps::InAll(&[(Measure::Jobs, |association| association.max_sched_jobs)]),
        too_large: None,
    },
    Rule {
        name: "max-resources-user-limit",
        stage: Stage::Running,
        caps: Caps::InAll(&[
            (Measure::Nodes, |association| association.max_nodes),
            (Measure::Cores, |association| association.max_cores),
        ]),
        too_large: Some(
            "job size ({nodes} node(s), {cores} core(s)) is greater than max resources limits configured for \
             association ({max-nodes} node(s), {max-cores} core(s))",
        ),
    },
]);

/// A table of limits whose caps associations and queues bring. At most 64 rows: [`HoldSet`] has a bit for each, and as many
/// for the rows of limits over scopes, which come after these.
#[derive(Clone, Copy, Debug)]
pub struct Rules(pub &'static [Rule]);

impl Rules {
    /// Returns the limits of this table that apply to jobs of `association` in `queue`, whose jobs count as `usage`.
    pub(super) fn applied<'a>(
        self,
        book: &'a Book,
        association: &'a Association,
        queue: Option<&'a QueueName>,
        usage: Option<&'a Usage>,
    ) -> impl Iterator<Item = Applied<'a>> {
        let in_queue = |queue: &'a Queue| {
            let count = |queue: &str| usage.map_or(Tally::default(), |usage| usage.in_queue(queue));
            let virtual_queues = book.site_limits().virtual_queues(queue.name.as_str());
            virtual_queues.fold(count(queue.name.as_str()), |sum, queue| sum.plus(count(queue.as_str())))
        };
        let mut queues =
            book.queues_of(queue.map(QueueName::as_str)).map(|queue| (Some(queue), in_queue(queue)));
        let queues = [queues.next(), queues.next()];
        let total = usage.map_or(Tally::default(), |usage| usage.total);
        self.all().flat_map(move |(hold, rule)| {
            let of_queue = queues.into_iter().flatten().filter(|_| rule.is_of_queue());
            let of_all = (!rule.is_of_queue()).then_some((None, total));
            of_queue.chain(of_all).flat_map(move |(queue, tally)| {
                rule.caps_on(association, queue).map(move |(measure, limit)| {
                    let amount = Amount { stage: rule.stage, measure };
                    let counter = Counter::new(hold, amount, Cap { limit, is_given: false }, tally);
                    Applied::new(counter, None, queue.map(|queue| &queue.name))
                })
            })
        })
    }

    /// The rejection of a job that is larger than a cap of this table.
    pub fn rejection(
        self,
        book: &Book,
        association: &Association,
        queue: Option<&str>,
        size: Size,
    ) -> Option<String> {
        self.all().find_map(|(_, rule)| match rule.caps {
            Caps::InQueue(_) => {
                book.queues_of(queue).find_map(|queue| rule.rejection(association, Some(queue), size))
            }
            Caps::InAll(_) => rule.rejection(association, None, size),
        })
    }

    /// The limits of this table, in the order in which names are added and shown.
    pub fn all(self) -> impl DoubleEndedIterator<Item = (Hold, &'static Rule)> {
        self.0.iter().enumerate().filter_map(|(index, rule)| Some((Hold::of_rule(index, rule.name)?, rule)))
    }

    /// All names: those of this table, then those of limits over scopes.
    pub(super) fn names(self) -> impl Iterator<Item = Hold> {
        self.all().map(|(hold, _)| hold).chain(rows().map(Row::hold))
    }

    /// The members of a set, in that order.
    pub fn members(self, set: HoldSet) -> impl DoubleEndedIterator<Item = Hold> {
        let ours = self.all().map(|(hold, _)| hold).filter(move |hold| set.contains(*hold));
        ours.chain(set.rows().filter_map(Row::at).map(Row::hold))
    }

    /// The limits of this table of which `which` is true.
    pub fn select(self, which: impl Fn(&Rule) -> bool) -> HoldSet {
        self.all().filter(|(_, rule)| which(rule)).map(|(hold, _)| hold).collect()
    }
}
