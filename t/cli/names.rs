// SPDX-License-Identifier: LGPL-3.0-only
//! Names that look like SQL must have no effect as SQL, in the database and in arguments.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use super::fairshare;
use super::site::{Site, read_rows};

const BANK: &str = "B'); DELETE FROM association_table; --";
const USER: &str = "x' OR '1'='1";
const PROJECT: &str = "p\"; DROP TABLE jobs; --";

/// Returns the data that are not computed: the schema, the members of banks, the jobs.
fn read_input_tables(site: &Site) -> Vec<String> {
    let connection = site.open();
    connection
        .execute_batch(
            "CREATE TEMP VIEW schema AS SELECT sql FROM main.sqlite_master WHERE name NOT LIKE 'fairshare_%' AND name NOT LIKE 'sqlite_%';
             CREATE TEMP VIEW whose AS SELECT username, bank, userid, shares FROM association_table",
        )
        .expect("views");
    read_rows(&connection, ["schema", "whose", "jobs", "queue_table", "project_table"])
}

#[test]
fn names_that_contain_sql_are_treated_as_text() {
    let banks = [("root", "", 1), ("A", "root", 1), (BANK, "root", 3)];
    let site =
        Site::new("names", &banks, &[("ann", "A", 1, 40.0), (USER, BANK, 1, 0.0), ("cat", BANK, 2, 30.0)]);
    super::pipeline::add_jobs(&site);
    let now = (super::pipeline::END + 900.0).to_string();
    site.open().execute("UPDATE jobs SET project = ?1 WHERE bank = ?2", [PROJECT, BANK]).expect("projects");
    let before = read_input_tables(&site);
    let pair = format!("{USER}/{BANK}");
    for (arguments, expected) in [
        (&["show", "--json"][..], BANK),
        (&["usage", "--by", "project", "--json", "--since", "0", "--until", &now], PROJECT),
        (&["usage", "--by", "user", "--json", "--since", "0", "--until", &now], USER),
        (&["limit", "set", "bank", BANK, "run-nodes=4"], ""),
        (&["limit", "set", "user", USER, "run-gpus=1"], ""),
        (&["limit", "set", "association", &pair, "run-gpus=2"], ""),
        (&["limit", "--json"], USER),
        (&["credit", "add", &pair, "-2", "--now", &now, "--reason", PROJECT], ""),
        (&["credit", "set", &pair, "3", "--now", &now, "--reason", USER], ""),
        (&["credit", "log", &pair, "--json"], PROJECT),
        (&["budget", "deposit", "bank", BANK, "5", "--from", "0", "--until", "9d", "--reason", PROJECT], ""),
        (
            &[
                "budget",
                "deposit",
                "association",
                &pair,
                "5",
                "--from",
                "0",
                "--until",
                "9d",
                "--reason",
                USER,
            ],
            "",
        ),
        (&["budget", "show", "association", &pair, "--json"], USER),
        (&["budget", "log", "--json"], PROJECT),
        (&["recount", "--write", "--json", "--now", &now], ""),
        (&["update"], ""),
        (&["push", "--dry-run"], ""),
        (&["sync", "--only", "usage", "--now", &now], ""),
    ] {
        let ran = fairshare([arguments, &["-p", site.path()]].concat());
        assert_eq!(ran.status, 0, "{arguments:?}: {ran:?}");
        let shown = serde_json::to_string(expected).expect("text");
        assert!(ran.out.contains(shown.trim_matches('"')), "{arguments:?}: {}", ran.out);
        assert_eq!(read_input_tables(&site), before, "{arguments:?}");
    }
    let limits = "SELECT count(DISTINCT name) FROM fairshare_limit_table";
    assert_eq!(site.open().query_row(limits, [], |row| row.get::<_, i64>(0)), Ok(3));
    // A name that belongs to no user must be refused. As an SQL condition it would select all users.
    for arguments in [
        &["limit", "set", "user", "' OR '1'='1", "run-gpus=1"][..],
        &["limit", "set", "bank", "' OR ''='", "run-nodes=1"],
        &["budget", "deposit", "user", "' OR '1'='1", "5", "--from", "0", "--until", "9d", "--reason", "-"],
    ] {
        let ran = fairshare([arguments, &["-p", site.path()]].concat());
        assert_eq!(ran.status, 2, "{arguments:?}: {ran:?}");
    }
    assert_eq!(read_input_tables(&site), before);
    // A command in a message has the name in the quotes of a shell.
    let ran = fairshare(["show", "--user", BANK, "-p", site.path()]);
    assert!(ran.err.contains("show --bank='B'\\''); DELETE FROM"), "{ran:?}");
}

#[test]
fn a_command_in_a_message_has_names_that_a_shell_does_not_change() {
    let banks = [("root", "", 1), ("-x", "root", 1), ("b$(id)", "root", 1)];
    let site = Site::new("shell_names", &banks, &[("ann", "b$(id)", 1, 0.0)]);
    for (sql, command) in [
        (
            "UPDATE association_table SET active = 'yes'",
            r"VALUE WHERE username = '\''ann'\'' AND bank = '\''b$(id)'\'''` corrects it",
        ),
        (
            "UPDATE association_table SET active = 1; UPDATE bank_table SET shares = 'x' WHERE bank = '-x'",
            "\"flux account edit-bank --shares=VALUE -- '-x'\"",
        ),
        (
            "UPDATE bank_table SET shares = 1, parent_bank = 'Z' WHERE bank = '-x'",
            "\"flux account edit-bank --parent-bank=PARENT -- -x\"",
        ),
    ] {
        site.sql(sql);
        let ran = fairshare(["push", "--dry-run", "-p", site.path()]);
        assert!(ran.status == 2 && ran.err.contains(command), "{ran:?}");
    }
}

#[test]
fn doctor_prints_json_about_a_database_whose_path_is_not_utf_8() {
    let site = Site::small("not_utf_8");
    let path = site.directory().join(OsStr::from_bytes(b"b\xff.db"));
    fs::copy(&site.path, &path).expect("copied");
    let words = ["doctor", "--json", "--uri", "local:///nonexistent", "-p"].map(OsStr::new);
    let document = fairshare([&words[..], &[path.as_os_str()]].concat()).out;
    let document: serde_json::Value = serde_json::from_str(&document).expect("JSON");
    assert!(document["database"].as_str().is_some_and(|path| path.ends_with("b\u{fffd}.db")), "{document}");
}
