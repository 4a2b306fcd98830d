// SPDX-License-Identifier: LGPL-3.0-only
//! Deposits, and the spent amounts of budgets, computed from records in any order and in any number of runs.

use proptest::prelude::*;

use super::*;
use crate::pipeline::budgets::{self, Budgets};
use crate::store::{Deposit, PolicyData, StoreError};
use fairshare_protocol::records::{BudgetRecord, BudgetUnit};

/// The time of the last run. No job ends later.
const NOW: f64 = 60_000.0;
/// The windows of each budget: one before most jobs, and two adjacent ones. No window covers the time after
/// 57,000.
const WINDOWS: [(i64, i64); 3] = [(10, 20), (50_000, 54_000), (54_000, 57_000)];
const DAY: i128 = 86_400;

/// A job in whole milliseconds, so that a test can compute its charges in integers.
#[derive(Clone, Debug)]
struct TestJob {
    user: i64,
    /// The bank that the record names; empty if it names none.
    bank: &'static str,
    start_ms: i64,
    run_ms: i64,
    /// Time limit in milliseconds; 0 if the job has none.
    limit_ms: i64,
    nodes: u32,
    cores: u32,
    gpus: u32,
    /// True if the job is in the queue "debug", whose charge factor is 2 from 52,000 on and 0.25 from 55,000 on.
    in_debug: bool,
}

impl TestJob {
    fn end(&self) -> f64 {
        (self.start_ms + self.run_ms) as f64 / 1000.0
    }

    /// Returns the charge in `unit`.
    fn charge(&self, unit: BudgetUnit) -> i64 {
        let size = match unit {
            BudgetUnit::NodeHours => self.nodes,
            BudgetUnit::CoreHours => self.nodes * self.cores,
            BudgetUnit::GpuHours => self.nodes * self.gpus,
        };
        let limit = if self.limit_ms == 0 { i64::MAX } else { self.limit_ms };
        let charge = i64::from(size) * self.run_ms.min(limit);
        match self.start_ms {
            52_000_000..55_000_000 if self.in_debug => 2 * charge,
            55_000_000.. if self.in_debug => (charge + 2) / 4,
            _ => charge,
        }
    }

    /// Returns the bank in which the job counts. The default bank of user 3 is B, and the default bank of the others is C, which is below A.
    fn bank(&self) -> &'static str {
        match (self.bank, self.user) {
            ("", 3) => "B",
            ("", _) => "C",
            (bank, _) => bank,
        }
    }

    /// Returns true if the budget `target` counts the job.
    fn is_in(&self, target: &BudgetRecord) -> bool {
        let user = format!("u{}", self.user);
        match target.scope.as_str() {
            "bank" => match target.name.as_str() {
                "root" => true,
                "A" => ["A", "C"].contains(&self.bank()),
                name => self.bank() == name,
            },
            "user" => user == target.name,
            _ => format!("{user}/{}", self.bank()) == target.name,
        }
    }
}

/// Makes a site with the banks root, A, B, and C below A. Users 1 and 2 are in A and C, and C is their
/// default bank. User 3 is in B.
pub(super) fn make_site(name: &str) -> Site {
    let site = Site::new(name);
    site.run_sql(
        "INSERT INTO bank_table (bank, parent_bank) VALUES ('C', 'A');
         ALTER TABLE association_table ADD COLUMN max_running_jobs int DEFAULT 5;
         ALTER TABLE association_table ADD COLUMN max_active_jobs int DEFAULT 7;
         CREATE TABLE fairshare_charge_table (queue TEXT, since REAL, factor REAL);
         INSERT INTO fairshare_charge_table VALUES ('debug', 52000, 2), ('debug', 55000, 0.25)",
    );
    for user in [1, 2] {
        site.add_user(user, "C");
    }
    site.run_sql("UPDATE association_table SET default_bank = 'C' WHERE userid IN (1, 2)");
    site
}

fn insert(site: &Site, id: usize, job: &TestJob) {
    let ids = |count: u32| (0..count).map(|id| id.to_string()).collect::<Vec<_>>().join(",");
    let start = job.start_ms as f64 / 1000.0;
    let r = format!(
        r#"{{"version": 1, "execution": {{"R_lite": [{{"rank": "{}", "children": {{"core": "{}", "gpu": "{}"}}}}],
            "starttime": {start}, "expiration": 0.0}}}}"#,
        ids(job.nodes),
        ids(job.cores),
        ids(job.gpus),
    );
    let queue = if job.in_debug { "debug" } else { "batch" };
    let jobspec = format!(r#"{{"attributes": {{"system": {{"queue": "{queue}"}}}}}}"#);
    // The record has a later t_run than R. The charge begins with the start in R.
    Connection::open(&site.path)
        .expect("a database")
        .execute(
            "INSERT INTO jobs VALUES (?1, ?2, 0, ?3, ?4, '0', ?5, ?8, '', ?6, ?7, 0)",
            (
                id.to_string(),
                job.user,
                start + 0.0625,
                job.end(),
                r,
                job.bank,
                job.limit_ms as f64 / 1000.0,
                jobspec,
            ),
        )
        .expect("a record");
}

pub(super) fn add_deposit(site: &Site, budget: BudgetRecord) -> Result<i64, StoreError> {
    let mut database = Database::open(&site.path, Access::Write, Duration::ZERO).expect("a database");
    let snapshot = database.snapshot().expect("a snapshot");
    let id = snapshot.add_deposit(&Deposit {
        id: 0,
        budget,
        reason: "half a year".to_owned(),
        author: "ann".to_owned(),
        created: 5,
        job: String::new(),
    })?;
    snapshot.commit().expect("a commit");
    Ok(id)
}

/// Returns a budget with a deposit of `milliseconds`.
pub(super) fn budget(
    scope: &str,
    name: &str,
    unit: BudgetUnit,
    window: (i64, i64),
    milliseconds: i64,
) -> BudgetRecord {
    BudgetRecord {
        scope: scope.to_owned(),
        name: name.to_owned(),
        unit,
        start: window.0,
        end: window.1,
        deposited: milliseconds,
        spent: 0,
        rate: 0,
    }
}

fn list_deposits(site: &Site) -> Vec<BudgetRecord> {
    let mut database = Database::open(&site.path, Access::Read, Duration::ZERO).expect("a database");
    let deposits = database.snapshot().expect("a snapshot").deposits().expect("deposits");
    deposits.into_iter().map(|deposit| deposit.budget).collect()
}

#[test]
fn deposits_are_never_changed_deleted_or_replaced() {
    let site = Site::new("budgets-kept");
    assert_eq!(list_deposits(&site), []);
    let given = budget("bank", "A", BudgetUnit::NodeHours, (10, 20), -1_800_000);
    assert_eq!(add_deposit(&site, given.clone()).expect("a deposit"), 1);
    let connection = Connection::open(&site.path).expect("a database");
    for (sql, what) in [
        ("UPDATE fairshare_deposit_table SET milliseconds = 7", "never changed"),
        ("DELETE FROM fairshare_deposit_table", "never deleted"),
        (
            "INSERT OR REPLACE INTO fairshare_deposit_table SELECT * FROM fairshare_deposit_table",
            "never replaced",
        ),
    ] {
        let error = connection.execute_batch(sql).expect_err(sql).to_string();
        assert!(error.contains(what), "{error}");
    }
    assert_eq!(list_deposits(&site), [given]);
}

#[test]
fn a_removed_budget_is_ignored_and_a_new_deposit_may_use_another_window() {
    let site = make_site("budgets-removed");
    let make = |unit, window, milliseconds| budget("bank", "A", unit, window, milliseconds);
    let nodes = |window, milliseconds| make(BudgetUnit::NodeHours, window, milliseconds);
    let other = make(BudgetUnit::CoreHours, (10, 20), 1);
    let steps = [nodes((10, 20), 5), nodes((30, 40), 6), other.clone(), nodes((10, 20), 0)];
    steps.into_iter().for_each(|step| _ = add_deposit(&site, step).expect("a deposit"));
    let count_all = || count(&site, NOW).1.all;
    assert_eq!(count_all(), std::slice::from_ref(&other));
    add_deposit(&site, nodes((15, 35), 7)).expect("a deposit in a new window");
    add_deposit(&site, nodes((30, 40), 8)).expect_err("an overlapping window");
    assert_eq!(count_all(), [nodes((15, 35), 7), other]);
    assert_eq!(list_deposits(&site).len(), 5);
}

#[test]
fn the_table_of_deposits_accepts_only_what_a_push_can_send() {
    let site = Site::new("budgets-checks");
    let valid = budget("bank", "A", BudgetUnit::NodeHours, (100, 200), 5);
    add_deposit(&site, valid.clone()).expect("a deposit");
    let connection = Connection::open(&site.path).expect("a database");
    let good = ["'bank'", "'A'", "'node-hours'", "5", "100", "200", "'why'", "'ann'", "0", "''"];
    for (column, value) in [
        (0, "'queue'"),
        (1, "x'41'"),
        (2, "'jobs'"),
        (3, "1.5"),
        (3, "1000000000000000001"),
        (4, "-1"),
        (4, "200"),
        (5, "100000000001"),
        (5, "'soon'"),
        (6, "x'41'"),
        (8, "'now'"),
    ] {
        let mut row = good;
        row[column] = value;
        let sql = format!("INSERT INTO fairshare_deposit_table VALUES (NULL, {})", row.join(", "));
        let error = connection.execute_batch(&sql).expect_err(&sql).to_string();
        assert!(error.contains("CHECK") || error.contains("overlaps"), "{sql}: {error}");
    }
    let sql = format!("INSERT INTO fairshare_deposit_table VALUES (NULL, {})", good.join(", "));
    connection.execute_batch(&sql).expect("the row without an error");
    assert_eq!(list_deposits(&site), [valid.clone(), valid]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn accepted_windows_are_equal_or_disjoint(windows in prop::collection::vec((0_i64..12, 1_i64..4), 1..12)) {
        let site = Site::new("budgets-windows");
        add_deposit(&site, budget("bank", "A", BudgetUnit::GpuHours, (0, 99), 1)).expect("another unit");
        add_deposit(&site, budget("bank", "B", BudgetUnit::NodeHours, (0, 99), 1)).expect("another bank");
        let mut accepted: Vec<(i64, i64)> = Vec::new();
        for (start, length) in windows {
            let window = (start, start + length);
            let is_disjoint = |other: &(i64, i64)| (window.0..window.1).all(|at| at < other.0 || at >= other.1);
            let fits = accepted.iter().all(|other| *other == window || is_disjoint(other));
            let added = add_deposit(&site, budget("bank", "A", BudgetUnit::NodeHours, window, 1));
            prop_assert_eq!(added.is_ok(), fits, "{:?}", added);
            accepted.extend(fits.then_some(window));
        }
    }
}

fn deposit(site: &Site, scope: &str, name: &str, unit: BudgetUnit, window: (i64, i64), seconds: i64) {
    add_deposit(site, budget(scope, name, unit, window, 1000 * seconds)).expect("a deposit");
}

fn count(site: &Site, now: f64) -> (PolicyData, Budgets) {
    let mut database = Database::open(&site.path, Access::Read, Duration::ZERO).expect("a database");
    let snapshot = database.snapshot().expect("a snapshot");
    let data = snapshot.policy_data(now).expect("data");
    let budgets = Budgets::count(&snapshot, Some(&data), &[], now).expect("budgets");
    (data, budgets)
}

fn push(site: &Site, now: f64) -> (Vec<BudgetRecord>, Vec<String>) {
    let mut database = Database::open(&site.path, Access::Read, Duration::ZERO).expect("a database");
    let snapshot = database.snapshot().expect("a snapshot");
    let mut data = snapshot.policy_data(now).expect("data");
    let notes = budgets::add_to_push(&snapshot, &mut data, now).expect("budgets");
    (data.budgets, notes)
}

fn job(user: i64, bank: &'static str, start: i64, run: i64) -> TestJob {
    TestJob {
        user,
        bank,
        start_ms: start * 1000,
        run_ms: run * 1000,
        limit_ms: 0,
        nodes: 1,
        cores: 4,
        gpus: 0,
        in_debug: false,
    }
}

fn spent(site: &Site, now: f64) -> Vec<i64> {
    count(site, now).1.all.iter().map(|budget| budget.spent).collect()
}

fn generate_job() -> impl Strategy<Value = TestJob> {
    let times = (49_000_000_i64..58_000_000, 0_i64..2_000_000, prop_oneof![Just(0), 1_i64..2_000_000]);
    let place = prop_oneof![
        Just((1, "A")),
        Just((1, "C")),
        Just((2, "A")),
        Just((1, "")),
        Just((2, "")),
        Just((3, "B")),
        Just((3, "")),
    ];
    (times, place, 1_u32..5, 0_u32..4, 0_u32..3, any::<bool>()).prop_map(
        |((start_ms, run_ms, limit_ms), place, nodes, cores, gpus, in_debug)| {
            let (user, bank) = place;
            TestJob { user, bank, start_ms, run_ms, limit_ms, nodes, cores, gpus, in_debug }
        },
    )
}

/// Asserts that each budget has spent the charges of the jobs that `is_covered` selects.
fn assert_spent_amounts(budgets: &[BudgetRecord], jobs: &[TestJob], is_covered: impl Fn(&TestJob) -> bool) {
    for budget in budgets {
        let starts_inside = |job: &&TestJob| {
            (budget.start * 1000..budget.end * 1000).contains(&job.start_ms)
                && job.is_in(budget)
                && is_covered(job)
        };
        let expected: i64 = jobs.iter().filter(starts_inside).map(|job| job.charge(budget.unit)).sum();
        assert_eq!(budget.spent, expected, "{budget:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_order_of_records_and_any_split_of_syncs_gives_the_same_spent_amounts(
        jobs in prop::collection::vec(generate_job(), 1..20),
        order in Just((0..20).collect::<Vec<usize>>()).prop_shuffle(),
        splits in prop::collection::vec(any::<bool>(), 20),
    ) {
        let site = make_site("budgets-any");
        for window in WINDOWS {
            deposit(&site, "bank", "root", BudgetUnit::NodeHours, window, 18_000_000);
            deposit(&site, "bank", "A", BudgetUnit::CoreHours, window, 1800);
            deposit(&site, "bank", "C", BudgetUnit::NodeHours, window, -7200);
            deposit(&site, "user", "u1", BudgetUnit::GpuHours, window, 3600);
            deposit(&site, "association", "u2/C", BudgetUnit::CoreHours, window, 3600);
        }
        deposit(&site, "bank", "root", BudgetUnit::NodeHours, WINDOWS[1], -900);
        let mut known = Vec::new();
        for (at, is_last) in order.into_iter().filter(|at| *at < jobs.len()).zip(splits) {
            insert(&site, at, &jobs[at]);
            known.push(jobs[at].clone());
            if is_last {
                site.run(NOW).expect("a run");
                let (data, budgets) = count(&site, NOW);
                assert_spent_amounts(&budgets.all, &known, |job| {
                    data.associations.iter().any(|found| {
                        found.userid == job.user && found.bank == job.bank() && Some(job.end()) <= found.counted_until
                    })
                });
            }
        }
        site.run(NOW).expect("a run");
        let (_, budgets) = count(&site, NOW);
        prop_assert_eq!(budgets.all.len(), 15);
        prop_assert_eq!(&budgets.notes, &Vec::<String>::new());
        assert_spent_amounts(&budgets.all, &jobs, |_| true);
        let root = budgets.all.iter().find(|budget| budget.name == "root" && budget.start == 50_000);
        prop_assert_eq!(root.map(|budget| budget.deposited), Some(17_999_100_000));
        let rate = jobs.iter().map(|job| i128::from(job.charge(BudgetUnit::NodeHours))).sum::<i128>();
        prop_assert_eq!(root.map(|budget| budget.rate.into()), Some((rate + 3) / 7));
    }
}

#[test]
fn a_budget_counts_only_jobs_included_in_the_association_usage() {
    let site = make_site("budgets-watermark");
    deposit(&site, "bank", "root", BudgetUnit::NodeHours, WINDOWS[1], 3600);
    insert(&site, 1, &job(1, "A", 50_000, 100));
    insert(&site, 2, &job(3, "B", 50_000, 300));
    assert_eq!(spent(&site, 51_000.0), [0], "no association has counted jobs before the first run");
    site.run(51_000.0).expect("a run");
    assert_eq!(spent(&site, 51_000.0), [400_000]);
    // Until the next run, the plugin charges job 3 because it ended after the last run. The database charges
    // job 4 at once, because job 4 ended before that run.
    insert(&site, 3, &job(1, "A", 50_000, 200));
    insert(&site, 4, &job(1, "A", 50_010, 10));
    assert_eq!(spent(&site, 51_000.0), [410_000]);
    site.run(51_000.0).expect("a run");
    assert_eq!(spent(&site, 51_000.0), [610_000]);
}

#[test]
fn a_job_spends_from_the_window_in_which_it_starts() {
    let site = make_site("budgets-window");
    for window in [WINDOWS[1], WINDOWS[2]] {
        deposit(&site, "bank", "A", BudgetUnit::NodeHours, window, 3600);
    }
    for (id, start) in [(1, 49_999), (2, 50_000), (3, 53_999), (4, 54_000), (5, 56_999), (6, 57_000)] {
        insert(&site, id, &job(1, "A", start, 1 << id));
    }
    site.run(NOW).expect("a run");
    assert_eq!(spent(&site, NOW), [12_000, 48_000]);
}

#[test]
fn a_job_is_charged_up_to_its_time_limit_in_whole_milliseconds() {
    let site = make_site("budgets-limit");
    deposit(&site, "bank", "A", BudgetUnit::CoreHours, WINDOWS[1], 3600);
    let rows = [(1_234, 0, 1_234), (1_234, 1_000, 1_000), (999, 1_000, 999), (0, 5, 0)];
    for (id, (run_ms, limit_ms, _)) in rows.into_iter().enumerate() {
        insert(&site, id, &TestJob { run_ms, limit_ms, nodes: 3, ..job(1, "A", 50_000 + id as i64, 0) });
    }
    site.run(NOW).expect("a run");
    assert_eq!(spent(&site, NOW), [12 * rows.iter().map(|row| row.2).sum::<i64>()]);
    // Older schemas have the time limit in the jobspec only.
    site.run_sql(
        r#"UPDATE jobs SET jobspec = '{"attributes": {"system": {"duration": ' || requested_duration || '}}}';
           ALTER TABLE jobs DROP COLUMN requested_duration"#,
    );
    assert_eq!(spent(&site, NOW), [12 * rows.iter().map(|row| row.2).sum::<i64>()]);
}

#[test]
fn a_record_without_a_readable_r_is_reported_and_not_counted() {
    let site = make_site("budgets-unreadable");
    deposit(&site, "bank", "A", BudgetUnit::NodeHours, WINDOWS[1], 3600);
    for id in 1..=12 {
        insert(&site, id, &job(1, "A", 50_000, 100));
    }
    site.run(NOW).expect("a run");
    site.run_sql("UPDATE jobs SET R = 'broken' WHERE id != '3'");
    insert(&site, 20, &job(3, "B", 50_000, 100));
    site.run_sql("UPDATE jobs SET R = 'broken' WHERE id = '20'");
    let (_, budgets) = count(&site, NOW);
    assert_eq!(budgets.all[0].spent, 100_000);
    let note = "budgets: 11 job records have invalid resources or times and are not counted";
    assert_eq!(budgets.notes, [note], "no budget counts job 20");
}

#[test]
fn jobs_of_a_removed_association_still_count_in_the_banks_budget() {
    let site = make_site("budgets-removed");
    deposit(&site, "bank", "A", BudgetUnit::NodeHours, WINDOWS[1], 3600);
    deposit(&site, "user", "u1", BudgetUnit::NodeHours, WINDOWS[1], 3600);
    insert(&site, 1, &job(1, "A", 50_000, 100));
    site.run(NOW).expect("a run");
    assert_eq!(spent(&site, NOW), [100_000, 100_000]);
    site.run_sql("DELETE FROM association_table WHERE userid = 1");
    assert_eq!(spent(&site, NOW), [100_000, 0]);
    let (sent, notes) = push(&site, NOW);
    assert_eq!(sent.iter().map(|budget| budget.name.as_str()).collect::<Vec<_>>(), ["A"]);
    assert_eq!(
        notes,
        ["the budget of user u1 in node-hours is not sent, because u1 does not exist or shares a user id"]
    );
}

/// After `flux account edit-user --userid`, records still have the former user id.
#[test]
fn a_budget_counts_the_jobs_that_its_user_ran_under_a_former_user_id() {
    let site = make_site("budgets-former");
    let budgets = [("bank", "C"), ("association", "u1/C"), ("user", "u1")];
    for (scope, name) in budgets {
        deposit(&site, scope, name, BudgetUnit::NodeHours, WINDOWS[1], 3600);
    }
    insert(&site, 1, &job(1, "", 50_000, 100));
    site.run(NOW).expect("a run");
    assert_eq!(spent(&site, NOW), [100_000; 3]);
    site.run_sql("UPDATE association_table SET userid = 77 WHERE userid = 1");
    insert(&site, 2, &job(77, "", 50_100, 10));
    site.run(NOW).expect("a run");
    assert_eq!(spent(&site, NOW), [110_000; 3]);
    let mut database = Database::open(&site.path, Access::Read, Duration::ZERO).expect("a database");
    let snapshot = database.snapshot().expect("a snapshot");
    for (scope, name) in budgets {
        let budget = budget(scope, name, BudgetUnit::NodeHours, WINDOWS[1], 0);
        let charge = budgets::find_job_charge(&snapshot, &budget, 1).expect("records");
        assert_eq!(charge, Some((50_000.0, 100_000)), "a refund to {scope} {name}");
    }
}

#[test]
fn a_push_names_users_by_id_and_has_all_windows() {
    let site = make_site("budgets-push");
    assert_eq!(push(&site, NOW), (Vec::new(), Vec::new()), "a site without deposits pushes no budgets");
    deposit(&site, "association", "u2/C", BudgetUnit::GpuHours, WINDOWS[2], 7200);
    deposit(&site, "association", "u2/C", BudgetUnit::GpuHours, WINDOWS[0], 3600);
    deposit(&site, "user", "u3", BudgetUnit::NodeHours, WINDOWS[1], -3600);
    let (sent, notes) = push(&site, NOW);
    let shown: Vec<_> = sent
        .iter()
        .map(|sent| {
            (sent.scope.as_str(), sent.name.as_str(), sent.unit, (sent.start, sent.end), sent.deposited)
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("association", "2/C", BudgetUnit::GpuHours, WINDOWS[0], 3_600_000),
            ("association", "2/C", BudgetUnit::GpuHours, WINDOWS[2], 7_200_000),
            ("user", "3", BudgetUnit::NodeHours, WINDOWS[1], -3_600_000),
        ]
    );
    assert!(notes.is_empty());
    let text = serde_json::to_string(&sent).expect("JSON");
    let read = fairshare_protocol::records::budget::read_budgets(serde_json::from_str(&text).expect("JSON"));
    let read: Vec<BudgetRecord> = read.expect("budgets").iter().map(BudgetRecord::from).collect();
    assert_eq!(read, sent, "the plugin accepts what a push sends");
}

#[test]
fn a_push_without_a_tree_has_no_budgets() {
    let site = make_site("budgets-no-tree");
    deposit(&site, "bank", "A", BudgetUnit::NodeHours, WINDOWS[1], 3600);
    site.run_sql("ALTER TABLE bank_table DROP COLUMN shares");
    let (sent, notes) = push(&site, NOW);
    assert_eq!(sent, []);
    assert_eq!(notes, ["budgets are not sent, because the banks and associations form no tree"]);
}

#[test]
fn a_push_has_one_budget_for_users_who_share_a_user_id() {
    let site = make_site("budgets-shared-id");
    site.run_sql("UPDATE association_table SET userid = 3 WHERE userid = 2");
    for user in ["u2", "u3"] {
        deposit(&site, "user", user, BudgetUnit::NodeHours, WINDOWS[1], 3600);
        deposit(&site, "user", user, BudgetUnit::NodeHours, WINDOWS[2], 3600);
    }
    let (sent, notes) = push(&site, NOW);
    assert_eq!(
        sent.iter().map(|sent| (sent.name.as_str(), sent.start)).collect::<Vec<_>>(),
        [("3", 50_000), ("3", 54_000)]
    );
    assert_eq!(
        notes,
        ["the budget of user u3 in node-hours is not sent, because u3 does not exist or shares a user id"]
    );
}

#[test]
fn the_budget_rate_is_the_spending_of_the_last_seven_days() {
    let site = make_site("budgets-rate");
    let now = 60_000.0 + 20.0 * DAY as f64;
    deposit(&site, "bank", "A", BudgetUnit::NodeHours, WINDOWS[1], 3600);
    let week = 60_000 + 13 * DAY as i64;
    insert(&site, 1, &job(1, "A", week - 100, 170));
    insert(&site, 2, &job(1, "A", week - 100, 90));
    insert(&site, 3, &job(3, "B", week, 1000));
    site.run(now).expect("a run");
    let (_, budgets) = count(&site, now);
    assert_eq!((budgets.all[0].rate, budgets.all[0].spent, budgets.last_day[0]), (10_000, 0, 0));
    // Half of the run is in the last 24 hours.
    insert(&site, 4, &job(1, "A", now as i64 - DAY as i64 - 50, 100));
    site.run(now).expect("a run");
    let day = &count(&site, now).1.last_day;
    assert_eq!(day[0], 50_000);
    let budget = BudgetRecord { deposited: 50_000, start: 0, end: 1 << 40, ..budgets.all[0].clone() };
    let lasts_until = |budget: BudgetRecord| budgets::lasts_until(&budget, now);
    assert_eq!(lasts_until(budget.clone()), Some(now + 5.0 * DAY as f64));
    assert_eq!(lasts_until(BudgetRecord { end: now as i64 + 9, ..budget.clone() }), Some(now + 9.0));
    assert_eq!(lasts_until(BudgetRecord { rate: 0, ..budget.clone() }), Some((1_i64 << 40) as f64));
    assert_eq!(lasts_until(BudgetRecord { spent: 50_000, ..budget.clone() }), None, "nothing is left");
    assert_eq!(lasts_until(BudgetRecord { end: 10, ..budget }), None, "the window is over");
}

#[test]
fn a_removed_job_record_is_reported_until_the_spent_amount_is_corrected() {
    let site = make_site("budgets-compare");
    deposit(&site, "bank", "A", BudgetUnit::NodeHours, WINDOWS[1], 3600);
    insert(&site, 1, &job(1, "A", 50_000, 100));
    insert(&site, 2, &job(1, "A", 50_000, 200));
    site.run(NOW).expect("a run");
    // Computes the spent amount from the job records, and stores it. Lowers a stored amount only if `can_lower` is
    // true. Returns the amount that was stored before, the computed amount, and the number of messages.
    let compare = |can_lower| {
        let mut database = Database::open(&site.path, Access::Write, Duration::ZERO).expect("a database");
        let snapshot = database.snapshot().expect("a snapshot");
        let budgets = Budgets::count(&snapshot, None, &[], NOW).expect("budgets");
        let stored =
            snapshot.read_spent_amount(&budgets.all[0]).expect("an amount").map(|(stored, _)| stored);
        budgets.store_spent_amounts(&snapshot, can_lower).expect("stored");
        snapshot.commit().expect("a commit");
        (stored, budgets.all[0].spent, budgets.notes.len())
    };
    assert_eq!(compare(false), (None, 300_000, 0), "no sync has stored an amount");
    assert_eq!(compare(false), (Some(300_000), 300_000, 0));
    let file = || std::fs::read(&site.path).expect("a file");
    let before = file();
    assert_eq!(compare(true), (Some(300_000), 300_000, 0));
    assert!(before == file(), "without a change, the database stays as it is");
    site.run_sql("UPDATE jobs SET t_inactive = t_inactive - 0.001 WHERE id = '1'");
    assert_eq!(compare(false), (Some(300_000), 299_999, 1), "one millisecond less");
    site.run_sql("DELETE FROM jobs WHERE id = '2'");
    assert_eq!(compare(false), (Some(300_000), 99_999, 1), "the amount is not lowered");
    assert_eq!(compare(true), (Some(300_000), 99_999, 1));
    assert_eq!(compare(false), (Some(99_999), 99_999, 0));
}

#[test]
fn scrub_makes_the_spent_amount_of_an_ended_window_final() {
    let site = make_site("budgets-over");
    deposit(&site, "bank", "A", BudgetUnit::NodeHours, WINDOWS[1], 3600);
    deposit(&site, "bank", "A", BudgetUnit::NodeHours, WINDOWS[2], 3600);
    insert(&site, 1, &job(1, "A", WINDOWS[1].0, 100));
    insert(&site, 2, &job(1, "A", WINDOWS[2].0, 200));
    let now = NOW + 1e6;
    site.run(now).expect("a run");
    let mut database = Database::open(&site.path, Access::Write, Duration::ZERO).expect("a database");
    let snapshot = database.snapshot().expect("a snapshot");
    let before = WINDOWS[2].0 as f64 + 1.0;
    assert_eq!(crate::pipeline::scrub::scrub(&snapshot, before, now).expect("a scrub").removed, 1);
    snapshot.commit().expect("a commit");
    drop(database);
    let (_, budgets) = count(&site, now);
    let spent: Vec<i64> = budgets.all.iter().map(|budget| budget.spent).collect();
    assert_eq!((spent, &budgets.notes[..]), (vec![100_000, 200_000], &[][..]));
}

#[test]
fn older_budget_tables_without_final_amounts_are_read_and_written() {
    let site = make_site("budgets-earlier");
    deposit(&site, "bank", "A", BudgetUnit::NodeHours, WINDOWS[1], 3600);
    let connection = Connection::open(&site.path).expect("a database");
    let sql = "DROP TRIGGER fairshare_deposit_table_overlap;
        CREATE TRIGGER fairshare_deposit_table_overlap BEFORE INSERT ON fairshare_deposit_table WHEN EXISTS (
            SELECT 1 FROM fairshare_deposit_table WHERE NOT (start = NEW.start AND \"end\" = NEW.\"end\"))
            BEGIN SELECT RAISE(ABORT, 'overlap'); END;
        CREATE TABLE fairshare_spent_table (scope TEXT NOT NULL, name TEXT NOT NULL, unit TEXT NOT NULL,
            start INTEGER NOT NULL, spent INTEGER NOT NULL, PRIMARY KEY (scope, name, unit, start));";
    connection.execute_batch(sql).expect("the tables of an earlier version");
    insert(&site, 1, &job(1, "A", WINDOWS[1].0, 100));
    site.run(NOW).expect("a run");
    let (_, budgets) = count(&site, NOW);
    let mut database = Database::open(&site.path, Access::Write, Duration::ZERO).expect("a database");
    let snapshot = database.snapshot().expect("a snapshot");
    budgets.store_spent_amounts(&snapshot, false).expect("stored");
    assert_eq!(snapshot.read_spent_amount(&budgets.all[0]).expect("an amount"), Some((100_000, false)));
    snapshot.mark_final(WINDOWS[1].0 as f64 + 1.0, NOW + 1e9).expect("a mark");
    assert_eq!(snapshot.read_spent_amount(&budgets.all[0]).expect("an amount"), Some((100_000, true)));
    snapshot.commit().expect("a commit");
    drop(database);
    let shifted = (WINDOWS[1].0 + 1, WINDOWS[1].1);
    let given = |window, milliseconds| budget("bank", "A", BudgetUnit::NodeHours, window, milliseconds);
    add_deposit(&site, given(WINDOWS[1], 0)).expect("a removal");
    add_deposit(&site, given(shifted, 7)).expect("a deposit in a new window");
}

#[test]
fn scrub_keeps_the_records_that_a_budget_in_force_counts() {
    let site = make_site("budgets-scrub");
    insert(&site, 1, &job(1, "A", 49_000, 100));
    insert(&site, 2, &job(1, "A", 50_000, 100));
    insert(&site, 3, &job(1, "A", 54_000, 100));
    let now = NOW + 1e6;
    site.run(now).expect("a run");
    let removable = |now| {
        let mut database = Database::open(&site.path, Access::Write, Duration::ZERO).expect("a database");
        let scrubbed = crate::pipeline::scrub::scrub(&database.snapshot().expect("a snapshot"), now, now);
        scrubbed.map(|found| (found.removed, found.needed, found.is_for_budget)).expect("a scrub")
    };
    assert_eq!(removable(now), (3, 0, false));
    deposit(&site, "bank", "A", BudgetUnit::NodeHours, (40_000, 49_500), 3600);
    assert_eq!(removable(now), (3, 0, false), "the window is over");
    deposit(&site, "bank", "A", BudgetUnit::NodeHours, (49_500, 1 << 36), 3600);
    assert_eq!(removable(now), (1, 2, true));
}
