// SPDX-License-Identifier: LGPL-3.0-only
//! Tests `update`, `show` and `push` with valid databases of old and new versions.

use super::fairshare;
use super::site::Site;

#[test]
fn update_stores_the_fair_shares_that_show_prints() {
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
fn update_keeps_full_precision_and_writes_only_changes() {
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
    // If another ranking policy gives the same order, update writes nothing.
    fairshare(["update", "-p", site.path(), "--policy", "fair-tree"]).ok();
    assert_eq!(site.bytes(), before);
}

#[test]
fn update_ranks_by_the_given_policy() {
    let site = Site::small("other_policy");
    let ran = fairshare(["update", "-v", "-p", site.path(), "--policy", "classic", "--set", "dampening=2"]);
    assert_eq!(ran.status, 0);
    let path = site.path();
    assert_eq!(ran.err, format!("{path}: 4 associations ranked by classic, 4 fair-shares changed\n"));
    // Ann has a quarter of the shares and 40 of 100 usage, so her fair-share is 2^-(0.4 / 0.25 / 2).
    let ann = site.fairshares().first().expect("ann").1;
    assert!((ann - (-0.8f64).exp2()).abs() < 1e-15, "{ann}");
}

#[test]
fn inactive_associations_and_banks_keep_their_values() {
    let site = Site::small("inactive");
    site.sql("UPDATE association_table SET active = 0, fairshare = 0.123 WHERE username = 'cat'");
    site.sql("UPDATE bank_table SET active = 0 WHERE bank = 'A'");
    fairshare(["update", "-p", site.path()]).ok();
    let expected = [("ann", 0.5), ("ben", 1.0), ("cat", 0.123), ("dan", 0.5)];
    assert_eq!(site.fairshares(), expected.map(|(user, value)| (user.to_owned(), value)));
    // With inactive_usage=ignore, the sums leave out inactive usage, as in flux-accounting.
    let ignore = fairshare(["show", "-p", site.path(), "--json", "--set", "inactive_usage=ignore"]).json();
    let root = &ignore["nodes"][0];
    assert_eq!((root["bank"].as_str(), root["usage"].as_f64()), (Some("root"), Some(30.0)));
    let count = fairshare(["show", "-p", site.path(), "--json"]).json();
    assert_eq!(count["nodes"][0]["usage"].as_f64(), Some(100.0));
}

#[test]
fn usage_in_json_has_its_unit_in_the_key_if_the_unit_is_known() {
    let site = Site::small("usage_units");
    let nodes = || fairshare(["show", "-p", site.path(), "--json"]).json()["nodes"].clone();
    let known = nodes();
    assert_eq!(known[0]["usage"].as_f64(), Some(100.0));
    for node in known.as_array().expect("nodes") {
        assert_eq!(node["usage_node_seconds"], node["usage"], "{node}");
    }
    site.sql("INSERT OR REPLACE INTO config_table VALUES ('core_weight', '2')");
    let weighted = nodes();
    assert!(!weighted[0].as_object().expect("an object").contains_key("usage_node_seconds"));
}

/// `flux account delete-bank A` and `flux account add-bank --parent-bank=B A` move bank A. The old row of the bank stays
/// in the table and becomes inactive.
#[test]
fn the_inactive_row_of_a_moved_bank_is_ignored() {
    let moves = [
        ("once", "UPDATE bank_table SET active = 0 WHERE bank = 'A'", 4),
        (
            "there_and_back",
            "UPDATE bank_table SET active = 0 WHERE bank = 'A';
             INSERT INTO bank_table (bank, parent_bank, shares, active) VALUES ('A', 'C', 5, 0)",
            4,
        ),
        (
            "history_is_newer",
            "DELETE FROM bank_table WHERE bank = 'A';
             INSERT INTO bank_table (bank, parent_bank, shares) VALUES ('A', 'B', 1);
             INSERT INTO bank_table (bank, parent_bank, shares, active) VALUES ('A', 'A', 5, 0)",
            3,
        ),
    ];
    for (name, history, active) in moves {
        let site = Site::new(
            &format!("moved_{name}"),
            &[("root", "", 1), ("A", "root", 1), ("B", "root", 3), ("C", "root", 2)],
            &[("ann", "A", 1, 40.0), ("cat", "C", 2, 30.0)],
        );
        site.sql(history);
        if active == 4 {
            site.sql("INSERT INTO bank_table (bank, parent_bank, shares) VALUES ('A', 'B', 1)");
        }
        for inactive in ["count", "ignore"] {
            let set = format!("inactive_usage={inactive}");
            fairshare(["update", "-p", site.path(), "--set", &set]).ok();
            // The usage of bank A counts in bank B, which has 40 of 70 usage for 3 shares. Bank C has 30 of 70 for 2 shares, so B is ranked before
            // C.
            let stored = [("ann", 1.0), ("cat", 0.5)].map(|(user, value)| (user.to_owned(), value));
            assert_eq!(site.fairshares(), stored, "{name} {set}");
            let shown = fairshare(["show", "-p", site.path(), "--json", "--set", &set]).json();
            let nodes = shown["nodes"].as_array().expect("nodes");
            let a = nodes.iter().find(|node| node["bank"] == "A" && node["user"].is_null()).expect("A");
            assert_eq!((a["parent"].as_str(), a["shares"].as_i64()), (Some("B"), Some(1)), "{name} {set}");
        }
        fairshare(["push", "--dry-run", "-p", site.path()]).ok();
        fairshare(["report", "-p", site.path(), "--output", &format!("{}.html", site.path())]).ok();
    }
}

#[test]
fn a_bank_deleted_under_two_parents_is_one_inactive_bank() {
    let site = Site::small("deleted_twice");
    site.sql(
        "UPDATE bank_table SET active = 0 WHERE bank = 'A';
         INSERT INTO bank_table (bank, parent_bank, shares, active) VALUES ('A', 'B', 1, 0)",
    );
    let shown = fairshare(["show", "-p", site.path(), "--json"]).json();
    let parent = |node: &serde_json::Value| node["parent"].as_str().map(str::to_owned);
    let nodes = shown["nodes"].as_array().expect("nodes");
    let rows: Vec<_> =
        nodes.iter().filter(|node| node["bank"] == "A" && node["user"].is_null()).map(parent).collect();
    assert_eq!(rows, [Some("B".to_owned())], "the newest row counts");
}

#[test]
fn two_active_rows_of_one_bank_are_an_error() {
    let site = Site::small("two_active");
    site.sql("INSERT INTO bank_table (bank, parent_bank, shares) VALUES ('A', 'B', 1)");
    for command in ["show", "update", "push"] {
        let ran = fairshare([command, "-p", site.path()]);
        assert!(ran.status == 2 && ran.err.contains("bank \"A\""), "{command}: {ran:?}");
    }
}

#[test]
fn dry_run_lists_moved_users_and_writes_nothing() {
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
            "3 of 4 associations would get another fair-share; 1 would keep their fair-share, 1 of them with more digits; nothing was written\n"
        ),
        "{text}"
    );
    assert!(!text.contains("cat"), "{text}");
    let json = fairshare(["update", "--dry-run", "--json", "-p", site.path()]).json();
    assert_eq!(json["ranked"], 4);
    let users: Vec<&str> =
        json["moves"].as_array().expect("moves").iter().filter_map(|m| m["user"].as_str()).collect();
    assert_eq!(users, ["ben", "ann", "dan"]);
    assert_eq!(site.bytes(), before);
}

#[test]
fn update_keeps_the_wal_mode() {
    let site = Site::small("wal_mode");
    site.sql("PRAGMA journal_mode = WAL");
    fairshare(["update", "-p", site.path()]).ok();
    assert_eq!(site.fairshares().first().expect("ann").1, 0.25);
    let mode: String = site.open().query_row("PRAGMA journal_mode", [], |row| row.get(0)).expect("a mode");
    assert_eq!(mode, "wal");
}

#[test]
fn update_accepts_columns_named_like_the_row_number() {
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
    assert!(
        fairshare(["update", "-p", site.path()])
            .error()
            .contains("has no row numbers (rowid), which writes need")
    );
}

#[test]
fn update_accepts_a_schema_without_active_banks() {
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
fn push_reports_the_defaults_it_sends_for_missing_database_columns() {
    let site = Site::small("push_old");
    site.sql("ALTER TABLE association_table DROP COLUMN max_cores; ALTER TABLE queue_table DROP COLUMN max_sched_jobs");
    site.sql("DROP TABLE config_table; DROP TABLE priority_factor_weight_table; PRAGMA user_version = 26");
    let ran = fairshare(["push", "--dry-run", "-p", site.path()]);
    assert_eq!(ran.status, 0);
    assert_eq!(
        ran.out,
        "would send 4 associations, 0 queues, 0 projects, 3 banks, 4 factor weights, the config\n"
    );
    for part in [
        "old schema; sent these defaults for missing columns: ",
        "association_table.max_cores: 2147483647",
        "queue_table.max_sched_jobs: 2147483647",
        "priority_factor_weight_table: the plugin's default weights",
        "config_table: deny_unknown_queues false",
    ] {
        assert!(ran.err.contains(part), "{ran:?}");
    }
}

#[test]
fn push_lists_limits_it_skips_and_how_to_remove_them() {
    let site = Site::small("push_lost_limit");
    for limit in [["set", "user", "ben", "run-gpus=1"], ["set", "association", "ben/B", "run-gpus=2"]] {
        let ran = fairshare([&["limit"], &limit[..], &["-p", site.path()]].concat());
        assert_eq!(ran.status, 0, "{ran:?}");
    }
    assert_eq!(fairshare(["push", "--dry-run", "-p", site.path()]).err, "");
    site.sql("DELETE FROM association_table WHERE username = 'ben'");
    let ran = fairshare(["push", "--dry-run", "-p", site.path()]);
    let expected: Vec<String> = [("association", "ben/B"), ("user", "ben")]
        .map(|(scope, name)| {
            format!(
                "flux-fairshare: {}: the limits of {scope} {name} are not sent, because {name} does not exist; \
                 \"flux fairshare limit unset {scope} {name}\" removes them\n",
                site.path()
            )
        })
        .into();
    assert_eq!((ran.status, ran.err), (0, expected.concat()));
    assert_eq!(fairshare(["limit", "unset", "user", "ben", "-p", site.path()]).status, 0);
    assert_eq!(fairshare(["push", "--dry-run", "-p", site.path()]).err, expected[0]);
}

#[test]
fn push_names_an_invalid_value() {
    let site = Site::small("push_bad_value");
    site.sql("UPDATE association_table SET max_nodes = 'many' WHERE username = 'cat'");
    assert_eq!(
        fairshare(["push", "--dry-run", "-p", site.path()]).error(),
        format!(
            "flux-fairshare: {}: association_table: username \"cat\" userid 65534 bank \"B\": max_nodes is \"many\", expected a whole number; \
             \"flux account edit-user --bank='B' --max-nodes=VALUE 'cat'\" corrects it",
            site.path()
        )
    );
    site.sql("UPDATE association_table SET max_nodes = 5; INSERT INTO config_table VALUES ('deny_unknown_queues', 'maybe')");
    let ran = fairshare(["push", "--dry-run", "-p", site.path()]);
    assert!(ran.error().contains("deny_unknown_queues is \"maybe\", expected true or false"), "{ran:?}");
}

#[test]
fn push_without_an_instance_fails() {
    let site = Site::small("push_nowhere");
    let ran = fairshare(["push", "-p", site.path(), "--uri", "local:///nonexistent/socket"]);
    let text = ran.error();
    assert!(text.contains("can't connect to Flux") || text.contains("this command needs Flux"), "{text}");
}

#[test]
fn push_reads_the_output_of_export_json() {
    let good = super::file(
        "push_json",
        r#"{"associations": [{"userid": 5001, "bank": "A", "def_bank": "A", "fairshare": 0.5, "max_running_jobs": 1,
            "max_active_jobs": 1, "queues": "", "active": 1, "projects": "*", "def_project": "*", "max_nodes": 1,
            "max_cores": 1, "max_sched_jobs": 1}], "queues": [], "projects": [{"project": "*"}],
            "banks": [{"bank": "A", "priority": 0.0}], "config": {"deny_unknown_queues": false}, "priority_factors": []}"#,
    );
    assert_eq!(
        fairshare(["push", "--dry-run", "-p", &good]).ok(),
        "would send 1 association, 0 queues, 1 project, 1 bank, 0 factor weights, the config\n"
    );
    let ran = fairshare(["show", "--tree", &good]);
    assert!(
        ran.error().contains("has neither a tree nor shares nor usage, so only push accepts it"),
        "{ran:?}"
    );
    let bad = super::file("push_json_bad", r#"{"associations": [{"userid": 1}], "queues": []}"#);
    let ran = fairshare(["push", "--dry-run", "-p", &bad]);
    assert!(
        ran.error().ends_with("the plugin would refuse the data: policy.projects: key is missing"),
        "{ran:?}"
    );
    let ran = fairshare(["push", "-p", &bad]);
    assert!(ran.error().contains("missing field"), "names the field: {ran:?}");
}

#[test]
fn all_commands_use_the_policy_of_the_site() {
    let site = Site::small("site_policy");
    let shown = |more: &[&str]| {
        let words: Vec<&str> = ["show", "--json", "-p", site.path()].iter().chain(more).copied().collect();
        let json = fairshare(words).json();
        (json["policy"].as_str().expect("a policy").to_owned(), json["options"]["dampening"].as_f64())
    };
    let policy = fairshare(["policy", "-p", site.path(), "--json"]).json();
    assert_eq!(policy["policy"], "weighted-walk");
    let before = site.bytes();
    assert_eq!(fairshare(["policy", "-p", site.path()]).status, 0);
    assert_eq!(site.bytes(), before, "to ask changes nothing");

    let ran = fairshare(["policy", "classic", "--set", "dampening=2", "-p", site.path()]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert!(ran.err.contains("at the next push"), "{}", ran.err);
    assert_eq!(shown(&[]), ("classic".to_owned(), Some(2.0)));
    // The ranking policy and each option on the command line take precedence over the stored value.
    assert_eq!(shown(&["--policy", "depth-oblivious"]), ("depth-oblivious".to_owned(), Some(2.0)));
    assert_eq!(shown(&["--set", "dampening=3"]), ("classic".to_owned(), Some(3.0)));
    fairshare(["update", "-p", site.path()]).ok();
    let ann = site.fairshares().first().expect("ann").1;
    assert!((ann - (-0.8f64).exp2()).abs() < 1e-15, "{ann}");
    let why = fairshare(["why", "ann", "--json", "-p", site.path()]).json();
    assert_eq!(why["policy"], "classic");

    fairshare(["policy", "--unset", "dampening", "-p", site.path()]);
    assert_eq!(shown(&[]), ("classic".to_owned(), Some(1.0)));
    let rows: i64 = site
        .open()
        .query_row("SELECT count(*) FROM config_table WHERE key LIKE 'fairshare.%'", [], |row| row.get(0))
        .expect("a count");
    assert_eq!(rows, 1, "an option with its default value is not stored");
}

#[test]
fn an_unknown_policy_is_reported_and_can_be_replaced() {
    let site = Site::small("no_policy");
    for (words, expected) in [
        (vec!["fair-play"], "unknown policy \"fair-play\""),
        (vec!["fair-tree", "--set", "ties=slurm"], "--set: ties is \"slurm\", expected"),
        (vec!["pbs", "--set", "dampening=2"], "--set: dampening does not apply: the policy is pbs"),
        (vec!["--unset", "tie"], "--unset: unknown option \"tie\"; did you mean \"ties\"?"),
    ] {
        let before = site.bytes();
        let ran = fairshare([&["policy", "-p", site.path()], words.as_slice()].concat());
        assert_eq!(ran.status, 2, "{words:?}");
        assert!(ran.err.contains(expected), "{words:?}: {}", ran.err);
        assert_eq!(site.bytes(), before, "{words:?}");
    }
    // "flux account edit-config" may store a name that is not a ranking policy.
    site.sql("INSERT INTO config_table VALUES ('fairshare.policy', 'fairtree')");
    for command in ["show", "update", "push"] {
        let ran = fairshare(if command == "push" {
            vec![command, "--dry-run", "-p", site.path()]
        } else {
            vec![command, "-p", site.path()]
        });
        assert_eq!(ran.status, 2, "{command}");
        let expected = "config_table: fairshare.policy: unknown policy \"fairtree\"; known are weighted-walk, fair-tree, classic";
        assert!(ran.err.contains(expected), "{command}: {}", ran.err);
    }
    assert_eq!(
        fairshare(["policy", "fair-tree", "-p", site.path()]).status,
        2,
        "its options may be wrong too"
    );
    assert_eq!(fairshare(["policy", "fair-tree", "--reset", "-p", site.path()]).status, 0);
    assert_eq!(fairshare(["show", "--json", "-p", site.path()]).json()["policy"], "fair-tree");
}

#[test]
fn a_push_sends_the_bank_tree_with_usages_and_their_cutoff_times() {
    use fairshare_accounting::store::{Access, Database, Marks, PolicyData};
    let site = Site::small("pushed_tree");
    site.sql(
        "CREATE TABLE job_usage_factor_table (username text, userid int, bank text, last_job_timestamp real);
         INSERT INTO job_usage_factor_table VALUES ('ann', 65534, 'A', 1700.25), ('ben', 65534, 'B', 900);
         UPDATE bank_table SET active = 0 WHERE bank = 'B';
         INSERT INTO config_table VALUES ('fairshare.policy', 'fair-tree'), ('priority_decay_half_life', '1000'),
             ('decay_factor', '0.25'), ('priority_usage_reset_period', '4000'), ('gpu_weight', '2.5')",
    );
    let read = || -> PolicyData {
        let mut database =
            Database::open(&site.path, Access::Read, std::time::Duration::ZERO).expect("a database");
        database.snapshot().expect("a snapshot").policy_data(2000.0).expect("data")
    };
    let data = read();
    let tree = data.tree.as_ref().expect("a tree");
    assert_eq!((tree.policy.as_str(), tree.options["ties"].as_str()), ("fair-tree", "documented"));
    // The half-life is half a period, because the decay factor is 0.25. Usages without a date get the time of the push.
    assert_eq!((tree.half_life, tree.reset, tree.at), (500.0, 4000.0, 2000.0));
    assert_eq!((tree.node_weight, tree.core_weight, tree.gpu_weight), (1.0, 0.0, 2.5));
    let branches: Vec<_> =
        data.banks.iter().map(|bank| (bank.parent.as_deref(), bank.shares, bank.active)).collect();
    let branch = |parent, shares, active| (Some(parent), Some(shares), Some(active));
    assert_eq!(branches, [branch("", 1, 1), branch("root", 1, 1), branch("root", 3, 0)]);
    let cat = &data.associations[2];
    assert_eq!((cat.username.as_deref(), cat.shares), (Some("cat"), Some(2)));
    assert_eq!((cat.usage, cat.counted_until), (Some(30.0), Some(0.0)));
    assert_eq!(data.associations[0].counted_until, Some(1700.25));
    // The data do not change when they are written as JSON and read again.
    let text = serde_json::to_string(&data).expect("JSON");
    assert_eq!(serde_json::from_str::<PolicyData>(&text).expect("as it was"), data);

    // The pushed tree has the time at which sync last counted the usage. If flux-accounting changed the usage after sync, the tree has the
    // time of the push.
    site.sql(
        "CREATE TABLE t_half_life_period_table (cluster text, end_half_life_period real);
         INSERT INTO t_half_life_period_table VALUES ('cluster', 1000);",
    );
    let counted = |period_end: f64, ran: f64| {
        let mut database =
            Database::open(&site.path, Access::Write, std::time::Duration::ZERO).expect("a database");
        let snapshot = database.snapshot().expect("a snapshot");
        snapshot.write_usage_marks(&Marks { period_end, ran, ..Marks::default() }).expect("written");
        snapshot.commit().expect("committed");
        read().tree.expect("a tree").at
    };
    for (period_end, ran, at) in [
        (1000.0, 1700.25, 1700.25),
        (1000.0, 1900.0, 1900.0),
        (1000.0, 1700.0, 2000.0),
        (0.0, 1900.0, 2000.0),
    ] {
        assert_eq!(counted(period_end, ran), at, "{period_end} {ran}");
    }
    // If a job ended in the future, a clock was wrong, so its end is ignored.
    site.sql("UPDATE job_usage_factor_table SET last_job_timestamp = 2000.5 WHERE username = 'ann'");
    assert_eq!(counted(1000.0, 1900.0), 1900.0);

    // If the database has no shares, the pushed data have no tree.
    site.sql("ALTER TABLE association_table DROP COLUMN shares");
    let data = read();
    assert_eq!((data.tree, data.associations[0].username.clone()), (None, None));
}
