// SPDX-License-Identifier: LGPL-3.0-only
//! The counters and indexes of one association: a function of its live jobs.

use super::super::line::HeldLine;
use super::super::place::Waiting;
use super::super::scope::ScopeId;
use super::super::{Footprint, HoldSet, Job, Keepers, Phase, Usage};
use super::set;
use super::until::Until;
use crate::ids::{JobId, QueueName};
use std::collections::{BTreeMap, BTreeSet};

/// Held jobs between which limits distinguish by size alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::limits) struct Class {
    pub queue: Option<QueueName>,
    pub names: HoldSet,
    pub keepers: Keepers,
}

impl Class {
    pub fn for_job(job: &Job) -> Class {
        Class { queue: job.queue.clone(), names: job.names.outstanding(), keepers: job.keepers }
    }
}

/// The counters and indexes of one association.
#[derive(Clone, Debug, Default)]
pub(in crate::limits) struct Account {
    pub usage: Usage,
    /// The limit scopes in which its jobs count too, the narrowest first; `None` until its first job comes.
    pub member_of: Option<Box<[ScopeId]>>,
    /// How the association waits for headroom in these scopes.
    pub waiting: Waiting,
    /// Held jobs.
    pub held: BTreeMap<Class, HeldLine>,
    /// The queue of the newest job.
    pub latest_queue: Option<QueueName>,
    /// Jobs in DEPEND and PRIORITY.
    pub before_sched: BTreeSet<JobId>,
    /// Jobs that limits count. The first to end comes first.
    pub counted: BTreeSet<(Until, JobId)>,
    /// Replayed jobs whose eventlog is not read yet. Until then the headroom is unknown, and no job is released.
    pub unread: u64,
}

impl Account {
    /// Returns the scopes in which its jobs count too, the narrowest first.
    pub fn member_of(&self) -> &[ScopeId] {
        self.member_of.as_deref().unwrap_or_default()
    }

    /// Returns true if the association has no job.
    pub fn is_idle(&self) -> bool {
        self.usage.active_jobs == 0 && self.before_sched.is_empty()
    }

    /// Puts a job into the counters and indexes, or takes it out of them.
    pub fn count(&mut self, id: JobId, job: &Job, footprint: Footprint, is_in: bool) {
        let op = if is_in { u64::saturating_add } else { u64::saturating_sub };
        self.usage.count(job, footprint, is_in);
        self.unread = op(self.unread, u64::from(job.is_unread()));
        if matches!(job.phase, Phase::Depend | Phase::Priority) {
            set(&mut self.before_sched, id, is_in);
        }
        if !footprint.is_idle() {
            set(&mut self.counted, (Until::for_job(job), id), is_in);
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
