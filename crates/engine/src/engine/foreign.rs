// SPDX-License-Identifier: LGPL-3.0-only
//! Dependency names of other plugins, which block a job in DEPEND.

use std::collections::{BTreeMap, btree_map::Entry};

/// All dependency names that other plugins have ever added to a job to which this plugin is subscribed, and whether each is outstanding.
#[derive(Clone, Debug)]
pub(super) struct ForeignNames {
    names: BTreeMap<String, bool>,
    /// The number of outstanding names. It is stored, because a job may have thousands of names and each
    /// removal needs the number.
    outstanding: usize,
    /// Whether all names are known. If not, an unknown name may block the job.
    is_complete: bool,
}

impl ForeignNames {
    /// Returns an empty set of names for a job in NEW. The set is complete, because Flux reports each name
    /// that is added.
    pub fn for_new_job() -> ForeignNames {
        ForeignNames { is_complete: true, ..ForeignNames::with_unknown_names() }
    }

    /// Returns an empty set of names for a job that may have names from before the subscription.
    pub fn with_unknown_names() -> ForeignNames {
        ForeignNames { names: BTreeMap::new(), outstanding: 0, is_complete: false }
    }

    /// Notes that another plugin has added or removed a name. A name that was removed once never blocks the
    /// job again: Flux's own plugins add such names again at a restart, and Flux ignores these additions.
    pub fn note_name(&mut self, name: &str, added: bool) {
        if !added {
            let was_outstanding = self.names.insert(name.to_owned(), false) == Some(true);
            self.outstanding -= usize::from(was_outstanding);
        } else if let Entry::Vacant(unheard) = self.names.entry(name.to_owned()) {
            unheard.insert(true);
            self.outstanding += 1;
        }
    }

    /// Marks the names as complete: all events from before the subscription were noted.
    pub fn mark_complete(&mut self) {
        self.is_complete = true;
    }

    /// Returns the known outstanding names.
    pub fn outstanding_names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().filter(|(_, is_outstanding)| **is_outstanding).map(|(name, _)| name.as_str())
    }

    /// Returns the number of known outstanding names.
    pub fn outstanding_count(&self) -> usize {
        self.outstanding
    }

    /// Returns true if a name may block the job: a known name, or a name that was added before the
    /// subscription.
    pub fn may_block_job(&self) -> bool {
        !(self.is_complete && self.has_no_outstanding_name())
    }

    /// Returns true if no known name blocks the job.
    pub fn has_no_outstanding_name(&self) -> bool {
        self.outstanding == 0
    }
}
