// SPDX-License-Identifier: LGPL-3.0-only
//! The job manager of a simulation: it takes jobs through their states as Flux does, asks the engine where Flux would,
//! and carries out what the engine wants. Here is what time brings; `jobs.rs` has a job's way, `effects.rs` what the engine wants.

mod effects;
mod jobs;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};

use super::Scenario;
use super::delivery::{Delivered, Meter};
use super::scheduler::{Cluster, Number, Queue, Scheduler, Time};
use super::trace::{Job, Trace};
use fairshare_engine::engine::{Engine, Event, State, Timer};
use fairshare_engine::ids::{BankName, JobId, UserId};
use fairshare_engine::limits::HoldName;
use fairshare_engine::standing::Memory;

/// The instance owner: nobody that has jobs.
const OWNER: UserId = UserId(u32::MAX - 1);
/// The urgency of a job for which nothing is said.
const URGENCY: i64 = 16;
/// No push takes usage apart again, so that the engine need not remember ended jobs.
const MEMORY: Memory = Memory { jobs: 0, each: 16 };
/// Jobs between two looks at who counts them.
const COUNTED: u64 = 1024;

/// A job that was taken and is not over.
#[derive(Debug)]
struct Active {
    state: State,
    /// 0 as long as it has none, or may not start.
    priority: u32,
    holds: Vec<HoldName>,
}

/// What a callback was answered.
#[derive(Clone, Debug, PartialEq)]
enum Answer {
    Nothing,
    Rejected,
    Priority(u32),
}

/// What became of a history.
#[derive(Debug)]
pub(super) struct Finished {
    /// When each job started; [`NEVER`] or [`REJECTED`] for one that did not.
    pub(super) starts: Vec<f64>,
    pub(super) begin: f64,
    pub(super) end: f64,
    pub(super) cores: u64,
    /// Core-seconds.
    pub(super) used: f64,
    pub(super) banks: Vec<(BankName, Delivered)>,
    pub(super) refreshes: u64,
}

/// The start of a job that never started.
pub(super) const NEVER: f64 = f64::INFINITY;
/// The start of a job that was not taken.
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
    /// When something happened last.
    last: f64,
    /// The next that is submitted.
    next: Number,
    active: BTreeMap<Number, Active>,
    /// How many wait for nothing but another priority than 0.
    priceless: usize,
    ends: BinaryHeap<Reverse<(Time, Number)>>,
    pub(super) starts: Vec<f64>,
    /// When the next refresh is due, and how far they are apart.
    refresh: Option<(f64, f64)>,
    turns: bool,
    slices: bool,
    refused: Option<String>,
    pub(super) meter: Meter,
    /// The bank of each party, by its place among all.
    bank_of: Vec<usize>,
    banks: Vec<BankName>,
    pub(super) refreshes: u64,
    is_last_look_taken: bool,
    /// No refresh is left out.
    #[cfg(test)]
    pub(super) is_diligent: bool,
    done: Option<&'a AtomicU64>,
    uncounted: u64,
}

fn id_of(number: Number) -> JobId {
    JobId(u64::from(number) + 1)
}

fn number_of(id: JobId) -> Number {
    u32::try_from(id.0.saturating_sub(1)).unwrap_or(Number::MAX)
}

impl<'a> Host<'a> {
    pub(super) fn new(
        trace: &'a Trace,
        scenario: Scenario,
        done: Option<&'a AtomicU64>,
    ) -> Result<Host<'a>, String> {
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
        let mut host = Host {
            trace,
            engine: Engine::new(OWNER).remembering(MEMORY),
            cluster: Cluster::new(cores),
            queue: Queue::default(),
            scheduler,
            depth,
            nodes,
            now: begin,
            last: begin,
            next: 0,
            active: BTreeMap::new(),
            priceless: 0,
            ends: BinaryHeap::new(),
            starts: vec![NEVER; trace.jobs().len()],
            refresh: None,
            turns: false,
            slices: false,
            refused: None,
            meter: Meter::new(banks.len(), begin),
            bank_of,
            banks,
            refreshes: 0,
            is_last_look_taken: false,
            #[cfg(test)]
            is_diligent: false,
            done,
            uncounted: 0,
        };
        host.tell(Event::Settings(settings));
        host.tell(Event::Policy(policy, site));
        host.settle();
        host.refused.take().map_or(Ok(host), Err)
    }

    fn job(&self, number: Number) -> Option<&'a Job> {
        self.trace.jobs().get(number as usize)
    }

    /// Goes on to the next event. False if all is over.
    pub(super) fn step(&mut self) -> bool {
        let submission = self.job(self.next).map(|job| job.submit);
        let end = self.ends.peek().map(|Reverse((Time(end), _))| *end);
        let Some(next) = submission.into_iter().chain(end).reduce(f64::min) else { return self.look_last() };
        if let Some(at) = self.refresh_before(next, submission == Some(next)) {
            self.refresh_at(at);
            return true;
        }
        self.go_to(next);
        self.last = next;
        while let Some(Reverse((Time(end), number))) = self.ends.peek().copied()
            && end <= next
        {
            self.ends.pop();
            self.end(number);
        }
        while self.job(self.next).is_some_and(|job| job.submit <= next) {
            self.submit(self.next);
            self.next += 1;
        }
        self.settle();
        self.schedule();
        true
    }

    /// Gives what became of it all.
    pub(super) fn finish(self) -> Finished {
        let begin = self.trace.jobs().first().map_or(0.0, |job| job.submit);
        let (used, delivered) = self.meter.read();
        let banks = self.banks.into_iter().zip(delivered).collect();
        let (end, cores, refreshes) = (self.last, self.cluster.cores, self.refreshes);
        if let Some(done) = self.done {
            done.fetch_add(self.uncounted, Ordering::Relaxed);
        }
        Finished { starts: self.starts, begin, end, cores, used, banks, refreshes }
    }

    fn go_to(&mut self, now: f64) {
        self.now = now;
        self.meter.go_to(now);
    }

    /// Whatever waits now waits for time alone: it is looked at once more, as of the next refresh.
    fn look_last(&mut self) -> bool {
        let Some((at, _)) = self.refresh.filter(|_| !self.active.is_empty() && !self.is_last_look_taken)
        else {
            return false;
        };
        self.is_last_look_taken = true;
        self.refresh_at(at);
        !self.ends.is_empty()
    }

    /// When the next refresh is due that anybody could tell from none, if it is before the next event.
    fn refresh_before(&self, next: f64, is_submission: bool) -> Option<f64> {
        let (at, period) = self.refresh.filter(|(at, _)| *at <= next)?;
        #[cfg(test)]
        if self.is_diligent {
            return Some(at);
        }
        let waiting = self.active.len() - self.ends.len();
        if waiting == 0 && !is_submission {
            return None;
        }
        // What has no priority may get one, and whoever finds room may come first, at any of them; else the last will do.
        let is_any = waiting > 0 && (self.priceless > 0 || self.queue.has_room(self.cluster.free));
        let skipped = if is_any { 0.0 } else { ((next - at) / period).floor() };
        Some(at + skipped * period)
    }

    /// A refresh as of then. One that was due while nothing waited may come after what happened since: what has been used at an
    /// instant does not depend on when that is asked.
    fn refresh_at(&mut self, at: f64) {
        self.refresh = None;
        self.refreshes += 1;
        let now = self.now.max(at);
        self.meter.go_to(now);
        self.now = at;
        self.tell(Event::Timer(Timer::Refresh));
        self.settle();
        self.now = now;
        self.schedule();
    }

    /// Reactor turns until none is asked for.
    fn settle(&mut self) {
        while self.turns || self.slices {
            if std::mem::take(&mut self.slices) {
                self.tell(Event::Timer(Timer::Slice));
            }
            if std::mem::take(&mut self.turns) {
                self.tell(Event::Timer(Timer::Turn));
            }
        }
    }

    /// Starts whoever may start; that may release others.
    fn schedule(&mut self) {
        loop {
            let jobs = (self.trace.jobs(), self.depth);
            let chosen = self.scheduler.choose(&self.queue, &self.cluster, jobs, self.now);
            if chosen.is_empty() {
                return;
            }
            for number in chosen {
                self.start(number);
            }
            self.settle();
        }
    }
}
