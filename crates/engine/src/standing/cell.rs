// SPDX-License-Identifier: LGPL-3.0-only
//! One association: what was pushed for it, and its jobs that are not in that.

use super::kept::GivenUp;
use super::site::Watermark;
use crate::ids::{BankName, JobId, UserId};
use fairshare::NodeId;
use fairshare::accrual::{HalfLife, Mode, Run, Scale, zero_negligible};
use fairshare::periods::{Resources, Weights};

/// A job of an association.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub id: JobId,
    pub run: Run,
    /// Nodes, cores, GPUs: more than four thousand million of each count as that many.
    pub ran_on: [u32; 3],
    /// Its start was told when jobs that ended after it had been given up: it may be one of them.
    pub doubtful: bool,
}

impl Held {
    pub fn resources(&self) -> Resources {
        let [nodes, cores, gpus] = self.ran_on.map(u64::from);
        Resources { nodes, cores, gpus }
    }
}

/// What was pushed.
#[derive(Clone, Debug, Default)]
struct Base {
    usage: f64,
    since: f64,
    counted: Watermark,
}

/// The jobs of an association.
#[derive(Clone, Debug)]
pub(super) struct Jobs {
    pub running: Vec<Held>,
    pub ended: Vec<Held>,
    /// What was given up and is not in the base: the usage of it at an instant.
    sum: f64,
    sum_since: f64,
    /// Everything that ended up to here was given up.
    pub horizon: f64,
    /// How often the ended ones came to stand in another order.
    pub sorted: u32,
    /// When none of the ended ones could be given up, though there were too many.
    pub stuck: f64,
}

impl Default for Jobs {
    fn default() -> Self {
        let never = f64::NEG_INFINITY;
        let (running, ended) = (Vec::new(), Vec::new());
        Jobs { running, ended, sum: 0.0, sum_since: never, horizon: never, sorted: 0, stuck: never }
    }
}

/// Adds `used`, as of `at`, to `sum`, as of `since`. The result is as of the later of the two; the earlier one is decayed to it.
fn sum_of((sum, since): (f64, f64), used: f64, at: f64, half_life: HalfLife) -> (f64, f64) {
    if at < since {
        (sum + used * half_life.left_after(since - at), since)
    } else {
        (sum * half_life.left_after(at - since) + used, at)
    }
}

/// What a cell is found by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// The user id and the bank of jobs.
    Jobs(UserId, BankName),
    /// The user name and the bank of a leaf that no job matches.
    Leaf(Box<str>, BankName),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Cell {
    /// `None` for one that may be used again.
    pub key: Option<Key>,
    pub leaf: Option<NodeId>,
    base: Base,
    pub jobs: Option<Box<Jobs>>,
    /// Scaled usage of all that runs no more, if nothing of it lies after the instant it is asked for.
    settled: Option<f64>,
    pub fairshare: Option<f64>,
    /// It waits to be worked out.
    pub queued: bool,
    /// It is among those in which something runs.
    pub live: bool,
    /// The instant at which it becomes negligible is noted.
    pub fades: bool,
}

impl Cell {
    pub fn new(key: Key) -> Cell {
        Cell { key: Some(key), ..Cell::default() }
    }

    /// Returns the user id and the bank whose jobs count here; `None` if no job matches.
    pub fn job_key(&self) -> Option<(UserId, &BankName)> {
        match self.key.as_ref()? {
            Key::Jobs(user, bank) => Some((*user, bank)),
            Key::Leaf(..) => None,
        }
    }

    /// Takes a pushed usage, unless its watermark would have to take apart what was given up.
    pub fn rebase(&mut self, usage: f64, since: f64, counted: Watermark, always: bool) {
        let horizon = self.jobs.as_ref().map_or(f64::NEG_INFINITY, |jobs| jobs.horizon);
        if !always && !counted.covers_all(horizon) {
            return;
        }
        self.base = Base { usage, since, counted };
        if let Some(jobs) = self.jobs.as_mut() {
            (jobs.sum, jobs.sum_since) = (0.0, f64::NEG_INFINITY);
            if always {
                jobs.horizon = f64::NEG_INFINITY;
            }
        }
    }

    /// What was pushed: the usage, and which ended jobs are in it.
    pub fn pushed(&self) -> (f64, &Watermark) {
        (self.base.usage, &self.base.counted)
    }

    /// Ended jobs from the place `first` on that neither the pushed usage has in it nor [`Cell::given_up`], each with its place.
    pub fn uncovered(&self, first: usize) -> impl Iterator<Item = (usize, &Held)> {
        let ended = self.jobs.as_ref().map_or(&[][..], |jobs| &jobs.ended);
        let horizon = self.jobs.as_ref().map_or(f64::NEG_INFINITY, |jobs| jobs.horizon);
        let is_told = move |held: &Held| !self.covers(held) && held.run.end().is_none_or(|end| end > horizon);
        ended.iter().enumerate().skip(first).filter(move |(_, held)| is_told(held))
    }

    /// Says whether places among the ended jobs are still those of the same jobs.
    pub fn sorted(&self) -> u32 {
        self.jobs.as_ref().map_or(0, |jobs| jobs.sorted)
    }

    /// What was given up, with the usage that it stands beside. Jobs that ended before the last of it, by a clock that went back,
    /// are in it too: whoever takes it again could not tell them from the others.
    pub fn given_up(&self, half_life: HalfLife) -> Option<GivenUp> {
        let (user, bank) = self.job_key().map(|(user, bank)| (user, bank.clone()))?;
        let jobs = self.jobs.as_ref().filter(|jobs| jobs.horizon > f64::NEG_INFINITY)?;
        let uncovered = jobs.ended.iter().filter(|held| !self.covers(held));
        let early = uncovered.filter_map(|held| Some((held, held.run.end()?)));
        let early = early.filter(|(_, end)| *end <= jobs.horizon);
        let (sum, since) = early.fold((jobs.sum, jobs.sum_since), |sum, (held, end)| {
            sum_of(sum, held.run.usage(end, Mode::Elapsed, half_life), end, half_life)
        });
        Some(GivenUp {
            user,
            bank,
            sum,
            since,
            horizon: jobs.horizon,
            pushed: self.base.usage,
            at: self.base.since,
            counted: self.base.counted.clone(),
        })
    }

    /// Whether [`Cell::rebase`] would have left what is told there, had the push come after it: of the two the same stays in
    /// either order. What was given up here is never taken apart.
    pub fn takes(&self, told: &GivenUp) -> bool {
        let has_own = self.jobs.as_ref().is_some_and(|jobs| jobs.horizon > f64::NEG_INFINITY);
        !has_own && !self.base.counted.covers_all(told.horizon)
    }

    /// Restores what [`Cell::given_up`] told. Jobs that ended up to the horizon are in the sum and are removed; gives their ids.
    pub fn give_up_again(&mut self, told: GivenUp) -> Vec<JobId> {
        self.base = Base { usage: told.pushed, since: told.at, counted: told.counted };
        let jobs = self.jobs.get_or_insert_default();
        (jobs.sum, jobs.sum_since, jobs.horizon) = (told.sum, told.since, told.horizon);
        let is_in_it = |held: &mut Held| held.run.end().is_some_and(|end| end <= told.horizon);
        let gone = jobs.ended.extract_if(.., is_in_it).map(|held| held.id).collect();
        jobs.sorted = jobs.sorted.wrapping_add(1);
        self.settled = None;
        gone
    }

    /// Counts jobs by other weights, and all in other units.
    pub fn recount(&mut self, weights: Weights) {
        self.settled = None;
        let Some(jobs) = self.jobs.as_mut() else { return };
        for held in jobs.running.iter_mut().chain(&mut jobs.ended) {
            held.run = held.run.with_rate(weights.rate(held.resources()));
        }
    }

    /// What runs no more has to be added up again.
    pub fn unsettle(&mut self) {
        self.settled = None;
    }

    /// Whether all that runs no more lies before the last instant it was asked for.
    pub fn is_settled(&self) -> bool {
        self.settled.is_some()
    }

    /// Whether an ended job can't be told from those that were given up.
    pub fn has_given_up(&self, end: f64) -> bool {
        self.jobs.as_ref().is_some_and(|jobs| end <= jobs.horizon)
    }

    /// Up to when its ended jobs are in what was pushed.
    pub fn counted_until(&self) -> f64 {
        self.base.counted.end()
    }

    /// Whether anything has to be kept of an association that the tree lacks.
    pub fn is_needed(&self) -> bool {
        self.leaf.is_some()
            || self.jobs.as_ref().is_some_and(|jobs| !jobs.running.is_empty() || !jobs.ended.is_empty())
    }

    pub fn is_running(&self) -> bool {
        self.jobs.as_ref().is_some_and(|jobs| !jobs.running.is_empty())
    }

    /// How many jobs have to be looked at for the next usage.
    pub fn cost(&self) -> usize {
        let jobs = self.jobs.as_ref();
        let ended = jobs.filter(|_| self.settled.is_none()).map_or(0, |jobs| jobs.ended.len());
        1 + ended + jobs.map_or(0, |jobs| jobs.running.len())
    }

    /// Usage in the units of the tree, negligible or not.
    pub fn scaled(&mut self, now: f64, mode: Mode, scale: &Scale) -> f64 {
        let settled = match self.settled {
            Some(settled) => settled,
            None => {
                let settled = self.without_running(now, mode, scale);
                // What ended, or was pushed, later than now looks different from every now before that.
                self.settled = (self.latest() <= now).then_some(settled);
                settled
            }
        };
        let running = self.jobs.iter().flat_map(|jobs| &jobs.running);
        settled + running.map(|held| held.run.scaled(now, mode, scale)).sum::<f64>()
    }

    /// Plain usage.
    pub fn usage(&self, now: f64, mode: Mode, half_life: HalfLife) -> f64 {
        // With the instant as its epoch a scale is plain.
        let scale = Scale::new(now, half_life);
        let running = self.jobs.iter().flat_map(|jobs| &jobs.running);
        let running: f64 = running.map(|held| held.run.scaled(now, mode, &scale)).sum();
        zero_negligible(self.without_running(now, mode, &scale) + running)
    }

    fn without_running(&self, now: f64, mode: Mode, scale: &Scale) -> f64 {
        let mut usage = self.base.usage * scale.factor(self.base.since.min(now));
        if let Some(jobs) = &self.jobs {
            if jobs.sum > 0.0 {
                usage += jobs.sum * scale.factor(jobs.sum_since.min(now));
            }
            let counted = |held: &&Held| !self.covers(held);
            usage +=
                jobs.ended.iter().filter(counted).map(|held| held.run.scaled(now, mode, scale)).sum::<f64>();
        }
        usage
    }

    fn covers(&self, held: &Held) -> bool {
        held.run.end().is_some_and(|end| self.base.counted.covers(end, held.id))
    }

    /// The last instant at which something of it became true, but for what runs.
    pub fn latest(&self) -> f64 {
        let jobs = self
            .jobs
            .iter()
            .flat_map(|jobs| jobs.ended.iter().filter_map(|held| held.run.end()).chain([jobs.sum_since]));
        jobs.fold(self.base.since, f64::max)
    }

    /// Gives up all but the last `keep` ended jobs, but none that ended after `now`. Jobs that ended at one instant go
    /// together. Gives the ids of those that went; if there are none, the others stand where they stood.
    pub fn give_up(&mut self, keep: usize, now: f64, half_life: HalfLife) -> Vec<JobId> {
        let Some(mut jobs) = self.jobs.take() else { return Vec::new() };
        let mut gone = Vec::new();
        let end = |held: &Held| held.run.end().unwrap_or(f64::INFINITY);
        // Many may have ended in one instant: then sorting them finds that none goes, at each further end anew.
        let first = jobs.ended.iter().map(end).fold(f64::INFINITY, f64::min);
        let with_it = jobs.ended.iter().filter(|held| end(held) == first).count();
        if first > now || with_it.saturating_add(keep) > jobs.ended.len() {
            jobs.stuck = now;
            self.jobs = Some(jobs);
            return gone;
        }
        jobs.ended.sort_unstable_by(|a, b| end(a).total_cmp(&end(b)));
        jobs.sorted = jobs.sorted.wrapping_add(1);
        let many = jobs.ended.len().saturating_sub(keep);
        let first_kept = jobs.ended.get(many).map_or(f64::INFINITY, end);
        let stays = |held: &Held| end(held) >= first_kept || end(held) > now;
        let split = jobs.ended.iter().position(stays).unwrap_or(jobs.ended.len());
        for held in jobs.ended.drain(..split) {
            let at = end(&held);
            if !self.covers(&held) {
                let used = held.run.usage(at, Mode::Elapsed, half_life);
                (jobs.sum, jobs.sum_since) = sum_of((jobs.sum, jobs.sum_since), used, at, half_life);
            }
            jobs.horizon = jobs.horizon.max(at);
            gone.push(held.id);
        }
        self.jobs = Some(jobs);
        self.settled = None;
        gone
    }
}
