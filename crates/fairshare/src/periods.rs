// SPDX-License-Identifier: LGPL-3.0-only
//! Usage in half-life periods: what a job counts, in which period, and how the bins of an association move.
//!
//! Sums are taken in the order in which flux-accounting takes them, from the left and without compensation, so that
//! the same jobs give the same number to the last digit.

/// What a node, a core and a GPU count per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// Of a node.
    pub node: f64,
    /// Of a core.
    pub core: f64,
    /// Of a GPU.
    pub gpu: f64,
}

/// What a job ran on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Nodes.
    pub nodes: u64,
    /// Cores, over all nodes.
    pub cores: u64,
    /// GPUs, over all nodes.
    pub gpus: u64,
}

impl Default for Weights {
    fn default() -> Self {
        Weights { node: 1.0, core: 0.0, gpu: 0.0 }
    }
}

impl Weights {
    /// What a job counts a second.
    pub fn rate(self, ran_on: Resources) -> f64 {
        ran_on.nodes as f64 * self.node + ran_on.cores as f64 * self.core + ran_on.gpus as f64 * self.gpu
    }

    /// The usage of a job that ran for so many seconds, rounded to five decimals.
    pub fn usage(self, ran_on: Resources, seconds: f64) -> f64 {
        round5(self.rate(ran_on) * seconds)
    }
}

/// The number with five decimals that is nearest, a tie to the even digit: Python's `round(number, 5)`.
pub fn round5(number: f64) -> f64 {
    const SCALE: f64 = 1e5;
    if number.fract() == 0.0 || !number.is_finite() {
        return number;
    }
    let scaled = number * SCALE;
    // Below 2^52 the quotient of two exact numbers is the nearest to the decimal. The product is off by half a unit in
    // the last place at most: only so near to a tie may it round the wrong way.
    let doubt = ((scaled - scaled.floor()) - 0.5).abs() <= scaled.abs() * 4.0 * f64::EPSILON;
    if scaled.abs() < 4_503_599_627_370_496.0 && !doubt {
        return scaled.round() / SCALE;
    }
    format!("{number:.5}").parse().unwrap_or(number)
}

/// The half-life periods of a site: boundaries lie one length apart, up and down from an instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Periods {
    anchor: f64,
    length: f64,
}

impl Periods {
    /// Periods of this length, one of which begins at `anchor`. `None` unless both are finite and the length is positive, and so long
    /// that one boundary can be told from the next.
    pub fn new(anchor: f64, length: f64) -> Option<Periods> {
        let sound = anchor.is_finite() && length.is_finite() && length > anchor.abs() * 16.0 * f64::EPSILON;
        sound.then_some(Periods { anchor, length })
    }

    /// Which period an instant belongs to; 0 is the one that begins at the anchor. A boundary begins the later one.
    pub fn index(self, instant: f64) -> i64 {
        let mut index = ((instant - self.anchor) / self.length).floor() as i64;
        // The quotient may be rounded across a boundary.
        if instant < self.start(index) {
            index = index.saturating_sub(1);
        } else if instant >= self.start(index.saturating_add(1)) {
            index = index.saturating_add(1);
        }
        index
    }

    /// When a period begins.
    pub fn start(self, index: i64) -> f64 {
        self.anchor + index as f64 * self.length
    }
}

/// Moves the bins on by so many boundaries: each becomes older and decays once for each, the oldest are forgotten.
pub fn shift(bins: &mut [f64], boundaries: u64, decay: f64) {
    let by = usize::try_from(boundaries).unwrap_or(usize::MAX).min(bins.len());
    bins.rotate_right(by);
    let (new, old) = bins.split_at_mut(by);
    new.fill(0.0);
    for bin in old {
        *bin = decayed(*bin, by, decay);
    }
}

/// What is left of a usage after so many boundaries, one after the other.
pub fn decayed(usage: f64, boundaries: usize, decay: f64) -> f64 {
    (0..boundaries).fold(usage, |usage, _| usage * decay)
}

/// The usage that bins add up to.
pub fn total(bins: &[f64]) -> f64 {
    let Some((present, past)) = bins.split_first() else { return 0.0 };
    present + past.iter().fold(0.0, |sum, bin| sum + bin)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs that Python printed: number, `round(number, 5)`.
    #[test]
    fn rounding_is_pythons() {
        for (number, rounded) in [
            (1.0 / 64.0, 0.01562),
            (3.0 / 64.0, 0.04688),
            (5.0 / 64.0, 0.07812),
            (1234.015625, 1234.01562),
            (1234.046875, 1234.04688),
            (2.675005, 2.67501),
            (0.000005, 1e-5),
            (0.000015, 2e-5),
            (0.000025, 3e-5),
            (1.000005, 1.00001),
            (98765432109.12344, 98765432109.12344),
            (12345678901234.566, 12345678901234.566),
            (-0.015625, -0.01562),
            (3600.0, 3600.0),
        ] {
            assert_eq!(round5(number), rounded, "{number}");
        }
    }

    #[test]
    fn a_boundary_begins_the_later_period() {
        let periods = Periods::new(1_000.5, 100.0).expect("sound");
        for (instant, index) in
            [(1_000.5, 0), (1_100.4, 0), (1_100.5, 1), (1_000.4, -1), (900.5, -1), (900.4, -2)]
        {
            assert_eq!(periods.index(instant), index, "{instant}");
            assert!(periods.start(index) <= instant && instant < periods.start(index + 1));
        }
        assert_eq!(Periods::new(0.0, 0.0), None);
        assert_eq!(Periods::new(f64::NAN, 1.0), None);
        // Beside so great a number a week is nothing: what begins a period would lie in another.
        assert_eq!(Periods::new(9.2e18, 1_000.0), None);
        let coarse = Periods::new(-1e17, 1_000.0).expect("sound");
        assert!((-5..5).all(|index| coarse.index(coarse.start(index)) == index));
    }

    #[test]
    fn bins_move_and_decay() {
        let mut bins = [8.0, 4.0, 2.0, 1.0];
        shift(&mut bins, 1, 0.5);
        assert_eq!(bins, [0.0, 4.0, 2.0, 1.0]);
        shift(&mut bins, 2, 0.5);
        assert_eq!(bins, [0.0, 0.0, 0.0, 1.0]);
        shift(&mut bins, 9, 0.5);
        assert_eq!(bins, [0.0; 4]);
        assert_eq!(total(&[1.0, 2.0, 3.0]), 6.0);
        assert_eq!(total(&[]), 0.0);
    }
}
