// SPDX-License-Identifier: LGPL-3.0-only
//! The site of the demo, read from a JSON file: banks, users, queues, the jobs to submit, and the steps that follow.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The site file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Site {
    pub(super) cluster: DemoCluster,
    /// User ids by user name. The users need no accounts on this machine.
    users: BTreeMap<String, u32>,
    defaults: Defaults,
    factors: BTreeMap<String, i64>,
    banks: Vec<Map<String, Value>>,
    /// The ranking policy and the rules of usage.
    tree: Map<String, Value>,
    queues: Vec<Map<String, Value>>,
    associations: Vec<Map<String, Value>>,
    /// Jobs in order of submission.
    pub(super) jobs: Vec<DemoJob>,
    /// What the demo does after the submissions, in this order.
    pub(super) steps: Vec<DemoStep>,
}

/// A step of the demo.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum DemoStep {
    /// Ends the job with this name.
    End(String),
    /// Runs a command of `flux fairshare` with these words. The name of a job stands for the job's id.
    Run(Vec<String>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DemoCluster {
    pub(super) nodes: usize,
    pub(super) cores_per_node: usize,
}

/// Values of the keys that a queue or an association does not set.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Defaults {
    queue: Map<String, Value>,
    association: Map<String, Value>,
}

/// A job that allocates whole nodes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DemoJob {
    /// The steps in the site file refer to the job by this name.
    pub(super) name: Option<String>,
    pub(super) user: String,
    pub(super) queue: String,
    /// The default bank of the user applies if this is `None`.
    pub(super) bank: Option<String>,
    nodes: Option<u64>,
    urgency: Option<i32>,
}

impl DemoJob {
    pub(super) fn urgency(&self) -> i32 {
        self.urgency.unwrap_or(16)
    }
}

impl Site {
    /// Reads a site file. Errors contain its path.
    pub(super) fn read(path: &Path) -> Result<Site, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    pub(super) fn user_id(&self, user: &str) -> Result<u32, String> {
        self.users.get(user).copied().ok_or_else(|| format!("the site has no user {user}"))
    }

    pub(super) fn queue_names(&self) -> Vec<String> {
        self.queues.iter().filter_map(|queue| Some(queue.get("queue")?.as_str()?.to_owned())).collect()
    }

    /// Returns the configuration of a one-node Flux instance for this site, with simulated nodes and tasks.
    pub(super) fn build_flux_config(&self) -> Value {
        let queues: Map<String, Value> =
            self.queue_names().into_iter().map(|queue| (queue, json!({}))).collect();
        json!({
            "fake-resources": {"nnodes": self.cluster.nodes, "cores-per-node": self.cluster.cores_per_node},
            "queues": queues,
            "exec": {"testexec": {"allow-guests": true}},
            "ingest": {"validator": {"disable": true}},
        })
    }

    /// Describes the numbers of users, associations, banks, and queues for the output.
    pub(super) fn describe_size(&self) -> String {
        format!(
            "{} users, {} associations, {} banks, {} queues",
            self.users.len(),
            self.associations.len(),
            self.banks.len(),
            self.queues.len()
        )
    }

    /// Returns the users in the form of the environment variable DEMO_USERS.
    pub(super) fn format_users(&self) -> String {
        let users: Vec<String> = self.users.iter().map(|(name, id)| format!("{name}:{id}")).collect();
        users.join(" ")
    }

    /// Returns the site document for `policy_update`. `now` is the time of the usage.
    pub(super) fn build_document(&self, now: f64) -> Result<Value, String> {
        let queues = self.queues.iter().map(|queue| add_defaults(&self.defaults.queue, queue));
        let factors = self.factors.iter().map(|(factor, weight)| json!({"factor": factor, "weight": weight}));
        let mut tree = self.tree.clone();
        tree.insert("at".to_owned(), json!(now));
        Ok(json!({
            "associations": self.association_records()?,
            "queues": queues.collect::<Value>(),
            "projects": [{"project": "*"}],
            "banks": self.banks,
            "priority_factors": factors.collect::<Value>(),
            "config": {},
            "tree": tree,
        }))
    }

    /// Returns the records of the associations. The first bank of a user is the default bank.
    fn association_records(&self) -> Result<Value, String> {
        let mut default_banks: BTreeMap<u32, Value> = BTreeMap::new();
        let mut records = Vec::new();
        for association in &self.associations {
            let text = |key: &str| association.get(key).and_then(Value::as_str);
            let user = text("user").ok_or("an association has no user")?;
            let bank = text("bank").ok_or_else(|| format!("an association of user {user} has no bank"))?;
            let uid = self.user_id(user)?;
            let default_bank = default_banks.entry(uid).or_insert_with(|| json!(bank)).clone();
            let mut record = add_defaults(&self.defaults.association, association);
            if let Some(record) = record.as_object_mut() {
                record.remove("user");
                record.insert("username".to_owned(), json!(user));
                record.insert("userid".to_owned(), json!(uid));
                record.insert("def_bank".to_owned(), default_bank);
            }
            records.push(record);
        }
        Ok(Value::Array(records))
    }

    /// Returns the jobspec of a job: whole nodes, and simulated tasks that end on request of the demo.
    pub(super) fn build_jobspec(&self, job: &DemoJob) -> Value {
        let mut system = json!({
            "duration": 3600.0, "cwd": "/", "environment": {}, "queue": job.queue,
            "exec": {"test": {"run_duration": "1h", "override": 1}},
        });
        if let (Some(bank), Some(system)) = (&job.bank, system.as_object_mut()) {
            system.insert("bank".to_owned(), json!(bank));
        }
        let cores = json!([{"type": "core", "count": self.cluster.cores_per_node}]);
        let slot = json!([{"type": "slot", "count": 1, "label": "task", "with": cores}]);
        json!({
            "version": 1,
            "resources": [{"type": "node", "count": job.nodes.unwrap_or(1), "with": slot}],
            "tasks": [{"command": ["true"], "slot": "task", "count": {"per_slot": 1}}],
            "attributes": {"system": system},
        })
    }
}

fn add_defaults(defaults: &Map<String, Value>, record: &Map<String, Value>) -> Value {
    let mut filled = defaults.clone();
    filled.extend(record.iter().map(|(key, value)| (key.clone(), value.clone())));
    Value::Object(filled)
}
