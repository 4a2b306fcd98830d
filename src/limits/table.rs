// SPDX-License-Identifier: LGPL-3.0-only
//! The limits that hold a job, one row each: whose jobs are counted, in which stage, what of them, against which cap.
//!
//! To add a limit, add a row: its place is the order in which names are added and shown.

use super::hold::{Hold, HoldSet};
use super::names::Name;
use super::size::Size;
use super::usage::Tally;
use crate::accounts::{Association, Queue};
use crate::ids::Limit;

/// What of a job counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// The job itself.
    Jobs,
    /// Its nodes.
    Nodes,
    /// Its cores.
    Cores,
}

impl Measure {
    /// What a job of `size` adds.
    pub fn of(self, size: Size) -> u64 {
        match self {
            Measure::Jobs => 1,
            Measure::Nodes => size.nodes,
            Measure::Cores => size.cores,
        }
    }
}

/// Which jobs count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Those that have resources, and those to which a place to run is promised.
    Running,
    /// Those in SCHED, and those that were released and are on their way there.
    Scheduled,
    /// Both. A released job reserves as a scheduled one only, so that it counts once.
    RunningAndScheduled,
}

impl Stage {
    /// What is in use of `measure`.
    pub fn used(self, tally: &Tally, measure: Measure) -> u64 {
        let total = tally.total();
        match self {
            Stage::Running => total.run.of(measure),
            Stage::Scheduled => total.sched.of(measure),
            Stage::RunningAndScheduled => {
                tally.charged.run.of(measure).saturating_add(total.sched.of(measure))
            }
        }
    }
}

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
}

impl Rule {
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
    Rule {
        name: "max-resources-queue",
        stage: Stage::RunningAndScheduled,
        caps: Caps::InQueue(&[(Measure::Nodes, |queue| queue.max_nodes_per_assoc)]),
    },
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
    Rule {
        name: "max-resources-user-limit",
        stage: Stage::Running,
        caps: Caps::InAll(&[
            (Measure::Nodes, |association| association.max_nodes),
            (Measure::Cores, |association| association.max_cores),
        ]),
    },
]);

/// A table of limits. At most 32 rows: [`HoldSet`] has a bit for each.
#[derive(Clone, Copy, Debug)]
pub struct Rules(pub &'static [Rule]);

impl Rules {
    /// All limits, in the order in which names are added and shown.
    pub fn all(self) -> impl DoubleEndedIterator<Item = (Hold, &'static Rule)> {
        self.0.iter().enumerate().filter_map(|(index, rule)| Some((Hold::new(index, rule.name)?, rule)))
    }

    /// The members of a set, in that order.
    pub fn members(self, set: HoldSet) -> impl DoubleEndedIterator<Item = Hold> {
        self.all().map(|(hold, _)| hold).filter(move |hold| set.contains(*hold))
    }

    /// The limits of which `which` is true.
    pub fn select(self, which: impl Fn(&Rule) -> bool) -> HoldSet {
        self.all().filter(|(_, rule)| which(rule)).map(|(hold, _)| hold).collect()
    }

    /// Reads a dependency's description; `None` if it is not one of ours.
    pub fn parse(self, text: &str) -> Option<Name> {
        let named = |name: &str| self.all().map(|(hold, _)| hold).find(|hold| hold.name() == name);
        if let Some(hold) = named(text) {
            return Some(Name { hold, use_count: 1 });
        }
        let (base, count) = text.rsplit_once('.')?;
        let use_count = count.parse().ok().filter(|n| *n >= 2)?;
        Some(Name { hold: named(base)?, use_count })
    }
}
