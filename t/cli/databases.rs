// SPDX-License-Identifier: LGPL-3.0-only
//! update, show and push on good databases, old and new.

use super::fairshare;
use super::site::Site;

#[test]
fn update_stores_and_show_agrees() {
    let site = Site::small("update_stores");
    assert_eq!(fairshare(["update", "-p", site.path()]).ok(), "");
    let expected = [("ann", 0.25), ("ben", 1.0), ("cat", 0.75), ("dan", 0.75)];
    assert_eq!(site.fairshares(), expected.map(|(user, value)| (user.to_owned(), value)));
    let shown = fairshare(["show", "-p", site.path(), "--json"]).json();
    for node in shown["nodes"].as_array().expect("nodes") {
        let Some(user) = node["user"].as_str() else { continue };
        let stored = expected.iter().find(|(name, _)| *name == user).expect("known").1;
        assert_eq!(node["fairshare"].as_f64(), Some(stored), "{user}");
    }
}

#[test]
fn update_keeps_full_precision_and_touches_only_what_changes() {
    let site = Site::new(
        "full_precision",
        &[("root", "", 1)],
        &[("a", "root", 1, 1.0), ("b", "root", 1, 2.0), ("c", "root", 1, 3.0)],
    );
    fairshare(["update", "-p", site.path()]).ok();
    let values: Vec<f64> = site.fairshares().into_iter().map(|(_, value)| value).collect();
    assert_eq!(values, [1.0, 2.0 / 3.0, 1.0 / 3.0]);
    let before = site.bytes();
    fairshare(["update", "-p", site.path()]).ok();
    assert_eq!(site.bytes(), before, "a second update finds nothing to write");
    // Neither does a policy that orders them alike.
    fairshare(["update", "-p", site.path(), "--policy", "fair-tree"]).ok();
    assert_eq!(site.bytes(), before);
}

#[test]
fn update_with_another_policy() {
    let site = Site::small("other_policy");
    let ran = fairshare(["update", "-v", "-p", site.path(), "--policy", "classic", "--set", "dampening=2"]);
    assert_eq!(ran.status, 0);
    let path = site.path();
    assert_eq!(ran.err, format!("{path}: 4 associations ranked by classic, 4 fair-shares changed\n"));
    // ann: norm shares 1/4, usage 40/100: 2^-(0.4 / 0.25 / 2)
    let ann = site.fairshares().first().expect("ann").1;
    assert!((ann - (-0.8f64).exp2()).abs() < 1e-15, "{ann}");
}

#[test]
fn inactive_associations_and_banks_keep_what_they_have() {
    let site = Site::small("inactive");
    site.sql("UPDATE association_table SET active = 0, fairshare = 0.123 WHERE username = 'cat'");
    site.sql("UPDATE bank_table SET active = 0 WHERE bank = 'A'");
    fairshare(["update", "-p", site.path()]).ok();
    let expected = [("ann", 0.5), ("ben", 1.0), ("cat", 0.123), ("dan", 0.5)];
    assert_eq!(site.fairshares(), expected.map(|(user, value)| (user.to_owned(), value)));
    // As flux-accounting does: left out of the sums as well.
    let ignore = fairshare(["show", "-p", site.path(), "--json", "--set", "inactive_usage=ignore"]).json();
    let root = &ignore["nodes"][0];
    assert_eq!((root["bank"].as_str(), root["usage"].as_f64()), (Some("root"), Some(30.0)));
    let count = fairshare(["show", "-p", site.path(), "--json"]).json();
    assert_eq!(count["nodes"][0]["usage"].as_f64(), Some(100.0));
}

#[test]
fn dry_run_shows_who_moves_and_writes_nothing() {
    let site = Site::small("dry_run");
    site.sql("UPDATE association_table SET fairshare = 0.7500001 WHERE username = 'cat'");
    let before = site.bytes();
    let ran = fairshare(["update", "--dry-run", "-p", site.path()]);
    let text = ran.ok();
    assert!(
        text.starts_with(
            "User  Bank    Stored  FairShare     Change\nben   B     0.500000   1.000000  +0.500000\n"
        ),
        "{text}"
    );
    assert!(
        text.ends_with(
            "3 of 4 associations would move, 1 stay (1 of them only gain digits); nothing was written\n"
        ),
        "{text}"
    );
    assert!(!text.contains("cat"), "{text}");
    let json = fairshare(["update", "-n", "--json", "-p", site.path()]).json();
    assert_eq!(json["ranked"], 4);
    let users: Vec<&str> =
        json["moves"].as_array().expect("moves").iter().filter_map(|m| m["user"].as_str()).collect();
    assert_eq!(users, ["ben", "ann", "dan"]);
    assert_eq!(site.bytes(), before);
}

#[test]
fn a_database_in_wal_mode_stays_so() {
    let site = Site::small("wal_mode");
    site.sql("PRAGMA journal_mode = WAL");
    fairshare(["update", "-p", site.path()]).ok();
    assert_eq!(site.fairshares().first().expect("ann").1, 0.25);
    let mode: String = site.open().query_row("PRAGMA journal_mode", [], |row| row.get(0)).expect("a mode");
    assert_eq!(mode, "wal");
}

#[test]
fn columns_named_as_the_row_number_is() {
    let site = |columns: &str| {
        let site = Site::small(&format!("columns_{}", columns.replace(", ", "_")));
        site.sql(&format!(
            "CREATE TABLE rows ({columns}, username, bank, shares, job_usage, fairshare, PRIMARY KEY (username, bank));
             INSERT INTO rows (username, bank, shares, job_usage, fairshare)
                 SELECT username, bank, shares, job_usage, fairshare FROM association_table;
             UPDATE rows SET ({columns}) = (SELECT {});
             DROP TABLE association_table; ALTER TABLE rows RENAME TO association_table",
            columns.split(", ").map(|_| "1").collect::<Vec<_>>().join(", ")
        ));
        site
    };
    for columns in ["rowid", "rowid, oid", "_ROWID_"] {
        let site = site(columns);
        fairshare(["update", "-p", site.path()]).ok();
        let expected = [("ann", 0.25), ("ben", 1.0), ("cat", 0.75), ("dan", 0.75)];
        assert_eq!(site.fairshares(), expected.map(|(user, value)| (user.to_owned(), value)), "{columns}");
    }
    let site = site("rowid, oid, _rowid_");
    fairshare(["show", "-p", site.path()]).ok();
    assert!(fairshare(["update", "-p", site.path()]).error().contains("has no row numbers to write by"));
}

#[test]
fn a_schema_from_before_active_banks_and_version_numbers() {
    let site = Site { path: super::directory("old_schema").join("site.db") };
    site.sql(
        "CREATE TABLE association_table (username tinytext, userid int, deleted int, bank tinytext, default_bank tinytext,
             shares int, job_usage real, fairshare real, max_jobs int);
         CREATE TABLE bank_table (bank text, parent_bank text, shares int);
         INSERT INTO bank_table VALUES ('root', '', 1);
         INSERT INTO association_table VALUES ('a', 1, 0, 'root', 'root', 1, 5, 0.5, 5);
         INSERT INTO association_table VALUES ('b', 2, 1, 'root', 'root', 1, 0, 0.5, 5);
         INSERT INTO association_table VALUES ('c', 3, 0, 'root', 'root', 1, 6, 0.5, 5);",
    );
    fairshare(["update", "-p", site.path()]).ok();
    assert_eq!(site.fairshares(), [("a".to_owned(), 1.0), ("b".to_owned(), 0.5), ("c".to_owned(), 0.5)]);
    let ran = fairshare(["push", "--dry-run", "-p", site.path()]);
    assert!(
        ran.error().contains(
            "table association_table has no columns max_running_jobs, max_active_jobs (schema version 0)"
        ),
        "{ran:?}"
    );
}

#[test]
fn push_says_what_stands_in_for_newer_columns() {
    let site = Site::small("push_old");
    site.sql("ALTER TABLE association_table DROP COLUMN max_cores; ALTER TABLE queue_table DROP COLUMN max_sched_jobs");
    site.sql("DROP TABLE config_table; DROP TABLE priority_factor_weight_table; PRAGMA user_version = 26");
    let ran = fairshare(["push", "-n", "-p", site.path()]);
    assert_eq!(ran.status, 0);
    assert_eq!(ran.out, "would send 4 associations, 0 queues, 0 projects, 3 banks, 4 factors, the config\n");
    for part in [
        "an old schema; sent for what it lacks: ",
        "association_table.max_cores: 2147483647",
        "queue_table.max_sched_jobs: 2147483647",
        "priority_factor_weight_table: the plugin's default weights",
        "config_table: deny_unknown_queues false",
    ] {
        assert!(ran.err.contains(part), "{ran:?}");
    }
}

#[test]
fn push_names_a_value_that_is_none() {
    let site = Site::small("push_bad_value");
    site.sql("UPDATE association_table SET max_nodes = 'many' WHERE username = 'cat'");
    assert_eq!(
        fairshare(["push", "-n", "-p", site.path()]).error(),
        format!(
            "flux-fairshare: {}: association_table: userid 65534 bank \"B\": max_nodes is \"many\", expected a whole number; \
             \"flux account edit-user --bank='B' --max-nodes=VALUE USERNAME\" puts it right",
            site.path()
        )
    );
    site.sql("UPDATE association_table SET max_nodes = 5; INSERT INTO config_table VALUES ('deny_unknown_queues', 'maybe')");
    let ran = fairshare(["push", "-n", "-p", site.path()]);
    assert!(ran.error().contains("deny_unknown_queues is \"maybe\", expected true or false"), "{ran:?}");
}

#[test]
fn push_without_an_instance_fails() {
    let site = Site::small("push_nowhere");
    let ran = fairshare(["push", "-p", site.path(), "--uri", "local:///nonexistent/socket"]);
    let text = ran.error();
    assert!(text.contains("can't connect to Flux") || text.contains("Flux is needed for this"), "{text}");
}

#[test]
fn push_reads_what_export_json_printed() {
    let good = super::file(
        "push_json",
        r#"{"associations": [{"userid": 5001, "bank": "A", "def_bank": "A", "fairshare": 0.5, "max_running_jobs": 1,
            "max_active_jobs": 1, "queues": "", "active": 1, "projects": "*", "def_project": "*", "max_nodes": 1,
            "max_cores": 1, "max_sched_jobs": 1}], "queues": [], "projects": [{"project": "*"}],
            "banks": [{"bank": "A", "priority": 0.0}], "config": {"deny_unknown_queues": false}, "priority_factors": []}"#,
    );
    assert_eq!(
        fairshare(["push", "-n", "-p", &good]).ok(),
        "would send 1 association, 0 queues, 1 project, 1 bank, 0 factors, the config\n"
    );
    let ran = fairshare(["show", "--tree", &good]);
    assert!(
        ran.error().contains("has neither a tree nor shares nor usage: it can only be pushed"),
        "{ran:?}"
    );
    let bad = super::file("push_json_bad", r#"{"associations": [{"userid": 1}], "queues": []}"#);
    let ran = fairshare(["push", "-n", "-p", &bad]);
    assert!(ran.error().ends_with("the plugin would refuse it: policy.projects: key is missing"), "{ran:?}");
    let ran = fairshare(["push", "-p", &bad]);
    assert!(ran.error().contains("missing field"), "names the field: {ran:?}");
}
