// SPDX-License-Identifier: LGPL-3.0-only
//! Half-life decay of usage in closed form.

use std::f64::consts::LN_2;

/// Below this a usage counts as 0: no denormals, and no nan made from them later.
pub const NEGLIGIBLE: f64 = 1e-9;

/// Usage as of an instant; it loses half of itself every half-life.
///
/// Times and half-lives are in seconds, on any one scale. A half-life of `None` means that nothing is ever forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Decaying {
    /// The usage at `since`.
    pub value: f64,
    /// When `value` was true.
    pub since: f64,
}

impl Decaying {
    /// The usage at `now`; a `now` before `since` gives the value as of `since`.
    pub fn at(self, now: f64, half_life: Option<f64>) -> f64 {
        decayed(self.value, now - self.since, half_life)
    }

    /// The same usage, with `amount` more at `now`: what was there decays to `now` first. An addition dated before
    /// `since` has itself decayed by the time of `since`, so the order of additions does not matter.
    pub fn add(self, amount: f64, now: f64, half_life: Option<f64>) -> Decaying {
        if now >= self.since {
            Decaying { value: self.at(now, half_life) + amount, since: now }
        } else {
            Decaying { value: self.value + decayed(amount, self.since - now, half_life), since: self.since }
        }
    }
}

/// What is left of `value` after `elapsed` seconds.
pub fn decayed(value: f64, elapsed: f64, half_life: Option<f64>) -> f64 {
    let left = value * remaining(elapsed, half_life);
    if left.abs() < NEGLIGIBLE { 0.0 } else { left }
}

/// The usage at `now` of an interval from `start` to `end` (or to now, if it is still running then) that uses `rate`
/// per second, decaying as it accrues.
pub fn interval(rate: f64, start: f64, end: f64, now: f64, half_life: Option<f64>) -> f64 {
    let end = end.min(now);
    let length = end - start;
    if length.is_nan() || length <= 0.0 {
        return 0.0;
    }
    let used = match half_life.filter(|half_life| *half_life > 0.0) {
        None => rate * length * remaining(now - end, half_life),
        // 1 - 2^(-length/h) by expm1: for a short interval and a long half-life the difference of two powers would
        // lose all its digits.
        Some(half_life) => {
            let accrued = -(-length / half_life * LN_2).exp_m1() * half_life / LN_2;
            rate * accrued * remaining(now - end, Some(half_life))
        }
    };
    if used.abs() < NEGLIGIBLE { 0.0 } else { used }
}

/// The part of a usage that is left after `elapsed` seconds. A half-life of 0 forgets everything at once.
fn remaining(elapsed: f64, half_life: Option<f64>) -> f64 {
    match half_life {
        Some(half_life) if elapsed > 0.0 => (-elapsed / half_life).exp2(),
        _ => 1.0,
    }
}
