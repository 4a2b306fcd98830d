// SPDX-License-Identifier: LGPL-3.0-only
//! Reading a record back: all its texts, a few at a time, and then part by part what they say.

use super::record::{Fault, Manifest, check};
use super::{jobs, lines};

/// Texts asked for at a time.
const AT_ONCE: usize = 64;

/// A record of which the texts come in.
#[derive(Debug)]
pub(super) struct Reading {
    pub manifest: Manifest,
    /// The texts of ended jobs: those that come first.
    pub jobs: Vec<String>,
    keys: Vec<String>,
    texts: Vec<Option<String>>,
    asked: usize,
    missing: usize,
    /// Parts that were applied.
    applied: usize,
    /// Where the texts of the next group begin.
    at: usize,
}

/// What is to be done with a record that is there.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    /// A text of ended jobs.
    Jobs(String),
    Begin,
    Part(String),
    Commit,
}

impl Reading {
    pub(super) fn new(manifest: Manifest, jobs: Vec<String>) -> Reading {
        let keys: Vec<String> = jobs::keys(&jobs).chain(manifest.keys()).collect();
        let texts = vec![None; keys.len()];
        Reading { manifest, jobs, missing: keys.len(), keys, texts, asked: 0, applied: 0, at: 0 }
    }

    /// Keys to be asked for now, with their numbers.
    pub(super) fn ask(&mut self) -> Vec<(u64, String)> {
        let under_way = self.asked - (self.keys.len() - self.missing).min(self.asked);
        let end = (self.asked + AT_ONCE.saturating_sub(under_way)).min(self.keys.len());
        let range = std::mem::replace(&mut self.asked, end)..end;
        let keys = self.keys.get(range.clone()).unwrap_or_default();
        range.map(|number| number as u64).zip(keys.iter().cloned()).collect()
    }

    /// Takes a text in. Whether all are there.
    pub(super) fn take(&mut self, number: u64, text: &str) -> Result<bool, Fault> {
        let at = usize::try_from(number).unwrap_or(usize::MAX);
        let (Some(key), Some(slot)) = (self.keys.get(at), self.texts.get_mut(at)) else { return Ok(false) };
        check(key, text)?;
        if slot.replace(text.to_owned()).is_none() {
            self.missing -= 1;
        }
        Ok(self.missing == 0)
    }

    pub(super) fn key(&self, number: u64) -> &str {
        let key = usize::try_from(number).ok().and_then(|at| self.keys.get(at));
        key.map_or("a text", |key| key.as_str())
    }

    /// Applies it from its first part.
    pub(super) fn rewind(&mut self) {
        (self.applied, self.at) = (0, 0);
    }

    /// The next thing to be done with it.
    pub(super) fn next(&mut self) -> Result<Next, Fault> {
        let step = self.applied;
        self.applied += 1;
        if step < self.jobs.len() {
            return Ok(Next::Jobs(self.texts(1)?.remove(0)));
        }
        let Some(step) = step.checked_sub(1 + self.jobs.len()) else { return Ok(Next::Begin) };
        if step < self.manifest.rest.len() {
            return Ok(Next::Part(self.texts(1)?.remove(0)));
        }
        let Some(group) = self.manifest.groups.get(step - self.manifest.rest.len()) else {
            return Ok(Next::Commit);
        };
        let (many, few) = (1 + group.fairshares.len() + group.usages.len(), 1 + group.fairshares.len());
        let texts = self.texts(many)?;
        let (limits, numbers) = texts.split_first().ok_or("a group is empty")?;
        let (fairshares, usages) = numbers.split_at_checked(few - 1).ok_or("a group lacks texts")?;
        lines::associations(limits, fairshares, usages).map(Next::Part)
    }

    fn texts(&mut self, many: usize) -> Result<Vec<String>, Fault> {
        let end = self.at + many;
        let texts = self.texts.get(self.at..end).ok_or("texts are missing")?;
        self.at = end;
        texts.iter().cloned().collect::<Option<_>>().ok_or_else(|| "texts are missing".to_owned())
    }
}
