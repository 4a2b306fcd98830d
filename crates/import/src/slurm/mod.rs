// SPDX-License-Identifier: LGPL-3.0-only
//! Slurm: what `sshare` and `sacctmgr` print, as one sheet of accounts and users, whatever the form.

mod complete;
mod dump;
mod json;
mod rule;
mod table;
mod ties;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::Parsed;
use super::claims::{Claim, Claimant, Quantity};
use fairshare::{Builder, Policy, Shares};

pub(super) use dump::{dump, is_dump};
pub(super) use json::json;
use rule::Rule;
pub(super) use table::{assoc, is_assoc_header, is_header, is_table_for_people, sshare};

/// The account that Slurm puts above all others.
const ROOT: &str = "root";
/// How Slurm's programs write `fairshare=parent` where they write it as a number.
const USE_PARENT: u64 = 0x7FFF_FFFF;
/// Numbers are printed with six decimals.
const HALF_UNIT: f64 = 5e-7;

/// What Slurm itself made of the shares and usages, as far as it is there.
#[derive(Clone, Copy, Debug, Default)]
struct Printed {
    norm_shares: Option<f64>,
    norm_usage: Option<f64>,
    effective: Option<f64>,
    fairshare: Option<f64>,
    level_fs: Option<f64>,
}

struct Account<'a> {
    name: Cow<'a, str>,
    parent: Option<usize>,
    shares: Shares,
    /// Its own and all below.
    usage: Option<f64>,
    printed: Printed,
}

struct User<'a> {
    name: Cow<'a, str>,
    /// Place of its account in the sheet.
    account: usize,
    /// Slurm keeps associations per partition too; empty where it is for all.
    partition: Cow<'a, str>,
    shares: Shares,
    usage: Option<f64>,
    printed: Printed,
}

/// Slurm's ranking policies with a formula. Its output does not always show by which of them Slurm computed a FairShare.
pub const SLURM_FORMULAS: [Policy; 2] = [Policy::Classic, Policy::DepthOblivious];

/// All rows of a document. Accounts come after those above them.
#[derive(Default)]
struct Sheet<'a> {
    accounts: Vec<Account<'a>>,
    users: Vec<User<'a>>,
    /// The document says of which partition an association is.
    has_partitions: bool,
    /// FairShare and LevelFS have all their digits, not six decimals.
    in_full: bool,
    /// The document shows otherwise that the rule is not Fair Tree.
    is_formula: bool,
    /// The document is the output of `sacctmgr`, which prints shares only.
    from_sacctmgr: bool,
    /// What was left out, and why.
    notes: Vec<String>,
}

impl Sheet<'_> {
    /// The sheet as a tree. `usages` are of users, or of `user/account`, where the document has none.
    fn into_parsed(self, usages: &[(String, f64)]) -> Result<Parsed, String> {
        if self.accounts.is_empty() {
            // The tree says that it has no banks.
            return Ok(Builder::default().into());
        }
        complete::check(&self)?;
        let mut parsed = Parsed::from(Builder::default());
        let rule = rule::rule(&self);
        parsed.policy = Some(match rule {
            Rule::Formula if rule::is_depth_oblivious(&self) => Policy::DepthOblivious,
            Rule::Formula => Policy::Classic,
            Rule::FairTree | Rule::Undecided | Rule::Unknown => Policy::FairTree,
        });
        if rule == Rule::Undecided {
            parsed.undecided = Some(rule::UNDECIDED.to_owned());
        }
        parsed.notes.clone_from(&self.notes);
        let mut used: HashSet<&str> = HashSet::new();
        let mut below = vec![(0.0, 0_usize); self.accounts.len()];
        let mut known: HashMap<&str, f64> = HashMap::new();
        known.extend(usages.iter().map(|(name, usage)| (name.as_str(), *usage)));
        let precision = Precision {
            half_unit: if self.in_full { 1e-12 } else { HALF_UNIT },
            has_zero: !self.in_full && rule != Rule::FairTree,
        };
        let names = self.names(&mut parsed.notes);
        for (index, (user, name)) in self.users.iter().zip(&names).enumerate() {
            let Some(account) = self.accounts.get(user.account) else { continue };
            let both = format!("{name}/{}", account.name);
            let listed = || known.get_key_value(both.as_str()).or_else(|| known.get_key_value(name.as_ref()));
            let usage = user.usage.or_else(|| {
                let (key, usage) = listed()?;
                used.insert(*key);
                Some(*usage)
            });
            if let Some((sum, children)) = below.get_mut(user.account) {
                *sum += usage.unwrap_or(0.0);
                *children += 1;
            }
            parsed.builder.association(name, &account.name, user.shares, usage, true);
            parsed.claim(Claimant::Association(index), user.shares, &user.printed, precision);
        }
        let missing: Vec<&str> =
            usages.iter().map(|(name, _)| name.as_str()).filter(|name| !used.contains(name)).collect();
        parsed.notes.extend(unmatched(&missing));
        for account in &self.accounts {
            if let Some((sum, children)) = account.parent.and_then(|parent| below.get_mut(parent)) {
                *sum += account.usage.unwrap_or(0.0);
                *children += 1;
            }
        }
        for (index, place) in ties::visited(&self).into_iter().enumerate() {
            let Some((account, (below, children))) = self.accounts.get(place).zip(below.get(place)) else {
                continue;
            };
            let parent = account.parent.and_then(|parent| self.accounts.get(parent));
            // Each row is cut to a whole number, so up to one unit per row is rounding. The rest is of users who are gone.
            let own = account.usage.map(|usage| usage - below).filter(|own| *own > *children as f64 + 1.0);
            parsed.builder.bank(
                &account.name,
                parent.map(|parent| parent.name.as_ref()),
                account.shares,
                own,
            );
            // What is printed of the root is an artefact.
            if account.parent.is_some() {
                parsed.claim(Claimant::Bank(index), account.shares, &account.printed, precision);
            }
        }
        Ok(parsed)
    }

    /// A name for each user's association. Where a user has several in one account, as Slurm has them per partition, each
    /// is a leaf of its own there and here: `user:partition`.
    fn names(&self, notes: &mut Vec<String>) -> Vec<Cow<'_, str>> {
        let mut count: HashMap<(usize, &str), usize> = HashMap::with_capacity(self.users.len());
        for user in &self.users {
            *count.entry((user.account, user.name.as_ref())).or_default() += 1;
        }
        let mut seen: HashMap<(usize, &str), usize> = HashMap::new();
        let mut unnamed = None;
        let mut names = Vec::with_capacity(self.users.len());
        for user in &self.users {
            let key = (user.account, user.name.as_ref());
            let is_alone = count.get(&key).is_none_or(|count| *count == 1);
            names.push(if is_alone || (self.has_partitions && user.partition.is_empty()) {
                Cow::Borrowed(user.name.as_ref())
            } else if self.has_partitions {
                Cow::Owned(format!("{}:{}", user.name, user.partition))
            } else {
                let at = seen.entry(key).or_default();
                *at += 1;
                unnamed.get_or_insert(key);
                Cow::Owned(format!("{}:{at}", user.name))
            });
        }
        if let Some((account, user)) = unnamed {
            let account = self.accounts.get(account).map_or("", |account| account.name.as_ref());
            notes.push(format!(
                "user \"{user}\" has several associations in account \"{account}\", one per partition: they are \
                 numbered here; \"sshare -a -l -m -P\" names the partitions"
            ));
        }
        names
    }
}

impl Parsed {
    /// Keeps what Slurm printed of a row.
    fn claim(&mut self, of: Claimant, shares: Shares, printed: &Printed, precision: Precision) {
        // Fair Tree ranks from 1 upward: 0 is what Slurm prints before its first calculation.
        let computed = printed.fairshare.filter(|fairshare| precision.has_zero || *fairshare != 0.0);
        self.uncomputed += usize::from(computed != printed.fairshare);
        let half_unit = precision.half_unit;
        let mut add = |quantity, value: Option<f64>| {
            self.claims.extend(value.map(|value| Claim { of, quantity, value, half_unit }));
        };
        add(Quantity::FairShare, computed);
        // Of fairshare=parent it prints none, or a number without meaning.
        if shares != Shares::Parent {
            add(Quantity::LevelFs, printed.level_fs);
        }
    }
}

/// How Slurm's values were printed.
#[derive(Clone, Copy)]
struct Precision {
    half_unit: f64,
    /// A FairShare of 0 is a value that Slurm computed.
    has_zero: bool,
}

/// Most names that a note lists.
const LISTED: usize = 10;

/// A note about usages of names that the tree does not have.
fn unmatched(names: &[&str]) -> Option<String> {
    let listed: Vec<String> = names.iter().take(LISTED).map(|name| format!("\"{name}\"")).collect();
    let more = names.len().saturating_sub(LISTED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let all = listed.join(", ");
    match names.len() {
        0 => None,
        1 => Some(format!("1 usage is left out: no user in the tree has the name {all}")),
        number => {
            Some(format!("{number} usages are left out: no user in the tree has the names {all}{more}"))
        }
    }
}

/// Shares as text: a number, "parent", or the number that stands for it. Slurm's programs take a word that begins with "parent" in
/// any case, and clear the shares by a negative number; an association without shares of its own has 1.
fn shares(column: &str, text: &str) -> Result<Shares, String> {
    let is_parent = |text: &str| text.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("parent"));
    match text {
        // The root account has none.
        "" => Ok(Shares::Count(1)),
        _ if is_parent(text) => Ok(Shares::Parent),
        _ if text.parse::<i64>().is_ok_and(|count| count < 0) => Ok(Shares::Count(1)),
        _ => match text.parse() {
            Ok(USE_PARENT) => Ok(Shares::Parent),
            Ok(count) => Ok(Shares::Count(count)),
            Err(_) => Err(format!("{column} is \"{text}\", expected a whole number or \"parent\"")),
        },
    }
}
