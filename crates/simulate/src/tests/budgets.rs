// SPDX-License-Identifier: LGPL-3.0-only
//! Budgets hold jobs in a simulation as in the plugin.

use super::{make_host, make_owner_of_trace_job, make_scenario};
use crate::Trace;
use fairshare_engine::accounts::{Budget, Target};
use fairshare_engine::ids::Measure;

const BEGIN: i64 = 1_000_000_000;
/// A node-hour in unit-milliseconds.
const HOUR: i64 = 3_600_000;

/// All jobs have one node and a time limit of an hour, and run for half an hour. No job is submitted and no job ends when the second window
/// begins.
#[test]
fn a_job_starts_when_its_budget_covers_its_full_time_limit() {
    let mut trace = Trace::default();
    for (user, bank) in [(1, "a"), (1, "a"), (1, "a"), (2, "b")] {
        trace.push(make_owner_of_trace_job(user, bank), BEGIN as f64, (1800.0, 3600.0), [1, 1, 0]);
    }
    let mut scenario = make_scenario(16, &[("a", 1), ("b", 1)], &[(1, "a", 1), (2, "b", 1)]);
    let windows = [(0, 20_000, HOUR * 3 / 2), (20_000, 90_000, HOUR)];
    scenario.site.budgets = Vec::from(windows.map(|(start, end, deposited)| Budget {
        target: Target::Bank("a".into()),
        measure: Measure::NodeTime,
        start: BEGIN + start,
        end: BEGIN + end,
        deposited,
        spent: 0,
        rate: 0,
    }));
    let mut host = make_host(&trace, scenario);
    while host.step() {}
    let starts: Vec<f64> = host.starts.iter().map(|start| start - BEGIN as f64).collect();
    assert_eq!(starts, [0.0, 1800.0, 20_000.0, 0.0]);
}
