// SPDX-License-Identifier: LGPL-3.0-only
//! The job manager of a simulation. It takes jobs through their states like Flux, sends events to the engine where
//! Flux calls the plugin, and carries out the engine's effects. This file advances the time; `jobs.rs` has the states
//! of a job, `effects.rs` the effects.

mod effects;
mod jobs;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::sync::atomic::AtomicU64;

use super::Scenario;
use super::delivery::{CoreUsageMeter, Delivered};
use super::scheduler::{Cluster, JobIndex, Queue, Scheduler, Time};
use super::trace::{Job, Trace};
use fairshare_engine::engine::{Engine, Event, State, Timer};
use fairshare_engine::ids::{BankName, JobId, UserId};
use fairshare_engine::limits::HoldName;
use fairshare_engine::standing::Retention;

/// User id of the instance owner. The owner has no jobs.
const OWNER: UserId = UserId(u32::MAX - 1);
/// Urgency of a job by default.
const DEFAULT_URGENCY: i64 = 16;
/// In a simulation no later push changes the usage, so the engine need not store ended jobs.
const NO_RETENTION: Retention = Retention { jobs: 0, each: 16 };

/// A job that was accepted and has not ended.
#[derive(Debug)]
struct ActiveJob {
    state: State,
    /// The priority; 0 if the job has no priority yet or may not start.
    priority: u32,
    holds: Vec<HoldName>,
}

/// The engine's answer to a callback.
#[derive(Clone, Debug, PartialEq)]
enum Answer {
    Nothing,
    Rejected,
    Priority(u32),
}

/// The result of a replay.
#[derive(Debug)]
pub(super) struct ReplayResult {
    /// The start of each job, or [`NEVER`] or [`REJECTED`].
    pub(super) starts: Vec<f64>,
    pub(super) begin: f64,
    pub(super) end: f64,
    pub(super) cores: u64,
    /// Core-seconds of all jobs.
    pub(super) used: f64,
    pub(super) banks: Vec<(BankName, Delivered)>,
    pub(super) refreshes: u64,
}

/// The value of `starts` for a job that never started.
pub(super) const NEVER: f64 = f64::INFINITY;
/// The value of `starts` for a job that was rejected.
pub(super) const REJECTED: f64 = f64::NEG_INFINITY;

/// A cluster that replays a history.
pub(super) struct Host<'a> {
    trace: &'a Trace,
    pub(super) engine: Engine,
    pub(super) cluster: Cluster,
    pub(super) queue: Queue,
    scheduler: Scheduler,
    depth: usize,
    nodes: u64,
    pub(super) now: f64,
    /// Time of the last end of a job that ran.
    last: f64,
    /// The starts of budget windows that are in the future, in descending order.
    window_starts: Vec<f64>,
    /// The index of the next job to submit.
    next: JobIndex,
    active: BTreeMap<JobIndex, ActiveJob>,
    /// Number of jobs in SCHED with priority 0.
    jobs_with_priority_0: usize,
    ends: BinaryHeap<Reverse<(Time, JobIndex)>>,
    pub(super) starts: Vec<f64>,
    /// Time of the next refresh, and the period of refreshes.
    refresh: Option<(f64, f64)>,
    /// True if the remaining time of running jobs must be updated at the next refresh.
    updates_time_left: bool,
    turns: bool,
    slices: bool,
    refused: Option<String>,
    pub(super) meter: CoreUsageMeter,
    /// The index of each party's bank in `banks`. A party is a user, a bank and a queue.
    bank_of: Vec<usize>,
    banks: Vec<BankName>,
    pub(super) refreshes: u64,
    is_last_refresh_done: bool,
    /// True if all refreshes run. Otherwise refreshes without effect are skipped.
    #[cfg(test)]
    pub(super) is_diligent: bool,
    done: &'a AtomicU64,
}

fn to_id(number: JobIndex) -> JobId {
    JobId(u64::from(number) + 1)
}

fn to_job_index(id: JobId) -> JobIndex {
    u32::try_from(id.0.saturating_sub(1)).unwrap_or(JobIndex::MAX)
}

impl<'a> Host<'a> {
    pub(super) fn new(trace: &'a Trace, scenario: Scenario, done: &'a AtomicU64) -> Result<Host<'a>, String> {
        let Scenario { policy, site, settings, scheduler, depth, nodes, cores } = scenario;
        let begin = trace.jobs().first().map_or(0.0, |job| job.submit);
        let mut banks: Vec<BankName> = Vec::new();
        let mut numbers: HashMap<&BankName, usize> = HashMap::new();
        let mut bank_of = Vec::new();
        for party in trace.parties() {
            bank_of.push(*numbers.entry(&party.bank).or_insert_with(|| {
                banks.push(party.bank.clone());
                banks.len() - 1
            }));
        }
        let window_starts = site.budgets.iter().map(|budget| budget.start as f64);
        let mut window_starts: Vec<f64> = window_starts.filter(|start| *start > begin).collect();
        window_starts.sort_by(|a, b| b.total_cmp(a));
        let mut host = Host {
            trace,
            engine: Engine::new(OWNER).with_retention(NO_RETENTION),
            cluster: Cluster::new(cores),
            queue: Queue::default(),
            scheduler,
            depth,
            nodes,
            now: begin,
            last: begin,
            window_starts,
            next: 0,
            active: BTreeMap::new(),
            jobs_with_priority_0: 0,
            ends: BinaryHeap::new(),
            starts: vec![NEVER; trace.jobs().len()],
            refresh: None,
            updates_time_left: false,
            turns: false,
            slices: false,
            refused: None,
            meter: CoreUsageMeter::new(banks.len(), begin),
            bank_of,
            banks,
            refreshes: 0,
            is_last_refresh_done: false,
            #[cfg(test)]
            is_diligent: false,
            done,
        };
        host.send_event(Event::Settings(settings));
        host.send_event(Event::Policy(policy, site));
        host.run_reactor_turns();
        host.refused.take().map_or(Ok(host), Err)
    }

    fn job(&self, number: JobIndex) -> Option<&'a Job> {
        self.trace.jobs().get(number as usize)
    }

    /// Advances to the next event. Returns false if the replay is complete.
    pub(super) fn step(&mut self) -> bool {
        let submission = self.job(self.next).map(|job| job.submit);
        let end = self.ends.peek().map(|Reverse((Time(end), _))| *end);
        let next_of_job = submission.into_iter().chain(end).reduce(f64::min);
        // At the start of a window, pending jobs may start. Without pending jobs, the replay skips this
        // event.
        let window = self.window_starts.last().copied().filter(|_| self.active.len() > self.ends.len());
        let Some(next) = next_of_job.into_iter().chain(window).reduce(f64::min) else {
            return self.refresh_if_no_event_is_left();
        };
        if let Some(at) = self.find_next_relevant_refresh(next, submission == Some(next)) {
            self.refresh_at(at);
            return true;
        }
        self.advance_to(next);
        while self.window_starts.pop_if(|start| *start <= next).is_some() {
            self.turns = true;
        }
        while let Some(Reverse((Time(end), number))) = self.ends.peek().copied()
            && end <= next
        {
            self.ends.pop();
            self.end_job(number);
        }
        while self.job(self.next).is_some_and(|job| job.submit <= next) {
            self.submit_job(self.next);
            self.next += 1;
        }
        self.run_reactor_turns();
        self.schedule();
        true
    }

    /// Ends the replay, and returns the result.
    pub(super) fn into_result(self) -> ReplayResult {
        let begin = self.trace.jobs().first().map_or(0.0, |job| job.submit);
        let (used, delivered) = self.meter.into_usage();
        let banks = self.banks.into_iter().zip(delivered).collect();
        let (end, cores, refreshes) = (self.last, self.cluster.cores, self.refreshes);
        ReplayResult { starts: self.starts, begin, end, cores, used, banks, refreshes }
    }

    fn advance_to(&mut self, now: f64) {
        self.now = now;
        self.meter.advance_to(now);
    }

    /// If no other event is left but jobs are pending, refreshes once more, because priorities may change as time
    /// passes.
    fn refresh_if_no_event_is_left(&mut self) -> bool {
        let Some((at, _)) = self.refresh.filter(|_| !self.active.is_empty() && !self.is_last_refresh_done)
        else {
            return false;
        };
        self.is_last_refresh_done = true;
        self.refresh_at(at);
        !self.ends.is_empty()
    }

    /// Returns the time of the first refresh that may affect the start of a job. Returns `None` if there is
    /// none until `next`, the time of the next event.
    fn find_next_relevant_refresh(&self, next: f64, is_submission: bool) -> Option<f64> {
        let (at, period) = self.refresh.filter(|(at, _)| *at <= next)?;
        #[cfg(test)]
        if self.is_diligent {
            return Some(at);
        }
        let waiting = self.active.len() - self.ends.len();
        if waiting == 0 && !is_submission {
            return None;
        }
        // Each refresh may affect the next start in three cases: a job fits, a job has priority 0, or held jobs wait until
        // running jobs have less time left. Otherwise, only the last refresh before `next` is run.
        let may_change_next_start = waiting > 0
            && (self.updates_time_left
                || self.jobs_with_priority_0 > 0
                || self.queue.has_fitting_job(self.cluster.free));
        let skipped = if may_change_next_start { 0.0 } else { ((next - at) / period).floor() };
        Some(at + skipped * period)
    }

    /// Runs the refresh that was planned for the time `at`. If no job is pending, later events may have been processed
    /// already. This does no harm: the usage at time `at` does not depend on when it is computed.
    fn refresh_at(&mut self, at: f64) {
        self.refresh = None;
        self.refreshes += 1;
        let now = self.now.max(at);
        self.meter.advance_to(now);
        self.now = at;
        if std::mem::take(&mut self.updates_time_left) {
            self.send_event(Event::Timer(Timer::TimeLeft));
        }
        self.send_event(Event::Timer(Timer::Refresh));
        self.run_reactor_turns();
        self.now = now;
        self.schedule();
    }

    /// Runs reactor turns until the engine requests no more.
    fn run_reactor_turns(&mut self) {
        while self.turns || self.slices {
            if std::mem::take(&mut self.slices) {
                self.send_event(Event::Timer(Timer::Slice));
            }
            if std::mem::take(&mut self.turns) {
                self.send_event(Event::Timer(Timer::ReactorTurn));
            }
        }
    }

    /// Starts all jobs that can start now. When a job starts, limits may release other jobs, which may start too.
    fn schedule(&mut self) {
        loop {
            let jobs = (self.trace.jobs(), self.depth);
            let chosen = self.scheduler.choose_jobs(&self.queue, &self.cluster, jobs, self.now);
            if chosen.is_empty() {
                return;
            }
            for number in chosen {
                self.start_job(number);
            }
            self.run_reactor_turns();
        }
    }
}
