// SPDX-License-Identifier: LGPL-3.0-only
//! What Slurm's `sshare -a -l -P` prints: one row per association, accounts indented by depth.

use crate::fairshare::{Builder, Shares};

pub(super) fn is_header(line: &str) -> bool {
    let columns: Vec<&str> = line.split('|').map(str::trim).collect();
    ["Account", "User", "RawShares", "RawUsage"].iter().all(|name| columns.contains(name))
}

/// True for the header of the table that sshare prints unless told otherwise, which cuts names short.
pub(super) fn is_for_people(line: &str) -> bool {
    let columns: Vec<&str> = line.split_whitespace().collect();
    ["Account", "User", "RawShares", "RawUsage"].iter().all(|name| columns.contains(name))
}

struct Account<'a> {
    name: &'a str,
    depth: usize,
    parent: Option<usize>,
    shares: Shares,
    usage: f64,
    /// Sum and number of the rows right below.
    below: f64,
    children: usize,
}

/// Reads the listing. RawUsage of an account holds all below it; what remains beyond rounding is its own.
pub(super) fn sshare(text: &str) -> Result<Builder, String> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let (_, header) = lines.next().ok_or("empty")?;
    let columns: Vec<&str> = header.split('|').map(str::trim).collect();
    let column = |name: &str| {
        columns
            .iter()
            .position(|column| *column == name)
            .ok_or_else(|| format!("no column {name} in the header"))
    };
    let (account, user, raw_shares, raw_usage) =
        (column("Account")?, column("User")?, column("RawShares")?, column("RawUsage")?);

    let mut builder = Builder::default();
    let mut accounts: Vec<Account<'_>> = Vec::new();
    // The account last seen at each depth: the path to the current row.
    let mut path: Vec<usize> = Vec::new();
    for (index, line) in lines {
        let fail = |text: String| format!("line {}: {text}", index + 1);
        let fields: Vec<&str> = line.split('|').collect();
        if fields.len() < columns.len() {
            let (found, expected) = (fields.len(), columns.len());
            return Err(fail(format!("{found} of {expected} columns: the row is cut off")));
        }
        let field = |at: usize| fields.get(at).copied().unwrap_or("");
        let name = field(account).trim();
        let depth = field(account).len() - field(account).trim_start().len();
        let shares = shares(field(raw_shares).trim()).map_err(fail)?;
        let usage: f64 = match field(raw_usage).trim() {
            "" => 0.0,
            text => text.parse().map_err(|_| fail(format!("RawUsage is \"{text}\", expected a number")))?,
        };
        let user = field(user).trim();
        if user.is_empty() {
            path.truncate(depth);
            if depth > path.len() || (depth == 0 && !accounts.is_empty()) {
                return Err(fail(format!(
                    "account \"{name}\": its indentation does not show what it is below; keep the spaces sshare prints"
                )));
            }
            let parent = path.last().copied();
            path.push(accounts.len());
            if let Some(above) = parent.and_then(|parent| accounts.get_mut(parent)) {
                above.below += usage;
                above.children += 1;
            }
            accounts.push(Account { name, depth, parent, shares, usage, below: 0.0, children: 0 });
        } else {
            path.truncate(depth.max(1));
            let above = path.last().and_then(|above| accounts.get_mut(*above));
            let Some(above) = above.filter(|above| above.name == name && depth <= above.depth + 1) else {
                return Err(fail(format!("user \"{user}\": account \"{name}\" is not right above")));
            };
            above.below += usage;
            above.children += 1;
            builder.association(user, name, shares, Some(usage), true);
        }
    }
    for account in &accounts {
        let parent = account.parent.and_then(|parent| accounts.get(parent)).map(|parent| parent.name);
        // Each row is cut to a whole number, so up to one unit per row is rounding.
        let own = account.usage - account.below;
        let own = (own > account.children as f64 + 1.0).then_some(own);
        builder.bank(account.name, parent, account.shares, own);
    }
    Ok(builder)
}

fn shares(text: &str) -> Result<Shares, String> {
    match text {
        // The root account has none.
        "" => Ok(Shares::Count(1)),
        "parent" => Ok(Shares::Parent),
        _ => text
            .parse()
            .map(Shares::Count)
            .map_err(|_| format!("RawShares is \"{text}\", expected a whole number >= 0 or \"parent\"")),
    }
}
