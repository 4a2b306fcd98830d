// SPDX-License-Identifier: LGPL-3.0-only
//! Fetches the pages of the plugin's answer to `jobs`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::ask::ask;
use crate::outcome::Result;
use fairshare_client::Flux;
use fairshare_engine::engine::answers::{JobsPage, ListedJob, Stats};
use fairshare_engine::ids::Word;

/// Returns the value of a term times its weight, or `None` if the row has no term with this index.
pub(crate) fn multiply_term_by_weight(row: &ListedJob, page: &JobsPage, term: usize) -> Option<f64> {
    let weight = page.weighings.get(row.weighing?)?.get(term)?;
    Some(row.values.get(term)? * *weight as f64)
}

/// Returns the number of held jobs by limit: from `stats`, or of the jobs on the page if the caller may not read `stats`.
pub(crate) fn count_held_jobs_by_limit(stats: Option<&Stats>, page: &JobsPage) -> BTreeMap<Word, u64> {
    let mut held = stats.map(|stats| stats.held_by_limit.clone()).unwrap_or_default();
    for limit in page.jobs.iter().filter(|_| stats.is_none()).flat_map(|row| &row.holds) {
        *held.entry(limit.clone()).or_default() += 1;
    }
    held.retain(|_, jobs| *jobs > 0);
    held
}

/// Fetches pages until `most` jobs are fetched or no page is left, and joins the pages. The result may have
/// more than `most` jobs, because pages are fetched whole.
pub(crate) fn fetch(flux: &Flux, wanted: &Map<String, Value>, most: usize) -> Result<JobsPage> {
    let mut wanted = wanted.clone();
    wanted.insert("limit".to_owned(), json!(2000));
    let mut all: JobsPage = ask(flux, "jobs", &Value::Object(wanted.clone()))?;
    while let Some(next) = all.next.filter(|_| all.jobs.len() < most) {
        wanted.insert("after".to_owned(), json!(next));
        let page: JobsPage = ask(flux, "jobs", &Value::Object(wanted.clone()))?;
        append(&mut all, page);
    }
    Ok(all)
}

/// Appends a page to `all`. Each page has its own list of weights, so the indexes of its jobs are converted.
pub(crate) fn append(all: &mut JobsPage, page: JobsPage) {
    let places: Vec<usize> = page
        .weighings
        .into_iter()
        .map(|weighing| {
            all.weighings.iter().position(|known| *known == weighing).unwrap_or_else(|| {
                all.weighings.push(weighing);
                all.weighings.len() - 1
            })
        })
        .collect();
    all.jobs.extend(page.jobs.into_iter().map(|mut row| {
        row.weighing = row.weighing.and_then(|at| places.get(at).copied());
        row
    }));
    all.next = page.next;
}

/// Returns the reason, other than limits, why a job has priority 0 and is held; `None` if none exists.
pub(crate) fn find_hold_other_than_limits(row: &ListedJob) -> Option<&'static str> {
    match row.outcome.as_deref() {
        Some("held-by-urgency") => Some("urgency 0"),
        Some("held-by-score") => Some("score 0"),
        _ => None,
    }
}
