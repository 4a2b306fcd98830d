// SPDX-License-Identifier: LGPL-3.0-only
//! Computes the usage of each ended job by the exact rule, with the current weights and over its run time.

use super::placing::AccountIndex;
use super::{PipelineError, resources};
use crate::store::{Ledger, Snapshot, Which};

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
    pub fn read(snapshot: &Snapshot<'_>) -> Result<Charges, PipelineError> {
        let weights = snapshot.usage_settings()?.weights;
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
            let usage = weights.usage(ran_on, to - from);
            if usage > 0.0 && usage.is_finite() && from < to {
                jobs.push(Charge { account, from, to, usage });
            }
        })?;
        Ok(Charges { jobs, ledger })
    }
}
