// SPDX-License-Identifier: LGPL-3.0-only
//! Slurm: what `sshare` and `sacctmgr` print, as one sheet of accounts and users, whatever the form.

mod complete;
mod dump;
mod json;
mod table;
mod ties;

use std::borrow::Cow;
use std::collections::HashMap;

use super::Parsed;
use super::claims::{Claim, Claimant, Quantity};
use crate::fairshare::{Builder, Policy, Shares};

pub(super) use dump::{dump, is_dump};
pub(super) use json::json;
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
}

/// How Slurm ranks, as far as the document shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    FairTree,
    /// Classic or depth-oblivious: accounts have a FairShare as well.
    Formula,
    Unknown,
}

impl Sheet<'_> {
    fn rule(&self) -> Rule {
        let of_accounts = self.accounts.iter().any(|account| account.printed.fairshare.is_some());
        let of_users = self.users.iter().any(|user| user.printed.fairshare.is_some());
        match (of_accounts || self.is_formula, of_users) {
            (true, _) => Rule::Formula,
            (false, true) => Rule::FairTree,
            (false, false) => Rule::Unknown,
        }
    }

    /// The sheet as a tree. `usages` are of users, or of `user/account`, where the document has none.
    fn into_parsed(self, usages: &[(String, f64)]) -> Result<Parsed, String> {
        if self.accounts.is_empty() {
            // The tree says that it has no banks.
            return Ok(Builder::default().into());
        }
        complete::check(&self)?;
        let rule = self.rule();
        let mut parsed = Parsed::from(Builder::default());
        parsed.policy = Some(if rule == Rule::Formula { Policy::Classic } else { Policy::FairTree });
        let mut below = vec![(0.0, 0_usize); self.accounts.len()];
        let mut known: HashMap<&str, f64> = HashMap::new();
        known.extend(usages.iter().map(|(name, usage)| (name.as_str(), *usage)));
        let half_unit = if self.in_full { 1e-12 } else { HALF_UNIT };
        let names = self.names(&mut parsed.notes);
        for (index, (user, name)) in self.users.iter().zip(&names).enumerate() {
            let Some(account) = self.accounts.get(user.account) else { continue };
            let listed = || {
                let both = format!("{name}/{}", account.name);
                known.get(both.as_str()).or_else(|| known.get(name.as_ref())).copied()
            };
            let usage = user.usage.or_else(listed);
            if let Some((sum, children)) = below.get_mut(user.account) {
                *sum += usage.unwrap_or(0.0);
                *children += 1;
            }
            parsed.builder.association(name, &account.name, user.shares, usage, true);
            parsed.claim(Claimant::Association(index), user.shares, &user.printed, half_unit);
        }
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
                parsed.claim(Claimant::Bank(index), account.shares, &account.printed, half_unit);
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
    fn claim(&mut self, of: Claimant, shares: Shares, printed: &Printed, half_unit: f64) {
        let mut add = |quantity, value: Option<f64>| {
            self.claims.extend(value.map(|value| Claim { of, quantity, value, half_unit }));
        };
        add(Quantity::FairShare, printed.fairshare);
        // Of fairshare=parent it prints none, or a number without meaning.
        if shares != Shares::Parent {
            add(Quantity::LevelFs, printed.level_fs);
        }
    }
}

/// Shares as text: a number, "parent", or the number that stands for it.
fn shares(column: &str, text: &str) -> Result<Shares, String> {
    match text {
        // The root account has none.
        "" => Ok(Shares::Count(1)),
        "parent" => Ok(Shares::Parent),
        _ => match text.parse() {
            Ok(USE_PARENT) => Ok(Shares::Parent),
            Ok(count) => Ok(Shares::Count(count)),
            Err(_) => Err(format!("{column} is \"{text}\", expected a whole number >= 0 or \"parent\"")),
        },
    }
}
