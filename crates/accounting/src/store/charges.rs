// SPDX-License-Identifier: LGPL-3.0-only
//! Stores the changes of the charge factors of queues and of the resources that jobs are charged for, in two
//! tables that flux-accounting ignores. Each table is created with its first row. Rows are only added, so a
//! job keeps the factor and the rule of its start.

use std::collections::BTreeMap;

use super::{Fault, Snapshot, StoreResult};
use fairshare::charging::{ChargeBy, ChargeByChange, ChargeChange, ChargeHistory};
use fairshare::periods::Resources;

const TABLE: &str = "fairshare_charge_table";
const COLUMNS: &str =
    "queue TEXT NOT NULL, since REAL NOT NULL, factor REAL NOT NULL CHECK (factor BETWEEN 0 AND 1000)";

const RULES: &str = "fairshare_charge_by_table";
const RULE_COLUMNS: &str = "since REAL NOT NULL, charge_by TEXT NOT NULL CHECK (charge_by IN ('sum', 'max')), nodes INTEGER NOT NULL,
    cores INTEGER NOT NULL, gpus INTEGER NOT NULL";

/// The charge factors in Flux's configuration, and the changes that the plugin has seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportedCharges {
    /// The current factors. Queues that are missing have the factor 1.
    pub configured: BTreeMap<String, f64>,
    /// The changes that the plugin has seen.
    pub changes: Vec<ChargeChange>,
    /// The time since which the plugin has seen all changes, in seconds since the epoch; `None` without a
    /// plugin. A queue that is not in `changes` has had the factor 1 since this time.
    pub seen_since: Option<f64>,
    /// The resources that jobs are charged for, and the resources of the site. `None` if Flux does not report
    /// the resources of the site.
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
    pub fn has_charges(&self) -> StoreResult<bool> {
        Ok(self.table(TABLE)?.is_some())
    }

    /// Returns true if a change of the resources that jobs are charged for is stored.
    pub fn has_charge_rules(&self) -> StoreResult<bool> {
        Ok(self.table(RULES)?.is_some())
    }

    fn read_rules(&self) -> StoreResult<Vec<ChargeByChange>> {
        self.read_project_table(RULES, "since charge_by nodes cores gpus", |cells| {
            let count = |at| Ok::<_, Fault>(u64::try_from(cells.integer(at)?).unwrap_or(0));
            let totals = Resources { nodes: count(2)?, cores: count(3)?, gpus: count(4)? };
            let charge_by = cells.text(1)?.parse().unwrap_or_default();
            Ok(ChargeByChange { since: cells.number(0)?, charge_by, totals })
        })
    }

    /// Stores the rule by which jobs that start at `since` or later are charged: `charge_by`, and the site's
    /// resources `totals`. Returns the change, or `None` if the last rule in `history` is the same.
    fn add_charge_rule(
        &self,
        mut history: ChargeHistory,
        (charge_by, totals): (ChargeBy, Resources),
        since: f64,
    ) -> StoreResult<Option<ChargeByChange>> {
        if !history.add_rule(ChargeByChange { since, charge_by, totals }) {
            return Ok(None);
        }
        let Some(new) = history.rules().last().copied() else { return Ok(None) };
        let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let Resources { nodes, cores, gpus } = new.totals;
        self.run_sql(|| {
            self.create_kept_table(RULES, "charge rule", RULE_COLUMNS)?;
            self.transaction.execute(
                "INSERT INTO fairshare_charge_by_table (since, charge_by, nodes, cores, gpus) VALUES (?1, ?2, ?3, ?4, ?5)",
                (new.since, new.charge_by.name(), count(nodes), count(cores), count(gpus)),
            )?;
            Ok(())
        })?;
        Ok(Some(new))
    }

    /// Reads the stored charge factors and rules. Invalid factors, which only another program can have stored, are ignored.
    pub fn charge_history(&self) -> StoreResult<ChargeHistory> {
        let rules = self.read_rules()?;
        let changes = self.read_project_table(TABLE, "queue since factor", |cells| {
            Ok(ChargeChange {
                queue: cells.text(0)?.into(),
                since: cells.number(1)?,
                factor: cells.number(2)?,
            })
        })?;
        Ok(changes.into_iter().collect::<ChargeHistory>().with_rules(rules))
    }

    /// Stores the changes of charge factors that the plugin has seen since the last stored change. If the newest
    /// stored factors or the stored rule still differ from the configuration, also stores the configured values with
    /// the time `now`. Returns the new changes.
    ///
    /// A change never applies to a time before the last usage count, because earlier jobs are already counted.
    pub fn add_charges(&self, reported: &ReportedCharges, now: f64) -> StoreResult<NewCharges> {
        let stored = self.charge_history()?;
        let counted = self.marks()?.map_or(0.0, |marks| marks.ran);
        let seen: ChargeHistory = reported.changes.iter().cloned().collect();
        let mut history = stored.clone();
        // A reloaded plugin reports no changes from before its load. For example, the factor of a queue may have
        // been removed from Flux's configuration before.
        let seen = match reported.seen_since {
            Some(since) => stored.append_later_history(&seen, since),
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
            Some(rule) => self.add_charge_rule(stored, rule, now.max(counted))?,
            None => None,
        };
        if new.is_empty() {
            return Ok(NewCharges { factors: new, rule });
        }
        self.run_sql(|| {
            self.create_kept_table(TABLE, "charge factor", COLUMNS)?;
            let sql = "INSERT INTO fairshare_charge_table (queue, since, factor) VALUES (?1, ?2, ?3)";
            let mut insert = self.transaction.prepare(sql)?;
            for ChargeChange { queue, since, factor } in &new {
                insert.execute((&**queue, since, factor))?;
            }
            Ok(())
        })?;
        Ok(NewCharges { factors: new, rule })
    }
}
