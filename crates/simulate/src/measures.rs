// SPDX-License-Identifier: LGPL-3.0-only
//! Summarizes a replay: waits, slowdowns, shares.

use std::collections::BTreeMap;

use super::BankShares;
use super::delivery::Delivered;
use super::host::{NEVER, REJECTED, ReplayResult};
use super::trace::{Job, Trace};
use fairshare::group_all;
use fairshare_engine::ids::BankName;

/// The shortest run time that slowdowns use, in seconds, so that very short jobs do not dominate.
const TAU: f64 = 10.0;

/// The distribution of a value over jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Distribution {
    /// The mean.
    pub mean: f64,
    /// 50th percentile: the lowest value that at least 50 % of the values do not exceed.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
}

/// Summary of a set of jobs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// Number of jobs that started.
    pub jobs: usize,
    /// Seconds from submission to start.
    pub wait: Distribution,
    /// Time from submission to end divided by run time (at least 10 seconds).
    pub slowdown: Distribution,
}

/// The share of a bank's own associations in the tree, and the fraction of the usage that its jobs had.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BankShare {
    /// The share of the bank's own associations in the whole site according to the tree.
    pub promised: f64,
    /// The bank's fraction of all core-seconds while the bank had pending or running jobs.
    pub delivered: Option<f64>,
}

/// Summary of a replay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measures {
    /// All jobs that started.
    pub all: Group,
    /// The jobs of each bank, and its share.
    pub banks: BTreeMap<BankName, (Group, BankShare)>,
    /// The jobs of each size class, by the largest number of cores in the class.
    pub sizes: BTreeMap<u32, Group>,
    /// Number of rejected jobs.
    pub rejected: usize,
    /// Number of jobs that never started.
    pub never: usize,
    /// The fraction of the cluster's core-seconds that were used from the first submission to the last end.
    pub utilisation: f64,
    /// Jain's index of delivered / promised over the banks: 1 if the quotient is equal for all banks, 1/n if one bank
    /// got everything.
    pub jain: Option<f64>,
    /// The longest overtaking, in seconds: from the submission of a job to the start of a later job of equal size that started first.
    pub behind: f64,
    /// Seconds from the first submission to the last end.
    pub makespan: f64,
    /// Number of refreshes of live fair-share.
    pub refreshes: u64,
}

/// Returns the upper bound of a job's size class: 1, 4, 16, 64, ... cores.
fn size_class(cores: u32) -> u32 {
    let mut most = 1u32;
    while most < cores {
        most = most.saturating_mul(4);
    }
    most
}

pub(super) fn summarize_replay(trace: &Trace, finished: ReplayResult, bank_shares: &BankShares) -> Measures {
    let ReplayResult { starts, begin, end, cores, used, banks, refreshes } = finished;
    let jobs = trace.jobs();
    let (mut all, mut sizes) = (WaitsAndSlowdowns::default(), BTreeMap::<u32, WaitsAndSlowdowns>::new());
    let mut parties = vec![WaitsAndSlowdowns::default(); trace.parties().len()];
    let (mut rejected, mut never) = (0, 0);
    for (job, start) in jobs.iter().zip(&starts) {
        match *start {
            NEVER => never += 1,
            REJECTED => rejected += 1,
            start => {
                all.add(job, start);
                sizes.entry(size_class(job.cores)).or_default().add(job, start);
                if let Some(values) = parties.get_mut(trace.get_trace_job_owner_index(job)) {
                    values.add(job, start);
                }
            }
        }
    }
    let mut by_bank: BTreeMap<BankName, WaitsAndSlowdowns> = BTreeMap::new();
    for (party, values) in trace.parties().iter().zip(parties) {
        by_bank.entry(party.bank.clone()).or_default().append(values);
    }
    let delivered: BTreeMap<BankName, Delivered> = banks.into_iter().collect();
    let share = |bank: &BankName| BankShare {
        promised: bank_shares.get(bank).copied().unwrap_or(0.0),
        delivered: delivered
            .get(bank)
            .filter(|delivered| delivered.all > 0.0)
            .map(|delivered| delivered.own / delivered.all),
    };
    let banks: BTreeMap<_, _> = by_bank
        .into_iter()
        .map(|(bank, values)| {
            let share = share(&bank);
            (bank, (values.into_group(), share))
        })
        .collect();
    let makespan = end - begin;
    let capacity = cores as f64 * makespan;
    Measures {
        all: all.into_group(),
        jain: jain_index(banks.values().map(|(_, share)| *share)),
        banks,
        sizes: sizes.into_iter().map(|(most, values)| (most, values.into_group())).collect(),
        rejected,
        never,
        utilisation: if capacity > 0.0 { used / capacity } else { 0.0 },
        behind: find_longest_time_overtaken(jobs, &starts),
        makespan,
        refreshes,
    }
}

/// Waits and slowdowns of a set of jobs.
#[derive(Clone, Debug, Default)]
struct WaitsAndSlowdowns {
    waits: Vec<f64>,
    slowdowns: Vec<f64>,
}

impl WaitsAndSlowdowns {
    fn add(&mut self, job: &Job, start: f64) {
        let wait = start - job.submit;
        self.waits.push(wait);
        self.slowdowns.push(((wait + job.run) / job.run.max(TAU)).max(1.0));
    }

    fn append(&mut self, other: WaitsAndSlowdowns) {
        self.waits.extend(other.waits);
        self.slowdowns.extend(other.slowdowns);
    }

    fn into_group(mut self) -> Group {
        Group {
            jobs: self.waits.len(),
            wait: compute_mean_and_percentiles(&mut self.waits),
            slowdown: compute_mean_and_percentiles(&mut self.slowdowns),
        }
    }
}

fn compute_mean_and_percentiles(values: &mut [f64]) -> Distribution {
    if values.is_empty() {
        return Distribution::default();
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    values.sort_unstable_by(f64::total_cmp);
    let percentile = |part: f64| {
        let rank = (part * count).ceil().max(1.0) as usize;
        values.get(rank - 1).copied().unwrap_or_default()
    };
    Distribution { mean, p50: percentile(0.5), p95: percentile(0.95), p99: percentile(0.99) }
}

fn jain_index(shares: impl Iterator<Item = BankShare>) -> Option<f64> {
    let (mut sum, mut squares, mut count) = (0.0, 0.0, 0.0);
    for share in shares.filter(|share| share.promised > 0.0) {
        let Some(delivered) = share.delivered else { continue };
        let part = delivered / share.promised;
        sum += part;
        squares += part * part;
        count += 1.0;
    }
    (squares > 0.0).then(|| sum * sum / (count * squares))
}

/// Returns the longest overtaking, in seconds: from the submission of a job to the start of a later job of
/// equal size that started first.
fn find_longest_time_overtaken(jobs: &[Job], starts: &[f64]) -> f64 {
    let started = jobs.iter().zip(starts).enumerate().filter(|(_, (_, start))| **start != REJECTED);
    let of_size = group_all(started.map(|(number, (job, _))| ((job.nodes, job.cores, job.gpus), number)));
    let start = |number: usize| starts.get(number).copied().unwrap_or(NEVER);
    let submit = |number: usize| jobs.get(number).map_or(0.0, |job| job.submit);
    let mut worst: f64 = 0.0;
    for by_submission in of_size.into_values() {
        let mut by_start = by_submission.clone();
        by_start.sort_by(|a, b| start(*a).total_cmp(&start(*b)).then(a.cmp(b)));
        let mut oldest = by_submission.iter().copied().peekable();
        for number in by_start.into_iter().filter(|number| start(*number) < NEVER) {
            // Drops the jobs that have started by the start of job `number`. No later job can overtake them.
            while oldest.next_if(|old| start(*old) <= start(number)).is_some() {}
            if let Some(old) = oldest.peek().copied().filter(|old| *old < number) {
                worst = worst.max(start(number) - submit(old));
            }
        }
    }
    worst
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_percentile_is_one_of_the_measured_values() {
        let mut hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(
            compute_mean_and_percentiles(&mut hundred),
            Distribution { mean: 50.5, p50: 50.0, p95: 95.0, p99: 99.0 }
        );
        assert_eq!(
            compute_mean_and_percentiles(&mut [7.0]),
            Distribution { mean: 7.0, p50: 7.0, p95: 7.0, p99: 7.0 }
        );
        assert_eq!(compute_mean_and_percentiles(&mut []), Distribution::default());
    }

    #[test]
    fn size_classes_are_powers_of_four() {
        let classes = [1, 2, 4, 5, 16, 17, 1000, u32::MAX].map(size_class);
        assert_eq!(classes, [1, 4, 4, 16, 16, 64, 1024, u32::MAX]);
    }

    #[test]
    fn the_jain_index_is_1_if_all_banks_get_equal_parts_of_their_share() {
        let index_of = |pairs: &[(f64, f64)]| {
            jain_index(
                pairs.iter().map(|&(promised, delivered)| BankShare { promised, delivered: Some(delivered) }),
            )
        };
        assert_eq!(index_of(&[(0.5, 0.25), (0.25, 0.125)]), Some(1.0));
        assert_eq!(index_of(&[(0.5, 1.0), (0.5, 0.0)]), Some(0.5));
        assert_eq!(index_of(&[(0.0, 1.0)]), None);
    }

    #[test]
    fn the_longest_overtaking_considers_only_jobs_of_equal_size() {
        let job = |submit, cores| {
            let mut trace = Trace::default();
            let party =
                super::super::Party { user: fairshare_engine::ids::UserId(1), bank: "a".into(), queue: None };
            trace.push(party, submit, (1.0, 1.0), [1, cores, 0]);
            trace.jobs()[0]
        };
        let jobs = [job(0.0, 1), job(5.0, 1), job(6.0, 2), job(7.0, 1)];
        // The first and the last job have the same size, and the last job starts earlier, at time 30. The job with two
        // cores is ignored, because its size differs.
        assert_eq!(find_longest_time_overtaken(&jobs, &[40.0, 20.0, 35.0, 30.0]), 30.0);
        assert_eq!(find_longest_time_overtaken(&jobs, &[1.0, 20.0, 6.0, 30.0]), 0.0, "in order");
        assert_eq!(
            find_longest_time_overtaken(&jobs, &[NEVER, 20.0, 6.0, REJECTED]),
            20.0,
            "a job that never starts"
        );
        assert_eq!(find_longest_time_overtaken(&jobs, &[REJECTED, 20.0, 6.0, 30.0]), 0.0, "a rejected job");
    }
}
