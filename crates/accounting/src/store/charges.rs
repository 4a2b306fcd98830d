// SPDX-License-Identifier: LGPL-3.0-only
//! Stores the changes of the charge factors of queues and of the resources that jobs are charged for, in two tables of our own that
//! flux-accounting ignores. The first change creates its table. Rows are only added, so that jobs on record keep the factor and the
//! rule in force when they started.

use std::collections::BTreeMap;

use super::schema::Column;
use super::{Snapshot, StoreError};
use fairshare::charging::{ChargeBy, ChargeByChange, ChargeChange, ChargeHistory};
use fairshare::periods::Resources;

const TABLE: &str = "fairshare_charge_table";
const COLUMNS: [Column; 3] = [("queue", None), ("since", None), ("factor", None)];
/// Creates the table, and the triggers that keep its rows.
const CREATE: &str = "
    CREATE TABLE IF NOT EXISTS fairshare_charge_table (
        queue TEXT NOT NULL, since REAL NOT NULL, factor REAL NOT NULL CHECK (factor BETWEEN 0 AND 1000));
    CREATE TRIGGER IF NOT EXISTS fairshare_charge_no_update BEFORE UPDATE ON fairshare_charge_table
        BEGIN SELECT RAISE(ABORT, 'rows of fairshare_charge_table are never changed'); END;
    CREATE TRIGGER IF NOT EXISTS fairshare_charge_no_delete BEFORE DELETE ON fairshare_charge_table
        BEGIN SELECT RAISE(ABORT, 'rows of fairshare_charge_table are never removed'); END;";

const RULES: &str = "fairshare_charge_by_table";
const RULE_COLUMNS: [Column; 5] =
    [("since", None), ("charge_by", None), ("nodes", None), ("cores", None), ("gpus", None)];
const CREATE_RULES: &str = "
    CREATE TABLE IF NOT EXISTS fairshare_charge_by_table (
        since REAL NOT NULL, charge_by TEXT NOT NULL CHECK (charge_by IN ('sum', 'max')), nodes INTEGER NOT NULL,
        cores INTEGER NOT NULL, gpus INTEGER NOT NULL);
    CREATE TRIGGER IF NOT EXISTS fairshare_charge_by_no_update BEFORE UPDATE ON fairshare_charge_by_table
        BEGIN SELECT RAISE(ABORT, 'rows of fairshare_charge_by_table are never changed'); END;
    CREATE TRIGGER IF NOT EXISTS fairshare_charge_by_no_delete BEFORE DELETE ON fairshare_charge_by_table
        BEGIN SELECT RAISE(ABORT, 'rows of fairshare_charge_by_table are never removed'); END;";

/// The charge factors in Flux's configuration, and the changes that the plugin has seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportedCharges {
    /// The present factors. All other queues have the factor 1.
    pub configured: BTreeMap<String, f64>,
    /// The changes that the plugin has seen.
    pub changes: Vec<ChargeChange>,
    /// The time from which on the plugin has seen all changes, in seconds since the epoch; `None` without a plugin. A queue without a
    /// change in `changes` has had the factor 1 from then on.
    pub seen_since: Option<f64>,
    /// The resources that jobs are charged for, and those of the site; `None` if Flux does not report the site's.
    pub rule: Option<(ChargeBy, Resources)>,
}

/// The changes that a sync has stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewCharges {
    /// Changes of charge factors.
    pub factors: Vec<ChargeChange>,
    /// A change of the resources that jobs are charged for.
    pub rule: Option<ChargeByChange>,
}

impl Snapshot<'_> {
    /// Returns true if a change of a charge factor is stored.
    pub fn has_charges(&self) -> Result<bool, StoreError> {
        Ok(self.table(TABLE)?.is_some())
    }

    /// Returns true if a change of the resources that jobs are charged for is stored.
    pub fn has_charge_rules(&self) -> Result<bool, StoreError> {
        Ok(self.table(RULES)?.is_some())
    }

    fn read_rules(&self) -> Result<Vec<ChargeByChange>, StoreError> {
        let Some(table) = self.table(RULES)? else { return Ok(Vec::new()) };
        let sql = table.build_select(&RULE_COLUMNS).map_err(|text| self.schema_error(&text))?;
        let mut rules = Vec::new();
        self.visit_rows(&sql, RULES, &RULE_COLUMNS.map(|(name, _)| name), |cells| {
            let count = |at| Ok::<_, String>(u64::try_from(cells.integer(at)?).unwrap_or(0));
            let totals = Resources { nodes: count(2)?, cores: count(3)?, gpus: count(4)? };
            let charge_by = ChargeBy::parse(cells.text(1)?).unwrap_or_default();
            rules.push(ChargeByChange { since: cells.number(0)?, charge_by, totals });
            Ok(())
        })?;
        Ok(rules)
    }

    /// Stores that jobs are charged for these resources from `since` on. Returns the change, or `None` if they are already.
    fn add_charge_rule(
        &self,
        (charge_by, totals): (ChargeBy, Resources),
        since: f64,
    ) -> Result<Option<ChargeByChange>, StoreError> {
        let mut history = self.charge_history()?;
        if !history.add_rule(ChargeByChange { since, charge_by, totals }) {
            return Ok(None);
        }
        let Some(new) = history.rules().last().copied() else { return Ok(None) };
        let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let Resources { nodes, cores, gpus } = new.totals;
        let write = || -> rusqlite::Result<()> {
            self.transaction.execute_batch(CREATE_RULES)?;
            self.transaction.execute(
                "INSERT INTO fairshare_charge_by_table (since, charge_by, nodes, cores, gpus) VALUES (?1, ?2, ?3, ?4, ?5)",
                (new.since, new.charge_by.name(), count(nodes), count(cores), count(gpus)),
            )?;
            Ok(())
        };
        write().map_err(|error| self.sqlite_error(&error))?;
        Ok(Some(new))
    }

    /// Reads the stored charge factors and rules. Invalid factors, which only another program can have stored, are ignored.
    pub fn charge_history(&self) -> Result<ChargeHistory, StoreError> {
        let rules = self.read_rules()?;
        let Some(table) = self.table(TABLE)? else { return Ok(ChargeHistory::default().with_rules(rules)) };
        let sql = table.build_select(&COLUMNS).map_err(|text| self.schema_error(&text))?;
        let mut changes = Vec::new();
        self.visit_rows(&sql, TABLE, &COLUMNS.map(|(name, _)| name), |cells| {
            let (queue, since, factor) = (cells.text(0)?.into(), cells.number(1)?, cells.number(2)?);
            changes.push(ChargeChange { queue, since, factor });
            Ok(())
        })?;
        Ok(changes.into_iter().collect::<ChargeHistory>().with_rules(rules))
    }

    /// Stores the changes in `reported` that come after the stored ones, and at `now` those that the plugin has not seen. Returns
    /// the new changes.
    ///
    /// A change never applies before the last count, because the jobs that ended before are counted already.
    pub fn add_charges(&self, reported: &ReportedCharges, now: f64) -> Result<NewCharges, StoreError> {
        let stored = self.charge_history()?;
        let counted = self.marks()?.map_or(0.0, |marks| marks.ran);
        let seen: ChargeHistory = reported.changes.iter().cloned().collect();
        let mut history = stored.clone();
        // A plugin that was reloaded has not seen the changes before its load, such as the end of a stored factor.
        let seen = match reported.seen_since {
            Some(since) => stored.continued_by(&seen, since),
            None => seen,
        };
        for ChargeChange { queue, since, factor } in seen.changes() {
            if stored.last_change(&queue).is_none_or(|last| last < since) {
                history.add(&queue, since.max(counted), factor);
            }
        }
        let configured = reported.configured.iter().map(|(queue, factor)| (queue.as_str(), *factor));
        history.add_configuration(configured, now.max(counted));
        let known: Vec<ChargeChange> = stored.changes().collect();
        let new: Vec<ChargeChange> = history.changes().filter(|change| !known.contains(change)).collect();
        let rule = match reported.rule {
            Some(rule) => self.add_charge_rule(rule, now.max(counted))?,
            None => None,
        };
        if new.is_empty() {
            return Ok(NewCharges { factors: new, rule });
        }
        let write = || -> rusqlite::Result<()> {
            self.transaction.execute_batch(CREATE)?;
            let sql = "INSERT INTO fairshare_charge_table (queue, since, factor) VALUES (?1, ?2, ?3)";
            let mut insert = self.transaction.prepare(sql)?;
            for ChargeChange { queue, since, factor } in &new {
                insert.execute((&**queue, since, factor))?;
            }
            Ok(())
        };
        write().map_err(|error| self.sqlite_error(&error))?;
        Ok(NewCharges { factors: new, rule })
    }
}
