// SPDX-License-Identifier: LGPL-3.0-only
//! Computes the data that the plugin needs for fair-shares: policy, usages, weights and times. They are a part of
//! the site document.

use std::collections::{BTreeMap, HashMap};

use rusqlite::Row;
use serde::{Deserialize, Serialize};

use super::{Marks, Pace, Snapshot, StoreResult};
use fairshare::accrual::{MAX_TIME, zero_negligible};
use fairshare_protocol::records::{AssociationRecord, BankRecord};

/// Clocks of two machines may differ by this many seconds. A later time shows that a clock is wrong.
pub const AHEAD: f64 = 60.0;

/// The ranking policy, and the time, decay and weights of the usages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TreeRecord {
    /// Name of the ranking policy.
    pub policy: String,
    /// Options of the ranking policy, as text.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// The time of the usages, in seconds since the epoch.
    pub at: f64,
    /// Half-life in seconds; 0 if usage does not decay.
    pub half_life: f64,
    /// Seconds after which usage is dropped.
    pub reset: f64,
    /// Usage of a node in one second.
    pub node_weight: f64,
    /// Usage of a core in one second.
    pub core_weight: f64,
    /// Usage of a GPU in one second.
    pub gpu_weight: f64,
}

impl Snapshot<'_> {
    /// Returns the tree record for these banks and associations, and sets the usage and `counted_until` of
    /// the associations. Returns `None` if a bank or a user is unknown. `now` is in seconds since the epoch.
    pub(super) fn make_tree_record(
        &self,
        banks: &[BankRecord],
        associations: &mut [AssociationRecord],
        now: f64,
    ) -> StoreResult<Option<TreeRecord>> {
        let is_tree = banks.iter().all(|bank| bank.parent.is_some())
            && associations.iter().all(|association| association.username.is_some());
        if !is_tree {
            return Ok(None);
        }
        let reconfigured = self.usage_rule(0.0, None)?.reconfigured;
        let marks = self.marks()?;
        let newest = self.set_counted_until(associations, marks.as_ref(), reconfigured, now)?;
        let (site, pace) = (self.site_policy()?, self.pace()?);
        // If the clock was set back, the time of the last count may be in the future.
        let at = self.last_count(marks.as_ref(), &pace, now)?.map(|at| at.min(now));
        match (at, &marks) {
            (Some(at), Some(marks)) => decay_counted_usage(associations, marks, &pace, at),
            _ => decay_stored_usage(associations, &newest, &pace, now),
        }
        let at = at.unwrap_or(now);
        let options = site.options.settings().into_iter().map(|(name, value)| (name.to_owned(), value));
        Ok(Some(TreeRecord {
            policy: site.policy.name().to_owned(),
            options: options.collect(),
            at,
            half_life: pace.half_life(),
            reset: pace.period * f64::from(pace.periods),
            node_weight: pace.weights.node,
            core_weight: pace.weights.core,
            gpu_weight: pace.weights.gpu,
        }))
    }

    /// Returns the time of the last count with the usage rule `exact`, in seconds since the epoch. Returns `None`
    /// if there was no such count, or if flux-accounting has counted later.
    pub fn find_last_count_time(&self, now: f64) -> StoreResult<Option<f64>> {
        let (marks, pace) = (self.marks()?, self.pace()?);
        self.last_count(marks.as_ref(), &pace, now)
    }

    /// Returns the time of the last sync that stored its state, or `None` if flux-accounting has counted usage since.
    ///
    /// flux-accounting has counted usage if the end of the half-life period has changed, or if a counted job ended
    /// after the last sync. A job with an end in the future is ignored, because it only shows that a clock is wrong.
    fn last_count(&self, marks: Option<&Marks>, pace: &Pace, now: f64) -> StoreResult<Option<f64>> {
        const NAME: &str = "job_usage_factor_table";
        let Some(marks) = marks.filter(|marks| pace.boundary == Some(marks.period_end)) else {
            return Ok(None);
        };
        let mut is_foreign = false;
        if self.table(NAME)?.is_some_and(|table| table.has_column("last_job_timestamp")) {
            let sql = "SELECT username, bank, CAST(last_job_timestamp AS real) AS newest FROM job_usage_factor_table \
                       WHERE newest > ?1 AND newest <= ?2";
            // If the clock was set back a little, the last sync itself has counted a job that ended later.
            let is_other = |row: &Row<'_>| {
                let [user, bank] =
                    [row.get_ref(0)?, row.get_ref(1)?].map(|it| it.as_str().unwrap_or_default());
                let key = Marks::key(user, bank);
                Ok(marks.newest(key) != row.get::<_, f64>(2)?)
            };
            is_foreign = self.run_sql(|| {
                let mut statement = self.transaction.prepare(sql)?;
                statement.query_map([marks.ran, now], is_other)?.try_fold(false, |any, row| Ok(any || row?))
            })?;
        }
        Ok((!is_foreign).then_some(marks.ran))
    }

    /// Sets `counted_until` of each association: the time up to which its jobs are counted or excluded by a cut-off.
    /// Returns the end of each association's newest counted job.
    fn set_counted_until(
        &self,
        associations: &mut [AssociationRecord],
        marks: Option<&Marks>,
        reconfigured: f64,
        now: f64,
    ) -> StoreResult<Vec<f64>> {
        const NAME: &str = "job_usage_factor_table";
        let mut counted: HashMap<(String, String), f64> = HashMap::new();
        if self.table(NAME)?.is_some_and(|table| table.has_column("last_job_timestamp")) {
            let columns = ["username", "bank", "last_job_timestamp"];
            let sql = "SELECT username, bank, last_job_timestamp FROM job_usage_factor_table";
            self.visit_rows(sql, NAME, &columns, |cells| {
                if let Some(newest) = cells.number_if_any(2) {
                    counted.insert((cells.text(0)?.to_owned(), cells.text(1)?.to_owned()), newest);
                }
                Ok(())
            })?;
        }
        // Jobs that ended at or before the cut-off do not count. If `reconfigure_time` has changed since the last sync, it is the
        // cut-off of the site. Otherwise, the last sync stored the cut-off.
        let own_marks = marks.filter(|marks| marks.reconfigured == reconfigured);
        let site_cut_off = own_marks.map_or(reconfigured, |marks| marks.since);
        let bank_cut_offs = self.bank_cut_offs()?;
        let mut all = Vec::with_capacity(associations.len());
        for association in associations {
            let Some(username) = &association.username else { continue };
            let key = (username.clone(), association.bank.clone());
            let newest = counted.get(&key).copied().unwrap_or(0.0);
            all.push(newest);
            let cut_off = bank_cut_offs.get(&association.bank).copied().unwrap_or(0.0).max(site_cut_off);
            let counted = counted_until(newest, marks, Marks::key(username, &association.bank), now);
            association.counted_until = Some(counted.max(cut_off.min(MAX_TIME)));
        }
        Ok(all)
    }

    /// Returns the cut-off of each bank, as `flux account clear-usage` sets it. Jobs that ended until then do not
    /// count.
    fn bank_cut_offs(&self) -> StoreResult<HashMap<String, f64>> {
        const NAME: &str = "bank_table";
        let mut cut_offs = HashMap::new();
        if let Some(table) = self.table(NAME)?.filter(|table| table.has_column("ignore_older_than")) {
            let sql = format!("SELECT bank, ignore_older_than FROM bank_table{}", table.history_filter());
            self.visit_rows(&sql, NAME, &["bank", "ignore_older_than"], |cells| {
                if let Some(cut_off) = cells.number_if_any(1) {
                    cut_offs.insert(cells.text(0)?.to_owned(), cut_off);
                }
                Ok(())
            })?;
        }
        Ok(cut_offs)
    }
}

/// Sets the usage of each leaf to its usage with continuous decay at `at`, the time of the last count. The usage is
/// negative if credits subtract more than the ended jobs used. Does not decay a usage that another program has
/// changed.
fn decay_counted_usage(associations: &mut [AssociationRecord], marks: &Marks, pace: &Pace, at: f64) {
    let left = pace.compute_usage_fraction_after_decay(at - marks.period_start);
    for association in associations {
        let (Some(username), Some(usage)) = (&association.username, association.usage) else { continue };
        let key = Marks::key(username, &association.bank);
        if let Some(known) = marks.continuous(key).filter(|known| known.usage == usage) {
            let counted = known.bins.iter().sum::<f64>();
            let with_credits = marks.credited(key).map_or(counted, |credits| counted + credits.live);
            // If a credit subtracts all usage, rounding may leave a tiny rest.
            let usage = if with_credits < 0.0 { with_credits } else { zero_negligible(with_credits) };
            association.usage = Some(usage * left);
        }
    }
}

/// Decays the stored usage of each leaf to `now`, beginning at the end of its newest job or at the last
/// boundary, whichever is later.
///
/// flux-accounting does not store the time of its last count, so the decay begins at one of these times. If an
/// association is idle, the end of its newest job does not change, and its stored usage decays at each new boundary.
/// So the result never rises.
fn decay_stored_usage(associations: &mut [AssociationRecord], newest: &[f64], pace: &Pace, now: f64) {
    let Some(boundary) = pace.boundary else { return };
    let passed = (now - boundary) / pace.period;
    // If a period boundary is overdue by more than one period, no program counts usage at this site.
    if passed >= 2.0 {
        return;
    }
    let decay_start = if passed >= 0.0 { boundary } else { pace.next_boundary(now) - pace.period };
    for (association, newest) in associations.iter_mut().zip(newest) {
        if let Some(usage) = &mut association.usage {
            *usage *= pace.compute_usage_fraction_after_decay(now - newest.max(decay_start).min(now));
        }
    }
}

/// Returns the time until which the jobs of an association are counted. This is usually `newest`, the end of the
/// newest counted job.
///
/// If `newest` is much later than the sync that counted the job, a clock was wrong. The function then returns the
/// time of the sync, because the plugin ignores all jobs that end before the returned time.
fn counted_until(newest: f64, marks: Option<&Marks>, key: u64, now: f64) -> f64 {
    // If another program stored `newest`, the time of that program's last count is unknown. Then `now` is used.
    let own_marks = marks.filter(|marks| marks.newest(key) == newest);
    let counted = own_marks.map_or(now, |marks| marks.ran.min(now));
    if newest > counted + AHEAD { counted } else { newest }
}
