// SPDX-License-Identifier: LGPL-3.0-only
//! Values that have a current version and a version in a staged push.
//!
//! A staged push must not be visible before it is complete, and its commit must be fast. So the values of the staged push
//! are stored next to the current values, marked with the epoch of the push. A commit changes only the current epoch.

use std::collections::BTreeSet;

/// The epochs of pushes. Each push has its own epoch, and a value has the epoch of the push that wrote it.
#[derive(Clone, Debug, Default)]
pub(super) struct Epochs {
    /// The epoch of the last committed push. If the last value of a record has an earlier epoch, a later push removed the
    /// record.
    current: u64,
    latest: u64,
    open: Option<u64>,
    /// The epochs of aborted pushes, whose values never take effect.
    aborted: BTreeSet<u64>,
}

/// The maximum number of aborted pushes that are stored. Beyond it, the values of aborted pushes are removed.
const MAX_ABORTED: usize = 1000;

impl Epochs {
    /// Begins a staged push. An open push is aborted.
    pub(super) fn begin_staged_epoch(&mut self) {
        self.abort_epoch();
        self.latest += 1;
        self.open = Some(self.latest);
    }

    /// Aborts the staged push.
    pub(super) fn abort_epoch(&mut self) {
        self.aborted.extend(self.open.take());
    }

    /// Commits the staged push.
    pub(super) fn commit_epoch(&mut self) {
        self.current = self.open.take().unwrap_or(self.current);
    }

    /// Returns the number of aborted pushes that are stored.
    #[cfg(test)]
    pub(super) fn aborted_pushes(&self) -> usize {
        self.aborted.len()
    }

    /// Returns true if the values of aborted pushes must be [removed](Versioned::remove_aborted_values).
    pub(super) fn has_many_aborted_pushes(&self) -> bool {
        self.aborted.len() > MAX_ABORTED
    }

    /// Clears the list of aborted pushes, after their values were removed.
    pub(super) fn clear_aborted_epochs(&mut self) {
        self.aborted.clear();
    }

    /// Returns true if the push with this epoch was committed.
    fn was_committed(&self, epoch: u64) -> bool {
        epoch <= self.current && !self.aborted.contains(&epoch)
    }
}

/// A value that a staged push can replace. Each push has a number, its epoch.
#[derive(Clone, Debug)]
pub(super) struct Versioned<T> {
    /// The current value, with the epoch of its push. After a commit, `pushed` may contain the current value instead.
    settled: Option<(u64, T)>,
    /// The epoch of the last push that contained the same value as `settled`; 0 if no push did.
    same: u64,
    /// A value of a later push that differs from `settled`, with the epoch of this push. The push may be staged,
    /// committed or aborted.
    pushed: Option<Box<(u64, T)>>,
}

impl<T> Default for Versioned<T> {
    fn default() -> Self {
        Versioned { settled: None, same: 0, pushed: None }
    }
}

impl<T> Versioned<T> {
    /// Returns the current value, or the last value of a removed entry. Returns `None` if no value has ever taken effect.
    pub(super) fn find_current_or_last_value(&self, epochs: &Epochs) -> Option<&T> {
        self.find_last(epochs).map(|(_, value)| value)
    }

    /// Returns the current value, or `None` if the entry was removed or has no value yet.
    pub(super) fn present(&self, epochs: &Epochs) -> Option<&T> {
        self.find_last(epochs).filter(|(epoch, _)| *epoch == epochs.current).map(|(_, value)| value)
    }

    /// Returns the value in the staged push, or `None` if the push does not contain the entry.
    pub(super) fn staged(&self, epochs: &Epochs) -> Option<&T> {
        let same = self.settled.as_ref().filter(|_| epochs.open == Some(self.same)).map(|(_, value)| value);
        let pushed = self.pushed.as_deref().filter(|(epoch, _)| epochs.open == Some(*epoch));
        same.or(pushed.map(|(_, value)| value))
    }

    /// Sets the current value, without changing the staged push.
    pub(super) fn put(&mut self, epochs: &Epochs, value: T) {
        if epochs.open == Some(self.same) {
            let same_as_staged = self.settled.take();
            self.pushed = same_as_staged.map(|(_, value)| Box::new((self.same, value)));
        } else if self.staged(epochs).is_none() {
            self.pushed = None;
        }
        self.same = 0;
        self.settled = Some((epochs.current, value));
    }

    /// Sets the value in the staged push.
    pub(super) fn stage(&mut self, epochs: &Epochs, value: T) {
        let Some(open) = epochs.open else { return };
        self.store_value_in_force(epochs);
        self.pushed = Some(Box::new((open, value)));
    }

    /// Marks the value as unchanged by the staged push.
    pub(super) fn mark_staged_value_unchanged(&mut self, epochs: &Epochs) {
        let Some(open) = epochs.open else { return };
        self.store_value_in_force(epochs);
        (self.same, self.pushed) = (open, None);
    }

    /// If `pushed` contains the current value, moves this value to `settled`. Stores the epoch of the last committed
    /// push that contained the value.
    fn store_value_in_force(&mut self, epochs: &Epochs) {
        let Some(epoch) = self.find_last(epochs).map(|(epoch, _)| epoch) else { return };
        if let Some(pushed) = self.pushed.take_if(|pushed| pushed.0 == epoch) {
            self.settled = Some(*pushed);
        }
        if let Some(settled) = &mut self.settled {
            settled.0 = epoch;
        }
        self.same = 0;
    }

    /// Removes the value of an aborted push.
    pub(super) fn remove_aborted_values(&mut self, epochs: &Epochs) {
        self.pushed.take_if(|pushed| epochs.aborted.contains(&pushed.0));
        if epochs.aborted.contains(&self.same) {
            self.same = 0;
        }
    }

    /// Returns the last committed value and the epoch of its push, or `None` if no value was ever committed.
    fn find_last(&self, epochs: &Epochs) -> Option<(u64, &T)> {
        let pushed = self.pushed.as_deref().filter(|(epoch, _)| epochs.was_committed(*epoch));
        let same = Some(self.same).filter(|epoch| epochs.was_committed(*epoch)).unwrap_or_default();
        let settled = self.settled.as_ref().map(|(epoch, value)| (same.max(*epoch), value));
        pushed.map(|(epoch, value)| (*epoch, value)).or(settled)
    }
}
