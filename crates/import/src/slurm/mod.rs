// SPDX-License-Identifier: LGPL-3.0-only
//! Reads all forms of the output of Slurm's `sshare` and `sacctmgr` into a sheet of accounts and users.

mod complete;
mod dump;
mod json;
mod rule;
mod table;
mod ties;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::Document;
use super::claims::{Claim, Claimant, Quantity};
use fairshare::{Builder, Policy, Shares};

pub(super) use dump::{is_dump, read_dump};
pub(super) use json::read_json;
use rule::Rule;
pub(super) use table::{is_assoc_header, is_fixed_width_table, is_header, read_assoc, read_sshare};

/// Slurm's root account.
const ROOT: &str = "root";
/// The number that Slurm's programs print for `fairshare=parent`.
const USE_PARENT: u32 = 0x7FFF_FFFF;
/// The smaller of Slurm's numbers for "not set" and "no limit". As shares, both mean 1 share.
const NOT_SET: u32 = u32::MAX - 1;
/// Half a unit of the sixth decimal, which is the last decimal that Slurm prints.
const HALF_UNIT: f64 = 5e-7;

/// The values in the document that Slurm computed from shares and usages.
#[derive(Clone, Copy, Debug, Default)]
struct Printed {
    norm_shares: Option<f64>,
    norm_usage: Option<f64>,
    effective: Option<f64>,
    fairshare: Option<f64>,
    level_fs: Option<f64>,
    /// True if Slurm had not computed the values of this row yet.
    is_pending: bool,
}

impl Printed {
    /// Removes the zeros that Slurm prints for a row before it has computed the row. Such a row has no NormUsage.
    fn without_pending_values(self, has_norm_usage: bool) -> Printed {
        match self.norm_usage {
            None if has_norm_usage => Printed { effective: None, level_fs: None, is_pending: true, ..self },
            _ => self,
        }
    }
}

/// A row of an account or of a user. Slurm calls both an association.
struct Association {
    name: String,
    /// The index of the account above in `Sheet::accounts`. Only the root account has none.
    parent: Option<usize>,
    /// The partition of a user; empty for all partitions, and for accounts.
    partition: String,
    shares: Shares,
    /// The usage. That of an account includes all rows below it.
    usage: Option<f64>,
    printed: Printed,
}

/// The policies of Slurm that compute fair-shares by a formula. Slurm's output does not always show which policy was
/// used.
pub const SLURM_FORMULAS: [Policy; 2] = [Policy::Classic, Policy::DepthOblivious];

/// All rows of a document. Each account comes after its parent.
#[derive(Default)]
struct Sheet {
    accounts: Vec<Association>,
    users: Vec<Association>,
    /// True if the document has a column for partitions.
    has_partitions: bool,
    /// True if FairShare and LevelFS have all digits instead of six decimals.
    in_full: bool,
    /// True if a column or value other than FairShare shows that the policy is not Fair Tree.
    is_formula: bool,
    /// True if the document is from `sacctmgr`, which prints only shares.
    from_sacctmgr: bool,
    /// Notes about input that was left out, each with its reason.
    notes: Vec<String>,
}

impl Sheet {
    /// Returns the account above a row.
    fn find_parent(&self, row: &Association) -> Option<&Association> {
        self.accounts.get(row.parent?)
    }

    /// Builds a tree from the rows. If the rows have no usage, takes the usage from `usages`. The names in
    /// `usages` are `user` or `user/account`.
    fn into_document(self, usages: &[(String, f64)]) -> Result<Document, String> {
        if self.accounts.is_empty() {
            // `Builder::build` will reject this tree, because it has no banks.
            return Ok(Document::new(Builder::default(), Policy::FairTree));
        }
        complete::check_all_rows_present(&self)?;
        let rule = rule::find_rule(&self);
        let policy = match rule {
            Rule::Formula if rule::is_depth_oblivious(&self) => Policy::DepthOblivious,
            Rule::Formula => Policy::Classic,
            Rule::FairTree | Rule::Undecided | Rule::Unknown => Policy::FairTree,
        };
        let mut document = Document::new(Builder::default(), policy);
        if rule == Rule::Undecided {
            document.undecided = Some(rule::UNDECIDED.to_owned());
        }
        document.notes.clone_from(&self.notes);
        let mut used: HashSet<&str> = HashSet::new();
        let mut below = vec![(0.0, 0_usize); self.accounts.len()];
        let mut known: HashMap<&str, f64> = HashMap::new();
        known.extend(usages.iter().map(|(name, usage)| (name.as_str(), *usage)));
        let precision = Precision {
            half_unit: if self.in_full { 1e-12 } else { HALF_UNIT },
            has_zero: !self.in_full && rule != Rule::FairTree,
        };
        let names = self.association_names(&mut document.notes);
        for (index, (user, name)) in self.users.iter().zip(&names).enumerate() {
            let Some(account) = self.find_parent(user) else { continue };
            let user_and_account = format!("{name}/{}", account.name);
            let find_listed = || {
                known.get_key_value(user_and_account.as_str()).or_else(|| known.get_key_value(name.as_ref()))
            };
            let usage = user.usage.or_else(|| {
                let (key, usage) = find_listed()?;
                used.insert(*key);
                Some(*usage)
            });
            add_usage(&mut below, user.parent, usage);
            document.builder.association(name, &account.name, user.shares, usage, true);
            document.add_claims(Claimant::Association(index), user.shares, &user.printed, precision);
        }
        let missing: Vec<&str> =
            usages.iter().map(|(name, _)| name.as_str()).filter(|name| !used.contains(name)).collect();
        document.notes.extend(describe_unmatched_usages(&missing));
        for account in &self.accounts {
            add_usage(&mut below, account.parent, account.usage);
        }
        for (index, position) in ties::find_visit_order(&self).into_iter().enumerate() {
            let Some((account, (below, children))) = self.accounts.get(position).zip(below.get(position))
            else {
                continue;
            };
            let parent = self.find_parent(account);
            // Slurm truncates each usage to a whole number, so a difference of up to one unit per row is rounding. A
            // larger difference is usage of removed users.
            let own = account.usage.map(|usage| usage - below).filter(|own| *own > *children as f64 + 1.0);
            document.builder.bank(
                &account.name,
                parent.map(|parent| parent.name.as_ref()),
                account.shares,
                own,
                true,
            );
            // The values printed for the root are meaningless.
            if account.parent.is_some() {
                document.add_claims(Claimant::Bank(index), account.shares, &account.printed, precision);
            }
        }
        Ok(document)
    }

    /// Returns the names of all associations. If a user has several associations in an account, one per partition, each
    /// becomes a leaf with the name `user:partition`.
    fn association_names(&self, notes: &mut Vec<String>) -> Vec<Cow<'_, str>> {
        let mut count: HashMap<(Option<usize>, &str), usize> = HashMap::with_capacity(self.users.len());
        for user in &self.users {
            *count.entry((user.parent, user.name.as_ref())).or_default() += 1;
        }
        let mut seen: HashMap<(Option<usize>, &str), usize> = HashMap::new();
        let mut unnamed = None;
        let mut names = Vec::with_capacity(self.users.len());
        for user in &self.users {
            let key = (user.parent, user.name.as_ref());
            let is_alone = count.get(&key).is_none_or(|count| *count == 1);
            names.push(if is_alone || (self.has_partitions && user.partition.is_empty()) {
                Cow::Borrowed(user.name.as_ref())
            } else if self.has_partitions {
                Cow::Owned(format!("{}:{}", user.name, user.partition))
            } else {
                let at = seen.entry(key).or_default();
                *at += 1;
                unnamed.get_or_insert(user);
                Cow::Owned(format!("{}:{at}", user.name))
            });
        }
        if let Some(user) = unnamed {
            let account = self.find_parent(user).map_or("", |account| account.name.as_ref());
            let user = &user.name;
            notes.push(format!(
                "user \"{user}\" has several associations in account \"{account}\", one per partition: they are \
                 numbered here; \"sshare -a -l -m -P\" names the partitions"
            ));
        }
        names
    }
}

/// Adds the usage of a row to the sum and the number of the rows directly below its parent.
fn add_usage(below: &mut [(f64, usize)], parent: Option<usize>, usage: Option<f64>) {
    if let Some((sum, children)) = parent.and_then(|parent| below.get_mut(parent)) {
        *sum += usage.unwrap_or(0.0);
        *children += 1;
    }
}

impl Document {
    /// Adds the values that Slurm printed for a row to `claims`.
    fn add_claims(&mut self, node: Claimant, shares: Shares, printed: &Printed, precision: Precision) {
        // Fair Tree never computes a FairShare of 0. Slurm prints 0 until it has computed the FairShare.
        let has_zero = precision.has_zero && !printed.is_pending;
        let computed = printed.fairshare.filter(|fairshare| has_zero || *fairshare != 0.0);
        self.uncomputed += usize::from(computed != printed.fairshare);
        let half_unit = precision.half_unit;
        let mut add = |quantity, value: Option<f64>| {
            self.claims.extend(value.map(|value| Claim { node, quantity, value, half_unit }));
        };
        add(Quantity::FairShare, computed);
        // If a row has fairshare=parent, Slurm prints no LevelFS or a meaningless number.
        if shares != Shares::Parent {
            add(Quantity::LevelFs, printed.level_fs);
        }
    }
}

/// The precision with which a document contains Slurm's values.
#[derive(Clone, Copy)]
struct Precision {
    half_unit: f64,
    /// True if 0 is a valid FairShare.
    has_zero: bool,
}

/// The maximum number of names that a message to the user lists.
const MAX_LISTED: usize = 10;

/// Returns a note about usages whose names are not in the tree, or `None` if `names` is empty.
fn describe_unmatched_usages(names: &[&str]) -> Option<String> {
    let listed: Vec<String> = names.iter().take(MAX_LISTED).map(|name| format!("\"{name}\"")).collect();
    let more = names.len().saturating_sub(MAX_LISTED);
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

/// Parses shares: a number, "parent", or the number that stands for "parent". As in Slurm, any word that
/// begins with "parent" is accepted, and a negative number means 1 share, which is Slurm's default.
fn parse_shares(column: &str, text: &str) -> Result<Shares, String> {
    let is_parent = |text: &str| text.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("parent"));
    match text {
        // The root account has no shares.
        "" => Ok(Shares::Count(1)),
        _ if is_parent(text) => Ok(Shares::Parent),
        _ if text.parse::<i64>().is_ok_and(|count| count < 0) => Ok(Shares::Count(1)),
        _ => match text.parse() {
            Ok(USE_PARENT) => Ok(Shares::Parent),
            Ok(NOT_SET..) => Ok(Shares::Count(1)),
            Ok(count) => Ok(Shares::Count(count.into())),
            Err(_) => Err(format!(
                "{column} is \"{text}\", expected a whole number from 0 to {} or \"parent\"",
                NOT_SET - 1
            )),
        },
    }
}
