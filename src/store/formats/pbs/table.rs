// SPDX-License-Identifier: LGPL-3.0-only
//! What `pbsfs` prints: its table of all nodes, and what `pbsfs -g` prints of single ones, one after the other.

use std::collections::{HashMap, HashSet};

use super::usage::usage_of;
use super::{Node, ROOT, build, entries, groups};
use crate::store::formats::Parsed;
use crate::store::formats::claims::{Claim, Claimant, Quantity};

/// What the root is called here.
const TREEROOT: &str = "TREEROOT";

struct Row<'a> {
    line: usize,
    name: &'a str,
    group: i64,
    id: i64,
    shares: &'a str,
    usage: f64,
    percentage: Option<f64>,
}

impl Row<'_> {
    /// PBS never stores a usage of 1: such an entity has none recorded.
    fn recorded(&self) -> Option<f64> {
        (self.usage != 1.0).then_some(self.usage)
    }
}

pub(in crate::store::formats) fn is_table_line(line: &str) -> bool {
    line.starts_with("Fairshare usage units") || cells(line).is_some()
}

/// Name, group, own number, shares, usage and percentage of a row of pbsfs's table.
fn cells(line: &str) -> Option<[&str; 6]> {
    let (name, rest) = line.split_once(" Grp:").or_else(|| line.split_once(":Grp:"))?;
    let (group, rest) = rest.split_once("cgrp:")?;
    let (id, rest) = rest.split_once("Shares:")?;
    let (shares, rest) = rest.split_once("Usage:")?;
    let (usage, percentage) = rest.split_once("Perc:")?;
    let name = name.trim().trim_end_matches(':').trim();
    Some([name, group.trim(), id.trim(), shares.trim(), usage.trim(), percentage.trim()])
}

fn row(line: usize, text: &str) -> Result<Row<'_>, String> {
    let [name, group, id, shares, usage, percentage] =
        cells(text).ok_or_else(|| format!("line {line}: not a row of pbsfs's table"))?;
    let number = |what: &str, text: &str| {
        let parsed = text.parse::<i64>();
        parsed.map_err(|_| format!("line {line}: \"{name}\": {what} is \"{text}\", expected a whole number"))
    };
    let (group, id) = (number("Grp", group)?, number("cgrp", id)?);
    let percentage = percentage.strip_suffix('%').and_then(|text| text.trim().parse().ok());
    Ok(Row { line, name, group, id, shares, usage: usage_of(line, name, usage)?, percentage })
}

/// A line that says something, and its number.
type Line<'a> = (usize, &'a str);

/// The table's rows, and the lines of `pbsfs -g` behind it.
fn parts(text: &str) -> (Vec<Line<'_>>, Vec<Line<'_>>) {
    // The second is what it says on stderr where nobody has used anything yet.
    let remarks = ["Fairshare usage units", "Creating usage database"];
    let said = |entry: &str| remarks.iter().any(|remark| entry.contains(remark));
    let mut table: Vec<_> = entries(text).filter(|(_, entry)| !said(entry)).collect();
    let first = table.iter().position(|(_, entry)| entry.starts_with(ENTITY)).unwrap_or(table.len());
    let single = table.split_off(first);
    (table, single)
}

fn rows<'a>(table: &[Line<'a>]) -> Result<Vec<Row<'a>>, String> {
    table.iter().map(|(line, entry)| row(*line, entry)).collect()
}

/// Line, name and recorded usage of each entity in the table.
pub(super) fn entity_usages(text: &str) -> Result<Vec<(usize, &str, f64)>, String> {
    let rows = rows(&parts(text).0)?;
    // Entities that no resource_group file lists have no number of their own, but all the same: -1.
    let groups: HashSet<i64> = rows.iter().map(|row| row.group).filter(|group| *group >= 0).collect();
    let entities = rows.iter().filter(|row| row.group >= 0 && !groups.contains(&row.id));
    Ok(entities.filter_map(|row| Some((row.line, row.name, row.recorded()?))).collect())
}

/// The table `pbsfs` prints: it names each node's group by number.
pub(in crate::store::formats) fn pbsfs(text: &str) -> Result<Parsed, String> {
    let (table, single) = parts(text);
    let rows = rows(&table)?;
    let names = numbers(&rows)?;
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
        nodes.push(Node { line: row.line, name: row.name, id: row.id, parent, shares });
        usages.extend(row.recorded().map(|amount| (row.name, amount)));
    }
    let mut parsed = Parsed::from(build(&nodes, &usages));
    let places = places(&nodes);
    for row in &rows {
        let Some(of) = places.get(row.name).copied() else { continue };
        let mut claim =
            |quantity, value, half_unit| parsed.claims.push(Claim { of, quantity, value, half_unit });
        if let (Some(percentage), true) = (row.percentage, row.name != TREEROOT) {
            claim(Quantity::TreePercentage, percentage / 100.0, 0.5e-5);
        }
        if matches!(of, Claimant::Bank(_)) {
            claim(Quantity::GroupUsage, row.usage, 0.5);
        }
    }
    single_nodes(&single, &places, &mut parsed)?;
    Ok(parsed)
}

/// The name of each number that is some row's group.
fn numbers<'a>(rows: &[Row<'a>]) -> Result<HashMap<i64, &'a str>, String> {
    let used: HashSet<i64> = rows.iter().map(|row| row.group).filter(|group| *group > 0).collect();
    let mut names = HashMap::new();
    for row in rows.iter().filter(|row| used.contains(&row.id)) {
        if let Some(other) = names.insert(row.id, row.name) {
            return Err(format!(
                "line {}: \"{}\": the number {} is that of \"{other}\" already, so it can't be told whose group it is",
                row.line, row.name, row.id
            ));
        }
    }
    Ok(names)
}

/// Where [`build`] puts each node: the root first, groups among the banks, entities among the associations.
fn places<'a>(nodes: &[Node<'a>]) -> HashMap<&'a str, Claimant> {
    let groups = groups(nodes);
    let mut places = HashMap::from([(TREEROOT, Claimant::Bank(0))]);
    let (mut banks, mut associations) = (1, 0);
    for node in nodes {
        let (place, next) = if groups.contains(node.name) {
            (Claimant::Bank(banks), &mut banks)
        } else {
            (Claimant::Association(associations), &mut associations)
        };
        *next += 1;
        places.insert(node.name, place);
    }
    places
}

/// What each node's lines of `pbsfs -g` begin with.
pub(super) const ENTITY: &str = "fairshare entity:";

fn single_nodes(
    lines: &[Line<'_>],
    places: &HashMap<&str, Claimant>,
    parsed: &mut Parsed,
) -> Result<(), String> {
    let mut current = None;
    for (line, entry) in lines {
        let Some((key, value)) = entry.split_once(':') else { continue };
        let value = value.trim();
        if entry.starts_with(ENTITY) {
            let missing = || format!("line {line}: \"{value}\" is not in the table above");
            current = Some(*places.get(value).ok_or_else(missing)?);
        }
        let quantity = match key.trim() {
            "fairshare_tree_usage" => Quantity::TreeUsage,
            "Percentage" => Quantity::TreePercentage,
            _ => continue,
        };
        let Some(of) = current else { continue };
        let number: f64 = value
            .trim_end_matches('%')
            .parse()
            .map_err(|_| format!("line {line}: {} is \"{value}\", expected a number", key.trim()))?;
        let (value, half_unit) =
            if quantity == Quantity::TreePercentage { (number / 100.0, 0.5e-8) } else { (number, 0.5e-6) };
        parsed.claims.push(Claim { of, quantity, value, half_unit });
    }
    Ok(())
}
