// SPDX-License-Identifier: LGPL-3.0-only
//! Fuzzes all importers. An imported tree is written as a plain document, which must give the same tree.

use std::path::{Path, PathBuf};

use fairshare::{NodeId, Options, Policy, Shares, Tree};
use fairshare_import::{Extras, Format, load};
use serde_json::{Value, json};

use super::drive::{Rng, fuzz, hash_feature, mutate_bytes, strip_values};
use super::json;
use crate::{golden, imports, imports_pbs};

/// Returns the first inputs for the fuzz test. The first line of an input is empty or names a format. The
/// following lines are the document.
fn list_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    let mut add = |format: &str, text: &str| {
        if text.len() < 20_000 {
            seeds.push(format!("{format}\n{text}").into_bytes());
            seeds.push(format!("\n{text}").into_bytes());
        }
    };
    for (_, golden) in golden::read_golden_files("slurm") {
        add("sshare", &imports::format_sshare(&golden));
        add("sshare-json", &imports::format_sshare_json(&golden));
        add("sacctmgr-dump", &imports::format_dump(&golden, true));
        add("sacctmgr-dump", &imports::format_dump(&golden, false));
        add("sacctmgr-assoc", &imports::format_assoc_list(&golden));
    }
    for (name, golden) in golden::read_golden_files("pbs") {
        let recording = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
            .join(format!("t/golden/pbs/{name}.pbsfs.txt"));
        add("pbsfs", &imports_pbs::extract_pbsfs_output(&std::fs::read_to_string(recording).unwrap()));
        if let Some(groups) = golden["resource_group_file"].as_str() {
            add("resource-group", groups);
        }
    }
    add(
        "tree",
        &json!({"banks": [{"name": "root", "parent": null, "shares": 1}, {"name": "A", "parent": "root", "shares": "parent"},
            {"name": "B", "parent": "root", "shares": 3, "usage": 0.125}],
            "associations": [{"user": "ann", "bank": "A", "shares": 1, "usage": 2.5},
            {"user": "ben", "bank": "B", "shares": 0, "usage": null, "active": false}]})
        .to_string(),
    );
    seeds
}

/// Changes the structure of JSON. In other formats, adds and removes lines, and changes bytes.
fn mutate(rng: &mut Rng, input: &[u8], other: &[u8]) -> Vec<u8> {
    let body = input.iter().position(|byte| *byte == b'\n').map_or(input, |at| &input[at + 1..]);
    if body.first() == Some(&b'{') && !rng.happens_once_in(6) {
        return json::mutate_after_first_line(rng, input, other);
    }
    let lines: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
    let theirs: Vec<&[u8]> = other.split(|byte| *byte == b'\n').collect();
    let mut lines = lines;
    let at = rng.below(lines.len());
    match rng.below(6) {
        0 => drop(lines.remove(at)),
        1 => lines.insert(at, lines[rng.below(lines.len())]),
        2 => lines.insert(at, theirs[rng.below(theirs.len())]),
        3 => {
            // Swaps two fields.
            let sign = *rng.pick(b"|,:\t ");
            let mut fields: Vec<&[u8]> = lines[at].split(|byte| *byte == sign).collect();
            let (one, two) = (rng.below(fields.len()), rng.below(fields.len()));
            fields.swap(one, two);
            let line = fields.join(&sign);
            let mut all: Vec<Vec<u8>> = lines.iter().map(|line| line.to_vec()).collect();
            all[at] = line;
            return all.join(&b'\n');
        }
        _ => return mutate_bytes(rng, input, other),
    }
    lines.join(&b'\n')
}

fn shares_json(tree: &Tree, node: NodeId) -> Value {
    match tree.shares(node) {
        Shares::Count(count) => json!(count),
        Shares::Parent => json!("parent"),
    }
}

/// Returns the tree as a plain document.
fn write_plain_document(tree: &Tree) -> Value {
    let above = |node| tree.parent(node).map(|bank| tree.name(bank).to_owned());
    let list_order = tree.list_nodes_in_input_order();
    let banks = list_order.iter().filter(|(node, _)| tree.banks().any(|bank| bank == *node));
    let banks = banks.map(|(node, _)| {
        json!({"name": tree.name(*node), "parent": above(*node), "shares": shares_json(tree, *node), "usage": tree.own_usage(*node)})
    });
    let mut leaves: Vec<NodeId> = tree.leaves().collect();
    leaves.sort_by_key(|leaf| tree.find_input_index(*leaf));
    let leaves = leaves.into_iter().map(|node| {
        json!({"user": tree.name(node), "bank": above(node), "shares": shares_json(tree, node), "usage": tree.own_usage(node),
            "active": tree.is_active(node)})
    });
    json!({"banks": banks.collect::<Vec<_>>(), "associations": leaves.collect::<Vec<_>>()})
}

/// Users, each with the bit pattern of their fair-share.
type Order = Vec<(String, Option<u64>)>;

/// Returns the order of the users under each ranking policy that can rank the tree.
fn rank_under_each_policy(tree: &Tree) -> Vec<Option<Order>> {
    let order = |policy: Policy| {
        let ranking = tree.rank(policy, &Options::default()).ok()?;
        let shown = |leaf: &NodeId| (tree.name(*leaf).to_owned(), ranking.fairshare(*leaf).map(f64::to_bits));
        Some(ranking.order().iter().map(shown).collect())
    };
    Policy::ALL.into_iter().map(order).collect()
}

struct Files {
    input: PathBuf,
    document: PathBuf,
}

fn read_and_reread(files: &Files, input: &[u8]) -> Vec<u64> {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let named = String::from_utf8_lossy(&input[..end]).parse::<Format>().ok();
    std::fs::write(&files.input, input.get(end + 1..).unwrap_or_default()).unwrap();
    let document = match load(&files.input, named, Extras::default()) {
        Ok(Some(document)) => document,
        Ok(None) => return vec![hash_feature("a database")],
        Err(error) => {
            let text = error.to_string();
            // The message may contain a field of any length: the command cuts its output.
            assert!(!text.is_empty());
            return vec![hash_feature((
                named.map(|format| format as u8),
                strip_values(&text.replace(&files.input.display().to_string(), "")),
            ))];
        }
    };
    let kind = document.policy.name();
    let mut features: Vec<u64> =
        document.notes.iter().map(|note| hash_feature((kind, strip_values(note)))).collect();
    let tree = match document.builder.build() {
        Ok(tree) => tree,
        Err(error) => return vec![hash_feature((kind, strip_values(&error.to_string())))],
    };
    features.push(hash_feature((kind, tree.len().min(20))));
    let first = write_plain_document(&tree);
    std::fs::write(&files.document, first.to_string()).unwrap();
    let again = load(&files.document, Some(Format::Tree), Extras::default());
    let again = again.expect("the document is read").expect("the document is not a database").builder.build();
    let again = again.expect("it is a tree");
    assert_eq!(write_plain_document(&again), first, "a written document is read as another tree");
    assert_eq!(rank_under_each_policy(&again), rank_under_each_policy(&tree), "{first}");
    features
}

#[test]
fn an_imported_tree_equals_the_tree_reread_from_its_json_document() {
    let directory = crate::directory("fuzz-formats");
    let files = Files { input: directory.join("input"), document: directory.join("document") };
    fuzz("formats", list_seeds(), mutate, |input| read_and_reread(&files, input));
}

/// Reads usages from a separate list, also in the format of PBS's scheduler.
#[test]
fn any_list_of_usages_gives_an_error_or_a_tree() {
    let directory = crate::directory("fuzz-usages");
    let (groups, list) = (directory.join("resource_group"), directory.join("usage"));
    std::fs::write(&groups, "g1 10 root 4\nann 11 g1 1\nben 12 g1 3\n").unwrap();
    let binary =
        std::fs::read(imports_pbs::write_usage_file("fuzz-usages-seed", &[("ann", 12.5), ("ben", 0.0)]))
            .unwrap();
    let seeds = vec![binary, b"ann 12\nben = 13.5\n".to_vec(), b"ann:1e300\n# none\n".to_vec()];
    fuzz("usages", seeds, mutate_bytes, |input| {
        std::fs::write(&list, input).unwrap();
        let beside = Extras { usage: Some(&list), unknown_shares: None };
        match load(&groups, Some(Format::ResourceGroup), beside) {
            Err(error) => vec![hash_feature(strip_values(&error.to_string()))],
            Ok(document) => {
                let document = document.expect("no database");
                let notes: Vec<u64> =
                    document.notes.iter().map(|note| hash_feature(strip_values(note))).collect();
                let tree = document.builder.build().expect("the groups are a tree");
                rank_under_each_policy(&tree);
                notes
            }
        }
    });
}
