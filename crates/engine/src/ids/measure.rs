// SPDX-License-Identifier: LGPL-3.0-only
//! The amounts that limits count. An amount is a measure, summed over the jobs in certain states.

use std::fmt;
use strum::IntoStaticStr;

/// The amount that a limit counts for each job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Measure {
    /// The number of jobs.
    Jobs,
    /// The nodes of a job.
    Nodes,
    /// The cores of a job.
    Cores,
    /// The GPUs of a job.
    Gpus,
    /// The time limit of a job, in milliseconds.
    Time,
    /// The nodes of a job times its time limit, in node-milliseconds.
    #[strum(serialize = "node-hours")]
    NodeTime,
    /// The cores of a job times its time limit, in core-milliseconds.
    #[strum(serialize = "core-hours")]
    CoreTime,
    /// The GPUs of a job times its time limit, in GPU-milliseconds.
    #[strum(serialize = "gpu-hours")]
    GpuTime,
}

impl Measure {
    /// All measures except the measures of time, in the order of [`Measure`]. Tables of amounts have a column for each
    /// of these measures.
    pub const ALL: [Measure; 4] = [Measure::Jobs, Measure::Nodes, Measure::Cores, Measure::Gpus];

    /// Returns true if the measure depends on the time limit.
    pub fn is_time(self) -> bool {
        matches!(self, Measure::Time | Measure::NodeTime | Measure::CoreTime | Measure::GpuTime)
    }

    /// Returns the factor from the unit of a cap to the unit of a counter. For example, a cap on time is in seconds
    /// and its counter is in milliseconds, so the factor is 1000. A cap on a product with time, such as node-time, is
    /// in hours.
    pub fn cap_unit(self) -> u64 {
        match self {
            Measure::Jobs | Measure::Nodes | Measure::Cores | Measure::Gpus => 1,
            Measure::Time => 1000,
            Measure::NodeTime | Measure::CoreTime | Measure::GpuTime => 3_600_000,
        }
    }

    /// Returns `amount` with its unit, as in texts for users, rounded as by [`format_amount`](Measure::format_amount).
    pub fn show_amount(self, amount: u64) -> String {
        let unit = match self {
            Measure::Jobs => "job(s)",
            Measure::Nodes => "node(s)",
            Measure::Cores => "core(s)",
            Measure::Gpus => "gpu(s)",
            Measure::Time => "s",
            Measure::NodeTime | Measure::CoreTime | Measure::GpuTime => self.name(),
        };
        format!("{} {unit}", self.format_amount(amount))
    }

    /// Returns `amount` as a number in the unit of caps. Rounds up to three decimals, or to more if the amount is below 0.1.
    pub fn format_amount(self, amount: u64) -> String {
        self.format_rounded_amount(amount, u128::div_ceil)
    }

    /// Formats a cap or its headroom like [`format_amount`](Measure::format_amount), but rounds down. So an amount
    /// above the cap is shown as a larger number than the cap.
    pub fn format_headroom(self, amount: u64) -> String {
        self.format_rounded_amount(amount, |amount, unit| amount / unit)
    }

    fn format_rounded_amount(self, amount: u64, divide: fn(u128, u128) -> u128) -> String {
        let (amount, unit) = (u128::from(amount), u128::from(self.cap_unit()));
        // Seven decimals of an hour distinguish milliseconds.
        let decimals = (3..7).find(|decimals| amount * 10_u128.pow(*decimals) >= 100 * unit).unwrap_or(7);
        let scale = 10_u128.pow(decimals);
        let scaled = divide(amount * scale, unit);
        let text = format!("{}.{:02$}", scaled / scale, scaled % scale, decimals as usize);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }

    /// Returns the name of the measure in messages and in the names of limits.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The states of the jobs that a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Jobs from RUN to INACTIVE, and released jobs that have a reservation for RUN.
    Running,
    /// Jobs in SCHED, and released jobs that are about to enter SCHED.
    Scheduled,
    /// Running jobs and scheduled jobs. A released job has a reservation only as a scheduled job, so that the job counts once.
    RunningAndScheduled,
    /// All jobs from their submission to INACTIVE. A limit on active jobs rejects a job at submission, and holds no job.
    Active,
    /// One single job. A limit on one job rejects larger jobs at submission, and never holds a job.
    OneJob,
}

impl Stage {
    /// Returns the short name of the stage, such as `run` in `run-gpus`.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Running => "run",
            Stage::Scheduled => "sched",
            Stage::RunningAndScheduled => "run-sched",
            Stage::Active => "active",
            Stage::OneJob => "job",
        }
    }

    /// Returns the adjective for the stage in messages, such as "running" in "running jobs".
    pub fn adjective(self) -> &'static str {
        match self {
            Stage::Running => "running",
            Stage::Scheduled => "scheduled",
            Stage::RunningAndScheduled => "running and scheduled",
            Stage::Active => "active",
            Stage::OneJob => "submitted",
        }
    }

    /// Returns the name of the stage in the answers to queries, such as "both" for running and scheduled jobs.
    pub fn answer_name(self) -> &'static str {
        match self {
            Stage::RunningAndScheduled => "both",
            Stage::Running | Stage::Scheduled | Stage::Active | Stage::OneJob => self.adjective(),
        }
    }
}

/// The amount that a cap limits: a measure of the jobs in a stage, such as `run-gpus`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Amount {
    /// The states of the jobs.
    pub stage: Stage,
    /// What the amount counts, such as nodes or GPUs.
    pub measure: Measure,
}

impl Amount {
    /// The amounts that a site can limit over a limit scope. The first [`HOLDING`](Amount::HOLDING) of them can hold jobs. A job in
    /// SCHED has no nodes, cores or GPUs, so a limit on jobs in SCHED can count only the number of jobs.
    pub const ALL: [Amount; 14] = {
        use Measure::{Cores, Gpus, Jobs, NodeTime, Nodes, Time};
        use Stage::{Active, OneJob, Running, RunningAndScheduled, Scheduled};
        [
            Amount { stage: Running, measure: Jobs },
            Amount { stage: Running, measure: Nodes },
            Amount { stage: Running, measure: Cores },
            Amount { stage: Running, measure: Gpus },
            Amount { stage: Scheduled, measure: Jobs },
            Amount { stage: RunningAndScheduled, measure: Jobs },
            Amount { stage: RunningAndScheduled, measure: Nodes },
            Amount { stage: RunningAndScheduled, measure: Cores },
            Amount { stage: RunningAndScheduled, measure: Gpus },
            Amount { stage: Running, measure: NodeTime },
            Amount { stage: Active, measure: Jobs },
            Amount { stage: OneJob, measure: Nodes },
            Amount { stage: OneJob, measure: Time },
            Amount { stage: OneJob, measure: NodeTime },
        ]
    };

    /// Limits on the first `HOLDING` amounts in [`ALL`](Amount::ALL) can hold jobs. Limits on the later amounts only reject jobs.
    pub const HOLDING: usize = 10;

    /// The amounts that budgets count.
    pub const BUDGETS: [Amount; 3] = [
        Amount { stage: Stage::RunningAndScheduled, measure: Measure::NodeTime },
        Amount { stage: Stage::RunningAndScheduled, measure: Measure::CoreTime },
        Amount { stage: Stage::RunningAndScheduled, measure: Measure::GpuTime },
    ];

    /// Returns true if the amount is one of [`BUDGETS`](Amount::BUDGETS).
    pub fn is_budget(self) -> bool {
        self.measure.is_time() && Amount::BUDGETS.contains(&self)
    }

    /// Returns true if the amount shrinks while a job runs: a running job counts with the time that it has left.
    pub fn counts_time_left(self) -> bool {
        self.stage == Stage::Running && self.measure.is_time()
    }

    /// Returns true if a limit on the amount can hold jobs. Limits on other amounts only reject jobs at submission.
    pub fn can_hold_jobs(self) -> bool {
        !matches!(self.stage, Stage::Active | Stage::OneJob)
    }

    /// Parses the name of an amount. Returns `None` if no amount in [`ALL`](Amount::ALL) has this name.
    pub fn parse(text: &str) -> Option<Amount> {
        Amount::ALL.into_iter().find(|amount| amount.to_string() == text)
    }

    /// If `text` names an amount of jobs in SCHED that cannot be limited, returns the reason and the limit to set
    /// instead.
    pub fn refusal(text: &str) -> Option<String> {
        let measure = text.strip_prefix("sched-")?;
        let is_meant = |known: Measure| known != Measure::Jobs && known.name() == measure;
        Measure::ALL.into_iter().any(is_meant).then(|| {
            format!("a job in SCHED uses no {measure}; set sched-jobs, run-{measure} or run-sched-{measure}")
        })
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.stage.name(), self.measure.name())
    }
}

#[cfg(test)]
mod tests {
    use super::{Amount, Measure, Stage};

    /// All stages, in the order of their values.
    const STAGES: [Stage; 5] =
        [Stage::Running, Stage::Scheduled, Stage::RunningAndScheduled, Stage::Active, Stage::OneJob];

    #[test]
    fn amounts_of_time_are_shown_in_limit_units_and_rounded_up() {
        for (measure, amount, shown) in [
            (Measure::Nodes, 12, "12 node(s)"),
            (Measure::Time, 1_800_000, "1800 s"),
            (Measure::Time, 1_800_500, "1800.5 s"),
            (Measure::NodeTime, 3_600_000 * 8, "8 node-hours"),
            (Measure::NodeTime, 3_600_000 * 8 + 1, "8.001 node-hours"),
            (Measure::CoreTime, 5_400_000, "1.5 core-hours"),
            (Measure::NodeTime, 360, "0.0001 node-hours"),
            (Measure::NodeTime, 361, "0.000101 node-hours"),
            (Measure::NodeTime, 1, "0.0000003 node-hours"),
            (Measure::NodeTime, 0, "0 node-hours"),
            (Measure::Nodes, 10, "10 node(s)"),
        ] {
            assert_eq!(measure.show_amount(amount), shown);
        }
        // If a job needs 1 ms more than the headroom, the shown need must exceed the shown headroom.
        for headroom in [0, 1, 359, 360, 3_599_999, 3_600_000, 3_600_001] {
            let [needed, left] =
                [Measure::NodeTime.format_amount(headroom + 1), Measure::NodeTime.format_headroom(headroom)]
                    .map(|text| text.parse::<f64>().expect("a number"));
            assert!(needed > left, "{needed} {left}");
        }
    }

    #[test]
    fn a_printed_amount_parses_to_itself() {
        for (index, amount) in Amount::ALL.into_iter().enumerate() {
            assert_eq!(amount.can_hold_jobs(), index < Amount::HOLDING, "{amount}");
        }
        assert!(Amount::ALL.into_iter().all(|amount| Amount::parse(&amount.to_string()) == Some(amount)));
        for invalid in ["", "gpus", "run", "run-", "run-gpu", "sched-run-gpus", "sched-gpus"] {
            assert_eq!(Amount::parse(invalid), None, "{invalid}");
        }
    }

    #[test]
    fn limits_on_nodes_cores_or_gpus_in_sched_are_rejected_with_alternatives() {
        for measure in ["nodes", "cores", "gpus"] {
            let text = format!(
                "a job in SCHED uses no {measure}; set sched-jobs, run-{measure} or run-sched-{measure}"
            );
            assert_eq!(Amount::refusal(&format!("sched-{measure}")), Some(text));
        }
        assert!(Amount::ALL.into_iter().all(|amount| Amount::refusal(&amount.to_string()).is_none()));
        assert_eq!(Amount::refusal("sched-nonsense"), None);
    }

    #[test]
    fn each_limit_stage_has_its_own_names() {
        assert_eq!(STAGES.map(Stage::name), ["run", "sched", "run-sched", "active", "job"]);
        assert_eq!(
            STAGES.map(Stage::adjective),
            ["running", "scheduled", "running and scheduled", "active", "submitted"]
        );
        assert_eq!(STAGES.map(Stage::answer_name), ["running", "scheduled", "both", "active", "submitted"]);
    }
}
