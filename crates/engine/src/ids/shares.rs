// SPDX-License-Identifier: LGPL-3.0-only
//! Reads and writes shares as JSON: a number, or the string "parent".

use fairshare::Shares;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The form of shares in JSON.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(crate) enum JsonShares {
    Count(u64),
    Word(Parent),
}

#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum Parent {
    Parent,
}

pub(crate) fn serialize<S: Serializer>(shares: &Shares, serializer: S) -> Result<S::Ok, S::Error> {
    match shares {
        Shares::Count(count) => JsonShares::Count(*count),
        Shares::Parent => JsonShares::Word(Parent::Parent),
    }
    .serialize(serializer)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Shares, D::Error> {
    JsonShares::deserialize(deserializer).map(|shares| match shares {
        JsonShares::Count(count) => Shares::Count(count),
        JsonShares::Word(Parent::Parent) => Shares::Parent,
    })
}
