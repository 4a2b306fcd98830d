// SPDX-License-Identifier: LGPL-3.0-only
//! Reads the site document of a push from the database or from an `export-json` document.

use serde::de::DeserializeOwned;
use serde::de::value::MapDeserializer;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::credits::Credit;
use super::policy_tree::TreeRecord;
use super::schema::Column;
use super::site_limits::StoredLimit;
use super::values::{QueryRow, edit_config};
use super::{Fault, Reason, Snapshot, StoreResult};
use fairshare::charging::{ChargeByChange, ChargeChange};
use fairshare_protocol::field::{Field, Record};
use fairshare_protocol::records::{
    AssociationRecord, BankRecord, BudgetRecord, FactorRecord, LimitRecord, ProjectRecord, QueueRecord,
    UNLIMITED,
};

/// The site document, in the format of `flux account export-json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PolicyData {
    /// One record per user and bank.
    pub associations: Vec<AssociationRecord>,
    /// One record per queue.
    pub queues: Vec<QueueRecord>,
    /// One record per project.
    pub projects: Vec<ProjectRecord>,
    /// One record per bank.
    pub banks: Vec<BankRecord>,
    /// Settings of the plugin.
    #[serde(default)]
    pub config: ConfigRecord,
    /// One record per priority factor.
    pub priority_factors: Vec<FactorRecord>,
    /// Limits beyond flux-accounting's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<LimitRecord>,
    /// Changes of the charge factors of queues.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub charges: Vec<ChargeChange>,
    /// Changes of the resources that jobs are charged for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub charge_by: Vec<ChargeByChange>,
    /// The budgets. A budget has one record for each of its time windows. [`crate::pipeline::budgets::add_to_push`]
    /// adds the records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<BudgetRecord>,
    /// How the tree of banks and associations is ranked; `None` if they do not form a tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreeRecord>,
    /// Substitutes for columns and tables that the database lacks, as `table.column: value`.
    #[serde(skip)]
    pub notes: Vec<String>,
    /// Limits on users that are no longer in the database. They are not sent.
    #[serde(skip)]
    pub lost_limits: Vec<StoredLimit>,
    /// Credits that no sync has counted yet. They are missing in the usage of the associations.
    #[serde(skip)]
    pub uncounted_credits: Vec<Credit>,
}

impl PolicyData {
    /// Returns the limits of queues on all associations together, as queue, root bank, measure and value. Values
    /// below 0 become 0.
    fn list_queue_limits(&self) -> impl Iterator<Item = (&str, &str, &'static str, i64)> {
        let is_root = |bank: &&BankRecord| bank.parent.as_ref().is_some_and(String::is_empty);
        let root = self.banks.iter().find(is_root).map(|bank| bank.bank.as_str());
        self.queues.iter().filter_map(move |queue| Some((queue, root?))).flat_map(|(queue, root)| {
            [("run-sched-nodes", queue.max_nodes), ("run-sched-cores", queue.max_cores)]
                .into_iter()
                .filter_map(|(measure, value)| Some((measure, value.filter(|value| *value < UNLIMITED)?)))
                .map(move |(measure, value)| (queue.queue.as_str(), root, measure, value.max(0)))
        })
    }

    /// Adds the limits of queues to the limits that a push sends. If the site has set the same limit, the
    /// lower value is sent.
    pub fn add_queue_limits(&mut self) {
        let all: Vec<(String, String, &str, i64)> = self
            .list_queue_limits()
            .map(|(queue, root, measure, value)| (queue.to_owned(), root.to_owned(), measure, value))
            .collect();
        for (queue, name, measure, value) in all {
            let is_same_target =
                |record: &LimitRecord| record.scope == "bank" && record.name == name && record.queue == queue;
            let set = self.limits.iter_mut().filter(|record| is_same_target(record));
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

/// Settings of the plugin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConfigRecord {
    /// True if jobs in unknown queues are rejected.
    #[serde(default)]
    pub deny_unknown_queues: bool,
    /// How the plugin treats a job if the sum of its priority terms is 0 or less. A push contains this setting only
    /// if the database has it, because flux-accounting's plugin has no such setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zero_score: Option<String>,
}

const FACTORS: [(&str, i64); 4] = [("fairshare", 100_000), ("queue", 10_000), ("bank", 0), ("urgency", 1000)];

impl Snapshot<'_> {
    /// Reads the site document at the time `now`, in seconds since the epoch. Rows are in the order of the tables.
    pub fn policy_data(&self, now: f64) -> StoreResult<PolicyData> {
        let mut notes = Vec::new();
        let mut associations: Vec<AssociationRecord> = self.read_needed_records(&mut notes)?;
        for association in associations.iter_mut().filter(|association| association.username.is_some()) {
            association.counted_until = Some(0.0);
        }
        let queues = self.read_records(&mut notes)?.unwrap_or_else(|| {
            notes.push("queue_table: no queues".to_owned());
            Vec::new()
        });
        let projects = self.read_records(&mut notes)?.unwrap_or_else(|| {
            notes.push("project_table: '*'".to_owned());
            vec![ProjectRecord { project: "*".to_owned() }]
        });
        let banks = self.read_needed_records(&mut notes)?;
        let priority_factors = self.read_records(&mut notes)?.unwrap_or_else(|| {
            notes.push("priority_factor_weight_table: the plugin's default weights".to_owned());
            FACTORS.map(|(factor, weight)| FactorRecord { factor: factor.to_owned(), weight }).to_vec()
        });
        let config = self.read_config_record(&mut notes)?;
        let (limits, lost_limits) = self.read_limit_records()?;
        let history = self.charge_history()?;
        let (charges, charge_by) = (history.changes().collect(), history.rules().to_vec());
        let tree = self.make_tree_record(&banks, &mut associations, now)?;
        self.check_database_unchanged()?;
        let mut data = PolicyData {
            associations,
            queues,
            projects,
            banks,
            config,
            priority_factors,
            limits,
            charges,
            charge_by,
            budgets: Vec::new(),
            tree,
            notes,
            lost_limits,
            uncounted_credits: self.uncounted_credits()?,
        };
        data.add_queue_limits();
        Ok(data)
    }

    /// Returns the limits of [`PolicyData::list_queue_limits`], in the form of the database.
    pub fn list_queue_limits(&self) -> StoreResult<Vec<StoredLimit>> {
        let mut notes = Vec::new();
        let queues = self.read_records(&mut notes)?.unwrap_or_default();
        let data =
            PolicyData { queues, banks: self.read_needed_records(&mut notes)?, ..PolicyData::default() };
        let to_limit = |(queue, root, measure, value): (&str, &str, &str, i64)| StoredLimit {
            scope: "bank".to_owned(),
            name: root.to_owned(),
            queue: queue.to_owned(),
            measure: measure.to_owned(),
            value,
            is_given: false,
        };
        Ok(data.list_queue_limits().map(to_limit).collect())
    }

    fn read_config_record(&self, notes: &mut Vec<String>) -> StoreResult<ConfigRecord> {
        const NAME: &str = "config_table";
        if self.table(NAME)?.is_none() {
            notes.push(format!("{NAME}: deny_unknown_queues false"));
            return Ok(ConfigRecord::default());
        }
        let sql = "SELECT key, value FROM config_table WHERE key IN ('deny_unknown_queues', 'zero_score')";
        let pairs = self.read_rows(NAME, sql, &["key", "value"], |cells| {
            Ok((cells.text(0)?.to_owned(), cells.text(1)?.trim().to_lowercase()))
        })?;
        let mut config = ConfigRecord::default();
        for (key, value) in pairs {
            match (key.as_str(), value.as_str()) {
                ("zero_score", "hold" | "floor") => config.zero_score = Some(value),
                ("deny_unknown_queues", "true" | "false") => config.deny_unknown_queues = value == "true",
                _ => {
                    let expected = if key == "zero_score" { "hold or floor" } else { "true or false" };
                    let problem = format!("{NAME}: {key} is \"{value}\", expected {expected}");
                    let remedy = Some(edit_config(&key));
                    return Err(self.error(Reason::Value(Fault { problem, remedy })));
                }
            }
        }
        Ok(config)
    }

    /// Reads the records of a table that must exist.
    fn read_needed_records<R: Record + DeserializeOwned>(
        &self,
        notes: &mut Vec<String>,
    ) -> StoreResult<Vec<R>> {
        self.required_table(R::TABLE)?;
        Ok(self.read_records(notes)?.unwrap_or_default())
    }

    /// Reads the records of a table, or returns `None` if there is no such table. Adds the substitutes for missing
    /// columns to `notes`.
    ///
    /// Optional fields are read only if the table has all of them or substitutes.
    fn read_records<R: Record + DeserializeOwned>(
        &self,
        notes: &mut Vec<String>,
    ) -> StoreResult<Option<Vec<R>>> {
        let Some(table) = self.table(R::TABLE)? else { return Ok(None) };
        let columns = |fields: &'static [Field]| -> Vec<(&'static Field, Column)> {
            fields.iter().filter_map(|field| Some((field, (field.column?, field.substitute)))).collect()
        };
        let mut all = columns(R::FIELDS);
        let lacks = all.iter().filter(|(_, (column, _))| table.expression(column).is_none());
        notes.extend(lacks.filter_map(|(_, (name, literal))| {
            let literal = (*literal)?;
            Some(format!("{}.{name}: {literal}", R::TABLE))
        }));
        let optional = columns(R::OPTIONAL);
        let is_there = |column: &Column| column.1.is_some() || table.expression(column.0).is_some();
        if optional.iter().all(|(_, column)| is_there(column)) {
            all.extend(optional);
        }
        let (fields, columns): (Vec<&Field>, Vec<Column>) = all.into_iter().unzip();
        let sql = table.build_select(&columns).map_err(|text| self.schema_error(&text))?;
        let names: Vec<&'static str> = columns.iter().map(|(name, _)| *name).collect();
        let records = self.read_rows(R::TABLE, &sql, &names, |cells| {
            let value = |(at, field): (usize, &&Field)| Ok((field.key, cells.read(at, field.kind)?));
            let values: Vec<(&str, Value)> =
                fields.iter().enumerate().map(value).collect::<Result<_, Fault>>()?;
            let record = R::deserialize(MapDeserializer::new(values.into_iter()));
            record.map_err(|error: serde_json::Error| format!("{}: {error}", R::TABLE).into())
        })?;
        Ok(Some(records))
    }

    /// Calls `read` for each row of a query, and returns the results.
    pub(super) fn read_rows<T>(
        &self,
        table: &'static str,
        sql: &str,
        columns: &[&'static str],
        mut read: impl FnMut(&QueryRow<'_, '_>) -> Result<T, Fault>,
    ) -> StoreResult<Vec<T>> {
        let mut records = Vec::new();
        self.visit_rows(sql, table, columns, |cells| {
            records.push(read(cells)?);
            Ok(())
        })?;
        Ok(records)
    }
}
