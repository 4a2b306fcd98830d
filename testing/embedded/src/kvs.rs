// SPDX-License-Identifier: LGPL-3.0-only
//! The KVS values of plugins, which outlive plugins and restarts.

use std::collections::{BTreeMap, BTreeSet};

use super::host::Host;
use super::job::Errno;

/// Changes of keys. `None` removes the key and all keys below it.
type Changes = Vec<(String, Option<String>)>;

/// The KVS except the eventlogs of jobs.
#[derive(Default)]
pub(super) struct Kvs {
    texts: BTreeMap<String, String>,
    /// The changes that plugins have sent and that are not applied yet. The host applies the changes even if the plugin is removed
    /// first.
    sent: Vec<Changes>,
    commit_error: Option<Errno>,
    lookup_error: Option<Errno>,
    /// The bytes of all values that were written.
    written: u64,
    /// The total size of all directories that were written again, in bytes.
    directory_bytes: u64,
}

/// The number of bytes in a directory entry without its name, and in an empty directory (RFC 11).
const ENTRY: usize = 88;
const DIRECTORY: usize = 35;

impl Kvs {
    pub(super) fn send_changes(&mut self, changes: Changes) {
        self.sent.push(changes);
    }

    /// Applies the changes that plugins have sent, in order.
    pub(super) fn apply_sent_changes(&mut self) {
        for changes in std::mem::take(&mut self.sent) {
            if self.commit_error.is_some() && !changes.is_empty() {
                continue;
            }
            let keys: Vec<String> = changes.iter().map(|(key, _)| key.clone()).collect();
            for (key, text) in changes {
                if let Some(text) = text {
                    self.written += text.len() as u64;
                    self.texts.insert(key, text);
                } else {
                    let below: Vec<String> = self.list_keys_below(&key).cloned().collect();
                    below.iter().chain([&key]).for_each(|name| drop(self.texts.remove(name)));
                }
            }
            self.directory_bytes += self.rewritten_directory_bytes(&keys) as u64;
        }
    }

    /// Returns the size in bytes of the directories that a change of `keys` rewrites.
    fn rewritten_directory_bytes(&self, keys: &[String]) -> usize {
        let directories_above = |key: &String| -> Vec<String> {
            key.match_indices('.').map(|(at, _)| key.split_at(at).0.to_owned()).collect()
        };
        let directories: BTreeSet<String> = keys.iter().flat_map(directories_above).collect();
        let bytes = directories.iter().map(|directory| {
            let names: BTreeSet<&str> = self
                .list_keys_below(directory)
                .filter_map(|key| key.get(directory.len() + 1..)?.split('.').next())
                .collect();
            DIRECTORY + names.iter().map(|name| ENTRY + name.len()).sum::<usize>()
        });
        bytes.sum()
    }

    /// Returns the keys below `key`.
    fn list_keys_below(&self, key: &str) -> impl Iterator<Item = &String> {
        let prefix = format!("{key}.");
        self.texts
            .range(prefix.clone()..)
            .map(|(name, _)| name)
            .take_while(move |name| name.starts_with(&prefix))
    }

    /// Drops the changes that plugins have sent and that are not applied yet.
    pub(super) fn drop_sent_changes(&mut self) {
        self.sent.clear();
    }

    /// Returns the response to a commit.
    pub(super) fn commit_result(&self) -> Result<String, Errno> {
        self.commit_error.map_or_else(|| Ok(String::new()), Err)
    }

    pub(super) fn look_up(&self, key: &str) -> Result<String, Errno> {
        if let Some(errno) = self.lookup_error {
            return Err(errno);
        }
        match self.texts.get(key) {
            Some(text) => Ok(text.clone()),
            None if self.list_keys_below(key).next().is_some() => Err(Errno::EISDIR),
            None => Err(Errno::ENOENT),
        }
    }
}

impl Host {
    /// Returns the keys and values that plugins have stored in the KVS.
    pub fn kvs(&self) -> BTreeMap<String, String> {
        self.store.borrow().agenda.kvs.texts.clone()
    }

    /// Sets or removes a value, as another program may do.
    pub fn kvs_put(&self, key: &str, text: Option<&str>) {
        let texts = &mut self.store.borrow_mut().agenda.kvs.texts;
        if let Some(text) = text {
            texts.insert(key.to_owned(), text.to_owned())
        } else {
            texts.remove(key)
        };
    }

    /// Returns the number of bytes that plugins have written.
    pub fn kvs_written(&self) -> u64 {
        self.store.borrow().agenda.kvs.written
    }

    /// Returns the number of bytes by which Flux's content store would have grown: all values that plugins wrote, and all directories that the
    /// KVS rewrote.
    pub fn count_stored_kvs_bytes(&self) -> u64 {
        let store = self.store.borrow();
        store.agenda.kvs.written + store.agenda.kvs.directory_bytes
    }

    /// Makes all later lookups fail with the error `lookups`, and all later commits that change keys fail with the error `commits`.
    pub fn set_kvs_errors(&self, commits: Option<Errno>, lookups: Option<Errno>) {
        let kvs = &mut self.store.borrow_mut().agenda.kvs;
        (kvs.commit_error, kvs.lookup_error) = (commits, lookups);
    }
}
