// SPDX-License-Identifier: LGPL-3.0-only
//! Counts usage with continuous decay, in addition to the bins.
//!
//! The usage in the database decays at period boundaries only, while the plugin decays usage continuously (F4).
//! Pushing the stored usage would raise the usage of idle users at each push, and lower it after each boundary.
//! Therefore the usage rule `exact` also counts usage with continuous decay, and a push contains that usage.
//!
//! The usage is stored by bin, as of the start of the bin's period, and decays like the bins. It is dropped together
//! with its bin, and changes only if the bin changes.

use std::collections::HashSet;

use super::exact::Run;
use super::grouped::CountedJob;
use super::periods;
use crate::store::Continuous;

/// Returns the usage of an association with continuous decay, by bin.
///
/// `bins` are the stored bins before this run. `jobs` are the jobs that this run counts, and `boundaries` is
/// the number of boundaries that this run crosses.
pub(super) fn count_bins(
    run: &Run<'_>,
    at: usize,
    bins: &[f64],
    jobs: &[CountedJob],
    boundaries: u64,
) -> Vec<f64> {
    // If the bins are empty, an administrator has cleared them.
    let mut values = match last_count(run, at).filter(|_| bins.iter().any(|bin| *bin > 0.0)) {
        Some(last_count) => {
            let mut values = last_count.bins.clone();
            values.resize(bins.len(), 0.0);
            values
        }
        None => estimate_usage_from_stored_bins(run, at, bins),
    };
    periods::shift_bins(&mut values, boundaries, run.settings.decay);
    for job in jobs {
        if let Some(value) = values.get_mut(job.age as usize) {
            let period_start = run.periods.start(run.current.saturating_sub(i64::from(job.age)));
            // If the clock was set back, the end of the job may be in the future.
            let used = job.continuous * growth_factor(run, job.ended.min(run.now) - period_start);
            // `job.continuous` is negative if the job's usage moves from this bin to another bin. A bin must not
            // become negative.
            *value =
                (*value + periods::decay_at_boundaries(used, job.age as usize, run.settings.decay)).max(0.0);
        }
    }
    values
}

/// Returns the usage with continuous decay that the last sync stored for an association. Returns `None` if another
/// program has changed the usage since, or if a recount is due. But if flux-accounting has removed the association
/// and added it again, its stored usage is 0 although its bins remain.
pub(super) fn last_count<'a>(run: &Run<'a>, at: usize) -> Option<&'a Continuous> {
    let marks = run.marks.filter(|_| run.start.recount.is_none() && !run.is_foreign(at))?;
    let stored = run.ledger.accounts.get(at)?.usage;
    marks.continuous(*run.keys.get(at)?).filter(|known| known.usage == stored || stored == 0.0)
}

/// Adds the last count of removed associations that still have usage, decayed at `boundaries` period boundaries.
pub(super) fn add_removed_associations(
    run: &Run<'_>,
    boundaries: u64,
    counted: &mut Vec<(u64, f64)>,
    continuous: &mut Vec<Continuous>,
) {
    let Some(marks) = run.marks.filter(|_| run.start.recount.is_none()) else { return };
    let present: HashSet<u64> = run.keys.iter().copied().collect();
    for known in marks.continuous.iter().filter(|known| !present.contains(&known.key)) {
        let mut known = known.clone();
        periods::shift_bins(&mut known.bins, boundaries, run.settings.decay);
        if known.bins.iter().any(|bin| *bin > 0.0) {
            counted.push((known.key, marks.newest(known.key)));
            continuous.push(known);
        }
    }
}

/// Estimates the usage with continuous decay from bins that another program counted. The usage of the current bin
/// is as of the end of the association's newest job. Older bins last decayed at the start of the current period.
fn estimate_usage_from_stored_bins(run: &Run<'_>, at: usize, bins: &[f64]) -> Vec<f64> {
    let mut values = bins.to_vec();
    if let Some(present) = values.first_mut() {
        let period_start = run.periods.start(run.start.period);
        let newest = run.read_stored_newest_end(at).min(run.now).max(period_start);
        *present *= growth_factor(run, newest - period_start);
    }
    values
}

/// Returns the factor that converts current usage to usage `seconds` earlier.
pub(super) fn growth_factor(run: &Run<'_>, seconds: f64) -> f64 {
    if run.decay_time > 0.0 { (seconds / run.decay_time).exp2() } else { 1.0 }
}
