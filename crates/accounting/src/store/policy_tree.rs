// SPDX-License-Identifier: LGPL-3.0-only
//! What a plugin needs to compute fair-shares itself: the tree with its usages, what those count, and up to when.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::{Marks, Pace, Snapshot, StoreError};
use fairshare::accrual::MAX_TIME;
use fairshare_protocol::records::{AssociationRecord, BankRecord};

/// Clocks of two machines may differ by so many seconds: a time further ahead is of a clock that is wrong.
pub const AHEAD: f64 = 60.0;

/// How the tree is ranked, and what its usages are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TreeRecord {
    /// The site's policy.
    pub policy: String,
    /// Its options, as text.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// The instant at which the usages were what they are, in seconds since the epoch.
    pub at: f64,
    /// Seconds in which a usage halves; 0: it stays.
    pub half_life: f64,
    /// Seconds after which usage is forgotten.
    pub reset: f64,
    /// What a node-second counts.
    pub node_weight: f64,
    /// What a core-second counts.
    pub core_weight: f64,
    /// What a GPU-second counts.
    pub gpu_weight: f64,
}

impl Snapshot<'_> {
    /// What a tree of these banks and associations is ranked by; also tells the leaves up to when jobs are counted. `None`
    /// if any has no place in a tree. `now` is in seconds since the epoch.
    pub(super) fn tree_record(
        &self,
        banks: &[BankRecord],
        associations: &mut [AssociationRecord],
        now: f64,
    ) -> Result<Option<TreeRecord>, StoreError> {
        let is_tree = banks.iter().all(|bank| bank.parent.is_some())
            && associations.iter().all(|association| association.username.is_some());
        if !is_tree {
            return Ok(None);
        }
        self.check_usage_rule()?;
        let marks = self.marks()?;
        let newest = self.tell_counted(associations, marks.as_ref(), now)?;
        let (site, pace) = (self.site_policy()?, self.pace()?);
        // By a clock that was set back, the last count is yet to come.
        let at = self.counted_by(marks.as_ref(), &pace, now)?.map(|at| at.min(now));
        match (at, &marks) {
            (Some(at), Some(marks)) => decay_counted(associations, marks, &pace, at),
            _ => decay_stored(associations, &newest, &pace, now),
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

    /// When usage was last counted by the exact rule, in seconds since the epoch; `None` if it never was, or if flux-accounting
    /// has counted since.
    pub fn counted_at(&self, now: f64) -> Result<Option<f64>, StoreError> {
        let (marks, pace) = (self.marks()?, self.pace()?);
        self.counted_by(marks.as_ref(), &pace, now)
    }

    /// Whoever counts moves the end of a half-life period on, or an association's newest job. One that ended in the future shows a clock
    /// that is wrong, and nothing else.
    fn counted_by(&self, marks: Option<&Marks>, pace: &Pace, now: f64) -> Result<Option<f64>, StoreError> {
        const NAME: &str = "job_usage_factor_table";
        let Some(marks) = marks.filter(|marks| pace.boundary == Some(marks.period_end)) else {
            return Ok(None);
        };
        let mut newer = 0;
        if self.table(NAME)?.is_some_and(|table| table.has("last_job_timestamp")) {
            let sql = "SELECT count(*) FROM job_usage_factor_table \
                       WHERE CAST(last_job_timestamp AS real) > ?1 AND CAST(last_job_timestamp AS real) <= ?2";
            let counted = self.transaction.query_row(sql, [marks.ran, now], |row| row.get(0));
            newer = counted.map_err(|error| self.fail(&error))?;
        }
        Ok((newer == 0).then_some(marks.ran))
    }

    /// Tells the leaves up to when jobs are counted: the newest that is in their usage, and whatever ended too early to count.
    /// Returns for each association when its newest counted job ended.
    fn tell_counted(
        &self,
        associations: &mut [AssociationRecord],
        marks: Option<&Marks>,
        now: f64,
    ) -> Result<Vec<f64>, StoreError> {
        const NAME: &str = "job_usage_factor_table";
        let mut counted: HashMap<(String, String), f64> = HashMap::new();
        if self.table(NAME)?.is_some_and(|table| table.has("last_job_timestamp")) {
            let columns = ["username", "bank", "last_job_timestamp"];
            let sql = "SELECT username, bank, last_job_timestamp FROM job_usage_factor_table";
            self.each_row(sql, NAME, &columns, |cells| {
                if let Some(newest) = cells.number_if_any(2) {
                    counted.insert((cells.text(0)?.to_owned(), cells.text(1)?.to_owned()), newest);
                }
                Ok(())
            })?;
        }
        let (of_banks, of_site) = (self.cut_offs_of_banks()?, self.cut_off_of_site(marks)?);
        let mut all = Vec::with_capacity(associations.len());
        for association in associations {
            let Some(username) = &association.username else { continue };
            let key = (username.clone(), association.bank.clone());
            let newest = counted.get(&key).copied().unwrap_or(0.0);
            all.push(newest);
            let cut_off = of_banks.get(&association.bank).copied().unwrap_or(0.0).max(of_site);
            let counted = believed(newest, marks, Marks::key(username, &association.bank), now);
            association.counted_until = Some(counted.max(cut_off.min(MAX_TIME)));
        }
        Ok(all)
    }

    /// Jobs of a bank that ended up to then never count: what `flux account clear-usage` sets.
    fn cut_offs_of_banks(&self) -> Result<HashMap<String, f64>, StoreError> {
        const NAME: &str = "bank_table";
        let mut cut_offs = HashMap::new();
        if let Some(table) = self.table(NAME)?.filter(|table| table.has("ignore_older_than")) {
            let sql = format!("SELECT bank, ignore_older_than FROM bank_table{}", table.without_history());
            self.each_row(&sql, NAME, &["bank", "ignore_older_than"], |cells| {
                if let Some(cut_off) = cells.number_if_any(1) {
                    cut_offs.insert(cells.text(0)?.to_owned(), cut_off);
                }
                Ok(())
            })?;
        }
        Ok(cut_offs)
    }

    /// Jobs of anybody that ended up to then don't count in the usages that are stored. If flux-accounting wrote them: its
    /// `reconfigure_time`. If we did: `since` of the marks.
    fn cut_off_of_site(&self, marks: Option<&Marks>) -> Result<f64, StoreError> {
        const NAME: &str = "config_table";
        let mut reconfigured = 0.0;
        if self.table(NAME)?.is_some() {
            let sql = "SELECT value FROM config_table WHERE key = 'reconfigure_time'";
            self.each_row(sql, NAME, &["value"], |cells| {
                reconfigured = cells.number_if_any(0).unwrap_or(0.0);
                Ok(())
            })?;
        }
        let ours = marks.filter(|marks| marks.reconfigured == reconfigured);
        Ok(ours.map_or(reconfigured, |marks| marks.since))
    }
}

/// Sets the usage of each leaf to its usage at `at` with continuous decay, which is the time of the last count. A usage that somebody else
/// has changed since is taken as it is stored.
fn decay_counted(associations: &mut [AssociationRecord], marks: &Marks, pace: &Pace, at: f64) {
    let left = left_after(at - marks.period_start, pace);
    for association in associations {
        let (Some(username), Some(usage)) = (&association.username, association.usage) else { continue };
        if let Some(known) = marks.continuous(Marks::key(username, &association.bank), usage) {
            association.usage = Some(known.bins.iter().sum::<f64>() * left);
        }
    }
}

/// Decays the stored usage of each leaf from the end of its newest job, or from the last boundary if that came later, to `now`.
///
/// flux-accounting does not store when it counted. As long as an association is idle, neither time changes before the next boundary,
/// at which its stored usage decays. So its usage never rises.
fn decay_stored(associations: &mut [AssociationRecord], newest: &[f64], pace: &Pace, now: f64) {
    let Some(boundary) = pace.boundary else { return };
    let passed = (now - boundary) / pace.period;
    // A boundary that is more than a period overdue shows that nobody counts.
    if passed >= 2.0 {
        return;
    }
    let began = if passed >= 0.0 { boundary } else { pace.next_boundary(now) - pace.period };
    for (association, newest) in associations.iter_mut().zip(newest) {
        if let Some(usage) = &mut association.usage {
            *usage *= left_after(now - newest.max(began).min(now), pace);
        }
    }
}

/// Returns the part of a usage that continuous decay leaves after `seconds`.
fn left_after(seconds: f64, pace: &Pace) -> f64 {
    let half_life = pace.half_life();
    if half_life > 0.0 { (-seconds.max(0.0) / half_life).exp2() } else { 1.0 }
}

/// Up to when jobs are counted where the newest counted one ended then, by whatever clock. No count has jobs in it that ended
/// after it: one far ahead would have the plugin drop all that ends until then.
fn believed(newest: f64, marks: Option<&Marks>, key: u64, now: f64) -> f64 {
    // What differs from what we left was counted by somebody else, some time until now.
    let ours = marks.filter(|marks| marks.newest(key) == newest);
    let counted = ours.map_or(now, |marks| marks.ran.min(now));
    if newest > counted + AHEAD { counted } else { newest }
}
