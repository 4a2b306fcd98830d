// SPDX-License-Identifier: LGPL-3.0-only
//! One user in one bank: what the accounting database allows it.

use crate::ids::{BankName, Limit, ProjectName, QueueName, UserId};
use std::sync::Arc;

/// The limits and permissions of one association, as pushed: what is configured. Its fair-share, which is derived, is the
/// book's ([`Book::fairshare`](super::Book::fairshare)).
#[derive(Clone, Debug, PartialEq)]
pub struct Association {
    /// Who.
    pub user: UserId,
    /// In which bank.
    pub bank: BankName,
    /// Cap on running jobs; 0 holds every job.
    pub max_running_jobs: Limit,
    /// Hard cap on active jobs at submit; 0 and less is unlimited.
    pub max_active_jobs: Limit,
    /// Cap on jobs in SCHED; 0 holds every job.
    pub max_sched_jobs: Limit,
    /// Cap on nodes of running jobs, and of each job.
    pub max_nodes: Limit,
    /// Cap on cores of running jobs, and of each job.
    pub max_cores: Limit,
    /// Queues this association may use. Shared: most associations of a site have the same list.
    pub queues: Arc<[QueueName]>,
    /// Projects it may charge.
    pub projects: Arc<[ProjectName]>,
    /// The project of jobs that name none.
    pub def_project: Option<ProjectName>,
    /// Whether it may submit.
    pub active: bool,
}

impl Association {
    /// Whether one more active job is rejected at submit.
    pub fn is_full(&self, active_jobs: u64) -> bool {
        self.max_active_jobs.0 > 0 && !self.max_active_jobs.admits(active_jobs, 1)
    }

    /// flux-accounting's test suite marks an association whose jobs must fail in DEPEND by this value.
    pub fn is_broken(&self) -> bool {
        self.max_running_jobs.0 == -1
    }

    /// Whether jobs may be submitted to `queue`, a queue the site has configured.
    pub fn permits_queue(&self, queue: &str) -> bool {
        self.queues.iter().any(|q| q.as_str() == queue)
    }

    /// Whether jobs may be charged to `project`. The default project is always permitted.
    pub fn permits_project(&self, project: &str) -> bool {
        self.is_default_project(project) || self.projects.iter().any(|p| p.as_str() == project)
    }

    /// Whether `project` is the one given to jobs that name none.
    pub fn is_default_project(&self, project: &str) -> bool {
        self.def_project.as_ref().is_some_and(|p| p.as_str() == project)
    }
}
