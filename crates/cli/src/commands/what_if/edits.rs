// SPDX-License-Identifier: LGPL-3.0-only
//! Parses the changes of what-if and applies them to a tree.

use std::str::FromStr;

use crate::outcome::{Failure, Result, failure};
use crate::site::input::{Loaded, Source};
use crate::site::mending::join_command;
use crate::site::names::{bank_of, describe_ambiguous_bank, find_associations};
use crate::ui::figures::{Unit, number};
use crate::ui::printable::printable;
use crate::ui::suggest::did_you_mean;
use fairshare::{self, Builder, NodeId, NodeKind, Tree};

/// `NAME=SHARES`
#[derive(Clone, Debug)]
pub(super) struct Shares {
    name: String,
    shares: fairshare::Shares,
}

/// `USER+=USAGE`
#[derive(Clone, Debug)]
pub(super) struct Used {
    name: String,
    how: Operation,
    amount: Amount,
}

/// `USER/BANK[=SHARES]`
#[derive(Clone, Debug)]
pub(super) struct NewUser {
    user: String,
    bank: String,
    shares: fairshare::Shares,
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    More,
    Less,
    Set,
}

#[derive(Clone, Copy, Debug)]
enum Amount {
    /// An amount in the unit of the tree.
    Plain(f64),
    NodeHours(f64),
    /// A fraction of the user's present usage.
    Part(f64),
}

/// All changes of a what-if.
pub(super) struct Edits<'a> {
    pub(super) shares: &'a [Shares],
    pub(super) used: &'a [Used],
    pub(super) users: &'a [NewUser],
}

fn parse_shares(text: &str) -> Result<fairshare::Shares, String> {
    match text.trim() {
        "parent" => Ok(fairshare::Shares::Parent),
        count => count
            .parse()
            .map(fairshare::Shares::Count)
            .map_err(|_| format!("\"{count}\" is not a number of shares")),
    }
}

impl FromStr for Shares {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, count) = text.rsplit_once('=').ok_or("expected NAME=SHARES, like chem=20")?;
        Ok(Shares { name: name.trim().to_owned(), shares: parse_shares(count)? })
    }
}

impl FromStr for Used {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected USER+=USAGE, USER-=USAGE or USER=USAGE, like alice+=5000nh";
        let (name, amount) = text.rsplit_once('=').ok_or(expected)?;
        let (name, how) = match (name.strip_suffix('+'), name.strip_suffix('-')) {
            (Some(name), _) => (name, Operation::More),
            (_, Some(name)) => (name, Operation::Less),
            _ => (name, Operation::Set),
        };
        let amount = amount.trim();
        let number = |digits: &str| {
            digits
                .trim()
                .parse()
                .ok()
                .filter(|number: &f64| number.is_finite() && *number >= 0.0)
                .ok_or_else(|| format!("\"{amount}\" is not a usage; {expected}"))
        };
        let amount = match (amount.strip_suffix("nh"), amount.strip_suffix('%')) {
            (Some(hours), _) => Amount::NodeHours(number(hours)?),
            (_, Some(percent)) => Amount::Part(number(percent)? / 100.0),
            _ => Amount::Plain(number(amount)?),
        };
        Ok(Used { name: name.trim().to_owned(), how, amount })
    }
}

impl FromStr for NewUser {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected USER/BANK or USER/BANK=SHARES, like alice/chem=2";
        let (name, count) = match text.rsplit_once('=') {
            Some((name, count)) => (name, parse_shares(count)?),
            None => (text, fairshare::Shares::Count(1)),
        };
        let (user, bank) = name.split_once('/').ok_or(expected)?;
        if user.trim().is_empty() || bank.trim().is_empty() {
            return Err(expected.to_owned());
        }
        Ok(NewUser { user: user.trim().to_owned(), bank: bank.trim().to_owned(), shares: count })
    }
}

/// Makes a builder with the rows of `tree` in their original order, with the current usages and shares of the tree.
fn make_rows_of_tree(tree: &Tree) -> Builder {
    let mut builder = Builder::default();
    let mut nodes: Vec<NodeId> = tree.banks().chain(tree.leaves()).collect();
    // Sort the banks into their order in the input, and the associations into theirs.
    nodes.sort_unstable_by_key(|&node| tree.find_input_index(node));
    for node in nodes {
        let (name, shares, usage) = (tree.name(node), tree.shares(node), tree.own_usage(node));
        let above = tree.parent(node).map(|bank| tree.name(bank));
        match above {
            Some(bank) if tree.kind(node) != NodeKind::Bank => {
                builder.association(name, bank, shares, usage, tree.is_active(node));
            }
            _ => builder.bank(name, above, shares, usage, tree.is_active(node)),
        }
    }
    builder
}

impl Edits<'_> {
    /// Returns `tree` with all changes, and a description of each.
    pub(super) fn apply(&self, loaded: &Loaded, mut tree: Tree) -> Result<(Tree, Vec<String>)> {
        let mut texts = Vec::new();
        if !self.users.is_empty() {
            let mut builder = make_rows_of_tree(&tree);
            for new in self.users {
                if loaded.tree.bank(&new.bank).is_none() {
                    return Err(describe_unknown_name(&loaded.describe_missing_bank(&new.bank)));
                }
                // Under pbs, an entity without a record has the minimum usage. A database always has a record.
                let usage = (!matches!(loaded.source, Source::Document)).then_some(0.0);
                builder.association(&new.user, &new.bank, new.shares, usage, true);
                texts.push(format!(
                    "a new user {} in bank {}, with {}",
                    new.user,
                    new.bank,
                    describe_shares(new.shares)
                ));
            }
            tree = builder.build().map_err(failure)?;
        }
        for edit in self.shares {
            let node = find_node(&tree, &edit.name)?;
            let was = match tree.shares(node) {
                fairshare::Shares::Count(count) => number(count),
                fairshare::Shares::Parent => describe_shares(fairshare::Shares::Parent),
            };
            texts.push(format!("{}: {} instead of {was}", edit.name, describe_shares(edit.shares)));
            tree.set_shares(node, edit.shares);
        }
        for edit in self.used {
            let leaf = find_association(&tree, &edit.name)?;
            let now = tree.own_usage(leaf).unwrap_or(0.0);
            let then = edit
                .compute_changed_usage(now, loaded.unit)
                .map_err(|text| failure(format!("--usage: {text}")))?;
            let words = (loaded.unit.amount(then), loaded.unit.figure(now));
            texts.push(format!("{}: {} used instead of {}", edit.name, words.0, words.1));
            tree.set_usage(leaf, then).map_err(failure)?;
        }
        Ok((tree, texts))
    }
}

impl Edits<'_> {
    /// Returns the commands of flux-accounting that change the shares in the database.
    pub(super) fn list_share_change_commands(&self, tree: &Tree) -> Vec<String> {
        let command = |edit: &Shares| {
            let fairshare::Shares::Count(count) = edit.shares else { return None };
            let node = find_node(tree, &edit.name).ok()?;
            let (shares, bank) = (format!("--shares={count}"), format!("--bank={}", bank_of(tree, node)));
            let is_bank = tree.kind(node) == NodeKind::Bank;
            let words = if is_bank { vec!["edit-bank", &shares] } else { vec!["edit-user", &bank, &shares] };
            Some(join_command("account", &words, &[tree.name(node)]))
        };
        self.shares.iter().filter_map(command).collect()
    }
}

impl Used {
    /// Returns the usage of a user after the change. `now` is the user's present usage.
    fn compute_changed_usage(&self, now: f64, unit: Unit) -> Result<f64, String> {
        let amount = match self.amount {
            Amount::Plain(amount) => amount,
            Amount::Part(part) => now * part,
            Amount::NodeHours(hours) if unit == Unit::NodeSeconds => hours * 3600.0,
            Amount::NodeHours(_) => {
                return Err("this tree has no unit of usage: give the amount without nh".to_owned());
            }
        };
        Ok(match self.how {
            Operation::More => now + amount,
            Operation::Less => (now - amount).max(0.0),
            Operation::Set => amount,
        })
    }
}

fn describe_shares(shares: fairshare::Shares) -> String {
    match shares {
        fairshare::Shares::Count(1) => "1 share".to_owned(),
        fairshare::Shares::Count(count) => format!("{} shares", number(count)),
        fairshare::Shares::Parent => "its parent's shares".to_owned(),
    }
}

fn describe_unknown_name(text: &str) -> Failure {
    failure(printable(text).into_owned())
}

/// Returns the bank `name`, or else the association of the user `name`.
pub(super) fn find_node(tree: &Tree, name: &str) -> Result<NodeId> {
    if let Some(bank) = tree.bank(name) { Ok(bank) } else { find_association(tree, name) }
}

/// Returns the association of `USER` or `USER/BANK`. It is an error if no association or several match.
fn find_association(tree: &Tree, name: &str) -> Result<NodeId> {
    match find_associations(tree, name).as_slice() {
        [leaf] => Ok(*leaf),
        [] if tree.bank(name).is_some_and(|bank| tree.kind(bank) == NodeKind::Bank) => {
            Err(describe_unknown_name(&format!(
                "{name} is a bank: its usage is the sum of its users' usage; name a user"
            )))
        }
        [] => {
            let known = tree.leaves().chain(tree.banks()).map(|node| tree.name(node));
            Err(describe_unknown_name(&format!("no user or bank \"{name}\"{}", did_you_mean(name, known))))
        }
        several => Err(describe_ambiguous_bank(tree, name, several)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used)]

    use super::*;
    use fairshare::Shares;

    #[test]
    fn a_tree_converted_to_rows_and_back_is_unchanged() {
        let mut builder = Builder::default();
        builder.bank("z", Some("root"), Shares::Count(4), Some(2.0), true);
        builder.bank("root", None, Shares::Count(1), None, true);
        builder.bank("b", Some("z"), Shares::Parent, None, false);
        builder.association("x", "z", Shares::Parent, None, true);
        builder.association("a", "b", Shares::Count(3), Some(7.0), false);
        let tree = builder.build().expect("a tree");
        let rebuilt = make_rows_of_tree(&tree).build().expect("a tree");
        let list_nodes = |tree: &Tree| -> Vec<_> {
            let seen = |(node, depth): (NodeId, usize)| {
                let name = tree.name(node).to_owned();
                (
                    name,
                    depth,
                    tree.shares(node),
                    tree.own_usage(node),
                    tree.is_active(node),
                    tree.find_input_index(node),
                )
            };
            tree.walk().into_iter().map(seen).collect()
        };
        assert_eq!(list_nodes(&tree), list_nodes(&rebuilt));
    }
}
