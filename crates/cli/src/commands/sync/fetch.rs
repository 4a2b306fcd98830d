// SPDX-License-Identifier: LGPL-3.0-only
//! The first step of `flux fairshare sync`: fetches records of ended jobs into the database.
//!
//! A locked database blocks other writers, and Flux may answer slowly, so records are fetched into memory before the lock is
//! taken. Only the first fetch of a large site exceeds this memory and fetches the remaining records under the lock.
//!
//! Also asks Flux and the plugin how jobs are charged. Sync stores the charge factors of queues and the resources that jobs are charged
//! for, each with the time from which it applies.

use std::collections::BTreeMap;
use std::path::Path;

use crate::outcome::{Result, failure};
use crate::plugin::ask::{ask_flux, site_resources};
use crate::site::database::Found;
use crate::site::input::Wait;
use crate::ui::printable::count;
use crate::ui::progress::Progress;
use fairshare::charging::{ChargeBy, ChargeChange, is_factor};
use fairshare_accounting::pipeline::fetch::{self, Fetched, Fetching, Listing};
use fairshare_accounting::store::{Access, JobRecord, NewCharges, ReportedCharges, Snapshot};
use fairshare_client::Flux;
use fairshare_engine::engine::answers::{ChargeStats, Stats};
use serde::Deserialize;
use serde_json::{Value, json};

/// About this many bytes of records are fetched into memory before sync locks the database.
const MEMORY: usize = 64 << 20;
/// A message names at most this many unreadable records.
const NAMED: usize = 10;

/// The database that gets the fetched records, and the time of the fetch.
pub(crate) struct Fetch<'a> {
    pub(crate) found: &'a Found,
    pub(crate) wait: Wait,
    /// Seconds since the epoch.
    pub(crate) now: f64,
}

/// A fetch after its first phase: the records in memory, and the requests for the remaining records.
pub(crate) struct StartedFetch<'a> {
    records: Vec<Vec<JobRecord>>,
    /// Number of jobs whose records had been removed from the database.
    removed: u64,
    fetching: Fetching<'a>,
    /// Time of the request, in seconds since the epoch.
    asked: f64,
}

/// Result of a fetch.
pub(crate) struct FetchOutcome {
    /// Number of new records.
    pub(crate) new: u64,
    /// Number of jobs left out because their records had been removed.
    removed: u64,
    fetched: Fetched,
}

impl Fetch<'_> {
    /// Requests the records that the database lacks, and reads as many as fit into memory.
    pub(crate) fn begin<'f>(&self, flux: &'f mut Flux, progress: &mut Progress) -> Result<StartedFetch<'f>> {
        progress.phase("listing jobs", || 0);
        let newest = self.find_newest_job_end()?;
        let mut left_out = 0;
        let mut listing = Listing::request(flux, newest).map_err(failure)?;
        if !listing.is_empty() {
            let mut database = self.wait.open(self.found, Access::Read)?;
            let snapshot = database.snapshot()?;
            // The range of removed records is determined only when it is needed, because this reads all records.
            let mut removed = None;
            let stored = |id: u64, ended: f64| {
                if snapshot.find_row_of_job(&id.to_string())?.is_some() {
                    return Ok(true);
                }
                let range = match removed.take() {
                    Some(range) => range,
                    None => fetch::find_removed_range(&snapshot, self.now)?,
                };
                let was_removed = range.contains(&ended);
                removed = Some(range);
                left_out += u64::from(was_removed);
                Ok(was_removed)
            };
            listing.remove_stored_jobs(stored).map_err(failure)?;
        }
        progress.phase("fetching", || listing.len() as u64);
        let (removed, asked) = (left_out, self.now);
        let mut begun = StartedFetch { records: Vec::new(), removed, fetching: listing.fetch(flux), asked };
        let mut weight = 0;
        while weight < MEMORY
            && let Some(batch) = begun.next_batch(progress)?
        {
            weight += batch.iter().map(|record| record.r.len() + record.jobspec.len()).sum::<usize>();
            begun.records.push(batch);
        }
        Ok(begun)
    }

    /// Returns the end time of the newest complete record. Flux is asked for the jobs that ended after this time.
    fn find_newest_job_end(&self) -> Result<Option<f64>> {
        let mut database = self.wait.open(self.found, Access::Read)?;
        let snapshot = database.snapshot()?;
        fetch::find_end_of_last_recorded_job(&snapshot, self.now).map_err(failure)
    }
}

impl StartedFetch<'_> {
    fn next_batch(&mut self, progress: &mut Progress) -> Result<Option<Vec<JobRecord>>> {
        let batch = self.fetching.next_batch().map_err(failure)?;
        progress.set_finished_steps(self.fetching.done());
        Ok(batch)
    }

    /// Writes the records into the transaction.
    pub(crate) fn store(mut self, snapshot: &Snapshot<'_>, progress: &mut Progress) -> Result<FetchOutcome> {
        let mut new = 0;
        for batch in std::mem::take(&mut self.records) {
            new += snapshot.insert_jobs(&batch)?;
        }
        while let Some(batch) = self.next_batch(progress)? {
            new += snapshot.insert_jobs(&batch)?;
        }
        fetch::record_fetch(snapshot, self.asked, new)?;
        let fetched = self.fetching.fetched().clone();
        Ok(FetchOutcome { new, removed: self.removed, fetched })
    }
}

impl FetchOutcome {
    /// Passes messages about unreadable records to `note`.
    pub(crate) fn report_unreadable_records(&self, path: &Path, note: &mut dyn FnMut(String)) {
        let unreadable = &self.fetched.unreadable;
        for one in unreadable.iter().take(NAMED) {
            note(format!("{}: left out: {one}", path.display()));
        }
        if unreadable.len() > NAMED {
            note(format!("{}: and {} more left out", path.display(), unreadable.len() - NAMED));
        }
    }

    /// Returns a summary in one line, such as `5 records fetched, 2 new`.
    pub(crate) fn summary(&self) -> String {
        let removed = match self.removed {
            0 => String::new(),
            removed => format!(", {removed} skipped because they were removed from the database"),
        };
        format!("{} fetched, {} new{removed}", count(self.fetched.records, "record"), self.new)
    }
}

/// The part of Flux's configuration with the charge factors.
#[derive(Default, Deserialize)]
struct Configuration {
    #[serde(default)]
    fairshare: Table,
}

#[derive(Default, Deserialize)]
struct Table {
    #[serde(default)]
    queues: BTreeMap<String, BTreeMap<String, Value>>,
    #[serde(rename = "charge-by")]
    charge_by: Option<String>,
}

/// Returns how jobs are charged. Returns `None` if neither the configuration nor the database says so, or if Flux does not report its
/// configuration.
pub(super) fn request_charge_rules(flux: &Flux, fetch: &Fetch<'_>) -> Result<Option<ReportedCharges>> {
    let Some(Configuration { fairshare: Table { queues, charge_by } }) =
        ask_flux(flux, "config.get", &json!({}))
    else {
        return Ok(None);
    };
    let factor = |(queue, keys): (String, BTreeMap<String, Value>)| {
        let factor = keys.get("charge").and_then(Value::as_f64).filter(|factor| is_factor(*factor))?;
        Some((queue, factor))
    };
    let configured: BTreeMap<String, f64> = queues.into_iter().filter_map(factor).collect();
    let charge_by = charge_by.and_then(|name| name.parse().ok()).unwrap_or_default();
    if configured.is_empty() && charge_by == ChargeBy::Sum && !has_charges(fetch)? {
        return Ok(None);
    }
    // The rule "max" needs the resources of the site. If Flux does not report them, the rule "max" is not returned.
    let totals = site_resources(flux);
    let rule = match charge_by {
        ChargeBy::Sum => Some((ChargeBy::Sum, totals.unwrap_or_default())),
        ChargeBy::Max => totals.map(|totals| (ChargeBy::Max, totals)),
    };
    // Our plugin reports when a charge factor changed. Without its answer, the time of this sync is stored instead.
    let stats: Stats = ask_flux(flux, "job-manager.mf_priority.stats", &json!({})).unwrap_or_default();
    let ChargeStats { changes, seen_since, .. } = stats.charges.unwrap_or_default();
    Ok(Some(ReportedCharges { configured, changes, seen_since, rule }))
}

fn has_charges(fetch: &Fetch<'_>) -> Result<bool> {
    let mut database = fetch.wait.open(fetch.found, Access::Read)?;
    let snapshot = database.snapshot()?;
    Ok(snapshot.has_charges()? || snapshot.has_charge_rules()?)
}

/// Describes changes for the summary of sync.
pub(super) fn describe_charges(NewCharges { factors, rule }: &NewCharges) -> Vec<String> {
    let factor =
        |ChargeChange { queue, factor, .. }: &ChargeChange| format!("charge of queue {queue} is {factor}");
    let rule = rule.iter().map(|rule| format!("charge-by is {}", rule.charge_by.name()));
    factors.iter().map(factor).chain(rule).collect()
}
