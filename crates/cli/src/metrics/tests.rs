// SPDX-License-Identifier: LGPL-3.0-only
//! Metrics from an answer of the plugin. `t/scripts/openmetrics.py` checks the text with a parser.

use super::exposition::{Family, format_families};
use super::families::{build_metric_families, build_metric_families_without_plugin, user_families};
use super::window::Window;
use crate::replaced::replace_textfile as replace;
use crate::tests::golden::{make_standing_reply, make_stats_answer, make_words};
use fairshare_engine::engine::answers::{BudgetShown, Standings, Stats};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::{fs, io};

fn build_test_metric_families(most: usize) -> Vec<Family> {
    let stats: Stats = serde_json::from_value(make_stats_answer()).expect("stats");
    let mut window = Window::new(3600.0);
    window.observe(&stats);
    build_metric_families(&stats, &window, most)
}

#[track_caller]
fn assert_metric_line(text: &str, line: &str) {
    assert!(text.lines().any(|one| one == line), "{line} in\n{text}");
}

#[test]
fn every_number_of_the_stats_answer_is_exported_as_a_metric() {
    let text = format_families(&build_test_metric_families(500));
    for line in [
        "flux_fairshare_up 1",
        "flux_fairshare_associations 18",
        "flux_fairshare_generation 3",
        "flux_fairshare_data_age_seconds 90",
        "flux_fairshare_jobs{state=\"waiting\"} 1",
        "flux_fairshare_jobs{state=\"blocked\"} 2",
        "flux_fairshare_running_cores{bank=\"phys\",queue=\"debug\"} 40",
        "# UNIT flux_fairshare_bank_usage_weighted_seconds weighted_seconds",
        "flux_fairshare_bank_level_ratio{bank=\"phys\"} 2.5",
        "flux_fairshare_held_jobs{limit=\"max-running-jobs-user-limit\"} 4",
        "flux_fairshare_pending_jobs{bank=\"chem\",queue=\"debug\"} 9",
        "flux_fairshare_pending_jobs{bank=\"ev\u{1b}[31mil\\nbank\u{202e}\",queue=\"a\tb\"} 1",
        "flux_fairshare_running_nodes{bank=\"phys\",queue=\"debug\"} 10",
        "flux_fairshare_bank_promised_ratio{bank=\"phys\"} 0.75",
        "flux_fairshare_bank_usage_ratio{bank=\"chem\"} 0.7",
        "flux_fairshare_bank_delivered_ratio{bank=\"chem\"} 0.75",
        "flux_fairshare_bank_delivered_ratio{bank=\"phys\"} 0.25",
        "flux_fairshare_refresh_seconds_total 0.75",
        "flux_fairshare_posted_priorities_total 4321",
        "flux_fairshare_stale_jobs 2",
        "flux_fairshare_last_push_seconds 0.0031",
        "flux_fairshare_refresh_age_seconds 30",
        "flux_fairshare_drift 0",
        "flux_fairshare_overruled 0",
        "flux_fairshare_requests_refused_total{method=\"jobs\"} 2",
        "# EOF",
    ] {
        assert_metric_line(&text, line);
    }
    assert!(!text.contains("user=") && !text.contains("ann"), "no user is named: {text}");
}

#[test]
fn metrics_limit_the_number_of_labels_and_keep_complete_sums() {
    let text = format_families(&build_test_metric_families(1));
    assert_metric_line(&text, "flux_fairshare_pending_jobs{bank=\"chem\",queue=\"debug\"} 9");
    assert_metric_line(&text, "flux_fairshare_pending_jobs{bank=\"\",queue=\"\"} 3");
    assert_metric_line(&text, "flux_fairshare_banks_left_out 3");
    let banks = text.lines().filter(|line| line.starts_with("flux_fairshare_bank_promised_ratio{"));
    assert_eq!(banks.count(), 1);
}

#[test]
fn metrics_of_a_user_name_the_user_and_the_bank() {
    let standing: Standings = serde_json::from_value(make_standing_reply()).expect("a standing");
    let text = format_families(&user_families(&standing, &make_words()));
    assert_metric_line(&text, "flux_fairshare_association_fairshare{user=\"ann\",bank=\"chem\"} 0.421053");
    assert_metric_line(&text, "flux_fairshare_association_jobs{user=\"ann\",bank=\"chem\",state=\"held\"} 2");
    assert_metric_line(
        &self::format_families(&build_metric_families_without_plugin()),
        "flux_fairshare_up 0",
    );
}

#[test]
fn metrics_omit_values_that_do_not_exist_yet() {
    let stats = Stats::default();
    let text = format_families(&build_metric_families(&stats, &Window::new(60.0), 10));
    for absent in ["drift", "data_age", "jain", "last_push", "last_refresh_seconds"] {
        assert!(!text.contains(&format!("flux_fairshare_{absent}")), "{absent}: {text}");
    }
    assert_metric_line(&text, "flux_fairshare_banks 0");
}

#[test]
fn frequent_requests_do_not_grow_the_metrics_window() {
    let mut stats: Stats = serde_json::from_value(make_stats_answer()).expect("stats");
    let (mut often, mut rarely, began) = (Window::new(100.0), Window::new(100.0), stats.heading.now);
    for step in 0..50_000u32 {
        stats.heading.now = began + f64::from(step) / 100.0;
        often.observe(&stats);
        if step.is_multiple_of(100) {
            rarely.observe(&stats);
        }
    }
    assert!(often.observation_count() < 1100, "{}", often.observation_count());
    assert_eq!(often.bank_shares(), rarely.bank_shares());
}

#[test]
fn a_file_is_replaced_atomically_and_a_link_is_not_followed() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.prom");
    replace(&path, "one\n").expect("written");
    let before = fs::File::open(&path).expect("there");
    replace(&path, "two\n").expect("written");
    assert_eq!(fs::read_to_string(&path).expect("there"), "two\n");
    assert_eq!(io::read_to_string(before).expect("still the old one"), "one\n");
    let mode = fs::metadata(&path).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
    let (link, victim) = (directory.path().join("link.prom"), directory.path().join("victim"));
    fs::write(&victim, "precious").expect("written");
    symlink(&victim, &link).expect("a link");
    replace(&link, "three\n").expect("written");
    assert_eq!(fs::read_to_string(&victim).expect("there"), "precious");
    assert_eq!(fs::read_to_string(&link).expect("there"), "three\n");
    assert!(fs::symlink_metadata(&link).expect("there").is_file());
    let names: Vec<_> = fs::read_dir(directory.path()).expect("a directory").collect();
    assert_eq!(names.len(), 3, "nothing is left over: {names:?}");
    assert!(replace(directory.path(), "x").is_err() && replace(Path::new("/nonexistent/x"), "x").is_err());
}

#[test]
fn budgets_in_force_are_exported_with_amounts_in_hours() {
    let budget = |name: &str, in_force| BudgetShown {
        scope: "bank".into(),
        name: name.to_owned(),
        unit: "node-hours".into(),
        in_force,
        deposited: 36_000_000,
        spent: Some(9_000_000),
        committed: Some(1_800_000),
        end: 1_800_000_000,
        complete: true,
        ..BudgetShown::default()
    };
    let stats = Stats { budgets: vec![budget("A", true), budget("B", false)], ..Stats::default() };
    let text = format_families(&build_metric_families(&stats, &Window::new(3600.0), 500));
    for (metric, value) in [
        ("deposited_hours", "10"),
        ("spent_hours", "2.5"),
        ("committed_hours", "0.5"),
        ("end_seconds", "1800000000"),
        ("known", "1"),
    ] {
        let line = format!(
            "flux_fairshare_budget_{metric}{{scope=\"bank\",name=\"A\",unit=\"node-hours\"}} {value}"
        );
        assert_metric_line(&text, &line);
    }
    assert!(!text.contains("name=\"B\""), "{text}");
}
