// SPDX-License-Identifier: LGPL-3.0-only
//! Usage with continuous decay, counted along with the bins.
//!
//! The usage in the database decays at period boundaries only.  The plugin decays usage continuously (live 2).  A push that
//! carried the stored usage would therefore raise the usage of idle users at each push, and lower it after each boundary.  So the
//! exact rule also counts the usage with continuous decay, and a push carries that.
//!
//! The usage is kept for each bin, as of the start of the period that the bin stands for, and decayed as the bins are.  So it
//! expires with its bin, and changes only when the bin changes.

use super::exact::Run;
use super::grouped::Counting;
use crate::store::Continuous;
use fairshare::periods;

/// Returns the usage of an association with continuous decay, bin by bin.
///
/// `bins` are the stored bins before this run, `jobs` the jobs that it counts, and `boundaries` the boundaries that it crosses.
pub(super) fn bins(run: &Run<'_>, at: usize, bins: &[f64], jobs: &[Counting], boundaries: u64) -> Vec<f64> {
    let mut values = match remembered(run, at) {
        Some(known) => {
            let mut values = known.bins.clone();
            values.resize(bins.len(), 0.0);
            values
        }
        None => of_stored(run, at, bins),
    };
    periods::shift_bins(&mut values, boundaries, run.settings.decay);
    for job in jobs {
        if let Some(value) = values.get_mut(job.age as usize) {
            let began = run.periods.start(run.current.saturating_sub(i64::from(job.age)));
            let used = job.continuous * growth(run, job.ended - began);
            // flux-accounting may have counted a job in another bin, from which it is taken.
            *value =
                (*value + periods::decay_at_boundaries(used, job.age as usize, run.settings.decay)).max(0.0);
        }
    }
    values
}

/// Returns what the last run counted; `None` if the stored usage is not what that run left.
pub(super) fn remembered<'a>(run: &Run<'a>, at: usize) -> Option<&'a Continuous> {
    let marks = run.marks.filter(|_| run.start.recount.is_none() && !run.is_foreign(at))?;
    marks.continuous(*run.keys.get(at)?, run.ledger.accounts.get(at)?.usage)
}

/// Bins that somebody else counted: the present bin is taken as of the end of its newest job, older ones as of the start of the
/// present period, at which they decayed last.
fn of_stored(run: &Run<'_>, at: usize, bins: &[f64]) -> Vec<f64> {
    let mut values = bins.to_vec();
    if let Some(present) = values.first_mut() {
        let began = run.periods.start(run.start.period);
        let newest = run.stored_newest(at).min(run.now).max(began);
        *present *= growth(run, newest - began);
    }
    values
}

/// Returns the factor by which usage was larger `seconds` earlier.
fn growth(run: &Run<'_>, seconds: f64) -> f64 {
    if run.decay_time > 0.0 { (seconds / run.decay_time).exp2() } else { 1.0 }
}
