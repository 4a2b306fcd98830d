// SPDX-License-Identifier: LGPL-3.0-only
//! Which texts are in the KVS, and whether they are ours.

use std::collections::HashSet;

/// What is in the KVS.
pub(super) enum Known {
    /// These texts, those of the record among them.
    Texts(HashSet<String>),
    /// Something else.
    Foreign(HashSet<String>),
}

impl Default for Known {
    fn default() -> Self {
        Known::Texts(HashSet::new())
    }
}

impl Known {
    /// The texts that need not be written again.
    pub(super) fn keys(&self) -> &HashSet<String> {
        let (Known::Texts(keys) | Known::Foreign(keys)) = self;
        keys
    }

    pub(super) fn is_foreign(&self) -> bool {
        matches!(self, Known::Foreign(_))
    }

    pub(super) fn is_nothing(&self) -> bool {
        !self.is_foreign() && self.keys().is_empty()
    }

    /// These are there now. What was none of ours went before the first of them came.
    pub(super) fn have(&mut self, keys: impl Iterator<Item = String>) {
        let (Known::Texts(known) | Known::Foreign(known)) = self;
        known.extend(keys);
        *self = Known::Texts(std::mem::take(known));
    }

    /// These are there no more.
    pub(super) fn lose(&mut self, keys: &[String]) {
        let (Known::Texts(known) | Known::Foreign(known)) = self;
        for key in keys {
            known.remove(key);
        }
    }
}
