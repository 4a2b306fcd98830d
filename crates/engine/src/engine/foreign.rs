// SPDX-License-Identifier: LGPL-3.0-only
//! Names by which others keep a job in DEPEND.

use std::collections::{BTreeMap, btree_map::Entry};

/// The names that others ever put on a job we are subscribed to, and whether they are outstanding.
#[derive(Clone, Debug)]
pub(super) struct ForeignNames {
    names: BTreeMap<String, bool>,
    /// How many of them are outstanding. A job may have thousands, and each removal asks whether it was the last.
    outstanding: usize,
    /// Whether no name can be missing here. Until then some name keeps the job, or it would have gone on.
    is_complete: bool,
}

impl ForeignNames {
    /// Of a job in NEW: each name is told when it is added.
    pub fn of_new() -> ForeignNames {
        ForeignNames { is_complete: true, ..ForeignNames::unknown() }
    }

    /// Of a job that may carry names from before we were subscribed to it.
    pub fn unknown() -> ForeignNames {
        ForeignNames { names: BTreeMap::new(), outstanding: 0, is_complete: false }
    }

    /// A dependency of others was added or removed. A name that was removed once is dead: Flux lets it be added again,
    /// as its own plugins do at a restart, and it holds nothing.
    pub fn note(&mut self, name: &str, added: bool) {
        if !added {
            let was_outstanding = self.names.insert(name.to_owned(), false) == Some(true);
            self.outstanding -= usize::from(was_outstanding);
        } else if let Entry::Vacant(unheard) = self.names.entry(name.to_owned()) {
            unheard.insert(true);
            self.outstanding += 1;
        }
    }

    /// All that happened before we were subscribed was noted.
    pub fn complete(&mut self) {
        self.is_complete = true;
    }

    /// Those that keep the job, as far as they are known.
    pub fn outstanding(&self) -> impl Iterator<Item = &str> {
        self.names.iter().filter(|(_, is_outstanding)| **is_outstanding).map(|(name, _)| name.as_str())
    }

    /// How many they are.
    pub fn count(&self) -> usize {
        self.outstanding
    }

    /// Whether any of them keeps the job.
    pub fn keep_it(&self) -> bool {
        !(self.is_complete && self.know_none())
    }

    /// Whether none of those that are known keeps the job.
    pub fn know_none(&self) -> bool {
        self.outstanding == 0
    }
}
