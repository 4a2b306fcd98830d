// SPDX-License-Identifier: LGPL-3.0-only
//! Jobs, associations and queues to start from.

use crate::accounts::{Association, AssociationRecord, Queue};
use crate::engine::{Past, State};
use crate::ids::{Limit, UserId};
use crate::limits::{Allocation, Resources, Size};
use std::collections::BTreeSet;

pub const OWNER: UserId = UserId(1);
/// When tests begin, in seconds since the epoch.
pub const NOW: f64 = 1_700_000_000.0;
pub const UNLIMITED: Limit = Limit(2_147_483_647);

/// Nodes of the whole site.
pub const SITE_NODES: u64 = 8;

/// A job as the host sees it.
#[derive(Clone, Debug)]
pub struct HostJob {
    pub user: u32,
    pub bank: Option<String>,
    pub queue: Option<String>,
    pub project: Option<String>,
    pub size: Size,
    pub state: State,
    pub urgency: i64,
    /// That it was submitted with.
    pub urgency_at_first: i64,
    /// GPUs that it is given beyond what it asks for.
    pub extra_gpus: u64,
    pub submitted: f64,
    pub duration: f64,
    pub started: Option<f64>,
    /// Its time limit.
    pub limit: Option<f64>,
    pub priority: Option<i64>,
    /// The price last answered, which Flux takes over when the callback is done.
    pub answered: Option<i64>,
    pub dependencies: BTreeSet<String>,
    /// Whether its jobspec declares dependencies of others.
    pub declares: bool,
    /// Whether its eventlog could not be read when that was tried.
    pub was_unreadable: bool,
    /// Whether it was held in PRIORITY since the plugin was loaded.
    pub was_awaiting: bool,
    /// Whether it was in SCHED, and keeps its place there.
    pub was_sched: bool,
    /// It is in PRIORITY, and Flux was told that it has no price.
    pub waits: bool,
    /// It is in SCHED, at priority 0, and held there, as a query tells.
    pub is_in_line: bool,
    /// Flux never honours these again.
    pub dead: BTreeSet<String>,
    /// What an eventlog would hold.
    pub log: Vec<(String, bool)>,
    /// What of it says how long it was eligible.
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
            size: Size { nodes: 1, cores: 1, gpus: 0 },
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
            declares: false,
            was_unreadable: false,
            was_awaiting: false,
            was_sched: false,
            waits: false,
            is_in_line: false,
            dead: BTreeSet::new(),
            log: Vec::new(),
            past: Vec::new(),
            memos: Vec::new(),
            stored_memos: 0,
            annotation: None,
        }
    }

    /// In SCHED, and not held there.
    pub fn is_scheduled(&self) -> bool {
        self.state == State::Sched && !self.is_in_line
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

    /// What it is given when it runs.
    pub fn given(&self) -> Size {
        Size { gpus: self.size.gpus + self.extra_gpus, ..self.size }
    }

    /// What Flux shows as R.
    pub fn resources(&self) -> Resources {
        match self.started.filter(|_| matches!(self.state, State::Run | State::Cleanup)) {
            None => Resources::None,
            start => Resources::Allocated(Allocation {
                nodes: self.given().nodes,
                cores: self.given().cores,
                gpus: self.given().gpus,
                start,
                expiration: self.limit.and_then(|limit| Some(start? + limit)),
            }),
        }
    }

    /// Another plugin's dependency.
    pub fn after(mut self, foreign: &str) -> Self {
        self.dependencies.insert(foreign.to_owned());
        self.declares = true;
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

/// An association of which one job may run.
pub fn narrow(user: u32, bank: &str) -> AssociationRecord {
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
