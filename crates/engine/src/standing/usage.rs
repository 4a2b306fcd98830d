// SPDX-License-Identifier: LGPL-3.0-only
//! The usage of one association: the pushed usage, and the jobs that the pushed usage does not include.

use super::export::EvictedUsage;
use super::site::Watermark;
use crate::ids::{BankName, JobId, UserId};
use fairshare::NodeId;
use fairshare::accrual::{HalfLife, Mode, Run, Scale, zero_negligible};
use fairshare::periods::Resources;

/// A job that counts in an association's usage.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tracked {
    pub id: JobId,
    pub run: Run,
    /// Nodes, cores and GPUs. A count above `u32::MAX` is stored as `u32::MAX`.
    pub ran_on: [u32; 3],
    /// The number of the job's queue; 0 without a queue.
    pub queue: u16,
    /// True if jobs with a later end were evicted before the plugin recorded this job. The usage of evicted jobs may
    /// then include this job too.
    pub doubtful: bool,
}

impl Tracked {
    pub fn resources(&self) -> Resources {
        let [nodes, cores, gpus] = self.ran_on.map(u64::from);
        Resources { nodes, cores, gpus }
    }
}

/// The usage of the last push, in seconds times weight, at the time `since`.
#[derive(Clone, Debug, Default)]
struct Base {
    usage: f64,
    since: f64,
    counted: Watermark,
}

impl Base {
    fn covers(&self, job: &Tracked) -> bool {
        job.run.end().is_some_and(|end| self.counted.covers(end))
    }
}

#[derive(Clone, Debug)]
pub(super) struct Jobs {
    pub running: Vec<Tracked>,
    pub ended: Vec<Tracked>,
    /// The usage of evicted jobs that the pushed usage does not include, at the time `sum_since`.
    sum: f64,
    sum_since: f64,
    /// All jobs that ended up to this time were evicted.
    pub horizon: f64,
    /// Increases each time the order of `ended` changes.
    pub version: u32,
    /// The last time at which [`UsageEntry::evict_ended`] could evict no job.
    pub unevictable_at: f64,
}

/// The jobs of an association that has had none.
const NO_JOBS: &Jobs = &Jobs {
    running: Vec::new(),
    ended: Vec::new(),
    sum: 0.0,
    sum_since: f64::NEG_INFINITY,
    horizon: f64::NEG_INFINITY,
    version: 0,
    unevictable_at: f64::NEG_INFINITY,
};

/// Adds `used`, a usage at the time `at`, to `sum`, a usage at the time `since`. Returns the sum and its time, the later of the
/// two.
fn add_decayed((sum, since): (f64, f64), used: f64, at: f64, half_life: HalfLife) -> (f64, f64) {
    if at < since {
        (sum + used * half_life.left_after(since - at), since)
    } else {
        (sum * half_life.left_after(at - since) + used, at)
    }
}

/// The key under which an association is found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// The user id and the bank of an association that can have jobs.
    Jobs(UserId, BankName),
    /// The user name and the bank of a leaf that no job matches.
    Leaf(Box<str>, BankName),
}

#[derive(Clone, Debug, Default)]
pub(super) struct UsageEntry {
    /// `None` if the entry is free.
    pub key: Option<Key>,
    pub leaf: Option<NodeId>,
    base: Base,
    /// `None` if the association has had no job. Most associations of a large site have none.
    jobs: Option<Box<Jobs>>,
    /// The scaled usage without running jobs. `None` if the usage must be computed again, or if some of the usage
    /// begins after the last refresh.
    pub ended_sum: Option<f64>,
    pub fairshare: Option<f64>,
    /// True if the next refresh updates this association.
    pub queued: bool,
    /// True if the association is in the refresh's list of associations with running jobs.
    pub live: bool,
    /// True if the refresh has stored when this usage becomes negligible.
    pub fade_is_queued: bool,
}

impl UsageEntry {
    pub fn new(key: Key) -> UsageEntry {
        UsageEntry { key: Some(key), ..UsageEntry::default() }
    }

    pub fn jobs(&self) -> &Jobs {
        self.jobs.as_deref().unwrap_or(NO_JOBS)
    }

    pub fn jobs_mut(&mut self) -> &mut Jobs {
        self.jobs.get_or_insert_with(|| Box::new(NO_JOBS.clone()))
    }

    /// Returns the user id and the bank of the jobs that count here; `None` if no job matches.
    pub fn job_key(&self) -> Option<(UserId, &BankName)> {
        match self.key.as_ref()? {
            Key::Jobs(user, bank) => Some((*user, bank)),
            Key::Leaf(..) => None,
        }
    }

    /// Sets the pushed usage. If the pushed usage does not include all evicted jobs, does nothing, because the usage
    /// of evicted jobs cannot be split. If `always` is true, sets the pushed usage in any case.
    pub fn set_pushed(&mut self, usage: f64, since: f64, counted: Watermark, always: bool) {
        if !always && !counted.covers(self.jobs().horizon) {
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

    /// Returns the pushed usage, and its watermark.
    pub fn pushed(&self) -> (f64, &Watermark) {
        (self.base.usage, &self.base.counted)
    }

    /// Returns the ended jobs from index `first` on that an export must list, each with its index. Leaves out jobs
    /// that the pushed usage includes, and jobs that [`UsageEntry::evicted`] includes.
    pub fn uncovered(&self, first: usize) -> impl Iterator<Item = (usize, &Tracked)> {
        let Jobs { ended, horizon, .. } = self.jobs();
        let counts = |job: &Tracked| !self.covers(job) && job.run.end().is_none_or(|end| end > *horizon);
        ended.iter().enumerate().skip(first).filter(move |(_, job)| counts(job))
    }

    /// Returns the usage of evicted jobs, and the pushed usage of the association. The usage also includes kept jobs
    /// that ended before the last evicted job, because a restore treats these jobs as evicted.
    pub fn evicted(&self, half_life: HalfLife) -> Option<EvictedUsage> {
        let (user, bank) = self.job_key().map(|(user, bank)| (user, bank.clone()))?;
        let jobs = self.jobs.as_deref().filter(|jobs| jobs.horizon > f64::NEG_INFINITY)?;
        let uncovered = jobs.ended.iter().filter(|job| !self.covers(job));
        let early = uncovered.filter_map(|job| Some((job, job.run.end()?)));
        let early = early.filter(|(_, end)| *end <= jobs.horizon);
        let (sum, since) = early.fold((jobs.sum, jobs.sum_since), |sum, (job, end)| {
            add_decayed(sum, job.run.usage(end, Mode::Elapsed, half_life), end, half_life)
        });
        Some(EvictedUsage {
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

    /// Returns true if a restore may use `evicted`. Returns false if the pushed usage includes the evicted jobs
    /// already, or if this instance of the plugin has evicted jobs itself.
    pub fn accepts(&self, evicted: &EvictedUsage) -> bool {
        self.jobs().horizon == f64::NEG_INFINITY && !self.base.counted.covers(evicted.horizon)
    }

    /// Restores the state that [`UsageEntry::evicted`] returned. Removes the ended jobs that the sum includes, and
    /// returns their ids.
    pub fn restore(&mut self, evicted: EvictedUsage) -> Vec<JobId> {
        self.base = Base { usage: evicted.pushed, since: evicted.at, counted: evicted.counted };
        let jobs = self.jobs_mut();
        (jobs.sum, jobs.sum_since, jobs.horizon) = (evicted.sum, evicted.since, evicted.horizon);
        let is_included = |job: &mut Tracked| job.run.end().is_some_and(|end| end <= evicted.horizon);
        let gone = jobs.ended.extract_if(.., is_included).map(|job| job.id).collect();
        jobs.version = jobs.version.wrapping_add(1);
        self.ended_sum = None;
        gone
    }

    /// Sets the usage per second of each job to the result of `rate`.
    pub fn set_usage_rates(&mut self, rate: impl Fn(&Tracked) -> f64) {
        self.ended_sum = None;
        let Some(jobs) = self.jobs.as_mut() else { return };
        for job in jobs.running.iter_mut().chain(&mut jobs.ended) {
            job.run = job.run.with_rate(rate(job));
        }
    }

    /// Returns true if a job that ended at `end` may be one of the evicted jobs.
    pub fn may_be_evicted(&self, end: f64) -> bool {
        end <= self.jobs().horizon
    }

    /// Returns true if the tree contains the association, or if the association has jobs.
    pub fn is_needed(&self) -> bool {
        self.leaf.is_some() || self.is_running() || !self.jobs().ended.is_empty()
    }

    pub fn is_running(&self) -> bool {
        !self.jobs().running.is_empty()
    }

    /// Returns the cost of the next call of [`UsageEntry::scaled`]: 1, plus the number of jobs that the call reads.
    pub fn cost(&self) -> usize {
        let Jobs { running, ended, .. } = self.jobs();
        1 + running.len() + if self.ended_sum.is_none() { ended.len() } else { 0 }
    }

    /// Returns the usage at `now` in the units of the tree, including negligible usage.
    pub fn scaled(&mut self, now: f64, mode: Mode, scale: &Scale) -> f64 {
        let ended_sum = match self.ended_sum {
            Some(ended_sum) => ended_sum,
            None => {
                let ended_sum = self.compute_usage_without_running_jobs(now, mode, scale);
                // The sum is stored only if all of its usage was accrued before `now`.
                self.ended_sum = (self.latest() <= now).then_some(ended_sum);
                ended_sum
            }
        };
        ended_sum + self.compute_usage_of_running_jobs(now, mode, scale)
    }

    /// Returns the usage at `now` in seconds times weight.
    pub fn usage(&self, now: f64, mode: Mode, half_life: HalfLife) -> f64 {
        // At the epoch of a scale, scaled usage equals plain usage.
        let scale = Scale::new(now, half_life);
        let without_running_jobs = self.compute_usage_without_running_jobs(now, mode, &scale);
        zero_negligible(without_running_jobs + self.compute_usage_of_running_jobs(now, mode, &scale))
    }

    fn compute_usage_of_running_jobs(&self, now: f64, mode: Mode, scale: &Scale) -> f64 {
        self.jobs().running.iter().map(|job| job.run.scaled(now, mode, scale)).sum()
    }

    fn compute_usage_without_running_jobs(&self, now: f64, mode: Mode, scale: &Scale) -> f64 {
        let Jobs { ended, sum, sum_since, .. } = self.jobs();
        let mut usage = self.base.usage * scale.factor(self.base.since.min(now));
        if *sum > 0.0 {
            usage += sum * scale.factor(sum_since.min(now));
        }
        let counted = ended.iter().filter(|job| !self.covers(job));
        usage + counted.map(|job| job.run.scaled(now, mode, scale)).sum::<f64>()
    }

    /// Returns true if the pushed usage includes `job`.
    pub fn covers(&self, job: &Tracked) -> bool {
        self.base.covers(job)
    }

    /// Returns the later of two times: the time of the last push, and the last end of a job.
    pub fn latest(&self) -> f64 {
        let Jobs { ended, sum_since, .. } = self.jobs();
        ended.iter().filter_map(|job| job.run.end()).fold(self.base.since.max(*sum_since), f64::max)
    }

    /// Evicts all but the last `keep` ended jobs, except those that ended after `now`. Jobs that ended at the
    /// same time are evicted together. If `keeps_uncovered` is true, only jobs that the pushed usage includes
    /// are evicted. Returns the ids of the evicted jobs. If no job is evicted, the order of the jobs is
    /// unchanged.
    pub fn evict_ended(
        &mut self,
        keep: usize,
        now: f64,
        half_life: HalfLife,
        keeps_uncovered: bool,
    ) -> Vec<JobId> {
        let Some(jobs) = &mut self.jobs else { return Vec::new() };
        let is_covered = |job: &Tracked| self.base.covers(job);
        let end = |job: &Tracked| job.run.end().unwrap_or(f64::INFINITY);
        // If many jobs have the same earliest end, none of them can be evicted. This check avoids sorting
        // them each time a job ends.
        let first = jobs.ended.iter().map(end).fold(f64::INFINITY, f64::min);
        let at_first = jobs.ended.iter().filter(|job| end(job) == first).count();
        if first > now || at_first.saturating_add(keep) > jobs.ended.len() {
            jobs.unevictable_at = now;
            return Vec::new();
        }
        jobs.ended.sort_unstable_by(|a, b| end(a).total_cmp(&end(b)));
        jobs.version = jobs.version.wrapping_add(1);
        let many = jobs.ended.len().saturating_sub(keep);
        let first_kept = jobs.ended.get(many).map_or(f64::INFINITY, end);
        let stays =
            |job: &Tracked| end(job) >= first_kept || end(job) > now || keeps_uncovered && !is_covered(job);
        let split = jobs.ended.iter().position(stays).unwrap_or(jobs.ended.len());
        let mut gone = Vec::new();
        for job in jobs.ended.drain(..split) {
            let at = end(&job);
            if !is_covered(&job) {
                let used = job.run.usage(at, Mode::Elapsed, half_life);
                (jobs.sum, jobs.sum_since) = add_decayed((jobs.sum, jobs.sum_since), used, at, half_life);
            }
            jobs.horizon = jobs.horizon.max(at);
            gone.push(job.id);
        }
        self.ended_sum = None;
        gone
    }
}
