// SPDX-License-Identifier: LGPL-3.0-only
//! The jobs whose events Flux reports to the plugin, and why: jobs that other plugins block in DEPEND, and
//! overtaken jobs whose urgency may change in DEPEND or PRIORITY.
//!
//! Flux searches its list of subscriptions from the front, so the number of subscriptions is bounded. A further job
//! is unwatched: no event reports when other plugins release the job.

use super::{Effect, State};
use crate::ids::JobId;
use crate::limits::BlockState;
use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

/// The jobs to which the plugin subscribes in DEPEND.
#[derive(Clone, Debug, Default)]
pub(super) struct Subscriptions {
    /// The jobs to which the plugin subscribed because other plugins may block them, with the dependencies of
    /// these plugins.
    foreign: BTreeMap<JobId, ForeignNames>,
    /// Overtaken jobs to which the plugin subscribed because their urgency may change.
    heard: BTreeSet<JobId>,
    /// Jobs that other plugins block or may block, and to which the plugin did not subscribe.
    unwatched: BTreeSet<JobId>,
    /// The largest number of jobs that `foreign` and `heard` may each contain.
    most: usize,
}

impl Subscriptions {
    pub fn new(most: usize) -> Self {
        Subscriptions { most, ..Subscriptions::default() }
    }

    /// Subscribes to a job. `names` are the dependencies of other plugins that are known. Returns `None` if there are too
    /// many subscriptions. Returns no effects if the plugin is subscribed already.
    pub fn add(&mut self, id: JobId, names: ForeignNames) -> Option<Vec<Effect>> {
        if self.foreign.len() >= self.most {
            return None;
        }
        self.unwatched.remove(&id);
        self.foreign.insert(id, names);
        let was_subscribed = self.heard.remove(&id);
        Some(Vec::from_iter((!was_subscribed).then_some(Effect::Subscribe(id))))
    }

    /// Subscribes to an overtaken job for its urgency, unless there are too many subscriptions.
    pub fn subscribe_to_overtaken_job(&mut self, id: JobId) -> Option<Effect> {
        let is_subscribed = self.foreign.contains_key(&id) || self.heard.contains(&id);
        if is_subscribed || self.heard.len() >= self.most {
            return None;
        }
        self.heard.insert(id);
        Some(Effect::Subscribe(id))
    }

    /// Marks a job as unwatched: no event reports when other plugins release it.
    pub fn mark_unwatched(&mut self, id: JobId) {
        self.unwatched.insert(id);
    }

    /// Returns true if no event reports when other plugins release the job.
    pub fn is_unwatched(&self, id: JobId) -> bool {
        self.unwatched.contains(&id)
    }

    /// Returns the dependencies that other plugins added to job `id`. Returns `None` if the plugin did not subscribe
    /// to the job for such dependencies.
    pub fn names(&self, id: JobId) -> Option<&ForeignNames> {
        self.foreign.get(&id)
    }

    /// Returns the same dependencies as [`Subscriptions::names`], as a mutable reference.
    pub fn names_mut(&mut self, id: JobId) -> Option<&mut ForeignNames> {
        self.foreign.get_mut(&id)
    }

    /// Returns whether other plugins block the job in DEPEND, as far as is known.
    pub fn block_state(&self, id: JobId) -> BlockState {
        match self.foreign.get(&id) {
            Some(others) if others.may_block_job() => BlockState::Blocked,
            None if self.unwatched.contains(&id) => BlockState::Blocked,
            _ => BlockState::Unblocked,
        }
    }

    /// Ends the subscription to a job that leaves DEPEND. Returns `None` if the plugin was not subscribed to the job.
    pub fn end_subscription(&mut self, id: JobId) -> Option<Effect> {
        self.unwatched.remove(&id);
        let was_subscribed = self.foreign.remove(&id).is_some() | self.heard.remove(&id);
        was_subscribed.then_some(Effect::Unsubscribe(id))
    }

    /// Removes a job to which Flux refused the subscription. Returns true if it was an overtaken job.
    pub fn remove_refused_job(&mut self, id: JobId) -> bool {
        self.foreign.remove(&id);
        self.heard.remove(&id)
    }

    /// Subscribes to a job again after a panic, because the panic may have lost the subscription. Ends all earlier
    /// subscriptions first, because Flux counts subscriptions. The replay reads the eventlog, which shows the dependencies
    /// that other plugins changed meanwhile.
    pub fn renew_subscription(&mut self, id: JobId, state: State) -> Vec<Effect> {
        self.heard.remove(&id);
        if state > State::Depend {
            self.unwatched.remove(&id);
        }
        let names = match (self.foreign.remove(&id), state) {
            (Some(names), State::New) => names,
            (Some(_), State::Depend) => ForeignNames::default(),
            _ => return vec![Effect::Unsubscribe(id)],
        };
        self.foreign.insert(id, names);
        vec![Effect::Unsubscribe(id), Effect::Subscribe(id)]
    }

    /// Returns the number of jobs in `foreign`, and the number of jobs in `unwatched`.
    #[cfg(test)]
    pub fn counts(&self) -> [usize; 2] {
        [self.foreign.len(), self.unwatched.len()]
    }
}

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
