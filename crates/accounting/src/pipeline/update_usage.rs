// SPDX-License-Identifier: LGPL-3.0-only
//! Reproduces the usage rule of flux-accounting's `update-usage`, including its faults, so that `compare` and
//! `recount` can show the difference. The module `exact` contains this program's own rule.

/// The usage of one association in one half-life period, as flux-accounting stores it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bin {
    /// The age of the period; 0 is the current period.
    pub(super) period: i64,
    /// Usage of the period.
    pub(super) value: f64,
    /// False if the row and the association have different user ids. Such rows are not decayed.
    pub(super) own: bool,
}

/// The jobs of an association that are new in this run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct NewJobs {
    /// True if there are new jobs.
    pub(super) any: bool,
    /// Sum of the usages of the new jobs, added in the order in which the jobs ended.
    pub(super) usage: f64,
    /// End time of the job that ended last.
    pub(super) last: f64,
}

/// The values that are the same for all associations in one run of `update-usage`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Clock {
    /// Time of the run, in seconds since the epoch.
    pub(super) now: f64,
    /// The stored `end_half_life_period`.
    pub(super) end: f64,
    /// Half-life in seconds.
    pub(super) half_life: f64,
    /// Factor by which usage decays at a period boundary.
    pub(super) decay: f64,
}

/// The association has new jobs but no bin. In this case `update-usage` aborts the run for all associations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoBins;

impl Clock {
    /// Updates the bins of one association, which are sorted by period. Returns the new usage, or `None` if the
    /// stored usage does not change.
    pub(super) fn update_bins(self, bins: &mut Vec<Bin>, new: NewJobs) -> Result<Option<f64>, NoBins> {
        let last_boundary = self.now - self.half_life;
        if !new.any && self.end > last_boundary {
            return Ok(None);
        }
        if !new.any && self.end < last_boundary {
            let past = self.decay_bins(bins);
            store_present_value(bins, new.usage);
            return Ok(Some(past));
        }
        if new.last - self.end < self.half_life {
            let present = new.usage + bins.first().ok_or(NoBins)?.value;
            let past = bins.iter().skip(1).fold(0.0, |sum, bin| sum + bin.value);
            store_present_value(bins, present);
            return Ok(Some(present + past));
        }
        let usage = new.usage + self.decay_bins(bins);
        store_present_value(bins, usage);
        Ok(Some(usage))
    }

    /// Returns the `end_half_life_period` that this run stores.
    pub(super) fn next_period_end(self) -> f64 {
        if self.end < self.now - self.half_life { self.end + self.half_life } else { self.end }
    }

    /// Moves each period's decayed value to the row of the next older period, if that row exists. Returns the sum of
    /// all periods except the current one.
    fn decay_bins(self, bins: &mut [Bin]) -> f64 {
        for at in (0..bins.len()).rev() {
            let Some(Bin { period, value, .. }) = bins.get(at).copied() else { continue };
            if let Some(next) = bins.get_mut(at + 1)
                && next.own
                && next.period == period + 1
            {
                next.value = value * self.decay;
            }
        }
        for bin in bins.iter_mut().filter(|bin| bin.own && bin.period == 0) {
            bin.value = 0.0;
        }
        bins.iter().filter(|bin| bin.own && bin.period > 0).fold(0.0, |sum, bin| sum + bin.value)
    }
}

/// Stores the value of the current period. Adds a row if the period has none.
fn store_present_value(bins: &mut Vec<Bin>, value: f64) {
    match bins.iter_mut().find(|bin| bin.period == 0) {
        Some(bin) => bin.value = value,
        None => bins.insert(0, Bin { period: 0, value, own: true }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOCK: Clock = Clock { now: 2_150.0, end: 1_000.0, half_life: 1_000.0, decay: 0.5 };

    fn make_bins(values: [f64; 3]) -> Vec<Bin> {
        (0..).zip(values).map(|(period, value)| Bin { period, value, own: true }).collect()
    }

    fn update_values(clock: Clock, values: [f64; 3], new: NewJobs) -> (Option<f64>, Vec<f64>) {
        let mut bins = make_bins(values);
        let usage = clock.update_bins(&mut bins, new).expect("bins");
        (usage, bins.iter().map(|bin| bin.value).collect())
    }

    #[test]
    fn each_branch_of_update_usage_stores_the_total_of_flux_accounting() {
        let jobs = |last| NewJobs { any: true, usage: 100.0, last };
        let early = Clock { now: 1_900.0, ..CLOCK };
        assert_eq!(update_values(early, [1.0, 2.0, 3.0], NewJobs::default()), (None, vec![1.0, 2.0, 3.0]));
        assert_eq!(
            update_values(CLOCK, [8.0, 4.0, 2.0], NewJobs::default()),
            (Some(6.0), vec![0.0, 4.0, 2.0])
        );
        assert_eq!(
            update_values(CLOCK, [8.0, 4.0, 2.0], jobs(1_999.0)),
            (Some(114.0), vec![108.0, 4.0, 2.0])
        );
        assert_eq!(
            update_values(CLOCK, [8.0, 4.0, 2.0], jobs(2_000.0)),
            (Some(106.0), vec![106.0, 4.0, 2.0])
        );
        assert_eq!((CLOCK.next_period_end(), early.next_period_end()), (2_000.0, 1_000.0));
        // update-usage copies each period over the next older one, one after the other.
        assert_eq!(
            update_values(CLOCK, [8.0, 6.0, 2.0], NewJobs::default()),
            (Some(7.0), vec![0.0, 4.0, 3.0])
        );
        // If a half-life period ends exactly now, flux-accounting's update-usage adds up the usage of all periods.
        let just = Clock { now: 2_000.0, ..CLOCK };
        assert_eq!(
            update_values(just, [8.0, 4.0, 2.0], NewJobs::default()),
            (Some(14.0), vec![8.0, 4.0, 2.0])
        );
        assert_eq!(just.next_period_end(), 1_000.0);
    }

    #[test]
    fn missing_and_foreign_rows_are_handled_as_in_update_usage() {
        let job = NewJobs { any: true, usage: 1.0, last: 5.0 };
        assert_eq!(CLOCK.update_bins(&mut Vec::new(), job), Err(NoBins));
        let mut foreign = make_bins([8.0, 4.0, 2.0]);
        for bin in &mut foreign {
            bin.own = false;
        }
        assert_eq!(CLOCK.update_bins(&mut foreign, NewJobs::default()), Ok(Some(0.0)));
        let values: Vec<f64> = foreign.iter().map(|bin| bin.value).collect();
        assert_eq!(values, [0.0, 4.0, 2.0], "the present period is stored even in a foreign row");
    }
}
