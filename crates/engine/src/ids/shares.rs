// SPDX-License-Identifier: LGPL-3.0-only
//! Shares in JSON: a number, or "parent".

use fairshare::Shares;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Shares as written in JSON.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Count(u64),
    Word(Parent),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Parent {
    Parent,
}

pub(crate) fn serialize<S: Serializer>(shares: &Shares, serializer: S) -> Result<S::Ok, S::Error> {
    match shares {
        Shares::Count(count) => Written::Count(*count),
        Shares::Parent => Written::Word(Parent::Parent),
    }
    .serialize(serializer)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Shares, D::Error> {
    Written::deserialize(deserializer).map(|shares| match shares {
        Written::Count(count) => Shares::Count(count),
        Written::Word(Parent::Parent) => Shares::Parent,
    })
}
