// SPDX-License-Identifier: LGPL-3.0-only
//! Replays of histories whose results can be computed by hand, or must not depend on options of `simulate`.

use std::io::Write;
use std::process::Command;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

use super::site::Site;
use super::{directory, fairshare, file};

/// Three jobs of one user on a cluster of four cores. The first runs on two cores for 100 s. The second is
/// submitted at 10 s and runs on four cores for 100 s. The third is submitted at 20 s and runs on two cores
/// for 50 s.
const THREE: &str = "; MaxProcs: 4\n; UnixStartTime: 1000000000\n\
    1 0 5 100 2 -1 -1 2 100 -1 1 1 1 -1 1 -1 -1 -1\n\
    2 10 5 100 4 -1 -1 4 100 -1 1 1 1 -1 1 -1 -1 -1\n\
    3 20 -1 50 2 -1 -1 2 50 -1 1 1 1 -1 1 -1 -1 -1\n";

fn run_simulation(path: &str, more: &str) -> Value {
    let arguments = ["simulate", "--trace", path, "--json"].into_iter().chain(more.split_whitespace());
    fairshare(arguments).json()
}

/// Returns a trace with three banks of four users each, whose jobs request more resources than the cluster
/// has.
fn make_busy_trace() -> String {
    let mut trace = "; MaxProcs: 64\n; MaxNodes: 4\n; UnixStartTime: 1600000000\n".to_owned();
    let mut seed: u64 = 3;
    let mut next = |end: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % end
    };
    for job in 0..300u64 {
        let (user, cores, run) = (next(12), 1 << next(6), 60 + next(3000));
        let (submit, group) = (job * 100, user % 3);
        trace += &format!(
            "{job} {submit} -1 {run} {cores} -1 -1 {cores} 4000 -1 1 {user} {group} -1 1 -1 -1 -1\n"
        );
    }
    trace
}

#[test]
fn results_of_a_small_history_equal_those_computed_by_hand() {
    let path = file("simulate_three", THREE);
    let document = run_simulation(&path, "--sweep scheduler=fcfs,easy");
    assert_eq!((&document["jobs"], &document["cores"]), (&3.into(), &4.into()));
    assert_eq!(document["recorded_wait_mean"], 5.0);
    let means = ["interarrival_mean", "run_mean", "cores_mean"].map(|key| document[key].as_f64().unwrap());
    assert_eq!(means, [10.0, 250.0 / 3.0, 8.0 / 3.0]);
    // Under fcfs, the jobs start at 0, 100 and 200 s. Under easy, the last job starts while the first job runs, because that delays no other job.
    let wanted = [
        ("scheduler=fcfs", 90.0, 180.0, 2.5, 0.7, 250.0),
        ("scheduler=easy", 30.0, 90.0, (1.0 + 1.9 + 1.0) / 3.0, 0.875, 200.0),
    ];
    let scenarios = document["scenarios"].as_array().unwrap();
    assert_eq!(scenarios.len(), wanted.len());
    for (row, (name, mean, worst, slowdown, used, makespan)) in scenarios.iter().zip(wanted) {
        assert_eq!(row["scenario"], name);
        for (key, value) in [
            ("jobs", 3.0),
            ("rejected", 0.0),
            ("wait_mean", mean),
            ("wait_p50", if mean == 90.0 { 90.0 } else { 0.0 }),
            ("wait_p99", worst),
            ("slowdown_mean", slowdown),
            ("utilisation", used),
            ("makespan", makespan),
            ("behind", 0.0),
        ] {
            let found = row[key].as_f64().unwrap();
            assert!((found - value).abs() < 1e-9, "{name}: {key} is {found}, not {value}");
        }
    }
    let sizes: Vec<(&str, u64)> = document["groups"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["by"] == "size" && row["scenario"] == wanted[0].0)
        .map(|row| (row["group"].as_str().unwrap(), row["jobs"].as_u64().unwrap()))
        .collect();
    assert_eq!(sizes, [("2 to 4 cores", 3)]);
}

#[test]
fn results_do_not_depend_on_threads_or_compression() {
    let text = make_busy_trace();
    let plain = file("simulate_busy", &text);
    let packed = directory("simulate_packed").join("busy.swf.gz");
    let mut encoder = GzEncoder::new(std::fs::File::create(&packed).unwrap(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap();
    let ran = |path: &str, threads: &str| {
        let sweep =
            ["--policy", "fair-tree,classic", "--sweep", "half-life=1h,7d", "--sweep", "refresh=300,1200"];
        let ran =
            fairshare(["simulate", "--trace", path, "--json", "--threads", threads].into_iter().chain(sweep));
        ran.ok().replace(path, "TRACE")
    };
    let first = ran(&plain, "1");
    for (path, threads) in [(plain.as_str(), "1"), (&plain, "4"), (packed.to_str().unwrap(), "2")] {
        assert_eq!(ran(path, threads), first, "{path} {threads}");
    }
    let document: Value = serde_json::from_str(&first).unwrap();
    let names: Vec<&str> = document["scenarios"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["scenario"].as_str().unwrap())
        .collect();
    assert_eq!(names.len(), 8);
    assert_eq!(
        names[..3],
        [
            "fair-tree half-life=1h refresh=300",
            "fair-tree half-life=1h refresh=1200",
            "fair-tree half-life=7d refresh=300"
        ]
    );
    let settings = &document["settings"][5]["settings"];
    assert_eq!(
        (&settings["policy"], &settings["half-life"], &settings["refresh"]),
        (&"classic".into(), &"1h".into(), &"1200".into())
    );
}

/// Without weights and limits, only the scheduler decides. The decisions must equal those of a simple
/// implementation.
#[test]
fn the_simulated_scheduler_decides_like_a_simple_implementation() {
    let path = file("simulate_oracle", make_busy_trace());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../t/scripts/easy.py");
    for how in ["fcfs", "easy"] {
        let oracle = Command::new("python3").args([script, &path, "64", how]).output();
        assert!(
            oracle.is_ok() || std::env::var_os("NO_PYTHON").is_some(),
            "no python3: NO_PYTHON=1 goes without"
        );
        let Ok(oracle) = oracle else { return };
        assert!(oracle.status.success(), "{oracle:?}");
        let wanted = String::from_utf8(oracle.stdout).unwrap();
        let document = run_simulation(&path, &format!("--scheduler {how} --sweep weights.fairshare=0"));
        let row = &document["scenarios"][0];
        let keys =
            ["wait_mean", "wait_p50", "wait_p95", "wait_p99", "slowdown_mean", "utilisation", "makespan"];
        assert_eq!(wanted.split_whitespace().count(), keys.len(), "{wanted}");
        for (key, wanted) in keys.into_iter().zip(wanted.split_whitespace()) {
            let (found, wanted) = (row[key].as_f64().unwrap(), wanted.parse::<f64>().unwrap());
            assert!((found - wanted).abs() <= 1e-9 * wanted, "{how}: {key} is {found}, not {wanted}");
        }
    }
}

/// Under full load, jobs of a bank with more shares wait less. A limit on a bank makes its jobs wait longer.
#[test]
fn simulated_waits_of_banks_depend_on_shares_and_limits() {
    let path = file("simulate_shares", make_busy_trace());
    let tree = file(
        "simulate_tree",
        r#"{"banks": [{"name": "root", "parent": null}, {"name": "group0", "parent": "root", "shares": 6},
            {"name": "group1", "parent": "root", "shares": 3}, {"name": "group2", "parent": "root", "shares": 1}],
            "associations": [USERS]}"#
            .replace(
                "USERS",
                &(0..12)
                    .map(|user| format!(r#"{{"user": "user{user}", "bank": "group{}", "shares": 1}}"#, user % 3))
                    .collect::<Vec<_>>()
                    .join(","),
            ),
    );
    let waits = |more: &str| -> Vec<(f64, f64)> {
        let document = run_simulation(&path, &format!("--tree {tree} --policy fair-tree {more}"));
        let rows = document["groups"].as_array().unwrap().iter().filter(|row| row["by"] == "bank");
        rows.map(|row| (row["promised"].as_f64().unwrap(), row["wait_mean"].as_f64().unwrap())).collect()
    };
    let by_shares = waits("");
    assert_eq!(by_shares.iter().map(|(promised, _)| *promised).collect::<Vec<_>>(), [0.6, 0.3, 0.1]);
    assert!(by_shares[0].1 < by_shares[1].1 && by_shares[1].1 < by_shares[2].1, "{by_shares:?}");
    let limited = waits("--sweep limits.bank.run-sched-cores=33");
    assert!(limited[0].1 > by_shares[0].1, "{limited:?} {by_shares:?}");
    let flat = waits("--sweep weights.fairshare=0");
    assert!((flat[0].1 - flat[2].1).abs() < (by_shares[0].1 - by_shares[2].1).abs(), "{flat:?}");
}

/// Returns a database with jobs of the users 1, 2 and 9. User 9 has no association.
fn make_database(test: &str) -> Site {
    let site = Site::new(
        test,
        &[("root", "", 1), ("A", "root", 1), ("B", "root", 3)],
        &[("ann", "A", 1, 9e9), ("ben", "B", 1, 0.0)],
    );
    site.sql(
        "UPDATE association_table SET userid = 1, max_running_jobs = 50, max_active_jobs = 50 WHERE username = 'ann';
         UPDATE association_table SET userid = 2, max_running_jobs = 50, max_active_jobs = 50 WHERE username = 'ben';
         CREATE TABLE jobs (id char(16) PRIMARY KEY, userid int, t_submit real, t_run real, t_inactive real, ranks text, R text,
            jobspec text, project text, bank text, requested_duration real, actual_duration real);",
    );
    let r = |cores: &str| {
        format!(
            r#"{{"version": 1, "execution": {{"R_lite": [{{"rank": "0-1", "children": {{"core": "{cores}"}}}}]}}}}"#
        )
    };
    let spec = r#"{"attributes": {"system": {"duration": 60, "queue": "batch"}}}"#;
    for (id, user, submit, run, end, r, bank) in [
        (3, 1, 1000.0, 1010.0, 1040.0, r("0-3"), ""),
        (4, 2, 1001.0, 1040.0, 1100.0, r("0-3"), "B"),
        (5, 9, 1002.0, 1100.0, 1160.0, r("0-3"), "B"),
        (6, 2, 1003.0, 0.0, 1003.0, r("0-3"), "B"),
    ] {
        let sql = "INSERT INTO jobs VALUES (?1, ?2, ?3, ?4, ?5, '0-1', ?6, ?7, '', ?8, 60, ?5 - ?4)";
        site.open().execute(sql, (id, user, submit, run, end, r, spec, bank)).unwrap();
    }
    site
}

#[test]
fn simulate_replays_the_jobs_of_a_database_on_its_associations() {
    let site = make_database("simulate_database");
    let before = site.bytes();
    let document = run_simulation(site.path(), "--nodes 2 --cores-per-node 4");
    // The cluster has two nodes of four cores. User 9 has no association, and one job never ran.
    let row = &document["scenarios"][0];
    assert_eq!(
        (&row["jobs"], &row["rejected"], &document["skipped"]),
        (&2.into(), &1.into(), &1.into()),
        "{document}"
    );
    assert_eq!((&row["wait_mean"], &row["makespan"]), (&(29.0 / 2.0).into(), &90.0.into()));
    assert_eq!(document["recorded_wait_mean"], (10.0 + 39.0 + 98.0) / 3.0);
    let delivered: Vec<(&str, f64, f64)> = document["groups"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["by"] == "bank")
        .map(|row| {
            (
                row["group"].as_str().unwrap(),
                row["promised"].as_f64().unwrap(),
                row["delivered"].as_f64().unwrap(),
            )
        })
        .collect();
    // Bank B had pending or running jobs from 1001 to 1090 s, and they ran in 60 of these 89 s.
    assert_eq!(delivered, [("A", 0.25, 1.0), ("B", 0.75, 480.0 / 712.0)]);
    assert_eq!(site.bytes(), before, "nothing is changed");
    let held = run_simulation(site.path(), "--nodes 2 --cores-per-node 4 --sweep max-running-jobs=0");
    assert_eq!((&held["scenarios"][0]["jobs"], &held["scenarios"][0]["never"]), (&0.into(), &2.into()));
}

#[test]
fn simulate_lists_scenarios_and_job_groups_in_tables_and_csv() {
    let path = file("simulate_forms", THREE);
    let table = fairshare(["simulate", "--trace", &path, "--sweep", "scheduler=fcfs,easy"]);
    let lines: Vec<&str> = table.ok().lines().collect();
    assert_eq!(lines[0], "3 jobs on 4 nodes with 4 cores.");
    assert!(lines[3].starts_with("Scenario"), "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("scheduler=fcfs ") && line.contains("1.5 min")));
    let csv = fairshare(["simulate", "--trace", &path, "--csv"]);
    assert!(csv.ok().starts_with("scenario,jobs,rejected,never,wait_mean,"), "{}", csv.out);
    assert_eq!(csv.out.lines().count(), 2);
    let sizes = fairshare(["simulate", "--trace", &path, "--csv", "--by", "size"]);
    assert_eq!(
        sizes.ok().lines().nth(1).unwrap(),
        "weighted-walk,2 to 4 cores,3,,,30,0,90,90,1.3,1,1.9,1.9",
        "{}",
        sizes.out
    );
}

#[test]
fn errors_name_their_cause() {
    let path = file("simulate_wrong", THREE);
    let bare = file("simulate_bare", THREE.lines().skip(1).collect::<Vec<_>>().join("\n"));
    let complaint = |path: &str, more: &str| {
        let ran = fairshare(["simulate", "--trace", path].into_iter().chain(more.split_whitespace()));
        assert_eq!((ran.status, ran.out.as_str()), (2, ""), "{more}: {ran:?}");
        ran.err
    };
    for (more, expected) in [
        ("--sweep refesh=30", "unknown key \"refesh\"; known are policy, scheduler,"),
        ("--sweep refresh=soon", "refresh: expected 0 to 36600 days, in seconds or as a duration"),
        ("--sweep refresh", "expected KEY=VALUE,VALUE,..."),
        ("--sweep weights.fairshar=3", "unknown factor \"fairshar\"; known are fairshare, queue"),
        ("--sweep weights.age=x", "weights.age: expected an integer"),
        ("--sweep limits.users.run-cores=3", "expected limits.SCOPE.MEASURE"),
        ("--sweep max-nodes=-1", "max-nodes: expected an integer from 0, got \"-1\""),
        ("--sweep half-life=1d --sweep half-life=2d", "--sweep: half-life is given twice"),
        ("--policy fairtre", "unknown policy \"fairtre\""),
        ("--scheduler best", "known are fcfs and easy"),
    ] {
        let found = complaint(&path, more);
        assert!(found.contains(expected), "{more}: {found}");
    }
    assert!(complaint(&bare, "").contains(
        "--nodes is missing: neither the history nor a Flux instance says how large the cluster is"
    ));
    let nothing = file("simulate_nothing", "; MaxProcs: 4\n");
    assert!(complaint(&nothing, "").ends_with("it has no jobs\n"));
    let text = file("simulate_text", "hello\n");
    assert!(complaint(&text, "--nodes 3").contains("line 1: \"hello\" is not a number: expected 18 numbers"));
    assert!(complaint("/nowhere/at/all", "").contains("/nowhere/at/all"));
}

/// Returns a trace of jobs of one core that are submitted at once, run for half an hour, and may run for an hour. `jobs` has the user and the
/// queue of each job.
fn make_trace_of_equal_jobs(jobs: &[(i64, i64)]) -> String {
    let mut trace = "; MaxProcs: 8\n; MaxNodes: 8\n; UnixStartTime: 1000000000\n".to_owned();
    for (user, queue) in jobs {
        trace += &format!("1 0 -1 1800 1 -1 -1 1 3600 -1 1 {user} 1 -1 {queue} -1 -1 -1\n");
    }
    trace
}

fn list_outcomes(document: &Value) -> Vec<(u64, u64, u64, f64)> {
    let count = |row: &Value, key: &str| row[key].as_u64().unwrap();
    let outcome = |row: &Value| {
        let [jobs, rejected, never] = ["jobs", "rejected", "never"].map(|key| count(row, key));
        (jobs, rejected, never, row["wait_mean"].as_f64().unwrap())
    };
    document["scenarios"].as_array().unwrap().iter().map(outcome).collect()
}

/// The budget begins after all jobs of the trace. In this case, simulate applies the budget to all jobs. When the first job ends, half a
/// node-hour of its charge is returned. The returned amount is enough for the second job, but not for the third.
#[test]
fn budgets_of_the_database_hold_or_reject_jobs_as_the_plugin_does() {
    let site = Site::small("simulate_budget");
    super::pipeline::add_jobs(&site);
    let deposit = ["budget", "deposit", "bank", "A", "1.5", "--until", "36500d", "--reason", "grant"];
    assert_eq!(fairshare(deposit.iter().chain(&["-p", site.path()])).status, 0);
    let path = file("simulate_budgeted", make_trace_of_equal_jobs(&[(1001, -1); 3]));
    let sweep = format!("-p {} --sweep budgets=hold,reject,warn", site.path());
    let wanted = [(2, 0, 1, 900.0), (1, 2, 0, 0.0), (3, 0, 0, 0.0)];
    assert_eq!(list_outcomes(&run_simulation(&path, &sweep)), wanted);
}

/// The budget pays for a job that is submitted an hour before the budget ends. A job that is submitted when the budget ends never starts,
/// and a note says why.
#[test]
fn a_budget_that_ended_before_the_history_is_reported() {
    let site = Site::small("simulate_expired");
    super::pipeline::add_jobs(&site);
    let deposit = ["budget", "deposit", "bank", "A", "1", "--from", "900000000", "--until", "1000000000"];
    let made = fairshare(deposit.iter().chain(&["--reason", "grant", "-p", site.path()]));
    assert_eq!(made.status, 0, "{made:?}");
    let note = "flux-fairshare: the budget of bank A in node-hours ended before the first submission, so it pays for no job\n";
    for (begin, started, note) in [(999_996_400, 1, ""), (1_000_000_000, 0, note)] {
        let trace = make_trace_of_equal_jobs(&[(1001, -1)]).replace("1000000000", &begin.to_string());
        let path = file("simulate_expired_trace", trace);
        let ran = fairshare(["simulate", "--trace", path.as_str(), "--json", "-p", site.path()]);
        let document: Value = serde_json::from_str(&ran.out).unwrap();
        let row = &document["scenarios"][0];
        assert_eq!((&row["jobs"], &row["never"]), (&started.into(), &(1 - started).into()), "{begin}");
        assert_eq!(ran.err, note, "{begin}");
    }
}

/// Two jobs of one core are submitted at once to a cluster of one core. The first is in queue 1 and runs for 100 s. The second is in queue 2 and
/// runs for 10 s.
#[test]
fn the_largest_priority_of_a_configuration_decides_which_job_starts_first() {
    let path = file(
        "simulate_ceiling",
        "; MaxProcs: 1\n; UnixStartTime: 1000000000\n\
         1 0 -1 100 1 -1 -1 1 100 -1 1 1 1 -1 1 -1 -1 -1\n2 0 -1 10 1 -1 -1 1 10 -1 1 1 1 -1 2 -1 -1 -1\n",
    );
    for (queue, wait) in [("queue1", 10.0 / 2.0), ("queue2", 100.0 / 2.0)] {
        let config = format!("[queues.{queue}]\n[fairshare.queues.{queue}]\nmax-priority = 1\n");
        let more = format!("--config {}", file("simulate_ceiling_conf", config));
        assert_eq!(list_outcomes(&run_simulation(&path, &more)), [(2, 0, 0, wait)], "{queue}");
    }
}

/// The deposit is 1.5 node-hours. With the charge factor 1, a job is charged one node-hour for its time limit. Half of this
/// charge is returned when the job ends.
#[test]
fn the_charge_factor_of_a_configuration_applies_to_budgets() {
    let site = Site::small("simulate_charge");
    super::pipeline::add_jobs(&site);
    let deposit = ["budget", "deposit", "bank", "A", "1.5", "--until", "36500d", "--reason", "grant"];
    assert_eq!(fairshare(deposit.iter().chain(&["-p", site.path()])).status, 0);
    let path = file("simulate_charged", make_trace_of_equal_jobs(&[(1001, 1); 3]));
    for (charge, outcome) in [("1", (2, 0, 1, 900.0)), ("0.5", (3, 0, 0, 0.0)), ("0.75", (3, 0, 0, 600.0))] {
        let config = format!("[queues.queue1]\n[fairshare.queues.queue1]\ncharge = {charge}\n");
        let more = format!("-p {} --config {}", site.path(), file("simulate_charge_conf", config));
        assert_eq!(list_outcomes(&run_simulation(&path, &more)), [outcome], "charge {charge}");
    }
}

/// Each job has a time limit of an hour, but queue 1 allows half an hour.
#[test]
fn simulate_rejects_jobs_too_large_for_their_queue_if_configured() {
    let site = Site::small("simulate_shapes");
    super::pipeline::add_jobs(&site);
    site.sql(
        "INSERT INTO queue_table (queue, max_time_per_job) VALUES ('queue1', 30), ('queue2', 60);
         UPDATE association_table SET queues = 'queue1,queue2'",
    );
    let path = file("simulate_shaped", make_trace_of_equal_jobs(&[(1001, 1), (1001, 2)]));
    for (is_enforced, outcome) in [(false, (2, 0, 0, 0.0)), (true, (1, 1, 0, 0.0))] {
        let config = format!("[fairshare]\nenforce-queue-shapes = {is_enforced}\n");
        let more = format!("-p {} --config {}", site.path(), file("simulate_shapes_conf", config));
        assert_eq!(list_outcomes(&run_simulation(&path, &more)), [outcome], "{is_enforced}");
    }
}

#[test]
fn simulate_applies_the_queue_settings_of_a_configuration() {
    let path = file("simulate_exempt", make_trace_of_equal_jobs(&[(1, 1), (1, 1), (1, 2), (1, 2)]));
    let queues = "[queues.queue1]\n[queues.queue2]\n[fairshare]\nrunning-limits = \"strict\"\n";
    let exempt = format!("{queues}[fairshare.queues.queue1]\nexempt = [\"association\"]\n");
    for (config, wait) in [(queues, (1800.0 + 3600.0 + 5400.0) / 4.0), (exempt.as_str(), 1800.0 / 4.0)] {
        let more = format!("--sweep max-running-jobs=1 --config {}", file("simulate_conf", config));
        assert_eq!(list_outcomes(&run_simulation(&path, &more)), [(4, 0, 0, wait)]);
        // A setting in --sweep takes precedence over the file.
        let more = format!("{more} --sweep running-limits=upstream,strict");
        assert_eq!(list_outcomes(&run_simulation(&path, &more)), [(4, 0, 0, 0.0), (4, 0, 0, wait)]);
    }
    let refused = file("simulate_refused", exempt.replace("association", "nobody"));
    let ran = fairshare(["simulate", "--trace", path.as_str(), "--config", refused.as_str()]);
    assert_eq!((ran.status, ran.out.as_str()), (2, ""));
    assert!(ran.err.contains(&refused) && ran.err.contains("fairshare.queues.queue1.exempt"), "{}", ran.err);
}

/// The fourth job requests more cores than the cluster has.
#[test]
fn a_rejected_job_does_not_extend_the_makespan() {
    let trace = THREE.to_owned() + "4 1000 -1 9 8 -1 -1 8 9 -1 1 1 1 -1 1 -1 -1 -1\n";
    let document = run_simulation(&file("simulate_rejected", trace), "");
    let row = &document["scenarios"][0];
    assert_eq!((&row["rejected"], &row["jobs"]), (&1.into(), &3.into()));
    assert_eq!((&row["makespan"], &row["utilisation"]), (&200.0.into(), &0.875.into()));
}

#[test]
fn the_cores_in_the_header_of_a_trace_are_divided_into_nodes() {
    let path = file("simulate_nodes", THREE);
    for (more, cluster) in [
        ("", (4, 4)),
        ("--cores-per-node 2", (2, 4)),
        ("--cores-per-node 3", (2, 4)),
        ("--nodes 3 --cores-per-node 2", (3, 6)),
    ] {
        let document = run_simulation(&path, more);
        assert_eq!(
            (&document["nodes"], &document["cores"]),
            (&cluster.0.into(), &cluster.1.into()),
            "{more}"
        );
    }
}
