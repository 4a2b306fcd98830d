// SPDX-License-Identifier: LGPL-3.0-only
//! Writes a snapshot: first the new chunks in batches, then the manifest.

use super::jobs::{self, EndedLog};
use super::lines::{CompleteGroup, LineGrouper};
use super::record::{
    Group, Manifest, format_group_list, groups_key, hash, manifest_key, other_chunk_key, prepend_hash,
};
use super::site_chunks::build_chunks;
use fairshare::{Ranking, insert_all};
use fairshare_engine::engine::{self, SavedAssociation, SavedSite, View};
use fairshare_engine::ids::{BankName, UserId};
use fairshare_engine::standing::{Bookmark, Ended, EvictedUsage};
use std::collections::{BTreeSet, HashSet};

/// The size in bytes at which a batch is written.
const BATCH: usize = 256 << 10;
/// The number of associations read in one reactor turn.
pub(super) const PAGE: usize = 400;
/// The maximum number of ended jobs, and of associations with ended jobs, read in one reactor turn.
const JOBS_PAGE: usize = 2000;

/// Keys with their new values; `None` unlinks the key.
pub(super) type Changes = Vec<(String, Option<String>)>;

/// A snapshot that is being written.
#[derive(Debug, Default)]
pub(super) struct Writing {
    /// The generation of the site data when the plugin began to write the snapshot.
    pub generation: u64,
    /// The ranking by the pushed usages, with which the engine finds fair-shares that need not be stored. The inner `None` means that
    /// there is no tree.
    as_pushed: Option<Option<Ranking>>,
    /// The last association that was added.
    after: Option<(UserId, BankName)>,
    grouper: LineGrouper,
    groups: Vec<Group>,
    manifest: Manifest,
    /// The keys of all chunks that were added.
    keys: HashSet<String>,
    batch: Changes,
    /// The size of the batch in bytes.
    bytes: usize,
    /// The position in the list of ended jobs; `None` until all associations are added.
    jobs: Option<Bookmark>,
    /// The list of chunks of ended jobs.
    list: Option<String>,
    pub log: EndedLog,
    owner: u32,
    /// True if chunks are written even if `known` contains their keys.
    is_doubtful: bool,
    /// True if all associations and ended jobs were added.
    is_complete: bool,
    /// True if the commit with the manifest was sent.
    is_last: bool,
}

/// The action that the caller must do next.
#[derive(Debug)]
pub(super) enum WriterStep {
    /// Call [`Writing::add_next_page`] in the next reactor turn.
    Page,
    /// Commit these changes, then call [`Writing::take_batch`].
    Write(Changes),
    /// The snapshot is written, and has these keys.
    Done(HashSet<String>),
}

impl Writing {
    /// Begins a snapshot of the current site data. `known` are the keys in the KVS. If `is_doubtful` is true, a commit
    /// failed, so chunks with these keys may be missing.
    pub(super) fn new(
        generation: u64,
        owner: u32,
        at: f64,
        rest: &SavedSite,
        is_doubtful: bool,
        known: &HashSet<String>,
    ) -> Writing {
        let manifest = Manifest::new(owner, at);
        let mut writing = Writing { generation, manifest, owner, is_doubtful, ..Writing::default() };
        for chunk in build_chunks(rest) {
            let hash = hash(&chunk);
            writing.add_chunk(other_chunk_key(&hash), chunk, known);
            writing.manifest.rest.push(hash);
        }
        writing
    }

    /// Adds the next page of the engine's data. The ranking by the pushed usages comes first, then all associations, then the ended jobs.
    pub(super) fn add_next_page(&mut self, view: &View<'_>, known: &HashSet<String>) -> WriterStep {
        if let Some(first) = self.jobs {
            return self.add_ended(engine::uncovered(view, first, JOBS_PAGE), known);
        }
        let Some(as_pushed) = &self.as_pushed else {
            self.as_pushed = Some(engine::as_pushed(view));
            return WriterStep::Page;
        };
        let after = self.after.as_ref().map(|(user, bank)| (*user, bank));
        let page = engine::associations_page(view, after, PAGE, as_pushed.as_ref());
        self.add_page(&page, known)
    }

    /// Adds the next page of associations. A page with fewer than `PAGE` associations is the last.
    pub(super) fn add_page(&mut self, page: &[SavedAssociation], known: &HashSet<String>) -> WriterStep {
        for kept in page {
            let complete = self.grouper.add(kept);
            self.add_group(complete, known);
        }
        self.manifest.associations += page.len();
        match page.last() {
            Some(SavedAssociation { record, .. }) if page.len() == PAGE => {
                self.after = Some((record.association.user, record.association.bank.clone()));
            }
            _ => {
                let complete = self.grouper.finish();
                self.add_group(complete, known);
                let list = format_group_list(&self.groups);
                self.manifest.groups = hash(&list);
                self.add_chunk(groups_key(&self.manifest.groups), list, known);
                self.jobs = Some(Bookmark::default());
            }
        }
        self.end_page(known)
    }

    /// Adds a page of evicted usages, and of ended jobs whose usage no push includes. `page` also has the bookmark of the next page.
    pub(super) fn add_ended(
        &mut self,
        (ended, sums, next): (Vec<Ended>, Vec<EvictedUsage>, Option<Bookmark>),
        known: &HashSet<String>,
    ) -> WriterStep {
        self.is_complete = next.is_none();
        self.jobs = next;
        for (key, chunk) in self.log.add(&ended, &sums, self.owner) {
            match chunk {
                // The list of chunks is written in the last commit, together with the manifest.
                Some(list) if key == jobs::list_key() => self.list = Some(list),
                Some(chunk) => self.add_chunk(key, chunk, known),
                None => self.drop_last_chunk(&key),
            }
        }
        self.end_page(known)
    }

    fn end_page(&mut self, known: &HashSet<String>) -> WriterStep {
        if self.bytes < BATCH && !self.is_complete { WriterStep::Page } else { self.take_batch(known) }
    }

    /// Returns the next batch. The last batch also contains the manifest, and deletes the chunks of the previous
    /// snapshot.
    pub(super) fn take_batch(&mut self, known: &HashSet<String>) -> WriterStep {
        if self.is_last {
            return WriterStep::Done(std::mem::take(&mut self.keys));
        }
        let is_full = std::mem::take(&mut self.bytes) >= BATCH;
        let mut changes = std::mem::take(&mut self.batch);
        if !self.is_complete || is_full {
            return if changes.is_empty() { WriterStep::Page } else { WriterStep::Write(changes) };
        }
        self.is_last = true;
        let directory = |key: &String| key.rsplit_once('.').map_or("", |(directory, _)| directory).to_owned();
        let directories: HashSet<String> = self.keys.iter().map(directory).collect();
        // If no chunk of a directory is left, the whole directory is deleted.
        let deleted = known.difference(&self.keys).map(|key| match directory(key) {
            directory if directories.contains(&directory) => key.clone(),
            directory => directory,
        });
        let deleted: BTreeSet<String> = insert_all(deleted);
        changes.extend(deleted.into_iter().map(|key| (key, None)));
        changes.push((jobs::list_key(), self.list.take()));
        changes.push((manifest_key(), Some(prepend_hash(&self.manifest))));
        WriterStep::Write(changes)
    }

    /// Returns the keys of all chunks that were added.
    pub(super) fn keys(&self) -> &HashSet<String> {
        &self.keys
    }

    fn add_group(&mut self, complete: Option<CompleteGroup>, known: &HashSet<String>) {
        let Some((group, chunks)) = complete else { return };
        for (key, chunk) in group.keys().into_iter().zip(chunks) {
            self.add_chunk(key, chunk, known);
        }
        self.groups.push(group);
    }

    /// Drops the last chunk of ended jobs, because a longer chunk replaces it. If the chunk is already in the KVS, the
    /// next snapshot deletes it.
    fn drop_last_chunk(&mut self, key: &str) {
        self.keys.remove(key);
        self.batch.retain(|(name, _)| name != key);
    }

    /// Adds a chunk to the snapshot, and to the batch if the chunk may be missing in the KVS.
    fn add_chunk(&mut self, key: String, chunk: String, known: &HashSet<String>) {
        let is_new = self.is_doubtful || !known.contains(&key);
        if self.keys.insert(key.clone()) && is_new {
            self.bytes += chunk.len();
            self.batch.push((key, Some(chunk)));
        }
    }
}
