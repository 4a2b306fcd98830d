// SPDX-License-Identifier: LGPL-3.0-only
//! The records of queues.

use super::{UNLIMITED, UNLIMITED_SQL, check_name};
use crate::field::{Fault, Field, Kind, Record};
use crate::interner::Interner;
use fairshare_engine::accounts::Queue;
use fairshare_engine::ids::Limit;
use serde::{Deserialize, Serialize};

/// A queue: its priority and its limits per association.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct QueueRecord {
    pub queue: String,
    pub min_nodes_per_job: i64,
    pub max_nodes_per_job: i64,
    pub max_time_per_job: i64,
    pub priority: i64,
    pub max_running_jobs: i64,
    pub max_nodes_per_assoc: i64,
    pub max_sched_jobs: i64,
    pub max_sched_nodes_per_assoc: i64,
    pub max_sched_cores_per_assoc: i64,
    /// Cap on the nodes of all jobs in SCHED and RUN in this queue. A push contains this cap as a limit on
    /// the root bank.
    #[serde(skip_serializing)]
    pub max_nodes: Option<i64>,
    /// Cap on the cores of all jobs in SCHED and RUN in this queue. A push contains this cap as a limit on
    /// the root bank.
    #[serde(skip_serializing)]
    pub max_cores: Option<i64>,
}

impl Record for QueueRecord {
    type Accepted = Queue;
    const ARRAY: &'static str = "queues";
    const TABLE: &'static str = "queue_table";
    const FIELDS: &'static [Field] = &[
        Field::new("queue", Kind::Name),
        Field::new("priority", Kind::Integer).with_substitute("0"),
        Field::new("max_running_jobs", Kind::Integer).with_substitute("100"),
        Field::new("max_nodes_per_assoc", Kind::Integer).with_substitute(UNLIMITED_SQL),
        Field::new("max_sched_jobs", Kind::Integer).with_substitute(UNLIMITED_SQL),
        Field::new("max_sched_nodes_per_assoc", Kind::Integer).with_substitute(UNLIMITED_SQL),
        Field::new("max_sched_cores_per_assoc", Kind::Integer).with_substitute(UNLIMITED_SQL),
        Field::new("min_nodes_per_job", Kind::Integer),
        Field::new("max_nodes_per_job", Kind::Integer),
        Field::new("max_time_per_job", Kind::Integer),
    ];
    const OPTIONAL: &'static [Field] = &[
        Field::new("max_nodes", Kind::Integer).with_substitute(UNLIMITED_SQL),
        Field::new("max_cores", Kind::Integer).with_substitute(UNLIMITED_SQL),
    ];
    const KEYS: &'static [(&'static str, &'static str)] = &[("queue", "queue")];

    fn convert(&self, _: &mut Interner) -> Result<Queue, Fault> {
        check_name("queue", &self.queue, "\"flux account delete-queue ''\" removes it")?;
        Ok(Queue {
            name: self.queue.as_str().into(),
            priority: self.priority,
            max_running_jobs: Limit(self.max_running_jobs),
            max_nodes_per_assoc: Limit(self.max_nodes_per_assoc),
            max_sched_jobs: Limit(self.max_sched_jobs),
            max_sched_nodes_per_assoc: Limit(self.max_sched_nodes_per_assoc),
            max_sched_cores_per_assoc: Limit(self.max_sched_cores_per_assoc),
            min_nodes_per_job: self.min_nodes_per_job,
            max_nodes_per_job: self.max_nodes_per_job,
            max_time_per_job: self.max_time_per_job,
        })
    }

    fn limits(&self) -> impl Iterator<Item = (&'static str, i64)> {
        [
            ("max_running_jobs", self.max_running_jobs),
            ("max_nodes_per_assoc", self.max_nodes_per_assoc),
            ("max_sched_jobs", self.max_sched_jobs),
            ("max_sched_nodes_per_assoc", self.max_sched_nodes_per_assoc),
            ("max_sched_cores_per_assoc", self.max_sched_cores_per_assoc),
        ]
        .into_iter()
    }
}

impl From<&Queue> for QueueRecord {
    fn from(queue: &Queue) -> Self {
        // This names all fields, so that the compiler reports a new field that the conversion forgets.
        QueueRecord {
            queue: queue.name.to_string(),
            min_nodes_per_job: queue.min_nodes_per_job,
            max_nodes_per_job: queue.max_nodes_per_job,
            max_time_per_job: queue.max_time_per_job,
            priority: queue.priority,
            max_running_jobs: queue.max_running_jobs.0,
            max_nodes_per_assoc: queue.max_nodes_per_assoc.0,
            max_sched_jobs: queue.max_sched_jobs.0,
            max_sched_nodes_per_assoc: queue.max_sched_nodes_per_assoc.0,
            max_sched_cores_per_assoc: queue.max_sched_cores_per_assoc.0,
            max_nodes: None,
            max_cores: None,
        }
    }
}

impl QueueRecord {
    /// Returns a queue with priority 0 and no limits.
    pub fn unlimited(name: &str) -> Self {
        QueueRecord {
            queue: name.to_owned(),
            max_nodes_per_job: UNLIMITED,
            max_time_per_job: UNLIMITED,
            max_running_jobs: UNLIMITED,
            max_nodes_per_assoc: UNLIMITED,
            max_sched_jobs: UNLIMITED,
            max_sched_nodes_per_assoc: UNLIMITED,
            max_sched_cores_per_assoc: UNLIMITED,
            ..QueueRecord::default()
        }
    }
}
