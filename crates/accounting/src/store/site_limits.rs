// SPDX-License-Identifier: LGPL-3.0-only
//! Reads and writes the limits that a site sets beyond flux-accounting's. These limits are in an additional
//! table, which is created with the first limit. flux-accounting's tools, including `update-db`, leave
//! unknown tables unchanged.

use std::collections::BTreeMap;

use super::schema::Column;
use super::{Fault, Reason, Snapshot, StoreResult};
use fairshare_engine::accounts::measures;
use fairshare_engine::ids::Amount;
use fairshare_protocol::records::LimitRecord;

const TABLE: &str = "fairshare_limit_table";
const COLUMNS: &str = "scope name queue measure value counts";

/// A limit in the form of the database, with user names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub struct StoredLimit {
    pub scope: String,
    pub name: String,
    /// Name of the queue; empty means all queues.
    pub queue: String,
    /// Name of the measure, for example `run-gpus`.
    pub measure: String,
    pub value: i64,
    pub is_given: bool,
}

impl StoredLimit {
    /// Returns the fault of a limit that the plugin would reject. Only another program can have
    /// stored such a limit.
    fn describe_invalid_limit(&self) -> Option<Fault> {
        let StoredLimit { scope, name, queue, measure, value, .. } = self;
        let what = match Amount::parse(measure) {
            None => format!("measure is \"{measure}\", expected one of {}", measures().join(", ")),
            Some(_) if *value < 0 => format!("value is {value}, expected a whole number >= 0"),
            Some(_) => return None,
        };
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
        let delete = format!(
            "DELETE FROM {TABLE} WHERE scope = {} AND name = {} AND queue = {} AND measure = {}",
            quoted(scope),
            quoted(name),
            quoted(queue),
            quoted(measure)
        );
        let remedy = Some(format!("`sqlite3 DATABASE \"{delete}\"` removes the limit"));
        Some(Fault { problem: format!("{TABLE}: {scope} {name}: {what}"), remedy })
    }
}

/// User ids by name.
#[derive(Debug)]
pub struct UserIds(BTreeMap<String, i64>);

impl UserIds {
    /// Returns the name of a target as the plugin expects it: with the id of the user instead of their name.
    /// Returns `None` if the user has no valid id.
    pub fn name_by_id(&self, scope: &str, name: &str) -> Option<String> {
        // The plugin rejects a user id that no job can have.
        let is_user = |id: &&i64| (0..i64::from(u32::MAX)).contains(*id);
        let id = |user: &str| self.0.get(user).filter(is_user).map(i64::to_string);
        match scope {
            "user" => id(name),
            "association" => {
                name.split_once('/').and_then(|(user, bank)| Some(format!("{}/{bank}", id(user)?)))
            }
            _ => Some(name.to_owned()),
        }
    }
}

impl Snapshot<'_> {
    /// Returns all stored limits, sorted.
    pub fn stored_limits(&self) -> StoreResult<Vec<StoredLimit>> {
        let mut limits = self.read_project_table(TABLE, COLUMNS, |cells| {
            Ok(StoredLimit {
                scope: cells.text(0)?.to_owned(),
                name: cells.text(1)?.to_owned(),
                queue: cells.text(2)?.to_owned(),
                measure: cells.text(3)?.to_owned(),
                value: cells.integer(4)?,
                is_given: cells.text(5)? == "given",
            })
        })?;
        limits.sort();
        Ok(limits)
    }

    /// Stores a limit, replacing one with the same scope, name, queue and measure.
    pub fn set_limit(&self, limit: &StoredLimit) -> StoreResult<()> {
        self.run_sql(|| {
            self.transaction.execute(
                "CREATE TABLE IF NOT EXISTS fairshare_limit_table (scope TEXT NOT NULL, name TEXT NOT NULL, \
                 queue TEXT NOT NULL DEFAULT '', measure TEXT NOT NULL, value INTEGER NOT NULL, \
                 counts TEXT NOT NULL DEFAULT 'asked', PRIMARY KEY (scope, name, queue, measure))",
                [],
            )?;
            let StoredLimit { scope, name, queue, measure, value, is_given } = limit;
            let counts = if *is_given { "given" } else { "asked" };
            self.transaction.execute(
                "INSERT OR REPLACE INTO fairshare_limit_table (scope, name, queue, measure, value, counts) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                (scope, name, queue, measure, value, counts),
            )?;
            Ok(())
        })
    }

    /// Removes a limit.
    pub fn unset_limit(&self, limit: &StoredLimit) -> StoreResult<()> {
        let StoredLimit { scope, name, queue, measure, .. } = limit;
        let sql = "DELETE FROM fairshare_limit_table WHERE scope = ?1 AND name = ?2 AND queue = ?3 AND measure = ?4";
        self.run_sql(|| self.transaction.execute(sql, (scope, name, queue, measure)).map(drop))
    }

    /// Returns true if the bank exists.
    pub fn has_bank(&self, bank: &str) -> StoreResult<bool> {
        self.has_row("bank_table", &[("bank", bank)])
    }

    /// Returns true if the queue exists.
    pub fn has_queue(&self, queue: &str) -> StoreResult<bool> {
        Ok(self.table("queue_table")?.is_some() && self.has_row("queue_table", &[("queue", queue)])?)
    }

    /// Returns true if the user is in `bank`, or in any bank if `bank` is `None`.
    pub fn has_user(&self, user: &str, bank: Option<&str>) -> StoreResult<bool> {
        let cells: Vec<_> = [("username", user)].into_iter().chain(bank.map(|bank| ("bank", bank))).collect();
        self.has_row("association_table", &cells)
    }

    /// Returns true if a row has these values. Returns an error that names the missing columns of an old schema.
    fn has_row(&self, table: &'static str, cells: &[(&'static str, &str)]) -> StoreResult<bool> {
        let columns: Vec<Column> = cells.iter().map(|(name, _)| (*name, None)).collect();
        self.required_table(table)?.build_select(&columns).map_err(|text| self.schema_error(&text))?;
        let conditions: Vec<String> = columns.iter().map(|(name, _)| format!("{name} = ?")).collect();
        let sql = format!("SELECT EXISTS (SELECT 1 FROM {table} WHERE {})", conditions.join(" AND "));
        let values = rusqlite::params_from_iter(cells.iter().map(|(_, value)| value));
        self.run_sql(|| self.transaction.query_row(&sql, values, |row| row.get(0)))
    }

    /// Returns the ids of the users that have associations.
    pub fn user_ids(&self) -> StoreResult<UserIds> {
        const NAME: &str = "association_table";
        let columns = [("username", None), ("userid", None)];
        let select = self.required_table(NAME)?.build_select(&columns);
        let select = select.map_err(|text| self.schema_error(&text))?;
        let ids = self.read_rows(NAME, &select, &["username", "userid"], |cells| {
            Ok((cells.text(0)?.to_owned(), cells.user_id(1)))
        })?;
        Ok(UserIds(ids.into_iter().collect()))
    }

    /// Returns the limits in the form that the plugin reads, and the limits on users that are no longer in the database.
    pub(super) fn read_limit_records(&self) -> StoreResult<(Vec<LimitRecord>, Vec<StoredLimit>)> {
        let stored = self.stored_limits()?;
        if let Some(fault) = stored.iter().find_map(StoredLimit::describe_invalid_limit) {
            return Err(self.error(Reason::Value(fault)));
        }
        let mut lost = Vec::new();
        if stored.is_empty() {
            return Ok((Vec::new(), lost));
        }
        let ids = self.user_ids()?;
        let mut records: Vec<LimitRecord> = Vec::new();
        for limit in stored {
            let name = match limit.name.as_str() {
                "*" => Some(limit.name.clone()),
                name => ids.name_by_id(&limit.scope, name),
            };
            let Some(name) = name else {
                lost.push(limit);
                continue;
            };
            let counts = limit.is_given.then(|| "given".to_owned());
            let is_same = |record: &&mut LimitRecord| {
                (&record.scope, &record.name, &record.queue, &record.counts)
                    == (&limit.scope, &name, &limit.queue, &counts)
            };
            match records.iter_mut().rev().take(2).find(is_same) {
                Some(record) => {
                    record.caps.insert(limit.measure, limit.value);
                }
                None => records.push(LimitRecord {
                    scope: limit.scope,
                    name,
                    queue: limit.queue,
                    counts,
                    caps: BTreeMap::from([(limit.measure, limit.value)]),
                }),
            }
        }
        Ok((records, lost))
    }
}
