// SPDX-License-Identifier: LGPL-3.0-only
//! Which jobs ended, from `job-list`, in pages: one answer for all of a site's jobs would hold up everybody else's.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{FetchError, Unreadable};
use fairshare_client::{Flux, Requests};

const LIST: &str = "job-list.list";
const ATTRIBUTES: [&str; 5] = ["userid", "t_submit", "t_run", "t_inactive", "ranks"];
const INACTIVE: u32 = 64;
/// Jobs in one answer.
const PAGE: usize = 10_000;

/// An ended job that ran, as `job-list` knows it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Listed {
    pub id: u64,
    pub userid: u32,
    pub t_submit: f64,
    pub t_run: f64,
    pub t_inactive: f64,
    pub ranks: Box<str>,
}

#[derive(Deserialize)]
struct Page {
    jobs: Vec<Entry>,
}

/// One job in the answer. A job that never ran lacks the time of that and the ranks.
#[derive(Deserialize)]
struct Entry {
    id: u64,
    userid: u32,
    t_submit: f64,
    t_run: Option<f64>,
    t_inactive: f64,
    ranks: Option<Box<str>>,
}

/// What `job-list` says of ended jobs.
#[derive(Debug, Default)]
pub(super) struct Ended {
    /// Those that ran, ordered by their end.
    pub jobs: Vec<Listed>,
    /// How many never ran.
    pub never_ran: usize,
    /// Those that ran and of which it does not know where.
    pub unreadable: Vec<Unreadable>,
}

/// The jobs that ended after `since`.
pub(super) fn ended(flux: &mut Flux, since: f64) -> Result<Ended, FetchError> {
    let mut ended = Ended::default();
    for entry in pages(PAGE, |before, size| ask(flux, since, before, size))? {
        let Entry { id, userid, t_submit, t_run, t_inactive, ranks } = entry;
        match (t_run, ranks) {
            (None, _) => ended.never_ran += 1,
            (Some(t_run), Some(ranks)) => {
                ended.jobs.push(Listed { id, userid, t_submit, t_run, t_inactive, ranks });
            }
            (Some(_), None) => {
                let reason = "Flux does not know on which ranks it ran".to_owned();
                ended.unreadable.push(Unreadable { id: id.to_string(), reason });
            }
        }
    }
    Ok(ended)
}

/// When the job that ended last did; `None` if Flux knows no ended job.
pub fn newest_end(flux: &mut Flux) -> Result<Option<f64>, FetchError> {
    Ok(ask(flux, 0.0, None, 1)?.first().map(|entry| entry.t_inactive))
}

/// All pages. `job-list` gives the newest first, and goes on from the end of the oldest one given; those that ended at the
/// same instant come again, so a page may have to grow to get past them.
fn pages(
    mut size: usize,
    mut ask: impl FnMut(Option<f64>, usize) -> Result<Vec<Entry>, FetchError>,
) -> Result<Vec<Entry>, FetchError> {
    let mut all: Vec<Entry> = Vec::new();
    let mut before = None;
    loop {
        let page = ask(before, size)?;
        let full = page.len() >= size;
        let oldest = page.iter().map(|entry| entry.t_inactive).min_by(f64::total_cmp);
        all.extend(page);
        if !full {
            break;
        }
        if oldest == before {
            size *= 2;
        }
        before = oldest;
    }
    all.sort_by(|a, b| a.t_inactive.total_cmp(&b.t_inactive).then(a.id.cmp(&b.id)));
    all.dedup_by_key(|entry| entry.id);
    Ok(all)
}

fn ask(flux: &mut Flux, since: f64, before: Option<f64>, size: usize) -> Result<Vec<Entry>, FetchError> {
    let wrong = |text: String| FetchError::Answer { topic: LIST, text };
    let mut requests = Requests::new(flux);
    requests.send(LIST, &request(since, before, size).to_string(), ())?;
    let Some(((), answer)) = requests.receive()? else { return Err(wrong("there is none".to_owned())) };
    let page: Page =
        serde_json::from_str(answer?.text().unwrap_or_default()).map_err(|error| wrong(error.to_string()))?;
    Ok(page.jobs)
}

/// Only inactive jobs have `t_inactive`, so the time alone would do; Flux counts comparisons, and stops at a million.
fn request(since: f64, before: Option<f64>, size: usize) -> Value {
    let constraint = match before {
        Some(time) => json!({ "t_inactive": [format!("<={time:?}")] }),
        None => json!({ "states": [INACTIVE] }),
    };
    json!({ "max_entries": size, "attrs": ATTRIBUTES, "since": since, "constraint": constraint })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: u64, t_inactive: f64) -> Entry {
        Entry { id, userid: 1, t_submit: 0.0, t_run: None, t_inactive, ranks: None }
    }

    /// What `job-list` does: newest first, at most `size`, of those that ended at or before a time.
    fn serve(jobs: &[(u64, f64)], before: Option<f64>, size: usize) -> Vec<Entry> {
        let mut jobs: Vec<_> =
            jobs.iter().filter(|(_, end)| before.is_none_or(|time| *end <= time)).collect();
        jobs.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0)));
        jobs.into_iter().take(size).map(|(id, end)| entry(*id, *end)).collect()
    }

    #[test]
    fn pages_lose_nothing_and_repeat_nothing_whatever_ends_together() {
        // Ids that are not in the order of the ends; groups that are smaller, as large, and larger than a page.
        let groups = [1, 2, 3, 4, 9, 1, 30, 2, 8];
        let ends: Vec<f64> = groups
            .iter()
            .enumerate()
            .flat_map(|(i, n)| std::iter::repeat_n(100.0 + i as f64 / 3.0, *n))
            .collect();
        let jobs: Vec<(u64, f64)> =
            ends.iter().enumerate().map(|(i, end)| ((i as u64 * 37) % 1009, *end)).collect();
        for size in 1..=70 {
            let found = pages(size, |before, size| Ok(serve(&jobs, before, size))).expect("pages");
            let mut want = jobs.clone();
            want.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
            let found: Vec<_> = found.iter().map(|entry| (entry.id, entry.t_inactive)).collect();
            assert_eq!(found, want, "pages of {size}");
        }
    }

    #[test]
    fn the_time_in_a_constraint_has_all_its_digits() {
        let time = 1_700_000_000.123_456_7_f64;
        let request = request(1.5, Some(time), 10);
        let text = request["constraint"]["t_inactive"][0].as_str().expect("text");
        assert_eq!(text.strip_prefix("<=").and_then(|text| text.parse().ok()), Some(time));
        assert_eq!(request["since"], 1.5);
    }
}
