// SPDX-License-Identifier: LGPL-3.0-only
//! The answers to `usages` and `tree`: the usage and fair-share of associations, and the live tree, in pages.

use super::super::View;
use super::PageFilter;
use crate::accounts::{Association, AssociationId};
use crate::ids::{BankName, UserId};
use crate::standing::TreePage;
use serde::{Deserialize, Serialize};

/// The usage of an association, as live fair-share counts it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Used {
    /// The user.
    #[serde(rename = "userid")]
    pub user: UserId,
    /// The bank.
    pub bank: BankName,
    /// The usage at the requested time; `None` if there is no tree, or if the tree does not contain the
    /// association.
    pub usage: Option<f64>,
    /// The fair-share as of the last refresh, or the pushed fair-share.
    pub fairshare: f64,
}

/// The answer to `usages`: a page of the usage of associations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UsagesPage {
    /// The time of the answer, in seconds since the epoch.
    pub now: f64,
    /// The associations, by user and bank.
    pub associations: Vec<Used>,
    /// The association after which the next page begins; `None` if there is no next page.
    pub next: Option<(UserId, BankName)>,
}

/// Returns a page of the usage of associations at `now`.
pub fn usages(view: &View<'_>, wanted: &PageFilter, now: f64) -> UsagesPage {
    let used = |(id, association): (AssociationId, &Association)| {
        let index = view.standing.find(association.user, &association.bank);
        Used {
            user: association.user,
            bank: association.bank.clone(),
            usage: index.and_then(|index| view.standing.usage(index, now)),
            fairshare: view.fairshare(id).unwrap_or_default(),
        }
    };
    let associations: Vec<Used> = wanted.select(view).take(wanted.most).map(used).collect();
    let last = associations.last().filter(|_| associations.len() == wanted.most);
    let next = last.map(|last| (last.user, last.bank.clone()));
    UsagesPage { now, associations, next }
}

/// Returns a page of the live tree, as [`Standing::tree_page`](crate::standing::Standing::tree_page); `None` if fair-share is not
/// live.
pub fn tree_page(view: &View<'_>, first: usize, most: usize, now: f64) -> Option<TreePage> {
    view.standing.tree_page(first, most, now).filter(|_| view.is_live())
}
