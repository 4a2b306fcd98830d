// SPDX-License-Identifier: LGPL-3.0-only
//! Reads tables with `|` between columns: `sshare -a -l -P` and `sacctmgr show assoc tree -P`.

use std::collections::HashMap;

use super::complete::{ALL, ALL_OF_SACCTMGR};
use super::{Association, Printed, ROOT, Sheet, parse_shares};
use crate::Document;
use crate::tidy::{CLUSTER, is_outside_of_output};

/// Normalizes the name of a column. sshare before 15.08 wrote "Raw Shares", and sacctmgr until 25.05 "Par Name".
fn normalize_name(name: &str) -> String {
    name.split_whitespace().collect::<String>().to_lowercase()
}

/// Returns the separator of columns: `|`, or a tab if an editor or a terminal replaced it.
fn separator(header: &str) -> char {
    if header.contains('|') { '|' } else { '\t' }
}

fn has_columns(line: &str, separator: char, names: &[&str]) -> bool {
    let columns: Vec<String> = line.split(separator).map(normalize_name).collect();
    names.iter().all(|name| columns.contains(&normalize_name(name)))
}

fn is_sshare(line: &str) -> bool {
    has_columns(line, separator(line), &["Account", "User", "RawShares", "RawUsage"])
}

/// Returns true if `line` is the header of `sshare -P`, or the line before the header in the output for several
/// clusters.
pub(crate) fn is_header(line: &str) -> bool {
    line.starts_with(CLUSTER) || is_sshare(line)
}

/// Returns true if `line` is the header of `sacctmgr show assoc -P`.
pub(crate) fn is_assoc_header(line: &str) -> bool {
    has_columns(line, separator(line), &["Account", "User", "Share"])
}

/// Returns true if `line` is the header of a default table of sshare or sacctmgr. These tables have columns of fixed
/// width and truncate names.
pub(crate) fn is_fixed_width_table(line: &str) -> bool {
    let line = line.replace("Raw Shares", "RawShares");
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    has_columns(&line, ' ', &["Account", "User", "RawShares"])
        || has_columns(&line, ' ', &["Account", "User", "Share"])
}

/// The columns of a table.
struct Columns {
    /// The names, as [`normalize_name`] returns them.
    names: Vec<String>,
    /// The name of the column of shares.
    shares: &'static str,
    /// Number of columns that a row must have.
    number: usize,
    separator: char,
    /// True if the columns are those of `sshare -l` under `NO_FAIR_TREE`.
    is_long_formula: bool,
}

/// The columns of `sshare -l` without Fair Tree. The last two columns have other names before Slurm 15.08.
const LONG_FORMULA: [&str; 8] =
    ["account", "user", "rawshares", "normshares", "rawusage", "normusage", "effectvusage", "fairshare"];
const LONG_FORMULA_END: [[&str; 2]; 2] = [["grptresmins", "tresrunmins"], ["grpcpumins", "cpurunmins"]];

impl Columns {
    fn parse(header: &str, shares: &'static str) -> Result<Columns, String> {
        let separator = separator(header);
        let names: Vec<String> = header.split(separator).map(normalize_name).collect();
        let printed = names.iter().map(String::as_str);
        let printed: Vec<&str> = printed.filter(|name| !name.is_empty() && *name != "partition").collect();
        let is_long_formula = printed
            .strip_prefix(&LONG_FORMULA)
            .is_some_and(|end| LONG_FORMULA_END.iter().any(|columns| end == columns));
        // With `-p` a line ends with a separator, but some editors remove it.
        let number = names.len() - usize::from(names.last().is_some_and(String::is_empty));
        let columns = Columns { names, shares, number, separator, is_long_formula };
        let usage = columns.has_usage().then_some("RawUsage");
        match ["Account", "User", shares].into_iter().chain(usage).find(|name| columns.find(name).is_none()) {
            Some(name) => Err(format!("no column {name} in the header")),
            None => Ok(columns),
        }
    }

    /// Returns true for a table of sshare.
    fn has_usage(&self) -> bool {
        self.shares == "RawShares"
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|column| column.eq_ignore_ascii_case(name))
    }

    /// Returns the text of a row in the column `name`, or `None` if the table has no such column.
    fn text<'a>(&self, row: &[&'a str], name: &str) -> Option<&'a str> {
        row.get(self.find(name)?).copied()
    }
}

/// Reads the output of sshare. RawUsage of an account includes the usage of all rows below the account. If
/// RawUsage exceeds their sum by more than rounding errors, the difference is the account's own usage.
pub(crate) fn read_sshare(text: &str) -> Result<Document, String> {
    read_table(text, "RawShares", &[], "sshare -M NAME -a -l -P")
}

/// Reads the output of `sacctmgr show assoc`: shares without usages.
pub(crate) fn read_assoc(text: &str, usages: &[(String, f64)]) -> Result<Document, String> {
    read_table(text, "Share", usages, "sacctmgr show assoc tree -P where cluster=NAME")
}

fn read_table(
    text: &str,
    shares_column: &'static str,
    usages: &[(String, f64)],
    command_for_one: &str,
) -> Result<Document, String> {
    let mut clusters: Vec<&str> = Vec::new();
    let (mut left_out, mut deleted): (Vec<usize>, Vec<usize>) = Default::default();
    let is_table =
        |line: &str| if shares_column == "RawShares" { is_sshare(line) } else { is_assoc_header(line) };
    let has_header = text.lines().any(is_table);
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).peekable();
    while let Some((index, line)) = lines.next_if(|(_, line)| has_header && !is_table(line)) {
        match line.strip_prefix(CLUSTER) {
            Some(cluster) => clusters.push(cluster.trim()),
            None => left_out.push(index + 1),
        }
    }
    let (_, header) = lines.next().ok_or("empty")?;
    let columns = Columns::parse(header, shares_column)?;
    let mut rows: Vec<(usize, Vec<&str>)> = Vec::new();
    for (index, line) in lines {
        let fail = |text: String| format!("line {}: {text}", index + 1);
        if line.starts_with(CLUSTER) {
            clusters.push(line.trim_start_matches(CLUSTER).trim());
            return Err(fail(several_clusters_error(&clusters, command_for_one)));
        }
        let fields: Vec<&str> = line.split(columns.separator).collect();
        if fields.len() < columns.number {
            if is_outside_of_output(line) {
                left_out.push(index + 1);
                continue;
            }
            let (found, expected) = (fields.len(), columns.number);
            return Err(fail(format!("{found} of {expected} columns: the row is cut off")));
        }
        if let Some(more) = fields.iter().skip(columns.number).find(|field| !field.trim().is_empty()) {
            let number = columns.number;
            return Err(fail(format!(
                "\"{more}\" is beyond the {number} columns of the header: a value contains the separator, so leave out \
                 its column with format="
            )));
        }
        if columns
            .text(&fields, "Flags")
            .is_some_and(|flags| flags.split(',').any(|flag| flag.trim() == "Deleted"))
        {
            deleted.push(index + 1);
            continue;
        }
        rows.push((index + 1, fields));
    }
    let mut sheet = Sheet {
        has_partitions: columns.find("Partition").is_some(),
        is_formula: columns.is_long_formula,
        from_sacctmgr: !columns.has_usage(),
        ..Sheet::default()
    };
    let indents = Indents::measure(rows.iter().filter_map(|(_, fields)| columns.text(fields, "Account")));
    let mut position = ReaderPosition { indents, ..ReaderPosition::default() };
    for (line, fields) in rows {
        let fail = |text: String| format!("line {line}: {text}");
        let cluster = columns.text(&fields, "Cluster").map_or("", str::trim);
        if !clusters.contains(&cluster) && !cluster.is_empty() {
            clusters.push(cluster);
            if clusters.len() > 1 {
                return Err(fail(several_clusters_error(&clusters, command_for_one)));
            }
        }
        add_row(&fields, &columns, &mut sheet, &mut position).map_err(fail)?;
    }
    for (lines, what) in [(left_out, "not part of the table"), (deleted, "about deleted associations")] {
        let Some(first) = lines.first() else { continue };
        let (count, are) = (lines.len(), if lines.len() == 1 { "line is" } else { "lines are" });
        sheet.notes.push(format!("{count} {are} {what} and left out; the first is line {first}"));
    }
    sheet.into_document(usages)
}

fn several_clusters_error(clusters: &[&str], command_for_one: &str) -> String {
    let names = clusters.join(" and ");
    format!(
        "there are several clusters, {names}, each with its own tree: \"{command_for_one}\" prints the tree of one"
    )
}

/// The indentation of one level. Slurm writes one space per level; editors write more spaces, or tabs.
#[derive(Clone, Copy, Debug, Default)]
struct Indents {
    base: usize,
    unit: usize,
}

impl Indents {
    fn measure<'a>(accounts: impl Iterator<Item = &'a str>) -> Indents {
        let widths: Vec<usize> = accounts.map(indent_width).collect();
        let base = widths.first().copied().unwrap_or_default();
        let unit = widths.iter().filter_map(|width| width.checked_sub(base)).filter(|more| *more > 0).min();
        Indents { base, unit: unit.unwrap_or(0) }
    }

    /// Returns the level of a field, or `None` if its indentation is not a multiple of the indentation of one level.
    fn depth(self, field: &str) -> Option<usize> {
        let more = indent_width(field).checked_sub(self.base)?;
        if self.unit == 0 { Some(0) } else { (more % self.unit == 0).then_some(more / self.unit) }
    }
}

fn indent_width(field: &str) -> usize {
    field.chars().take_while(|letter| letter.is_whitespace()).count()
}

/// The accounts that were read so far, and the accounts above the current row.
#[derive(Default)]
struct ReaderPosition<'a> {
    indents: Indents,
    /// The accounts above the current row, by depth.
    path: Vec<usize>,
    depths: Vec<usize>,
    by_name: HashMap<&'a str, usize>,
}

fn add_row<'a>(
    fields: &[&'a str],
    columns: &Columns,
    sheet: &mut Sheet,
    position: &mut ReaderPosition<'a>,
) -> Result<(), String> {
    let text = |name: &str| columns.text(fields, name).map(str::trim);
    let number = |name: &str| match text(name).unwrap_or_default() {
        "" => Ok(None),
        text => match text.parse::<f64>() {
            Ok(number) => Ok(Some(number).filter(|number| !number.is_nan())),
            Err(_) => Err(format!("{name} is \"{text}\", expected a number")),
        },
    };
    let indented = columns.text(fields, "Account").unwrap_or_default();
    let name = indented.trim();
    let parent_name = text("ParentName").or_else(|| text("ParName"));
    let depth = match (position.indents.depth(indented), parent_name) {
        (Some(depth), _) => depth,
        (None, Some(_)) => 0,
        (None, None) => return Err(format!("account \"{name}\": {SPACES}")),
    };
    let shares = parse_shares(columns.shares, text(columns.shares).unwrap_or_default())?;
    let usage = if columns.has_usage() { number("RawUsage")?.or(Some(0.0)) } else { None };
    let printed = Printed {
        norm_shares: number("NormShares")?,
        norm_usage: number("NormUsage")?,
        effective: number("EffectvUsage")?,
        fairshare: number("FairShare")?,
        level_fs: number("LevelFS")?,
        is_pending: false,
    }
    .without_pending_values(columns.find("NormUsage").is_some());
    let user = text("User").unwrap_or_default();
    if user.is_empty() {
        let parent = match parent_name {
            Some(parent) => find_named_parent(name, parent, position)?,
            None => find_indented_parent(name, depth, sheet, position)?,
        };
        position.path.truncate(depth);
        position.path.push(sheet.accounts.len());
        position.depths.push(depth);
        position.by_name.insert(name, sheet.accounts.len());
        let (name, partition) = (name.to_owned(), String::new());
        sheet.accounts.push(Association { name, parent, partition, shares, usage, printed });
        return Ok(());
    }
    let account = if parent_name.is_some() {
        position.by_name.get(name).copied()
    } else {
        // In a user's row, sshare indents the account one level deeper than in the account's own row.
        position.path.truncate(depth.max(1));
        let last = position.path.last().copied();
        let is_above = |at: &usize| {
            sheet.accounts.get(*at).is_some_and(|account| account.name == name)
                && position.depths.get(*at).is_some_and(|above| depth <= above + 1)
        };
        last.filter(is_above)
    };
    if account.is_none() {
        return Err(if sheet.from_sacctmgr && !sheet.accounts.iter().any(|account| account.name == name) {
            format!("user \"{user}\": account \"{name}\" is not listed: {ALL_OF_SACCTMGR}")
        } else if sheet.accounts.is_empty() {
            format!("user \"{user}\": no account is listed: run \"sshare -a -l -P\" without -U")
        } else {
            format!("user \"{user}\": expected account \"{name}\" directly above this user")
        });
    }
    let partition = text("Partition").unwrap_or_default().to_owned();
    let name = user.to_owned();
    sheet.users.push(Association { name, parent: account, partition, shares, usage, printed });
    Ok(())
}

/// The error text for a row whose level can't be determined.
const SPACES: &str =
    "its indentation does not show its parent account; keep the leading spaces of the output";

fn find_named_parent(
    name: &str,
    parent: &str,
    position: &ReaderPosition<'_>,
) -> Result<Option<usize>, String> {
    match position.by_name.get(parent) {
        Some(parent) => Ok(Some(*parent)),
        None if parent.is_empty() && name == ROOT => Ok(None),
        None => Err(format!("account \"{name}\": its parent \"{parent}\" is not above it")),
    }
}

fn find_indented_parent(
    name: &str,
    depth: usize,
    sheet: &Sheet,
    position: &ReaderPosition<'_>,
) -> Result<Option<usize>, String> {
    if depth > position.path.len() || (depth == 0 && !sheet.accounts.is_empty()) {
        let text = if sheet.from_sacctmgr && position.indents.unit == 0 {
            "the output does not show its parent account; \"sacctmgr show assoc tree -P\" does".to_owned()
        } else if sheet.from_sacctmgr {
            format!("the account above it is not listed: {ALL_OF_SACCTMGR}")
        } else if position.indents.unit == 0 && sheet.accounts.first().is_some_and(|first| first.name == ROOT)
        {
            SPACES.to_owned()
        } else {
            format!("the account above it is not listed: {ALL}; run it without -A")
        };
        return Err(format!("account \"{name}\": {text}"));
    }
    Ok(depth.checked_sub(1).and_then(|above| position.path.get(above)).copied())
}
