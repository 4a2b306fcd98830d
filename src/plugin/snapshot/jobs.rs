// SPDX-License-Identifier: LGPL-3.0-only
//! Stores the chunks of ended jobs whose usage no push includes yet. A full chunk never changes; only the last chunk grows.

use super::record::{FORMAT, Fault, ROOT, hash, prepend_hash, strip_hash};
use super::writing::Changes;
use fairshare::periods::Resources;
use fairshare_engine::ids::{BankName, JobId, QueueName, UserId};
use fairshare_engine::standing::{Ended, EvictedUsage, Job, Watermark};
use serde::{Deserialize, Serialize};

/// The number of lines of a full chunk.
const CHUNK_LINES: usize = 200;
/// The maximum number of lines in all chunks of ended jobs. If there are more lines, the plugin writes the
/// whole snapshot again. The new snapshot contains no evicted jobs and no jobs whose usage a push includes.
const MAX_LINES: usize = 250_000;

/// Returns the key of the list of chunks of ended jobs.
pub(super) fn list_key() -> String {
    format!("{ROOT}.ended")
}

fn chunk_key(hash: &str) -> String {
    format!("{ROOT}.jobs.{hash}")
}

/// The chunks of ended jobs in the KVS.
#[derive(Debug, Default)]
pub(super) struct EndedLog {
    /// The hashes of the full chunks.
    full: Vec<String>,
    /// The hash of the last chunk in the KVS; `None` if that chunk is empty.
    written: Option<String>,
    /// The last chunk, which grows.
    last: String,
    /// The number of lines in all chunks.
    lines: usize,
    /// The number of lines in all chunks when the plugin last wrote the whole snapshot.
    lines_of_snapshot: usize,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChunkList {
    format: u32,
    owner: u32,
    texts: Vec<String>,
}

/// A line of a chunk: an ended job, or the evicted usage of an association.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum EndedJobLine {
    /// Job id, user id, bank, resources (nodes, cores, GPUs), start time and end time. Two optional values follow: the
    /// queue, if it has a charge factor, and the time limit in seconds. The time limit is stored only if there are
    /// budgets and the job ran longer than its limit; the queue may then be an empty string.
    Ended(
        JobId,
        UserId,
        BankName,
        [u64; 3],
        f64,
        f64,
        #[serde(default, skip_serializing_if = "Option::is_none")] Option<QueueName>,
        #[serde(default, skip_serializing_if = "Option::is_none")] Option<f64>,
    ),
    /// The fields of an `EvictedUsage`, in the same order. `None` stands for an infinite time.
    Evicted(UserId, BankName, f64, Option<f64>, f64, f64, f64, Option<f64>),
}

impl EndedLog {
    /// Creates a log whose first chunks have these hashes.
    pub(super) fn continue_from_hashes(hashes: Vec<String>) -> EndedLog {
        let lines = hashes.len() * CHUNK_LINES;
        EndedLog { full: hashes, lines, ..EndedLog::default() }
    }

    /// Returns true if the plugin must write the whole snapshot again. The limit grows with the snapshot: otherwise,
    /// after a snapshot of nearly `MAX_LINES` lines, each ended job could cause a new snapshot.
    pub(super) fn is_too_long(&self) -> bool {
        self.lines > MAX_LINES.max(2 * self.lines_of_snapshot)
    }

    /// Records that the plugin has written a whole snapshot with the current number of lines.
    pub(super) fn mark_snapshot_written(self) -> EndedLog {
        EndedLog { lines_of_snapshot: self.lines, ..self }
    }

    /// Adds lines for ended jobs and evicted usages. Returns the changes to write to the KVS. The last change is the
    /// list of chunks.
    pub(super) fn add(&mut self, ended: &[Ended], sums: &[EvictedUsage], owner: u32) -> Changes {
        let lines = ended.iter().map(make_job_line).chain(sums.iter().map(make_usage_line));
        let mut changes: Changes = Vec::new();
        for line in lines {
            self.last.push_str(&serde_json::to_string(&line).unwrap_or_default());
            self.last.push('\n');
            self.lines += 1;
            if self.lines.is_multiple_of(CHUNK_LINES) {
                let chunk = std::mem::take(&mut self.last);
                let hash = hash(&chunk);
                changes.push((chunk_key(&hash), Some(chunk)));
                self.full.push(hash);
            }
        }
        let last = (!self.last.is_empty()).then(|| hash(&self.last));
        if last != self.written {
            changes.extend(self.written.take().map(|hash| (chunk_key(&hash), None)));
            changes.extend(last.iter().map(|hash| (chunk_key(hash), Some(self.last.clone()))));
            self.written = last;
        }
        let texts = self.full.iter().chain(&self.written).cloned().collect();
        changes.push((list_key(), Some(prepend_hash(&ChunkList { format: FORMAT, owner, texts }))));
        changes
    }
}

/// Reads the list of chunks that an instance of `owner` wrote, and returns the hashes of the chunks.
pub(super) fn read_list(text: &str, owner: u32) -> Result<Vec<String>, Fault> {
    let json = strip_hash("the list of ended jobs", text)?;
    let list: ChunkList = serde_json::from_str(json)
        .map_err(|error| format!("the list of ended jobs can't be read: {error}"))?;
    if list.format != FORMAT || list.owner != owner || list.texts.len() > MAX_LINES {
        return Err("the list of ended jobs has another format or owner, or too many chunks".to_owned());
    }
    Ok(list.texts)
}

/// Returns the keys of the chunks with these hashes.
pub(super) fn chunk_keys(hashes: &[String]) -> impl Iterator<Item = String> {
    hashes.iter().map(|hash| chunk_key(hash))
}

/// Returns the ended jobs and the evicted usages in a chunk.
pub(super) fn read_chunk(chunk: &str) -> Result<(Vec<Ended>, Vec<EvictedUsage>), Fault> {
    let (mut ended, mut sums) = (Vec::new(), Vec::new());
    for line in chunk.lines() {
        let line: EndedJobLine =
            serde_json::from_str(line).map_err(|error| format!("an ended job can't be read: {error}"))?;
        match line {
            EndedJobLine::Ended(id, user, bank, [nodes, cores, gpus], start, end, queue, limit) => {
                let (queue, limit) = (queue.filter(|queue| !queue.is_empty()), limit.unwrap_or(0.0));
                let ran_on = Resources { nodes, cores, gpus };
                ended.push(Ended { job: Job { id, user, bank, queue, ran_on, start, limit }, end });
            }
            EndedJobLine::Evicted(user, bank, sum, since, horizon, pushed, at, counted) => {
                let since = since.unwrap_or(f64::NEG_INFINITY);
                let counted = counted.map_or_else(Watermark::default, Watermark::through);
                sums.push(EvictedUsage { user, bank, sum, since, horizon, pushed, at, counted });
            }
        }
    }
    Ok((ended, sums))
}

fn make_job_line(Ended { job, end }: &Ended) -> EndedJobLine {
    let Job { id, user, bank, queue, ran_on: Resources { nodes, cores, gpus }, start, limit } = job.clone();
    let limit = Some(limit).filter(|limit| *limit > 0.0 && end - start > *limit);
    let queue = queue.or(limit.map(|_| QueueName::default()));
    EndedJobLine::Ended(id, user, bank, [nodes, cores, gpus], start, *end, queue, limit)
}

fn make_usage_line(evicted: &EvictedUsage) -> EndedJobLine {
    let finite_or_none = |time: f64| time.is_finite().then_some(time);
    let EvictedUsage { user, bank, sum, since, horizon, pushed, at, counted } = evicted.clone();
    let (since, counted) = (finite_or_none(since), finite_or_none(counted.end()));
    EndedJobLine::Evicted(user, bank, sum, since, horizon, pushed, at, counted)
}
