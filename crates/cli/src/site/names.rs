// SPDX-License-Identifier: LGPL-3.0-only
//! Names of banks and users in a tree, and the messages about names that are not in the tree.

use std::borrow::Cow;

use crate::outcome::{Failure, failure};
use crate::ui::printable::printable;
use crate::ui::suggest::did_you_mean;
use fairshare::{NodeId, NodeKind, Tree};
use fairshare_accounting::store::quote_for_shell;
use fairshare_client::user_name;

/// Returns the message for an unknown user. It suggests a bank of that name, the user's associations per partition, or a similar name.
pub(crate) fn describe_unknown_user(tree: &Tree, name: &str) -> String {
    let text = format!("no user \"{name}\"");
    if tree.bank(name).is_some() {
        return format!("{text}: {name} is a bank; show --bank={} selects it", quote_for_shell(name));
    }
    let users = || tree.leaves().map(|leaf| tree.name(leaf));
    let parts: Vec<&str> = list_partitions(tree, name).into_iter().map(|leaf| tree.name(leaf)).collect();
    if parts.is_empty() {
        return text + &did_you_mean(name, users());
    }
    format!("{text}, but one association per partition: {}", parts.join(", "))
}

/// Returns the name of the user whose id is `name`, if the tree has this user, and no user or bank `name`. Otherwise returns `name`.
pub(crate) fn resolve_user_id<'a>(tree: &Tree, name: &'a str) -> Cow<'a, str> {
    let has_user = |name: &str| tree.list_leaves_of_user(name).next().is_some();
    let by_id = || name.parse().ok().and_then(user_name).filter(|user| has_user(user));
    let is_name = has_user(name) || tree.bank(name).is_some();
    (!is_name).then(by_id).flatten().map_or(name.into(), Cow::Owned)
}

/// Returns the associations of a user per partition, which a tree of Slurm names `user:partition`.
pub(crate) fn list_partitions(tree: &Tree, user: &str) -> Vec<NodeId> {
    let is_part =
        |leaf: &NodeId| tree.name(*leaf).strip_prefix(user).is_some_and(|rest| rest.starts_with(':'));
    tree.leaves().filter(is_part).collect()
}

/// Returns the message for an unknown bank. It suggests a user of that name, or a similar name.
pub(crate) fn describe_unknown_bank(tree: &Tree, name: &str) -> String {
    let text = format!("no bank \"{name}\"");
    match tree.list_leaves_of_user(name).next() {
        Some(_) => {
            format!("{text}: {name} is a user; show --user={} selects it", quote_for_shell(name))
        }
        None => text + &did_you_mean(name, tree.banks().map(|bank| tree.name(bank))),
    }
}

/// Returns the name of the bank above a node, or an empty text for the root.
pub(crate) fn bank_of(tree: &Tree, node: NodeId) -> &str {
    tree.parent(node).map_or("", |bank| tree.name(bank))
}

/// Returns all associations of `USER` or `USER/BANK`.
pub(crate) fn find_associations(tree: &Tree, name: &str) -> Vec<NodeId> {
    let with_bank = name.split_once('/').and_then(|(user, bank)| tree.leaf(user, bank));
    with_bank.map_or_else(|| tree.list_leaves_of_user(name).collect(), |leaf| vec![leaf])
}

/// Returns the error for a user who is in several banks. The message asks for one of the associations.
pub(crate) fn describe_ambiguous_bank(tree: &Tree, name: &str, several: &[NodeId]) -> Failure {
    let names: Vec<String> = several.iter().map(|node| format!("{name}/{}", bank_of(tree, *node))).collect();
    let text = format!("{name} is in several banks: say {}", names.join(" or "));
    failure(printable(&text).into_owned())
}

/// Returns the associations below a bank. If `node` is an association, returns only `node`.
pub(crate) fn list_associations_below(tree: &Tree, node: NodeId) -> Vec<NodeId> {
    let (mut leaves, mut todo) = (Vec::new(), vec![node]);
    while let Some(node) = todo.pop() {
        match tree.kind(node) {
            NodeKind::Bank => todo.extend(tree.children(node)),
            NodeKind::Association => leaves.push(node),
        }
    }
    leaves
}

/// Adds the sum of each node to the sums of all banks above it. `sums` has the own value of each node, by index.
pub(crate) fn add_sums_to_banks_above<T: Clone>(tree: &Tree, sums: &mut [T], add: impl Fn(&mut T, &T)) {
    let banks: Vec<NodeId> = tree.banks().collect();
    // A bank comes before its children, so in reverse order each sum is complete before it is added to the parent.
    for node in tree.leaves().chain(banks.into_iter().rev()) {
        let Some(sum) = sums.get(node.index()).cloned() else { continue };
        if let Some(above) = tree.parent(node).and_then(|bank| sums.get_mut(bank.index())) {
            add(above, &sum);
        }
    }
}
