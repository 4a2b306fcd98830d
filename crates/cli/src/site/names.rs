// SPDX-License-Identifier: LGPL-3.0-only
//! Names of banks and users in a tree, and the messages about names that the tree does not have.

use crate::ui::suggest::did_you_mean;
use fairshare::{NodeId, Tree};

/// There is no user of this name; maybe a bank was meant, or one of the associations that Slurm has per partition.
pub(crate) fn no_user(tree: &Tree, name: &str) -> String {
    let text = format!("no user \"{name}\"");
    if tree.bank(name).is_some() {
        return format!("{text}: {name} is a bank; to see it: show --bank {name}");
    }
    let users = || tree.leaves().map(|leaf| tree.name(leaf));
    let parts: Vec<&str> = parts_of(tree, name).into_iter().map(|leaf| tree.name(leaf)).collect();
    if parts.is_empty() {
        return text + &did_you_mean(name, users());
    }
    format!("{text}, but one per partition: {}", parts.join(", "))
}

/// The associations that a user of Slurm has per partition: `user:partition`.
pub(crate) fn parts_of(tree: &Tree, user: &str) -> Vec<NodeId> {
    let is_part =
        |leaf: &NodeId| tree.name(*leaf).strip_prefix(user).is_some_and(|rest| rest.starts_with(':'));
    tree.leaves().filter(is_part).collect()
}

/// There is no bank of this name; maybe a user was meant.
pub(crate) fn no_bank(tree: &Tree, name: &str) -> String {
    let text = format!("no bank \"{name}\"");
    match tree.leaves_of(name).next() {
        Some(_) => format!("{text}: {name} is a user; to see it: show --user {name}"),
        None => text + &did_you_mean(name, tree.banks().map(|bank| tree.name(bank))),
    }
}

pub(crate) fn bank_of(tree: &Tree, node: NodeId) -> &str {
    tree.parent(node).map_or("", |bank| tree.name(bank))
}
