// SPDX-License-Identifier: LGPL-3.0-only
//! Values of which one is in force and another in the making.
//!
//! What a push in parts brings must not show before all of it is there, and putting it in force must cost nothing then:
//! its values are written beside those in force, marked with the push's epoch, and to commit is to change one number.

use std::collections::BTreeSet;

/// Which pushes are in force. Each push has an epoch of its own; a value belongs to the epoch it was written in.
#[derive(Clone, Debug, Default)]
pub(super) struct Epochs {
    /// The epoch in force: what was written in it is present, what is older was removed since.
    current: u64,
    latest: u64,
    open: Option<u64>,
    /// Pushes given up: what was written in them never counts.
    given_up: BTreeSet<u64>,
}

/// Pushes given up that are noted. Beyond that, what was written in them is removed.
const MOST_GIVEN_UP: usize = 1000;

impl Epochs {
    /// Opens a push; one that is open is given up.
    pub(super) fn begin(&mut self) {
        self.abort();
        self.latest += 1;
        self.open = Some(self.latest);
    }

    /// Gives the open push up.
    pub(super) fn abort(&mut self) {
        self.given_up.extend(self.open.take());
    }

    /// Puts the open push in force, and nothing else.
    pub(super) fn commit(&mut self) {
        self.current = self.open.take().unwrap_or(self.current);
    }

    /// Returns the number of pushes given up that are noted.
    #[cfg(test)]
    pub(super) fn given_up(&self) -> usize {
        self.given_up.len()
    }

    /// Whether so many pushes were given up that their values are to be [removed](Versioned::drop_given_up).
    pub(super) fn are_many_given_up(&self) -> bool {
        self.given_up.len() > MOST_GIVEN_UP
    }

    /// Forgets the pushes given up: no value of them is left.
    pub(super) fn forget_given_up(&mut self) {
        self.given_up.clear();
    }

    fn was_in_force(&self, epoch: u64) -> bool {
        epoch <= self.current && !self.given_up.contains(&epoch)
    }
}

/// A value in force, and the one that a push brought last.
#[derive(Clone, Debug)]
pub(super) struct Versioned<T> {
    settled: Option<(u64, T)>,
    /// The push that brought the settled value again; 0: none since.
    kept: u64,
    /// Of the open push, of one that is in force by now, or of one that was given up.
    pushed: Option<Box<(u64, T)>>,
}

impl<T> Default for Versioned<T> {
    fn default() -> Self {
        Versioned { settled: None, kept: 0, pushed: None }
    }
}

impl<T> Versioned<T> {
    /// The value in force; if it was removed, the last that was.
    pub(super) fn last(&self, epochs: &Epochs) -> Option<&T> {
        self.known(epochs).map(|(_, value)| value)
    }

    /// The value in force.
    pub(super) fn present(&self, epochs: &Epochs) -> Option<&T> {
        self.known(epochs).filter(|(epoch, _)| *epoch == epochs.current).map(|(_, value)| value)
    }

    /// The value of the open push.
    pub(super) fn staged(&self, epochs: &Epochs) -> Option<&T> {
        let kept = self.settled.as_ref().filter(|_| epochs.open == Some(self.kept)).map(|(_, value)| value);
        let pushed = self.pushed.as_deref().filter(|(epoch, _)| epochs.open == Some(*epoch));
        kept.or(pushed.map(|(_, value)| value))
    }

    /// Puts a value in force at once, whatever the open push brings.
    pub(super) fn put(&mut self, epochs: &Epochs, value: T) {
        if epochs.open == Some(self.kept) {
            let brought = self.settled.take();
            self.pushed = brought.map(|(_, brought)| Box::new((self.kept, brought)));
        } else if self.staged(epochs).is_none() {
            self.pushed = None;
        }
        self.kept = 0;
        self.settled = Some((epochs.current, value));
    }

    /// Notes a value of the open push.
    pub(super) fn stage(&mut self, epochs: &Epochs, value: T) {
        let Some(open) = epochs.open else { return };
        self.settle(epochs);
        self.pushed = Some(Box::new((open, value)));
    }

    /// Notes that the open push brings the value in force again: what is there stays where it is.
    pub(super) fn keep(&mut self, epochs: &Epochs) {
        let Some(open) = epochs.open else { return };
        self.settle(epochs);
        (self.kept, self.pushed) = (open, None);
    }

    /// What is in force becomes what is settled, and no more than that is known of what was kept.
    fn settle(&mut self, epochs: &Epochs) {
        let Some(epoch) = self.known(epochs).map(|(epoch, _)| epoch) else { return };
        if let Some(pushed) = self.pushed.take_if(|pushed| pushed.0 == epoch) {
            self.settled = Some(*pushed);
        }
        if let Some(settled) = &mut self.settled {
            settled.0 = epoch;
        }
        self.kept = 0;
    }

    /// Removes the value of a push that was given up.
    pub(super) fn drop_given_up(&mut self, epochs: &Epochs) {
        self.pushed.take_if(|pushed| epochs.given_up.contains(&pushed.0));
        if epochs.given_up.contains(&self.kept) {
            self.kept = 0;
        }
    }

    fn known(&self, epochs: &Epochs) -> Option<(u64, &T)> {
        let pushed = self.pushed.as_deref().filter(|(epoch, _)| epochs.was_in_force(*epoch));
        let kept = Some(self.kept).filter(|kept| epochs.was_in_force(*kept)).unwrap_or_default();
        let settled = self.settled.as_ref().map(|(epoch, value)| (kept.max(*epoch), value));
        pushed.map(|(epoch, value)| (*epoch, value)).or(settled)
    }
}
