// SPDX-License-Identifier: LGPL-3.0-only
//! Compares the engine with tables that flux-accounting, Slurm and OpenPBS printed (t/golden/*/README.md).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::cmp::Ordering;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use fairshare::{Builder, InactiveUsage, NodeDetail, NodeId, Options, Policy, Ranking, Shares, Ties, Tree};
use serde_json::Value;

const FULL: f64 = 1e-9;
const SIX_DECIMALS: f64 = 5.1e-7;
const PBS: f64 = 1e-6;

/// Returns the tables of a folder whose names have this ending.
fn read_tables(folder: &str, ending: &str) -> Vec<(String, Value)> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("t/golden").join(folder);
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("golden tables")
        .map(|entry| entry.expect("entry").path())
        .filter(|path| path.to_str().is_some_and(|path| path.ends_with(ending)))
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "no {ending} in {}", folder.display());
    let parse = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap())
    };
    paths.iter().map(parse).collect()
}

fn rows<'a>(table: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    table[key].as_array().unwrap_or_else(|| panic!("{key} is a list")).iter()
}

fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row[key].as_str().unwrap_or_else(|| panic!("{key} of {row} is text"))
}

fn shares(value: &Value) -> Shares {
    match value.as_u64() {
        Some(count) => Shares::Count(count),
        None if value.is_null() => Shares::Count(0),
        None => {
            assert_eq!(value, "parent");
            Shares::Parent
        }
    }
}

#[track_caller]
fn assert_close(what: &str, ours: f64, expected: f64, tolerance: f64) {
    let off = (ours - expected).abs();
    assert!(
        ours == expected || off <= tolerance * expected.abs().max(1.0),
        "{what}: {ours}, expected {expected} within {tolerance}"
    );
}

fn flux_tree(table: &Value) -> Tree {
    let mut builder = Builder::default();
    for row in rows(table, "banks") {
        builder.bank(text(row, "name"), row["parent"].as_str(), shares(&row["shares"]), None, true);
    }
    for row in rows(table, "associations") {
        let (shares, usage) = (shares(&row["shares"]), row["usage"].as_f64());
        let active = row["active"].as_bool().unwrap();
        builder.association(text(row, "user"), text(row, "bank"), shares, usage, active);
    }
    builder.build().expect("a tree")
}

#[test]
fn flux_accounting() {
    for (name, table) in read_tables("flux", ".json") {
        let tree = flux_tree(&table);
        let options = Options { inactive_usage: InactiveUsage::Ignore, ..Options::default() };
        let ranking = tree.rank(Policy::WeightedWalk, &options).expect(&name);
        for row in rows(&table, "associations") {
            let (user, bank) = (text(row, "user"), text(row, "bank"));
            let ours = ranking.fairshare(tree.leaf(user, bank).expect("leaf"));
            let what = format!("{name}: {user} in {bank}");
            match row["fairshare"].as_f64() {
                Some(expected) => assert_close(&what, ours.expect(&what), expected, SIX_DECIMALS),
                None => assert_eq!(ours, None, "{what}"),
            }
        }
    }
}

fn make_slurm_tree(table: &Value) -> Tree {
    let mut builder = Builder::default();
    for row in rows(table, "tree") {
        let (name, shares, usage) = (text(row, "name"), shares(&row["shares"]), row["usage"].as_f64());
        let parent = row["parent"].as_str();
        if row["kind"] == "account" {
            builder.bank(name, parent, shares, usage, true);
        } else {
            builder.association(name, parent.expect("a user is in an account"), shares, usage, true);
        }
    }
    builder.build().expect("a tree")
}

fn make_slurm_node(tree: &Tree, row: &Value) -> NodeId {
    let account = text(row, "account");
    row["user"].as_str().map_or_else(|| tree.bank(account), |user| tree.leaf(user, account)).expect("node")
}

/// Compares each printed column of each row.
fn check_slurm(name: &str, table: &Value, tree: &Tree, ranking: &Ranking) {
    for row in rows(table, "expected") {
        let node = make_slurm_node(tree, row);
        let detail = ranking.detail(tree, node);
        let what = |column: &str| format!("{name}: {}/{} {column}", row["account"], row["user"]);
        let fair_tree_root = ranking.policy() == Policy::FairTree && tree.parent(node).is_none();
        for (column, ours) in slurm_columns(&detail) {
            // The shares of the root under Fair Tree are an artefact of Slurm (README).
            if fair_tree_root && column == "norm_shares" {
                continue;
            }
            let full = &row["full"][column];
            let (expected, tolerance) =
                if full.is_null() { (&row[column], SIX_DECIMALS) } else { (full, FULL) };
            match expected {
                Value::Null if column == "fairshare" => assert_eq!(ours, None, "{}", what(column)),
                // The original program prints nothing here: the row has `parent` shares, or the column belongs to another policy.
                Value::Null => {}
                Value::String(infinity) => {
                    assert_eq!(infinity, "inf");
                    assert_eq!(ours, Some(f64::INFINITY), "{}", what(column));
                }
                number => assert_close(
                    &what(column),
                    ours.unwrap_or_else(|| panic!("no {}", what(column))),
                    number.as_f64().unwrap(),
                    tolerance,
                ),
            }
        }
        assert_close(&what("raw_usage"), detail.usage.trunc(), row["raw_usage"].as_f64().unwrap(), 0.0);
    }
}

fn slurm_columns(detail: &NodeDetail) -> [(&'static str, Option<f64>); 5] {
    [
        ("norm_shares", Some(detail.norm_shares)),
        ("norm_usage", Some(detail.norm_usage)),
        ("effective_usage", Some(detail.effective_usage)),
        ("fairshare", detail.fairshare),
        ("level_fs", detail.level_fs),
    ]
}

#[test]
fn rankings_equal_the_fair_tree_of_slurms_program() {
    for (name, table) in read_tables("slurm", ".fair_tree.json") {
        let tree = make_slurm_tree(&table);
        let options = Options { ties: Ties::SlurmProgram, ..Options::default() };
        let ranking = tree.rank(Policy::FairTree, &options).unwrap();
        check_slurm(&name, &table, &tree, &ranking);
        check_order_of_user_visits(&name, &table, &tree, &ranking);
    }
}

/// Compares the order in which the ranking visits users with the order in Slurm's log.
fn check_order_of_user_visits(name: &str, table: &Value, tree: &Tree, ranking: &Ranking) {
    let mut accounts_seen = vec!["root"];
    let mut visited = Vec::new();
    for row in rows(table, "traversal") {
        let (node, account) = (text(row, "name"), text(row, "account"));
        // An account may have a user with the same name. The log shows the account before this user.
        if node == account && !accounts_seen.contains(&node) {
            accounts_seen.push(node);
        } else {
            visited.push((node, account));
        }
    }
    let describe = |&node: &NodeId| (tree.name(node), tree.name(tree.parent(node).unwrap()));
    let ours: Vec<_> = ranking.order().iter().map(describe).collect();
    assert_eq!(ours, visited, "{name}");
}

/// Returns whether two sibling accounts have the same level fair-share.
fn has_sibling_accounts_with_equal_fairshare(tree: &Tree, ranking: &Ranking) -> bool {
    let mut seen = HashMap::new();
    tree.banks().any(|bank| {
        let level = ranking.detail(tree, bank).level_fs.map(f64::to_bits);
        level.is_some() && seen.insert((tree.parent(bank), level), ()).is_some()
    })
}

#[test]
fn rankings_equal_slurms_documented_fair_tree_without_tied_accounts() {
    let mut checked = Vec::new();
    for (name, table) in read_tables("slurm", ".fair_tree.json") {
        let tree = make_slurm_tree(&table);
        let ranking = tree.rank(Policy::FairTree, &Options::default()).unwrap();
        if !has_sibling_accounts_with_equal_fairshare(&tree, &ranking) {
            check_slurm(&name, &table, &tree, &ranking);
            checked.push(name);
        }
    }
    assert!(checked.len() >= 3, "{checked:?}");
}

#[test]
fn rankings_equal_slurms_classic_and_depth_oblivious_results() {
    for (policy, ending) in
        [(Policy::Classic, ".classic.json"), (Policy::DepthOblivious, ".depth_oblivious.json")]
    {
        for (name, table) in read_tables("slurm", ending) {
            let tree = make_slurm_tree(&table);
            let dampening = table["fairshare_dampening_factor"].as_f64().unwrap();
            let ranking = tree.rank(policy, &Options { dampening, ..Options::default() }).unwrap();
            check_slurm(&name, &table, &tree, &ranking);
        }
    }
}

/// Returns the tree of `table`, where `usage` returns the usage of a leaf by name.
fn make_pbs_tree(table: &Value, usage: impl Fn(&str) -> Option<f64>) -> Tree {
    let mut builder = Builder::default();
    builder.bank("root", None, Shares::Count(1), None, true);
    for row in rows(table, "tree") {
        let (name, parent, shares) = (text(row, "name"), text(row, "parent"), shares(&row["shares"]));
        if row["kind"] == "group" {
            builder.bank(name, Some(parent), shares, None, true);
        } else {
            builder.association(name, parent, shares, usage(name), true);
        }
    }
    builder.build().expect("a tree")
}

/// Returns the names of all golden tables, each with the tree that is built from the table.
pub(crate) fn trees() -> Vec<(String, Tree)> {
    let flux = read_tables("flux", ".json").into_iter().map(|(name, table)| (name, flux_tree(&table)));
    let slurm =
        read_tables("slurm", ".json").into_iter().map(|(name, table)| (name, make_slurm_tree(&table)));
    let pbs = pbs_trees().into_iter().map(|(name, _, tree)| (name, tree));
    flux.chain(slurm).chain(pbs).collect()
}

/// Reads the tables that OpenPBS printed. Returns the name, the table and the tree of each.
pub(crate) fn pbs_trees() -> Vec<(String, Value, Tree)> {
    let with_tree = |(name, table): (String, Value)| {
        let explicit: Vec<&str> =
            rows(&table, "usage_set_explicitly").map(|leaf| leaf.as_str().unwrap()).collect();
        let usage =
            |leaf: &str| explicit.contains(&leaf).then(|| table["usage"][leaf].as_f64().expect("a usage"));
        let tree = make_pbs_tree(&table, usage);
        (name, table, tree)
    };
    read_tables("pbs", ".json").into_iter().map(with_tree).collect()
}

fn make_pbs_node(tree: &Tree, name: &str) -> NodeId {
    if name == "TREEROOT" {
        return tree.root();
    }
    tree.bank(name).or_else(|| tree.leaves().find(|&leaf| tree.name(leaf) == name)).expect(name)
}

fn check_pbs(what: &str, expected: &Value, tree: &Tree) {
    let ranking = tree.rank(Policy::Pbs, &Options::default()).unwrap();
    for row in expected.as_array().unwrap() {
        let name = text(row, "name");
        let node = make_pbs_node(tree, name);
        let detail = ranking.detail(tree, node);
        let pbs = detail.pbs.unwrap();
        let usage = row["usage"].as_f64().unwrap();
        for (column, ours) in [
            ("fairshare_perc", pbs.fairshare_perc),
            ("fairshare_tree_usage", pbs.fairshare_tree_usage),
            ("fairshare_factor", pbs.fairshare_factor),
            ("usage", detail.usage),
        ] {
            let what = format!("{what}: {name} {column}");
            let tolerance = if column == "usage" { FULL } else { PBS };
            assert_close(&what, ours, row[column].as_f64().expect(&what), tolerance);
        }
        if tree.parent(node).is_some() {
            assert_close(
                &format!("{what}: {name} part"),
                detail.norm_shares,
                row["group_perc"].as_f64().unwrap(),
                PBS,
            );
        }
        assert_close(&format!("{what}: {name}"), ranking.fairshare(node).unwrap(), pbs.fairshare_factor, 0.0);
        if let Some(over) = row["over_fs_usage"].as_bool() {
            let target = ranking.usage(tree, tree.root()) * pbs.fairshare_perc;
            // OpenPBS stores 60 % as a 32-bit float, which is a little more than 60 %. So the test compares only usages that clearly differ from
            // the target.
            if (usage - target).abs() > 1e-6 * target {
                assert_eq!(detail.usage > target, over, "{what}: {name} over its share");
            }
        }
    }
}

#[test]
fn openpbs() {
    for (name, table) in read_tables("pbs", ".json") {
        let explicit: Vec<&str> =
            rows(&table, "usage_set_explicitly").map(|name| name.as_str().unwrap()).collect();
        let tree = make_pbs_tree(&table, |leaf| {
            explicit.contains(&leaf).then(|| table["usage"][leaf].as_f64().expect("a usage"))
        });
        check_pbs(&name, &table["expected"], &tree);
        check_pbs_walk_comparison(&name, &table["compare_path"], &tree);
    }
}

/// Compares `compare_by_pbs_walk` with OpenPBS for all pairs of leaves.
fn check_pbs_walk_comparison(name: &str, compare: &Value, tree: &Tree) {
    let ranking = tree.rank(Policy::Pbs, &Options::default()).unwrap();
    let leaves: Vec<&str> = rows(compare, "names").map(|name| name.as_str().unwrap()).collect();
    for (row, a) in rows(compare, "rows").zip(&leaves) {
        for (expected, b) in row.as_str().unwrap().chars().zip(&leaves) {
            let ours =
                ranking.compare_by_pbs_walk(tree, make_pbs_node(tree, a), make_pbs_node(tree, b)).unwrap();
            let expected = match expected {
                '<' => Ordering::Less,
                '=' => Ordering::Equal,
                _ => Ordering::Greater,
            };
            assert_eq!(ours, expected, "{name}: {a} against {b}");
        }
    }
    // If OpenPBS's comparison is a strict weak order, `pbs_walk` must give the same order.
    if compare["strict_weak_order"] == true {
        let walk = ranking.pbs_walk(tree).unwrap();
        let place = |name: &str| walk.place(make_pbs_node(tree, name)).unwrap();
        for (row, a) in rows(compare, "rows").zip(&leaves) {
            for (expected, b) in row.as_str().unwrap().chars().zip(&leaves) {
                let ours = match place(a).cmp(&place(b)) {
                    Ordering::Less => '<',
                    Ordering::Equal => '=',
                    Ordering::Greater => '>',
                };
                assert_eq!(ours, expected, "{name}: {a} against {b} in the walk");
            }
        }
    }
}

/// The tree after OpenPBS wrote its usage file and read it again. The file has only the values of the leaves.
#[test]
fn rankings_equal_those_of_openpbs_after_a_restart() {
    let mut checked = 0;
    for (name, table) in read_tables("pbs", ".json") {
        for step in table["steps"].as_array().into_iter().flatten() {
            let operation = text(step, "op");
            if !operation.contains("read") {
                continue; // in memory the groups' own 1 decays too: no record of the leaves says how far
            }
            let usage = |leaf: &str| {
                let row = rows(step, "expected").find(|row| row["name"] == leaf).expect("leaf");
                row["usage"].as_f64().filter(|&usage| usage != 1.0)
            };
            let tree = make_pbs_tree(&table, usage);
            check_pbs(&format!("{name} {operation}"), &step["expected"], &tree);
            checked += 1;
        }
    }
    assert!(checked >= 5, "{checked}");
}
