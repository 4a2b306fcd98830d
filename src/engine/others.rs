// SPDX-License-Identifier: LGPL-3.0-only
//! Names by which others keep a job in DEPEND.

use std::collections::BTreeMap;

/// The names others ever put on a job, and whether they are outstanding.
#[derive(Clone, Debug, Default)]
pub(super) struct Others(BTreeMap<String, bool>);

impl Others {
    /// A dependency of others was added or removed. A name that was removed once is dead: Flux lets it be added again,
    /// as its own plugins do at a restart, and it holds nothing.
    pub fn note(&mut self, name: &str, added: bool) {
        if added {
            self.0.entry(name.to_owned()).or_insert(true);
        } else {
            self.0.insert(name.to_owned(), false);
        }
    }

    /// Whether any of them keeps the job.
    pub fn keep_it(&self) -> bool {
        self.0.values().any(|is_outstanding| *is_outstanding)
    }
}
