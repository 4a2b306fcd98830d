// SPDX-License-Identifier: LGPL-3.0-only
//! Jobs, associations and queues for tests.

use crate::accounts::{Association, AssociationRecord, Queue};
use crate::engine::{Engine, Event, Past, State};
use crate::ids::{Limit, UserId};
use crate::limits::{Allocation, Resources, Size};
use std::collections::BTreeSet;

pub const OWNER: UserId = UserId(1);
/// The time at which tests begin, in seconds since the epoch.
pub const NOW: f64 = 1_700_000_000.0;
pub const UNLIMITED: Limit = Limit(2_147_483_647);

/// The number of nodes of the site.
pub const SITE_NODES: u64 = 8;

/// A job of the model host.
#[derive(Clone, Debug)]
pub struct HostJob {
    pub user: u32,
    pub bank: Option<String>,
    pub queue: Option<String>,
    pub project: Option<String>,
    pub size: Size,
    pub state: State,
    pub urgency: i64,
    /// The urgency at submission.
    pub urgency_at_first: i64,
    /// The number of GPUs in the allocation that the job did not request.
    pub extra_gpus: u64,
    pub submitted: f64,
    pub duration: f64,
    pub started: Option<f64>,
    /// The time limit in seconds.
    pub limit: Option<f64>,
    pub priority: Option<i64>,
    /// The priority in the last answer to Flux. Flux stores this priority when the callback has returned.
    pub answered: Option<i64>,
    pub dependencies: BTreeSet<String>,
    /// Whether the jobspec declares a dependency of another plugin.
    pub has_declared_dependencies: bool,
    /// Whether an attempt to read the eventlog failed.
    pub was_unreadable: bool,
    /// Whether the job was held in PRIORITY at any time since the plugin was loaded.
    pub was_held_in_priority: bool,
    /// Whether the job has been in SCHED and still counts as scheduled, even if Flux sent it back to PRIORITY.
    pub was_sched: bool,
    /// Whether the job is in PRIORITY without a priority.
    pub lacks_priority: bool,
    /// Whether the job is held in SCHED at priority 0.
    pub is_held_in_sched: bool,
    /// Names of removed dependencies. Flux does not accept them again.
    pub removed_dependencies: BTreeSet<String>,
    /// The dependency events of the eventlog: the name, and true if the dependency was added.
    pub log: Vec<(String, bool)>,
    /// The events of the eventlog from which the engine computes how long the job was eligible.
    pub past: Vec<(f64, Past)>,
    pub memos: Vec<f64>,
    pub stored_memos: usize,
    pub annotation: Option<String>,
}

impl HostJob {
    pub fn new(user: u32) -> Self {
        HostJob {
            user,
            bank: None,
            queue: None,
            project: None,
            size: Size::new(1, 1, 0),
            state: State::New,
            urgency: 16,
            urgency_at_first: 16,
            extra_gpus: 0,
            submitted: NOW,
            duration: 3600.0,
            started: None,
            limit: None,
            priority: None,
            answered: None,
            dependencies: BTreeSet::new(),
            has_declared_dependencies: false,
            was_unreadable: false,
            was_held_in_priority: false,
            was_sched: false,
            lacks_priority: false,
            is_held_in_sched: false,
            removed_dependencies: BTreeSet::new(),
            log: Vec::new(),
            past: Vec::new(),
            memos: Vec::new(),
            stored_memos: 0,
            annotation: None,
        }
    }

    /// Whether the job is in SCHED and not held there.
    pub fn is_scheduled(&self) -> bool {
        self.state == State::Sched && !self.is_held_in_sched
    }

    pub fn queue(mut self, queue: &str) -> Self {
        self.queue = Some(queue.to_owned());
        self
    }

    pub fn bank(mut self, bank: &str) -> Self {
        self.bank = Some(bank.to_owned());
        self
    }

    pub fn size(mut self, nodes: u64, cores: u64) -> Self {
        self.size = Size { nodes, cores, ..self.size };
        self
    }

    pub fn gpus(mut self, gpus: u64) -> Self {
        self.size.gpus = gpus;
        self
    }

    /// Returns `count` times the time limit in milliseconds, but at most `MOST`.
    pub fn unit_milliseconds(&self, count: u64) -> u64 {
        const MOST: f64 = (1_u64 << 50) as f64;
        let limit = if self.duration > 0.0 { (self.duration * 1000.0).ceil() } else { MOST };
        (count as f64 * limit.min(MOST)).min(MOST) as u64
    }

    pub fn get_allocated_job_size(&self) -> Size {
        Size { gpus: self.size.gpus + self.extra_gpus, ..self.size }
    }

    /// Returns R in the form in which Flux reports it.
    pub fn resources(&self) -> Resources {
        match self.started.filter(|_| matches!(self.state, State::Run | State::Cleanup)) {
            None => Resources::None,
            start => Resources::Allocated(Allocation {
                nodes: self.get_allocated_job_size().nodes,
                cores: self.get_allocated_job_size().cores,
                gpus: self.get_allocated_job_size().gpus,
                start,
                expiration: self.limit.and_then(|limit| Some(start? + limit)),
            }),
        }
    }

    /// Adds a dependency of another plugin.
    pub fn blocked_by(mut self, foreign: &str) -> Self {
        self.dependencies.insert(foreign.to_owned());
        self.has_declared_dependencies = true;
        self.log.push((foreign.to_owned(), true));
        self
    }
}

pub fn association(user: u32, bank: &str) -> Association {
    Association {
        user: UserId(user),
        bank: bank.into(),
        max_running_jobs: UNLIMITED,
        max_active_jobs: UNLIMITED,
        max_sched_jobs: UNLIMITED,
        max_nodes: UNLIMITED,
        max_cores: UNLIMITED,
        queues: ["q1", "q2"].map(Into::into).into(),
        projects: ["*"].map(Into::into).into(),
        def_project: Some("*".into()),
        active: true,
    }
}

pub fn record(association: Association, def_bank: &str) -> AssociationRecord {
    AssociationRecord { association, fairshare: 0.5, def_bank: def_bank.into() }
}

/// Returns an association that may run one job.
pub fn make_record_with_one_job_limit(user: u32, bank: &str) -> AssociationRecord {
    record(Association { max_running_jobs: Limit(1), ..association(user, bank) }, bank)
}

pub fn queue(name: &str) -> Queue {
    Queue {
        name: name.into(),
        priority: 0,
        max_running_jobs: UNLIMITED,
        max_nodes_per_assoc: UNLIMITED,
        max_sched_jobs: UNLIMITED,
        max_sched_nodes_per_assoc: UNLIMITED,
        max_sched_cores_per_assoc: UNLIMITED,
        min_nodes_per_job: 0,
        max_nodes_per_job: 0,
        max_time_per_job: 0,
    }
}

/// Returns an engine with these records, and small batches.
pub fn make_engine_with_associations(records: Vec<AssociationRecord>) -> Engine {
    let mut engine = Engine::with_small_batches();
    engine.handle(NOW, Event::Associations(records));
    engine
}
