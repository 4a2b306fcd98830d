// SPDX-License-Identifier: LGPL-3.0-only
//! Output that was once unreadable or wrong: sums of PBS, inactive banks, long names, names in `-P`, terminals that report 0 rows.

use super::site::Site;
use super::table::run_on_screen;
use super::{PROGRAM, fairshare, file, run_with_input};

/// Returns the figures in the row of level `name` of the table.
fn read_figures(text: &str, name: &str) -> Vec<String> {
    let mut table = text.lines().skip_while(|line| !line.contains("of level"));
    let line = table.find(|line| line.trim_start().starts_with(&format!("{name} "))).expect("a level");
    line.split_whitespace().skip(1).map(|figure| figure.replace(',', "")).collect()
}

const PBS: &str = r#"{"banks": [{"name": "root", "parent": null}, {"name": "g1", "parent": "root", "shares": 50},
     {"name": "g2", "parent": "root", "shares": 50}, {"name": "g0", "parent": "root", "shares": 0}],
 "associations": [{"user": "a", "bank": "g1", "shares": 1, "usage": 49}, {"user": "b", "bank": "g1", "shares": 1, "usage": 150},
     {"user": "c", "bank": "g2", "shares": 1, "usage": 100}, {"user": "d", "bank": "g2", "shares": 1},
     {"user": "e", "bank": "g2", "shares": 0, "usage": 7}, {"user": "f", "bank": "g0", "shares": 3, "usage": 2}]}"#;

/// The printed usages exclude PBS's initial usage of 1. So the usage of a group is the sum of its members' usages.
#[test]
fn why_prints_pbs_usages_as_fractions_of_the_parent_level() {
    let path = file("pbs_sums", PBS);
    let ran = fairshare(["why", "a", "--tree", &path, "--policy", "pbs"]);
    let text = ran.ok();
    let (root, group, user) = (read_figures(text, "root"), read_figures(text, "g1"), read_figures(text, "a"));
    assert_eq!((root[0].as_str(), group[3].as_str(), user[3].as_str()), ("308", "199", "49"), "{text}");
    // Each percentage relates to the level above: 199 is 64.61 % of 308, and 49 is 24.62 % of 199.
    assert_eq!((group[4].as_str(), user[4].as_str()), ("64.61", "24.62"), "{text}");
    let below = fairshare(["why", "g1", "--tree", &path, "--policy", "pbs"]);
    assert!(below.ok().contains("and used 199 of 308 (64.61 %), mainly by b 150 (75.38 %)"), "{below:?}");
}

#[test]
fn why_shows_no_formula_for_a_user_without_a_target() {
    let path = file("pbs_no_target", PBS);
    for (user, why) in [("e", "it has no shares"), ("f", "a bank above it has 0 shares")] {
        let ran = fairshare(["why", user, "a", "--tree", &path, "--policy", "pbs"]);
        assert!(ran.ok().contains(&format!("which makes fair-share 0: {why}.")), "{ran:?}");
        assert!(!ran.out.contains("target 0.000000"), "why prints a division by a target of 0: {ran:?}");
    }
}

#[test]
fn why_distinguishes_an_inactive_bank_from_an_inactive_user() {
    let site = Site::small("inactive_bank");
    site.sql("UPDATE bank_table SET active = 0 WHERE bank = 'A'");
    let ran = fairshare(["why", "ann", "-p", site.path()]);
    let text = "bank A is inactive, and so is everyone below it.";
    assert!(ran.ok().contains(text) && !ran.out.contains("An inactive user"), "{ran:?}");
    let ran = fairshare(["why", "A", "-p", site.path()]);
    assert!(ran.ok().contains("\nbank A is inactive: no user below it is ranked"), "{ran:?}");
    let ran = fairshare(["show", "-p", site.path(), "--csv", "--bank", "A", "-o", "name,active"]);
    assert_eq!(ran.ok(), "name,active\nroot,\nA,false\nann,false\n");
    let ignore = ["-p", site.path(), "--set", "inactive_usage=ignore"];
    let text = format!(
        "flux-fairshare: {}: bank \"A\" is inactive, and inactive_usage=ignore leaves it out\n",
        site.path()
    );
    for asked in [vec!["show", "-b", "A"], vec!["why", "A"]] {
        let ran = fairshare(asked.into_iter().chain(ignore));
        assert_eq!((ran.status, ran.err.as_str()), (1, text.as_str()));
    }
}

/// Names in tables are cut even if the line has no maximum width. Output for programs has whole names.
#[test]
fn long_names_are_cut_in_tables_only() {
    let (user, bank) = ("u".repeat(300), "日本".repeat(150));
    let tree = PBS.replace("\"a\"", &format!("\"{user}\"")).replace("\"g2\"", &format!("\"{bank}\""));
    let path = file("long_names", tree);
    let widest = |text: &str| text.lines().map(|line| line.chars().count()).max().expect("lines");
    let ran = fairshare(["show", "--tree", &path]);
    let cut = ["uuuu…", "uuuu.."].iter().any(|cut| ran.out.contains(cut));
    assert!(widest(ran.ok()) < 140 && cut, "{ran:?}");
    let ran = fairshare(["compare", "--tree", &path, "--limit", "0"]);
    assert!(widest(ran.ok()) < 190, "{ran:?}");
    let ran = fairshare(["why", &user, "--tree", &path]);
    let table: Vec<&str> = ran.ok().lines().skip_while(|line| !line.contains("of level")).take(4).collect();
    assert!(widest(&table.join("\n")) < 120, "{table:?}");
    // Titles are aligned with their figures.
    let end = |line: &str, word: &str| line.find(word).map(|at| at + word.len());
    assert_eq!(end(table[0], "shares"), end(table[2], " 50"), "{table:?}");
    for form in ["--json", "--csv", "-P"] {
        let ran = fairshare(["show", "--tree", &path, form, "-o", "name"]);
        assert!(ran.ok().contains(&user) && ran.out.contains(&bank), "{form}");
    }
    for columns in [40, 80, 120] {
        let show = format!("PROGRAM show --tree {path} --color never");
        let Some(ran) = run_on_screen((columns, 50), "xterm", &show) else { return };
        let shown = ran.out.lines().take_while(|line| !line.trim().is_empty());
        for line in shown {
            assert!(
                unicode_width::UnicodeWidthStr::width(line.trim_end()) <= columns as usize,
                "{columns}: {line}"
            );
        }
        assert!(ran.out.contains("uuuu…"), "{columns}: {}", ran.out);
    }
}

#[test]
fn separators_in_names_are_quoted() {
    let path = file("separators", PBS.replace("\"a\"", "\"a|b\\nc\"").replace("\"b\"", "\"x\\\"y\""));
    let show = ["show", "--tree", &path, "--bank", "g1", "-o", "user,bank", "--no-header"];
    let ran = fairshare(show.into_iter().chain(["-P"]));
    assert_eq!(ran.ok(), "|root\n|g1\n\"a|b\nc\"|g1\n\"x\"\"y\"|g1\n");
    let ran = fairshare(show.into_iter().chain(["--csv"]));
    assert_eq!(ran.ok(), ",root\n,g1\n\"a|b\nc\",g1\n\"x\"\"y\",g1\n");
}

#[test]
fn no_format_prints_control_characters_on_a_terminal() {
    let path = file("acting_forms", PBS.replace("\"a\"", "\"a\\u001b[31m\\u0007\""));
    for form in ["-P", "--csv", "--json", "--color=never"] {
        let show = format!("PROGRAM show --tree {path} {form}");
        let Some(ran) = run_on_screen((80, 50), "xterm", &show) else { return };
        assert!(!ran.out.contains('\x1b') && !ran.out.contains('\x07'), "{form}: {ran:?}");
        assert!(ran.out.contains("[31m"), "{form}: {ran:?}");
    }
}

/// As in git, COLUMNS takes precedence over the width of the terminal.
#[test]
fn the_environment_variable_columns_sets_the_width_of_tables() {
    let path = file("columns", PBS);
    for columns in ["60", "100"] {
        let mut command = std::process::Command::new(PROGRAM);
        let ran = run_with_input(command.args(["show", "--tree", &path]).env("COLUMNS", columns), "");
        let widest = ran.ok().lines().map(str::len).max().expect("lines");
        assert!(widest <= columns.parse().expect("a number"), "{columns}: {ran:?}");
        let Some(ran) =
            run_on_screen((200, 50), "dumb", &format!("COLUMNS={columns} PROGRAM show --tree {path}"))
        else {
            return;
        };
        let widest = ran.out.lines().map(|line| line.trim_end().chars().count()).max().expect("lines");
        assert!(widest <= columns.parse().expect("a number"), "{columns}: {ran:?}");
    }
    let mut command = std::process::Command::new(PROGRAM);
    let ran = run_with_input(command.args(["show", "--tree", &path]).env("COLUMNS", "0"), "");
    assert!(ran.ok().contains("NormUsage"), "0 is no width: {ran:?}");
}

/// A terminal that reports 0 rows may still report its columns.
#[test]
fn a_terminal_without_rows_keeps_its_columns() {
    let path = file("no_rows", PBS);
    let Some(ran) = run_on_screen((50, 0), "dumb", &format!("PROGRAM show --tree {path}")) else { return };
    let widest = ran.out.lines().map(|line| line.trim_end().chars().count()).max().expect("lines");
    assert!(widest <= 50, "{ran:?}");
}
