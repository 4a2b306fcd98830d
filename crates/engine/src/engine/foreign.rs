// SPDX-License-Identifier: LGPL-3.0-only
//! Dependency names of other plugins, which block a job in DEPEND.

use std::collections::{BTreeMap, btree_map::Entry};

/// All dependencies that other plugins have ever added to a job to which this plugin is subscribed, and whether each
/// is outstanding. A dependency is identified by its name. By default, other plugins may have added dependencies whose
/// names are unknown.
#[derive(Clone, Debug, Default)]
pub(super) struct ForeignNames {
    names: BTreeMap<String, bool>,
    /// The number of outstanding dependencies. It is stored, because a job may have thousands of dependencies, and
    /// each removal needs the number.
    outstanding: usize,
    /// Whether all dependencies are known. If not, an unknown dependency may block the job.
    is_complete: bool,
}

impl ForeignNames {
    /// Returns an empty set of dependencies for a job in NEW. The set is complete, because Flux reports each
    /// dependency that is added.
    pub fn complete() -> ForeignNames {
        ForeignNames { is_complete: true, ..ForeignNames::default() }
    }

    /// Notes that another plugin has added or removed a dependency. A dependency that was removed once never blocks
    /// the job again: Flux's own plugins add it again at a restart, and Flux ignores this.
    pub fn record_dependency_of_other_plugin(&mut self, name: &str, added: bool) {
        if !added {
            let was_outstanding = self.names.insert(name.to_owned(), false) == Some(true);
            self.outstanding -= usize::from(was_outstanding);
        } else if let Entry::Vacant(unheard) = self.names.entry(name.to_owned()) {
            unheard.insert(true);
            self.outstanding += 1;
        }
    }

    /// Marks the dependencies as complete: the events from before the subscription have been read.
    pub fn mark_dependencies_complete(&mut self) {
        self.is_complete = true;
    }

    /// Returns the names of the outstanding dependencies that are known.
    pub fn outstanding_names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().filter(|(_, is_outstanding)| **is_outstanding).map(|(name, _)| name.as_str())
    }

    /// Returns the number of known dependencies that are outstanding.
    pub fn count_blocking_dependencies(&self) -> usize {
        self.outstanding
    }

    /// Returns true if a dependency may block the job: a known dependency, or one that was added before the
    /// subscription.
    pub fn may_block_job(&self) -> bool {
        !self.is_complete || self.outstanding > 0
    }
}
