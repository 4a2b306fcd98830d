// SPDX-License-Identifier: LGPL-3.0-only
//! Decay against its closed form, sums of small pieces, and values that once made a nan elsewhere.

use crate::decay::{Decaying, decayed, interval};

const DAY: f64 = 86_400.0;

#[track_caller]
fn near(ours: f64, expected: f64) {
    assert!((ours - expected).abs() <= 1e-12 * expected.abs(), "{ours}, expected {expected}");
}

#[test]
fn usage_decays_in_closed_form() {
    assert_eq!(decayed(1000.0, DAY, Some(DAY)), 500.0);
    assert_eq!(decayed(1000.0, 3.0 * DAY, Some(DAY)), 125.0);
    near(decayed(1000.0, DAY / 2.0, Some(DAY)), 1000.0 / 2f64.sqrt());
    assert_eq!(decayed(1000.0, 1e9, None), 1000.0);
    assert_eq!(decayed(1000.0, 0.0, Some(DAY)), 1000.0);
    // OpenPBS once got nan out of 1e-40.
    assert_eq!(decayed(1e-40, DAY, Some(DAY)), 0.0);
    assert_eq!(decayed(1e9, 1e12, Some(DAY)), 0.0);
    assert_eq!(decayed(5e-10, 0.0, Some(DAY)), 0.0);
    assert_eq!(decayed(7.0, 1.0, Some(0.0)), 0.0);
}

#[test]
fn additions_decay_what_was_there() {
    let start = Decaying { value: 100.0, since: 10.0 };
    let later = start.add(50.0, 10.0 + DAY, Some(DAY));
    assert_eq!(later, Decaying { value: 100.0, since: 10.0 + DAY });
    assert_eq!(later.at(10.0 + 2.0 * DAY, Some(DAY)), 50.0);
    // In any order: an addition that is reported late has decayed too.
    let late = Decaying { value: 0.0, since: DAY }.add(8.0, DAY, Some(DAY)).add(8.0, 0.0, Some(DAY));
    let sorted = Decaying::default().add(8.0, 0.0, Some(DAY)).add(8.0, DAY, Some(DAY));
    assert_eq!(late, sorted);
}

#[test]
fn a_running_interval_decays_as_it_accrues() {
    let half_life = 7.0 * DAY;
    // Against a sum of small pieces.
    let pieces: f64 = (0..100_000)
        .map(|piece| {
            let middle = (piece as f64 + 0.5) * DAY / 100_000.0;
            decayed(4.0 * DAY / 100_000.0, 2.0 * DAY - middle, Some(half_life))
        })
        .sum();
    let exact = interval(4.0, 0.0, DAY, 2.0 * DAY, Some(half_life));
    assert!((exact - pieces).abs() < 1e-6 * pieces, "{exact} {pieces}");
    // Two halves are the whole.
    let halves = interval(4.0, 0.0, DAY / 2.0, 2.0 * DAY, Some(half_life))
        + interval(4.0, DAY / 2.0, DAY, 2.0 * DAY, Some(half_life));
    near(halves, exact);
    // Still running: what has not been used yet does not count.
    near(interval(4.0, 0.0, 1e9, DAY, Some(half_life)), interval(4.0, 0.0, DAY, DAY, Some(half_life)));
    assert_eq!(interval(4.0, 0.0, 100.0, 1e12, None), 400.0);
    assert_eq!(interval(4.0, 5.0, 5.0, 10.0, Some(half_life)), 0.0);
    assert_eq!(interval(4.0, 9.0, 20.0, 5.0, Some(half_life)), 0.0);
    assert_eq!(interval(4.0, f64::NAN, 20.0, 50.0, Some(half_life)), 0.0);
    // A second out of a half-life of a thousand years, late in a long count of seconds: no digits lost.
    let millennium = 1000.0 * 365.25 * DAY;
    near(
        interval(1.0, 1.8e9, 1.8e9 + 1.0, 1.8e9 + 1.0, Some(millennium)),
        1.0 - std::f64::consts::LN_2 / millennium / 2.0,
    );
    assert_eq!(interval(1.0, 0.0, 1.0, 1e12, Some(1.0)), 0.0);
}
