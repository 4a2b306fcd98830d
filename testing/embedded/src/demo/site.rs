// SPDX-License-Identifier: LGPL-3.0-only
//! The site of a demo, read from a JSON file: who may do what, which jobs come, and which of them end.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// A site and what happens there.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Site {
    pub(super) cluster: DemoCluster,
    /// User ids by name; no account of the machine is needed.
    users: BTreeMap<String, u32>,
    defaults: Defaults,
    factors: BTreeMap<String, i64>,
    banks: BTreeMap<String, f64>,
    queues: Vec<Map<String, Value>>,
    associations: Vec<Map<String, Value>>,
    /// Submitted in this order.
    pub(super) jobs: Vec<DemoJob>,
    /// Names of jobs that end, in this order.
    pub(super) ends: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DemoCluster {
    pub(super) nodes: usize,
    pub(super) cores_per_node: usize,
}

/// What records hold besides what they say themselves.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Defaults {
    queue: Map<String, Value>,
    association: Map<String, Value>,
}

/// A job of whole nodes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DemoJob {
    /// How `ends` calls it.
    pub(super) name: Option<String>,
    pub(super) user: String,
    pub(super) queue: String,
    /// The user's default bank, if none.
    pub(super) bank: Option<String>,
    #[serde(default = "one")]
    pub(super) nodes: u64,
    #[serde(default = "default_urgency")]
    pub(super) urgency: i32,
}

fn one() -> u64 {
    1
}

fn default_urgency() -> i32 {
    16
}

impl Site {
    /// Reads a site file; the error names it.
    pub(super) fn read(path: &Path) -> Result<Site, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    pub(super) fn uid(&self, user: &str) -> Result<u32, String> {
        self.users.get(user).copied().ok_or_else(|| format!("the site has no user {user}"))
    }

    /// The user's name, or the id if it is none of the site's.
    pub(super) fn user(&self, uid: u32) -> String {
        let known = self.users.iter().find(|(_, id)| **id == uid);
        known.map_or_else(|| uid.to_string(), |(name, _)| name.clone())
    }

    pub(super) fn queue_names(&self) -> Vec<String> {
        self.queues.iter().filter_map(|queue| Some(queue.get("queue")?.as_str()?.to_owned())).collect()
    }

    /// Configuration of a one-node Flux instance that plays this site: its cluster is made up, tasks are pretended.
    pub(super) fn flux_config(&self) -> Value {
        let queues: Map<String, Value> =
            self.queue_names().into_iter().map(|queue| (queue, json!({}))).collect();
        json!({
            "fake-resources": {"nnodes": self.cluster.nodes, "cores-per-node": self.cluster.cores_per_node},
            "queues": queues,
            "exec": {"testexec": {"allow-guests": true}},
            "ingest": {"validator": {"disable": true}},
        })
    }

    /// How much there is of everything, for people.
    pub(super) fn size(&self) -> String {
        format!(
            "{} users, {} associations, {} banks, {} queues",
            self.users.len(),
            self.associations.len(),
            self.banks.len(),
            self.queues.len()
        )
    }

    /// The requests that bring the site into the plugin, in the order `flux account-priority-update` sends them.
    pub(super) fn requests(&self) -> Result<Vec<(&'static str, Value)>, String> {
        let queues = self.queues.iter().map(|queue| filled(&self.defaults.queue, queue));
        let banks = self.banks.iter().map(|(bank, priority)| json!({"bank": bank, "priority": priority}));
        let factors = self.factors.iter().map(|(factor, weight)| json!({"factor": factor, "weight": weight}));
        Ok(vec![
            ("rec_update", self.association_records()?),
            ("rec_q_update", queues.collect()),
            ("rec_proj_update", json!([{"project": "*"}])),
            ("rec_bank_update", banks.collect()),
            ("rec_fac_update", factors.collect()),
            ("rec_config_update", json!({})),
        ])
    }

    /// A user's first bank is the default one.
    fn association_records(&self) -> Result<Value, String> {
        let mut default_banks: BTreeMap<u32, Value> = BTreeMap::new();
        let mut records = Vec::new();
        for association in &self.associations {
            let text = |key: &str| association.get(key).and_then(Value::as_str);
            let user = text("user").ok_or("an association without a user")?;
            let bank = text("bank").ok_or_else(|| format!("an association of {user} without a bank"))?;
            let uid = self.uid(user)?;
            let default_bank = default_banks.entry(uid).or_insert_with(|| json!(bank)).clone();
            let mut record = filled(&self.defaults.association, association);
            if let Some(record) = record.as_object_mut() {
                record.remove("user");
                record.insert("userid".to_owned(), json!(uid));
                record.insert("def_bank".to_owned(), default_bank);
            }
            records.push(record);
        }
        Ok(Value::Array(records))
    }

    /// The jobspec of a job: whole nodes, tasks that are only pretended and end when told.
    pub(super) fn jobspec(&self, job: &DemoJob) -> Value {
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
            "resources": [{"type": "node", "count": job.nodes, "with": slot}],
            "tasks": [{"command": ["true"], "slot": "task", "count": {"per_slot": 1}}],
            "attributes": {"system": system},
        })
    }
}

fn filled(defaults: &Map<String, Value>, record: &Map<String, Value>) -> Value {
    let mut filled = defaults.clone();
    filled.extend(record.iter().map(|(key, value)| (key.clone(), value.clone())));
    Value::Object(filled)
}
