// SPDX-License-Identifier: LGPL-3.0-only
//! Writing a record: what is not there yet, a batch at a time, and the manifest last.

use super::jobs::{self, Log};
use super::lines::{self, Complete, Cutter};
use super::record::{Manifest, ROOT, group_key, manifest_key, rest_key};
use crate::engine::{Kept, Rest};
use crate::ids::{BankName, UserId};
use crate::standing::{Ended, GivenUp};
use std::collections::{BTreeSet, HashSet};

/// Bytes that are written together.
const BATCH: usize = 256 << 10;
/// Associations looked at in one turn.
pub(super) const PAGE: usize = 400;
/// The same where only ended jobs are looked for.
pub(super) const JOBS_PAGE: usize = 2000;

/// Texts under keys, and keys of which what is there goes away.
pub(super) type Changes = Vec<(String, Option<String>)>;

/// A record under way.
#[derive(Debug)]
pub(super) struct Writing {
    /// What was in force when it began.
    pub generation: u64,
    /// The association of which the line was written last.
    pub after: Option<(UserId, BankName)>,
    cutter: Cutter,
    manifest: Manifest,
    keys: HashSet<String>,
    batch: Changes,
    bytes: usize,
    /// Where the ended jobs go on, when all associations are there.
    pub jobs: Option<usize>,
    list: Option<String>,
    pub log: Log,
    owner: u32,
    is_complete: bool,
    is_last: bool,
}

/// What is to be done next.
#[derive(Debug, PartialEq)]
pub(super) enum Then {
    /// Go on with the next page, in the next turn.
    Page,
    /// Write this first.
    Write(Changes),
    /// It is written; these are its keys.
    Done(HashSet<String>),
}

impl Writing {
    /// A record of what is in force now. `is_anew`: what is there is none of ours, and goes first.
    pub(super) fn new(
        generation: u64,
        owner: u32,
        at: f64,
        rest: &Rest,
        is_anew: bool,
        known: &HashSet<String>,
    ) -> Writing {
        let mut writing = Writing {
            generation,
            after: None,
            cutter: Cutter::default(),
            manifest: Manifest::new(owner, at),
            keys: HashSet::new(),
            batch: if is_anew { vec![(ROOT.to_owned(), None)] } else { Vec::new() },
            bytes: 0,
            jobs: None,
            list: None,
            log: Log::default(),
            owner,
            is_complete: false,
            is_last: false,
        };
        for (hash, text) in lines::rest(rest) {
            writing.put(rest_key(&hash), text, known);
            writing.manifest.rest.push(hash);
        }
        writing
    }

    /// Takes the next page in; one that is not full is the last.
    pub(super) fn page(&mut self, page: &[Kept], known: &HashSet<String>) -> Then {
        for kept in page {
            let complete = self.cutter.add(kept);
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
                self.jobs = Some(0);
            }
        }
        self.after_page(known)
    }

    /// Takes in what ended and is not covered; the last says where that goes on.
    pub(super) fn ended(
        &mut self,
        (ended, sums, next): (Vec<Ended>, Vec<GivenUp>, Option<usize>),
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
        self.bytes = 0;
        let batch = std::mem::take(&mut self.batch);
        if !batch.is_empty() {
            return Then::Write(batch);
        }
        if !self.is_complete {
            return Then::Page;
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
        let mut changes: Changes = gone.into_iter().map(|key| (key, None)).collect();
        changes.push((jobs::list_key(), self.list.take()));
        changes.push((manifest_key(), Some(self.manifest.text())));
        Then::Write(changes)
    }

    /// All texts of it so far.
    pub(super) fn keys(&self) -> &HashSet<String> {
        &self.keys
    }

    fn group(&mut self, complete: Option<Complete>, known: &HashSet<String>) {
        let Some(Complete { group, texts }) = complete else { return };
        for (hash, text) in texts {
            self.put(group_key(group.first, &hash), text, known);
        }
        self.manifest.groups.push(group);
    }

    /// A text that has grown since. If it was written it is there for nothing, until the next record.
    fn take_back(&mut self, key: &str) {
        self.keys.remove(key);
        self.batch.retain(|(name, _)| name != key);
    }

    fn put(&mut self, key: String, text: String, known: &HashSet<String>) {
        let is_new = !known.contains(&key);
        if self.keys.insert(key.clone()) && is_new {
            self.bytes += text.len();
            self.batch.push((key, Some(text)));
        }
    }
}
