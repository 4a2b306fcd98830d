// SPDX-License-Identifier: LGPL-3.0-only
//! Writing a record: what is not there yet, a batch at a time, and the manifest last.

use super::changes::{Comparing, Mark};
use super::jobs::{self, Log};
use super::lines::{Complete, Cutter, Line};
use super::record::{
    Group, Manifest, ROOT, Reckoned, group_key, groups_key, hash, list_of_groups, log_key, manifest_key,
    rest_key,
};
use super::rest;
use fairshare_engine::engine::{Kept, Rest};
use fairshare_engine::ids::{BankName, UserId};
use fairshare_engine::standing::{AsPushed, Bookmark, Ended, EvictedUsage};
use std::collections::{BTreeSet, HashSet};
use std::rc::Rc;

/// Bytes that are written together.
const BATCH: usize = 256 << 10;
/// Associations looked at in one turn.
pub(super) const PAGE: usize = 400;
/// Associations, or ended jobs, looked at in one turn when only ended jobs are left to be written.
pub(super) const JOBS_PAGE: usize = 2000;

/// Texts under keys, and keys of which what is there goes away.
pub(super) type Changes = Vec<(String, Option<String>)>;

/// Texts of the log, and no more: each is a key to look up.
const MAX_LOG: usize = 256;

/// A record that is there, as far as the next one goes on from it.
#[derive(Debug, Default)]
pub(super) struct Base {
    /// The hash of the list of groups.
    pub list: String,
    pub groups: Vec<Group>,
    /// Bytes of it that most pushes change: about what writing it anew costs.
    pub bytes: usize,
    pub log: Vec<String>,
    pub log_bytes: usize,
    /// What it says of whom, in the order in which they are kept.
    pub marks: Vec<Mark>,
}

/// How associations are written.
#[derive(Debug)]
enum Way {
    /// What changed since the groups were written is logged.
    Log(Comparing, Rc<Base>),
    /// All groups.
    Anew(Box<Cutter>),
}

/// What is asked for next.
#[derive(Debug)]
pub(super) enum Wants<'a> {
    AsPushed,
    /// The associations after this one, with what says which fair-shares can be reckoned.
    Page(Option<(UserId, &'a BankName)>, Option<&'a AsPushed>),
    /// Ended jobs, when all associations are there.
    Jobs(Bookmark),
}

/// A record under way.
#[derive(Debug)]
pub(super) struct Writing {
    /// What was in force when it began.
    pub generation: u64,
    as_pushed: Option<Option<AsPushed>>,
    /// The association that was taken in last.
    after: Option<(UserId, BankName)>,
    way: Way,
    /// What this record is for the next one.
    base: Base,
    reckoned: Reckoned,
    manifest: Manifest,
    keys: HashSet<String>,
    batch: Changes,
    bytes: usize,
    jobs: Option<Bookmark>,
    list: Option<String>,
    pub log: Log,
    owner: u32,
    /// What is there is not relied upon.
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

/// What is in the KVS before a record is written.
#[derive(Debug)]
pub(super) enum Before {
    /// This record; `None` is one of which nothing is known but its keys, or none.
    Ours(Option<Rc<Base>>),
    /// What of it is there is not known.
    Doubtful,
    /// None of ours: it goes first.
    Foreign,
}

impl Writing {
    /// A record of what is in force now.
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
            way: Way::Anew(Box::default()),
            base: Base::default(),
            reckoned: Reckoned::default(),
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
        if let Before::Ours(Some(base)) = before {
            writing.way = Way::Log(Comparing::default(), base);
        }
        for (hash, text) in rest::texts(rest) {
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
            let line = Line::of(kept);
            let mark = Mark::of(&line);
            if kept.is_reckoned {
                self.reckoned.add(line.user, &line.bank, kept.record.fairshare);
            }
            match &mut self.way {
                Way::Log(comparing, base) => comparing.next(&base.marks, Some((&line, &mark))),
                Way::Anew(cutter) => {
                    let complete = cutter.add(&line);
                    self.group(complete, known);
                }
            }
            self.base.marks.push(mark);
        }
        match page.last() {
            Some(Kept { record, .. }) if page.len() == PAGE => {
                self.after = Some((record.association.user, record.association.bank.clone()));
            }
            _ => {
                if let Way::Log(comparing, base) = &mut self.way {
                    comparing.next(&base.marks, None);
                }
                self.jobs = Some(Bookmark::default());
            }
        }
        if self.is_log_too_long() {
            self.anew();
            return Then::Page;
        }
        if self.jobs.is_some() {
            self.associations_are_there(known);
        }
        self.after_page(known)
    }

    /// Whether writing all groups costs less than going on with the log.
    fn is_log_too_long(&self) -> bool {
        let Way::Log(comparing, base) = &self.way else { return false };
        let texts = base.log.len() + comparing.log.len().div_ceil(BATCH / 2);
        base.log_bytes + comparing.log.len() > base.bytes || texts > MAX_LOG
    }

    fn anew(&mut self) {
        self.way = Way::Anew(Box::default());
        (self.base, self.reckoned) = (Base::default(), Reckoned::default());
        (self.after, self.jobs) = (None, None);
    }

    fn associations_are_there(&mut self, known: &HashSet<String>) {
        match std::mem::replace(&mut self.way, Way::Anew(Box::default())) {
            Way::Log(comparing, base) => {
                self.keys.extend(base.groups.iter().flat_map(Group::keys).chain([groups_key(&base.list)]));
                self.keys.extend(base.log.iter().map(|hash| log_key(hash)));
                self.base = Base {
                    list: base.list.clone(),
                    groups: base.groups.clone(),
                    bytes: base.bytes,
                    log: base.log.clone(),
                    log_bytes: base.log_bytes + comparing.log.len(),
                    marks: std::mem::take(&mut self.base.marks),
                };
                for text in pieces(&comparing.log) {
                    let sum = hash(text);
                    self.put(log_key(&sum), text.to_owned(), known);
                    self.base.log.push(sum);
                }
            }
            Way::Anew(mut cutter) => {
                let complete = cutter.finish();
                self.group(complete, known);
                let list = list_of_groups(&self.base.groups);
                self.base.bytes += list.len();
                self.base.list = hash(&list);
                self.put(groups_key(&self.base.list), list, known);
            }
        }
        self.manifest.associations = self.base.marks.len();
        self.manifest.groups = self.base.list.clone();
        self.manifest.log = self.base.log.clone();
        self.manifest.reckoned = self.reckoned.text();
    }

    /// What the next record goes on from.
    pub(super) fn into_base(self) -> (Base, Log) {
        (self.base, self.log.written_whole())
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
            self.base.bytes += if hash == group.limits { 0 } else { text.len() };
            self.put(group_key(group.first, &hash), text, known);
        }
        self.base.groups.push(group);
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

/// A text in pieces of whole lines.
fn pieces(mut left: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let mut rest = left.bytes().skip(BATCH / 2);
        let end = rest.position(|byte| byte == b'\n').map_or(left.len(), |at| BATCH / 2 + at + 1);
        let (piece, rest) = left.split_at_checked(end)?;
        left = rest;
        (!piece.is_empty()).then_some(piece)
    })
}
