// SPDX-License-Identifier: LGPL-3.0-only
//! The usage rule of flux-accounting's `update-usage`, faults included: what it stores, number by number.
//!
//! It is here to compare with. `periods` has the parts of the exact rule.

/// One stored bin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bin {
    /// Which period; 0 is the present one.
    pub period: i64,
    /// The usage in it.
    pub value: f64,
    /// False where the row has another user id than the association: decay passes it over.
    pub own: bool,
}

/// The jobs of an association that are new in this run; without any, 0 and 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NewJobs {
    /// Are there any?
    pub any: bool,
    /// Their usages, added in the order in which they ended.
    pub usage: f64,
    /// When the last of them ended.
    pub last: f64,
}

/// What is the same for all associations of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clock {
    /// The time of the run.
    pub now: f64,
    /// The stored `end_half_life_period`.
    pub end: f64,
    /// The half-life.
    pub half_life: f64,
    /// What a boundary leaves of a usage.
    pub decay: f64,
}

/// The association has jobs, and no bin to count them in: `update-usage` gives up the whole run there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoBins;

impl Clock {
    /// One run for one association. Bins are in ascending order of periods. `Some` is the usage to store; `None` leaves
    /// the stored one alone.
    pub fn run(self, bins: &mut Vec<Bin>, new: NewJobs) -> Result<Option<f64>, NoBins> {
        let over = self.now - self.half_life;
        if !new.any && self.end > over {
            return Ok(None);
        }
        if !new.any && self.end < over {
            let past = self.decay(bins);
            put(bins, new.usage);
            return Ok(Some(past));
        }
        if new.last - self.end < self.half_life {
            let present = new.usage + bins.first().ok_or(NoBins)?.value;
            let past = bins.iter().skip(1).fold(0.0, |sum, bin| sum + bin.value);
            put(bins, present);
            return Ok(Some(present + past));
        }
        let usage = new.usage + self.decay(bins);
        put(bins, usage);
        Ok(Some(usage))
    }

    /// The `end_half_life_period` that the run leaves behind.
    pub fn next_end(self) -> f64 {
        if self.end < self.now - self.half_life { self.end + self.half_life } else { self.end }
    }

    /// Each period's value, decayed, goes to the next one if there is a row for it; returns the sum of all but the first.
    fn decay(self, bins: &mut [Bin]) -> f64 {
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

/// Stores the present period's value, in a new row if there is none.
fn put(bins: &mut Vec<Bin>, value: f64) {
    match bins.iter_mut().find(|bin| bin.period == 0) {
        Some(bin) => bin.value = value,
        None => bins.insert(0, Bin { period: 0, value, own: true }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOCK: Clock = Clock { now: 2_150.0, end: 1_000.0, half_life: 1_000.0, decay: 0.5 };

    fn bins(values: [f64; 3]) -> Vec<Bin> {
        (0..).zip(values).map(|(period, value)| Bin { period, value, own: true }).collect()
    }

    fn run(clock: Clock, values: [f64; 3], new: NewJobs) -> (Option<f64>, Vec<f64>) {
        let mut bins = bins(values);
        let usage = clock.run(&mut bins, new).expect("bins");
        (usage, bins.iter().map(|bin| bin.value).collect())
    }

    #[test]
    fn the_four_cases() {
        let jobs = |last| NewJobs { any: true, usage: 100.0, last };
        let early = Clock { now: 1_900.0, ..CLOCK };
        assert_eq!(run(early, [1.0, 2.0, 3.0], NewJobs::default()), (None, vec![1.0, 2.0, 3.0]));
        assert_eq!(run(CLOCK, [8.0, 4.0, 2.0], NewJobs::default()), (Some(6.0), vec![0.0, 4.0, 2.0]));
        assert_eq!(run(CLOCK, [8.0, 4.0, 2.0], jobs(1_999.0)), (Some(114.0), vec![108.0, 4.0, 2.0]));
        assert_eq!(run(CLOCK, [8.0, 4.0, 2.0], jobs(2_000.0)), (Some(106.0), vec![106.0, 4.0, 2.0]));
        assert_eq!((CLOCK.next_end(), early.next_end()), (2_000.0, 1_000.0));
        // Each period goes to the next one, whatever was there.
        assert_eq!(run(CLOCK, [8.0, 6.0, 2.0], NewJobs::default()), (Some(7.0), vec![0.0, 4.0, 3.0]));
        // At the very end of the period it is neither early nor over: all is added up.
        let just = Clock { now: 2_000.0, ..CLOCK };
        assert_eq!(run(just, [8.0, 4.0, 2.0], NewJobs::default()), (Some(14.0), vec![8.0, 4.0, 2.0]));
        assert_eq!(just.next_end(), 1_000.0);
    }

    #[test]
    fn rows_that_are_not_as_they_should_be() {
        let job = NewJobs { any: true, usage: 1.0, last: 5.0 };
        assert_eq!(CLOCK.run(&mut Vec::new(), job), Err(NoBins));
        let mut foreign = bins([8.0, 4.0, 2.0]);
        for bin in &mut foreign {
            bin.own = false;
        }
        assert_eq!(CLOCK.run(&mut foreign, NewJobs::default()), Ok(Some(0.0)));
        let values: Vec<f64> = foreign.iter().map(|bin| bin.value).collect();
        assert_eq!(values, [0.0, 4.0, 2.0], "the first is stored by name, whose ever it is");
    }
}
