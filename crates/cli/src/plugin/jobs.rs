// SPDX-License-Identifier: LGPL-3.0-only
//! Fetches the pages of the plugin's answer to `jobs`.

use serde_json::{Map, Value, json};

use super::ask::{Refusal, ask};
use fairshare_client::Flux;
use fairshare_engine::engine::answers::{JobsPage, ListedJob};

/// Returns the value times the weight of the term with index `term`, or `None` if the row has no such term.
pub(crate) fn term_product(row: &ListedJob, page: &JobsPage, term: usize) -> Option<f64> {
    Some(row.values.get(term)? * term_weight(row, page, term)? as f64)
}

/// Returns the weight of the term with index `term` when the job's priority was computed, or `None` if the row has no
/// such term.
pub(crate) fn term_weight(row: &ListedJob, page: &JobsPage, term: usize) -> Option<i64> {
    page.weighings.get(row.weighing?)?.get(term).copied()
}

/// Fetches pages until there are at least `most` jobs or no more pages, and joins them.
pub(crate) fn fetch(flux: &Flux, wanted: &Map<String, Value>, most: usize) -> Result<JobsPage, Refusal> {
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

/// Appends a page. Each page has its own list of weighings, so the indexes into it are translated.
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
