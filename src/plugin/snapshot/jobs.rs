// SPDX-License-Identifier: LGPL-3.0-only
//! Ended jobs that no push covers yet, as lines of texts: a text that is full stays as it is, the last one grows.

use super::record::{FORMAT, Fault, ROOT, hash, is_read, with_hash, without_hash};
use super::writing::Changes;
use fairshare::periods::Resources;
use fairshare_engine::ids::{JobId, UserId};
use fairshare_engine::standing::{Ended, EvictedUsage, Job, Watermark};
use serde::{Deserialize, Serialize};

/// Lines of a full text.
const LINES: usize = 200;
/// Beyond so many lines all is written anew: what was covered or given up meanwhile is left out then.
const MAX_LINES: usize = 250_000;

/// The key of the list of texts.
pub(super) fn list_key() -> String {
    format!("{ROOT}.ended")
}

fn key(hash: &str) -> String {
    format!("{ROOT}.jobs.{hash}")
}

/// The texts, as far as they have to be known to go on.
#[derive(Debug, Default)]
pub(super) struct Log {
    full: Vec<String>,
    /// The last one, as it was written last, and as it is now.
    written: Option<String>,
    last: String,
    lines: usize,
    /// How many there were when all were written.
    whole: usize,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    format: u32,
    owner: u32,
    texts: Vec<String>,
}

/// A line: an ended job, or what was given up of an association.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    Ended(u64, u32, String, [u64; 3], f64, f64),
    /// Sum, since when (`None`: there is no sum), horizon, usage pushed, as of when, and which jobs it has.
    GivenUp(u32, String, f64, Option<f64>, f64, f64, f64, Option<f64>),
}

impl Log {
    /// One that goes on after these texts.
    pub(super) fn after(texts: Vec<String>) -> Log {
        let lines = texts.len() * LINES;
        Log { full: texts, lines, ..Log::default() }
    }

    /// Whether all are to be written anew, without those that are not needed any more. Where the most are needed that is not
    /// before there are twice as many.
    pub(super) fn is_too_long(&self) -> bool {
        self.lines > MAX_LINES.max(2 * self.whole)
    }

    /// What it has is all that is needed.
    pub(super) fn written_whole(self) -> Log {
        Log { whole: self.lines, ..self }
    }

    /// Takes lines in, and tells what is to be written for them: the list last.
    pub(super) fn add(&mut self, ended: &[Ended], sums: &[EvictedUsage], owner: u32) -> Changes {
        let lines = ended.iter().map(line_of_job).chain(sums.iter().map(line_of_sum));
        let mut changes: Changes = Vec::new();
        for line in lines {
            self.last.push_str(&serde_json::to_string(&line).unwrap_or_default());
            self.last.push('\n');
            self.lines += 1;
            if self.lines.is_multiple_of(LINES) {
                let text = std::mem::take(&mut self.last);
                let sum = hash(&text);
                changes.push((key(&sum), Some(text)));
                self.full.push(sum);
            }
        }
        let last = (!self.last.is_empty()).then(|| hash(&self.last));
        if last != self.written {
            changes.extend(self.written.take().map(|sum| (key(&sum), None)));
            changes.extend(last.iter().map(|sum| (key(sum), Some(self.last.clone()))));
            self.written = last;
        }
        let texts = self.full.iter().chain(&self.written).cloned().collect();
        changes.push((list_key(), Some(with_hash(&List { format: FORMAT, owner, texts }))));
        changes
    }
}

/// The hashes and keys of the texts that a list names.
pub(super) fn listed(text: &str, owner: u32) -> Result<Vec<String>, Fault> {
    let json = without_hash("the list of ended jobs", text)?;
    let list: List = serde_json::from_str(json)
        .map_err(|error| format!("the list of ended jobs can't be read: {error}"))?;
    if !is_read(list.format) || list.owner != owner || list.texts.len() > MAX_LINES {
        return Err("the list of ended jobs is none of ours".to_owned());
    }
    Ok(list.texts)
}

/// The keys of texts.
pub(super) fn keys(texts: &[String]) -> impl Iterator<Item = String> {
    texts.iter().map(|hash| key(hash))
}

/// Reads one text.
pub(super) fn read(text: &str) -> Result<(Vec<Ended>, Vec<EvictedUsage>), Fault> {
    let (mut ended, mut sums) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let line: Line =
            serde_json::from_str(line).map_err(|error| format!("an ended job can't be read: {error}"))?;
        match line {
            Line::Ended(id, user, bank, [nodes, cores, gpus], start, end) => ended.push(Ended {
                job: Job {
                    id: JobId(id),
                    user: UserId(user),
                    bank: bank.as_str().into(),
                    ran_on: Resources { nodes, cores, gpus },
                    start,
                    limit: 0.0,
                },
                end,
            }),
            Line::GivenUp(user, bank, sum, since, horizon, pushed, at, counted) => sums.push(EvictedUsage {
                user: UserId(user),
                bank: bank.as_str().into(),
                sum,
                since: since.unwrap_or(f64::NEG_INFINITY),
                horizon,
                pushed,
                at,
                counted: counted.map_or_else(Watermark::default, Watermark::through),
            }),
        }
    }
    Ok((ended, sums))
}

fn line_of_job(Ended { job, end }: &Ended) -> Line {
    let Resources { nodes, cores, gpus } = job.ran_on;
    Line::Ended(job.id.0, job.user.0, job.bank.as_str().to_owned(), [nodes, cores, gpus], job.start, *end)
}

fn line_of_sum(told: &EvictedUsage) -> Line {
    let some = |time: f64| time.is_finite().then_some(time);
    Line::GivenUp(
        told.user.0,
        told.bank.as_str().to_owned(),
        told.sum,
        some(told.since),
        told.horizon,
        told.pushed,
        told.at,
        some(told.counted.end()),
    )
}
