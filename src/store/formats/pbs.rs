// SPDX-License-Identifier: LGPL-3.0-only
//! PBS: the `resource_group` file with a list of usages, and what `pbsfs` prints.

use std::collections::{HashMap, HashSet};

use crate::fairshare::{Builder, Shares};

/// The name the tree's root gets; `resource_group` files call it so.
const ROOT: &str = "root";
/// The group of entities with usage that no file lists; it has no shares unless the file says so.
const UNKNOWN: &str = "unknown";

struct Node<'a> {
    name: &'a str,
    parent: &'a str,
    shares: u64,
}

/// A usage per entity, in the order listed.
pub(super) type Usages<'a> = [(String, f64)];

/// True if every line that says something could stand in a `resource_group` file.
pub(super) fn is_resource_group(text: &str) -> bool {
    let mut lines = entries(text).peekable();
    lines.peek().is_some() && lines.all(|(_, line)| node(line).is_ok())
}

pub(super) fn is_pbsfs_line(line: &str) -> bool {
    line.starts_with("Fairshare usage units") || row(line).is_some()
}

fn entries(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let says_nothing = |line: &str| line.is_empty() || line.starts_with('#') || line.starts_with('*');
    text.lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.trim()))
        .filter(move |(_, line)| !says_nothing(line))
}

/// `name id parent shares`, words beyond are ignored as PBS does.
fn node(line: &str) -> Result<Node<'_>, String> {
    let mut words = line.split_whitespace();
    let (Some(name), Some(id), Some(parent), Some(shares)) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err("expected name, id, parent and shares".to_owned());
    };
    id.parse::<i64>().map_err(|_| format!("\"{name}\": id is \"{id}\", expected a whole number"))?;
    let shares = shares
        .parse()
        .map_err(|_| format!("\"{name}\": shares is \"{shares}\", expected a whole number >= 0"))?;
    let parent = if parent == "TREEROOT" { ROOT } else { parent };
    Ok(Node { name, parent, shares })
}

/// The tree of a `resource_group` file: who has others below is a group, all others are entities.
pub(super) fn resource_group(text: &str, usages: &Usages<'_>) -> Result<Builder, String> {
    let mut nodes = Vec::new();
    for (line, entry) in entries(text) {
        nodes.push(node(entry).map_err(|text| format!("line {line}: {text}"))?);
    }
    let mut usage: HashMap<&str, f64> = HashMap::new();
    for (name, amount) in usages {
        if usage.insert(name, *amount).is_some() {
            return Err(format!("usage of \"{name}\" is listed twice"));
        }
    }
    Ok(build(&nodes, &usage, usages.iter().map(|(name, _)| name.as_str())))
}

fn build<'a>(
    nodes: &[Node<'a>],
    usage: &HashMap<&str, f64>,
    listed: impl Iterator<Item = &'a str>,
) -> Builder {
    let groups: HashSet<&str> = nodes.iter().map(|node| node.parent).chain([UNKNOWN]).collect();
    let names: HashSet<&str> = nodes.iter().map(|node| node.name).collect();
    let mut builder = Builder::default();
    builder.bank(ROOT, None, Shares::Count(1), None);
    for node in nodes {
        let shares = Shares::Count(node.shares);
        if groups.contains(node.name) {
            // PBS keeps usages of entities only.
            builder.bank(node.name, Some(node.parent), shares, None);
        } else {
            builder.association(node.name, node.parent, shares, usage.get(node.name).copied(), true);
        }
    }
    if !names.contains(UNKNOWN) {
        builder.bank(UNKNOWN, Some(ROOT), Shares::Count(0), None);
    }
    for name in listed.filter(|name| !names.contains(name)) {
        builder.association(name, UNKNOWN, Shares::Count(1), usage.get(name).copied(), true);
    }
    builder
}

/// A list of usages: `name value` per line (a colon or equals sign between will do), or what `pbsfs` prints.
pub(super) fn usages(text: &str) -> Result<Vec<(String, f64)>, String> {
    if text.lines().take(3).any(is_pbsfs_line) {
        let rows = rows(text)?;
        let groups: HashSet<i64> = rows.iter().map(|row| row.group).collect();
        let leaves = rows.iter().filter(|row| !groups.contains(&row.id) && row.recorded().is_some());
        return Ok(leaves.map(|row| (row.name.to_owned(), row.usage)).collect());
    }
    let mut usages = Vec::new();
    for (line, entry) in entries(text) {
        let mut words = entry
            .split(|c: char| c.is_whitespace() || matches!(c, ':' | '='))
            .filter(|word| !word.is_empty());
        let parsed = match (words.next(), words.next().map(str::parse), words.next()) {
            (Some(name), Some(Ok(amount)), None) => Some((name.to_owned(), amount)),
            _ => None,
        };
        usages.push(parsed.ok_or_else(|| format!("line {line}: expected a name and a usage"))?);
    }
    Ok(usages)
}

struct Row<'a> {
    name: &'a str,
    group: i64,
    id: i64,
    shares: &'a str,
    usage: f64,
}

impl Row<'_> {
    /// PBS never stores a usage of 1: such an entity has none recorded.
    fn recorded(&self) -> Option<f64> {
        (self.usage != 1.0).then_some(self.usage)
    }
}

fn row(line: &str) -> Option<Row<'_>> {
    let (name, rest) = line.split_once(" Grp:").or_else(|| line.split_once(":Grp:"))?;
    let (group, rest) = rest.split_once("cgrp:")?;
    let (id, rest) = rest.split_once("Shares:")?;
    let (shares, rest) = rest.split_once("Usage:")?;
    let (usage, _) = rest.split_once("Perc:")?;
    Some(Row {
        name: name.trim().trim_end_matches(':').trim(),
        group: group.trim().parse().ok()?,
        id: id.trim().parse().ok()?,
        shares: shares.trim(),
        usage: usage.trim().parse().ok()?,
    })
}

fn rows(text: &str) -> Result<Vec<Row<'_>>, String> {
    let mut rows = Vec::new();
    // The second is what it says on stderr where nobody has used anything yet.
    let remarks = ["Fairshare usage units", "Creating usage database"];
    let said = |entry: &str| remarks.iter().any(|remark| entry.contains(remark));
    for (line, entry) in entries(text).filter(|(_, entry)| !said(entry)) {
        rows.push(row(entry).ok_or_else(|| format!("line {line}: not a row of pbsfs's table"))?);
    }
    Ok(rows)
}

/// The table `pbsfs` prints: it names each node's group by number.
pub(super) fn pbsfs(text: &str) -> Result<Builder, String> {
    let rows = rows(text)?;
    let names: HashMap<i64, &str> = rows.iter().map(|row| (row.id, row.name)).collect();
    let mut nodes = Vec::new();
    let mut usage = HashMap::new();
    for row in rows.iter().filter(|row| row.group >= 0) {
        let parent = match row.group {
            0 => ROOT,
            group => {
                names.get(&group).copied().ok_or_else(|| format!("\"{}\": no group {group}", row.name))?
            }
        };
        let shares =
            row.shares.parse().map_err(|_| format!("\"{}\": shares is \"{}\"", row.name, row.shares))?;
        nodes.push(Node { name: row.name, parent, shares });
        if let Some(amount) = row.recorded() {
            usage.insert(row.name, amount);
        }
    }
    Ok(build(&nodes, &usage, std::iter::empty()))
}
