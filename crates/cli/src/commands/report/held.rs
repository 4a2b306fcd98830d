// SPDX-License-Identifier: LGPL-3.0-only
//! Asks the plugin how many jobs each limit holds, and lists held jobs.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::{Map, json};

use super::data::Number;
use crate::outcome::{Failure, Result};
use crate::plugin::ask::{InstanceArg, ask as ask_plugin};
use crate::plugin::jobs;
use crate::site::input::Input;
use crate::ui::words::Words;
use fairshare_engine::engine::answers::{JobsPage, ListedJob, Stats};
use fairshare_engine::ids::{BankName, QueueName, Word};

/// The greatest number of pending jobs that the command requests.
const MOST: usize = 20_000;
/// The greatest number of held jobs in the list.
const LISTED: usize = 1000;

/// The plugin's answer, or the reason why it is missing.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(super) enum HeldJobs {
    Answer(HeldJobsAnswer),
    /// The reason, as a sentence.
    Unknown(String),
}

/// The held jobs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct HeldJobsAnswer {
    /// Time of the plugin's answer, in seconds since the epoch.
    when: Number,
    /// True if the answer covers all jobs, false if only the caller's.
    everybody: bool,
    running: Option<u64>,
    pending: u64,
    held: u64,
    /// Held jobs by limit, the largest number first.
    by_limit: Vec<(Word, u64)>,
    /// By bank: pending and held jobs.
    by_bank: Vec<(String, u64, u64)>,
    jobs: Vec<HeldJobRow>,
    /// Number of held jobs that are not listed.
    more: u64,
}

/// A held job.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct HeldJobRow {
    id: String,
    id_decimal: String,
    user: String,
    bank: Option<BankName>,
    queue: Option<QueueName>,
    nodes: u64,
    cores: u64,
    submitted: Option<Number>,
    holds: Vec<Word>,
}

/// Asks the plugin. A failure is only noted on the page, because the rest of the page does not depend on the answer.
pub(super) fn ask(instance: &InstanceArg, input: &Input) -> HeldJobs {
    if input.is_document() && instance.uri.is_none() {
        return HeldJobs::Unknown("The tree comes from a document, so no plugin was queried.".to_owned());
    }
    match fetch_answer(instance) {
        Ok(Some(answer)) => HeldJobs::Answer(answer),
        Ok(None) => HeldJobs::Unknown(
            "The plugin has no data: nothing was pushed since it was loaded, and all jobs are waiting."
                .to_owned(),
        ),
        Err(failure) => HeldJobs::Unknown(format!("No plugin answered: {failure}.")),
    }
}

fn fetch_answer(instance: &InstanceArg) -> Result<Option<HeldJobsAnswer>> {
    let flux = instance.connect()?;
    let stats: Option<Stats> = match ask_plugin(&flux, "stats", &json!({})) {
        Ok(stats) => Some(stats),
        Err(Failure::No(_)) => None,
        Err(failure) => return Err(failure),
    };
    let page = jobs::fetch(&flux, &Map::new(), MOST)?;
    let words = Words::for_flux_instance(&flux, page.now);
    Ok((page.generation > 0).then(|| summarize_jobs(stats.as_ref(), &page, &words)))
}

/// Creates the summary from the plugin's answers.
pub(super) fn summarize_jobs(stats: Option<&Stats>, page: &JobsPage, words: &Words<'_>) -> HeldJobsAnswer {
    let held: Vec<&ListedJob> = page.jobs.iter().filter(|row| !row.holds.is_empty()).collect();
    let mut by_limit: Vec<(Word, u64)> = jobs::count_held_jobs_by_limit(stats, page).into_iter().collect();
    by_limit.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let count = held.len() as u64;
    let all = stats.map_or(count, |stats| stats.jobs.held);
    let job = |row: &&ListedJob| HeldJobRow {
        id: words.job(row.id.0),
        id_decimal: row.id.to_string(),
        user: words.user(row.userid.0),
        bank: row.bank.clone(),
        queue: row.queue.clone(),
        nodes: row.nodes,
        cores: row.cores,
        submitted: row.submitted.map(Number),
        holds: row.holds.clone(),
    };
    HeldJobsAnswer {
        when: Number(page.now),
        everybody: stats.is_some(),
        running: stats.map(|stats| stats.jobs.running),
        pending: stats.map_or(page.jobs.len() as u64 - count, |stats| stats.jobs.pending),
        held: all,
        by_limit,
        by_bank: count_by_bank(stats, page),
        jobs: held.iter().take(LISTED).map(job).collect(),
        more: all.saturating_sub(held.len().min(LISTED) as u64),
    }
}

/// Counts pending and held jobs by bank, from `stats`, or from the listed jobs if the caller may not read `stats`.
fn count_by_bank(stats: Option<&Stats>, page: &JobsPage) -> Vec<(String, u64, u64)> {
    let mut banks: HashMap<String, (u64, u64)> = HashMap::new();
    let mut add = |bank: &Option<BankName>, pending: u64, held: u64| {
        let of = banks.entry(bank.as_deref().unwrap_or_default().to_owned()).or_default();
        *of = (of.0 + pending, of.1 + held);
    };
    match stats {
        Some(stats) => {
            stats.pending.iter().for_each(|load| add(&load.bank, load.jobs, 0));
            stats.held.iter().for_each(|load| add(&load.bank, 0, load.jobs));
        }
        None => page.jobs.iter().for_each(|row| {
            let held = u64::from(!row.holds.is_empty());
            add(&row.bank, 1 - held, held);
        }),
    }
    let mut list: Vec<_> = banks.into_iter().map(|(bank, (pending, held))| (bank, pending, held)).collect();
    list.sort_by(|a, b| b.2.cmp(&a.2).then(b.1.cmp(&a.1)).then_with(|| a.0.cmp(&b.0)));
    list
}
