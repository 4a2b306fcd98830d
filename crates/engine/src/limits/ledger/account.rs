// SPDX-License-Identifier: LGPL-3.0-only
//! The counters and indexes of one association. They depend only on its active jobs.

use super::super::line::HeldLine;
use super::super::place::PositionsInScopes;
use super::super::scope::{ScopeId, ScopeIds};
use super::super::{BlockState, Footprint, HoldSet, Job, Phase, Usage};
use super::latest_end::LatestEnd;
use super::set_membership;
use crate::ids::{JobId, QueueName};
use std::collections::{BTreeMap, BTreeSet};

/// A class of held jobs of one association. Limits treat two jobs of a class alike, except for their sizes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::limits) struct Class {
    pub queue: Option<QueueName>,
    pub names: HoldSet,
    pub block_state: BlockState,
}

impl Class {
    pub fn for_job(job: &Job) -> Class {
        Class { queue: job.queue.clone(), names: job.names.outstanding(), block_state: job.block_state }
    }
}

/// The counters and indexes of one association.
#[derive(Clone, Debug, Default)]
pub(in crate::limits) struct Account {
    pub usage: Usage,
    /// The limit scopes that count the jobs of the association. `None` before its first job. A change of the limits
    /// also sets this field to `None` if the association has no jobs.
    pub scope_ids: Option<Box<ScopeIds>>,
    /// The association's positions in waiting lists.
    pub waiting: PositionsInScopes,
    /// The held jobs by class.
    pub held: BTreeMap<Class, HeldLine>,
    /// The queue of the newest job.
    pub latest_queue: Option<QueueName>,
    /// Jobs in DEPEND and PRIORITY.
    pub before_sched: BTreeSet<JobId>,
    /// Jobs that limits count, sorted by their expiration time.
    pub counted: BTreeSet<(LatestEnd, JobId)>,
    /// The number of replayed jobs whose eventlog is unread. While there are any, the headroom is unknown, and no job is released.
    pub unread: u64,
}

impl Account {
    /// Returns the limit scopes that can hold jobs of the association, the narrowest first.
    pub fn scope_ids(&self) -> &[ScopeId] {
        self.scope_ids.as_ref().map(|ids| &*ids.holding).unwrap_or_default()
    }

    /// Returns true if the association has no job.
    pub fn is_idle(&self) -> bool {
        self.usage.active_jobs == 0 && self.before_sched.is_empty()
    }

    /// Adds a job to the indexes if `is_in` is true, and removes it from them otherwise.
    pub fn index_job(&mut self, id: JobId, job: &Job, footprint: &Footprint, is_in: bool) {
        let op = if is_in { u64::saturating_add } else { u64::saturating_sub };
        self.unread = op(self.unread, u64::from(job.is_unread()));
        if matches!(job.phase, Phase::Depend | Phase::Priority) {
            set_membership(&mut self.before_sched, id, is_in);
        }
        if !footprint.is_idle() {
            set_membership(&mut self.counted, (LatestEnd::for_job(job), id), is_in);
        }
        if job.is_held() {
            let class = Class::for_job(job);
            let line = self.held.entry(class.clone()).or_default();
            if is_in {
                line.insert(id, job.size);
            } else {
                line.remove(id);
            }
            if line.is_empty() {
                self.held.remove(&class);
            }
        }
    }
}
