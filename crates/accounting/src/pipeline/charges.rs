// SPDX-License-Identifier: LGPL-3.0-only
//! What each ended job used, and when: as the exact rule counts it, by today's weights, over the time that it ran.

use super::placing::Placing;
use super::{PipelineError, resources};
use crate::store::{Ledger, Snapshot, Which};

/// What one job used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Charge {
    /// Whose it is, by its place among the associations of the ledger.
    pub account: usize,
    /// When it began to run.
    pub from: f64,
    /// When it ended.
    pub to: f64,
    /// What the job counts.
    pub usage: f64,
}

/// What all jobs on record used.
#[derive(Clone, Debug, Default)]
pub struct Charges {
    /// The associations.
    pub ledger: Ledger,
    /// In the order of the records; jobs that count nothing are left out.
    pub jobs: Vec<Charge>,
}

impl Charges {
    /// Those of the records. Jobs without an association, and such as can't be read, count nowhere, as in `sync`.
    pub fn read(snapshot: &Snapshot<'_>) -> Result<Charges, PipelineError> {
        let weights = snapshot.usage_settings()?.weights;
        let ledger = snapshot.ledger(&mut |_| ())?;
        let mut placing = Placing::new(&ledger);
        placing.add_former(&snapshot.former_userids(&ledger)?);
        let mut jobs = Vec::new();
        snapshot.ended_jobs(Which::All, &mut |job| {
            let ran_on = job.r.and_then(resources::count);
            let (Some((from, to)), Some(ran_on), Some((account, _))) = (job.times, ran_on, placing.of(&job))
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
