// SPDX-License-Identifier: LGPL-3.0-only
//! Reading a record back: all its texts, a few at a time.

use super::jobs;
use super::record::{Fault, Group, Manifest, check};

/// Texts asked for at a time.
const AT_ONCE: usize = 64;

/// A record of which the texts come in.
#[derive(Debug, Default)]
pub(super) struct Reading {
    pub manifest: Manifest,
    pub groups: Vec<Group>,
    /// The texts of ended jobs: those that come first.
    pub jobs: Vec<String>,
    keys: Vec<String>,
    texts: Vec<Option<String>>,
    asked: usize,
    missing: usize,
}

impl Reading {
    pub(super) fn new(manifest: Manifest, jobs: Vec<String>, groups: Vec<Group>) -> Reading {
        // The list of groups is read already.
        let list = super::record::groups_key(&manifest.groups);
        let keys: Vec<String> = jobs::keys(&jobs)
            .chain(manifest.keys().filter(|key| *key != list))
            .chain(groups.iter().flat_map(Group::keys))
            .collect();
        let texts = vec![None; keys.len()];
        Reading { manifest, groups, jobs, missing: keys.len(), keys, texts, asked: 0 }
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

    /// The text of ended jobs of this number.
    pub(super) fn text_of_jobs(&self, at: usize) -> Result<Option<&str>, Fault> {
        self.text(0, self.jobs.len(), at)
    }

    /// That of this number among those about no association.
    pub(super) fn rest(&self, at: usize) -> Result<Option<&str>, Fault> {
        self.text(self.jobs.len(), self.manifest.rest.len(), at)
    }

    /// That of this number in the log.
    pub(super) fn log(&self, at: usize) -> Result<Option<&str>, Fault> {
        self.text(self.jobs.len() + self.manifest.rest.len(), self.manifest.log.len(), at)
    }

    /// Limits, fair-shares and usages of the group of this number.
    pub(super) fn group(&self, at: usize) -> Result<Option<[&str; 3]>, Fault> {
        let first = self.jobs.len() + self.manifest.rest.len() + self.manifest.log.len();
        let of = |which: usize| self.text(first, 3 * self.groups.len(), 3 * at + which);
        Ok(of(0)?.zip(of(1)?).zip(of(2)?).map(|((limits, fairshares), usages)| [limits, fairshares, usages]))
    }

    /// A text of so many from `first` on; `None` beyond them.
    fn text(&self, first: usize, many: usize, at: usize) -> Result<Option<&str>, Fault> {
        if at >= many {
            return Ok(None);
        }
        let text = self.texts.get(first + at).and_then(|text| text.as_deref());
        text.map(Some).ok_or_else(|| "texts are missing".to_owned())
    }
}
