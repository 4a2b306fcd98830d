// SPDX-License-Identifier: LGPL-3.0-only
//! The texts and numbers that `why` and `compare` print.

use std::time::{SystemTime, UNIX_EPOCH};

use super::pipeline::add_jobs;
use super::site::Site;
use super::{fairshare, file};

const TREE: &str = r#"{"banks": [{"name": "root", "parent": null}, {"name": "chem", "parent": "root", "shares": 100},
     {"name": "phys", "parent": "root", "shares": 300}],
 "associations": [{"user": "ann", "bank": "chem", "shares": 1, "usage": 900}, {"user": "bob", "bank": "phys", "shares": 1, "usage": 100},
     {"user": "cat", "bank": "phys", "shares": 1, "usage": 0}, {"user": "ann", "bank": "phys", "shares": 1, "usage": 0}]}"#;

#[test]
fn why_compares_two_users_under_a_rank_policy() {
    let path = file("why_two", TREE);
    let ran = fairshare(["why", "bob", "ann/chem", "--tree", &path]);
    let expected = "\
bob in bank phys is ahead of ann in bank chem (weighted-walk)

  bob in bank phys: 3rd of 4: 2 are ahead of bob; fair-share 0.500000
  ann in bank chem: 4th of 4: 3 are ahead of ann; fair-share 0.250000

Their lowest common bank is root.
Right below this bank, bank phys is compared with bank chem.

  bank phys has 300 of 400 shares (75.00 %)
  and used 100 of 1,000 (10.00 %), mainly by bob 100 (100.00 %)
  which makes weight 7.5000: below its share.

  bank chem has 100 of 400 shares (25.00 %)
  and used 900 of 1,000 (90.00 %), mainly by ann 900 (100.00 %)
  which makes weight 0.2778: above its share.

7.5000 is more than 0.2778: everyone below bank phys comes before everyone below bank chem.

What would change it:
  bank chem would come before bank phys with 2,701 shares instead of 100, or with a usage of less than 33.33 instead of 900.
  To see all effects: flux fairshare what-if --shares chem=2701
";
    let expected = expected.replace("what-if", &format!("what-if --tree {path}"));
    assert_eq!(ran.ok(), expected);
    let json = fairshare(["why", "bob", "ann/chem", "--tree", &path, "--json"]).json();
    // The user that is ranked first is printed first, in any order of arguments.
    assert_eq!(fairshare(["why", "ann/chem", "bob", "--tree", &path]).ok(), expected);
    assert_eq!(json["ahead"]["user"], "bob");
    assert_eq!(json["ancestor"], "root");
    assert_eq!(json["fork"][0]["bank"], "phys");
    assert_eq!(json["fork"][1]["value"].as_f64(), Some(0.25 / 0.9));
    assert_eq!(json["fork"][1]["top_users"][0]["user"], "ann");
}

#[test]
fn why_names_the_level_that_lowers_the_fair_share_most() {
    let path = file("why_one", TREE);
    let ran = fairshare(["why", "ann", "--tree", &path]);
    let text = ran.ok();
    assert!(
        text.contains(
            "ann in bank chem is 4th of 4: 3 are ahead of ann; fair-share 0.250000 (weighted-walk)\n"
        ),
        "{text}"
    );
    assert!(
        text.contains("The fair-share is lowered most at bank chem:\n  bank chem has 100 of 400 shares"),
        "{text}"
    );
    assert!(
        text.contains(
            "ann in bank phys is 1st of 4: no one is ahead of ann, tied with 1 other; fair-share 1.000000"
        ),
        "why must list both banks of ann: {text}"
    );
    assert!(text.contains("No level has used more than its share."), "{text}");
}

#[test]
fn why_prints_both_users_tree_levels_if_a_formula_computes_fair_shares() {
    let path = file("why_formula", TREE);
    let ran =
        fairshare(["why", "bob/phys", "cat", "--tree", &path, "--policy", "pbs", "--set", "pbs.min_usage=0"]);
    let text = ran.ok();
    assert!(
        text.starts_with("cat in bank phys is ahead of bob in bank phys (pbs, by the fairshare factor)\n"),
        "{text}"
    );
    assert!(
        text.contains("Each fair-share is computed from the levels on its own path from the root:"),
        "{text}"
    );
    // Each target is 1/4. Bank phys has usage 0.1, so bob's tree usage is 0.1 + (0.1 - 0.1) / 3, and cat's is 0 + 0.1 / 3.
    assert!(text.contains("(tree usage 0.100000 / target 0.250000)"), "{text}");
    assert!(text.contains("(tree usage 0.033333 / target 0.250000)"), "{text}");
    assert!(text.ends_with("level by level from the root: cat in bank phys is more deserving.\n"), "{text}");
}

#[test]
fn why_refuses_ambiguous_and_unknown_names() {
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
        "INSERT INTO job_usage_per_association_table VALUES ('ann', 1, 'A', 1, 28800), ('ann', 1, 'A', 0, 129600), ('ann', 1, 'A', 3, 0), ('ben', 2, 'B', 0, 1)",
    );
    let ran = fairshare(["why", "ann", "-p", site.path()]);
    let rows = |ran: &super::RunResult| -> Vec<String> {
        let lines = ran.ok().lines().skip_while(|line| !line.contains("jobs ended")).skip(1);
        lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    };
    let figures = |row: &str| row.rsplitn(5, ' ').take(4).map(str::to_owned).collect::<Vec<_>>();
    let (ran, wanted) = (rows(&ran), [["4.50", "9.00", "18.00", "36.00"], ["0", "2.00", "4.00", "8.00"]]);
    assert_eq!(ran.iter().take(2).map(|row| figures(row)).collect::<Vec<_>>(), wanted);
    assert_eq!(figures(ran.last().expect("a sum")), ["4.50", "11.00", "22.00", "44.00"]);
    site.sql("DROP TABLE job_usage_per_association_table;
        CREATE TABLE job_usage_factor_table (username tinytext, bank tinytext, usage_factor_period_0 real, usage_factor_period_1 real,
            usage_factor_period_2 real, usage_factor_period_3 real);
        INSERT INTO job_usage_factor_table VALUES ('ann', 'A', 18000, 9000, 0, 0)");
    let ran = fairshare(["why", "ann", "-p", site.path()]);
    assert_eq!(figures(rows(&ran).last().expect("a sum")), ["0.62", "1.88", "3.75", "7.50"]);
}

/// flux-accounting has an additional usage period if the reset period is not a multiple of the half-life. The command
/// shows as many periods as the association has rows. If an association has no rows, the command leaves out the
/// additional period.
#[test]
fn why_shows_as_many_usage_periods_as_the_database_has_rows() {
    let site = Site::small("why_rows");
    site.sql(
        "INSERT INTO config_table VALUES ('priority_decay_half_life', '604800'), ('priority_usage_reset_period', '2592000');
         INSERT INTO job_usage_per_association_table SELECT 'ann', 1, 'A', value, 3600000 * (value = 4) FROM json_each('[0, 1, 2, 3, 4]');
         INSERT INTO job_usage_per_association_table SELECT 'cat', 3, 'B', value, 3600000 * (value = 3) FROM json_each('[0, 1, 2, 3]')",
    );
    for (user, parts) in [("ann", 5), ("cat", 4)] {
        let ran = fairshare(["why", user, "-p", site.path()]);
        assert!(ran.ok().contains(&format!("the oldest of {parts} periods is dropped:")), "{ran:?}");
        let last = ran.ok().lines().find(|line| line.trim_start().starts_with("together ")).expect("a sum");
        let words: Vec<&str> = last.split_whitespace().collect();
        assert_eq!(words, ["together", "1,000.00", "0", "0", "0"], "{user}");
    }
}

/// Returns a site whose period ended a day ago, but whose bins are not shifted yet: the two node-hours of ann are in bin 0.
fn make_site_with_overdue_period_end(test: &str) -> Site {
    let site = Site::small(test);
    add_jobs(&site);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64().floor();
    let end = now - 86_400.0;
    site.sql(&format!(
        "UPDATE t_half_life_period_table SET end_half_life_period = {end};
         INSERT OR REPLACE INTO config_table VALUES ('priority_decay_half_life', 604800), ('priority_usage_reset_period', 2419200);
         DELETE FROM jobs WHERE id <> '101'; UPDATE jobs SET t_run = {end} - 4600, t_inactive = {end} - 1000"
    ));
    let before = (end - 10.0).to_string();
    fairshare(["sync", "--only", "usage", "--only", "fairshare", "--now", &before, "-p", site.path()]).ok();
    site
}

#[test]
fn predictions_include_a_period_boundary_that_no_sync_has_counted() {
    let site = make_site_with_overdue_period_end("why_late");
    let ran = fairshare(["why", "ann", "-p", site.path()]);
    let row = ran.ok().lines().skip_while(|line| !line.contains("jobs ended")).nth(1).expect("a row");
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(
        (words.len(), words[1], &words[3..]),
        (7, "to", ["2.00", "0.50", "0.25", "0"].as_slice()),
        "{row}"
    );
}

#[test]
fn the_command_compare_shows_rank_changes_between_two_policies() {
    let path = file("compare", TREE);
    let json = fairshare(["compare", "--policy", "weighted-walk,classic", "--tree", &path, "--json"]).json();
    assert_eq!(json["policies"], serde_json::json!(["weighted-walk", "classic"]));
    assert_eq!(json["ranked"], 4);
    let rows = json["associations"].as_array().expect("rows");
    let fairshares =
        |column: &str| rows.iter().map(|row| row[column].as_f64().expect("a number")).collect::<Vec<f64>>();
    // Under the first policy, the fair-shares are ranks among four users.
    // Under the second policy, a fair-share is 2^-(usage / 0.25), because each user has a quarter of the shares.
    // The user in chem has the usage 0.9. In phys, bob has the usage 0.1, and each of the two idle users has 0.1 / 3.
    assert_eq!(fairshares("fairshare_first"), [0.25, 1.0, 0.5, 1.0]);
    for (found, exponent) in
        fairshares("fairshare_second").into_iter().zip([3.6f64, 0.4 / 3.0, 0.4, 0.4 / 3.0])
    {
        assert!((found - (-exponent).exp2()).abs() < 1e-12, "{found}: 2^-{exponent}");
    }
    assert_eq!(
        (&json["winners"], &json["losers"], &json["kendall_tau"]),
        (&0.into(), &0.into(), &1.0.into())
    );
    let mixed = fairshare(["why", "ann/chem", "phys", "--tree", &path]).ok().to_owned();
    assert!(mixed.contains("have no order: users are ranked with users, and banks with banks"), "{mixed}");
    for twice in ["pbs,pbs", "pbs,classic,pbs"] {
        let ran = fairshare(["compare", "--policy", twice, "--tree", &path]);
        assert_eq!(ran.error(), "flux-fairshare: --policy: pbs is given twice");
    }
    for wrong in ["classic,", "classic,nonsense"] {
        assert_eq!(fairshare(["compare", "--policy", wrong, "--tree", &path]).status, 2);
    }
}

#[test]
fn the_compare_table_names_the_policies_and_says_1_association() {
    let path = file(
        "compare_titles",
        r#"{"banks": [{"name": "root", "parent": null}], "associations": [{"user": "u", "bank": "root", "shares": 1, "usage": 1}]}"#,
    );
    let ran = fairshare(["compare", "--policy", "weighted-walk,classic", "--limit", "0", "--tree", &path]);
    let (titles, rest) = ran.ok().split_once('\n').expect("lines");
    let words: Vec<&str> = titles.split("  ").map(str::trim).filter(|title| !title.is_empty()).collect();
    assert_eq!(
        words,
        ["User", "Bank", "weighted-walk", "classic", "Change", "weighted-walk FS", "classic FS"]
    );
    assert!(rest.contains("\n1 association: 0 up, 0 down, 1 in the same place\n"), "{rest}");
}

/// Under pbs, each usage has a minimum. The sums and percentages must leave this minimum out.
#[test]
fn no_percentage_exceeds_100_under_pbs() {
    let tree = r#"{"banks": [{"name": "root", "parent": null}, {"name": "A", "parent": "root", "shares": 1}],
        "associations": [{"user": "x", "bank": "A", "shares": 1, "usage": 5}, {"user": "y", "bank": "A", "shares": 1, "usage": 1}]}"#;
    let path = file("why_pbs", tree);
    let ran = fairshare(["why", "x", "--tree", &path, "--policy", "pbs"]);
    let words = ran.ok().split_whitespace().collect::<Vec<_>>().join(" ");
    for expected in ["A 1 100.00 % 5 100.00 % 0.5", "x 1 50.00 % 5 100.00 %", "and used 5 of 5 (100.00 %)"] {
        assert!(words.contains(expected), "{expected}: {words}");
    }
    let json = fairshare(["why", "x", "--tree", &path, "--policy", "pbs", "--json"]).json();
    let levels = &json["associations"][0]["levels"];
    assert_eq!((&levels[1]["sibling_usage"], &levels[2]["sibling_usage"]), (&6.0.into(), &6.0.into()));
}

#[test]
fn why_compares_only_ranked_users() {
    let tree = TREE
        .replace(r#""bank": "chem", "shares": 1,"#, r#""bank": "chem", "shares": 1, "active": false,"#)
        .replace(r#""user": "cat", "bank": "phys","#, r#""user": "cat", "bank": "phys", "active": false,"#);
    let path = file("why_inactive", tree);
    for policy in ["weighted-walk", "fair-tree", "classic", "depth-oblivious", "pbs"] {
        let ran = fairshare(["why", "bob", "ann/chem", "--tree", &path, "--policy", policy]);
        let text = ran.ok();
        let head = "ann in bank chem is inactive and is not ranked: there is nothing to compare\n";
        assert!(text.starts_with(head), "{policy}: {text}");
        for verdict in ["comes before", "is ahead of ann", "is ahead of bob in", "deserving", "Equal"] {
            assert!(!text.contains(verdict), "{policy}: {text}");
        }
        let ran = fairshare(["why", "cat", "ann/chem", "--tree", &path, "--policy", policy]);
        let head = "cat in bank phys and ann in bank chem are inactive and are not ranked: there is nothing to compare\n";
        assert!(ran.ok().starts_with(head), "{policy}: {ran:?}");
        let json =
            fairshare(["why", "bob", "ann/chem", "--tree", &path, "--policy", policy, "--json"]).json();
        assert!(json["verdict"].is_null() && json["ahead"].is_null(), "{policy}: {json}");
    }
    let json = fairshare(["why", "bob", "ann/phys", "--tree", &path, "--json"]).json();
    assert_eq!(json["verdict"], "second");
    let ran = fairshare(["why", "cat", "--tree", &path]);
    assert!(ran.ok().ends_with("An inactive user is not ranked.\n"), "{ran:?}");
    let ran = fairshare(["why", "ann/chem", "--tree", &path, "--set", "inactive_usage=ignore"]);
    let last = ran.ok().lines().find(|line| line.starts_with("    ann ")).expect("ann");
    assert_eq!(last.split_whitespace().collect::<Vec<_>>(), ["ann", "1", "-", "900", "-"]);
}

/// The ranking policy decides between a user and an equal bank.
#[test]
fn why_says_how_a_user_and_an_equal_bank_are_ranked() {
    let tree = r#"{"banks": [{"name": "root", "parent": null}, {"name": "b", "parent": "root", "shares": 1}, {"name": "c", "parent": "root", "shares": 1}],
        "associations": [{"user": "u", "bank": "root", "shares": 1, "usage": 5}, {"user": "v", "bank": "b", "shares": 1, "usage": 5},
            {"user": "w", "bank": "c", "shares": 1, "usage": 5}]}"#;
    let path = file("why_ties", tree);
    let last = |arguments: &[&str]| {
        let mut all = vec!["why", "--tree", &path];
        all.extend(arguments);
        let ran = fairshare(all);
        (
            ran.ok().lines().next().expect("a line").to_owned(),
            ran.out.lines().last().expect("a line").to_owned(),
        )
    };
    let rows: [(&[&str], &str, &str); 4] = [
        (
            &["u", "v", "--policy", "fair-tree"],
            "u in bank root is tied with v in bank b (fair-tree)",
            "Equal level fair-share: a user shares the rank of the best user below the bank.",
        ),
        (
            &["u", "v"],
            "u in bank root is ahead of v in bank b (weighted-walk)",
            "Equal weight: a user comes before a bank.",
        ),
        (
            &["u", "v", "--policy", "fair-tree", "--set", "ties=slurm-program"],
            "u in bank root is tied with v in bank b (fair-tree)",
            "Equal level fair-share: the first user below the bank shares the user's rank, unless a bank that ends the tie comes before.",
        ),
        (
            &["v", "w", "--policy", "fair-tree", "--set", "ties=slurm-program"],
            "v in bank b is tied with w in bank c (fair-tree)",
            "Equal level fair-share: Slurm's program visits the banks in the order of the input; the first \
             user of the later bank shares the rank of the last user ranked before.",
        ),
    ];
    for (arguments, first, reason) in rows {
        assert_eq!(last(arguments), (first.to_owned(), reason.to_owned()));
    }
}

#[test]
fn why_suggests_existing_users_and_banks() {
    let path = file("why_instead", TREE);
    for (name, text) in [
        ("ann/root", "ann is not in bank root, but in chem and phys"),
        ("bob/Z", "there is no bank Z; bob is in phys"),
        ("zoe/phys", "no user \"zoe/phys\""),
    ] {
        let ran = fairshare(["why", name, "--tree", &path]);
        assert_eq!((ran.status, ran.err), (1, format!("flux-fairshare: {path}: {text}\n")));
    }
    let ran = fairshare(["show", "--user", "chem", "--tree", &path]);
    let text = "no user \"chem\": chem is a bank; show --bank=chem selects it";
    assert_eq!((ran.status, ran.err), (1, format!("flux-fairshare: {path}: {text}\n")));
}

#[test]
fn why_does_not_say_that_a_user_without_shares_used_more_than_their_share() {
    let tree = TREE.replace(
        r#""user": "cat", "bank": "phys", "shares": 1"#,
        r#""user": "cat", "bank": "phys", "shares": 0"#,
    );
    let path = file("why_no_shares", tree);
    let ran = fairshare(["why", "cat", "--tree", &path, "--policy", "fair-tree"]);
    assert!(ran.ok().contains("which makes level fair-share 0: it has no shares.\n"), "{ran:?}");
    assert!(ran.ok().contains("  of level  level fair-share\n"), "two spaces separate the titles: {ran:?}");
    assert!(ran.ok().contains("with 1 share instead of 0.\n"), "{ran:?}");
    let ran = fairshare(["show", "--tree", &path, "--csv", "-o", "user,served", "--user", "cat"]);
    assert!(ran.ok().ends_with("cat,has no shares\n"), "{ran:?}");
}

#[test]
fn the_command_that_why_suggests_changes_the_same_tree() {
    let (path, site) = (file("why_suggests", TREE), Site::small("why_suggests_database"));
    let banks: Vec<&str> = vec!["A", "B"];
    for (names, source) in [
        (vec!["bob", "ann/chem"], vec!["--tree", path.as_str()]),
        (vec!["bob", "ann/chem"], vec!["--tree", &path, "--policy", "fair-tree", "--set", "ties=documented"]),
        (banks, vec!["-p", site.path()]),
    ] {
        let text = fairshare(["why"].iter().chain(&names).chain(&source)).ok().to_owned();
        let command =
            text.lines().find_map(|line| line.split_once("effects: flux fairshare ")).expect("a command").1;
        let words: Vec<&str> = command.split(' ').collect();
        assert!(words.windows(source.len()).any(|some| some == source), "{command}");
        assert!(fairshare(words).ok().contains("shares instead of"), "{command}");
    }
}

#[test]
fn why_gives_banks_with_equal_values_the_same_place() {
    let bank = |name: &str| format!(r#"{{"name": "{name}", "parent": "root", "shares": 1}}"#);
    let user =
        |bank: &str, usage| format!(r#"{{"user": "u", "bank": "{bank}", "shares": 1, "usage": {usage}}}"#);
    let tree = format!(
        r#"{{"banks": [{{"name": "root", "parent": null}}, {}, {}, {}], "associations": [{}, {}, {}]}}"#,
        bank("x"),
        bank("y"),
        bank("z"),
        user("x", 0),
        user("y", 10),
        user("z", 10)
    );
    let path = file("why_equal_banks", tree);
    for (name, place) in [("x", "1st"), ("y", "2nd"), ("z", "2nd")] {
        let ran = fairshare(["why", name, "--tree", &path]);
        assert!(ran.ok().contains(&format!("bank {name} comes {place} of 3 right below root")), "{ran:?}");
        assert_eq!(ran.ok().lines().filter(|line| line.ends_with("<-")).count(), 1, "{ran:?}");
    }
}
