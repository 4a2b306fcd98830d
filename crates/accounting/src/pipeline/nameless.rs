// SPDX-License-Identifier: LGPL-3.0-only
//! Determines whether the stored usage includes jobs that name no bank. Only the exact rule counts such jobs, and its
//! marks may be lost.

use super::charges::usage_of_job;
use super::exact::Run;
use super::placing::AccountIndex;
use super::recount::is_close;
use super::resources;
use super::{Result, periods};
use crate::store::{Snapshot, Which};

/// Returns for each association whether its stored usage equals the usage of all its jobs, including those without a
/// bank.
pub(super) fn find_accounts_with_nameless_jobs(
    run: &Run<'_>,
    accounts_by_job: &AccountIndex<'_>,
    snapshot: &Snapshot<'_>,
) -> Result<Vec<bool>> {
    let mut sums = vec![0.0; run.ledger.accounts.len()];
    let kept = run.bin_count(None, false) as i64;
    snapshot.ended_jobs(Which::All, &mut |job| {
        let ran_on = job.r.and_then(resources::count);
        let (Some((from, to)), Some(ran_on), Some((at, _))) =
            (job.times, ran_on, accounts_by_job.find_account(&job))
        else {
            return;
        };
        let age = run.start.period.saturating_sub(run.periods.index(to)).max(0);
        if to > run.stored_newest(at) || run.is_cut_off(at, to) || age >= kept {
            return;
        }
        let usage = usage_of_job(run.settings, &job, ran_on, (from, to.max(from)));
        if let Some(sum) = sums.get_mut(at) {
            *sum += periods::decay_at_boundaries(
                usage,
                usize::try_from(age).unwrap_or(usize::MAX),
                run.settings.decay,
            );
        }
    })?;
    let stored = run.ledger.accounts.iter().map(|account| account.usage);
    Ok(stored.zip(sums).map(|(stored, sum)| is_close(stored, sum)).collect())
}
