// SPDX-License-Identifier: LGPL-3.0-only
//! Errors about invalid input and about options that do not apply.

use std::process::{Command, Stdio};

use super::golden::read_golden_files;
use super::imports::format_sshare;
use super::site::Site;
use super::{PROGRAM, directory, fairshare, file};

const TREE: &str = r#"{"banks": [{"name": "root", "parent": null}, {"name": "chem", "parent": "root", "shares": 1}],
 "associations": [{"user": "alice", "bank": "chem", "shares": 1, "usage": 1}, {"user": "bob", "bank": "chem", "shares": 1, "usage": 2}]}"#;

#[test]
fn norm_shares_reveal_that_users_of_sshare_are_missing() {
    for (name, golden) in read_golden_files("slurm") {
        let whole = format_sshare(&golden);
        // Without -a, sshare lists all accounts, but the only user in the list is the caller. The NormShares of the caller
        // show that siblings are missing, so this test chooses a caller with siblings.
        let users: Vec<&str> =
            whole.lines().filter_map(|line| line.split('|').nth(1)).filter(|user| !user.is_empty()).collect();
        let mine = users.get(3).expect("a user");
        let is_mine = |line: &&str| {
            let user = line.split('|').nth(1).unwrap_or("");
            user.is_empty() || user == "User" || user == *mine
        };
        let partial: String = whole.lines().filter(is_mine).map(|line| format!("{line}\n")).collect();
        let path = file(&format!("without_a_{name}"), partial);
        let ran = fairshare(["show", "--tree", &path]);
        assert!(ran.error().contains("some users or accounts are missing in account \""), "{name}: {ran:?}");
        assert!(ran.error().contains("\"sshare -a -l -P\" lists all users"), "{name}: {ran:?}");
    }
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let site = Site::small("contradictions");
    let path = site.path();
    for (words, text) in [
        (&["usage", "--by", "period", "--whole"][..], "--by period shows stored usage, to which --since,"),
        (&["usage", "--since", "5000-01-01"], "--since: 5000-01-01 is in the future"),
        (&["limit", "set", "bank", "A", "run-jobs=1", "run-jobs=2"], "run-jobs is given twice"),
        (&["what-if", "--half-life", "0s"], "'--half-life <DURATION>': expected at least a second"),
        (&["what-if", "--usage", "ann/A=1e308"], "usage 1e308 is not a number from 0 to 1e298"),
        (&["report", "-o", "/nonexistent/x"], "/nonexistent/x: No such file or directory"),
    ] {
        let ran = fairshare([words, &["-p", path]].concat());
        assert!(ran.error().contains(text) && !ran.err.contains(".part"), "{ran:?}");
    }
    let ran = fairshare(["migrate", "--to-upstream", "--json"]);
    assert!(ran.error().contains("'--to-upstream' cannot be used with"), "{ran:?}");
    for words in [&["simulate"][..], &["sync", "--watch", "1"]] {
        let mut command = Command::new(PROGRAM);
        let missing = command.args(words).env("FLUX_FAIRSHARE_DATABASE", "/nonexistent/x.db");
        let ran = super::run_with_input(missing, "");
        assert!(ran.error().contains("x.db: no such file (FLUX_FAIRSHARE_DATABASE); -p FILE"), "{ran:?}");
    }
}

#[test]
fn partial_output_of_sshare_is_refused() {
    let head = "Account|User|RawShares|NormShares|RawUsage|EffectvUsage|FairShare\n";
    for (name, rows, text) in [
        ("nobody", "root|||0.0|9||\n chem||1|1.0|9||\n", "lists accounts but no users: \"sshare -a -l -P\""),
        (
            "branch",
            "chem||1|1.0|9||\n chem|ann|1|1.0|9|1.0|1.0\n",
            "starts at account \"chem\", not at the root",
        ),
        ("users", "chem|ann|1|1.0|9|1.0|1.0\n", "line 2: user \"ann\": no account is listed: run"),
    ] {
        let path = file(&format!("part_{name}"), format!("{head}{rows}"));
        let ran = fairshare(["show", "--tree", &path]);
        assert!(ran.error().contains(text), "{ran:?}");
    }
}

#[test]
fn check_import_reports_a_wrong_normshares_value_and_the_correct_value() {
    let text = "Account|User|RawShares|NormShares|RawUsage|EffectvUsage|FairShare\n\
        root|||0.0|9||\n chem||1|1.0|9||\n  chem|ann|10|0.909080|9|1.0|0.5\n  chem|ben|1|0.090909|0|0.0|1.0\n";
    let ran = fairshare(["check-import", "--tree", &file("norm_shares", text)]);
    let wanted = "account \"chem\": 10 of 11 shares give NormShares 0.909091, but a row has 0.90908";
    assert!(ran.error().contains(wanted), "{ran:?}");
}

#[test]
fn associations_per_partition_have_their_own_rows() {
    let text = "Account|User|Partition|RawShares|NormShares|RawUsage|EffectvUsage|FairShare\n\
        root||||0.000000|100||\n chem|||1|1.000000|100||\n  chem|amira|gpu|1|0.250000|60||\n  chem|amira|cpu|1|0.250000|10||\n\
        \x20 chem|amira||1|0.250000|0||\n  chem|ben|gpu|1|0.250000|30||\n";
    let path = file("partitions", text);
    let ran = fairshare(["show", "--tree", &path, "--csv", "-o", "user,usage,place"]);
    assert_eq!(
        ran.ok(),
        "user,usage,place\n,100,\n,100,\namira,0,1\namira:cpu,10,2\nben,30,3\namira:gpu,60,4\n"
    );
    assert!(fairshare(["why", "amira:gpu", "--tree", &path]).ok().starts_with("amira:gpu in bank chem"));
    // Without -m the output has no partitions.
    let unnamed: String = text
        .lines()
        .map(|line| {
            let mut fields: Vec<&str> = line.split('|').collect();
            fields.remove(2);
            fields.join("|") + "\n"
        })
        .collect();
    let path = file("partitions_unnamed", unnamed);
    let ran = fairshare(["show", "--tree", &path, "--csv", "-o", "user,place"]);
    assert_eq!(
        (ran.status, ran.out.as_str()),
        (0, "user,place\n,\n,\namira:3,1\namira:2,2\nben,3\namira:1,4\n")
    );
    assert!(ran.err.contains("user \"amira\" has several associations in account \"chem\""), "{ran:?}");
    assert!(ran.err.contains("\"sshare -a -l -m -P\" names the partitions"), "{ran:?}");
    let ran = fairshare(["why", "amira", "--tree", &path]);
    assert!(
        ran.err
            .ends_with("no user \"amira\", but one association per partition: amira:1, amira:2, amira:3\n"),
        "{ran:?}"
    );
}

#[test]
fn push_dry_run_names_the_user_of_a_refused_record() {
    let site = Site::small("push_refused");
    for (sql, text) in [
        (
            "SET userid = 0, default_bank = ''",
            "association_table: username \"ben\" userid 0 bank \"B\": default_bank is \"\", expected a name; \
             \"flux account edit-user --bank='B' --default-bank=VALUE 'ben'\" corrects it",
        ),
        (
            "SET userid = 4000000, default_bank = 'B', projects = 'a' || char(0)",
            "the plugin would refuse the data: associations[1].projects: contains the character NUL (user 4000000, bank B)",
        ),
    ] {
        site.sql("UPDATE association_table SET userid = 1, default_bank = bank");
        site.sql("INSERT INTO priority_factor_weight_table VALUES ('fairshare', 1) ON CONFLICT DO NOTHING");
        site.sql(&format!("UPDATE association_table {sql} WHERE username = 'ben'"));
        let ran = fairshare(["push", "--dry-run", "-p", site.path()]);
        let expected = format!("flux-fairshare: {}: {text}", site.path());
        assert_eq!(ran.error(), expected);
    }
    site.sql(
        "UPDATE association_table SET userid = 4000000, projects = '*', max_nodes = -1 WHERE username = 'ben'",
    );
    let ran = fairshare(["push", "--dry-run", "-p", site.path()]);
    assert_eq!(ran.status, 0, "{ran:?}");
    let warning = "associations[1].max_nodes: negative limit -1 admits nothing (user 4000000, bank B)\n";
    assert!(ran.err.ends_with(warning), "{ran:?}");

    let document = r#"{"associations": [{"userid": "ann", "bank": "chem"}], "queues": [], "projects": [], "banks": [], "priority_factors": [], "config": {}}"#;
    let ran = fairshare(["push", "--dry-run", "-p", &file("push_refused_document", document)]);
    assert!(ran.error().ends_with("expected integer, got string (user ann, bank chem)"), "{ran:?}");
}

#[test]
fn options_that_do_not_apply_are_refused() {
    let site = Site::small("not_applying");
    let (database, tree) = (site.path(), file("not_applying_tree", TREE));
    let usage = file("not_applying_usage", "alice 1\n");
    let named = "is an option of classic and depth-oblivious";
    let rows: [(&[&str], &str); 16] = [
        (
            &["show", "-p", database, "--usage-file", &usage],
            "'--path <FILE>' cannot be used with '--usage-file <FILE>'",
        ),
        (
            &["why", "ann", "-p", database, "--tree-format", "sshare"],
            "cannot be used with '--tree-format <FORMAT>'",
        ),
        (
            &["show", "-p", database, "--unknown-shares", "3"],
            "cannot be used with '--unknown-shares <NUMBER>'",
        ),
        (
            &["show", "-t", database, "--unknown-shares", "3"],
            "(database), so --unknown-shares does not apply",
        ),
        (
            &["metrics", "--listen", "127.0.0.1:9909", "--every", "5s"],
            "cannot be used with '--every <DURATION>'",
        ),
        (
            &["metrics", "--listen", "0.0.0.0:9909"],
            "--listen: 0.0.0.0 is not a loopback address: other machines could read the metrics",
        ),
        (&["metrics", "--listen-any"], "required arguments were not provided"),
        (
            &["show", "-t", database, "--usage-file", &usage],
            "contains usages (database), so --usage-file does not apply",
        ),
        (
            &["show", "-t", &tree, "--usage-file", &usage],
            "contains usages (tree), so --usage-file does not apply",
        ),
        (
            &["show", "-t", database, "--tree-format", "sshare"],
            "--tree-format sshare does not apply: the file is an SQLite database",
        ),
        (&["show", "-t", &tree, "--policy", "fair-tree", "--set", "dampening=2"], named),
        (
            &["why", "alice", "-t", &tree, "--set", "ties=documented"],
            "the policy is weighted-walk, and ties is an option of fair-tree",
        ),
        (
            &["update", "-p", database, "--set", "pbs.min_usage=0"],
            "the policy is weighted-walk, and pbs.min_usage is an option of pbs",
        ),
        (
            &["compare", "-t", &tree, "--policy", "pbs,fair-tree", "--set", "dampening=2"],
            "the policy is pbs and fair-tree, and dampening",
        ),
        (&["update", "-p", database, "--limit", "3"], "--dry-run"),
        (
            &["compare", "-t", &tree, "--policy", "pbs,classic", "--limit", "3", "--json"],
            "cannot be used with",
        ),
    ];
    for (arguments, text) in rows {
        let ran = fairshare(arguments);
        assert!(ran.error().contains(text), "{arguments:?}: {ran:?}");
    }
    // The option applies to only one of the two ranking policies, and is accepted.
    fairshare(["compare", "-t", &tree, "--policy", "classic,fair-tree", "--set", "dampening=2"]).ok();
}

#[test]
fn a_directory_is_refused_as_a_tree() {
    let path = directory("as_tree");
    let ran = fairshare(["show", "-t", path.to_str().expect("text")]);
    assert!(ran.error().ends_with("is a directory; name a file that contains a tree"), "{ran:?}");
}

#[test]
fn a_slash_after_a_user_is_ignored() {
    let path = file("slash", TREE);
    let complete_output = fairshare(["why", "alice", "--tree", &path]);
    assert_eq!(fairshare(["why", "alice/", "--tree", &path]).ok(), complete_output.ok());
    assert_eq!(
        fairshare(["why", "alice/", "bob/", "--tree", &path]).ok(),
        fairshare(["why", "alice", "bob", "--tree", &path]).ok()
    );
}

#[test]
fn a_byte_order_mark_is_ignored() {
    for (name, text) in [
        ("json", TREE),
        ("groups", "g1 50 root 40\nBob 52 g1 50\n"),
        ("sshare", "Account|User|RawShares|RawUsage\nroot|||1\n root|ann|1|1\n"),
    ] {
        let plain = fairshare(["show", "--csv", "--tree", &file(&format!("no_mark_{name}"), text)]);
        let marked =
            fairshare(["show", "--csv", "--tree", &file(&format!("mark_{name}"), format!("\u{feff}{text}"))]);
        assert_eq!(marked.ok(), plain.ok(), "{name}");
    }
    let export = r#"{"associations": [], "queues": [], "projects": [], "banks": [], "priority_factors": [], "config": {}}"#;
    let ran = fairshare(["push", "--dry-run", "-p", &file("mark_push", format!("\u{feff}{export}"))]);
    assert!(ran.ok().starts_with("would send 0 associations"), "{ran:?}");
}

#[test]
fn faults_of_a_resource_group_name_their_line() {
    for (name, text, expected) in [
        (
            "name",
            "g1 50 root 40\nBob 52 g1 50\nBob 53 g1 10\n",
            "line 3: \"Bob\": line 2 already defines this name; PBS ignores the later line",
        ),
        (
            "missing",
            "g1 50 root 40\nBob 52 g2 50\n",
            "line 2: \"Bob\": there is no group \"g2\"; PBS ignores this line",
        ),
        (
            "later",
            "Bob 52 g1 50\ng1 50 root 40\n",
            "line 1: \"Bob\": its group \"g1\" comes later, on line 2; PBS reads from the top and ignores this line",
        ),
        ("itself", "g1 50 g1 40\n", "line 1: \"g1\": the entity is its own group"),
    ] {
        let path = file(&format!("groups_{name}"), text);
        let ran = fairshare(["show", "--tree", &path]);
        assert_eq!(ran.error(), format!("flux-fairshare: {path}: {expected}"));
    }
    // "unknown" is PBS's own group for users that no file lists. A file may add members to it.
    let path = file("groups_unknown", "g1 50 root 40\neve 52 unknown 50\n");
    fairshare(["show", "--tree", &path]).ok();
}

#[test]
fn help_that_can_not_be_written_is_an_error() {
    for arguments in [&["--help"][..], &["show", "-h"], &["--version"], &["help", "why"]] {
        let full_device = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
        let output = Command::new(PROGRAM).args(arguments).stdout(full_device).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let text = String::from_utf8(output.stderr).expect("text");
        assert_eq!(text, "flux-fairshare: can't write the output: No space left on device\n");
    }
    let mut child = Command::new(PROGRAM).arg("--help").stdout(Stdio::piped()).spawn().expect("it starts");
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("it ends").code(), Some(0), "a closed pipe is not an error");
}

#[test]
fn dry_run_is_not_listed_as_a_rule() {
    let help = fairshare(["update", "-h"]);
    let rules =
        help.ok().split("\nRules:\n").nth(1).expect("a section").split("\n\n").next().expect("its text");
    assert!(rules.contains("--policy") && !rules.contains("--dry-run"), "{rules}");
}
