// SPDX-License-Identifier: LGPL-3.0-only
//! The file of `sacctmgr dump`: lines of `What - 'name':Option=value:...`, accounts and users below a `Parent` line.

use std::borrow::Cow;
use std::collections::HashMap;

use super::{Account, Printed, ROOT, Sheet, User, shares};
use crate::fairshare::Shares;
use crate::store::formats::Parsed;

/// What lines begin with.
const WHATS: [&str; 4] = ["Cluster", "Parent", "Account", "User"];

/// True for a text whose first line that says something could stand in such a file.
pub(in crate::store::formats) fn is_dump(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.find_map(split).is_some_and(|(what, _)| WHATS.contains(&what))
}

/// `What` and the rest of a line.
fn split(line: &str) -> Option<(&str, &str)> {
    let (what, rest) = line.split_once(" - ")?;
    Some((what.trim(), rest.trim()))
}

/// The name that a line begins with, and its options. A colon within quotes is none, a backslash makes the next letter one.
fn options(rest: &str) -> Result<(String, Vec<(String, String)>), String> {
    let mut parts = vec![String::new()];
    let mut quote = None;
    let mut letters = rest.chars();
    while let Some(letter) = letters.next() {
        let Some(part) = parts.last_mut() else { break };
        match letter {
            '\\' => part.extend(letters.next()),
            '\'' | '"' if quote.is_none() => quote = Some(letter),
            _ if quote == Some(letter) => quote = None,
            ':' if quote.is_none() => parts.push(String::new()),
            '#' if quote.is_none() => break,
            _ => part.push(letter),
        }
    }
    if quote.is_some() {
        return Err("a quote is not closed".to_owned());
    }
    let mut parts = parts.into_iter().map(|part| part.trim().to_owned());
    let name = parts.next().filter(|name| !name.is_empty()).ok_or("a name is missing")?;
    let option =
        |part: String| part.split_once('=').map(|(key, value)| (key.to_lowercase(), value.to_owned()));
    Ok((name, parts.filter_map(option).collect()))
}

fn value<'a>(options: &'a [(String, String)], keys: &[&str]) -> Option<&'a str> {
    options.iter().find(|(key, _)| keys.contains(&key.as_str())).map(|(_, value)| value.as_str())
}

/// Reads the file: shares without usage. The root account is there without a line.
pub(in crate::store::formats) fn dump(text: &str, usages: &[(String, f64)]) -> Result<Parsed, String> {
    let mut sheet = Sheet { has_partitions: true, ..Sheet::default() };
    let account = |name: &str, parent, shares| Account {
        name: Cow::Owned(name.to_owned()),
        parent,
        shares,
        usage: None,
        printed: Printed::default(),
    };
    sheet.accounts.push(account(ROOT, None, Shares::Count(1)));
    let mut by_name: HashMap<String, usize> = HashMap::from([(ROOT.to_owned(), 0)]);
    let mut above = 0;
    let mut cluster: Option<String> = None;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let fail = |text: String| format!("line {}: {text}", index + 1);
        let (what, rest) = split(line)
            .ok_or_else(|| fail("expected Cluster, Parent, Account or User - 'name'".to_owned()))?;
        let (name, options) = options(rest).map_err(fail)?;
        let shares = || {
            let text = value(&options, &["fairshare", "share", "shares"]);
            text.map_or(Ok(Shares::Count(1)), |text| shares("Fairshare", text))
        };
        match what {
            "Cluster" => {
                if let Some(first) = cluster.replace(name.clone()) {
                    return Err(fail(format!(
                        "there are several clusters, {first} and {name}, and each is a tree of its own: \"sacctmgr dump {name}\" writes one"
                    )));
                }
            }
            "Parent" => {
                let missing = || {
                    fail(format!("account \"{name}\" is not above: it must be there before what is in it"))
                };
                above = *by_name.get(&name).ok_or_else(missing)?;
            }
            "Account" => {
                if by_name.insert(name.clone(), sheet.accounts.len()).is_some() {
                    return Err(fail(format!("account \"{name}\" is there already")));
                }
                sheet.accounts.push(account(&name, Some(above), shares().map_err(fail)?));
            }
            "User" => {
                let partition = value(&options, &["partition"]).unwrap_or_default().to_owned();
                let shares = shares().map_err(|text| fail(format!("user \"{name}\": {text}")))?;
                sheet.users.push(User {
                    name: Cow::Owned(name),
                    account: above,
                    partition: Cow::Owned(partition),
                    shares,
                    usage: None,
                    printed: Printed::default(),
                });
            }
            // QOS and what newer versions may add say nothing about the tree.
            _ => {}
        }
    }
    sheet.into_parsed(usages)
}
