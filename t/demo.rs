// SPDX-License-Identifier: LGPL-3.0-only
//! The demo in the embedded job manager prints the data of its site, also after changes of the site.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "helpers of tests may fail as tests do"
)]

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::OnceLock;

use serde_json::{Value, json};

const SITE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../etc/demo-site.json");

/// The fair-share of each active association of the site by weighted-walk, computed by hand. chemistry has 20 % of the shares and 12.7 %
/// of the usage, physics 50 % and 39.7 %, biology 30 % and 47.6 %. In physics, alice has 2 shares and a fifth of the usage, dan has 1. In
/// biology all have equal shares; dan has the least usage and frank the most.
const FAIRSHARES: [(&str, &str, f64); 6] = [
    ("carol", "chemistry", 1.0),
    ("alice", "physics", 5.0 / 6.0),
    ("dan", "physics", 4.0 / 6.0),
    ("dan", "biology", 3.0 / 6.0),
    ("bob", "biology", 2.0 / 6.0),
    ("frank", "biology", 1.0 / 6.0),
];

/// Returns a copy of the plugin with the file name mf_priority.so.
fn plugin() -> PathBuf {
    static COPIED: OnceLock<PathBuf> = OnceLock::new();
    let copy = || {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("demo");
        std::fs::create_dir_all(&folder).expect("a folder");
        let named = folder.join("mf_priority.so");
        std::fs::copy(crate::built::plugin(), &named).expect("the plugin is copied");
        named
    };
    COPIED.get_or_init(copy).clone()
}

fn site() -> Value {
    serde_json::from_str(&std::fs::read_to_string(SITE).expect("the site")).expect("JSON")
}

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fairshare-embedded")).args(arguments).output().expect("it runs")
}

/// Returns the command flux-fairshare, which cargo builds.
fn build_command() -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["build", "-q", "-p", "flux-fairshare"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    assert!(cargo.status().expect("cargo runs").success(), "the command does not build");
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).with_file_name("debug").join("flux-fairshare")
}

/// Compiles the libraries of the demo. Returns their directory.
fn build_libraries() -> PathBuf {
    let folder = plugin().with_file_name("lib");
    std::fs::create_dir_all(&folder).expect("a folder");
    for (source, library) in [("users.c", "users.so"), ("flux.c", "libflux-core.so.2")] {
        let source = format!("{}/client/{source}", env!("CARGO_MANIFEST_DIR"));
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-shared", "-fPIC", "-o"]).arg(folder.join(library)).arg(source);
        assert!(compiler.status().expect("cc runs").success(), "{library}");
    }
    folder
}

/// Returns the output of the demo for a site.
fn run_demo(name: &str, site: &Value) -> String {
    static BUILT: OnceLock<(PathBuf, PathBuf)> = OnceLock::new();
    let (command, libraries) = BUILT.get_or_init(|| (build_command(), build_libraries()));
    let plugin = plugin();
    let file = plugin.with_file_name(format!("{name}.json"));
    std::fs::write(&file, site.to_string()).expect("written");
    let paths = [&plugin, command, libraries, &file].map(|path| path.to_str().expect("text"));
    let [plugin, command, libraries, file] = paths;
    let output = run(&["demo", "--plugin", plugin, "--command", command, "--libraries", libraries, file]);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// Returns the words of the rows of each table that `flux fairshare jobs` printed with the columns `columns`.
fn read_tables<'a>(out: &'a str, columns: &str) -> Vec<Vec<Vec<&'a str>>> {
    let heading = format!("$ flux fairshare jobs -A -o {columns}\n");
    let tables = out.split(heading.as_str()).skip(1);
    let read_rows = |table: &'a str| -> Vec<Vec<&'a str>> {
        let rows = table.lines().skip(1).take_while(|line| line.starts_with('ƒ'));
        rows.map(|line| line.split_whitespace().collect()).collect()
    };
    tables.map(read_rows).collect()
}

fn parse_number(text: &str) -> f64 {
    text.replace(',', "").parse().unwrap_or_else(|_| panic!("no number: {text}"))
}

/// Compares each pending job of the table of terms with the figures of the site. Returns the priorities and the users.
fn check_terms(out: &str, site: &Value) -> Vec<(f64, String)> {
    let columns = "id,user,bank,priority,fairshare,queue_term,bank_term,urgency_term";
    let tables = read_tables(out, columns);
    let has_terms = |row: &&Vec<&str>| row.len() == columns.split(',').count();
    let rows: Vec<&Vec<&str>> = tables[0].iter().filter(has_terms).collect();
    let check_row = |row: &&Vec<&str>| {
        let (user, bank) = (row[1], row[2]);
        let figures: Vec<f64> = row[3..].iter().map(|text| parse_number(text)).collect();
        let fairshare = FAIRSHARES.iter().find(|of| (of.0, of.1) == (user, bank)).expect("an association").2;
        let weight = |name: &str| site["factors"][name].as_f64().expect("a weight");
        assert!((figures[1] - weight("fairshare") * fairshare).abs() < 0.01, "{row:?}");
        let banks = site["banks"].as_array().expect("records");
        let priority =
            banks.iter().find(|record| record["bank"] == bank).expect("a bank")["priority"].as_f64();
        assert_eq!(figures[3], weight("bank") * priority.expect("a number"), "{row:?}");
        let queues = site["queues"].as_array().expect("records").iter();
        let mut terms = queues.map(|queue| weight("queue") * queue["priority"].as_f64().expect("a number"));
        assert!(terms.any(|term| term == figures[2]), "{row:?}");
        assert_eq!(figures[4] % weight("urgency"), 0.0, "{row:?}");
        assert_eq!(figures[0], figures[1..].iter().sum::<f64>().round(), "{row:?}");
        (figures[0], user.to_owned())
    };
    rows.iter().map(check_row).collect()
}

#[test]
fn every_line_fits_80_columns_and_has_no_colour_without_a_terminal() {
    let out = run_demo("wide", &site());
    for line in out.lines().filter(|line| !line.starts_with('$')) {
        assert!(line.chars().count() <= 80 && !line.contains('\x1b'), "{line:?}");
    }
}

#[test]
fn the_demo_shows_priority_terms_that_match_the_site() {
    let site = site();
    let jobs = check_terms(&run_demo("terms", &site), &site);
    assert!(jobs.len() >= 5 && jobs.is_sorted_by(|a, b| a.0 >= b.0), "{jobs:?}");
}

#[test]
fn the_demo_shows_changed_priority_terms_if_the_factor_weights_change() {
    let mut site = site();
    site["factors"] = json!({"fairshare": 1000, "queue": 7, "bank": 10, "urgency": 50});
    let jobs = check_terms(&run_demo("weights", &site), &site);
    assert!(jobs.len() >= 5 && jobs.iter().all(|(priority, _)| *priority < 2000.0), "{jobs:?}");
}

#[test]
fn the_demo_orders_jobs_differently_under_other_shares() {
    let find_first_user = |site: &Value, name: &str| {
        let out = run_demo(name, site);
        read_tables(&out, "id,user,bank,holds")[0][0][1].to_owned()
    };
    let mut site = site();
    assert_eq!(find_first_user(&site, "shares"), "carol");
    site["banks"][2]["shares"] = json!(3000);
    assert_ne!(find_first_user(&site, "other-shares"), "carol");
}

/// Returns the user, the bank and the limits of each held job, for each table that shows holds.
fn list_holds(out: &str) -> Vec<Vec<String>> {
    let is_held = |row: &&Vec<&str>| row.get(3).is_some_and(|holds| holds.starts_with("max-"));
    let describe = |row: &Vec<&str>| row[1..].join(" ");
    let tables = read_tables(out, "id,user,bank,holds");
    tables.iter().map(|table| table.iter().filter(is_held).map(describe).collect()).collect()
}

#[test]
fn the_demo_shows_the_limits_that_hold_jobs_before_and_after_two_jobs_end() {
    let out = run_demo("holds", &site());
    let holds = list_holds(&out);
    let held = [
        "alice physics max-running-jobs-user-limit",
        "bob biology max-resources-user-limit",
        "alice physics max-run-jobs-queue,max-running-jobs-user-limit",
        "dan physics max-sched-jobs-user-limit",
        "frank biology max-sched-nodes-queue-limit",
    ];
    let has = |holds: &[String], wanted: &str| holds.iter().any(|hold| hold == wanted);
    assert!(held.iter().all(|wanted| has(&holds[0], wanted)) && holds[0].len() == held.len(), "{out}");
    // The ends of two jobs release the first two held jobs.
    assert!(held[2..].iter().all(|wanted| has(&holds[1], wanted)) && holds[1].len() == 3, "{out}");
    assert_eq!(out.lines().filter(|line| line.starts_with("Job ") && line.ends_with("ends.")).count(), 2);
    assert!(out.contains("max-run-jobs-queue: 1 of 1 running jobs of user alice"), "{out}");
    assert!(out.contains("associations: 0 counters differ"), "{out}");
}

#[test]
fn the_demo_holds_other_jobs_under_other_limits() {
    let mut site = site();
    site["associations"][0]["max_running_jobs"] = json!(3);
    let out = run_demo("limits", &site);
    let held = list_holds(&out).concat();
    assert!(!held.contains(&"alice physics max-running-jobs-user-limit".to_owned()), "{out}");
    assert!(held.iter().any(|hold| hold.starts_with("alice physics max-run-jobs-queue")), "{out}");
}

#[test]
fn the_demo_prints_each_rejection_with_its_reason() {
    let out = run_demo("rejections", &site());
    for wanted in [
        "19 jobs: 15 accepted, 4 refused.",
        "  A job of carol in queue batch: user has max active jobs;",
        "  A job of bob in queue debug: queue \"debug\" not valid for user;",
    ] {
        assert!(out.contains(wanted), "{wanted}\n{out}");
    }
}

#[test]
fn the_error_names_the_missing_site_file_or_plugin() {
    let complaint = |arguments: [&str; 4]| {
        let output = run(&arguments);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).expect("text")
    };
    let text = complaint(["demo", "--plugin", plugin().to_str().expect("text"), "/nonexistent/site.json"]);
    assert!(text.contains("/nonexistent/site.json: No such file"), "{text}");
    let text = complaint(["demo", "--plugin", "/nonexistent/mf_priority.so", SITE]);
    assert!(text.contains("/nonexistent/mf_priority.so"), "{text}");
}
