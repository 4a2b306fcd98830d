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
    static COPIED: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();
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

/// Returns the output of the demo for a site.
fn run_demo(name: &str, site: &Value) -> String {
    let plugin = plugin();
    let file = plugin.with_file_name(format!("{name}.json"));
    std::fs::write(&file, site.to_string()).expect("written");
    let arguments = ["demo", "--plugin", plugin.to_str().expect("text"), file.to_str().expect("text")];
    let output = run(&arguments);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// Returns the words of each line of a section, without heading and titles.
fn read_section<'a>(out: &'a str, heading: &str) -> Vec<Vec<&'a str>> {
    let lines = out.lines().skip_while(|line| !line.starts_with(heading)).skip(2);
    lines.take_while(|line| !line.is_empty()).map(|line| line.split_whitespace().collect()).collect()
}

fn parse_number(text: &str) -> f64 {
    text.parse().unwrap_or_else(|_| panic!("no number: {text}"))
}

/// Compares each row of the ranking with the figures of the site.
fn check_ranking(out: &str, site: &Value) -> Vec<f64> {
    let rows: Vec<_> = read_section(out, "Running and pending jobs")
        .into_iter()
        .filter(|row| row[0].starts_with('ƒ'))
        .collect();
    assert!(!rows.is_empty(), "{out}");
    let value_of = |list: &str, key: &str, name: &str, value: &str| {
        let records = site[list].as_array().expect("records");
        records.iter().find(|record| record[key] == name).expect("a record")[value]
            .as_f64()
            .expect("a number")
    };
    rows.iter()
        .map(|row| {
            // The columns are JOB, USER, BANK, QUEUE, STATE (several words) and PRIORITY. The last four columns are the points of the four
            // terms listed below.
            let at = row.len() - 5;
            let (user, bank, queue, priority) = (row[1], row[2], row[3], parse_number(row[at]));
            let fairshare =
                FAIRSHARES.iter().find(|of| (of.0, of.1) == (user, bank)).expect("an association");
            let factors = [
                ("fairshare", Some(fairshare.2)),
                ("queue", Some(value_of("queues", "queue", queue, "priority"))),
                ("bank", Some(value_of("banks", "bank", bank, "priority"))),
                ("urgency", None),
            ];
            let mut sum = 0.0;
            for (column, (name, factor)) in factors.iter().enumerate() {
                let points = parse_number(row[at + 1 + column]);
                let weight = site["factors"][name].as_f64().expect("a weight");
                match factor {
                    Some(factor) => assert_eq!(points, (weight * factor).round(), "{name} in {row:?}"),
                    None => assert_eq!(points % weight, 0.0, "{name} in {row:?}"),
                }
                sum += points;
            }
            assert_eq!(priority, if row[5] == "hold" { 0.0 } else { sum }, "{row:?}");
            priority
        })
        .collect()
}

#[test]
fn every_line_fits_80_columns() {
    let out = run_demo("wide", &site());
    for line in out.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn the_demo_shows_priority_terms_that_match_the_ranking() {
    let site = site();
    let out = run_demo("terms", &site);
    let priorities = check_ranking(&out, &site);
    assert!(priorities.len() >= 8, "{out}");
    assert!(priorities.is_sorted_by(|a, b| a >= b), "{out}");
    assert!(!out.contains('\x1b'), "colour without a terminal: {out:?}");
}

#[test]
fn the_demo_shows_changed_priority_terms_if_the_factor_weights_change() {
    let mut site = site();
    site["factors"] = json!({"fairshare": 1000, "queue": 7, "bank": 0, "urgency": 50});
    let out = run_demo("weights", &site);
    check_ranking(&out, &site);
    let changed =
        |list: &str| read_section(&out, list) != read_section(&run_demo("plain", &self::site()), list);
    assert!(changed("Running and pending jobs"));
}

#[test]
fn the_demo_orders_jobs_differently_under_other_shares() {
    let first = |site: &Value, name: &str| {
        let out = run_demo(name, site);
        let rows = read_section(&out, "Running and pending jobs");
        let of_batch = rows.iter().find(|row| row[3] == "batch" && row[4] == "running").expect("a row");
        of_batch[1].to_owned()
    };
    let mut site = site();
    assert_eq!(first(&site, "shares"), "carol");
    site["banks"][2]["shares"] = json!(3000);
    assert_eq!(first(&site, "other-shares"), "bob");
}

/// Returns the section about held jobs as one line.
fn read_held_section(out: &str) -> String {
    read_section(out, "Held jobs").concat().join(" ")
}

/// The text about each held job names the limit that holds the job, with its numbers.
#[test]
fn the_demo_shows_each_hold_with_its_limit_and_figures() {
    let site = site();
    let out = run_demo("holds", &site);
    let held = read_held_section(&out);
    let wants = [
        "alice physics batch 1 max-running-jobs-user-limit: alice in physics runs 2 of 2 jobs",
        "bob biology batch 2 max-resources-user-limit: bob in biology uses 1 of 2 nodes, this job needs 2 more",
        "alice physics debug 1 max-run-jobs-queue: alice in physics runs 1 of 1 jobs in queue debug",
        "dan physics batch 1 max-sched-jobs-user-limit: dan in physics has 1 of 1 jobs pending",
        "max-sched-nodes-queue-limit: pending jobs of frank in biology ask for 2 of 3 nodes in queue batch, this job \
         needs 2 more",
    ];
    for want in wants {
        assert!(held.contains(want), "{want}\n{out}");
    }
    // The output lists a held job once for each limit that holds the job. Two limits hold the debug job of alice.
    assert_eq!(held.matches("max-").count(), wants.len() + 1, "{out}");
}

#[test]
fn the_demo_holds_other_jobs_under_other_limits() {
    let mut site = site();
    site["associations"][0]["max_running_jobs"] = json!(3);
    let out = run_demo("limits", &site);
    let held = read_held_section(&out);
    assert!(!held.contains("alice physics batch"), "{out}");
    assert!(held.contains("max-run-jobs-queue: alice"), "{out}");
}

#[test]
fn the_demo_shows_which_jobs_the_end_of_a_job_releases_and_starts() {
    let out = run_demo("ends", &site());
    let ends: Vec<&str> =
        out.lines().filter(|line| line.starts_with("Job ") && line.ends_with("ends")).collect();
    assert_eq!(ends.len(), 2, "{out}");
    let first = read_section(&out, ends[0]).concat().join(" ");
    // The text about each changed job begins with one of these outcomes.
    let changes: Vec<&str> = ["released", "still held", "started", "one limit less"]
        .iter()
        .flat_map(|outcome| first.match_indices(outcome).map(|(at, _)| &first[at..]))
        .collect();
    let says = |start: &str, rest: &str| {
        let is_said = changes.iter().any(|change| {
            change.starts_with(start) && change.find(rest).is_some_and(|at| !change[..at].contains('('))
        });
        assert!(is_said, "{start} {rest}\n{out}");
    };
    says(
        "released",
        "alice physics batch 1 max-running-jobs-user-limit no longer holds the job (before: alice in physics runs 2 of 2 jobs)",
    );
    says("still held", "alice physics debug 1 max-run-jobs-queue");
    says("started", "carol chemistry debug 1 with the highest priority, 150000");
    assert!(out.contains("associations: 0 counters differ"), "{out}");
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
