// SPDX-License-Identifier: LGPL-3.0-only
//! Help for users of other programs and for typing errors: aliases, suggestions, the format of a document, and the command that corrects a
//! value.

use std::process::Command;

use super::site::Site;
use super::{PROGRAM, directory, fairshare, file, run_with_input};

const TREE: &str = r#"{"banks": [{"name": "root", "parent": null}, {"name": "chem", "parent": "root", "shares": 1}],
 "associations": [{"user": "alice", "bank": "chem", "shares": 1, "usage": 1}, {"user": "bob", "bank": "chem", "shares": 1, "usage": 2}]}"#;

#[test]
fn options_of_other_programs_get_a_hint() {
    let path = file("others_options", TREE);
    for (arguments, text) in [
        (
            &["why", "alice", "--csv"][..],
            "tip: why prints sentences, or JSON with --json; to print rows: flux fairshare show --user USER --csv",
        ),
        (&["show", "-p", "-o", "RawShares"], "tip: -p takes a database; sshare's -p and -P are -P here"),
        (&["show", "-p"], "tip: -p takes a database; sshare's -p and -P are -P here"),
        (&["show", "-M", "c"], "tip: a database or document holds one tree; name it with -p or -t"),
        (&["push", "-t", "x"], "tip: a document can be shown, but not stored or sent"),
    ] {
        assert!(fairshare(arguments).error().contains(text), "{arguments:?}");
    }
    let complete_output = fairshare(["why", "alice", "-t", &path]);
    for arguments in [&["-g", "alice", "-t", &path][..], &["show", "-g", "alice", "-t", &path]] {
        assert_eq!(fairshare(arguments).ok(), complete_output.ok());
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
    let complete_output = show(&["--csv"]);
    assert_eq!(show(&["-a", "--csv"]), complete_output);
    assert_eq!(show(&["-n", "--csv"]), complete_output.split_once('\n').expect("a header").1);
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
fn a_typing_error_gets_a_suggestion() {
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
            "no bank \"alice\": alice is a user; show --user=alice selects it",
        ),
        (&["show", "-o", "user,fairshair", "-t", &path], 2, "did you mean \"fairshare\"?"),
        (&["show", "--policy", "fair-three", "-t", &path], 2, "did you mean \"fair-tree\"?"),
        (&["show", "--set", "damping=2", "-t", &path], 2, "did you mean \"dampening\"?"),
        (&["show", "--tree-format", "sshar", "-t", &path], 2, "did you mean \"sshare\"?"),
        (&["shwo"], 2, "a similar subcommand exists: 'show'"),
    ] {
        let ran = fairshare(arguments);
        assert_eq!(ran.status, status, "{ran:?}");
        assert!(ran.err.contains(text), "{arguments:?}: {ran:?}");
    }
}

#[test]
fn an_unreadable_document_gets_a_format_hint() {
    let sshare = "import the output of \"sshare -a -l -P\"";
    for (name, text, what, how) in [
        (
            "people",
            "Account  User  RawShares  NormShares  RawUsage\n-----\n",
            "the fixed-width table of sshare",
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
            "the output of sprio",
            sshare,
        ),
        (
            "sacctmgr",
            "   Cluster    Account       User  Partition     Share\n",
            "the fixed-width table of sacctmgr",
            "\"sacctmgr show assoc tree -P\"",
        ),
        ("names", " TREEROOT(0)\n     g1(50)\n", "the output of \"pbsfs -t\"", "pbsfs without options"),
        (
            "entity",
            "fairshare entity: bob\nResgroup\t\t: 50\n",
            "the output of \"pbsfs -g\"",
            "pbsfs without options",
        ),
        ("yaml", "---\nshares:\n  shares: []\n", "YAML", "--json"),
        ("jobs", r#"{"jobs": [], "meta": {}}"#, "a list of jobs", "\"sshare -a --json\""),
        (
            "emulate",
            r#"{"root": {"bank": "root", "children": []}}"#,
            "flux account fairshare-emulate",
            "with -p",
        ),
        ("sacctmgr_json", r#"{"associations": [], "meta": {}}"#, "sacctmgr's JSON", "\"sshare -a --json\""),
        ("failed", "sshare: error: no\n", "an error message instead of data", "sshare: error: no"),
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
    assert!(
        ran.error().ends_with(
            "line 6: there are several clusters, one and two, each with its own tree: \
                                   \"sshare -M NAME -a -l -P\" prints the tree of one"
        ),
        "{ran:?}"
    );
    let ran = fairshare(["show", "--tree", &file("unreadable_gzip", b"\x1f\x8b\x08\0\xff\xfe")]);
    assert!(ran.error().contains("not text (UTF-8) but compressed"), "{ran:?}");
}

#[test]
fn a_wrong_value_names_the_command_that_corrects_it() {
    for (index, (sql, mend)) in [
        ("UPDATE association_table SET shares = -1 WHERE username = 'ann'", "\"flux account edit-user --bank='A' --shares=VALUE 'ann'\" corrects it"),
        ("UPDATE bank_table SET shares = 1.5 WHERE bank = 'A'", "\"flux account edit-bank --shares=VALUE 'A'\" corrects it"),
        ("UPDATE association_table SET job_usage = 'much' WHERE username = 'ann'", "\"flux fairshare recount --write\" counts all usage again"),
        ("UPDATE association_table SET job_usage = -1 WHERE username = 'ann'", "\"flux fairshare recount --write\" counts all usage again"),
        ("UPDATE association_table SET bank = 'Z' WHERE username = 'ann'", "\"flux account add-bank --parent-bank=root Z SHARES\" creates the bank, \"flux account delete-user --force ann Z\" removes the user from it"),
        ("UPDATE bank_table SET parent_bank = 'A' WHERE bank = 'A'", "\"flux account edit-bank --parent-bank=root A\" breaks the cycle"),
        ("DELETE FROM bank_table", "\"flux account add-bank root 1\" creates the first bank"),
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
    let ran = fairshare(["push", "--dry-run", "-p", site.path()]);
    assert!(
        ran.error().ends_with("\"flux account edit-user --bank='A' --max-nodes=VALUE 'ann'\" corrects it"),
        "{ran:?}"
    );
}

/// Runs a command without a database option. `commands` replaces Flux's directory of commands.
fn run_without_database(
    arguments: &[&str],
    commands: &std::path::Path,
    variable: Option<&str>,
) -> super::RunResult {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).env("FLUX_EXEC_PATH", commands).env_remove("FLUX_FAIRSHARE_DATABASE");
    if let Some(variable) = variable {
        command.env("FLUX_FAIRSHARE_DATABASE", variable);
    }
    run_with_input(&mut command, "")
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
    let set_database_path = |path: &str| {
        std::fs::write(module.join("__init__.py"), format!("DB_SCHEMA_VERSION = 38\nDB_PATH = \"{path}\"\n"))
            .expect("written");
    };
    let default_database = |commands, variable| run_without_database(&["show", "--csv"], commands, variable);
    set_database_path(site.path());
    let ran = run_without_database(&["push", "--dry-run"], &commands, None);
    let expected =
        format!("database {} (flux-accounting's own default)\nwould send 4 associations", site.path());
    assert!(ran.ok().starts_with(&expected), "{ran:?}");
    assert!(default_database(&commands, None).ok().contains("ann"));
    set_database_path("/nowhere/at/all.db");
    let ran = default_database(&commands, None);
    assert!(
        ran.error().starts_with(
            "flux-fairshare: /nowhere/at/all.db: no such file (flux-accounting's own default); -p FILE"
        ),
        "{ran:?}"
    );
    // The variable FLUX_FAIRSHARE_DATABASE takes precedence over flux-accounting's default.
    assert!(default_database(&commands, Some(site.path())).ok().contains("ann"));
    let ran = default_database(&commands, Some("/nowhere/else.db"));
    assert!(ran.error().contains("/nowhere/else.db: no such file (FLUX_FAIRSHARE_DATABASE)"), "{ran:?}");
}
