// SPDX-License-Identifier: LGPL-3.0-only
//! The job history that a simulation replays. Reads a job history: the jobs table of an accounting database, or a trace in the Standard Workload Format.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use super::swf;
use crate::outcome::Result;
use crate::site::database::Found;
use crate::site::input::{Wait, file_failure};
use fairshare_accounting::pipeline::resources;
use fairshare_accounting::store::{Access, EndedJob, Which};
use fairshare_engine::ids::UserId;
use fairshare_simulate::{Party, Trace};

/// The kind of a file.
enum HistoryFile {
    Database,
    Swf(Box<dyn BufRead>),
}

fn open_history(path: &Path) -> Result<HistoryFile> {
    open_file(path).map_err(|error| file_failure(path, error))
}

fn open_file(path: &Path) -> std::io::Result<HistoryFile> {
    let mut file = File::open(path)?;
    let mut beginning = [0; 16];
    let many = file.read(&mut beginning)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(match beginning.get(..many) {
        Some(b"SQLite format 3\0") => HistoryFile::Database,
        Some([0x1f, 0x8b, ..]) => HistoryFile::Swf(Box::new(BufReader::new(MultiGzDecoder::new(file)))),
        _ => HistoryFile::Swf(Box::new(BufReader::new(file))),
    })
}

/// Returns true for an accounting database.
pub(super) fn is_database(path: &Path) -> Result<bool> {
    Ok(matches!(open_history(path)?, HistoryFile::Database))
}

/// Returns nodes and cores of the cluster, if the header of a trace states them.
pub(super) fn read_cluster(path: &Path) -> Result<(Option<u64>, Option<u64>)> {
    let HistoryFile::Swf(lines) = open_history(path)? else {
        return Ok((None, None));
    };
    let mut header = History::default();
    // `read_history` reports invalid lines.
    let _ = swf::read_trace(lines, None, &mut header);
    Ok((header.nodes, header.cores))
}

/// Reads all jobs, sorted by submit time.
pub(super) fn read_history(path: &Path, size: Size, wait: Wait) -> Result<History> {
    let mut history = History::default();
    match open_history(path)? {
        HistoryFile::Swf(lines) => {
            swf::read_trace(lines, Some(size), &mut history).map_err(|error| file_failure(path, error))?
        }
        HistoryFile::Database => {
            let mut database = wait.open(&Found { path: path.to_owned(), by: None }, Access::Read)?;
            let snapshot = database.snapshot()?;
            let mut add = |job: EndedJob<'_>| add_record(&job, size, &mut history);
            snapshot.ended_jobs(Which::InOrderOfSubmission, &mut add)?;
        }
    }
    if history.trace.jobs().is_empty() {
        return Err(file_failure(path, "it has no jobs"));
    }
    history.trace.sort();
    Ok(history)
}

/// Adds a record of the jobs table. A record without a bank belongs to the user's default bank.
fn add_record(job: &EndedJob<'_>, size: Size, history: &mut History) {
    let ran = job.times.filter(|(run, end)| *run > 0.0 && (0.0..=LONGEST_RUN).contains(&(end - run)));
    let given = job.r.and_then(resources::count).filter(|given| given.cores > 0);
    let user = u32::try_from(job.userid);
    let (Some(submit), Some((run, end)), Some(given), Ok(user)) = (job.submitted, ran, given, user) else {
        history.skipped += 1;
        return;
    };
    let few = |many: u64| u32::try_from(many).unwrap_or(u32::MAX);
    let named = job.jobspec.map(resources::read_bank_queue_and_duration).unwrap_or_default();
    let bank = job.bank.filter(|bank| !bank.is_empty()).or(named.bank.as_deref()).unwrap_or_default();
    let queue = named.queue.as_deref().filter(|queue| !queue.is_empty());
    let party = Party { user: UserId(user), bank: bank.into(), queue: queue.map(Into::into) };
    let walltime = job.time_limit.or(named.duration).unwrap_or(0.0);
    // Without a time limit the job may run indefinitely, so backfill can't use its cores.
    let walltime = if walltime > 0.0 { walltime } else { f64::INFINITY };
    let size = size.round_to_nodes(few(given.nodes), few(given.cores), few(given.gpus));
    history.push(party, submit, Some(run - submit), (end - run, walltime), size);
}

/// The longest run time of a job, in seconds: ten years. While a job runs and another job is pending, each refresh sorts the pending
/// jobs. With a refresh every 30 s, ten years take 11 s to replay; 1e11 s would take an hour.
pub(super) const LONGEST_RUN: f64 = 10.0 * 365.25 * 86_400.0;

/// Options for the sizes of jobs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) cores_per_node: u32,
    pub(super) whole_nodes: bool,
}

impl Size {
    /// Returns nodes, cores and GPUs of a job that asks for `cores` cores.
    pub(super) fn complete_job_size(self, cores: u32) -> [u32; 3] {
        self.round_to_nodes(cores.div_ceil(self.cores_per_node.max(1)), cores, 0)
    }

    pub(super) fn round_to_nodes(self, nodes: u32, cores: u32, gpus: u32) -> [u32; 3] {
        let cores =
            if self.whole_nodes { nodes.saturating_mul(self.cores_per_node).max(cores) } else { cores };
        [nodes, cores, gpus]
    }
}

/// A job history.
#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) trace: Trace,
    /// Nodes of the cluster, if the history states them.
    pub(super) nodes: Option<u64>,
    pub(super) cores: Option<u64>,
    /// Notes about invalid lines of the header.
    pub(super) notes: Vec<String>,
    /// Jobs without a run time, a size or a summary line.
    pub(super) skipped: usize,
    /// Number of jobs with a recorded wait, and the sum of these waits in seconds.
    pub(super) waits: (u64, f64),
}

impl History {
    pub(super) fn push(
        &mut self,
        party: Party,
        submit: f64,
        wait: Option<f64>,
        times: (f64, f64),
        size: [u32; 3],
    ) {
        if let Some(wait) = wait {
            self.waits.0 += 1;
            self.waits.1 += wait;
        }
        self.trace.push(party, submit, times, size);
    }
}
