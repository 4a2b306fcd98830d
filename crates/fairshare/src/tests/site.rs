// SPDX-License-Identifier: LGPL-3.0-only
//! The banks and associations of a site as values that tests can change. [`Builder`] explains the fields.

use crate::{Builder, Shares, Tree, TreeError};

#[derive(Clone, Debug, PartialEq)]
pub struct Bank {
    pub name: String,
    pub parent: Option<String>,
    pub shares: Shares,
    pub usage: Option<f64>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Association {
    pub user: String,
    pub bank: String,
    pub shares: Shares,
    pub usage: Option<f64>,
    pub active: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Site {
    pub banks: Vec<Bank>,
    pub associations: Vec<Association>,
}

impl Tree {
    /// Builds the tree of a site.
    pub fn build(site: &Site) -> Result<Tree, TreeError> {
        let mut builder = Builder::default();
        for bank in &site.banks {
            builder.bank(&bank.name, bank.parent.as_deref(), bank.shares, bank.usage, true);
        }
        for leaf in &site.associations {
            builder.association(&leaf.user, &leaf.bank, leaf.shares, leaf.usage, leaf.active);
        }
        builder.build()
    }
}
