// SPDX-License-Identifier: LGPL-3.0-only
//! The chunks of a snapshot: their keys, and the check that a chunk is unchanged.
//!
//! The key of a chunk ends with its hash. So an unchanged chunk is never written again, and a new chunk overwrites no
//! chunk of the previous snapshot. The manifest names the other chunks, and the list of groups names the chunks of the
//! groups. The plugin writes the manifest last: until then, the previous snapshot is valid.
//!
//! ```text
//!   manifest ─┬─ rest: banks, queues, ..., the tree's rule
//!             └─ list of groups ── per group: limits, fair-shares, usages
//!   ended ───── ended jobs whose usage no push includes
//! ```

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// The directory of all keys of the snapshot.
pub(super) const ROOT: &str = "mf_priority.remember";
/// The number of the format that the plugin writes and reads.
pub(super) const FORMAT: u32 = 3;
/// The maximum size in bytes of a chunk that the plugin reads. The plugin writes smaller chunks.
const MAX_CHUNK_BYTES: usize = 4 << 20;

/// Returns the key of the manifest.
pub(super) fn manifest_key() -> String {
    format!("{ROOT}.manifest")
}

/// Returns the hash of a chunk as 16 hexadecimal digits.
pub(super) fn hash(text: &str) -> String {
    format!("{:016x}", xxh3_64(text.as_bytes()))
}

/// The chunk through which the plugin finds all other chunks. It contains the hash of the list of groups and
/// the hashes of the chunks without associations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    format: u32,
    /// The user id of the instance owner.
    pub owner: u32,
    /// When the snapshot was written, in seconds since the epoch.
    pub at: f64,
    /// The number of associations.
    pub associations: usize,
    /// The hashes of the chunks without associations.
    pub rest: Vec<String>,
    /// The hash of the chunk that lists the groups of associations.
    pub groups: String,
}

/// Consecutive associations, stored in three chunks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Group {
    /// The first user id of this group. The group's chunks are in a KVS directory that is named after this user id.
    pub first: u32,
    pub limits: String,
    pub fairshares: String,
    pub usages: String,
}

impl Group {
    /// Returns the keys of the group's chunks: limits, fair-shares, usages. Each group has its own directory, because
    /// the KVS writes a changed directory as a whole.
    pub(super) fn keys(&self) -> [String; 3] {
        let hashes = [&self.limits, &self.fairshares, &self.usages];
        hashes.map(|hash| format!("{ROOT}.base.u{}.{hash}", self.first))
    }
}

/// The reason why a snapshot is refused.
pub(super) type Fault = String;

impl Manifest {
    pub(super) fn new(owner: u32, at: f64) -> Manifest {
        Manifest { format: FORMAT, owner, at, ..Manifest::default() }
    }

    /// Reads a manifest that an instance of `owner` wrote.
    pub(super) fn read(text: &str, owner: u32) -> Result<Manifest, Fault> {
        let json = strip_hash("the manifest", text)?;
        /// The keys that the manifests of all formats have.
        #[derive(Deserialize)]
        struct ManifestFormat {
            format: u32,
        }
        let unreadable_error = |error: serde_json::Error| format!("the manifest can't be read: {error}");
        let ManifestFormat { format } = serde_json::from_str(json).map_err(unreadable_error)?;
        if format != FORMAT {
            return Err(format!("it has format {format}, this plugin reads format {FORMAT}"));
        }
        let manifest: Manifest = serde_json::from_str(json).map_err(unreadable_error)?;
        if manifest.owner != owner {
            return Err(format!("it belongs to an instance of user {}, not {owner}", manifest.owner));
        }
        if manifest.rest.is_empty() {
            return Err("it has no chunks".to_owned());
        }
        Ok(manifest)
    }

    /// Returns the keys of the chunks without associations, and of the list of groups.
    pub(super) fn keys(&self) -> impl Iterator<Item = String> {
        self.rest.iter().map(|hash| other_chunk_key(hash)).chain([groups_key(&self.groups)])
    }
}

/// Returns the chunk that lists the groups.
pub(super) fn format_group_list(groups: &[Group]) -> String {
    serde_json::to_string(groups).unwrap_or_default()
}

/// Reads the list of groups from the chunk `text` with the key `key`.
pub(super) fn parse_group_list(key: &str, text: &str) -> Result<Vec<Group>, Fault> {
    check_chunk(key, text)?;
    serde_json::from_str(text).map_err(|error| format!("the list of groups can't be read: {error}"))
}

/// Returns the key of a chunk without associations.
pub(super) fn other_chunk_key(hash: &str) -> String {
    format!("{ROOT}.rest.{hash}")
}

/// Returns the key of the chunk that lists the groups of associations.
pub(super) fn groups_key(hash: &str) -> String {
    format!("{ROOT}.groups.{hash}")
}

/// Returns the text to store under a key without a hash: a line with the hash of the JSON text, then the JSON text.
pub(super) fn prepend_hash(value: &impl Serialize) -> String {
    let json = serde_json::to_string(value).unwrap_or_default();
    format!("{}\n{json}", hash(&json))
}

/// Returns the JSON text from a text that [`prepend_hash`] made. An error text names the value `name`.
pub(super) fn strip_hash<'a>(name: &str, text: &'a str) -> Result<&'a str, Fault> {
    let json = text.split_once('\n').filter(|(sum, json)| hash(json) == *sum).map(|(_, json)| json);
    json.ok_or_else(|| format!("{name} is damaged"))
}

/// Returns an error unless `chunk` has the hash that ends `key`.
pub(super) fn check_chunk(key: &str, chunk: &str) -> Result<(), Fault> {
    if chunk.len() > MAX_CHUNK_BYTES {
        return Err(format!("{key} has {} bytes", chunk.len()));
    }
    match key.rsplit('.').next() {
        Some(sum) if sum == hash(chunk) => Ok(()),
        _ => Err(format!("{key} is damaged")),
    }
}
