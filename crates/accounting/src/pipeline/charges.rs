// SPDX-License-Identifier: LGPL-3.0-only
//! Computes the usage of each ended job by the exact rule: from its run time, its resources, the current
//! weights, and the charge factor that its queue had when the job started.

use super::periods::round5;
use super::placing::AccountIndex;
use super::{Result, resources};
use crate::store::{EndedJob, Ledger, Snapshot, UsageSettings, Which};
use fairshare::periods::Resources;

/// Returns the usage per second of a job that started at `start`: the weighted sum of its resources, times the charge factor of its queue.
pub(super) fn compute_usage_rate_of_job(
    settings: &UsageSettings,
    job: &EndedJob<'_>,
    ran_on: Resources,
    start: f64,
) -> f64 {
    let is_charged = !settings.charges.is_empty();
    let queue = job.jobspec.filter(|_| is_charged).and_then(resources::read_queue);
    let queue = queue.as_deref().or(job.running.and_then(|(_, queue)| queue));
    settings.charges.rate(settings.weights, ran_on, queue, start)
}

/// Returns the usage of a job that ran from `start` to `end`, rounded to five decimals.
pub(super) fn compute_usage_of_job(
    settings: &UsageSettings,
    job: &EndedJob<'_>,
    ran_on: Resources,
    (start, end): (f64, f64),
) -> f64 {
    round5(compute_usage_rate_of_job(settings, job, ran_on, start) * (end - start))
}

/// The usage of one job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Charge {
    /// Index of the association in the ledger.
    pub account: usize,
    /// Start of the job, in seconds since the epoch.
    pub from: f64,
    /// End of the job, in seconds since the epoch.
    pub to: f64,
    /// Usage of the job.
    pub usage: f64,
}

/// The usage of all jobs on record.
#[derive(Clone, Debug, Default)]
pub struct Charges {
    /// Associations and banks.
    pub ledger: Ledger,
    /// Jobs with a usage above 0, in the order of the records.
    pub jobs: Vec<Charge>,
}

impl Charges {
    /// Reads all records. As in `sync`, jobs without an association and invalid records are ignored.
    pub fn read(snapshot: &Snapshot<'_>) -> Result<Charges> {
        let settings = snapshot.usage_settings()?;
        let ledger = snapshot.ledger(&mut |_| ())?;
        let mut accounts_by_job = AccountIndex::new(&ledger);
        accounts_by_job.add_former_userids(&snapshot.former_userids(&ledger)?);
        let mut jobs = Vec::new();
        snapshot.ended_jobs(Which::All, &mut |job| {
            let ran_on = job.r.and_then(resources::count);
            let (Some((from, to)), Some(ran_on), Some((account, _))) =
                (job.times, ran_on, accounts_by_job.find_account(&job))
            else {
                return;
            };
            let usage = compute_usage_of_job(&settings, &job, ran_on, (from, to));
            if usage > 0.0 && usage.is_finite() && from < to {
                jobs.push(Charge { account, from, to, usage });
            }
        })?;
        Ok(Charges { jobs, ledger })
    }
}
