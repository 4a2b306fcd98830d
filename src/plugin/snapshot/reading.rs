// SPDX-License-Identifier: LGPL-3.0-only
//! Reads all chunks of a snapshot, with at most `MAX_PENDING` look-ups at a time.

use super::jobs;
use super::record::{Fault, Group, Manifest, check_chunk};
use std::ops::Range;

/// The maximum number of pending look-ups.
const MAX_PENDING: usize = 64;

/// A snapshot whose chunks are being read.
#[derive(Debug, Default)]
pub(super) struct Reading {
    pub manifest: Manifest,
    /// The hashes of the chunks of ended jobs.
    pub jobs: Vec<String>,
    /// The keys of all chunks, in this order: ended jobs, the chunks without associations, the groups.
    keys: Vec<String>,
    /// The chunks in the order of `keys`; `None` if the reply has not come.
    chunks: Vec<Option<String>>,
    /// The number of look-ups so far.
    started: usize,
    missing: usize,
}

impl Reading {
    pub(super) fn new(manifest: Manifest, jobs: Vec<String>, groups: &[Group]) -> Reading {
        // The list of groups has been read already.
        let list = super::record::groups_key(&manifest.groups);
        let keys: Vec<String> = jobs::chunk_keys(&jobs)
            .chain(manifest.keys().filter(|key| *key != list))
            .chain(groups.iter().flat_map(Group::keys))
            .collect();
        let chunks = vec![None; keys.len()];
        Reading { manifest, jobs, missing: keys.len(), keys, chunks, started: 0 }
    }

    /// Returns the look-ups to start now: the number and the key of each.
    pub(super) fn start_next_look_ups(&mut self) -> Vec<(u64, String)> {
        let pending = self.started - (self.keys.len() - self.missing).min(self.started);
        let end = (self.started + MAX_PENDING.saturating_sub(pending)).min(self.keys.len());
        let range = std::mem::replace(&mut self.started, end)..end;
        let keys = self.keys.get(range.clone()).unwrap_or_default();
        range.map(|number| number as u64).zip(keys.iter().cloned()).collect()
    }

    /// Adds the reply to look-up `number`. Returns true if no chunk is missing.
    pub(super) fn add_chunk(&mut self, number: u64, chunk: &str) -> Result<bool, Fault> {
        let at = usize::try_from(number).unwrap_or(usize::MAX);
        let (Some(key), Some(slot)) = (self.keys.get(at), self.chunks.get_mut(at)) else { return Ok(false) };
        check_chunk(key, chunk)?;
        if slot.replace(chunk.to_owned()).is_none() {
            self.missing -= 1;
        }
        Ok(self.missing == 0)
    }

    /// Returns the key of look-up `number`, for an error text.
    pub(super) fn key(&self, number: u64) -> &str {
        let key = usize::try_from(number).ok().and_then(|at| self.keys.get(at));
        key.map_or("a chunk", |key| key.as_str())
    }

    /// Returns chunk `index` of the ended jobs, or `None` if there is no such chunk.
    pub(super) fn get_ended_jobs_chunk(&self, index: usize) -> Option<&str> {
        self.get_chunk(0..self.jobs.len(), index)
    }

    /// Returns chunk `index` of the chunks without associations, or `None` if there is no such chunk.
    pub(super) fn get_site_chunk(&self, index: usize) -> Option<&str> {
        self.get_chunk(self.jobs.len()..self.find_first_group(), index)
    }

    /// Returns the chunks of group `index` (limits, fair-shares, usages), or `None` if there is no such group.
    pub(super) fn group_chunks(&self, index: usize) -> Option<[&str; 3]> {
        let chunk = |kind: usize| self.get_chunk(self.find_first_group()..self.keys.len(), 3 * index + kind);
        Some([chunk(0)?, chunk(1)?, chunk(2)?])
    }

    /// Returns the index of the first chunk of a group.
    fn find_first_group(&self) -> usize {
        self.jobs.len() + self.manifest.rest.len()
    }

    /// Returns chunk `index` of the chunks in `range`, or `None` if there is no such chunk.
    fn get_chunk(&self, range: Range<usize>, index: usize) -> Option<&str> {
        self.chunks.get(range)?.get(index)?.as_deref()
    }
}
