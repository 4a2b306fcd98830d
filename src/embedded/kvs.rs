// SPDX-License-Identifier: LGPL-3.0-only
//! What plugins keep in the KVS: texts under keys. It outlives them, and a restart.

use std::collections::BTreeMap;

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
}

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
            for (key, text) in changes {
                if let Some(text) = text {
                    self.written += text.len() as u64;
                    self.texts.insert(key, text);
                } else {
                    let gone: Vec<String> = self.below(&key).cloned().collect();
                    gone.iter().chain([&key]).for_each(|name| drop(self.texts.remove(name)));
                }
            }
        }
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

    /// From now on commits that change something, and lookups, fail so.
    pub fn kvs_fails(&self, commits: Option<Errno>, lookups: Option<Errno>) {
        let kvs = &mut self.store.borrow_mut().agenda.kvs;
        (kvs.fails, kvs.unreadable) = (commits, lookups);
    }
}
