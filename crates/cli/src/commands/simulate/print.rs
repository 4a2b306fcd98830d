// SPDX-License-Identifier: LGPL-3.0-only
//! Prints the results of simulations: a row for each scenario, and rows for its banks and job sizes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::ValueEnum;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::html::page::Page;
use crate::html::simulate;
use crate::ui::figures::number;
use crate::ui::output::{Facts, OutputArgs, Report};
use crate::ui::progress::Progress;
use crate::ui::rows::{Cell, Column, Look, Rows, Style, column};
use fairshare_simulate::{Distribution, Group, Measures};

/// Returns the columns that a table leaves out if it is too wide, the first ones first.
fn give_up() -> Vec<&'static str> {
    let keys = "refreshes slowdown_p50 wait_p50 slowdown_p99 wait_p99 never rejected slowdown_p95 \
        makespan wait_p95";
    keys.split(' ').collect()
}

/// How the second table groups jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, strum::AsRefStr)]
#[strum(serialize_all = "lowercase")]
pub(in crate::commands) enum GroupBy {
    /// Banks
    Bank,
    /// Sizes, in cores
    Size,
}

/// The JSON document without the rows. Times are those of the history; lengths of time are in seconds.
#[derive(Clone, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::commands) struct SimulationJsonFields {
    /// The file of the history.
    pub(super) trace: PathBuf,
    /// The number of replayed jobs.
    pub(super) jobs: usize,
    /// The number of jobs without a run time or a size.
    pub(super) skipped: usize,
    /// The nodes of the cluster.
    pub(super) nodes: u64,
    /// The cores of the cluster.
    pub(super) cores: u64,
    /// Whether the size of the cluster comes from the Flux instance.
    pub(super) cluster_of_instance: bool,
    /// The mean wait in the history.
    pub(super) recorded_wait_mean: Option<f64>,
    /// The mean time between two submissions.
    pub(super) interarrival_mean: Option<f64>,
    /// The mean run time.
    pub(super) run_mean: Option<f64>,
    /// The mean number of cores.
    pub(super) cores_mean: Option<f64>,
    pub(super) users: usize,
    pub(super) banks: usize,
    /// The time of the first submission.
    pub(super) first_submit: Option<f64>,
    /// The time of the last submission.
    pub(super) last_submit: Option<f64>,
    /// Cores times seconds of all jobs.
    pub(super) core_seconds: f64,
    /// The settings of each scenario.
    pub(super) settings: Vec<ScenarioSettings>,
}

/// The settings of a scenario.
#[derive(Clone, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ScenarioSettings {
    pub(super) scenario: String,
    /// The settings that differ between scenarios, by name.
    pub(super) settings: BTreeMap<String, String>,
}

pub(super) struct ScenarioResult {
    pub(super) name: String,
    pub(super) measures: Measures,
}

/// Formats times and ratios for people or for programs.
#[derive(Clone, Copy)]
struct Form {
    people: bool,
}

impl Form {
    fn time_cell(self, seconds: f64) -> Cell {
        if self.people { Cell::Text(format_span(seconds)) } else { Cell::Number(seconds) }
    }

    fn make_distribution_cells(self, spread: &Distribution) -> [Cell; 4] {
        [spread.mean, spread.p50, spread.p95, spread.p99].map(|seconds| self.time_cell(seconds))
    }

    fn ratio_cell(self, ratio: f64) -> Cell {
        match self.people {
            true if ratio >= 1000.0 => Cell::Text(number(format!("{ratio:.0}"))),
            true => Cell::Text(format!("{ratio:.2}")),
            false => Cell::Number(ratio),
        }
    }

    fn make_table_cells_of_group(self, group: &Group) -> impl Iterator<Item = Cell> {
        let Distribution { mean, p50, p95, p99 } = group.slowdown;
        let slowdown = [mean, p50, p95, p99].map(|ratio| self.ratio_cell(ratio));
        self.make_distribution_cells(&group.wait).into_iter().chain(slowdown)
    }

    fn scenario_cells(self, result: &ScenarioResult) -> Vec<Cell> {
        let Measures { all, rejected, never, utilisation, jain, behind, makespan, refreshes, .. } =
            &result.measures;
        let mut row = vec![
            Cell::Text(result.name.clone()),
            Cell::Count(all.jobs as u64),
            Cell::Count(*rejected as u64),
            Cell::Count(*never as u64),
        ];
        row.extend(self.make_table_cells_of_group(all));
        row.push(Cell::Number(*utilisation));
        row.push(jain.map_or(Cell::None, |jain| {
            if self.people { Cell::Text(format!("{jain:.3}")) } else { Cell::Number(jain) }
        }));
        row.extend([self.time_cell(*behind), self.time_cell(*makespan), Cell::Count(*refreshes)]);
        row
    }

    fn group_rows(self, result: &ScenarioResult, by: Option<GroupBy>) -> Vec<Vec<Cell>> {
        let banks = result.measures.banks.iter().map(|(bank, (group, share))| {
            ("bank", bank.to_string(), group, Some(share.promised), share.delivered)
        });
        let sizes = result.measures.sizes.iter().map(|(most, group)| {
            let name =
                if *most == 1 { "1 core".to_owned() } else { format!("{} to {most} cores", most / 4 + 1) };
            ("size", name, group, None, None)
        });
        let wanted = |kind: &str| by.is_none_or(|by| by.as_ref() == kind);
        let rows = banks.chain(sizes).filter(|(kind, ..)| wanted(kind));
        rows.map(|(kind, name, group, promised, delivered)| {
            let mut row = vec![Cell::Text(result.name.clone())];
            row.extend(by.is_none().then(|| Cell::Text(kind.to_owned())));
            row.extend([Cell::Text(name), Cell::Count(group.jobs as u64), promised.into(), delivered.into()]);
            row.extend(self.make_table_cells_of_group(group));
            row
        })
        .collect()
    }
}

/// Columns of waits and slowdowns.
fn make_spread_columns() -> [Column<'static>; 8] {
    [
        column("wait_mean", "Wait", Style::Signed),
        column("wait_p50", "50 %", Style::Signed),
        column("wait_p95", "95 %", Style::Signed),
        column("wait_p99", "99 %", Style::Signed),
        column("slowdown_mean", "Slowdown", Style::Signed),
        column("slowdown_p50", "50 %", Style::Signed),
        column("slowdown_p95", "95 %", Style::Signed),
        column("slowdown_p99", "99 %", Style::Signed),
    ]
}

pub(in crate::commands) fn list_columns_of_scenario_table() -> Vec<Column<'static>> {
    let mut columns = vec![
        column("scenario", "Scenario", Style::Text),
        column("jobs", "Jobs", Style::Count),
        column("rejected", "Rejected", Style::Count),
        column("never", "Never ran", Style::Count),
    ];
    columns.extend(make_spread_columns());
    columns.extend([
        column("utilisation", "Used", Style::Percent),
        column("jain", "Jain", Style::Signed),
        column("behind", "Behind", Style::Signed),
        column("makespan", "Makespan", Style::Signed),
        column("refreshes", "Refreshes", Style::Count),
    ]);
    columns
}

pub(in crate::commands) fn group_columns(by: Option<GroupBy>) -> Vec<Column<'static>> {
    let mut columns = vec![column("scenario", "Scenario", Style::Text)];
    columns.extend(by.is_none().then(|| column("by", "By", Style::Text)));
    let title = if let Some(GroupBy::Size) = by { "Size" } else { "Bank" };
    columns.extend([
        column("group", title, Style::Text),
        column("jobs", "Jobs", Style::Count),
        column("promised", "Promised", Style::Percent),
        column("delivered", "Delivered", Style::Percent),
    ]);
    columns.extend(make_spread_columns());
    columns
}

/// Returns the report. It has a row for each scenario, and a row for each group of jobs. If `by` is `None`, jobs are grouped by
/// bank and by size. If `people` is false, numbers have full precision.
fn build_report<'a>(
    results: &'a [ScenarioResult],
    facts: &SimulationJsonFields,
    by: Option<GroupBy>,
    people: bool,
) -> std::io::Result<Report<'a>> {
    let form = Form { people };
    let rows = Rows {
        key: "scenarios",
        columns: list_columns_of_scenario_table(),
        rows: Box::new(results.iter().map(move |result| form.scenario_cells(result))),
    };
    let groups = Rows {
        key: "groups",
        columns: group_columns(by),
        rows: Box::new(results.iter().flat_map(move |result| form.group_rows(result, by))),
    };
    Ok(Report { facts: Facts::new(facts)?, rows, more: Some(groups), ..Report::default() })
}

/// Returns the JSON document that `--json` prints.
pub(super) fn build_document(
    results: &[ScenarioResult],
    facts: &SimulationJsonFields,
) -> std::io::Result<Vec<u8>> {
    build_report(results, facts, None, false)?.into_json()
}

pub(super) fn print(
    output: OutputArgs,
    by: Option<GroupBy>,
    results: &[ScenarioResult],
    facts: &SimulationJsonFields,
    before: Vec<String>,
    progress: Progress,
) -> std::io::Result<()> {
    let people = output.is_table();
    let shown = by.or((people).then_some(GroupBy::Bank)).filter(|_| !output.json);
    let mut report = Report { before, ..build_report(results, facts, shown, people)? };
    if !people && !output.json && by.is_some() {
        report.rows = report.more.take().unwrap_or(report.rows);
    }
    if people {
        report.notes = vec![
            "Wait and slowdown: mean, and 50th, 95th and 99th percentiles. Jain: how evenly banks got their promised shares; \
             1 is best. Behind: the longest time for which later jobs of the same size overtook a job."
                .to_owned(),
        ];
    }
    output.print_as(report, Look { give_up: &give_up(), ..Look::WHOLE }, progress)
}

/// Formats seconds with about three digits and a unit.
pub(super) fn format_span(seconds: f64) -> String {
    let units = [(86_400.0, "d"), (3600.0, "h"), (60.0, "min")];
    let (size, unit) = units.into_iter().find(|(size, _)| seconds >= *size * 1.5).unwrap_or((1.0, "s"));
    let many = seconds / size;
    if many >= 100.0 || many == 0.0 {
        format!("{} {unit}", number(format!("{many:.0}")))
    } else {
        format!("{many:.1} {unit}")
    }
}

/// The data of the page.
#[derive(Serialize)]
struct Data<'a> {
    format: u32,
    program: &'static str,
    title: &'a str,
    simulation: &'a RawValue,
}

/// Returns the page. It has no date and no path, so that the same history makes the same page.
pub(super) fn build_html(
    title: &str,
    results: &[ScenarioResult],
    facts: &SimulationJsonFields,
) -> std::io::Result<String> {
    let name = facts.trace.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    // The page may be published, so it does not show the directory of the trace.
    let facts = SimulationJsonFields { trace: name.into(), ..facts.clone() };
    let simulation = build_document(results, &facts)?;
    let program = concat!("flux-fairshare ", env!("CARGO_PKG_VERSION"));
    let data = Data { format: 1, program, title, simulation: serde_json::from_slice(&simulation)? };
    Ok(Page { title, body: simulate::BODY, script: simulate::SCRIPT }.html(&serde_json::to_string(&data)?))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_time_has_a_unit_that_suits_its_size() {
        let spans = [0.0, 0.04, 89.0, 90.0, 5399.0, 5400.0, 129_600.0, 1e8].map(super::format_span);
        assert_eq!(spans, ["0 s", "0.0 s", "89.0 s", "1.5 min", "90.0 min", "1.5 h", "1.5 d", "1,157 d"]);
    }
}
