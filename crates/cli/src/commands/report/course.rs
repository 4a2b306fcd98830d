// SPDX-License-Identifier: LGPL-3.0-only
//! Usage per hour, day, week or month, from the records of ended jobs. The usage of each job is spread evenly over its run time.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use jiff::{Span, ToSpan, Unit, Zoned};
use serde::Serialize;

use super::bins::add_sums_to_parents;
use super::data::Number;
use crate::commands::usage::epoch_seconds;
use crate::outcome::{Result, failure};
use crate::ui::figures::to_zoned;
use fairshare::Tree;
use fairshare_accounting::pipeline::charges::{Charge, Charges};
use fairshare_accounting::store::Database;

/// The page shows at most this many time steps and leaves out the oldest steps. With more steps, the bars would be
/// too thin.
const MOST: usize = 400;
/// A page contains at most this many values of associations. It has three values for each association and time step.
const MOST_OF_USERS: usize = 300_000;
const HOUR: f64 = 3600.0;
const DAY: f64 = 24.0 * HOUR;

/// Time steps are longer in reports that cover more time. Each row has a length of a report, in seconds, and the time step
/// for reports up to this length.
const STEPS: [(f64, TimeStep); 4] = [
    (4.0 * DAY, TimeStep::Hour),
    (120.0 * DAY, TimeStep::Day),
    (3.0 * 365.0 * DAY, TimeStep::Week),
    (f64::INFINITY, TimeStep::Month),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(super) enum TimeStep {
    Hour,
    Day,
    Week,
    Month,
}

/// Usage by bank over time, in the JSON document; the oldest step first.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Course {
    step: TimeStep,
    /// The label of each step, in the time zone of the machine.
    labels: Vec<String>,
    /// When each step began, and when the last one ended.
    from: Vec<Number>,
    /// The usage of each bank in each time step. It includes the usage of the banks below the bank.
    banks: Vec<Vec<Number>>,
    /// Triples of association, step and usage; `null` if a page would be too large.
    users: Option<Vec<Number>>,
}

impl Course {
    /// Reads the jobs of the database. Returns `None` if there are none with usage. Leaves out associations that were added or
    /// removed after the tree was read.
    pub(super) fn read(mut database: Database, tree: &Tree, zone: &TimeZone) -> Result<Option<Course>> {
        let snapshot = database.snapshot()?;
        if snapshot.check_usage_schema().is_err() {
            return Ok(None);
        }
        let charges = Charges::read(&snapshot).map_err(failure)?;
        let leaves: Vec<Option<usize>> = charges
            .ledger
            .accounts
            .iter()
            .map(|account| {
                tree.leaf(&account.user, charges.ledger.bank_name(account)).map(|leaf| leaf.index())
            })
            .collect();
        let leaf = |charge: &Charge| leaves.get(charge.account).copied().flatten();
        let jobs: Vec<(usize, Charge)> =
            charges.jobs.iter().filter_map(|charge| Some((leaf(charge)?, *charge))).collect();
        Ok(Course::from_jobs(&jobs, tree, zone))
    }

    /// Sums the usage of `jobs`, each with the index of its association, by steps of time. Returns `None` if no job has a start time, or
    /// if the jobs span too long a time.
    fn from_jobs(jobs: &[(usize, Charge)], tree: &Tree, zone: &TimeZone) -> Option<Course> {
        let begin = jobs.iter().map(|(_, job)| job.from).filter(|from| *from > 0.0).reduce(f64::min)?;
        let end = jobs.iter().map(|(_, job)| job.to).reduce(f64::max)?;
        let (_, step) = STEPS.into_iter().find(|(most, _)| end - begin <= *most)?;
        let (labels, edges) = step.split_into_steps(begin, end, zone)?;
        let cells = sum_usage_by_step(jobs, &edges);
        let users = tree.leaves().len();
        let mut banks = vec![vec![0.0; tree.banks().len()]; labels.len()];
        let leaves: Vec<_> = tree.leaves().collect();
        for ((leaf, step), usage) in &cells {
            let bank = leaves.get(*leaf).and_then(|leaf| tree.parent(*leaf));
            if let Some(sum) = bank.and_then(|bank| banks.get_mut(*step)?.get_mut(bank.index() - users)) {
                *sum += usage;
            }
        }
        add_sums_to_parents(tree, &mut banks);
        let triple =
            |((leaf, step), usage): (&(usize, usize), &f64)| [*leaf as f64, *step as f64, *usage].map(Number);
        Some(Course {
            step,
            labels,
            from: edges.into_iter().map(Number).collect(),
            banks: banks.into_iter().map(|row| row.into_iter().map(Number).collect()).collect(),
            users: (3 * cells.len() <= MOST_OF_USERS).then(|| cells.iter().flat_map(triple).collect()),
        })
    }
}

/// Returns the usage of each association in each time step. The key is the pair of association and step.
fn sum_usage_by_step(jobs: &[(usize, Charge)], edges: &[f64]) -> BTreeMap<(usize, usize), f64> {
    let mut cells = BTreeMap::new();
    for (leaf, job) in jobs {
        let first = edges.partition_point(|edge| *edge <= job.from).saturating_sub(1);
        for (step, pair) in edges.windows(2).enumerate().skip(first) {
            let [from, to] = pair else { break };
            let inside = to.min(job.to) - from.max(job.from);
            if inside > 0.0 {
                *cells.entry((*leaf, step)).or_insert(0.0) += job.usage * (inside / (job.to - job.from));
            }
            if *to >= job.to {
                break;
            }
        }
    }
    cells
}

impl TimeStep {
    /// Returns labels and edges of the steps from `begin` to `end`, in seconds since the epoch. Days begin at
    /// midnight in `zone`. Returns `None` if a time is out of range.
    fn split_into_steps(self, begin: f64, end: f64, zone: &TimeZone) -> Option<(Vec<String>, Vec<f64>)> {
        let mut step_start = self.find_time_step_start(&to_zoned(begin, zone)?)?;
        let (mut labels, mut edges) = (Vec::new(), vec![epoch_seconds(&step_start)]);
        while epoch_seconds(&step_start) < end || labels.is_empty() {
            let next = self.find_time_step_start(&step_start.checked_add(self.span()).ok()?)?;
            if next <= step_start {
                return None;
            }
            labels.push(self.label(&step_start));
            edges.push(epoch_seconds(&next));
            step_start = next;
        }
        let old = labels.len().saturating_sub(MOST);
        labels.drain(..old);
        edges.drain(..old);
        Some((labels, edges))
    }

    fn span(self) -> Span {
        match self {
            TimeStep::Hour => 1.hour(),
            TimeStep::Day => 1.day(),
            TimeStep::Week => 1.week(),
            TimeStep::Month => 1.month(),
        }
    }

    /// Returns the start of the step that contains `at`, or `None` if it is out of range.
    fn find_time_step_start(self, at: &Zoned) -> Option<Zoned> {
        match self {
            TimeStep::Hour => {
                at.round(jiff::ZonedRound::new().smallest(Unit::Hour).mode(jiff::RoundMode::Trunc))
            }
            TimeStep::Day => at.start_of_day(),
            TimeStep::Week => {
                let since_monday = i64::from(at.weekday().to_monday_zero_offset());
                at.checked_sub(since_monday.days()).and_then(|monday| monday.start_of_day())
            }
            TimeStep::Month => at.first_of_month().and_then(|first| first.start_of_day()),
        }
        .ok()
    }

    fn label(self, at: &Zoned) -> String {
        let form = match self {
            TimeStep::Hour => "%Y-%m-%d %H:%M",
            TimeStep::Day | TimeStep::Week => "%Y-%m-%d",
            TimeStep::Month => "%Y-%m",
        };
        at.strftime(form).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone() -> TimeZone {
        TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("a zone")
    }

    fn parse_local_time(text: &str) -> f64 {
        let local: jiff::civil::DateTime = text.parse().expect("a time");
        epoch_seconds(&local.to_zoned(zone()).expect("a time"))
    }

    #[test]
    fn time_steps_of_a_report_follow_the_time_zone() {
        let rows = [
            (
                TimeStep::Hour,
                "2026-03-29T00:30",
                "2026-03-29T04:00",
                "2026-03-29 00:00",
                "2026-03-29 03:00",
                3,
            ),
            (TimeStep::Day, "2026-03-28T12:00", "2026-03-31T00:01", "2026-03-28", "2026-03-31", 4),
            (TimeStep::Week, "2026-03-29T23:00", "2026-04-06T00:00", "2026-03-23", "2026-03-30", 2),
            (TimeStep::Month, "2025-12-31T00:00", "2026-03-01T00:01", "2025-12", "2026-03", 4),
        ];
        for (step, begin, end, first, last, many) in rows {
            let (labels, edges) = step
                .split_into_steps(parse_local_time(begin), parse_local_time(end), &zone())
                .expect("steps");
            let ends = [labels.first(), labels.last()].map(|label| label.map(String::as_str));
            assert_eq!((ends, labels.len()), ([Some(first), Some(last)], many), "{begin}");
            assert_eq!(edges.len(), many + 1);
            assert!(edges[0] <= parse_local_time(begin) && edges[many] >= parse_local_time(end), "{begin}");
        }
        // The day on which daylight saving time begins has 23 hours.
        let (_, edges) = TimeStep::Day
            .split_into_steps(
                parse_local_time("2026-03-29T00:00"),
                parse_local_time("2026-03-29T12:00"),
                &zone(),
            )
            .expect("steps");
        assert_eq!(edges[1] - edges[0], 23.0 * HOUR);
        let (labels, edges) = TimeStep::Hour.split_into_steps(0.0, 1e7, &zone()).expect("steps");
        assert_eq!((labels.len(), edges.len()), (MOST, MOST + 1), "the newest of many");
        assert!(edges[MOST] >= 1e7);
    }

    #[test]
    fn the_usage_of_a_job_is_spread_evenly_over_its_run_time() {
        let job = |from, to, usage| (0, Charge { account: 0, from, to, usage });
        let edges = [0.0, 10.0, 20.0, 30.0];
        let cells =
            sum_usage_by_step(&[job(5.0, 25.0, 40.0), job(10.0, 20.0, 7.0), job(-10.0, 10.0, 2.0)], &edges);
        let wanted = [((0, 0), 11.0), ((0, 1), 27.0), ((0, 2), 10.0)];
        assert_eq!(cells.into_iter().collect::<Vec<_>>(), wanted);
    }
}
