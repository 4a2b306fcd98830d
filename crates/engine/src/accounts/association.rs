// SPDX-License-Identifier: LGPL-3.0-only
//! An association: a user in a bank, with limits and permissions.

use crate::ids::{BankName, Limit, ProjectName, QueueName, UserId};
use std::sync::Arc;

/// The limits and permissions of an association, as pushed. [`Book::fairshare`](super::Book::fairshare) returns its fair-share.
#[derive(Clone, Debug, PartialEq)]
pub struct Association {
    /// The user id.
    pub user: UserId,
    /// The bank.
    pub bank: BankName,
    /// Cap on running jobs; 0 holds every job.
    pub max_running_jobs: Limit,
    /// Cap on active jobs, checked at submission; 0 or less is unlimited.
    pub max_active_jobs: Limit,
    /// Cap on jobs in SCHED; 0 holds every job.
    pub max_sched_jobs: Limit,
    /// Cap on the nodes of all running jobs, and of each job.
    pub max_nodes: Limit,
    /// Cap on the cores of all running jobs, and of each job.
    pub max_cores: Limit,
    /// Permitted queues. The list is shared, because most associations of a site have the same queues.
    pub queues: Arc<[QueueName]>,
    /// Permitted projects.
    pub projects: Arc<[ProjectName]>,
    /// The project of jobs whose jobspec contains no project.
    pub def_project: Option<ProjectName>,
    /// False if the association may not submit jobs.
    pub active: bool,
}

impl Association {
    /// Returns the cap on active jobs, or `None` if it is unlimited. 0 or less means unlimited.
    pub fn active_jobs_cap(&self) -> Option<u64> {
        self.max_active_jobs.finite_cap().filter(|cap| *cap > 0)
    }

    /// Returns how many more jobs the association may submit if it has `active_jobs` active jobs.
    pub fn active_headroom(&self, active_jobs: u64) -> u64 {
        self.active_jobs_cap().map_or(u64::MAX, |cap| cap.saturating_sub(active_jobs))
    }

    /// Returns true if flux-accounting's test suite marks the association as broken, by the cap -1 on running jobs.
    /// The jobs of such an association must fail in DEPEND.
    pub fn is_broken(&self) -> bool {
        self.max_running_jobs.0 == -1
    }

    /// Returns true if jobs may be submitted to `queue`, a configured queue.
    pub fn permits_queue(&self, queue: &str) -> bool {
        self.queues.iter().any(|q| q.as_str() == queue)
    }

    /// Returns true if jobs may be charged to `project`. The default project is always permitted.
    pub fn permits_project(&self, project: &str) -> bool {
        self.is_default_project(project) || self.projects.iter().any(|p| p.as_str() == project)
    }

    /// Returns true if `project` is the default project.
    pub fn is_default_project(&self, project: &str) -> bool {
        self.def_project.as_ref().is_some_and(|p| p.as_str() == project)
    }
}
