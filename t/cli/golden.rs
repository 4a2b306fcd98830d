// SPDX-License-Identifier: LGPL-3.0-only
//! Compares `show --tree` of each golden tree with the output of the real programs.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use serde_json::{Value, json};

use super::{fairshare, file};

/// Returns name and content of each golden document of one kind.
pub fn read_golden_files(kind: &str) -> Vec<(String, Value)> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("t/golden").join(kind);
    let mut documents: Vec<(String, Value)> = std::fs::read_dir(folder)
        .expect("golden tables")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .map(|path| {
            let text = std::fs::read_to_string(&path).expect("text");
            (
                path.file_stem().expect("a name").to_string_lossy().into_owned(),
                serde_json::from_str(&text).expect("JSON"),
            )
        })
        .collect();
    documents.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(documents.len() > 5, "{kind}");
    documents
}

/// Returns the nodes that the command shows, by (bank, user).
fn show_nodes(
    kind: &str,
    name: &str,
    tree: &Value,
    arguments: &[&str],
) -> HashMap<(String, Option<String>), Value> {
    let path = file(&format!("golden_{kind}_{name}"), tree.to_string());
    let mut all = vec!["show", "--tree", &path, "--json"];
    all.extend(arguments);
    let document = fairshare(all).json();
    let key = |node: &Value| (expect_text(&node["bank"]), node["user"].as_str().map(str::to_owned));
    document["nodes"].as_array().expect("nodes").iter().map(|node| (key(node), node.clone())).collect()
}

fn expect_text(value: &Value) -> String {
    value.as_str().expect("text").to_owned()
}

#[track_caller]
fn assert_close(place: &str, got: &Value, wanted: &Value, tolerance: f64) {
    match (got.as_f64(), wanted.as_f64()) {
        (Some(a), Some(b)) => {
            assert!((a - b).abs() <= tolerance * b.abs().max(1.0), "{place}: {a}, expected {b}")
        }
        _ => assert_eq!(got, wanted, "{place}"),
    }
}

#[test]
fn flux_accounting() {
    for (name, golden) in read_golden_files("flux") {
        let nodes = show_nodes("flux", &name, &golden, &["--set", "inactive_usage=ignore"]);
        for row in golden["associations"].as_array().expect("associations") {
            let node = &nodes[&(expect_text(&row["bank"]), Some(expect_text(&row["user"])))];
            assert_close(&format!("{name} {}", row["user"]), &node["fairshare"], &row["fairshare"], 5.1e-7);
        }
    }
}

#[test]
fn slurm() {
    for (name, golden) in read_golden_files("slurm") {
        let (mut banks, mut associations) = (Vec::new(), Vec::new());
        for row in golden["tree"].as_array().expect("a tree") {
            let (name, parent, shares, usage) = (&row["name"], &row["parent"], &row["shares"], &row["usage"]);
            if row["kind"] == "account" {
                banks.push(json!({"name": name, "parent": parent, "shares": shares, "usage": usage}));
            } else {
                associations.push(json!({"user": name, "bank": parent, "shares": shares, "usage": usage}));
            }
        }
        let policy = expect_text(&golden["algorithm"]).replace('_', "-");
        let dampening = format!("dampening={}", golden["fairshare_dampening_factor"]);
        let option = if policy == "fair-tree" { "ties=slurm-program" } else { &dampening };
        let arguments = ["--policy", &policy, "--set", option];
        let nodes =
            show_nodes("slurm", &name, &json!({"banks": banks, "associations": associations}), &arguments);
        for row in golden["expected"].as_array().expect("rows") {
            let user = row["user"].as_str().map(str::to_owned);
            if row["account"] == "root" && user.is_none() {
                continue; // Slurm's root row is an artefact.
            }
            let node = &nodes[&(expect_text(&row["account"]), user)];
            for key in ["norm_shares", "norm_usage", "effective_usage", "level_fs", "fairshare"] {
                if !row["full"][key].is_null() {
                    assert_close(
                        &format!("{name} {} {} {key}", row["account"], row["user"]),
                        &node[key],
                        &row["full"][key],
                        1e-9,
                    );
                }
            }
        }
    }
}

#[test]
fn openpbs() {
    for (name, golden) in read_golden_files("pbs") {
        let rows = golden["tree"].as_array().expect("a tree");
        let recorded: HashSet<&str> = golden["usage_set_explicitly"]
            .as_array()
            .expect("names")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        let mut groups: HashSet<String> = rows.iter().map(|row| expect_text(&row["parent"])).collect();
        groups.extend(rows.iter().filter(|row| row["kind"] == "group").map(|row| expect_text(&row["name"])));
        let mut banks = vec![json!({"name": "root", "parent": null})];
        let mut associations = Vec::new();
        for row in rows {
            let (name, parent, shares) = (&row["name"], &row["parent"], &row["shares"]);
            if groups.contains(&expect_text(name)) {
                banks.push(json!({"name": name, "parent": parent, "shares": shares}));
            } else {
                let usage = if recorded.contains(expect_text(name).as_str()) {
                    golden["usage"][expect_text(name)].clone()
                } else {
                    Value::Null
                };
                associations.push(json!({"user": name, "bank": parent, "shares": shares, "usage": usage}));
            }
        }
        let nodes = show_nodes(
            "pbs",
            &name,
            &json!({"banks": banks, "associations": associations}),
            &["--policy", "pbs"],
        );
        let by_name: HashMap<String, &Value> =
            nodes.iter().map(|((bank, user), node)| (user.clone().unwrap_or(bank.clone()), node)).collect();
        for row in golden["expected"].as_array().expect("rows") {
            let who = expect_text(&row["name"]).replace("TREEROOT", "root");
            for key in ["fairshare_perc", "fairshare_tree_usage", "fairshare_factor", "usage"] {
                assert_close(&format!("{name} {who} {key}"), &by_name[&who][key], &row[key], 1e-6);
            }
        }
    }
}

/// The first table that pbsfs prints can be given as the list of usages.
#[test]
fn usages_are_read_from_the_output_of_pbsfs() {
    let golden =
        read_golden_files("pbs").into_iter().find(|(name, _)| name == "unknown_default").expect("there").1;
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("t/golden/pbs");
    let session = std::fs::read_to_string(folder.join("unknown_default.pbsfs.txt")).expect("text");
    let table: String = session
        .lines()
        .skip(1)
        .take_while(|line| !line.is_empty())
        .fold(String::new(), |table, line| table + line + "\n");
    let usage = file("pbsfs_usage", table);
    let mut lines = String::new();
    for row in golden["tree"].as_array().expect("a tree").iter().filter(|row| row["implicit"] != true) {
        lines += &format!(
            "{} {} {} {}\n",
            expect_text(&row["name"]),
            row["cresgroup"],
            expect_text(&row["parent"]),
            row["shares"]
        );
    }
    let tree = file("pbsfs_tree", lines);
    let shown =
        fairshare(["show", "--tree", &tree, "--usage-file", &usage, "--policy", "pbs", "--json"]).json();
    let nodes = shown["nodes"].as_array().expect("nodes");
    for row in golden["expected"].as_array().expect("rows") {
        let who = expect_text(&row["name"]).replace("TREEROOT", "root");
        let node = nodes.iter().find(|node| {
            node["user"] == who.as_str() || (node["user"].is_null() && node["bank"] == who.as_str())
        });
        let node = node.unwrap_or_else(|| panic!("{who} is not in the tree"));
        for key in ["fairshare_perc", "fairshare_factor", "usage"] {
            assert_close(&format!("{who} {key}"), &node[key], &row[key], 1e-6);
        }
    }
}
