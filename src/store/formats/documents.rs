// SPDX-License-Identifier: LGPL-3.0-only
//! The JSON documents: our plain tree, and flux-accounting's two exports.

use std::fmt;
use std::path::Path;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};

use super::Format;
use crate::fairshare::{Builder, Shares};
use crate::store::{PolicyData, Reason, StoreError};

/// The plain document. Unknown keys are ignored, list order is kept.
#[derive(Deserialize)]
struct Document {
    banks: Vec<Bank>,
    associations: Vec<Association>,
}

#[derive(Deserialize)]
struct Bank {
    name: String,
    parent: Option<String>,
    #[serde(default)]
    shares: Option<SharesValue>,
    #[serde(default)]
    usage: Option<f64>,
}

#[derive(Deserialize)]
struct Association {
    user: String,
    bank: String,
    shares: SharesValue,
    #[serde(default)]
    usage: Option<f64>,
    #[serde(default)]
    active: Option<Flag>,
}

/// A number of shares or `"parent"`.
#[derive(Clone, Copy)]
struct SharesValue(Shares);

/// `true`, `false`, 1 or 0.
#[derive(Clone, Copy)]
struct Flag(bool);

struct SharesVisitor;
struct FlagVisitor;

impl Visitor<'_> for SharesVisitor {
    type Value = SharesValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("shares, a whole number >= 0 or \"parent\"")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<SharesValue, E> {
        Ok(SharesValue(Shares::Count(number)))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<SharesValue, E> {
        // Below 2^53 a double without fraction is an exact count.
        if number.fract() == 0.0 && (0.0..9_007_199_254_740_992.0).contains(&number) {
            return Ok(SharesValue(Shares::Count(number as u64)));
        }
        Err(E::invalid_value(de::Unexpected::Float(number), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<SharesValue, E> {
        if text == "parent" {
            return Ok(SharesValue(Shares::Parent));
        }
        Err(E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

impl<'de> Deserialize<'de> for SharesValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SharesVisitor)
    }
}

impl Visitor<'_> for FlagVisitor {
    type Value = Flag;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true, false, 1 or 0")
    }

    fn visit_bool<E: de::Error>(self, flag: bool) -> Result<Flag, E> {
        Ok(Flag(flag))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Flag, E> {
        Ok(Flag(number != 0))
    }
}

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FlagVisitor)
    }
}

/// The top-level keys of a document; values are skipped, not kept.
#[derive(Deserialize)]
struct Keys {
    root: Option<de::IgnoredAny>,
    associations: Option<de::IgnoredAny>,
    priority_factors: Option<de::IgnoredAny>,
    queues: Option<de::IgnoredAny>,
    config: Option<de::IgnoredAny>,
}

/// Which JSON document a text is.
pub(super) fn detect(text: &str) -> Option<Format> {
    // A document with a syntax error is read as ours, whose parser names the place.
    let Ok(keys) = serde_json::from_str::<Keys>(text) else { return Some(Format::Tree) };
    if keys.root.is_some() && keys.associations.is_none() {
        Some(Format::Emulate)
    } else if keys.priority_factors.is_some() || (keys.queues.is_some() && keys.config.is_some()) {
        Some(Format::ExportJson)
    } else {
        Some(Format::Tree)
    }
}

/// The plain document.
pub(super) fn tree(text: &str) -> Result<Builder, String> {
    let document: Document = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut builder = Builder::default();
    for bank in &document.banks {
        let shares = match (bank.shares, &bank.parent) {
            (Some(shares), _) => shares.0,
            // Nothing competes with the root: its shares need not be given.
            (None, None) => Shares::Count(1),
            (None, Some(_)) => return Err(format!("bank \"{}\": shares is missing", bank.name)),
        };
        builder.bank(&bank.name, bank.parent.as_deref(), shares, bank.usage);
    }
    for leaf in &document.associations {
        let active = leaf.active.is_none_or(|flag| flag.0);
        builder.association(&leaf.user, &leaf.bank, leaf.shares.0, leaf.usage, active);
    }
    Ok(builder)
}

/// A node of the nested export. A bank's usage is the sum of what is below it, so it is not read.
#[derive(Serialize, Deserialize)]
struct EmulateNode {
    bank: Option<String>,
    username: Option<String>,
    shares: u64,
    usage: Option<f64>,
    #[serde(default)]
    children: Vec<EmulateNode>,
}

#[derive(Deserialize)]
struct EmulateDocument {
    root: EmulateNode,
}

/// The nested document of `flux account export-db --fairshare-emulate`.
pub(super) fn emulate(text: &str) -> Result<Builder, String> {
    let document: EmulateDocument = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut builder = Builder::default();
    let mut todo: Vec<(&EmulateNode, Option<&str>)> = vec![(&document.root, None)];
    while let Some((node, parent)) = todo.pop() {
        match (&node.username, &node.bank, parent) {
            (Some(user), _, Some(bank)) => {
                if !node.children.is_empty() {
                    return Err(format!("user \"{user}\" in bank \"{bank}\" has children"));
                }
                let usage = node
                    .usage
                    .ok_or_else(|| format!("user \"{user}\" in bank \"{bank}\": usage is missing"))?;
                builder.association(user, bank, Shares::Count(node.shares), Some(usage), true);
            }
            (None, Some(bank), _) => {
                builder.bank(bank, parent, Shares::Count(node.shares), None);
                todo.extend(node.children.iter().rev().map(|child| (child, Some(bank.as_str()))));
            }
            (Some(user), _, None) => return Err(format!("the root is a user (\"{user}\"), not a bank")),
            (None, None, _) => {
                let place =
                    parent.map_or("the root".to_owned(), |bank| format!("a child of bank \"{bank}\""));
                return Err(format!("{place} has neither bank nor username"));
            }
        }
    }
    Ok(builder)
}

/// The document `flux account export-json` prints, for a push without the database.
pub fn policy_data(path: &Path) -> Result<PolicyData, StoreError> {
    let text = super::text_of(path, super::read_bytes(path)?)?;
    serde_json::from_str(&text).map_err(|error| StoreError::new(path, Reason::Format(error.to_string())))
}
