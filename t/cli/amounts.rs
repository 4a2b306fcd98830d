// SPDX-License-Identifier: LGPL-3.0-only
//! Commands that add an amount print how much is left, and warn if the addition has no effect.

use std::process::Command;

use super::site::Site;
use super::{fairshare, run_with_input};

fn make_site_with_jobs(test: &str) -> Site {
    let site = Site::small(test);
    super::pipeline::add_jobs(&site);
    site
}

/// Runs `budget deposit bank A` in a window that begins in 1970.
fn deposit(site: &Site, amount: &str, more: &[&str]) -> super::RunResult {
    let arguments = ["budget", "deposit", "bank", "A", amount, "--from", "0", "--until", "36500d"];
    fairshare([&arguments[..], &["--reason", "grant", "-p", site.path()], more].concat())
}

#[test]
fn a_deposit_prints_what_is_left_of_the_budget_and_how_long_it_lasts() {
    let site = make_site_with_jobs("deposit_state");
    let now = (super::pipeline::END + 900.0).to_string();
    fairshare(["sync", "--only", "usage", "--now", &now, "-p", site.path()]).ok();
    let ran = deposit(&site, "5", &[]);
    let state = fairshare(["budget", "show", "bank", "A", "-p", site.path()]);
    assert_eq!(
        (ran.status, ran.err.as_str()),
        (
            0,
            &*format!(
                "flux-fairshare: Takes effect at the next push: flux fairshare push -p {}\n",
                site.path()
            )
        ),
        "{ran:?}"
    );
    // The spent amount is the charge of ann's job.
    assert!(state.ok().contains("LastsUntil (24h)") && ran.out.contains(state.ok()), "{ran:?}");
    let document = deposit(&site, "1", &["--json"]).json();
    let budget = &document["budgets"][0];
    assert_eq!(
        (&document["deposits"][0]["amount_ms"], &budget["deposited_ms"]),
        (&3_600_000.into(), &21_600_000.into())
    );
    assert!(
        budget["spent_ms"].as_i64().is_some_and(|spent| spent > 0) && budget["lasts_until"].is_number(),
        "{budget}"
    );
}

#[test]
fn a_stored_change_is_kept_if_its_push_fails() {
    let site = make_site_with_jobs("push_fails");
    let nowhere = |words: &[&str]| {
        let words = [words, &["-p", site.path(), "--push"]].concat();
        let mut command = Command::new(super::PROGRAM);
        run_with_input(command.args(words).env("FLUX_URI", "local:///nonexistent"), "")
    };
    let change = ["--from", "0", "--until", "36500d", "--reason", "grant"];
    for words in [
        &[&["budget", "deposit", "bank", "A", "5"], &change[..]].concat()[..],
        &["limit", "set", "bank", "A", "run-gpus=4"],
        &["credit", "add", "ann/A", "2", "--reason", "refund"],
    ] {
        let ran = nowhere(words);
        assert_eq!(ran.status, 2, "{ran:?}");
        assert!(ran.err.ends_with("all changes are stored\n"), "{ran:?}");
        let stored = fairshare([words[0], "-p", site.path()]);
        assert!(stored.ok().contains('A'), "{stored:?}");
    }
    for words in [&["budget", "show"][..], &["limit", "show"], &["credit", "log"]] {
        let ran = nowhere(words);
        assert!(ran.status == 2 && ran.err.contains("--push") && ran.err.contains("did you mean"), "{ran:?}");
    }
}

#[test]
fn deposit_show_and_doctor_warn_of_a_budget_with_nothing_left() {
    let site = make_site_with_jobs("nothing_left");
    let warning = "no node-hours are left: the jobs of bank A are held until a deposit";
    assert!(!deposit(&site, "5", &[]).err.contains(warning));
    let ran = deposit(&site, "-5", &[]);
    assert!(ran.status == 0 && ran.err.contains(warning), "{ran:?}");
    let ran = fairshare(["budget", "-p", site.path()]);
    assert!(ran.status == 0 && ran.err.contains(warning), "{ran:?}");
    let found = fairshare(["doctor", "-p", site.path(), "--uri", "local:///nonexistent"]).out;
    assert!(found.contains("!! budget-used-up: ") && found.contains("   bank A in node-hours\n"), "{found}");
}

#[test]
fn doctor_wraps_all_lines_but_its_remedies() {
    let site = make_site_with_jobs("wrapped");
    deposit(&site, "5", &[]);
    deposit(&site, "-5", &[]);
    let mut command = Command::new(super::PROGRAM);
    let words = ["doctor", "-p", site.path(), "--uri", "local:///nonexistent"];
    let text = run_with_input(command.args(words).env("COLUMNS", "40"), "").out;
    let (remedies, lines): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with("   -> "));
    assert!(remedies.iter().any(|line| line.ends_with("--unit UNIT --reason TEXT --push")), "{text}");
    assert!(text.contains("budget deposit --uri local:///nonexistent -p "), "{text}");
    // A line break can't be within a path or a name.
    let is_narrow = |line: &&&str| line.chars().count() <= 40 || !line.trim().contains(' ');
    assert_eq!(lines.iter().filter(is_narrow).count(), lines.len(), "{text}");
    assert!(lines.len() > 2 * remedies.len(), "{text}");
}

#[test]
fn a_usage_credit_without_effect_is_stored_with_a_warning() {
    let site = make_site_with_jobs("no_usage");
    let now = (super::pipeline::END + 900.0).to_string();
    let warning = |action: &str, user: &str, amount: &str| {
        let ran = fairshare([
            "credit",
            action,
            user,
            amount,
            "--now",
            &now,
            "--reason",
            "refund",
            "-p",
            site.path(),
        ]);
        assert_eq!(ran.status, 0, "{ran:?}");
        ran.err.contains(&format!("warning: {user} has no usage of ended jobs, so"))
    };
    // The database has a record of ann's job, although no sync has counted the job.
    assert!(!warning("add", "ann/A", "-0.001"));
    assert!(!warning("set", "ann/A", "0"));
    assert!(warning("add", "ann/A", "-0.001") && warning("add", "ann/A", "-0.001"));
    assert!(!warning("add", "ann/A", "2"));
    site.sql("DELETE FROM jobs WHERE bank = 'B'");
    assert!(!warning("set", "ben/B", "0") && !warning("set", "ben/B", "1"));
}

#[test]
fn credit_add_names_the_database_and_quotes_names_in_the_commands_that_it_suggests() {
    let site = make_site_with_jobs("undated");
    site.sql("UPDATE association_table SET username = 'ann b' WHERE username = 'ann'");
    let ran = fairshare(["credit", "add", "ann b/A", "-1", "--reason", "refund", "-p", site.path()]);
    let command = format!("flux fairshare credit -p {} add 'ann b/A' -1 --from TIME", site.path());
    assert!(ran.err.contains(&command), "{ran:?}");
}

#[test]
fn credit_add_explains_what_a_credit_beyond_past_usage_reduces() {
    let site = make_site_with_jobs("rest_of_credit");
    let now = (super::pipeline::END + 900.0).to_string();
    let add = |amount: &str, more: &[&str]| {
        let words = ["credit", "add", "ann/A", amount, "--now", &now, "--reason", "r", "-p", site.path()];
        fairshare([&words[..], more].concat()).err
    };
    let later = "the usage of running and later jobs";
    fairshare(["sync", "--only", "usage", "--now", &now, "-p", site.path()]).ok();
    let periods = fairshare(["usage", "--by", "period", "-p", site.path(), "-u", "ann", "--json"]).json();
    let used = &periods["periods"][0]["usage"];
    let used = used.as_f64().expect("the usage of the job of ann");
    let said = add(&(-used - 7.25).to_string(), &["--unit", "usage"]);
    assert!(
        said.contains(&format!(
            "of the {} usage of this credit, {used} reduce the usage of ended jobs, and 7.25 reduce {later}",
            used + 7.25
        )),
        "{said}"
    );
    // The credit above is already larger than the usage.
    let said = add("-1", &[]);
    assert!(
        said.contains(&format!("has no usage of ended jobs, so the credit reduces only {later}")),
        "{said}"
    );
    let said = add(&(used + 7.25 + 3600.0 + 36000.0).to_string(), &["--unit", "usage"]);
    assert!(!said.contains("reduce"), "{said}");
    let said = add("-1.5", &[]);
    assert!(!said.contains("reduce"), "all of the credit reduces the usage of ended jobs: {said}");
}

#[test]
fn doctor_lists_usage_credits_that_no_sync_has_counted() {
    let site = make_site_with_jobs("uncounted_credits");
    let now = (super::pipeline::END + 900.0).to_string();
    let find = || fairshare(["doctor", "-p", site.path(), "--uri", "local:///nonexistent"]).out;
    let sync = || fairshare(["sync", "--only", "usage", "--now", &now, "-p", site.path()]).ok().to_owned();
    sync();
    assert!(!find().contains("credits-not-counted"));
    let credit = ["credit", "add", "ann/A", "2", "--now", &now, "--reason", "refund", "-p", site.path()];
    assert_eq!(fairshare(credit).status, 0);
    let found = find();
    assert!(
        found.contains("-- credits-not-counted: ") && found.contains("   2 node-hours of ann/A\n"),
        "{found}"
    );
    sync();
    assert!(!find().contains("credits-not-counted"));
}

#[test]
fn usage_by_period_is_in_node_hours_if_usage_counts_nodes() {
    let site = make_site_with_jobs("period_unit");
    let now = (super::pipeline::END + 900.0).to_string();
    fairshare(["sync", "--only", "usage", "--now", &now, "-p", site.path()]).ok();
    let usage = || fairshare(["usage", "--by", "period", "-p", site.path()]).ok().to_owned();
    assert!(usage().contains("NodeHours (decayed)"), "{}", usage());
    site.sql("INSERT OR REPLACE INTO config_table VALUES ('node_weight', '2')");
    let text = usage();
    assert!(
        text.contains("Usage (decayed)") && text.contains("its unit is the second, times the weights"),
        "{text}"
    );
}

#[test]
fn usage_by_period_omits_percentages_after_a_credit_and_prints_full_dates() {
    let site = make_site_with_jobs("period_credit");
    let now = (super::pipeline::END + 900.0).to_string();
    let sync = || fairshare(["sync", "--only", "usage", "--now", &now, "-p", site.path()]).ok().to_owned();
    let words = ["credit", "add", "ann/A", "1", "--now", &now, "--reason", "r", "-p", site.path()];
    assert_eq!(fairshare(words).status, 0);
    let text =
        fairshare(["credit", "add", "ann/A", "-0.5", "--now", &now, "--reason", "r", "-p", site.path()]).err;
    assert!(text.contains(" add ann/A -0.5 --from TIME --reason TEXT"), "{text}");
    sync();
    let parts = |words: &[&str]| fairshare([&["usage", "--by", "period", "-p", site.path()], words].concat());
    assert!(parts(&["--json"]).json()["periods"][0]["part"].is_number());
    assert!(parts(&[]).ok().contains("\nJobs that ended after the last sync, at "), "{}", parts(&[]).ok());
    for columns in [160, 120, 80] {
        let command = format!("PROGRAM usage --by period -p {}", site.path());
        let Some(ran) = super::table::run_on_terminal(columns, "dumb", &command) else { return };
        assert!(ran.out.contains(" From ") && !ran.out.contains("..."), "{columns}: {ran:?}");
        assert!(columns < 120 || ran.out.contains("Expires"), "{columns}: {ran:?}");
    }
    let long_ago = (super::pipeline::END - 1500.0).to_string();
    for (amount, from) in [("600", &now), ("-500", &long_ago)] {
        let words = ["credit", "add", "ann/A", amount, "--from", from, "--now", &now, "--reason", "r", "-p"];
        let ran = fairshare([&words[..], &[site.path()]].concat());
        assert_eq!(ran.status, 0, "{ran:?}");
    }
    sync();
    assert!(parts(&["--json", "-u", "ann"]).json()["periods"][0]["part"].is_null());
    assert!(parts(&["-u", "ann"]).ok().contains("Part is empty if credits cancel"));
}

#[test]
fn usage_prints_the_interval_with_the_time_zone() {
    let site = make_site_with_jobs("interval");
    let usage = |words: &[&str]| {
        let mut command = Command::new(super::PROGRAM);
        let words = [&["usage", "-p", site.path()], words].concat();
        run_with_input(command.args(words).env("TZ", "CET-1"), "")
    };
    let text = usage(&["--since", "2026-01-02", "--until", "2026-01-03T12:30"]).out;
    assert!(text.starts_with("Usage from 2026-01-02 00:00 to 2026-01-03 12:30 CET.\n"), "{text}");
    assert!(usage(&[]).out.starts_with("Usage from the first record of a job to 2"));
    assert!(!usage(&["-n"]).out.contains("Usage from"));
    let document = usage(&["--since", "3600", "--until", "7200", "--json"]).json();
    let times = ["since_time", "until_time"].map(|key| document[key].clone());
    assert_eq!(times, ["1970-01-01T01:00:00Z", "1970-01-01T02:00:00Z"]);
    // The options read the times that the document has.
    let [since, until] = times.map(|time| time.as_str().expect("a time").to_owned());
    assert_eq!(usage(&["--since", &since, "--until", &until, "--json"]).json(), document);
    assert_eq!(usage(&["--json"]).json()["since"], serde_json::Value::Null);
    let exchanged = usage(&["--since", "1d", "--until", "7d", "--json"]);
    assert_eq!((exchanged.status, exchanged.out.as_str()), (2, ""), "{exchanged:?}");
    assert_eq!(exchanged.err, "flux-fairshare: --until: 7d is before --since; exchange the two times\n");
}

#[test]
fn usage_leaves_out_columns_on_a_terminal_of_80_columns() {
    let site = make_site_with_jobs("narrow");
    let mut command = Command::new(super::PROGRAM);
    let text = run_with_input(command.args(["usage", "-p", site.path()]).env("COLUMNS", "80"), "").out;
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    assert!(text.contains("Left out for lack of width: Running. COLUMNS="), "{text}");
}

#[test]
fn the_name_of_the_time_zone_follows_a_table_with_times() {
    let site = make_site_with_jobs("zone");
    let list = |action: &str| {
        let mut command = Command::new(super::PROGRAM);
        let words = ["budget", action, "-p", site.path()];
        run_with_input(command.args(words).env("TZ", "CET-1"), "").out
    };
    deposit(&site, "5", &[]);
    let text = list("log");
    assert!(text.ends_with("The time zone is CET.\n") && text.contains(" 1970-01-01 01:00 "), "{text}");
}

#[test]
fn compare_with_one_policy_uses_the_present_policy_as_the_other() {
    let site = make_site_with_jobs("one_policy");
    let compare =
        |policies: &str| fairshare(["compare", "-p", site.path(), "--policy", policies, "--json"]).json();
    assert_eq!(compare("classic"), compare("weighted-walk,classic"));
    let text = fairshare(["compare", "-p", site.path(), "--policy", "classic"]).ok().to_owned();
    assert!(text.contains(" Policies: weighted-walk and classic."), "{text}");
}

#[test]
fn bars_without_shares_have_no_legend_about_shares() {
    let site = make_site_with_jobs("bars");
    let now = (super::pipeline::END + 900.0).to_string();
    fairshare(["sync", "--only", "usage", "--now", &now, "-p", site.path()]).ok();
    for by in ["bank", "period"] {
        let text = fairshare(["usage", "--by", by, "-p", site.path()]).ok().to_owned();
        assert!(text.contains("==") && !text.contains("the share"), "{text}");
    }
}
