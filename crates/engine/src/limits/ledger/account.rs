// SPDX-License-Identifier: LGPL-3.0-only
//! One association's side of the ledger: a function of its live jobs.

use super::super::groups::GroupId;
use super::super::line::HeldLine;
use super::super::place::Waiting;
use super::super::{Footprint, HoldSet, Job, Keepers, Phase, Usage};
use super::until::Until;
use crate::ids::{JobId, QueueName};
use std::collections::{BTreeMap, BTreeSet};

/// Held jobs that limits tell apart by their size only.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::limits) struct Class {
    pub queue: Option<QueueName>,
    pub names: HoldSet,
    pub keepers: Keepers,
}

impl Class {
    pub fn of(job: &Job) -> Class {
        Class { queue: job.queue.clone(), names: job.names.outstanding(), keepers: job.keepers }
    }
}

/// One association's side of the ledger.
#[derive(Clone, Debug, Default)]
pub(in crate::limits) struct Account {
    pub usage: Usage,
    /// The groups in which its jobs count too; `None` as long as nobody asked.
    pub member_of: Option<Box<[GroupId]>>,
    /// How it waits for their room.
    pub waiting: Waiting,
    /// Held jobs in line.
    pub held: BTreeMap<Class, HeldLine>,
    /// The queue of the job that came last.
    pub latest_queue: Option<QueueName>,
    /// Jobs in DEPEND and PRIORITY, held or not.
    pub before_sched: BTreeSet<JobId>,
    /// Jobs that limits count, who ends first before the others.
    pub counted: BTreeSet<(Until, JobId)>,
    /// Replayed jobs whose eventlog is not read yet: until then headroom is not known, and nothing is released.
    pub unread: usize,
}

impl Account {
    /// Whether it has no job.
    pub fn is_idle(&self) -> bool {
        self.usage.active_jobs == 0 && self.before_sched.is_empty()
    }

    /// Whether a job that comes or goes may have it stand elsewhere among those with which it shares limits.
    pub fn is_displaced_by(&self, job: &Job, footprint: Footprint) -> bool {
        let shares = self.member_of.as_ref().is_some_and(|member_of| !member_of.is_empty());
        shares && !self.held.is_empty() && (job.is_held() || job.is_unread() || !footprint.is_idle())
    }

    pub fn deposit(&mut self, id: JobId, job: &Job, footprint: Footprint) {
        self.usage.deposit(job, footprint);
        self.unread += usize::from(job.is_unread());
        if matches!(job.phase, Phase::Depend | Phase::Priority) {
            self.before_sched.insert(id);
        }
        if !footprint.is_idle() {
            self.counted.insert((Until::of(job), id));
        }
        if job.is_held() {
            self.held.entry(Class::of(job)).or_default().insert(id, job.size);
        }
    }

    pub fn withdraw(&mut self, id: JobId, job: &Job, footprint: Footprint) {
        self.usage.withdraw(job, footprint);
        self.unread = self.unread.saturating_sub(usize::from(job.is_unread()));
        if matches!(job.phase, Phase::Depend | Phase::Priority) {
            self.before_sched.remove(&id);
        }
        if !footprint.is_idle() {
            self.counted.remove(&(Until::of(job), id));
        }
        if job.is_held() {
            let class = Class::of(job);
            if let Some(line) = self.held.get_mut(&class) {
                line.remove(id);
                if line.is_empty() {
                    self.held.remove(&class);
                }
            }
        }
    }
}
