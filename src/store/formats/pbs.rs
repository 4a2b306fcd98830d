// SPDX-License-Identifier: LGPL-3.0-only
//! PBS: the `resource_group` file with a list of usages, and what `pbsfs` prints.

use std::collections::{HashMap, HashSet};

use crate::fairshare::{Builder, MAX_USAGE, Shares};

/// The name the tree's root gets; `resource_group` files call it so.
const ROOT: &str = "root";
/// The group of entities with usage that no file lists; it has no shares unless the file says so.
const UNKNOWN: &str = "unknown";

struct Node<'a> {
    name: &'a str,
    parent: &'a str,
    shares: u64,
}

/// True if the first line that says something, or most of them, could stand in a `resource_group` file: one bad line is
/// to be named, not to hide what the file is.
pub(super) fn is_resource_group(text: &str) -> bool {
    let could = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().take(4).collect();
        words.len() == 4 && words.get(1).is_some_and(|id| id.parse::<i64>().is_ok())
    };
    let lines: Vec<bool> = entries(text).map(|(_, line)| could(line)).collect();
    let good = lines.iter().filter(|good| **good).count();
    lines.first() == Some(&true) || 2 * good > lines.len()
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

/// The tree of a `resource_group` file: who has others below is a group, all others are entities. `notes` hears which
/// usages could not be kept.
pub(super) fn resource_group(
    text: &str,
    usages: &[(String, f64)],
    notes: &mut Vec<String>,
) -> Result<Builder, String> {
    let mut nodes = Vec::new();
    for (line, entry) in entries(text) {
        nodes.push(node(entry).map_err(|text| format!("line {line}: {text}"))?);
    }
    let usages: Vec<(&str, f64)> = usages.iter().map(|(name, amount)| (name.as_str(), *amount)).collect();
    let groups = groups(&nodes);
    let lost = usages.iter().filter(|(name, _)| groups.contains(name) || *name == "TREEROOT");
    notes.extend(lost.map(|(name, _)| {
        format!("the usage of group \"{name}\" is left out, as OpenPBS does: only entities have one")
    }));
    Ok(build(&nodes, &usages))
}

fn groups<'a>(nodes: &[Node<'a>]) -> HashSet<&'a str> {
    nodes.iter().map(|node| node.parent).chain([ROOT, UNKNOWN]).collect()
}

/// Entities with usage that are not among the nodes go below `unknown`, in the order of the usages.
fn build(nodes: &[Node<'_>], usages: &[(&str, f64)]) -> Builder {
    let groups = groups(nodes);
    let usage: HashMap<&str, f64> = usages.iter().copied().collect();
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
    for (name, amount) in usages {
        if !names.contains(name) && !groups.contains(name) && *name != "TREEROOT" {
            builder.association(name, UNKNOWN, Shares::Count(1), Some(*amount), true);
        }
    }
    builder
}

/// A list of usages: `name value` per line (a colon or equals sign between will do), or what `pbsfs` prints.
pub(super) fn usages(text: &str) -> Result<Vec<(String, f64)>, String> {
    let mut seen = HashSet::new();
    let mut usages = Vec::new();
    let mut add = |line: usize, name: &str, amount: f64| {
        if !seen.insert(name.to_owned()) {
            return Err(format!("line {line}: \"{name}\" is listed twice"));
        }
        usages.push((name.to_owned(), amount));
        Ok(())
    };
    if text.lines().take(3).any(is_pbsfs_line) {
        let rows = rows(text)?;
        // Entities that no resource_group file lists have no number of their own, but all the same: -1.
        let groups: HashSet<i64> = rows.iter().map(|row| row.group).filter(|group| *group >= 0).collect();
        for row in rows.iter().filter(|row| row.group >= 0 && !groups.contains(&row.id)) {
            row.recorded().map_or(Ok(()), |amount| add(row.line, row.name, amount))?;
        }
        return Ok(usages);
    }
    for (line, entry) in entries(text) {
        let mut words = entry
            .split(|c: char| c.is_whitespace() || matches!(c, ':' | '='))
            .filter(|word| !word.is_empty());
        let (Some(name), Some(amount), None) = (words.next(), words.next(), words.next()) else {
            return Err(format!("line {line}: expected a name and a usage"));
        };
        add(line, name, usage_of(line, name, amount)?)?;
    }
    Ok(usages)
}

fn usage_of(line: usize, name: &str, text: &str) -> Result<f64, String> {
    let usage = text.parse().ok().filter(|usage| (0.0..=MAX_USAGE).contains(usage));
    usage.ok_or_else(|| {
        format!("line {line}: \"{name}\": usage is \"{text}\", expected a number from 0 to 1e298")
    })
}

struct Row<'a> {
    line: usize,
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

pub(super) fn is_pbsfs_line(line: &str) -> bool {
    line.starts_with("Fairshare usage units") || cells(line).is_some()
}

/// Name, group, own number, shares and usage of a row of pbsfs's table.
fn cells(line: &str) -> Option<[&str; 5]> {
    let (name, rest) = line.split_once(" Grp:").or_else(|| line.split_once(":Grp:"))?;
    let (group, rest) = rest.split_once("cgrp:")?;
    let (id, rest) = rest.split_once("Shares:")?;
    let (shares, rest) = rest.split_once("Usage:")?;
    let (usage, _) = rest.split_once("Perc:")?;
    let name = name.trim().trim_end_matches(':').trim();
    Some([name, group.trim(), id.trim(), shares.trim(), usage.trim()])
}

fn row(line: usize, text: &str) -> Result<Row<'_>, String> {
    let [name, group, id, shares, usage] =
        cells(text).ok_or_else(|| format!("line {line}: not a row of pbsfs's table"))?;
    let number = |what: &str, text: &str| {
        let parsed = text.parse::<i64>();
        parsed.map_err(|_| format!("line {line}: \"{name}\": {what} is \"{text}\", expected a whole number"))
    };
    let (group, id) = (number("Grp", group)?, number("cgrp", id)?);
    Ok(Row { line, name, group, id, shares, usage: usage_of(line, name, usage)? })
}

fn rows(text: &str) -> Result<Vec<Row<'_>>, String> {
    // The second is what it says on stderr where nobody has used anything yet.
    let remarks = ["Fairshare usage units", "Creating usage database"];
    let said = |entry: &str| remarks.iter().any(|remark| entry.contains(remark));
    entries(text).filter(|(_, entry)| !said(entry)).map(|(line, entry)| row(line, entry)).collect()
}

/// The table `pbsfs` prints: it names each node's group by number.
pub(super) fn pbsfs(text: &str) -> Result<Builder, String> {
    let rows = rows(text)?;
    let names: HashMap<i64, &str> = rows.iter().map(|row| (row.id, row.name)).collect();
    let mut nodes = Vec::new();
    let mut usages = Vec::new();
    for row in rows.iter().filter(|row| row.group >= 0) {
        let fail = |text: String| format!("line {}: \"{}\": {text}", row.line, row.name);
        let parent = match row.group {
            0 => ROOT,
            group => *names.get(&group).ok_or_else(|| fail(format!("there is no group {group}")))?,
        };
        let shares = row
            .shares
            .parse()
            .map_err(|_| fail(format!("shares is \"{}\", expected a whole number >= 0", row.shares)))?;
        nodes.push(Node { name: row.name, parent, shares });
        usages.extend(row.recorded().map(|amount| (row.name, amount)));
    }
    Ok(build(&nodes, &usages))
}
