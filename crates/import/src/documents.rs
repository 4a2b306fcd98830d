// SPDX-License-Identifier: LGPL-3.0-only
//! Reads JSON documents: detects the kind of a document, and reads flux-fairshare's plain tree and flux-accounting's
//! site document.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use serde::{Deserialize, de};

use super::Format;
use super::fields::{self, Raw};
use fairshare::{Builder, Shares};
use fairshare_accounting::store::{PolicyData, Reason, StoreError};

/// The plain tree document. Unknown keys are ignored, and lists keep their order.
#[derive(Deserialize)]
struct PlainDocument {
    banks: Vec<Bank>,
    associations: Vec<Association>,
}

#[derive(Deserialize)]
#[serde(expecting = "a bank, an object")]
struct Bank {
    name: Raw,
    parent: Raw,
    shares: Raw,
    usage: Raw,
}

#[derive(Deserialize)]
#[serde(expecting = "an association, an object")]
struct Association {
    user: Raw,
    bank: Raw,
    shares: Raw,
    usage: Raw,
    active: Raw,
}

/// Returns the top-level keys of a document whose values are not null.
fn read_keys(text: &str) -> serde_json::Result<HashSet<String>> {
    let keys: HashMap<String, Option<de::IgnoredAny>> = serde_json::from_str(text)?;
    Ok(keys.into_iter().filter_map(|(key, value)| value.map(|_| key)).collect())
}

/// Detects the format of a JSON document. Returns `None` if the document contains no tree.
pub(super) fn detect_format(text: &str) -> Option<Format> {
    let Ok(keys) = read_keys(text) else {
        // The text has a syntax error, so this code guesses the format. The reader of this format then reports the
        // position of the error. In the output of sshare, "shares" is the first key.
        let start = text.trim_start_matches(|letter: char| letter == '{' || letter.is_whitespace());
        let of_sshare = start.starts_with("\"shares\"");
        return Some(if of_sshare { Format::SshareJson } else { Format::Tree });
    };
    let has = |key: &str| keys.contains(key);
    if has("priority_factors") || (has("queues") && has("config")) {
        Some(Format::ExportJson)
    } else if has("shares") && !has("banks") {
        Some(Format::SshareJson)
    } else if has("banks") || (has("associations") && !has("meta")) {
        Some(Format::Tree)
    } else {
        None
    }
}

/// Returns a hint about a JSON document that contains no tree, or `None` if `text` is not a JSON object.
pub(super) fn describe_content(text: &str) -> Option<&'static str> {
    let keys = read_keys(text).ok()?;
    Some(if keys.contains("jobs") {
        "looks like a list of jobs: \"sshare -a --json\" prints the tree"
    } else if keys.contains("associations") {
        "looks like sacctmgr's JSON: \"sshare -a --json\" prints shares and usages, \"sacctmgr show assoc tree -P\" shares"
    } else if keys.contains("root") {
        "looks like the input of \"flux account fairshare-emulate\": read the database with -p"
    } else {
        "JSON of an unknown kind: expected a document with banks and associations, or the output of sshare or flux account"
    })
}

/// Reads a JSON document with a list of banks and a list of associations.
pub(super) fn read_tree(text: &str) -> Result<Builder, String> {
    let document: PlainDocument = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut builder = Builder::default();
    for (index, bank) in document.banks.iter().enumerate() {
        let name =
            fields::parse_text(&bank.name).map_err(|fault| format!("bank {}: name {fault}", index + 1))?;
        let fail = |key: &str, fault: String| format!("bank \"{name}\": {key} {fault}");
        let parent = fields::parse_optional_text(&bank.parent).map_err(|fault| fail("parent", fault))?;
        let shares = match (&bank.shares, &parent) {
            // The root has no siblings, so its shares are optional.
            (None, None) => Shares::Count(1),
            (shares, _) => fields::parse_shares(shares).map_err(|fault| fail("shares", fault))?,
        };
        let usage = fields::parse_usage(&bank.usage).map_err(|fault| fail("usage", fault))?;
        builder.bank(&name, parent.as_deref(), shares, usage, true);
    }
    for (index, leaf) in document.associations.iter().enumerate() {
        let fail = |key: &str, fault: String| format!("association {}: {key} {fault}", index + 1);
        let user = fields::parse_text(&leaf.user).map_err(|fault| fail("user", fault))?;
        let bank = fields::parse_text(&leaf.bank)
            .map_err(|fault| format!("association {}: user \"{user}\": bank {fault}", index + 1))?;
        let fail = |key: &str, fault: String| format!("user \"{user}\" in bank \"{bank}\": {key} {fault}");
        let shares = fields::parse_shares(&leaf.shares).map_err(|fault| fail("shares", fault))?;
        let usage = fields::parse_usage(&leaf.usage).map_err(|fault| fail("usage", fault))?;
        let active = fields::parse_flag(&leaf.active).map_err(|fault| fail("active", fault))?;
        builder.association(&user, &bank, shares, usage, active.unwrap_or(true));
    }
    Ok(builder)
}

/// Reads a `flux account export-json` document, for a push without the database. Returns `None` if the file is a
/// database. A pipe is read to its end and must contain a document.
pub fn read_site_text(path: &Path) -> Result<Option<String>, StoreError> {
    if path.is_file() && !super::starts_like_json(path) {
        return Ok(None);
    }
    let bytes = super::read_bytes(path)?;
    if fairshare_accounting::store::looks_like_database(&bytes) {
        let text = "a database is read from its own file, not through a pipe".to_owned();
        return Err(StoreError::new(path, Reason::Unreadable(text)));
    }
    super::decode_utf_8(path, bytes).map(Some)
}

/// Parses the text of a site document.
pub fn parse_site_text(path: &Path, text: &str) -> Result<PolicyData, StoreError> {
    let mut data: PolicyData = serde_json::from_str(text)
        .map_err(|error| StoreError::new(path, Reason::Format(error.to_string())))?;
    data.add_queue_limits();
    Ok(data)
}
