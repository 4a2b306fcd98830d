// SPDX-License-Identifier: LGPL-3.0-only
//! Tables with `|` between columns: `sshare -a -l -P`, and `sacctmgr show assoc tree -P`.

use std::borrow::Cow;
use std::collections::HashMap;

use super::{Account, Printed, ROOT, Sheet, User, shares};
use crate::store::formats::Parsed;

/// What a multi-cluster sshare puts above each table.
const CLUSTER: &str = "CLUSTER:";

fn has(line: &str, separator: char, names: &[&str]) -> bool {
    let columns: Vec<&str> = line.split(separator).map(str::trim).collect();
    names.iter().all(|name| columns.contains(name))
}

pub(in crate::store::formats) fn is_header(line: &str) -> bool {
    line.starts_with(CLUSTER) || has(line, '|', &["Account", "User", "RawShares", "RawUsage"])
}

/// The header of `sacctmgr show assoc -P`.
pub(in crate::store::formats) fn is_assoc_header(line: &str) -> bool {
    has(line, '|', &["Account", "User", "Share"])
}

/// True for the header of the tables that sshare and sacctmgr print unless told otherwise, which cut names short.
pub(in crate::store::formats) fn is_table_for_people(line: &str) -> bool {
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    has(&line, ' ', &["Account", "User", "RawShares"]) || has(&line, ' ', &["Account", "User", "Share"])
}

/// Where the columns are.
struct Columns {
    account: usize,
    user: usize,
    shares: (usize, &'static str),
    usage: Option<usize>,
    parent: Option<usize>,
    partition: Option<usize>,
    cluster: Option<usize>,
    norm_shares: Option<usize>,
    fairshare: Option<usize>,
    level_fs: Option<usize>,
    /// How many a row must have.
    number: usize,
}

impl Columns {
    fn of(header: &str, shares: &'static str) -> Result<Columns, String> {
        let names: Vec<&str> = header.split('|').map(str::trim).collect();
        let optional = |name: &str| names.iter().position(|column| *column == name);
        let needed = |name: &str| optional(name).ok_or_else(|| format!("no column {name} in the header"));
        Ok(Columns {
            account: needed("Account")?,
            user: needed("User")?,
            shares: (needed(shares)?, shares),
            usage: if shares == "RawShares" { Some(needed("RawUsage")?) } else { None },
            parent: optional("ParentName").or_else(|| optional("Par Name")),
            partition: optional("Partition"),
            cluster: optional("Cluster"),
            norm_shares: optional("NormShares"),
            fairshare: optional("FairShare"),
            level_fs: optional("LevelFS"),
            number: names.len(),
        })
    }
}

/// Reads what sshare printed. RawUsage of an account holds all below it; what remains beyond rounding is its own.
pub(in crate::store::formats) fn sshare(text: &str) -> Result<Parsed, String> {
    read(text, "RawShares", &[], "sshare -M NAME -a -l -P")
}

/// Reads what `sacctmgr show assoc` printed: shares without usage.
pub(in crate::store::formats) fn assoc(text: &str, usages: &[(String, f64)]) -> Result<Parsed, String> {
    read(text, "Share", usages, "sacctmgr show assoc tree -P where cluster=NAME")
}

fn read(
    text: &str,
    shares_column: &'static str,
    usages: &[(String, f64)],
    of_one_cluster: &str,
) -> Result<Parsed, String> {
    let mut clusters: Vec<&str> = Vec::new();
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).peekable();
    while let Some((_, line)) = lines.next_if(|(_, line)| line.starts_with(CLUSTER)) {
        clusters.push(line.trim_start_matches(CLUSTER).trim());
    }
    let (_, header) = lines.next().ok_or("empty")?;
    let columns = Columns::of(header, shares_column)?;
    let mut sheet = Sheet { has_partitions: columns.partition.is_some(), ..Sheet::default() };
    let mut place = Place::default();
    for (index, line) in lines {
        let fail = |text: String| format!("line {}: {text}", index + 1);
        if line.starts_with(CLUSTER) {
            clusters.push(line.trim_start_matches(CLUSTER).trim());
            return Err(fail(several(&clusters, of_one_cluster)));
        }
        let fields: Vec<&str> = line.split('|').collect();
        if fields.len() < columns.number {
            let (found, expected) = (fields.len(), columns.number);
            return Err(fail(format!("{found} of {expected} columns: the row is cut off")));
        }
        let cluster = columns.cluster.and_then(|at| fields.get(at)).map_or("", |field| field.trim());
        if !clusters.contains(&cluster) && !cluster.is_empty() {
            clusters.push(cluster);
            if clusters.len() > 1 {
                return Err(fail(several(&clusters, of_one_cluster)));
            }
        }
        row(&fields, &columns, &mut sheet, &mut place).map_err(fail)?;
    }
    sheet.into_parsed(usages)
}

fn several(clusters: &[&str], of_one: &str) -> String {
    let names = clusters.join(" and ");
    format!("there are several clusters, {names}, and each is a tree of its own: \"{of_one}\" prints one")
}

/// Where in the tree the reader is.
#[derive(Default)]
struct Place<'a> {
    /// The account last seen at each depth: the path to the current row.
    path: Vec<usize>,
    depths: Vec<usize>,
    by_name: HashMap<&'a str, usize>,
}

fn row<'a>(
    fields: &[&'a str],
    columns: &Columns,
    sheet: &mut Sheet<'a>,
    place: &mut Place<'a>,
) -> Result<(), String> {
    let field = |at: usize| fields.get(at).copied().unwrap_or("");
    let number = |column: Option<usize>, name: &str| match column.map_or("", |at| field(at).trim()) {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| format!("{name} is \"{text}\", expected a number")),
    };
    let indented = field(columns.account);
    let name = indented.trim();
    let depth = indented.len() - indented.trim_start().len();
    let shares = shares(columns.shares.1, field(columns.shares.0).trim())?;
    let usage: Option<f64> = number(columns.usage, "RawUsage")?;
    let usage = usage.or(columns.usage.map(|_| 0.0));
    let printed = Printed {
        norm_shares: number(columns.norm_shares, "NormShares")?,
        fairshare: number(columns.fairshare, "FairShare")?,
        level_fs: number(columns.level_fs, "LevelFS")?,
    };
    let user = field(columns.user).trim();
    let named = columns.parent.map(|at| field(at).trim());
    if user.is_empty() {
        let parent = match named {
            Some(parent) => named_parent(name, parent, place)?,
            None => indented_parent(name, depth, sheet, place)?,
        };
        place.path.truncate(depth);
        place.path.push(sheet.accounts.len());
        place.depths.push(depth);
        place.by_name.insert(name, sheet.accounts.len());
        sheet.accounts.push(Account { name: Cow::Borrowed(name), parent, shares, usage, printed });
        return Ok(());
    }
    let account = if named.is_some() {
        place.by_name.get(name).copied()
    } else {
        // Of a user, sshare indents the account by one more.
        place.path.truncate(depth.max(1));
        let last = place.path.last().copied();
        let is_above = |at: &usize| {
            sheet.accounts.get(*at).is_some_and(|account| account.name == name)
                && place.depths.get(*at).is_some_and(|above| depth <= above + 1)
        };
        last.filter(is_above)
    };
    let Some(account) = account else {
        return Err(if sheet.accounts.is_empty() {
            format!("user \"{user}\": no account is listed; -U leaves them out, \"sshare -a -l -P\" does not")
        } else {
            format!("user \"{user}\": account \"{name}\" is not right above")
        });
    };
    let partition = Cow::Borrowed(columns.partition.map_or("", |at| field(at).trim()));
    sheet.users.push(User { name: Cow::Borrowed(user), account, partition, shares, usage, printed });
    Ok(())
}

fn named_parent(name: &str, parent: &str, place: &Place<'_>) -> Result<Option<usize>, String> {
    match place.by_name.get(parent) {
        Some(parent) => Ok(Some(*parent)),
        None if parent.is_empty() && name == ROOT => Ok(None),
        None => Err(format!("account \"{name}\": its parent \"{parent}\" is not above it")),
    }
}

fn indented_parent(
    name: &str,
    depth: usize,
    sheet: &Sheet<'_>,
    place: &Place<'_>,
) -> Result<Option<usize>, String> {
    if depth > place.path.len() || (depth == 0 && !sheet.accounts.is_empty()) {
        let text = if place.depths.iter().all(|depth| *depth == 0)
            && sheet.users.iter().all(|user| user.usage.is_none())
        {
            "nothing shows what it is below; \"sacctmgr show assoc tree -P\" does"
        } else {
            "its indentation does not show what it is below; keep the spaces sshare prints"
        };
        return Err(format!("account \"{name}\": {text}"));
    }
    Ok(depth.checked_sub(1).and_then(|above| place.path.get(above)).copied())
}
