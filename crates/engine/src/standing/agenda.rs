// SPDX-License-Identifier: LGPL-3.0-only
//! Stores which associations the next refresh updates.

use super::Index;
use super::refresh::Changed;
use super::usage::UsageEntry;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The associations that the next refresh updates.
#[derive(Clone, Debug, Default)]
pub(super) struct Agenda {
    /// Associations that changed.
    changed: Vec<u32>,
    /// Associations with running jobs.
    live: Vec<u32>,
    /// Associations without running jobs, each with the time in milliseconds at which its usage becomes negligible.
    fading: BinaryHeap<Reverse<(i64, u32)>>,
    removed: Vec<Changed>,
}

impl Agenda {
    /// Schedules an association for the next refresh.
    pub fn mark_usage_changed(&mut self, entry: &mut UsageEntry, at: u32) {
        if !entry.queued {
            entry.queued = true;
            self.changed.push(at);
        }
        if entry.is_running() && !entry.live {
            entry.live = true;
            self.live.push(at);
        }
    }

    /// Stores that an association was removed, to report its former fair-share.
    pub fn store_removed_association(&mut self, at: u32, before: Option<f64>) {
        if before.is_some() {
            self.removed.push(Changed { association: Index(at), before, after: None });
        }
    }

    /// Schedules an association for the first refresh after `when`, the time at which its usage becomes negligible.
    /// `when` is in seconds since the epoch.
    pub fn schedule_negligible_usage(&mut self, entry: &mut UsageEntry, at: u32, when: f64) {
        entry.fade_is_queued = true;
        self.fading.push(Reverse(((when * 1e3).ceil() as i64, at)));
    }

    /// Removes the times at which usages become negligible. The caller then makes the next refresh compute all
    /// usages.
    pub fn clear_negligible_times(&mut self, entries: &mut [UsageEntry]) {
        self.fading.clear();
        for entry in entries {
            entry.fade_is_queued = false;
        }
    }

    /// Returns the removed associations, and clears the list.
    pub fn take_removed_associations(&mut self) -> Vec<Changed> {
        std::mem::take(&mut self.removed)
    }

    /// Moves the changed associations into `list`.
    pub fn take_changed_associations(&mut self, list: &mut Vec<u32>) {
        list.clear();
        list.append(&mut self.changed);
    }

    /// Adds to `list` the associations whose usage changes with time: those with running jobs, and those whose usage has become
    /// negligible at `now`.
    pub fn list_associations_due(&mut self, entries: &mut [UsageEntry], now: f64, list: &mut Vec<u32>) {
        self.live.retain(|&at| match entries.get_mut(at as usize) {
            Some(entry) if entry.is_running() => true,
            Some(entry) => {
                entry.live = false;
                false
            }
            None => false,
        });
        list.extend(self.live.iter().filter(|&&at| mark_queued_for_refresh(entries, at)));
        let due = (now * 1e3) as i64;
        while let Some(&Reverse((when, at))) = self.fading.peek()
            && when <= due
        {
            self.fading.pop();
            if let Some(entry) = entries.get_mut(at as usize) {
                entry.fade_is_queued = false;
            }
            if mark_queued_for_refresh(entries, at) {
                list.push(at);
            }
        }
    }

    /// Returns the lengths of the lists `live` and `fading`.
    #[cfg(test)]
    pub fn count_stored_associations(&self) -> (usize, usize) {
        (self.live.len(), self.fading.len())
    }
}

/// Marks the association at index `at` as queued for the next refresh. Returns true if it was not queued before.
fn mark_queued_for_refresh(entries: &mut [UsageEntry], at: u32) -> bool {
    entries.get_mut(at as usize).is_some_and(|entry| !std::mem::replace(&mut entry.queued, true))
}
