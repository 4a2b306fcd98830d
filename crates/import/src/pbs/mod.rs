// SPDX-License-Identifier: LGPL-3.0-only
//! Reads PBS's `resource_group` file with a list of usages, and the output of `pbsfs`.

mod table;
mod usage;

use std::collections::{HashMap, HashSet};

use super::tidy::is_outside_of_output;
use fairshare::{Builder, Shares};

pub(super) use table::{is_table_line, read_pbsfs};
pub(super) use usage::{is_usage_file, read_usage_file, read_usage_list};

/// The name of the root in the builder. In `resource_group` files this is the name of the root group. An entity may
/// have the same name.
const ROOT: &str = "root";
/// The scheduler's name of the root.
const TREEROOT: &str = "TREEROOT";
/// The group of entities that have usage but are not in the file. The scheduler creates it and takes its shares from
/// `unknown_shares` in `sched_config`.
const UNKNOWN: &str = "unknown";

struct Node<'a> {
    line: usize,
    name: &'a str,
    id: i64,
    parent: &'a str,
    shares: u64,
}

/// Returns true if the first line with content, or most lines with content, could be in a `resource_group`
/// file. So a file with one bad line is still recognized, and the error can name that line.
pub(super) fn is_resource_group_file(text: &str) -> bool {
    let is_entry = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().take(4).collect();
        words.len() == 4 && words.get(1).is_some_and(|id| id.parse::<i64>().is_ok())
    };
    let lines: Vec<bool> = content_lines(text).map(|(_, line)| is_entry(line)).collect();
    let good = lines.iter().filter(|good| **good).count();
    lines.first() == Some(&true) || 2 * good > lines.len()
}

fn content_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_empty = |line: &str| line.is_empty() || line.starts_with('#') || line.starts_with('*');
    text.lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.trim()))
        .filter(move |(_, line)| !is_empty(line))
}

/// Parses `name id parent shares`. Further words are ignored, as by PBS.
fn parse_node((line, entry): (usize, &str)) -> Result<Node<'_>, String> {
    let mut words = entry.split_whitespace();
    let (Some(name), Some(id), Some(parent), Some(shares)) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err("expected name, id, parent and shares".to_owned());
    };
    let id = id.parse().map_err(|_| format!("\"{name}\": id is \"{id}\", expected a whole number"))?;
    let shares = shares
        .parse()
        .map_err(|_| format!("\"{name}\": shares is \"{shares}\", expected a whole number >= 0"))?;
    let parent = if parent == ROOT { TREEROOT } else { parent };
    Ok(Node { line, name, id, parent, shares })
}

/// Reads a `resource_group` file. A node with children is a group, and any other node is an entity. Adds a note for
/// each line and usage that is not in the tree.
pub(super) fn read_resource_group(
    text: &str,
    usages: &[(String, f64)],
    unknown_shares: Option<u64>,
    notes: &mut Vec<String>,
) -> Result<Builder, String> {
    let mut nodes = Vec::new();
    for (line, entry) in content_lines(text).filter(|(_, entry)| !is_outside_of_output(entry)) {
        let node = parse_node((line, entry)).map_err(|text| format!("line {line}: {text}"))?;
        if node.name == TREEROOT || node.name == UNKNOWN {
            let advice = if node.name == UNKNOWN {
                "; its shares are unknown_shares in sched_config (--unknown-shares here)"
            } else {
                ""
            };
            notes.push(format!(
                "line {line}: \"{}\" is left out, as OpenPBS does: the scheduler creates this group itself{advice}",
                node.name
            ));
            continue;
        }
        nodes.push(node);
    }
    if nodes.is_empty() && usages.is_empty() {
        return Err("contains only comments: the scheduler reads its shares from \
                    PBS_HOME/sched_priv/resource_group, and pbsfs prints the tree"
            .to_owned());
    }
    check_nodes(&nodes, notes)?;
    let usages: Vec<(&str, f64)> = usages.iter().map(|(name, amount)| (name.as_str(), *amount)).collect();
    let groups = list_groups(&nodes);
    let ignored = usages.iter().filter(|(name, _)| groups.contains(name));
    notes.extend(ignored.map(|(name, _)| {
        format!(
            "the usage of group \"{name}\" is left out, as in OpenPBS: only entities, not groups, have a usage"
        )
    }));
    Ok(build_tree(&nodes, &usages, unknown_shares.unwrap_or(0)))
}

/// Returns an error for a line that PBS rejects and skips: its name occurs twice, or no earlier line defines its group.
/// A number that occurs twice only causes a note, because the scheduler uses names.
fn check_nodes(nodes: &[Node<'_>], notes: &mut Vec<String>) -> Result<(), String> {
    let mut names: HashMap<&str, usize> = HashMap::with_capacity(nodes.len());
    let mut ids: HashMap<i64, &Node<'_>> = HashMap::with_capacity(nodes.len());
    let all: HashMap<&str, usize> = nodes.iter().rev().map(|node| (node.name, node.line)).collect();
    for node in nodes {
        let fail = |text: String| Err(format!("line {}: \"{}\": {text}", node.line, node.name));
        if let Some(first) = names.get(node.name) {
            return fail(format!("line {first} already defines this name; PBS ignores the later line"));
        }
        if ![TREEROOT, UNKNOWN].contains(&node.parent) && !names.contains_key(node.parent) {
            return fail(match all.get(node.parent) {
                Some(line) if *line == node.line => "the entity is its own group".to_owned(),
                Some(line) => format!(
                    "its group \"{}\" comes later, on line {line}; PBS reads from the top and ignores this line",
                    node.parent
                ),
                None => format!("there is no group \"{}\"; PBS ignores this line", node.parent),
            });
        }
        names.insert(node.name, node.line);
        if let Some(first) = ids.insert(node.id, node) {
            notes.push(format!(
                "line {}: the number {} of \"{}\" is also the number of \"{}\" (line {}); both are \
                 imported, because OpenPBS uses the names",
                node.line, node.id, node.name, first.name, first.line
            ));
        }
    }
    Ok(())
}

fn list_groups<'a>(nodes: &[Node<'a>]) -> HashSet<&'a str> {
    nodes.iter().map(|node| node.parent).chain([TREEROOT, UNKNOWN]).collect()
}

/// Builds the tree. Entities that have usage but are not among the nodes become children of `unknown`, in the order of
/// the usages.
fn build_tree(nodes: &[Node<'_>], usages: &[(&str, f64)], unknown_shares: u64) -> Builder {
    let groups = list_groups(nodes);
    let usage: HashMap<&str, f64> = usages.iter().copied().collect();
    let names: HashSet<&str> = nodes.iter().map(|node| node.name).collect();
    let bank_name = |group| if group == TREEROOT { ROOT } else { group };
    let mut builder = Builder::default();
    builder.bank(ROOT, None, Shares::Count(1), None, true);
    for node in nodes {
        let (shares, parent) = (Shares::Count(node.shares), bank_name(node.parent));
        if groups.contains(node.name) {
            // PBS stores usages only for entities.
            builder.bank(node.name, Some(parent), shares, None, true);
        } else {
            builder.association(node.name, parent, shares, usage.get(node.name).copied(), true);
        }
    }
    if !names.contains(UNKNOWN) {
        builder.bank(UNKNOWN, Some(ROOT), Shares::Count(unknown_shares), None, true);
    }
    for (name, amount) in usages {
        if !names.contains(name) && !groups.contains(name) {
            builder.association(name, UNKNOWN, Shares::Count(1), Some(*amount), true);
        }
    }
    builder
}
