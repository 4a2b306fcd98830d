// SPDX-License-Identifier: LGPL-3.0-only
//! A map with job ids as keys. It looks up jobs by hash, and iterates in the order of ids.
//!
//! While Flux asks for all priorities, the engine looks up each job several times, in an order unrelated to ids. A hash
//! table needs fewer memory accesses for each lookup than a tree.

use super::JobId;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::ops::Bound;

/// A map from job ids to values. Invariant: `order` has the keys of `values`.
#[derive(Clone, Debug)]
pub struct JobMap<T> {
    values: FxHashMap<JobId, T>,
    order: BTreeSet<JobId>,
}

impl<T> Default for JobMap<T> {
    fn default() -> Self {
        JobMap { values: FxHashMap::default(), order: BTreeSet::new() }
    }
}

impl<T> JobMap<T> {
    /// Returns the value of job `id`, or `None` if the map lacks the job.
    pub fn get(&self, id: JobId) -> Option<&T> {
        self.values.get(&id)
    }

    /// Returns a mutable reference to the value of job `id`, or `None` if the map lacks the job.
    pub fn get_mut(&mut self, id: JobId) -> Option<&mut T> {
        self.values.get_mut(&id)
    }

    /// Sets the value of job `id`. Returns the previous value, or `None` if the map lacked the job.
    pub fn insert(&mut self, id: JobId, value: T) -> Option<T> {
        let before = self.values.insert(id, value);
        if before.is_none() {
            self.order.insert(id);
        }
        before
    }

    /// Removes job `id`. Returns its value, or `None` if the map lacks the job.
    pub fn remove(&mut self, id: JobId) -> Option<T> {
        self.order.remove(&id);
        self.values.remove(&id)
    }

    /// Returns the number of jobs.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns true if there are no jobs.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the ids above `after`, or all ids, in ascending order.
    pub fn ids_after(&self, after: Option<JobId>) -> impl Iterator<Item = JobId> + '_ {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.order.range((from, Bound::Unbounded)).copied()
    }

    /// Returns the jobs with ids above `after`, or all jobs, in ascending order of ids.
    pub fn jobs_after(&self, after: Option<JobId>) -> impl Iterator<Item = (JobId, &T)> {
        self.ids_after(after).filter_map(|id| Some((id, self.get(id)?)))
    }

    /// Returns all jobs in ascending order of ids.
    pub fn into_jobs(mut self) -> impl Iterator<Item = (JobId, T)> {
        self.order.into_iter().filter_map(move |id| Some((id, self.values.remove(&id)?)))
    }

    /// Returns all values, in any order.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.values.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn a_job_map_equals_a_map_sorted_by_id(steps in prop::collection::vec((0u64..20, any::<Option<u8>>()), 0..200), after: Option<u8>) {
            let (mut jobs, mut model) = (JobMap::default(), BTreeMap::new());
            for (id, value) in steps {
                let id = JobId(id);
                let (former, expected) = match value {
                    Some(value) => (jobs.insert(id, value), model.insert(id, value)),
                    None => (jobs.remove(id), model.remove(&id)),
                };
                prop_assert_eq!(former, expected);
                prop_assert_eq!(jobs.get(id), model.get(&id));
                prop_assert_eq!(jobs.get_mut(id).copied(), model.get(&id).copied());
                prop_assert_eq!((jobs.len(), jobs.is_empty()), (model.len(), model.is_empty()));
            }
            let after = after.map(|id| JobId(u64::from(id) % 20));
            let wanted: Vec<_> = model.iter().filter(|(id, _)| after.is_none_or(|after| **id > after)).collect();
            prop_assert_eq!(jobs.jobs_after(after).map(|(id, _)| id).collect::<Vec<_>>(), wanted.iter().map(|(id, _)| **id).collect::<Vec<_>>());
            prop_assert_eq!(jobs.jobs_after(after).map(|(_, value)| value).collect::<Vec<_>>(), wanted.iter().map(|(_, value)| *value).collect::<Vec<_>>());
            let (owned, expected): (Vec<_>, Vec<_>) = (jobs.clone().into_jobs().collect(), model.clone().into_iter().collect());
            prop_assert_eq!(owned, expected);
            let (mut values, mut expected): (Vec<_>, Vec<_>) = (jobs.values().collect(), model.values().collect());
            values.sort();
            expected.sort();
            prop_assert_eq!(values, expected);
        }
    }
}
