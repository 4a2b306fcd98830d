// SPDX-License-Identifier: LGPL-3.0-only
//! Prints the results of simulations: a row for each scenario, and rows for its banks and job sizes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::ValueEnum;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::html::page::Page;
use crate::html::simulate;
use crate::ui::output::{Facts, OutputArgs, Report};
use crate::ui::progress::Progress;
use crate::ui::rows::{Cell, Look, Rows, Style, ValueColumn, value_column};
use fairshare_simulate::{Group, Measures};

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
    /// The number of jobs without a run time, a size or a summary line.
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

/// A row: a scenario, or a group of its jobs.
pub(in crate::commands) struct Row<'a> {
    scenario: &'a str,
    measures: &'a Measures,
    /// The jobs of the row.
    jobs: &'a Group,
    by: &'static str,
    group: String,
    promised: Option<f64>,
    delivered: Option<f64>,
}

impl<'a> Row<'a> {
    /// Returns the row of a scenario.
    fn of_scenario(result: &'a ScenarioResult) -> Row<'a> {
        let (scenario, measures) = (result.name.as_str(), &result.measures);
        let (by, group, promised, delivered) = ("", String::new(), None, None);
        Row { scenario, measures, jobs: &measures.all, by, group, promised, delivered }
    }

    /// Returns the rows of groups.
    fn of_groups(result: &'a ScenarioResult, by: Option<GroupBy>) -> impl Iterator<Item = Row<'a>> {
        let banks = result.measures.banks.iter().map(|(bank, (jobs, share))| Row {
            jobs,
            by: "bank",
            group: bank.to_string(),
            promised: Some(share.promised),
            delivered: share.delivered,
            ..Row::of_scenario(result)
        });
        let sizes = result.measures.sizes.iter().map(|(most, jobs)| {
            let group =
                if *most == 1 { "1 core".to_owned() } else { format!("{} to {most} cores", most / 4 + 1) };
            Row { jobs, by: "size", group, ..Row::of_scenario(result) }
        });
        banks.chain(sizes).filter(move |row| by.is_none_or(|by| by.as_ref() == row.by))
    }
}

/// Returns the columns of waits and slowdowns.
fn make_spread_columns<'a>() -> [ValueColumn<'static, Row<'a>>; 8] {
    let (span, ratio) = (Style::Span, Style::Decimals(2));
    [
        value_column("wait_mean", "Wait", span, |row| row.jobs.wait.mean.into()),
        value_column("wait_p50", "50 %", span, |row| row.jobs.wait.p50.into()),
        value_column("wait_p95", "95 %", span, |row| row.jobs.wait.p95.into()),
        value_column("wait_p99", "99 %", span, |row| row.jobs.wait.p99.into()),
        value_column("slowdown_mean", "Slowdown", ratio, |row| row.jobs.slowdown.mean.into()),
        value_column("slowdown_p50", "50 %", ratio, |row| row.jobs.slowdown.p50.into()),
        value_column("slowdown_p95", "95 %", ratio, |row| row.jobs.slowdown.p95.into()),
        value_column("slowdown_p99", "99 %", ratio, |row| row.jobs.slowdown.p99.into()),
    ]
}

pub(in crate::commands) fn list_columns_of_scenario_table<'a>() -> Vec<ValueColumn<'static, Row<'a>>> {
    let of_jobs: [ValueColumn<'static, Row<'a>>; 4] = [
        value_column("scenario", "Scenario", Style::Text, |row| row.scenario.into()),
        value_column("jobs", "Jobs", Style::Count, |row| Cell::Count(row.jobs.jobs as u64)),
        value_column("rejected", "Rejected", Style::Count, |row| Cell::Count(row.measures.rejected as u64)),
        value_column("never", "Never ran", Style::Count, |row| Cell::Count(row.measures.never as u64)),
    ];
    let of_cluster: [ValueColumn<'static, Row<'a>>; 5] = [
        value_column("utilisation", "Used", Style::Percent, |row| row.measures.utilisation.into()),
        value_column("jain", "Jain", Style::Decimals(3), |row| row.measures.jain.into()),
        value_column("behind", "Behind", Style::Span, |row| row.measures.behind.into()),
        value_column("makespan", "Makespan", Style::Span, |row| row.measures.makespan.into()),
        value_column("refreshes", "Refreshes", Style::Count, |row| Cell::Count(row.measures.refreshes)),
    ];
    of_jobs.into_iter().chain(make_spread_columns()).chain(of_cluster).collect()
}

pub(in crate::commands) fn group_columns<'a>(by: Option<GroupBy>) -> Vec<ValueColumn<'static, Row<'a>>> {
    let title = if let Some(GroupBy::Size) = by { "Size" } else { "Bank" };
    let columns: [ValueColumn<'static, Row<'a>>; 6] = [
        value_column("scenario", "Scenario", Style::Text, |row| row.scenario.into()),
        value_column("by", "By", Style::Text, |row| row.by.into()),
        value_column("group", title, Style::Text, |row| row.group.as_str().into()),
        value_column("jobs", "Jobs", Style::Count, |row| Cell::Count(row.jobs.jobs as u64)),
        value_column("promised", "Promised", Style::Percent, |row| row.promised.into()),
        value_column("delivered", "Delivered", Style::Percent, |row| row.delivered.into()),
    ];
    let columns = columns.into_iter().filter(|one| by.is_none() || one.column.key != "by");
    columns.chain(make_spread_columns()).collect()
}

/// Returns the report. It has a row for each scenario, and a row for each group of jobs. If `by` is `None`, jobs are grouped by
/// bank and by size.
fn build_report<'a>(
    results: &'a [ScenarioResult],
    facts: &SimulationJsonFields,
    by: Option<GroupBy>,
) -> std::io::Result<Report<'a>> {
    let scenarios = results.iter().map(Row::of_scenario);
    let rows = Rows::new("scenarios", list_columns_of_scenario_table(), scenarios);
    let groups = results.iter().flat_map(move |result| Row::of_groups(result, by));
    let groups = Rows::new("groups", group_columns(by), groups);
    Ok(Report { facts: Facts::new(facts)?, rows, more: Some(groups), ..Report::default() })
}

/// Returns the JSON document that `--json` prints.
pub(super) fn build_document(
    results: &[ScenarioResult],
    facts: &SimulationJsonFields,
) -> std::io::Result<Vec<u8>> {
    build_report(results, facts, None)?.into_json()
}

pub(super) fn print(
    output: OutputArgs,
    by: Option<GroupBy>,
    results: &[ScenarioResult],
    facts: &SimulationJsonFields,
    before: Vec<String>,
    progress: Progress,
) -> std::io::Result<()> {
    let is_table = output.is_table();
    let shown = by.or(is_table.then_some(GroupBy::Bank)).filter(|_| !output.json);
    let mut report = Report { before, ..build_report(results, facts, shown)? };
    if !is_table && !output.json && by.is_some() {
        report.rows = report.more.take().unwrap_or(report.rows);
    }
    if is_table {
        report.notes = vec![
            "Wait and slowdown: mean, and 50th, 95th and 99th percentiles. Jain: how evenly banks got their promised shares; \
             1 is best. Behind: the longest time for which later jobs of the same size overtook a job."
                .to_owned(),
        ];
    }
    output.print_as(report, Look { give_up: &give_up(), ..Look::WHOLE }, progress)
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
