// SPDX-License-Identifier: LGPL-3.0-only
//! Reads the output of `pbsfs`: a table of all nodes, followed by what `pbsfs -g` prints about single nodes.

use std::collections::{HashMap, HashSet};

use super::usage::parse_usage;
use super::{Node, TREEROOT, UNKNOWN, build_tree, content_lines, list_groups};
use crate::Document;
use crate::claims::{Claim, Claimant, Quantity};
use crate::tidy::is_outside_of_output;
use fairshare::{Policy, group_all};

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
    /// Returns the recorded usage, or `None` for a usage of 1. PBS never records a usage of 1, and prints 1 for an
    /// entity without usage.
    fn recorded(&self) -> Option<f64> {
        (self.usage != 1.0).then_some(self.usage)
    }
}

pub(crate) fn is_table_line(line: &str) -> bool {
    line.starts_with("Fairshare usage units") || split_row(line).is_some()
}

/// Splits a row of pbsfs's table into name, group, own number, shares, usage and percentage. Returns `None` for any
/// other line.
fn split_row(line: &str) -> Option<[&str; 6]> {
    let (name, rest) = line.split_once(" Grp:").or_else(|| line.split_once(":Grp:"))?;
    let (group, rest) = rest.split_once("cgrp:")?;
    let (id, rest) = rest.split_once("Shares:")?;
    let (shares, rest) = rest.split_once("Usage:")?;
    let (usage, percentage) = rest.split_once("Perc:")?;
    let name = name.trim().trim_end_matches(':').trim();
    Some([name, group.trim(), id.trim(), shares.trim(), usage.trim(), percentage.trim()])
}

fn parse_row(line: usize, text: &str) -> Result<Row<'_>, String> {
    let [name, group, id, shares, usage, percentage] =
        split_row(text).ok_or_else(|| format!("line {line}: not a row of pbsfs's table"))?;
    let number = |what: &str, text: &str| {
        let parsed = text.parse::<i64>();
        parsed.map_err(|_| format!("line {line}: \"{name}\": {what} is \"{text}\", expected a whole number"))
    };
    let (group, id) = (number("Grp", group)?, number("cgrp", id)?);
    let percentage = percentage.strip_suffix('%').and_then(|text| text.trim().parse().ok());
    Ok(Row { line, name, group, id, shares, usage: parse_usage(line, name, usage)?, percentage })
}

/// A line with content, and its line number.
type Line<'a> = (usize, &'a str);

/// Returns the rows of the table, and the lines of `pbsfs -g` after it.
fn split_output(text: &str) -> (Vec<Line<'_>>, Vec<Line<'_>>) {
    // If no usage exists yet, pbsfs prints the line about the new database to stderr.
    let remarks = ["Fairshare usage units", "Creating usage database"];
    let is_remark = |entry: &str| remarks.iter().any(|remark| entry.contains(remark));
    let mut table: Vec<_> =
        content_lines(text).filter(|(_, entry)| !is_remark(entry) && !is_outside_of_output(entry)).collect();
    let first = table.iter().position(|(_, entry)| entry.starts_with(ENTITY)).unwrap_or(table.len());
    let single = table.split_off(first);
    (table, single)
}

fn parse_rows<'a>(table: &[Line<'a>]) -> Result<Vec<Row<'a>>, String> {
    table.iter().map(|(line, entry)| parse_row(*line, entry)).collect()
}

/// Returns line number, name and recorded usage of each entity in the table.
pub(super) fn entity_usages(text: &str) -> Result<Vec<(usize, &str, f64)>, String> {
    let rows = parse_rows(&split_output(text).0)?;
    let groups: HashSet<&str> = find_groups(&rows)?.into_iter().flatten().collect();
    let entities =
        rows.iter().filter(|row| row.group >= 0 && row.name != UNKNOWN && !groups.contains(row.name));
    Ok(entities.filter_map(|row| Some((row.line, row.name, row.recorded()?))).collect())
}

/// Reads the output of `pbsfs`, in which each row has the number of its group.
pub(crate) fn read_pbsfs(text: &str) -> Result<Document, String> {
    let (table, single) = split_output(text);
    let rows = parse_rows(&table)?;
    let above = find_groups(&rows)?;
    let mut nodes = Vec::new();
    let mut usages = Vec::new();
    for (row, parent) in rows.iter().zip(above).filter(|(row, _)| row.group >= 0) {
        let fail = |text: String| format!("line {}: \"{}\": {text}", row.line, row.name);
        let parent = parent.ok_or_else(|| fail(format!("there is no group {}", row.group)))?;
        let shares = row
            .shares
            .parse()
            .map_err(|_| fail(format!("shares is \"{}\", expected a whole number >= 0", row.shares)))?;
        nodes.push(Node { line: row.line, name: row.name, id: row.id, parent, shares });
        usages.extend(row.recorded().map(|amount| (row.name, amount)));
    }
    let mut document = Document::new(build_tree(&nodes, &usages, 0), Policy::Pbs);
    let claimants = map_nodes(&nodes);
    for row in &rows {
        let Some(node) = claimants.get(row.name).copied() else { continue };
        let mut claim =
            |quantity, value, half_unit| document.claims.push(Claim { node, quantity, value, half_unit });
        if let (Some(percentage), true) = (row.percentage, row.name != TREEROOT) {
            claim(Quantity::TreePercentage, percentage / 100.0, 0.5e-5);
        }
        if matches!(node, Claimant::Bank(_)) {
            claim(Quantity::GroupUsage, row.usage, 0.5);
        }
    }
    add_single_nodes(&single, &claimants, &mut document)?;
    Ok(document)
}

/// Returns the name of each row's group. pbsfs prints only the number of the group. If several groups have this
/// number, takes the group among the row's ancestors, because pbsfs prints each node right before its children.
fn find_groups<'a>(rows: &[Row<'a>]) -> Result<Vec<Option<&'a str>>, String> {
    let numbers = group_all(rows.iter().map(|row| (row.id, row)));
    let mut path: Vec<&Row<'a>> = Vec::new();
    let mut above = Vec::with_capacity(rows.len());
    for row in rows {
        let known = numbers.get(&row.group).map_or(&[][..], Vec::as_slice);
        let parent = match (row.group, known) {
            (..0, _) => None,
            (0, _) => Some(TREEROOT),
            (_, [only]) => Some(only.name),
            (_, []) => None,
            (_, several) => {
                let claimants: Vec<&&Row<'a>> = path.iter().filter(|node| node.id == row.group).collect();
                match (claimants.as_slice(), several) {
                    ([only], _) => Some(only.name),
                    (_, [first, second, ..]) => {
                        return Err(format!(
                            "line {}: \"{}\": its group has the number {}, which \"{}\" and \"{}\" both have, so the group is ambiguous; \
                             import the resource_group file instead (--tree resource_group --usage-file FILE)",
                            row.line, row.name, row.group, first.name, second.name
                        ));
                    }
                    _ => None,
                }
            }
        };
        let depth =
            parent.and_then(|name| path.iter().position(|node| node.name == name)).map_or(0, |at| at + 1);
        path.truncate(depth);
        path.push(row);
        above.push(parent);
    }
    Ok(above)
}

/// Returns the index that [`build_tree`] gives each node. Groups are banks, and the root is bank 0. Entities are
/// associations.
fn map_nodes<'a>(nodes: &[Node<'a>]) -> HashMap<&'a str, Claimant> {
    let groups = list_groups(nodes);
    let mut claimants = HashMap::from([(TREEROOT, Claimant::Bank(0))]);
    let (mut banks, mut associations) = (1, 0);
    for node in nodes {
        let (claimant, next) = if groups.contains(node.name) {
            (Claimant::Bank(banks), &mut banks)
        } else {
            (Claimant::Association(associations), &mut associations)
        };
        *next += 1;
        claimants.insert(node.name, claimant);
    }
    claimants
}

/// The start of the first line that `pbsfs -g` prints about a node.
pub(super) const ENTITY: &str = "fairshare entity:";

fn add_single_nodes(
    lines: &[Line<'_>],
    claimants: &HashMap<&str, Claimant>,
    document: &mut Document,
) -> Result<(), String> {
    let mut current = None;
    for (line, entry) in lines {
        let Some((key, value)) = entry.split_once(':') else { continue };
        let value = value.trim();
        if entry.starts_with(ENTITY) {
            let missing = || format!("line {line}: \"{value}\" is not in the table above");
            current = Some(*claimants.get(value).ok_or_else(missing)?);
        }
        let quantity = match key.trim() {
            "fairshare_tree_usage" => Quantity::TreeUsage,
            "Percentage" => Quantity::TreePercentage,
            _ => continue,
        };
        let Some(node) = current else { continue };
        let number: f64 = value
            .trim_end_matches('%')
            .parse()
            .map_err(|_| format!("line {line}: {} is \"{value}\", expected a number", key.trim()))?;
        let (value, half_unit) =
            if quantity == Quantity::TreePercentage { (number / 100.0, 0.5e-8) } else { (number, 0.5e-6) };
        document.claims.push(Claim { node, quantity, value, half_unit });
    }
    Ok(())
}
