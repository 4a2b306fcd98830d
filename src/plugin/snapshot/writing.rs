// SPDX-License-Identifier: LGPL-3.0-only
//! Writing a snapshot: new chunks, a batch at a time, and the manifest last.

use super::jobs::{self, Log};
use super::lines::{Complete, Cutter, Line};
use super::record::{
    Group, Manifest, ROOT, groups_key, hash, list_of_groups, manifest_key, rest_key, with_hash,
};
use super::rest;
use fairshare_engine::engine::{Kept, Rest};
use fairshare_engine::ids::{BankName, UserId};
use fairshare_engine::standing::{AsPushed, Bookmark, Ended, EvictedUsage};
use std::collections::{BTreeSet, HashSet};

/// The bytes of a batch.
const BATCH: usize = 256 << 10;
/// Associations looked at in one turn.
pub(super) const PAGE: usize = 400;
/// Associations, or ended jobs, looked at in one turn when only ended jobs are left to be written.
pub(super) const JOBS_PAGE: usize = 2000;

/// Keys with their new values; `None` removes a key.
pub(super) type Changes = Vec<(String, Option<String>)>;

/// What the writer needs next.
#[derive(Debug)]
pub(super) enum Wants<'a> {
    AsPushed,
    /// The associations after this one, with what says which fair-shares can be reckoned.
    Page(Option<(UserId, &'a BankName)>, Option<&'a AsPushed>),
    /// Ended jobs, when all associations are there.
    Jobs(Bookmark),
}

/// A snapshot that is being written.
#[derive(Debug)]
pub(super) struct Writing {
    /// The generation of the data in force at its start.
    pub generation: u64,
    as_pushed: Option<Option<AsPushed>>,
    /// The association that was taken in last.
    after: Option<(UserId, BankName)>,
    cutter: Cutter,
    groups: Vec<Group>,
    manifest: Manifest,
    keys: HashSet<String>,
    batch: Changes,
    bytes: usize,
    jobs: Option<Bookmark>,
    list: Option<String>,
    pub log: Log,
    owner: u32,
    /// All chunks are written, whichever are there.
    is_doubtful: bool,
    is_complete: bool,
    is_last: bool,
}

/// What is to be done next.
#[derive(Debug)]
pub(super) enum Then {
    /// Go on with the next page, in the next turn.
    Page,
    /// Write this first.
    Write(Changes),
    /// It is written; these are its keys.
    Done(HashSet<String>),
}

/// The content of the KVS before a snapshot is written.
#[derive(Debug)]
pub(super) enum Before {
    /// A snapshot of which the keys are known, or none.
    Ours,
    /// It is unknown which chunks are there.
    Doubtful,
    /// A foreign or damaged snapshot, which is removed first.
    Foreign,
}

impl Writing {
    /// Begins a snapshot of the data in force.
    pub(super) fn new(
        generation: u64,
        owner: u32,
        at: f64,
        rest: &Rest,
        before: Before,
        known: &HashSet<String>,
    ) -> Writing {
        let is_foreign = matches!(before, Before::Foreign);
        let mut writing = Writing {
            generation,
            as_pushed: None,
            after: None,
            cutter: Cutter::default(),
            groups: Vec::new(),
            manifest: Manifest::new(owner, at),
            keys: HashSet::new(),
            batch: if is_foreign { vec![(ROOT.to_owned(), None)] } else { Vec::new() },
            bytes: 0,
            jobs: None,
            list: None,
            log: Log::default(),
            owner,
            is_doubtful: matches!(before, Before::Doubtful),
            is_complete: false,
            is_last: false,
        };
        for text in rest::texts(rest) {
            let hash = hash(&text);
            writing.put(rest_key(&hash), text, known);
            writing.manifest.rest.push(hash);
        }
        writing
    }

    pub(super) fn wants(&self) -> Wants<'_> {
        match (&self.as_pushed, self.jobs) {
            (None, _) => Wants::AsPushed,
            (_, Some(first)) => Wants::Jobs(first),
            (Some(as_pushed), None) => {
                let after = self.after.as_ref().map(|(user, bank)| (*user, bank));
                Wants::Page(after, as_pushed.as_ref())
            }
        }
    }

    /// Takes in what the tree makes of the usages that were pushed.
    pub(super) fn as_pushed(&mut self, as_pushed: Option<AsPushed>) -> Then {
        self.as_pushed = Some(as_pushed);
        Then::Page
    }

    /// Takes the next page in; one that is not full is the last.
    pub(super) fn page(&mut self, page: &[Kept], known: &HashSet<String>) -> Then {
        for kept in page {
            let complete = self.cutter.add(&Line::of(kept));
            self.group(complete, known);
        }
        self.manifest.associations += page.len();
        match page.last() {
            Some(Kept { record, .. }) if page.len() == PAGE => {
                self.after = Some((record.association.user, record.association.bank.clone()));
            }
            _ => {
                let complete = self.cutter.finish();
                self.group(complete, known);
                let list = list_of_groups(&self.groups);
                self.manifest.groups = hash(&list);
                self.put(groups_key(&self.manifest.groups), list, known);
                self.jobs = Some(Bookmark::default());
            }
        }
        self.after_page(known)
    }

    /// Returns the log of ended jobs, to which later ones are added.
    pub(super) fn into_log(self) -> Log {
        self.log.written_whole()
    }

    /// Takes in what ended and is not covered; the last says where that goes on.
    pub(super) fn ended(
        &mut self,
        (ended, sums, next): (Vec<Ended>, Vec<EvictedUsage>, Option<Bookmark>),
        known: &HashSet<String>,
    ) -> Then {
        self.is_complete = next.is_none();
        self.jobs = next;
        for (key, text) in self.log.add(&ended, &sums, self.owner) {
            match text {
                // The list comes last, together with the manifest.
                Some(text) if key == jobs::list_key() => self.list = Some(text),
                Some(text) => self.put(key, text, known),
                None => self.take_back(&key),
            }
        }
        self.after_page(known)
    }

    fn after_page(&mut self, known: &HashSet<String>) -> Then {
        if self.bytes < BATCH && !self.is_complete { Then::Page } else { self.go_on(known) }
    }

    /// What comes after what was to be written.
    pub(super) fn go_on(&mut self, known: &HashSet<String>) -> Then {
        if self.is_last {
            return Then::Done(std::mem::take(&mut self.keys));
        }
        let is_much = std::mem::take(&mut self.bytes) >= BATCH;
        let mut changes = std::mem::take(&mut self.batch);
        if !self.is_complete || is_much {
            return if changes.is_empty() { Then::Page } else { Then::Write(changes) };
        }
        // What only the record before has goes in the same instant in which it stops to be the record.
        self.is_last = true;
        let of = |key: &String| key.rsplit_once('.').map_or("", |(directory, _)| directory).to_owned();
        let directories: HashSet<String> = self.keys.iter().map(of).collect();
        // A directory of which nothing is left goes as a whole.
        let gone = known.difference(&self.keys).map(|key| match of(key) {
            directory if directories.contains(&directory) => key.clone(),
            directory => directory,
        });
        let gone: BTreeSet<String> = gone.collect();
        changes.extend(gone.into_iter().map(|key| (key, None)));
        changes.push((jobs::list_key(), self.list.take()));
        changes.push((manifest_key(), Some(with_hash(&self.manifest))));
        Then::Write(changes)
    }

    /// All texts of it so far.
    pub(super) fn keys(&self) -> &HashSet<String> {
        &self.keys
    }

    fn group(&mut self, complete: Option<Complete>, known: &HashSet<String>) {
        let Some((group, chunks)) = complete else { return };
        for (key, chunk) in group.keys().into_iter().zip(chunks) {
            self.put(key, chunk, known);
        }
        self.groups.push(group);
    }

    /// A text that has grown since. If it was written it is there for nothing, until the next record.
    fn take_back(&mut self, key: &str) {
        self.keys.remove(key);
        self.batch.retain(|(name, _)| name != key);
    }

    fn put(&mut self, key: String, text: String, known: &HashSet<String>) {
        let is_new = self.is_doubtful || !known.contains(&key);
        if self.keys.insert(key.clone()) && is_new {
            self.bytes += text.len();
            self.batch.push((key, Some(text)));
        }
    }
}
