// SPDX-License-Identifier: LGPL-3.0-only
//! The record as texts: which there are, under which keys, and whether they are what was written.
//!
//! A text is kept under a key that ends with its hash, so that one that stays the same is never written again, and one
//! that is written leaves those of the record before it as they are. The manifest names all of them, those of the groups by
//! way of their list. It comes last: until it is there, the record is the one before.
//!
//! ```text
//!   manifest ─┬─ rest: banks, queues, ..., the tree's rule
//!             └─ list of groups ── per group: limits, fair-shares, usages
//!   ended ───── jobs that ended and that no push covers
//! ```
//!
//! A snapshot of format 2 also has a log: chunks that say what changed since the groups were written. The plugin reads it, and the next
//! push replaces it.

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// The key below which everything is.
pub(super) const ROOT: &str = "mf_priority.remember";
/// The layout of the chunks.
pub(super) const FORMAT: u32 = 3;
/// The formats that are read.
const READ: std::ops::RangeInclusive<u32> = 2..=FORMAT;
/// Bytes of one text: more than any that is written.
const MAX_TEXT: usize = 4 << 20;
/// Texts of one record, and associations: more than any site has.
const MAX_TEXTS: usize = 1_000_000;

/// The key of the manifest.
pub(super) fn manifest_key() -> String {
    format!("{ROOT}.manifest")
}

/// The hash of a text, as it stands in keys and in the manifest.
pub(super) fn hash(text: &str) -> String {
    format!("{:016x}", xxh3_64(text.as_bytes()))
}

/// A whole record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    format: u32,
    /// The user whose instance it is.
    pub owner: u32,
    /// When it was written, in seconds since the epoch.
    pub at: f64,
    /// How many associations.
    pub associations: usize,
    /// Hashes of the texts that are about no association.
    pub rest: Vec<String>,
    /// That of the list of groups.
    pub groups: String,
    /// Those of the log of format 2, in order.
    #[serde(default, skip_serializing)]
    pub log: Vec<String>,
    /// A sum of format 2.
    #[serde(default, skip_serializing)]
    reckoned: Ignored,
}

/// A value that is not read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "IgnoredAny")]
struct Ignored;

impl From<IgnoredAny> for Ignored {
    fn from(_: IgnoredAny) -> Ignored {
        Ignored
    }
}

/// Returns true if the plugin reads this format.
pub(super) fn is_read(format: u32) -> bool {
    READ.contains(&format)
}

/// Some associations: their limits, and what moves more often.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Group {
    /// The user of the first one, after whom the texts' directory is called.
    pub first: u32,
    pub limits: String,
    pub fairshares: String,
    pub usages: String,
}

impl Group {
    fn hashes(&self) -> [&String; 3] {
        [&self.limits, &self.fairshares, &self.usages]
    }

    /// The keys of its texts: limits, fair-shares, usages.
    pub(super) fn keys(&self) -> [String; 3] {
        self.hashes().map(|hash| group_key(self.first, hash))
    }
}

/// Why a record is none of ours, in words.
pub(super) type Fault = String;

impl Manifest {
    pub(super) fn new(owner: u32, at: f64) -> Manifest {
        Manifest { format: FORMAT, owner, at, ..Manifest::default() }
    }

    /// The text to be written: its hash on a line of its own, then JSON.
    pub(super) fn text(&self) -> String {
        let json = serde_json::to_string(self).unwrap_or_default();
        format!("{}\n{json}", hash(&json))
    }

    /// Reads what was written for this owner.
    pub(super) fn read(text: &str, owner: u32) -> Result<Manifest, Fault> {
        if text.len() > MAX_TEXTS * 40 {
            return Err(format!("the manifest has {} bytes", text.len()));
        }
        let (sum, json) = text.split_once('\n').ok_or("the manifest is none")?;
        if hash(json) != sum {
            return Err("the manifest is damaged".to_owned());
        }
        /// What any format begins with.
        #[derive(Deserialize)]
        struct Beginning {
            format: u32,
        }
        let unread = |error: serde_json::Error| format!("the manifest can't be read: {error}");
        let Beginning { format } = serde_json::from_str(json).map_err(unread)?;
        if !is_read(format) {
            return Err(format!("it has format {format}, this plugin knows {} to {FORMAT}", READ.start()));
        }
        let manifest: Manifest = serde_json::from_str(json).map_err(unread)?;
        if manifest.owner != owner {
            return Err(format!("it is that of an instance of user {}, not {owner}", manifest.owner));
        }
        let texts = manifest.rest.len() + manifest.log.len();
        if texts > MAX_TEXTS || manifest.associations > MAX_TEXTS {
            return Err(format!("it has {texts} texts for {} associations", manifest.associations));
        }
        if manifest.rest.is_empty() {
            return Err("it has no texts".to_owned());
        }
        if let Some(strange) = manifest.hashes().find(|hash| !is_hash(hash)) {
            return Err(format!("\"{}\" is no hash", super::shortened(strange).escape_debug()));
        }
        Ok(manifest)
    }

    fn hashes(&self) -> impl Iterator<Item = &String> {
        self.rest.iter().chain([&self.groups]).chain(&self.log)
    }

    /// The keys of the texts that it names: of the rest, of the list of groups, of the log.
    pub(super) fn keys(&self) -> impl Iterator<Item = String> {
        let rest = self.rest.iter().map(|hash| rest_key(hash));
        rest.chain([groups_key(&self.groups)]).chain(self.log.iter().map(|hash| log_key(hash)))
    }
}

/// The list of groups as it is written: by ascending user id and bank name.
pub(super) fn list_of_groups(groups: &[Group]) -> String {
    serde_json::to_string(groups).unwrap_or_default()
}

/// Reads it.
pub(super) fn groups(key: &str, text: &str) -> Result<Vec<Group>, Fault> {
    check(key, text)?;
    let groups: Vec<Group> =
        serde_json::from_str(text).map_err(|error| format!("the list of groups can't be read: {error}"))?;
    if let Some(strange) = groups.iter().flat_map(Group::hashes).find(|hash| !is_hash(hash)) {
        return Err(format!("\"{}\" is no hash", super::shortened(strange).escape_debug()));
    }
    Ok(groups)
}

/// The key of a text that is about no association.
pub(super) fn rest_key(hash: &str) -> String {
    format!("{ROOT}.rest.{hash}")
}

/// The key of the list of groups.
pub(super) fn groups_key(hash: &str) -> String {
    format!("{ROOT}.groups.{hash}")
}

/// The key of a chunk of the log of format 2.
fn log_key(hash: &str) -> String {
    format!("{ROOT}.log.{hash}")
}

/// The key of a text of a group. A directory of their own keeps what is rarely written apart.
pub(super) fn group_key(first: u32, hash: &str) -> String {
    format!("{ROOT}.base.u{first}.{hash}")
}

fn is_hash(hash: &str) -> bool {
    hash.len() == 16 && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether a text is what was written under a key.
pub(super) fn check(key: &str, text: &str) -> Result<(), Fault> {
    if text.len() > MAX_TEXT {
        return Err(format!("{key} has {} bytes", text.len()));
    }
    match key.rsplit('.').next() {
        Some(sum) if sum == hash(text) => Ok(()),
        _ => Err(format!("{key} is damaged")),
    }
}
