// SPDX-License-Identifier: LGPL-3.0-only
//! What plugins keep in the KVS: texts under keys. It outlives them, and a restart.

use std::collections::{BTreeMap, BTreeSet};

use super::host::Host;
use super::job::Errno;

/// Texts by key, or keys of which what is there goes away.
type Changes = Vec<(String, Option<String>)>;

/// The KVS, but for eventlogs.
#[derive(Default)]
pub(super) struct Kvs {
    texts: BTreeMap<String, String>,
    /// Sent and not done yet. Whoever sent it may be gone by then.
    sent: Vec<Changes>,
    fails: Option<Errno>,
    unreadable: Option<Errno>,
    written: u64,
    stored: u64,
}

/// Bytes of an entry of a directory besides its name, and of a directory besides its entries, as RFC 11 has them.
const ENTRY: usize = 88;
const DIRECTORY: usize = 35;

impl Kvs {
    pub(super) fn send(&mut self, changes: Changes) {
        self.sent.push(changes);
    }

    /// Does what was sent, in turn.
    pub(super) fn commit(&mut self) {
        for changes in std::mem::take(&mut self.sent) {
            if self.fails.is_some() && !changes.is_empty() {
                continue;
            }
            let keys: Vec<String> = changes.iter().map(|(key, _)| key.clone()).collect();
            for (key, text) in changes {
                if let Some(text) = text {
                    self.written += text.len() as u64;
                    self.texts.insert(key, text);
                } else {
                    let gone: Vec<String> = self.below(&key).cloned().collect();
                    gone.iter().chain([&key]).for_each(|name| drop(self.texts.remove(name)));
                }
            }
            self.stored += self.directories(&keys) as u64;
        }
    }

    /// Bytes of the directories that a change of these keys makes anew.
    fn directories(&self, keys: &[String]) -> usize {
        let above = |key: &String| -> Vec<String> {
            key.match_indices('.').map(|(at, _)| key.split_at(at).0.to_owned()).collect()
        };
        let directories: BTreeSet<String> = keys.iter().flat_map(above).collect();
        let bytes = directories.iter().map(|directory| {
            let names: BTreeSet<&str> = self
                .below(directory)
                .filter_map(|key| key.get(directory.len() + 1..)?.split('.').next())
                .collect();
            DIRECTORY + names.iter().map(|name| ENTRY + name.len()).sum::<usize>()
        });
        bytes.sum()
    }

    /// The keys below one, which lie together.
    fn below(&self, key: &str) -> impl Iterator<Item = &String> {
        let prefix = format!("{key}.");
        self.texts
            .range(prefix.clone()..)
            .map(|(name, _)| name)
            .take_while(move |name| name.starts_with(&prefix))
    }

    /// What was sent never arrives.
    pub(super) fn lose(&mut self) {
        self.sent.clear();
    }

    /// What a commit is answered.
    pub(super) fn outcome(&self) -> Result<String, Errno> {
        self.fails.map_or_else(|| Ok(String::new()), Err)
    }

    pub(super) fn look_up(&self, key: &str) -> Result<String, Errno> {
        if let Some(errno) = self.unreadable {
            return Err(errno);
        }
        match self.texts.get(key) {
            Some(text) => Ok(text.clone()),
            None if self.below(key).next().is_some() => Err(Errno::EISDIR),
            None => Err(Errno::ENOENT),
        }
    }
}

impl Host {
    /// What plugins keep in the KVS, by key.
    pub fn kvs(&self) -> BTreeMap<String, String> {
        self.store.borrow().agenda.kvs.texts.clone()
    }

    /// Puts a text under a key, or takes away what is there, as somebody else may.
    pub fn kvs_put(&self, key: &str, text: Option<&str>) {
        let texts = &mut self.store.borrow_mut().agenda.kvs.texts;
        match text {
            Some(text) => texts.insert(key.to_owned(), text.to_owned()),
            None => texts.remove(key),
        };
    }

    /// Bytes that plugins have written so far.
    pub fn kvs_written(&self) -> u64 {
        self.store.borrow().agenda.kvs.written
    }

    /// The same with the directories that Flux's KVS stores anew for them: what its content store grows by.
    pub fn kvs_stored(&self) -> u64 {
        let store = self.store.borrow();
        store.agenda.kvs.written + store.agenda.kvs.stored
    }

    /// From now on commits that change something, and lookups, fail so.
    pub fn kvs_fails(&self, commits: Option<Errno>, lookups: Option<Errno>) {
        let kvs = &mut self.store.borrow_mut().agenda.kvs;
        (kvs.fails, kvs.unreadable) = (commits, lookups);
    }
}
