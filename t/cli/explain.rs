// SPDX-License-Identifier: LGPL-3.0-only
//! why and compare: words and numbers.

use super::site::Site;
use super::{fairshare, file};

const TREE: &str = r#"{"banks": [{"name": "root", "parent": null}, {"name": "chem", "parent": "root", "shares": 100},
     {"name": "phys", "parent": "root", "shares": 300}],
 "associations": [{"user": "ann", "bank": "chem", "shares": 1, "usage": 900}, {"user": "bob", "bank": "phys", "shares": 1, "usage": 100},
     {"user": "cat", "bank": "phys", "shares": 1, "usage": 0}, {"user": "ann", "bank": "phys", "shares": 1, "usage": 0}]}"#;

#[test]
fn why_two_under_a_rank_policy() {
    let path = file("why_two", TREE);
    let ran = fairshare(["why", "bob", "ann/chem", "--tree", &path]);
    let expected = "\
bob in bank phys is ahead of ann in bank chem (weighted-walk)
  bob in bank phys: fair-share 0.500000, rank 2 of 4
  ann in bank chem: fair-share 0.250000, rank 1 of 4

The first bank above both is root.
What counts is right below it: bank phys against bank chem.
  bank phys has 300 of 400 shares (75.00 %)
  and 100 of the 1000 used (10.00 %), most by bob 100 (100.00 %)
  which makes weight 7.5000: under-served.
  bank chem has 100 of 400 shares (25.00 %)
  and 900 of the 1000 used (90.00 %), most by ann 900 (100.00 %)
  which makes weight 0.2778: over-served.
7.5000 is more than 0.2778: everyone below bank phys comes before everyone below bank chem.
";
    assert_eq!(ran.ok(), expected);
    let json = fairshare(["why", "bob", "ann/chem", "--tree", &path, "--json"]).json();
    assert_eq!(json["ahead"]["user"], "bob");
    assert_eq!(json["ancestor"], "root");
    assert_eq!(json["fork"][0]["bank"], "phys");
    assert_eq!(json["fork"][1]["value"].as_f64(), Some(0.25 / 0.9));
    assert_eq!(json["fork"][1]["top_users"][0]["user"], "ann");
}

#[test]
fn why_one_says_where_most_was_lost() {
    let path = file("why_one", TREE);
    let ran = fairshare(["why", "ann", "--tree", &path]);
    let text = ran.ok();
    assert!(text.contains("ann in bank chem: fair-share 0.250000, rank 1 of 4 (weighted-walk)\n"), "{text}");
    assert!(text.contains("Most was lost at bank chem:\n  bank chem has 100 of 400 shares"), "{text}");
    assert!(text.contains("ann in bank phys: fair-share 1.000000"), "both banks of ann: {text}");
    assert!(text.contains("Nothing was lost"), "{text}");
}

#[test]
fn why_under_a_formula_policy_gives_both_chains() {
    let path = file("why_formula", TREE);
    let ran =
        fairshare(["why", "bob/phys", "cat", "--tree", &path, "--policy", "pbs", "--set", "pbs.min_usage=0"]);
    let text = ran.ok();
    assert!(text.starts_with("cat in bank phys is ahead of bob in bank phys (pbs)\n"), "{text}");
    assert!(text.contains("Each fair-share is made by the numbers on its own way from the root:"), "{text}");
    // perc 1/4; tree usage: phys 0.1, bob 0.1 + (0.1 - 0.1) / 3, cat 0 + 0.1 / 3
    assert!(text.contains("(tree usage 0.100000 / target 0.250000)"), "{text}");
    assert!(text.contains("(tree usage 0.033333 / target 0.250000)"), "{text}");
    assert!(text.ends_with("level by level from the root: cat in bank phys is more deserving.\n"), "{text}");
}

#[test]
fn why_asks_back_or_says_no() {
    let path = file("why_no", TREE);
    let ran = fairshare(["why", "ann", "bob", "--tree", &path]);
    assert_eq!(ran.error(), "flux-fairshare: ann is in several banks: say ann/chem or ann/phys");
    let ran = fairshare(["why", "zoe", "--tree", &path]);
    assert_eq!((ran.status, ran.err), (1, format!("flux-fairshare: {path}: no user \"zoe\"\n")));
    let ran = fairshare(["why", "bob", "bob", "--tree", &path]);
    assert_eq!(ran.error(), "flux-fairshare: bob and bob are the same association");
}

#[test]
fn why_shows_recorded_usage_of_a_database() {
    let site = Site::small("why_bins");
    site.sql(
        "INSERT INTO job_usage_per_association_table VALUES ('ann', 1, 'A', 1, 8), ('ann', 1, 'A', 0, 36), ('ben', 2, 'B', 0, 1)",
    );
    let ran = fairshare(["why", "ann", "-p", site.path()]);
    assert!(
        ran.ok().ends_with("Recorded usage, the current period first: period 0: 36, period 1: 8\n"),
        "{ran:?}"
    );
    site.sql("DROP TABLE job_usage_per_association_table;
        CREATE TABLE job_usage_factor_table (username tinytext, bank tinytext, usage_factor_period_0 real, usage_factor_period_1 real);
        INSERT INTO job_usage_factor_table VALUES ('ann', 'A', 5, 2.5)");
    let ran = fairshare(["why", "ann", "-p", site.path()]);
    assert!(ran.ok().ends_with("period 0: 5, period 1: 2.5000\n"), "{ran:?}");
}

#[test]
fn compare_two_policies() {
    let path = file("compare", TREE);
    let json =
        fairshare(["compare", "--policies", "weighted-walk,classic", "--tree", &path, "--json"]).json();
    assert_eq!(json["policies"], serde_json::json!(["weighted-walk", "classic"]));
    assert_eq!(json["ranked"], 4);
    let sum: f64 =
        json["associations"].as_array().expect("rows").iter().filter_map(|row| row["change"].as_f64()).sum();
    assert_eq!(
        json["winners"].as_u64().expect("a number") + json["losers"].as_u64().expect("a number") > 0,
        sum != 0.0 || json["kendall_tau"] != 1.0
    );
    let same = fairshare(["compare", "--policies", "pbs,pbs", "--tree", &path]);
    assert!(
        same.ok().starts_with("4 associations: 0 gain, 0 lose, 4 keep their rank\nKendall tau 1.000000"),
        "{same:?}"
    );
    for wrong in ["classic", "classic,", "classic,nonsense"] {
        assert_eq!(fairshare(["compare", "--policies", wrong, "--tree", &path]).status, 2);
    }
}
