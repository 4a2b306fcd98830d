// SPDX-License-Identifier: LGPL-3.0-only
//! The output of `show` for people and for programs: widths, bars, titles, and names with terminal codes.

use std::process::Command;

use serde_json::json;

use super::site::Site;
use super::{PROGRAM, RunResult, fairshare, file, run_with_input};

const TREE: &str = r#"{"banks": [{"name": "root", "parent": null}, {"name": "A", "parent": "root", "shares": 1},
     {"name": "B", "parent": "root", "shares": 3}],
 "associations": [{"user": "ann", "bank": "A", "shares": 1, "usage": 40}, {"user": "ben", "bank": "B", "shares": 1, "usage": 0.001234},
     {"user": "cat", "bank": "B", "shares": 2, "usage": 30}]}"#;

/// Runs the command on a terminal with `columns` columns. Returns `None` without the program `script`, which NO_SCRIPT must allow.
pub fn run_on_terminal(columns: u32, term: &str, command: &str) -> Option<RunResult> {
    run_on_screen((columns, 50), term, command)
}

/// Like [`run_on_terminal`], but with the given number of rows.
pub(super) fn run_on_screen((columns, rows): (u32, u32), term: &str, command: &str) -> Option<RunResult> {
    let shell = format!("stty cols {columns} rows {rows}; {}", command.replace("PROGRAM", PROGRAM));
    let mut script = Command::new("script");
    script.args(["-qec", &shell, "/dev/null"]).env("TERM", term).env("LC_ALL", "C.UTF-8");
    // If CI is set, anstream prints colours for any TERM.
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "CI", "COLUMNS", "PAGER", "LESS"] {
        script.env_remove(name);
    }
    script.env("SHELL", "/bin/sh");
    let there_is = Command::new("script").arg("--version").output().is_ok();
    assert!(
        there_is || std::env::var_os("NO_SCRIPT").is_some(),
        "script(1) of bsdutils is missing; NO_SCRIPT=1 skips this test"
    );
    there_is.then(|| run_with_input(&mut script, ""))
}

/// Returns a line without terminal codes.
fn strip_codes(line: &str) -> String {
    let mut parts = line.split('\x1b');
    let mut text = parts.next().unwrap_or_default().to_owned();
    parts.for_each(|part| text.push_str(part.split_once('m').map_or("", |(_, rest)| rest)));
    text.trim_end().to_owned()
}

#[test]
fn the_usage_bar_has_colour_codes_only_on_a_terminal() {
    let path = file("bar_codes", TREE);
    let ran = fairshare(["show", "--tree", &path, "-o", "name,bar"]);
    let expected = "\
Bank/User  Usage|Share
root
 B         =========.....|
  ben      ......|
  cat      ============|+++++++
 A         ====|++++++
  ann      ===================|

= usage up to the share, . unused share, + usage above the share, | the share
";
    assert_eq!(ran.ok(), expected);
    for form in ["--json", "--csv", "--parsable"] {
        let ran = fairshare(["show", "--tree", &path, form, "-o", "name,bar"]);
        let text = "flux-fairshare: --format: bar is a drawing, for the table only; its numbers are effective_usage and norm_shares";
        assert_eq!(ran.error(), text);
    }
    let show = format!("PROGRAM show --tree {path} -o name,bar");
    let Some(ran) = run_on_terminal(80, "xterm", &show) else { return };
    assert!(ran.out.contains("\x1b[32m█"), "{ran:?}");
    for (term, show) in [("dumb", show.clone()), ("xterm", format!("NO_COLOR=1 {show}"))] {
        let ran = run_on_terminal(80, term, &show).expect("a terminal");
        assert!(ran.out.contains("====|++++++") && !ran.out.contains('\x1b'), "{ran:?}");
    }
}

#[test]
fn the_default_table_fits_the_terminal() {
    let path = file("fits", TREE);
    let titles = |columns, arguments: &str| {
        let ran = run_on_terminal(columns, "xterm", &format!("PROGRAM show --tree {path} {arguments}"))?;
        let widest = ran.out.lines().map(|line| strip_codes(line).chars().count()).max().expect("lines");
        Some((widest, strip_codes(ran.out.lines().next().expect("titles"))))
    };
    let Some((widest, wide)) = titles(120, "") else { return };
    assert!(widest > 80 && wide.ends_with("FairShare  Usage|Share"), "{wide}");
    for columns in [100, 80, 60, 40] {
        let (widest, titles) = titles(columns, "").expect("a terminal");
        assert!(widest <= columns as usize, "{columns}: {widest}: {titles}");
        for kept in ["Bank/User", "Usage", "Place", "FairShare"] {
            assert!(titles.contains(kept), "{columns}: {titles}");
        }
    }
    assert!(!titles(100, "").expect("a terminal").1.contains("Usage|Share"));
    for columns in [120, 80, 60, 50] {
        let (widest, titles) = titles(columns, "--long").expect("a terminal");
        assert!(widest <= columns as usize, "{columns}: {widest}: {titles}");
        assert!(titles.contains("Place") && titles.contains("FairShare"), "{titles}");
    }
    // Columns that are selected with -o are all printed, even if they are wider than the terminal.
    assert!(titles(40, "-o name,norm_usage,norm_shares,usage").expect("a terminal").0 > 40);
    let ran = fairshare(["show", "--tree", &path]);
    let titles: Vec<&str> = ran.ok().lines().next().expect("titles").split_whitespace().collect();
    let expected = [
        "Bank/User",
        "Shares",
        "NormShares",
        "Usage",
        "NormUsage",
        "EffUsage",
        "LevelFS",
        "Place",
        "FairShare",
    ];
    assert_eq!(titles, expected);
}

#[test]
fn control_characters_are_escaped_in_tables_but_not_in_json() {
    let path = file("acting_names", TREE.replace("cat", "c\\u001b[31m\\n").replace("ann", "日本"));
    let columns = ["show", "--tree", &path, "-o", "name,shares"];
    let ran = fairshare(columns);
    let expected = "\
Bank/User      Shares
root                1
 B                  3
  ben               1
  c\\x1b[31m\\n       2
 A                  1
  日本              1
";
    assert_eq!(ran.ok(), expected);
    let document = fairshare(columns.into_iter().chain(["--json"])).json();
    let names: Vec<_> =
        document["nodes"].as_array().expect("nodes").iter().map(|node| &node["name"]).collect();
    assert_eq!(json!(names), json!(["root", "B", "ben", "c\u{1b}[31m\n", "A", "日本"]));
    let ran = fairshare(columns.into_iter().chain(["--csv"]));
    assert!(ran.ok().contains("\nben,1\n\"c\u{1b}[31m\n\",2\nA,1\n日本,1\n"), "{ran:?}");
    for arguments in
        [["why", "c\u{1b}[31m\n"], ["why", "ben"], ["why", "x\u{1b}[31m"], ["show", "--user=\u{1b}"]]
    {
        let ran = fairshare(arguments.into_iter().chain(["--tree", &path]));
        assert!(!ran.out.contains('\u{1b}') && !ran.err.contains('\u{1b}'), "{ran:?}");
    }
    let ran = fairshare(["compare", "--policy", "weighted-walk,pbs", "--limit", "0", "--tree", &path]);
    assert!(ran.ok().contains("\nc\\x1b[31m\\n  B "), "{ran:?}");
    let path = file("acting_error", TREE.replace("\"parent\": \"root\"", "\"parent\": \"\\u001b[2J\""));
    let ran = fairshare(["show", "--tree", &path]);
    assert!(ran.error().ends_with("bank \"A\": its parent \"\\x1b[2J\" does not exist"), "{ran:?}");
}

#[test]
fn show_prints_small_usages_with_their_significant_digits() {
    let path = file("small_usage", TREE);
    let ran = fairshare(["show", "--tree", &path, "--no-header", "--user", "ben", "-o", "user,usage"]);
    assert_eq!(ran.ok().lines().last().map(str::trim), Some("ben  0.00123"));
    let path = file("smaller_usage", TREE.replace("0.001234", "1e-9").replace("30", "30.5"));
    let ran = fairshare(["show", "--tree", &path, "-o", "name,usage", "--bank", "B"]);
    let expected = "Bank/User       Usage\nroot            70.50\n B              30.50\n  ben      < 0.000001\n  cat           30.50\n";
    assert_eq!(ran.ok(), expected);
}

#[test]
fn a_users_only_table_shows_the_bank_of_each_user() {
    let tree = file("table_users_only", TREE.as_bytes());
    let text = fairshare(["show", "--users-only", "-t", &tree]).ok().to_owned();
    let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().take(2).collect()).collect();
    assert!(words.iter().any(|row| row[..] == ["Bank/User", "Bank"]), "{text}");
    for row in [["ann", "A"], ["ben", "B"], ["cat", "B"]] {
        assert!(words.iter().any(|words| words[..] == row), "{text}");
        assert!(text.contains(&format!("\n{}", row[0])), "the user is not indented: {text}");
    }
    assert!(!fairshare(["show", "-t", &tree]).ok().contains("  Bank  "));
}

#[test]
fn columns_are_found_by_their_title() {
    let path = file("by_title", TREE);
    let base = ["show", "--tree", &path, "--user", "cat"];
    let by_name = fairshare(base.into_iter().chain(["--csv", "-o", "user,norm_shares,effective_usage"]));
    let by_title = fairshare(base.into_iter().chain(["--csv", "-o", "User,NormShares,effusage"]));
    assert_eq!(by_name.ok(), by_title.ok());
    for form in ["--csv", "--parsable"] {
        let ran = fairshare(base.into_iter().chain([form, "-o", "user", "--no-header"]));
        assert_eq!(ran.ok(), "\n\ncat\n");
    }
    let ran = fairshare(base.into_iter().chain(["-o", "name", "--no-header"]));
    assert_eq!(ran.ok(), "root\n B\n  cat\n");
    let ran = fairshare(base.into_iter().chain(["--json", "--no-header"]));
    assert!(ran.error().contains("cannot be used with"), "{ran:?}");
}

#[test]
fn show_has_a_column_of_the_stored_fair_shares() {
    let site = Site::small("stored_column");
    site.sql("UPDATE association_table SET fairshare = 0.125 WHERE username = 'cat'");
    let arguments = ["-o", "user,stored,fairshare", "--csv", "--user", "cat"];
    let ran = fairshare(["show", "-p", site.path()].into_iter().chain(arguments));
    assert!(ran.ok().ends_with("\ncat,0.125,0.75\n"), "{ran:?}");
    let path = file("stored_document", TREE);
    let ran = fairshare(["show", "--tree", &path].into_iter().chain(arguments));
    assert!(ran.ok().contains("\ncat,,"), "{ran:?}");
}

/// A progress bar appears while the tree is being read, but only on a terminal.
#[test]
fn a_column_that_is_chosen_twice_is_written_once_in_json() {
    let site = Site::small("columns_twice");
    let words = ["show", "-p", site.path(), "-U", "-o", "user,fairshare,user", "--json"];
    let json = fairshare(words).ok().to_owned();
    assert_eq!(json.matches("\"user\"").count(), json.matches("\"fairshare\"").count(), "{json}");
}

#[test]
fn show_and_why_select_a_user_by_number() {
    let path = file("user_by_number", TREE.replace("ann", "root"));
    let ran = fairshare(["show", "--tree", &path, "-U", "-u", "0", "--csv", "-n", "-o", "user,bank"]);
    assert_eq!(ran.ok(), "root,A\n");
    assert!(fairshare(["why", "0", "--tree", &path]).ok().starts_with("root in bank A"));
    // A user number does not select the bank of the same name.
    let path = file("bank_by_number", TREE);
    assert!(fairshare(["why", "0", "--tree", &path]).err.contains("no user \"0\""));
}

#[test]
fn sentences_are_wrapped_to_the_width_and_json_is_not() {
    let site = Site::small("sentences");
    let bad = super::file("sentences_config", "[fairshare]\nlive = \"x\"\n");
    let run = |words: &[&str]| run_with_input(Command::new(PROGRAM).args(words).env("COLUMNS", "40"), "").out;
    let path = site.path();
    let uri = ["--uri", "local:///nonexistent"];
    let commands: [(&[&str], usize); 3] = [
        (&["push", "--dry-run", "-p", path], 2),
        (&["config", "check", &bad], 4),
        (&["limit", "-p", path], 3),
    ];
    for (words, least) in commands {
        let text = run(words);
        // A line break can't be within a path.
        let is_narrow = |line: &&str| line.chars().count() <= 40 || !line.trim().contains(' ');
        assert!(text.lines().all(|line| is_narrow(&line)), "{text}");
        assert!(text.lines().count() >= least, "{text}");
    }
    for words in [["config", "check", &bad], ["doctor", "-p", path]] {
        let json = run(&[&words[..], &["--json"], if words[0] == "doctor" { &uri } else { &[] }].concat());
        assert_eq!(json.lines().count(), 1, "{json}");
    }
}

#[test]
fn a_progress_bar_appears_while_reading() {
    let path = file("progress", TREE);
    let show = format!("(sleep 2; cat {path}) | PROGRAM show --tree /dev/stdin --csv >/dev/null");
    let Some(ran) = run_on_terminal(80, "xterm", &show) else { return };
    assert!(ran.out.contains("reading"), "{ran:?}");
    let ran = run_on_terminal(80, "dumb", &show).expect("a terminal");
    assert_eq!(ran.out, "");
}

/// The progress bar stays until the last line is printed. Here the reader is slow, and the output is larger
/// than a pipe holds.
#[test]
fn a_progress_bar_stays_while_printing() {
    let user = |at: u32| format!(r#"{{"user": "u{at}", "bank": "root", "shares": 1, "usage": {at}}}"#);
    let users: Vec<String> = (0..5000).map(user).collect();
    let tree = r#"{"banks": [{"name": "root", "parent": null}], "associations": ["#.to_owned();
    let path = file("progress_printing", tree + &users.join(",") + "]}");
    for form in ["", "--csv", "--json"] {
        let show = format!("PROGRAM show --tree {path} {form} | (sleep 2; cat >/dev/null)");
        let Some(ran) = run_on_terminal(80, "xterm", &show) else { return };
        assert!(ran.out.contains("printing"), "{form}: {ran:?}");
    }
}
