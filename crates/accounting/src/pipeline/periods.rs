// SPDX-License-Identifier: LGPL-3.0-only
//! Usage in half-life periods: the period that a job counts in, and the decay of an association's bins.
//!
//! Numbers are added in flux-accounting's order, from left to right and without compensation, so that both programs
//! get the same sum to the last digit.

use super::{PipelineError, Result};
use crate::store::UsageSettings;

/// Rounds to five decimals as Python's `round(number, 5)` does, ties to the even digit.
pub fn round5(number: f64) -> f64 {
    const SCALE: f64 = 1e5;
    if number.fract() == 0.0 || !number.is_finite() {
        return number;
    }
    let scaled = number * SCALE;
    // Below 2^52, `scaled` can be rounded directly unless it is very close to a half. Close to a half, the rounding
    // error of the multiplication could change the result.
    let is_near_tie = ((scaled - scaled.floor()) - 0.5).abs() <= scaled.abs() * 4.0 * f64::EPSILON;
    if scaled.abs() < 4_503_599_627_370_496.0 && !is_near_tie {
        return scaled.round() / SCALE;
    }
    format!("{number:.5}").parse().unwrap_or(number)
}

/// The half-life periods of a site: boundaries at equal distances before and after an anchor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Periods {
    anchor: f64,
    length: f64,
}

impl Periods {
    /// Makes periods of `length` seconds, one of which begins at `anchor`. Returns `None` if a number is not finite,
    /// or if `length` is not positive or too short to separate two boundaries in f64.
    pub fn new(anchor: f64, length: f64) -> Option<Periods> {
        let is_valid =
            anchor.is_finite() && length.is_finite() && length > anchor.abs() * 16.0 * f64::EPSILON;
        is_valid.then_some(Periods { anchor, length })
    }

    /// Returns the periods that the settings of a database define.
    pub(super) fn read(settings: &UsageSettings) -> Result<Periods> {
        let (end, half_life) = (settings.period_end, settings.half_life);
        Periods::new(end, half_life).ok_or(PipelineError::Periods { end, half_life })
    }

    /// Returns the index of the period that contains `instant`; 0 begins at the anchor. A boundary belongs to the
    /// later period.
    pub fn index(self, instant: f64) -> i64 {
        let mut index = ((instant - self.anchor) / self.length).floor() as i64;
        // The division may round `index` to a neighbouring period.
        if instant < self.start(index) {
            index = index.saturating_sub(1);
        } else if instant >= self.start(index.saturating_add(1)) {
            index = index.saturating_add(1);
        }
        index
    }

    /// Returns the start of period `index`, in seconds.
    pub fn start(self, index: i64) -> f64 {
        self.anchor + index as f64 * self.length
    }
}

/// Moves all bins by `boundaries` periods. Each value moves to an older bin and decays once per boundary. Values
/// that leave the oldest bin are dropped.
pub fn shift_bins(bins: &mut [f64], boundaries: u64, decay: f64) {
    let by = usize::try_from(boundaries).unwrap_or(usize::MAX).min(bins.len());
    bins.rotate_right(by);
    let (new, old) = bins.split_at_mut(by);
    new.fill(0.0);
    for bin in old {
        *bin = decay_at_boundaries(*bin, by, decay);
    }
}

/// Returns the usage that remains of `usage` after `boundaries` period boundaries. Multiplies once per boundary.
pub fn decay_at_boundaries(usage: f64, boundaries: usize, decay: f64) -> f64 {
    (0..boundaries).fold(usage, |usage, _| usage * decay)
}

/// Returns the sum of the bins. Adds up the past periods first.
pub fn total_usage(bins: &[f64]) -> f64 {
    let Some((present, past)) = bins.split_first() else { return 0.0 };
    present + past.iter().fold(0.0, |sum, bin| sum + bin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert_eq, prop_oneof, proptest};

    /// Each pair is a number and the output of Python's `round(number, 5)`.
    #[test]
    fn round5_gives_the_same_results_as_python() {
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
    fn a_period_boundary_belongs_to_the_period_that_begins_there() {
        let periods = Periods::new(1_000.5, 100.0).expect("sound");
        for (instant, index) in
            [(1_000.5, 0), (1_100.4, 0), (1_100.5, 1), (1_000.4, -1), (900.5, -1), (900.4, -2)]
        {
            assert_eq!(periods.index(instant), index, "{instant}");
            assert!(periods.start(index) <= instant && instant < periods.start(index + 1));
        }
        assert_eq!(Periods::new(0.0, 0.0), None);
        assert_eq!(Periods::new(f64::NAN, 1.0), None);
        // Near 9.2e18, neighbouring f64 values are more than one period apart, so two periods could begin at the same
        // value.
        assert_eq!(Periods::new(9.2e18, 1_000.0), None);
        let coarse = Periods::new(-1e17, 1_000.0).expect("sound");
        assert!((-5..5).all(|index| coarse.index(coarse.start(index)) == index));
    }

    #[test]
    fn shift_bins_moves_each_bin_and_decays_it() {
        let mut bins = [8.0, 4.0, 2.0, 1.0];
        shift_bins(&mut bins, 1, 0.5);
        assert_eq!(bins, [0.0, 4.0, 2.0, 1.0]);
        shift_bins(&mut bins, 2, 0.5);
        assert_eq!(bins, [0.0, 0.0, 0.0, 1.0]);
        shift_bins(&mut bins, 9, 0.5);
        assert_eq!(bins, [0.0; 4]);
        assert_eq!(total_usage(&[1.0, 2.0, 3.0]), 6.0);
        assert_eq!(total_usage(&[]), 0.0);
    }

    proptest! {
        /// The expected value is the decimal that Rust prints: exact, ties to even.
        #[test]
        fn round5_equals_the_printed_decimal(whole in prop_oneof![-2_000_000_000_000i64..2_000_000_000_000, -9_000_000_000_000_000i64..9_000_000_000_000_000], steps in -4i64..5, scale in 0i32..7) {
            let tie = (whole as f64 + 0.5) / 1e5 / 10f64.powi(scale);
            let near = f64::from_bits(tie.to_bits().wrapping_add_signed(steps));
            for number in [near, near * 7.0, whole as f64, whole as f64 / 1e5] {
                prop_assert_eq!(round5(number), format!("{number:.5}").parse::<f64>().unwrap(), "{}", number);
            }
        }
    }

    #[test]
    fn round5_does_not_change_integers() {
        for number in [f64::INFINITY, f64::NEG_INFINITY, 0.0, -3.0, 1e300, 4_503_599_627_370_497.0] {
            assert_eq!(round5(number), number);
        }
        assert!(round5(f64::NAN).is_nan());
    }
}
