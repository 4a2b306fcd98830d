// SPDX-License-Identifier: LGPL-3.0-only
//! Accounting databases: damaged files, and valid files with values of any type in any column. A reader gets an error or a tree, and writes
//! nothing.

use std::path::Path;
use std::time::Duration;

use super::drive::{Choices, fuzz, hash_feature, mutate_bytes, strip_values};
use crate::site::Site;
use fairshare::{InactiveUsage, Options, Policy};
use fairshare_accounting::store::{Access, Database};

/// Reads a database in all ways, and returns hashes of the results.
fn read_database_with_all_readers(path: &Path) -> Vec<u64> {
    let mut features = Vec::new();
    let mut database = match Database::open(path, Access::Read, Duration::from_millis(1)) {
        Ok(database) => database,
        Err(error) => return vec![hash_feature(strip_values(&error.to_string()))],
    };
    let snapshot = match database.snapshot() {
        Ok(snapshot) => snapshot,
        Err(error) => return vec![hash_feature(strip_values(&error.to_string()))],
    };
    let mut tell = |what: &str, text: Result<usize, String>| match text {
        Ok(count) => features.push(hash_feature((what, count.min(9)))),
        Err(text) => {
            assert!(!text.is_empty(), "{what}");
            // A name may have any length: the command cuts its output (`a_long_name_is_cut_in_messages`).
            features.push(hash_feature((what, strip_values(&text))));
        }
    };
    match snapshot.tree(InactiveUsage::Count, &mut |_| ()) {
        Err(error) => tell("tree", Err(error.to_string())),
        Ok(stored) => match stored.builder.build() {
            Err(error) => tell("builder", Err(error.to_string())),
            Ok(tree) => {
                for policy in Policy::ALL {
                    let ranked = tree.rank(policy, &Options::default());
                    tell("rank", ranked.map(|ranking| ranking.ranked()).map_err(|error| error.to_string()));
                }
            }
        },
    }
    tell(
        "ignored",
        snapshot.tree(InactiveUsage::Ignore, &mut |_| ()).map(|_| 0).map_err(|error| error.to_string()),
    );
    tell("policy", snapshot.policy_data(1.7e9).map(|_| 0).map_err(|error| error.to_string()));
    tell("site", snapshot.site_policy().map(|_| 0).map_err(|error| error.to_string()));
    tell("pace", snapshot.pace().map(|_| 0).map_err(|error| error.to_string()));
    tell("limits", snapshot.stored_limits().map(|all| all.len()).map_err(|error| error.to_string()));
    tell("ledger", snapshot.ledger(&mut |_| ()).map(|_| 0).map_err(|error| error.to_string()));
    tell("settings", snapshot.usage_settings().map(|_| 0).map_err(|error| error.to_string()));
    tell(
        "marks",
        snapshot.marks().map(|marks| usize::from(marks.is_some())).map_err(|error| error.to_string()),
    );
    tell("bins", snapshot.usage_bins("ann", "A").map(|bins| bins.len()).map_err(|error| error.to_string()));
    features
}

/// Returns a small database with pages of the minimum size, so that most changes hit data.
fn make_small_site(test: &str) -> Site {
    let site = Site::small(test);
    site.sql(
        "INSERT INTO queue_table (queue) VALUES ('q'); INSERT INTO project_table (project) VALUES ('*')",
    );
    site.sql("INSERT INTO priority_factor_weight_table VALUES ('fairshare', 1000)");
    site.sql("INSERT INTO job_usage_per_association_table VALUES ('ann', 11, 'A', 0, 40.0)");
    site.sql("PRAGMA page_size = 512; VACUUM");
    site
}

#[test]
fn a_damaged_database_gives_an_error_or_a_tree() {
    let site = make_small_site("fuzz-damage");
    fuzz("database", vec![site.bytes()], mutate_bytes, |input| {
        std::fs::write(&site.path, input).unwrap();
        let features = read_database_with_all_readers(&site.path);
        assert!(std::fs::read(&site.path).unwrap() == input, "a command that reads has changed the database");
        let _ = std::fs::remove_file(site.path.with_extension("db-journal"));
        features
    });
}

/// Writes some of the values into some of the columns of up to five rows, as the input chooses.
pub fn write_random_values(site: &Site, of: &mut Choices<'_>, columns: &[(&str, &str)], values: &[&str]) {
    let connection = site.open();
    connection.execute_batch("PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY").unwrap();
    let mut changes = 0;
    while !of.is_over() && changes < 5 {
        let ((table, column), value, row) = (of.pick(columns), of.pick(values), of.below(4));
        let sql = format!(
            "UPDATE OR IGNORE {table} SET {column} = {value} WHERE rowid = (SELECT rowid FROM {table} LIMIT 1 OFFSET {row})"
        );
        // If the schema refuses the value, no database can contain it.
        let _ = connection.execute_batch(&sql);
        changes += 1;
    }
}

/// Writes values of all types and sizes into any columns of any rows.
#[test]
fn databases_with_random_column_values_yield_a_tree_or_an_error() {
    const COLUMNS: [(&str, &str); 24] = [
        ("association_table", "username"),
        ("association_table", "userid"),
        ("association_table", "bank"),
        ("association_table", "default_bank"),
        ("association_table", "shares"),
        ("association_table", "job_usage"),
        ("association_table", "fairshare"),
        ("association_table", "active"),
        ("association_table", "max_running_jobs"),
        ("association_table", "queues"),
        ("association_table", "projects"),
        ("bank_table", "bank"),
        ("bank_table", "parent_bank"),
        ("bank_table", "shares"),
        ("bank_table", "priority"),
        ("bank_table", "active"),
        ("queue_table", "queue"),
        ("queue_table", "priority"),
        ("queue_table", "max_running_jobs"),
        ("project_table", "project"),
        ("priority_factor_weight_table", "factor"),
        ("priority_factor_weight_table", "weight"),
        ("job_usage_per_association_table", "value"),
        ("job_usage_per_association_table", "period"),
    ];
    const VALUES: [&str; 22] = [
        "NULL",
        "0",
        "-1",
        "1",
        "9223372036854775807",
        "-9223372036854775808",
        "1e308",
        "-1e308",
        "1e999",
        "0.5",
        "''",
        "'A'",
        "'root'",
        "'1'",
        "'1e5'",
        "'%s%n'",
        "char(27,10,7)",
        "'; DROP TABLE bank_table; --'",
        "x'ff00fe'",
        "zeroblob(100)",
        "hex(zeroblob(50000))",
        "'5,,q,%'",
    ];
    let site = make_small_site("fuzz-values");
    let original_bytes = site.bytes();
    let seeds = (0..60u8).map(|n| vec![n, n.wrapping_mul(7), n / 3, n, 2, n]).collect();
    fuzz("values", seeds, mutate_bytes, |input| {
        std::fs::write(&site.path, &original_bytes).unwrap();
        write_random_values(&site, &mut Choices(input), &COLUMNS, &VALUES);
        read_database_with_all_readers(&site.path)
    });
}

#[test]
fn a_long_name_is_cut_in_messages() {
    let site = make_small_site("fuzz-long-name");
    site.sql("UPDATE association_table SET bank = hex(zeroblob(500000)) WHERE username = 'ann'");
    let ran = crate::fairshare(["show", "-p", site.path()]);
    assert_eq!(ran.status, 2);
    assert!(ran.err.starts_with("flux-fairshare: ") && ran.err.ends_with("...\n"), "{} bytes", ran.err.len());
    assert!(ran.err.len() < 5000, "{} bytes", ran.err.len());
}
