// SPDX-License-Identifier: LGPL-3.0-only
//! The usage and fair-share of associations, and the live tree, in pages.

use super::super::View;
use super::super::refresh::Used;
use super::PageWanted;
use crate::accounts::{Association, AssociationId};
use crate::ids::{BankName, UserId};
use crate::standing::TreePage;

/// Returns a page of the usage of associations at `now`, and the key after which the next page begins.
pub fn usages(view: &View<'_>, wanted: &PageWanted, now: f64) -> (Vec<Used>, Option<(UserId, BankName)>) {
    let first = wanted.user.map(|user| (user, String::new()));
    let after = wanted.after.as_ref().max(first.as_ref()).map(|(user, bank)| (*user, bank.as_str()));
    let is_wanted = |user: UserId| wanted.user.is_none_or(|only| only == user);
    let associations =
        view.book.associations(after).take_while(|(_, association)| is_wanted(association.user));
    let used = |(id, association): (AssociationId, &Association)| {
        let index = view.standing.find(association.user, &association.bank);
        Used {
            user: association.user,
            bank: association.bank.clone(),
            usage: index.and_then(|index| view.standing.usage(index, now)),
            fairshare: view.fairshare(id).unwrap_or_default(),
        }
    };
    let used: Vec<Used> = associations.take(wanted.most).map(used).collect();
    let next = used.last().filter(|_| used.len() == wanted.most);
    let next = next.map(|last| (last.user, last.bank.clone()));
    (used, next)
}

/// Returns a page of the live tree, as [`Standing::tree_page`](crate::standing::Standing::tree_page); `None` if fair-share is not
/// live.
pub fn tree_page(view: &View<'_>, first: usize, most: usize, now: f64) -> Option<TreePage> {
    view.standing.tree_page(first, most, now).filter(|_| view.is_live())
}
