// SPDX-License-Identifier: LGPL-3.0-only
//! What the command says to people who come from elsewhere, or mistype: which input can't be right, which option does not
//! apply, and what to do instead.

use std::process::{Command, Stdio};

use super::golden::documents;
use super::imports::sshare;
use super::site::Site;
use super::{PROGRAM, directory, fairshare, file, finish};

const TREE: &str = r#"{"banks": [{"name": "root", "parent": null}, {"name": "chem", "parent": "root", "shares": 1}],
 "associations": [{"user": "alice", "bank": "chem", "shares": 1, "usage": 1}, {"user": "bob", "bank": "chem", "shares": 1, "usage": 2}]}"#;

#[test]
fn sshare_without_a_is_found_out_by_its_own_norm_shares() {
    for (name, golden) in documents("slurm") {
        let whole = sshare(&golden);
        // As one who calls it sees it: all accounts, but only the own users. Whoever is alone at a level does not show.
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
        assert!(ran.error().contains("not everybody in account \""), "{name}: {ran:?}");
        assert!(ran.error().contains("\"sshare -a -l -P\" lists everybody"), "{name}: {ran:?}");
    }
}

#[test]
fn sshare_that_lists_nobody_or_a_part_of_the_tree() {
    let head = "Account|User|RawShares|NormShares|RawUsage|EffectvUsage|FairShare\n";
    for (name, rows, text) in [
        (
            "nobody",
            "root|||0.0|9||\n chem||1|1.0|9||\n",
            "lists accounts but not one user: \"sshare -a -l -P\"",
        ),
        (
            "branch",
            "chem||1|1.0|9||\n chem|ann|1|1.0|9|1.0|1.0\n",
            "starts at account \"chem\", not at the root",
        ),
        (
            "users",
            "chem|ann|1|1.0|9|1.0|1.0\n",
            "line 2: user \"ann\": no account is listed; -U leaves them out",
        ),
    ] {
        let path = file(&format!("part_{name}"), format!("{head}{rows}"));
        let ran = fairshare(["show", "--tree", &path]);
        assert!(ran.error().contains(text), "{ran:?}");
    }
}

#[test]
fn associations_per_partition_are_rows_of_their_own_as_in_slurm() {
    let text = "Account|User|Partition|RawShares|NormShares|RawUsage|EffectvUsage|FairShare\n\
        root||||0.000000|100||\n chem|||1|1.000000|100||\n  chem|amira|gpu|1|0.250000|60||\n  chem|amira|cpu|1|0.250000|10||\n\
        \x20 chem|amira||1|0.250000|0||\n  chem|ben|gpu|1|0.250000|30||\n";
    let path = file("partitions", text);
    let ran = fairshare(["show", "--tree", &path, "--csv", "-o", "user,usage,rank"]);
    assert_eq!(
        ran.ok(),
        "user,usage,rank\n,100,\n,100,\namira,0,4\namira:cpu,10,3\nben,30,2\namira:gpu,60,1\n"
    );
    assert!(fairshare(["why", "amira:gpu", "--tree", &path]).ok().starts_with("amira:gpu in bank chem"));
    // Without -m the partitions are not named.
    let unnamed: String = text
        .lines()
        .map(|line| {
            let mut fields: Vec<&str> = line.split('|').collect();
            fields.remove(2);
            fields.join("|") + "\n"
        })
        .collect();
    let path = file("partitions_unnamed", unnamed);
    let ran = fairshare(["show", "--tree", &path, "--csv", "-o", "user,rank"]);
    assert_eq!(
        (ran.status, ran.out.as_str()),
        (0, "user,rank\n,\n,\namira:3,4\namira:2,3\nben,2\namira:1,1\n")
    );
    assert!(ran.err.contains("user \"amira\" has several associations in account \"chem\""), "{ran:?}");
    assert!(ran.err.contains("\"sshare -a -l -m -P\" names the partitions"), "{ran:?}");
    let ran = fairshare(["why", "amira", "--tree", &path]);
    assert!(
        ran.err.ends_with("no user \"amira\", but one per partition: amira:1, amira:2, amira:3\n"),
        "{ran:?}"
    );
}

#[test]
fn a_push_that_the_plugin_would_refuse_is_refused_dry_and_names_the_user() {
    let site = Site::small("push_refused");
    for (sql, text) in [
        ("SET userid = -5", "associations[1].userid: expected 0 to 4294967294, got -5 (user -5, bank B)"),
        (
            "SET userid = 0, default_bank = ''",
            "associations[1].def_bank: expected a name, got an empty string (user root, 0, bank B)",
        ),
        (
            "SET userid = 4000000, default_bank = 'B', projects = 'a' || char(0)",
            "associations[1].projects: contains the character NUL (user 4000000, bank B)",
        ),
    ] {
        site.sql("UPDATE association_table SET userid = 1, default_bank = bank");
        site.sql("INSERT INTO priority_factor_weight_table VALUES ('fairshare', 1) ON CONFLICT DO NOTHING");
        site.sql(&format!("UPDATE association_table {sql} WHERE username = 'ben'"));
        let ran = fairshare(["push", "-n", "-p", site.path()]);
        let expected = format!("flux-fairshare: {}: the plugin would refuse it: {text}", site.path());
        assert_eq!(ran.error(), expected);
    }
    site.sql(
        "UPDATE association_table SET userid = 4000000, projects = '*', max_nodes = -1 WHERE username = 'ben'",
    );
    let ran = fairshare(["push", "-n", "-p", site.path()]);
    assert_eq!(ran.status, 0, "{ran:?}");
    let warning = "associations[1].max_nodes: negative limit -1 admits nothing (user 4000000, bank B)\n";
    assert!(ran.err.ends_with(warning), "{ran:?}");

    let document = r#"{"associations": [{"userid": "ann", "bank": "chem"}], "queues": [], "projects": [], "banks": [], "priority_factors": [], "config": {}}"#;
    let ran = fairshare(["push", "-n", "-p", &file("push_refused_document", document)]);
    assert!(ran.error().ends_with("expected integer, got string (user \"ann\", bank chem)"), "{ran:?}");
}

#[test]
fn options_that_do_not_apply_are_refused() {
    let site = Site::small("not_applying");
    let (database, tree) = (site.path(), file("not_applying_tree", TREE));
    let usage = file("not_applying_usage", "alice 1\n");
    let named = "is for classic and depth-oblivious";
    let rows: [(&[&str], &str); 9] = [
        (
            &["show", "-t", database, "--usage", &usage],
            "holds its usages itself (database), so --usage does not apply",
        ),
        (
            &["show", "-t", &tree, "--usage", &usage],
            "holds its usages itself (tree), so --usage does not apply",
        ),
        (
            &["show", "-t", database, "--format", "sshare"],
            "--format sshare does not apply: it is an SQLite database",
        ),
        (&["show", "-t", &tree, "--policy", "fair-tree", "--set", "dampening=2"], named),
        (
            &["why", "alice", "-t", &tree, "--set", "ties=documented"],
            "the policy is weighted-walk, and ties is for fair-tree",
        ),
        (
            &["update", "-p", database, "--set", "pbs.min_usage=0"],
            "the policy is weighted-walk, and pbs.min_usage is for pbs",
        ),
        (
            &["compare", "-t", &tree, "--policies", "pbs,fair-tree", "--set", "dampening=2"],
            "the policy is pbs and fair-tree, and dampening",
        ),
        (&["update", "-p", database, "--limit", "3"], "--dry-run"),
        (
            &["compare", "-t", &tree, "--policies", "pbs,classic", "--limit", "3", "--json"],
            "cannot be used with",
        ),
    ];
    for (arguments, text) in rows {
        let ran = fairshare(arguments);
        assert!(ran.error().contains(text), "{arguments:?}: {ran:?}");
    }
    // What applies to one of two is of use.
    fairshare(["compare", "-t", &tree, "--policies", "classic,fair-tree", "--set", "dampening=2"]).ok();
}

#[test]
fn a_directory_is_no_tree() {
    let path = directory("as_tree");
    let ran = fairshare(["show", "-t", path.to_str().expect("text")]);
    assert!(
        ran.error().contains(
            "a directory without association_table.csv: a tree is read from a file, or from the directory"
        ),
        "{ran:?}"
    );
}

#[test]
fn a_slash_behind_a_user_says_nothing() {
    let path = file("slash", TREE);
    let whole = fairshare(["why", "alice", "--tree", &path]);
    assert_eq!(fairshare(["why", "alice/", "--tree", &path]).ok(), whole.ok());
    assert_eq!(
        fairshare(["why", "alice/", "bob/", "--tree", &path]).ok(),
        fairshare(["why", "alice", "bob", "--tree", &path]).ok()
    );
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_text() {
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
    let ran = fairshare(["push", "-n", "-p", &file("mark_push", format!("\u{feff}{export}"))]);
    assert!(ran.ok().starts_with("would send 0 associations"), "{ran:?}");
}

#[test]
fn resource_group_is_read_from_the_top_and_faults_have_a_line() {
    for (name, text, expected) in [
        (
            "name",
            "g1 50 root 40\nBob 52 g1 50\nBob 53 g1 10\n",
            "line 3: \"Bob\": this name is on line 2 already; PBS leaves the second line out",
        ),
        (
            "number",
            "g1 50 root 40\n# x\nBob 50 g1 50\n",
            "line 3: \"Bob\": the number 50 is that of \"g1\" already (line 1); each line needs its own",
        ),
        (
            "missing",
            "g1 50 root 40\nBob 52 g2 50\n",
            "line 2: \"Bob\": there is no group \"g2\"; PBS leaves this line out",
        ),
        (
            "later",
            "Bob 52 g1 50\ng1 50 root 40\n",
            "line 1: \"Bob\": its group \"g1\" comes later, on line 2; PBS reads from the top and leaves this line out",
        ),
        ("itself", "g1 50 g1 40\n", "line 1: \"g1\": it is its own group"),
        ("root", "root 50 root 40\n", "line 1: \"root\": this is what the root of the tree is called"),
    ] {
        let path = file(&format!("groups_{name}"), text);
        let ran = fairshare(["show", "--tree", &path]);
        assert_eq!(ran.error(), format!("flux-fairshare: {path}: {expected}"));
    }
    // A member of PBS's own group for those whom no file lists.
    let path = file("groups_unknown", "g1 50 root 40\neve 52 unknown 50\n");
    fairshare(["show", "--tree", &path]).ok();
}

#[test]
fn help_that_does_not_arrive_is_an_error() {
    for arguments in [&["--help"][..], &["show", "-h"], &["--version"], &["help", "why"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
        let output = Command::new(PROGRAM).args(arguments).stdout(full).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let text = String::from_utf8(output.stderr).expect("text");
        assert_eq!(text, "flux-fairshare: can't write the output: No space left on device (os error 28)\n");
    }
    let mut child = Command::new(PROGRAM).arg("--help").stdout(Stdio::piped()).spawn().expect("it starts");
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("it ends").code(), Some(0), "a closed pipe is nobody's error");
}

#[test]
fn a_dry_run_is_no_rule() {
    let help = fairshare(["update", "-h"]);
    let rules =
        help.ok().split("\nRules:\n").nth(1).expect("a section").split("\n\n").next().expect("its text");
    assert!(rules.contains("--policy") && !rules.contains("--dry-run"), "{rules}");
}

#[test]
fn options_of_others_are_told_what_they_are_called_here() {
    let path = file("others_options", TREE);
    for (arguments, text) in [
        (
            &["why", "alice", "--csv"][..],
            "tip: why prints sentences, or with --json a document; rows are what \"show\" prints",
        ),
        (
            &["show", "-p", "-o", "RawShares"],
            "tip: -p is followed by a database; what sshare calls -p and -P is -P here",
        ),
        (&["show", "-p"], "tip: -p is followed by a database; what sshare calls -p and -P is -P here"),
        (&["show", "-M", "c"], "tip: a database or document is one tree: -p or -t says which"),
        (&["push", "-t", "x"], "tip: a document can be looked at, not stored or sent"),
    ] {
        assert!(fairshare(arguments).error().contains(text), "{arguments:?}");
    }
    let whole = fairshare(["why", "alice", "-t", &path]);
    for arguments in [&["-g", "alice", "-t", &path][..], &["show", "-g", "alice", "-t", &path]] {
        assert_eq!(fairshare(arguments).ok(), whole.ok());
    }
    let both = fairshare(["why", "alice", "bob", "-t", &path]);
    assert_eq!(fairshare(["-c", "alice", "bob", "-t", &path]).ok(), both.ok());
    assert!(fairshare(["help", "show"]).ok().starts_with("Show the tree: "));
}

#[test]
fn options_of_sshare_are_understood() {
    let path = file("sshare_options", TREE);
    let show = |arguments: &[&str]| {
        let mut all = vec!["show", "-t", &path];
        all.extend(arguments);
        fairshare(all).ok().to_owned()
    };
    let whole = show(&["--csv"]);
    assert_eq!(show(&["-a", "--csv"]), whole);
    assert_eq!(show(&["-n", "--csv"]), whole.split_once('\n').expect("a header").1);
    assert_eq!(
        show(&["-A", "chem", "-u", "bob", "--csv"]),
        show(&["--bank", "chem", "--user", "bob", "--csv"])
    );
    let columns = show(&["-U", "-P", "-o", "Account%20,User,RawShares,EffectvUsage", "--sort", "list"]);
    assert_eq!(
        columns,
        "bank|user|shares|effective_usage\nchem|alice|1|0.3333333333333333\nchem|bob|1|0.6666666666666666\n"
    );
    assert_eq!(show(&["--policy", "fair_tree", "--json"]), show(&["--policy", "fair-tree", "--json"]));
}

#[test]
fn what_is_nearly_right_gets_a_suggestion() {
    let path = file("suggestions", TREE);
    for (arguments, status, text) in [
        (&["why", "alise", "-t", &path][..], 1, "no user \"alise\"; did you mean \"alice\"?"),
        (
            &["why", "alice/chm", "-t", &path],
            1,
            "there is no bank chm; alice is in chem; did you mean \"chem\"?",
        ),
        (&["show", "-u", "bbo", "-t", &path], 1, "no user \"bbo\"; did you mean \"bob\"?"),
        (&["show", "-b", "cehm", "-t", &path], 1, "no bank \"cehm\"; did you mean \"chem\"?"),
        (
            &["show", "-b", "alice", "-t", &path],
            1,
            "no bank \"alice\": alice is a user; to see it: show --user alice",
        ),
        (&["show", "-o", "user,fairshair", "-t", &path], 2, "did you mean \"fairshare\"?"),
        (&["show", "--policy", "fair-three", "-t", &path], 2, "did you mean \"fair-tree\"?"),
        (&["show", "--set", "damping=2", "-t", &path], 2, "did you mean \"dampening\"?"),
        (&["show", "--format", "sshar", "-t", &path], 2, "did you mean \"sshare\"?"),
        (&["shwo"], 2, "a similar subcommand exists: 'show'"),
    ] {
        let ran = fairshare(arguments);
        assert_eq!(ran.status, status, "{ran:?}");
        assert!(ran.err.contains(text), "{arguments:?}: {ran:?}");
    }
}

#[test]
fn an_unreadable_document_is_told_what_it_looks_like() {
    let sshare = "\"sshare -a -l -P\" prints what can be read";
    for (name, text, what, how) in [
        (
            "people",
            "Account  User  RawShares  NormShares  RawUsage\n-----\n",
            "sshare's table for people",
            sshare,
        ),
        (
            "headless",
            "root|||0.0|9||1.0|||\n chem||1|1.0|9||1.0|||\n",
            "sshare's output without its header (-n)",
            sshare,
        ),
        ("columns", "Account|User|FairShare\nroot||\n", "lacks the columns RawShares and RawUsage", sshare),
        (
            "sprio",
            "          JOBID PARTITION   PRIORITY       SITE  FAIRSHARE\n",
            "what sprio prints",
            sshare,
        ),
        (
            "sacctmgr",
            "   Cluster    Account       User  Partition     Share\n",
            "sacctmgr's table for people",
            "\"sacctmgr show assoc tree -P\"",
        ),
        ("names", " TREEROOT(0)\n     g1(50)\n", "what \"pbsfs -t\" prints", "pbsfs alone"),
        ("entity", "fairshare entity: bob\nResgroup\t\t: 50\n", "what \"pbsfs -g\" prints", "pbsfs alone"),
        ("yaml", "---\nshares:\n  shares: []\n", "YAML", "--json"),
        ("jobs", r#"{"jobs": [], "meta": {}}"#, "a list of jobs", "\"sshare -a --json\""),
        ("sacctmgr_json", r#"{"associations": [], "meta": {}}"#, "sacctmgr's JSON", "\"sshare -a --json\""),
        ("failed", "sshare: error: no\n", "an error of that program", "sshare: error: no"),
    ] {
        let path = file(&format!("unreadable_{name}"), text);
        let ran = fairshare(["show", "--tree", &path]);
        assert!(ran.error().contains(what) && ran.error().contains(how), "{name}: {ran:?}");
    }
    let clusters = "CLUSTER: one\nAccount|User|RawShares|RawUsage\nroot|||1\n root|ann|1|1\n";
    let path = file("unreadable_one_cluster", clusters);
    fairshare(["show", "--tree", &path]).ok();
    let path = file("unreadable_clusters", format!("{clusters}\nCLUSTER: two\n{}", &clusters[13..]));
    let ran = fairshare(["show", "--tree", &path]);
    assert!(ran.error().ends_with("line 6: there are several clusters, one and two, and each is a tree of its own: \"sshare -M NAME -a -l -P\" prints one"), "{ran:?}");
    let ran = fairshare(["show", "--tree", &file("unreadable_gzip", b"\x1f\x8b\x08\0\xff\xfe")]);
    assert!(ran.error().contains("not text (UTF-8) but compressed"), "{ran:?}");
}

#[test]
fn a_datum_that_is_wrong_names_the_command_that_mends_it() {
    for (index, (sql, mend)) in [
        ("UPDATE association_table SET shares = -1 WHERE username = 'ann'", "\"flux account edit-user --bank='A' --shares=VALUE 'ann'\" puts it right"),
        ("UPDATE bank_table SET shares = 1.5 WHERE bank = 'A'", "\"flux account edit-bank --shares=VALUE 'A'\" puts it right"),
        ("UPDATE association_table SET job_usage = 'much' WHERE username = 'ann'", "\"flux account-update-usage\" computes usages anew"),
        ("UPDATE association_table SET bank = 'Z' WHERE username = 'ann'", "\"flux account add-bank --parent-bank=root Z SHARES\" makes it, \"flux account delete-user --force ann Z\" removes the user from it"),
        ("UPDATE bank_table SET parent_bank = 'A' WHERE bank = 'A'", "\"flux account edit-bank --parent-bank=root A\" takes it out of the circle"),
        ("DELETE FROM bank_table", "\"flux account add-bank root 1\" makes the first"),
    ]
    .into_iter()
    .enumerate()
    {
        let site = Site::small(&format!("mended{index}"));
        site.sql(sql);
        let ran = fairshare(["show", "-p", site.path()]);
        assert!(ran.error().ends_with(mend), "{sql}: {ran:?}");
    }
    let site = Site::small("mended_push");
    site.sql("UPDATE association_table SET max_nodes = 'many' WHERE username = 'ann'");
    let ran = fairshare(["push", "-n", "-p", site.path()]);
    assert!(
        ran.error()
            .ends_with("\"flux account edit-user --bank='A' --max-nodes=VALUE USERNAME\" puts it right"),
        "{ran:?}"
    );
}

/// Runs a command without naming a database, as if Flux looked for its commands here.
fn without_database(arguments: &[&str], commands: &std::path::Path, variable: Option<&str>) -> super::Ran {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).env("FLUX_EXEC_PATH", commands).env_remove("FLUX_FAIRSHARE_DATABASE");
    if let Some(variable) = variable {
        command.env("FLUX_FAIRSHARE_DATABASE", variable);
    }
    finish(&mut command, "")
}

#[test]
fn the_database_that_flux_accounting_was_built_for_is_the_default() {
    let site = Site::small("default_database");
    let prefix = directory("default_database_prefix");
    let (commands, module) =
        (prefix.join("libexec/flux/cmd"), prefix.join("lib/python3.99/site-packages/fluxacct/accounting"));
    std::fs::create_dir_all(&commands).expect("a directory");
    std::fs::create_dir_all(&module).expect("a directory");
    std::fs::write(commands.join("flux-account.py"), "").expect("written");
    let say = |path: &str| {
        std::fs::write(module.join("__init__.py"), format!("DB_SCHEMA_VERSION = 38\nDB_PATH = \"{path}\"\n"))
            .expect("written");
    };
    let default_database = |commands, variable| without_database(&["show", "--csv"], commands, variable);
    say(site.path());
    let ran = without_database(&["push", "-n"], &commands, None);
    let said = format!("database {} (flux-accounting's own default)\nwould send 4 associations", site.path());
    assert!(ran.ok().starts_with(&said), "{ran:?}");
    assert!(default_database(&commands, None).ok().contains("ann"));
    say("/nowhere/at/all.db");
    let ran = default_database(&commands, None);
    assert!(
        ran.error().starts_with(
            "flux-fairshare: /nowhere/at/all.db: no such file (flux-accounting's own default); -p FILE"
        ),
        "{ran:?}"
    );
    // The environment comes first.
    assert!(default_database(&commands, Some(site.path())).ok().contains("ann"));
    let ran = default_database(&commands, Some("/nowhere/else.db"));
    assert!(ran.error().contains("/nowhere/else.db: no such file (FLUX_FAIRSHARE_DATABASE)"), "{ran:?}");
}
