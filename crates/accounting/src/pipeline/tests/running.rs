// SPDX-License-Identifier: LGPL-3.0-only
//! Running jobs count in usage reports and in the mean rates of budgets.

use super::budgets::{add_deposit, budget, make_site};
use super::continuous::{compute_expected_usage, make_site as make_pushable_site, pushed_usages};
use super::*;
use crate::pipeline::budgets::Budgets;
use crate::pipeline::compute_usages_with_half_life;
use crate::pipeline::fetch::RunningJob;
use crate::pipeline::report::{By, Query, Usage, Used};
use fairshare_protocol::records::BudgetUnit;

const NOW: f64 = 60_000.0;

/// Job 7 of user 1 names no bank, job 8 of user 3 is in queue debug, whose charge factor is 0.25, and job 10 was canceled before it ran.
const JOBS: &str = r#"{"jobs": [
    {"id": 7, "userid": 1, "t_run": 59900.0, "nnodes": 2, "ncores": 8}, {"id": 10, "userid": 3, "nnodes": 9},
    {"id": 8, "userid": 3, "t_run": 59000.0, "nnodes": 1, "ncores": 4, "bank": "B", "queue": "debug", "duration": 500.0},
    {"id": 9, "userid": 3, "t_run": 59000.0, "nnodes": 5, "ncores": 4, "bank": "B"}]}"#;

#[test]
fn a_running_job_without_a_record_counts_until_now_in_the_report() {
    let site = make_site("running-usage");
    site.add_job(9, 3, "B", 59_500.0, 500.0);
    let mut database = Database::open(&site.path, Access::Read, Duration::ZERO).expect("a database");
    let query = Query {
        since: 59_400.0,
        until: 59_990.0,
        whole: false,
        by: By::Bank,
        running: &RunningJob::parse(JOBS).expect("jobs"),
        now: NOW,
        users: &[],
        banks: &[],
        day: &|_| (String::new(), f64::INFINITY),
        name: &|_| String::new(),
    };
    let usage = Usage::new(&database.snapshot().expect("a snapshot"), &query).expect("usage");
    let c = Used { jobs: 1, nodes: 180.0, cores: 720.0, gpus: 0.0, running_jobs: 1, running_nodes: 180.0 };
    let b = Used { jobs: 2, nodes: 690.0, cores: 2760.0, gpus: 0.0, running_jobs: 1, running_nodes: 590.0 };
    assert_eq!(usage.lines.values().copied().collect::<Vec<_>>(), [b, c]);
}

#[test]
fn a_usage_report_names_the_present_user_of_an_id_that_an_inactive_user_had() {
    let site = Site::new("renamed");
    // flux-accounting has no command that renames a user, so a site adds a second user with the same id.
    site.run_sql(
        "UPDATE association_table SET active = 0 WHERE userid = 3;
         INSERT INTO association_table (username, userid, bank, default_bank) VALUES ('new3', 3, 'B', 'B')",
    );
    site.add_job(9, 3, "B", 59_500.0, 500.0);
    let mut database = Database::open(&site.path, Access::Read, Duration::ZERO).expect("a database");
    let query = Query {
        since: 0.0,
        until: f64::INFINITY,
        whole: false,
        by: By::User,
        running: &[],
        now: NOW,
        users: &["new3".to_owned()],
        banks: &[],
        day: &|_| (String::new(), f64::INFINITY),
        name: &|_| String::new(),
    };
    let usage = Usage::new(&database.snapshot().expect("a snapshot"), &query).expect("usage");
    assert_eq!(usage.lines.keys().map(|(user, _)| user.as_str()).collect::<Vec<_>>(), ["new3"]);
}

#[test]
fn a_usage_report_names_the_user_of_a_former_user_id() {
    let site = Site::new("former-report");
    site.add_job(9, 3, "", 59_500.0, 500.0);
    site.run_sql("UPDATE association_table SET userid = 77 WHERE userid = 3");
    let mut database = Database::open(&site.path, Access::Read, Duration::ZERO).expect("a database");
    let query = Query {
        since: 0.0,
        until: f64::INFINITY,
        whole: false,
        by: By::Association,
        running: &[],
        now: NOW,
        users: &["u3".to_owned()],
        banks: &["B".to_owned()],
        day: &|_| (String::new(), f64::INFINITY),
        name: &|userid| userid.to_string(),
    };
    let usage = Usage::new(&database.snapshot().expect("a snapshot"), &query).expect("usage");
    assert_eq!(usage.lines.into_keys().collect::<Vec<_>>(), [("u3".to_owned(), "B".to_owned())]);
}

#[test]
fn the_spending_rate_counts_a_running_job_up_to_its_time_limit() {
    let site = make_site("running-rate");
    add_deposit(&site, budget("bank", "B", BudgetUnit::NodeHours, (0, 100_000), 5)).expect("a deposit");
    let mut database = Database::open(&site.path, Access::Read, Duration::ZERO).expect("a database");
    let snapshot = database.snapshot().expect("a snapshot");
    let jobs: Vec<RunningJob> = RunningJob::parse(JOBS).expect("jobs").into_iter().take(2).collect();
    let budgets = Budgets::count(&snapshot, None, &jobs, NOW).expect("budgets").all;
    // Job 8 has run for longer than its time limit of 500 s. The queue's factor is 0.25.
    assert_eq!((budgets[0].spent, budgets[0].rate), (0, 17_857));
}

#[test]
fn usage_with_another_half_life_counts_running_jobs_as_the_plugin_does() {
    let site = make_pushable_site("half-life-live");
    site.add_job(1, 1, "A", END - 900.0, 64.0);
    site.add_job(2, 2, "A", END - 100.0, 300.0);
    site.run(END + 100.0).expect("a run");
    let now = END + 400.0;
    let job = format!(
        r#"{{"jobs": [{{"id": 9, "userid": 3, "t_run": {}, "nnodes": 2, "ncores": 8}}]}}"#,
        now - 700.0
    );
    let jobs = RunningJob::parse(&job).expect("a job");
    let mut database = Database::open(&site.path, Access::Read, Duration::ZERO).expect("a database");
    let mut check = |half_life: f64, wanted: [f64; 3]| {
        let snapshot = database.snapshot().expect("a snapshot");
        let found = compute_usages_with_half_life(&snapshot, half_life, now, Some(&jobs)).expect("usages");
        let is_close = |((_, _, found), wanted): (&(String, String, f64), f64)| (found - wanted).abs() < 3.0;
        assert!(found.iter().zip(wanted).all(is_close), "{found:?}, not {wanted:?}");
    };
    let pushed = pushed_usages(&site, now);
    check(H, [pushed[0], pushed[1], 2.0 * compute_expected_usage(now, 700.0, now)]);
    // Halving the half-life doubles all times in half-lives.
    let halved = |ended: f64, used: f64| compute_expected_usage(2.0 * ended, 2.0 * used, 2.0 * now) / 2.0;
    check(H / 2.0, [halved(END - 900.0, 64.0), halved(END - 100.0, 300.0), 2.0 * halved(now, 700.0)]);
}
