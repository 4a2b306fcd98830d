// SPDX-License-Identifier: LGPL-3.0-only
//! What the priority plugin is told: the records of its RPCs, out of the database or an `export-json` document.

use serde::{Deserialize, Serialize};

use super::policy_tree::{BranchRecord, LeafRecord, TreeRecord};
use super::schema::Column;
use super::site_limits::{LimitRecord, StoredLimit};
use super::values::{Cells, edit_config};
use super::{Reason, Snapshot, StoreError};

/// Everything the plugin needs to know, in the shape `flux account export-json` prints.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PolicyData {
    /// One per user and bank.
    pub associations: Vec<AssociationRecord>,
    /// One per queue.
    pub queues: Vec<QueueRecord>,
    /// One per project.
    pub projects: Vec<ProjectRecord>,
    /// One per bank.
    pub banks: Vec<BankRecord>,
    /// Switches.
    #[serde(default)]
    pub config: ConfigRecord,
    /// One per factor of the priority.
    pub priority_factors: Vec<FactorRecord>,
    /// Limits beyond flux-accounting's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<LimitRecord>,
    /// What a tree of the banks and associations is ranked by; `None` where they are no tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreeRecord>,
    /// What stood in for columns and tables newer than the database, as `table.column: value`.
    #[serde(skip)]
    pub notes: Vec<String>,
    /// Limits on users who are not there any more: these are not sent.
    #[serde(skip)]
    pub lost_limits: Vec<StoredLimit>,
}

impl PolicyData {
    /// The limits that queues put on the jobs of all associations together, as queue, bank above all, measure and value. A
    /// value below 0 admits nothing, as 0.
    fn limits_of_queues(&self) -> impl Iterator<Item = (&str, &str, &'static str, i64)> {
        let is_root =
            |bank: &&BankRecord| bank.branch.as_ref().is_some_and(|branch| branch.parent.is_empty());
        let root = self.banks.iter().find(is_root).map(|bank| bank.bank.as_str());
        self.queues.iter().filter_map(move |queue| Some((queue, root?))).flat_map(|(queue, root)| {
            [("run-sched-nodes", queue.max_nodes), ("run-sched-cores", queue.max_cores)]
                .into_iter()
                .filter(|(_, value)| *value < unlimited())
                .map(move |(measure, value)| (queue.queue.as_str(), root, measure, value.max(0)))
        })
    }

    /// Adds the limits of queues to those that are sent. Where the site set such a limit itself, the lower one counts.
    pub fn add_limits_of_queues(&mut self) {
        let all: Vec<(String, String, &str, i64)> = self
            .limits_of_queues()
            .map(|(queue, root, measure, value)| (queue.to_owned(), root.to_owned(), measure, value))
            .collect();
        for (queue, name, measure, value) in all {
            let is_here =
                |record: &LimitRecord| record.scope == "bank" && record.name == name && record.queue == queue;
            let set = self.limits.iter_mut().filter(|record| is_here(record));
            match set.filter_map(|record| record.caps.get_mut(measure)).next() {
                Some(cap) => *cap = value.min(*cap),
                None => {
                    let caps = [(measure.to_owned(), value)].into();
                    self.limits.push(LimitRecord {
                        scope: "bank".to_owned(),
                        name,
                        queue,
                        counts: None,
                        caps,
                    });
                }
            }
        }
    }
}

/// A user in a bank: limits, permissions, fair-share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AssociationRecord {
    /// The Unix user id.
    pub userid: i64,
    /// The bank.
    pub bank: String,
    /// The bank of jobs that name none.
    pub def_bank: String,
    /// 0 to 1.
    pub fairshare: f64,
    /// Jobs that may run at once.
    pub max_running_jobs: i64,
    /// Jobs that may be submitted at once; 0 is unlimited.
    pub max_active_jobs: i64,
    /// Permitted queues, separated by commas.
    pub queues: String,
    /// 0 is disabled.
    pub active: i64,
    /// Permitted projects, separated by commas.
    pub projects: String,
    /// The project of jobs that name none.
    pub def_project: String,
    /// Nodes of running jobs.
    pub max_nodes: i64,
    /// Cores of running jobs.
    pub max_cores: i64,
    /// Jobs the scheduler may be given at once.
    pub max_sched_jobs: i64,
    /// Its leaf of the tree.
    #[serde(flatten)]
    pub leaf: Option<LeafRecord>,
}

/// A queue: its priority and its limits per association.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// Nodes of all associations' jobs in SCHED and RUN: sent as a limit on the bank above all, in this queue.
    #[serde(default = "unlimited", skip_serializing)]
    pub max_nodes: i64,
    /// Cores, likewise.
    #[serde(default = "unlimited", skip_serializing)]
    pub max_cores: i64,
}

/// How flux-accounting's database says that there is no limit.
fn unlimited() -> i64 {
    2_147_483_647
}

/// A project's name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct ProjectRecord {
    pub project: String,
}

/// A bank's priority.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct BankRecord {
    pub bank: String,
    pub priority: f64,
    #[serde(flatten)]
    pub branch: Option<BranchRecord>,
}

/// The weight of one factor of the priority.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct FactorRecord {
    pub factor: String,
    pub weight: i64,
}

/// Switches of the plugin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConfigRecord {
    /// Refuse jobs in queues the database does not know.
    #[serde(default)]
    pub deny_unknown_queues: bool,
    /// What a score of 0 or less means; only sent where the database sets it (upstream's plugin has no such switch).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zero_score: Option<String>,
}

const UNLIMITED: Option<&str> = Some("2147483647");

/// The first six are as old as the plugin's protocol and must exist; the others came later, with these defaults.
const ASSOCIATION: [Column; 12] = [
    ("userid", None),
    ("bank", None),
    ("default_bank", None),
    ("fairshare", None),
    ("max_running_jobs", None),
    ("max_active_jobs", None),
    ("queues", Some("''")),
    ("projects", Some("'*'")),
    ("default_project", Some("'*'")),
    ("max_nodes", UNLIMITED),
    ("max_cores", UNLIMITED),
    ("max_sched_jobs", UNLIMITED),
];

const BANK: [Column; 2] = [("bank", None), ("priority", Some("0.0"))];

const QUEUE: [Column; 12] = [
    ("queue", None),
    ("min_nodes_per_job", None),
    ("max_nodes_per_job", None),
    ("max_time_per_job", None),
    ("priority", Some("0")),
    ("max_running_jobs", Some("100")),
    ("max_nodes_per_assoc", UNLIMITED),
    ("max_sched_jobs", UNLIMITED),
    ("max_sched_nodes_per_assoc", UNLIMITED),
    ("max_sched_cores_per_assoc", UNLIMITED),
    ("max_nodes", UNLIMITED),
    ("max_cores", UNLIMITED),
];

const FACTORS: [(&str, i64); 4] = [("fairshare", 100_000), ("queue", 10_000), ("bank", 0), ("urgency", 1000)];

impl Snapshot<'_> {
    /// Reads everything the plugin is told at the time `now`, in seconds since the epoch; rows in the order of the tables.
    pub fn policy_data(&self, now: f64) -> Result<PolicyData, StoreError> {
        let mut notes = Vec::new();
        let mut associations = self.association_records(&mut notes)?;
        let mut lacking = Vec::new();
        let queues = self.records("queue_table", &QUEUE, &mut lacking, queue_record)?.unwrap_or_else(|| {
            lacking.push("queue_table: no queues".to_owned());
            Vec::new()
        });
        // A database before schema 38 can't set limits over all associations: it lacks nothing by that.
        let is_over_all = |note: &String| {
            note.starts_with("queue_table.max_nodes:") || note.starts_with("queue_table.max_cores:")
        };
        notes.extend(lacking.into_iter().filter(|note| !is_over_all(note)));
        let project = [("project", None)];
        let read = |cells: &Cells<'_, '_>| Ok(ProjectRecord { project: cells.name(0)?.to_owned() });
        let projects = self.records("project_table", &project, &mut notes, read)?.unwrap_or_else(|| {
            notes.push("project_table: '*'".to_owned());
            vec![ProjectRecord { project: "*".to_owned() }]
        });
        let banks = self.bank_records(&mut notes)?;
        let read = |cells: &Cells<'_, '_>| {
            Ok(FactorRecord { factor: cells.text(0)?.to_owned(), weight: cells.integer(1)? })
        };
        let factor = [("factor", None), ("weight", None)];
        let priority_factors =
            self.records("priority_factor_weight_table", &factor, &mut notes, read)?.unwrap_or_else(|| {
                notes.push("priority_factor_weight_table: the plugin's default weights".to_owned());
                let record =
                    |(factor, weight): (&str, i64)| FactorRecord { factor: factor.to_owned(), weight };
                FACTORS.map(record).to_vec()
            });
        let config = self.config_record(&mut notes)?;
        let (limits, lost_limits) = self.limit_records()?;
        let tree = self.tree_record(&banks, &mut associations, now)?;
        self.check_unchanged()?;
        let mut data = PolicyData {
            associations,
            queues,
            projects,
            banks,
            config,
            priority_factors,
            limits,
            tree,
            notes,
            lost_limits,
        };
        data.add_limits_of_queues();
        Ok(data)
    }

    /// The limits of [`PolicyData::limits_of_queues`], as they would be stored.
    pub fn limits_of_queues(&self) -> Result<Vec<StoredLimit>, StoreError> {
        let mut notes = Vec::new();
        let queues = self.records("queue_table", &QUEUE, &mut notes, queue_record)?.unwrap_or_default();
        let data = PolicyData { queues, banks: self.bank_records(&mut notes)?, ..PolicyData::default() };
        let one = |(queue, root, measure, value): (&str, &str, &str, i64)| StoredLimit {
            scope: "bank".to_owned(),
            name: root.to_owned(),
            queue: queue.to_owned(),
            measure: measure.to_owned(),
            value,
            is_given: false,
        };
        Ok(data.limits_of_queues().map(one).collect())
    }

    fn association_records(&self, notes: &mut Vec<String>) -> Result<Vec<AssociationRecord>, StoreError> {
        const NAME: &str = "association_table";
        let table = self.needed_table(NAME)?;
        let select = table.select(&ASSOCIATION, notes).map_err(|text| self.schema_error(&text))?;
        if table.active() == "1" {
            notes.push(format!("{NAME}.active: 1"));
        }
        let mut columns: Vec<&'static str> = ASSOCIATION.iter().map(|(name, _)| *name).collect();
        columns.push("active");
        let mut sql = select.replacen(" FROM", &format!(", {} FROM", table.active()), 1);
        let first = columns.len();
        let leaf = LeafRecord::columns(&table);
        also_select(&mut sql, &mut columns, leaf.as_deref());
        self.rows(NAME, &sql, &columns, |cells| {
            Ok(AssociationRecord {
                userid: cells.user_id(0),
                bank: cells.name(1)?.to_owned(),
                def_bank: cells.text(2)?.to_owned(),
                fairshare: cells.number(3)?,
                max_running_jobs: cells.integer(4)?,
                max_active_jobs: cells.integer(5)?,
                queues: cells.text(6)?.to_owned(),
                projects: cells.text(7)?.to_owned(),
                def_project: cells.text(8)?.to_owned(),
                max_nodes: cells.integer(9)?,
                max_cores: cells.integer(10)?,
                max_sched_jobs: cells.integer(11)?,
                active: cells.integer(12)?,
                leaf: leaf.as_ref().map(|_| LeafRecord::read(cells, first)).transpose()?,
            })
        })
    }

    fn bank_records(&self, notes: &mut Vec<String>) -> Result<Vec<BankRecord>, StoreError> {
        const NAME: &str = "bank_table";
        let table = self.needed_table(NAME)?;
        let select = table.select(&BANK, notes).map_err(|text| self.schema_error(&text))?;
        let (mut sql, mut columns) = (select, BANK.map(|(name, _)| name).to_vec());
        let branch = BranchRecord::columns(&table);
        also_select(&mut sql, &mut columns, branch.as_deref());
        self.rows(NAME, &sql, &columns, |cells| {
            Ok(BankRecord {
                bank: cells.name(0)?.to_owned(),
                priority: cells.number(1)?,
                branch: branch.as_ref().map(|_| BranchRecord::read(cells, BANK.len())).transpose()?,
            })
        })
    }

    fn config_record(&self, notes: &mut Vec<String>) -> Result<ConfigRecord, StoreError> {
        const NAME: &str = "config_table";
        if self.table(NAME)?.is_none() {
            notes.push(format!("{NAME}: deny_unknown_queues false"));
            return Ok(ConfigRecord::default());
        }
        let sql = "SELECT key, value FROM config_table WHERE key IN ('deny_unknown_queues', 'zero_score')";
        let pairs = self.rows(NAME, sql, &["key", "value"], |cells| {
            Ok((cells.text(0)?.to_owned(), cells.text(1)?.trim().to_lowercase()))
        })?;
        let mut config = ConfigRecord::default();
        for (key, value) in pairs {
            match (key.as_str(), value.as_str()) {
                ("zero_score", "hold" | "floor") => config.zero_score = Some(value),
                ("deny_unknown_queues", "true" | "false") => config.deny_unknown_queues = value == "true",
                _ => {
                    let expected = if key == "zero_score" { "hold or floor" } else { "true or false" };
                    let mend = edit_config(&key);
                    let text = format!("{NAME}: {key} is \"{value}\", expected {expected}; {mend}");
                    return Err(self.error(Reason::Value(text)));
                }
            }
        }
        Ok(config)
    }

    fn records<T>(
        &self,
        name: &'static str,
        columns: &[Column],
        notes: &mut Vec<String>,
        read: impl FnMut(&Cells<'_, '_>) -> Result<T, String>,
    ) -> Result<Option<Vec<T>>, StoreError> {
        let Some(table) = self.table(name)? else { return Ok(None) };
        let sql = table.select(columns, notes).map_err(|text| self.schema_error(&text))?;
        let names: Vec<&'static str> = columns.iter().map(|(name, _)| *name).collect();
        self.rows(name, &sql, &names, read).map(Some)
    }

    fn rows<T>(
        &self,
        table: &'static str,
        sql: &str,
        columns: &[&'static str],
        mut read: impl FnMut(&Cells<'_, '_>) -> Result<T, String>,
    ) -> Result<Vec<T>, StoreError> {
        let mut statement = self.transaction.prepare(sql).map_err(|error| self.fail(&error))?;
        let mut rows = statement.query([]).map_err(|error| self.fail(&error))?;
        let mut records = Vec::new();
        while let Some(row) = rows.next().map_err(|error| self.fail(&error))? {
            let cells = Cells { table, row, number: records.len() + 1, columns };
            records.push(read(&cells).map_err(|text| self.error(Reason::Value(text)))?);
        }
        Ok(records)
    }
}

/// Extends a `SELECT` by columns, each with its SQL.
fn also_select(
    sql: &mut String,
    columns: &mut Vec<&'static str>,
    more: Option<&[(&'static str, &'static str)]>,
) {
    for (name, expression) in more.into_iter().flatten() {
        *sql = sql.replacen(" FROM", &format!(", {expression} FROM"), 1);
        columns.push(name);
    }
}

fn queue_record(cells: &Cells<'_, '_>) -> Result<QueueRecord, String> {
    Ok(QueueRecord {
        queue: cells.name(0)?.to_owned(),
        min_nodes_per_job: cells.integer(1)?,
        max_nodes_per_job: cells.integer(2)?,
        max_time_per_job: cells.integer(3)?,
        priority: cells.integer(4)?,
        max_running_jobs: cells.integer(5)?,
        max_nodes_per_assoc: cells.integer(6)?,
        max_sched_jobs: cells.integer(7)?,
        max_sched_nodes_per_assoc: cells.integer(8)?,
        max_sched_cores_per_assoc: cells.integer(9)?,
        max_nodes: cells.integer(10)?,
        max_cores: cells.integer(11)?,
    })
}
