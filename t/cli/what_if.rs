// SPDX-License-Identifier: LGPL-3.0-only
//! Compares the predictions of `what-if` and `why` with the result of the real change.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::site::{Site, fairshares};
use super::{fairshare, file};

/// A user in two banks.
pub const TREE: &str = r#"{"banks": [{"name": "root", "parent": null}, {"name": "a", "parent": "root", "shares": 1}, {"name": "b", "parent": "root", "shares": 1}],
        "associations": [{"user": "u", "bank": "a", "shares": 1, "usage": 5}, {"user": "u", "bank": "b", "shares": 1, "usage": 5}]}"#;

/// Returns the fair-shares of a what-if by (user, bank).
fn predicted_fairshares(document: &Value) -> BTreeMap<(String, String), f64> {
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let rows = document["associations"].as_array().expect("rows");
    rows.iter()
        .map(|row| {
            ((text(&row["user"]), text(&row["bank"])), row["fairshare_second"].as_f64().expect("a number"))
        })
        .collect()
}

/// Returns the fair-shares of a database by (user, bank).
fn stored_fairshares(site: &Site) -> BTreeMap<(String, String), f64> {
    let connection = site.open();
    let mut statement = connection
        .prepare("SELECT username, bank, fairshare FROM association_table WHERE active")
        .expect("a table");
    let rows = statement.query_map([], |row| Ok(((row.get(0)?, row.get(1)?), row.get(2)?))).expect("rows");
    rows.map(|row| row.expect("a row")).collect()
}

/// All changes are made at once, under each ranking policy. The answer must equal the values that update
/// stores after the real changes.
#[test]
fn what_if_predicts_the_values_that_update_stores() {
    for policy in ["weighted-walk", "fair-tree", "classic", "depth-oblivious", "pbs"] {
        let site = Site::large("what_if", 7, 30);
        site.sql("UPDATE association_table SET job_usage = job_usage * 3600");
        let before = site.bytes();
        let ran = fairshare([
            "what-if",
            "-p",
            site.path(),
            "--json",
            "--policy",
            policy,
            "--shares",
            "g1=50,u2x3=9",
            "--shares",
            "u0x0/g0=0",
            "--usage",
            "u1x1+=5000nh",
            "--usage",
            "u3x4-=25%,u5x5=7200",
            "--add-user",
            "new/g4=3,u0x0/g6",
        ]);
        assert_eq!(site.bytes(), before, "nothing is changed");
        let wanted = predicted_fairshares(&ran.json());
        site.sql(
            "UPDATE bank_table SET shares = 50 WHERE bank = 'g1';
             UPDATE association_table SET shares = 9 WHERE username = 'u2x3';
             UPDATE association_table SET shares = 0 WHERE username = 'u0x0' AND bank = 'g0';
             UPDATE association_table SET job_usage = job_usage + 18000000 WHERE username = 'u1x1';
             UPDATE association_table SET job_usage = job_usage * 0.75 WHERE username = 'u3x4';
             UPDATE association_table SET job_usage = 7200 WHERE username = 'u5x5';
             INSERT INTO association_table (username, bank, shares) VALUES ('new', 'g4', 3), ('u0x0', 'g6', 1)",
        );
        fairshare(["update", "-p", site.path(), "--policy", policy]).ok();
        assert_eq!(wanted.len(), 7 * 30 + 2);
        assert_eq!(wanted, stored_fairshares(&site), "{policy}");
        assert!(fairshares(&site.path).iter().any(|(user, _)| user == "new"));
    }
}

/// Under pbs, an entity without a record has the usage 1, which neither decay nor a new user changes.
#[test]
fn what_if_predicts_the_values_that_show_computes_for_users_without_a_record() {
    let tree = |usage: u32, new: &str| {
        let user = |name, more: &str| format!(r#"{{"user": "{name}", "bank": "root", "shares": 1{more}}}"#);
        let users = user("a", "") + "," + &user("c", &format!(r#", "usage": {usage}"#)) + new;
        let text = format!(r#"{{"banks": [{{"name": "root", "parent": null}}], "associations": [{users}]}}"#);
        file(&format!("what_if_unrecorded_{usage}"), text)
    };
    let (now, then) = (tree(8, ""), tree(4, r#",{"user": "n", "bank": "root", "shares": 1}"#));
    let changes = ["--add-user", "n/root", "--in", "7d", "--half-life", "7d", "--json"];
    let ran = fairshare(["what-if", "-t", &now, "--policy", "pbs"].iter().chain(&changes));
    let shown = fairshare([
        "show",
        "-t",
        &then,
        "--policy",
        "pbs",
        "-U",
        "-S",
        "name",
        "--csv",
        "-n",
        "-o",
        "user,fairshare",
    ]);
    let predicted = predicted_fairshares(&ran.json());
    let predicted: String = predicted.iter().map(|((user, _), value)| format!("{user},{value}\n")).collect();
    assert_eq!(predicted, shown.ok());
}

/// Returns a site whose period ends in `left` seconds, with two banks and recorded usage.
fn make_site_near_period_end(test: &str, left: f64) -> Site {
    let site = Site::small(test);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64();
    site.sql(&format!(
        "CREATE TABLE t_half_life_period_table (cluster tinytext, end_half_life_period real);
         INSERT INTO t_half_life_period_table VALUES ('cluster', {});
         UPDATE association_table SET job_usage = job_usage * 3600000;
         INSERT INTO job_usage_per_association_table SELECT username, userid, bank, 0, job_usage * 0.75 FROM association_table;
         INSERT INTO job_usage_per_association_table SELECT username, userid, bank, 3, job_usage * 0.25 FROM association_table",
        now + left
    ));
    site
}

/// At a boundary, each bin is halved and the oldest bin is dropped. Between boundaries nothing changes.
#[test]
fn what_if_predicts_the_decay_of_the_usage_bins() {
    let site = make_site_near_period_end("what_if_in", 2.0 * 86_400.0);
    let ran = fairshare(["what-if", "-p", site.path(), "--in", "1d", "--json"]);
    assert_eq!(ran.json()["winners"], 0);
    for (time, halved) in [("3d", 1), ("10d", 2)] {
        let other = make_site_near_period_end(&format!("what_if_done_{time}"), 2.0 * 86_400.0);
        // Each period boundary halves the usage. The first boundary also drops the oldest period, which has a quarter of the usage.
        let left = 0.75 * 0.5f64.powi(halved);
        other.sql(&format!("UPDATE association_table SET job_usage = job_usage * {left} WHERE bank = 'A'"));
        fairshare(["update", "-p", other.path()]).ok();
        for idle in ["A", "ann"] {
            let ran = fairshare(["what-if", "-p", site.path(), "--in", time, "--idle", idle, "--json"]);
            assert_eq!(predicted_fairshares(&ran.json()), stored_fairshares(&other), "{time} {idle}");
        }
    }
    let ran = fairshare(["what-if", "-p", site.path(), "--in", "3w", "--idle", "ann"]);
    let (head, plot) = ran.ok().split_once("The fair-share of ann in bank A, 0 to 1:\n").expect("a plot");
    assert!(head.contains("If: 21 days later, ann idle\n"), "{head}");
    let places: Vec<&str> =
        plot.lines().map(|line| line.split_whitespace().nth(1).expect("a place")).collect();
    assert_eq!(places, ["4th", "1st", "1st", "1st", "1st"], "{plot}");
    let fairshares: Vec<&str> = plot.lines().filter_map(|line| line.split_whitespace().last()).collect();
    assert_eq!(fairshares.first(), Some(&"0.2500"), "{plot}");
}

/// Checks the fair-shares that what-if predicts if ann runs no jobs for `time`. They must equal the fair-shares after ann's usage is multiplied
/// by `left`.
fn assert_prediction(site: &Site, time: &str, left: f64) {
    let other = make_site_near_period_end(&format!("what_if_left_{time}_{left}"), 2.0 * 86_400.0);
    other.sql(&format!("UPDATE association_table SET job_usage = job_usage * {left} WHERE username = 'ann'"));
    fairshare(["update", "-p", other.path(), "--policy", "classic"]).ok();
    let how = ["--idle", "ann", "--policy", "classic", "--json"];
    let ran = fairshare(["what-if", "-p", site.path(), "--in", time].iter().chain(&how));
    assert_eq!(predicted_fairshares(&ran.json()), stored_fairshares(&other), "{} in {time}", site.path());
}

/// A period boundary has passed since the last sync. The prediction includes this boundary, because the next sync counts
/// it before the next boundary.
#[test]
fn predictions_include_a_period_boundary_that_no_sync_has_counted() {
    let site = make_site_near_period_end("what_if_late", 2.0 * 86_400.0);
    site.sql(
        "CREATE TABLE fairshare_usage_marks (
             one integer PRIMARY KEY, period_start real, period_end real, half_life real, decay real, reset_period real,
             reconfigured real, since real, last_job text, ran real, counted blob, unplaced blob, associations integer);
         INSERT INTO fairshare_usage_marks SELECT 1, end_half_life_period - 2 * 604800, end_half_life_period, 604800, 0.5,
             2419200, 0, 0, NULL, 0, x'', x'', 0 FROM t_half_life_period_table",
    );
    for (time, halved) in [("1d", 1), ("3d", 2)] {
        assert_prediction(&site, time, 0.75 * 0.5f64.powi(halved));
    }
}

/// The number of rows in the database decides how many usage periods are kept. The configuration has no effect on this number.
#[test]
fn the_oldest_row_decides_how_many_periods_are_kept() {
    for (test, oldest) in [("what_if_row_more", 4), ("what_if_row_less", 2)] {
        let site = make_site_near_period_end(test, 2.0 * 86_400.0);
        site.sql(&format!(
            "UPDATE job_usage_per_association_table SET value = value * 4 WHERE period = 3;
             UPDATE job_usage_per_association_table SET value = 0 WHERE period = 0;
             UPDATE job_usage_per_association_table SET period = {oldest} WHERE period = 3"
        ));
        for (time, left) in [("1d", 1.0), ("3d", 0.0)] {
            assert_prediction(&site, time, left);
        }
    }
}

/// The last step of a forecast must have the fair-share that what-if predicts. The number of period boundaries in the forecast must not
/// matter.
#[test]
fn the_last_step_of_a_forecast_has_the_predicted_fair_share() {
    for (time, period) in [("3w", 604_800), ("2d", 3600), ("30d", 86_400), ("1h", 604_800)] {
        let site = make_site_near_period_end(&format!("what_if_way_{period}_{time}"), 1800.0);
        site.sql(&format!(
            "INSERT INTO config_table VALUES ('priority_decay_half_life', '{period}'), ('priority_usage_reset_period', '{}')",
            period * 1000
        ));
        let ran = fairshare(["what-if", "-p", site.path(), "--in", time, "--idle", "ann", "--json"]);
        let json = ran.json();
        let steps = json["course"]["steps"].as_array().expect("steps");
        assert!((2..=10).contains(&steps.len()), "{time}: {steps:?}");
        let ann = ("ann".to_owned(), "A".to_owned());
        assert_eq!(
            steps.last().expect("a step")["fairshare"].as_f64(),
            Some(predicted_fairshares(&json)[&ann]),
            "{time}"
        );
        // With `--idle A` the output has no steps, but the predicted fair-shares must be the same.
        let ran = fairshare(["what-if", "-p", site.path(), "--in", time, "--idle", "A", "--json"]);
        assert_eq!(predicted_fairshares(&ran.json()), predicted_fairshares(&json), "{time}");
    }
}

/// `why` predicts the period boundary at which the usage of the bank falls to its share. One boundary earlier, the usage must still be
/// above the share.
#[test]
fn usage_falls_to_the_share_at_the_boundary_that_why_predicts() {
    let site = make_site_near_period_end("even_again", 1.9 * 86_400.0);
    // The bank has a quarter of the shares and four fifths of the usage.
    site.sql(
        "UPDATE association_table SET job_usage = job_usage * 6 WHERE username = 'ann';
        UPDATE job_usage_per_association_table SET value = value * 6 WHERE username = 'ann'",
    );
    let ran = fairshare(["why", "ann", "-p", site.path()]);
    let text = ran.ok();
    assert!(
        text.contains(
            "Given the usage of its siblings, the share of bank A is 20,000 node-hours. Its usage \
                       is back at this share in 23 days ("
        ),
        "{text}"
    );
    let level = |time: &str| {
        let ran = fairshare(["what-if", "-p", site.path(), "--in", time, "--idle", "A", "--json"]);
        predicted_fairshares(&ran.json())[&("ann".to_owned(), "A".to_owned())]
    };
    // The bank whose usage is below its share is ranked first.
    assert_eq!((level("22d"), level("24d")), (0.25, 1.0));
    let json = fairshare(["why", "ann", "-p", site.path(), "--json"]).json();
    assert_eq!(json["associations"][0]["worst_level"]["even_usage"], 72_000_000.0);
}

/// The number of shares that `why` suggests must be enough, and one share less must not be enough.
#[test]
fn suggested_changes_are_as_small_as_possible() {
    let site = Site::small("overtake");
    let json = fairshare(["why", "ann", "-p", site.path(), "--json"]).json();
    let shares = json["associations"][0]["overtake"]["shares"].as_u64().expect("a number");
    assert_eq!((json["associations"][0]["overtake"]["bank"].as_str(), shares), (Some("A"), 3));
    let place = |shares: u64| {
        let change = format!("A={shares}");
        let ran = fairshare(["what-if", "-p", site.path(), "--shares", &change, "--json"]);
        predicted_fairshares(&ran.json())[&("ann".to_owned(), "A".to_owned())]
    };
    // With one share less, the two banks tie, and ann is not ranked first.
    assert_eq!((place(shares), place(shares - 1)), (1.0, 0.75));
}

#[test]
fn invalid_changes_are_refused() {
    let path = file("what_if_wrong", TREE);
    let rows: [(&[&str], &str); 12] = [
        (&["--submit", "0", "-N1"], "--submit: expected a number of jobs from 1 to 1,000,000"),
        (&["--submit", "9", "-N3", "-n2"], "node count must not be greater than task count"),
        (
            &[],
            "nothing is different: give --shares, --usage, --add-user, --half-life, --policy, --in, --weight or --submit",
        ),
        (
            &["--half-life", "7d"],
            "--half-life without --in needs a database, whose records are counted again",
        ),
        (&["--shares", "z=1"], "no user or bank \"z\""),
        (&["--shares", "u=1"], "u is in several banks: say u/a or u/b"),
        (&["--usage", "a+=1"], "a is a bank: its usage is the sum of its users' usage; name a user"),
        (&["--usage", "u/a+=1nh"], "--usage: this tree has no unit of usage: give the amount without nh"),
        (&["--add-user", "v/z"], "no bank \"z\""),
        (&["--add-user", "u/a"], "user \"u\" is twice in bank \"a\""),
        (&["--in", "7d"], "--in: the tree has no half-life; give one, like --half-life 7d"),
        (&["--in", "7d", "--half-life", "7d", "--idle", "z"], "no user or bank \"z\""),
    ];
    for (arguments, text) in rows {
        let ran = fairshare(["what-if", "--tree", &path].iter().chain(arguments));
        assert_eq!(ran.error(), format!("flux-fairshare: {text}"));
    }
    for wrong in [
        ["--shares", "a"],
        ["--usage", "u/a*=2"],
        ["--usage", "u/a+=-1"],
        ["--add-user", "v"],
        ["--in", "soon"],
        ["--shares", "a=-1"],
        ["--weight", "queue=1"],
    ] {
        assert_eq!(fairshare(["what-if", "--tree", &path].iter().chain(&wrong)).status, 2, "{wrong:?}");
    }
}

#[test]
fn show_reports_stale_stored_values() {
    let site = Site::small("stale");
    fairshare(["update", "-p", site.path()]).ok();
    assert!(!fairshare(["show", "-p", site.path()]).ok().contains("differ"));
    site.sql("UPDATE association_table SET job_usage = 0 WHERE username = 'ann'");
    let ran = fairshare(["show", "-p", site.path()]);
    assert!(ran.ok().contains("4 of 4 fair-shares stored differ from those shown here"), "{ran:?}");
    let update = format!("\"flux fairshare update -p {}\" stores these", site.path());
    assert!(ran.ok().contains(&update), "{ran:?}");
    let with = ["--policy", "fair-tree", "--set", "ties=documented"];
    let ran = fairshare(["show", "-p", site.path()].iter().chain(&with));
    let update = format!("\"flux fairshare update -p {} {}\" stores these", site.path(), with.join(" "));
    assert!(ran.ok().contains(&update), "{ran:?}");
    assert_eq!(fairshare(["show", "-p", site.path(), "--json"]).json()["stale"], 4);
    let plain = fairshare(["show", "-p", site.path(), "--no-header"]);
    assert_eq!(plain.ok().lines().count(), 7, "{plain:?}");
}

#[test]
fn the_command_compare_reports_the_same_places_as_the_command_show() {
    let site = Site::large("compare_all", 3, 4);
    let json = fairshare(["compare", "-p", site.path(), "--json"]).json();
    let policies = ["weighted-walk", "fair-tree", "classic", "depth-oblivious", "pbs"];
    assert_eq!(json["policies"], serde_json::json!(policies));
    let rows = json["associations"].as_array().expect("rows");
    for policy in policies {
        let shown =
            fairshare(["show", "-p", site.path(), "--policy", policy, "--json", "-o", "user,bank,place"])
                .json();
        for node in shown["nodes"].as_array().expect("nodes").iter().filter(|node| !node["user"].is_null()) {
            let row = rows.iter().find(|row| row["user"] == node["user"] && row["bank"] == node["bank"]);
            assert_eq!(row.expect("a row")[policy], node["place"], "{policy}");
        }
        let places = rows.iter().filter(|row| row["bank"] == "g1").filter_map(|row| row[policy].as_f64());
        let banks = json["banks"].as_array().expect("banks");
        let bank = banks.iter().find(|bank| bank["bank"] == "g1").expect("a bank");
        assert_eq!(
            bank[policy].as_f64(),
            Some((places.sum::<f64>() / 4.0 * 10.0).round() / 10.0),
            "{policy}"
        );
    }
    let json = fairshare(["compare", "-p", site.path(), "--json", "--policy", "weighted-walk,pbs"]).json();
    let gained = |bank: &str| -> f64 {
        let rows = json["associations"].as_array().expect("rows").iter().filter(|row| row["bank"] == bank);
        rows.filter_map(|row| row["change"].as_f64()).sum()
    };
    for bank in json["banks"].as_array().expect("banks").iter().filter(|bank| bank["bank"] != "root") {
        assert_eq!(bank["change"].as_f64(), Some(gained(bank["bank"].as_str().expect("text"))), "{bank}");
        assert_eq!(bank["users"], 4);
    }
    let parent = file(
        "compare_parent",
        r#"{"banks": [{"name": "root", "parent": null}], "associations": [{"user": "u", "bank": "root", "shares": "parent", "usage": 1}]}"#,
    );
    let ran = fairshare(["compare", "--tree", &parent]);
    assert!(ran.ok().contains("without pbs: ") && ran.out.contains("without weighted-walk: "), "{ran:?}");
}

#[test]
fn the_length_of_a_forecast_is_not_rounded() {
    let site = Site::small("what_if_length");
    for (length, text) in [("60h", "60h later, all users idle"), ("7d", "7 days later, all users idle")] {
        let document = fairshare(["what-if", "--in", length, "--json", "-p", site.path()]).json();
        assert_eq!(document["changes"], serde_json::json!([text]));
    }
}

#[test]
fn the_steps_of_a_forecast_have_different_dates() {
    let path = file("forecast_dates", TREE);
    for later in ["7d", "8d"] {
        let words = ["what-if", "--tree", &path, "--half-life", "7d", "--in", later, "--idle", "b", "--json"];
        let json = fairshare(words).json();
        let steps = json["course"]["steps"].as_array().expect("steps");
        let dates: BTreeSet<_> = steps.iter().map(|step| step["date"].as_str()).collect();
        assert_eq!(dates.len(), steps.len(), "{steps:?}");
    }
}
