// SPDX-License-Identifier: LGPL-3.0-only
//! What limits count of jobs, and of which jobs.

use std::fmt;

/// What of a job counts. Every table of amounts has a place for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Measure {
    /// The job itself.
    Jobs,
    /// Its nodes.
    Nodes,
    /// Its cores.
    Cores,
    /// Its GPUs.
    Gpus,
}

impl Measure {
    /// All of them, in the order of their places.
    pub const ALL: [Measure; 4] = [Measure::Jobs, Measure::Nodes, Measure::Cores, Measure::Gpus];

    /// Its name in texts.
    pub fn name(self) -> &'static str {
        match self {
            Measure::Jobs => "jobs",
            Measure::Nodes => "nodes",
            Measure::Cores => "cores",
            Measure::Gpus => "gpus",
        }
    }
}

/// Which jobs count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Those that have resources, and those to which a place to run is promised.
    Running,
    /// Those in SCHED, and those that were released and are on their way there.
    Scheduled,
    /// Both. A released job reserves as a scheduled one only, so that it counts once.
    RunningAndScheduled,
}

impl Stage {
    /// All of them, in the order of their places.
    pub const ALL: [Stage; 3] = [Stage::Running, Stage::Scheduled, Stage::RunningAndScheduled];

    /// Its name in texts.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Running => "run",
            Stage::Scheduled => "sched",
            Stage::RunningAndScheduled => "run-sched",
        }
    }

    /// The same as an adjective.
    pub fn adjective(self) -> &'static str {
        match self {
            Stage::Running => "running",
            Stage::Scheduled => "scheduled",
            Stage::RunningAndScheduled => "running and scheduled",
        }
    }

    /// The same for programs.
    pub fn which(self) -> &'static str {
        match self {
            Stage::RunningAndScheduled => "both",
            Stage::Running | Stage::Scheduled => self.adjective(),
        }
    }
}

/// What a cap is on: a measure of the jobs of a stage, such as `run-gpus`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Amount {
    /// Which jobs.
    pub stage: Stage,
    /// What of them.
    pub measure: Measure,
}

impl Amount {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Amount> {
        Stage::ALL.into_iter().flat_map(|stage| Measure::ALL.map(|measure| Amount { stage, measure }))
    }

    /// Reads a name.
    pub fn parse(text: &str) -> Option<Amount> {
        Amount::all().find(|amount| amount.to_string() == text)
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.stage.name(), self.measure.name())
    }
}

#[cfg(test)]
mod tests {
    use super::{Amount, Stage};

    #[test]
    fn amounts_read_back_what_they_print() {
        assert!(Amount::all().all(|amount| Amount::parse(&amount.to_string()) == Some(amount)));
        assert_eq!(Amount::all().count(), 12);
        for none in ["", "gpus", "run", "run-", "run-gpu", "sched-run-gpus"] {
            assert_eq!(Amount::parse(none), None, "{none}");
        }
    }

    #[test]
    fn what_stages_are_called() {
        assert_eq!(Stage::ALL.map(Stage::name), ["run", "sched", "run-sched"]);
        assert_eq!(Stage::ALL.map(Stage::adjective), ["running", "scheduled", "running and scheduled"]);
        assert_eq!(Stage::ALL.map(Stage::which), ["running", "scheduled", "both"]);
    }
}
