// SPDX-License-Identifier: LGPL-3.0-only
//! What a job counts at an instant, while it runs and after it ended, in closed form.
//!
//! Usage decays continuously as it accrues: a job with rate w that runs from a to b counts at T >= b
//! `w * h/ln2 * (1 - 2^-((b-a)/h)) * 2^-((T-b)/h)`. Nothing is worked out per second, and nothing is remembered between
//! two instants: the usage at T is a function of the job and T. So a clock that is set back gives what the job counted
//! then, one that jumps ahead gives what it will count if it still runs, and neither leaves a trace.
//!
//! All usages of a site shrink by one factor. [`Scale`] takes it out: `usage * 2^((T - epoch)/h)` of whoever does not run
//! anything is a constant, and a comparison of two usages needs no power of two. A constant in plain usage then changes
//! in scaled usage: `pbs`'s minimum usage has to be scaled at each instant, and [`NEGLIGIBLE`] is judged in plain usage.

use std::f64::consts::LN_2;

use super::decay::NEGLIGIBLE;

/// No rate is higher, and no time or duration longer: products of them stay far below [`super::MAX_USAGE`].
pub const MAX_RATE: f64 = 1e30;
/// Beyond this many seconds from 1970 a time is not believed.
pub const MAX_TIME: f64 = 1e12;
/// No usage that is pushed may be larger: there is room left to scale it.
pub const MAX_PUSHED: f64 = 1e250;
/// What a node-, core- or GPU-second counts is not more.
pub const MAX_WEIGHT: f64 = 1e12;
/// A scale is good for so many half-lives before and after its epoch.
const REACH: f64 = 64.0;

/// How fast usage is forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HalfLife(Option<f64>);

impl HalfLife {
    /// Nothing is ever forgotten.
    pub const NONE: HalfLife = HalfLife(None);

    /// A half-life in seconds; 0 and infinity are none. `None` for a number that is no duration, or too short to divide by.
    pub fn new(seconds: f64) -> Option<HalfLife> {
        match seconds {
            _ if seconds == 0.0 || seconds == f64::INFINITY => Some(HalfLife::NONE),
            _ if seconds >= 1e-3 => Some(HalfLife(Some(seconds))),
            _ => None,
        }
    }

    /// The seconds; `None` where nothing is forgotten.
    pub fn seconds(self) -> Option<f64> {
        self.0
    }

    /// What is left of 1 after so many seconds; all of it before any have passed.
    pub fn left_after(self, elapsed: f64) -> f64 {
        match self.0 {
            Some(half_life) if elapsed > 0.0 => (-elapsed / half_life).exp2(),
            _ => 1.0,
        }
    }

    /// What a rate of 1 has accrued at the end of an interval of this length.
    fn accrued(self, length: f64) -> f64 {
        match self.0 {
            _ if length.is_nan() || length <= 0.0 => 0.0,
            None => length,
            // By expm1: for a short interval the difference of two powers would lose all its digits.
            Some(half_life) => -(-length / half_life * LN_2).exp_m1() * half_life / LN_2,
        }
    }
}

/// What a running job counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// What it has used so far.
    #[default]
    Elapsed,
    /// That, and what it asked for and has not used yet, as if it were certain. When it ends, what it used stands. A job that
    /// runs as long as it asked for counts the same right before and right after its end, and never counts more than
    /// the larger of what it asked for and what it used. A job without a time limit counts what it has used.
    Committed,
}

/// One run of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    rate: f64,
    start: f64,
    end: f64,
    requested: f64,
}

impl Run {
    /// A run that began at `start` and counts `rate` a second. `None` where a number is none that a run can have.
    pub fn new(rate: f64, start: f64) -> Option<Run> {
        let sound = (0.0..=MAX_RATE).contains(&rate) && start.abs() <= MAX_TIME;
        sound.then_some(Run { rate, start, end: f64::INFINITY, requested: 0.0 })
    }

    /// The same run with a time limit in seconds; one that is no number, not positive or beyond all time is no limit.
    pub fn limited_to(self, seconds: f64) -> Run {
        let limited = seconds > 0.0 && seconds <= MAX_TIME;
        Run { requested: if limited { seconds } else { 0.0 }, ..self }
    }

    /// The same run with another rate; one that is none counts nothing, and none counts more than [`MAX_RATE`].
    pub fn with_rate(self, rate: f64) -> Run {
        Run { rate: if rate > 0.0 { rate.min(MAX_RATE) } else { 0.0 }, ..self }
    }

    /// The same run, ended; an end before the start is one at the start. `None` for a time that is none.
    pub fn ended_at(self, end: f64) -> Option<Run> {
        (end.abs() <= MAX_TIME).then_some(Run { end: end.max(self.start), ..self })
    }

    /// When it began.
    pub fn start(&self) -> f64 {
        self.start
    }

    /// When it ended; `None` while it runs.
    pub fn end(&self) -> Option<f64> {
        Some(self.end).filter(|end| end.is_finite())
    }

    /// What it counts at `now`.
    pub fn usage(&self, now: f64, mode: Mode, half_life: HalfLife) -> f64 {
        let until = self.end.min(now);
        let used = self.rate * half_life.accrued(until - self.start) * half_life.left_after(now - until);
        readable(used + self.outstanding(now, mode))
    }

    /// The same in units of a scale; what is negligible stays in.
    pub fn scaled(&self, now: f64, mode: Mode, scale: &Scale) -> f64 {
        let until = self.end.min(now);
        let used = self.rate * scale.half_life.accrued(until - self.start) * scale.factor(until);
        match self.outstanding(now, mode) {
            0.0 => used,
            outstanding => used + outstanding * scale.factor(now),
        }
    }

    /// What it is charged for before it has used it. A part of the future that has not come has not decayed either.
    fn outstanding(&self, now: f64, mode: Mode) -> f64 {
        if mode == Mode::Elapsed || self.end <= now {
            return 0.0;
        }
        // A run that is known to have ended later than now (the clock was set back) had this much before it.
        let expected = if self.end.is_finite() { self.end - self.start } else { self.requested };
        // Times have seven digits after the point, durations more.
        self.rate * (expected - (now - self.start)).clamp(0.0, expected)
    }
}

/// A usage as it is read: below [`NEGLIGIBLE`] it is 0.
pub fn readable(usage: f64) -> f64 {
    if usage < NEGLIGIBLE { 0.0 } else { usage }
}

/// The units in which the usage of whoever runs nothing is a constant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    epoch: f64,
    half_life: HalfLife,
}

impl Scale {
    /// Scaled usage is plain usage at `epoch`.
    pub fn new(epoch: f64, half_life: HalfLife) -> Scale {
        Scale { epoch, half_life }
    }

    /// When scaled usage is plain.
    pub fn epoch(&self) -> f64 {
        self.epoch
    }

    /// The half-life of the site.
    pub fn half_life(&self) -> HalfLife {
        self.half_life
    }

    /// Scaled usage of 1 at an instant.
    pub fn factor(&self, instant: f64) -> f64 {
        match self.half_life.0 {
            None => 1.0,
            Some(half_life) => ((instant - self.epoch) / half_life).exp2(),
        }
    }

    /// Plain usage at `now` of a scaled one.
    pub fn plain(&self, scaled: f64, now: f64) -> f64 {
        match self.half_life.0 {
            None => scaled,
            Some(half_life) => scaled * (-(now - self.epoch) / half_life).exp2(),
        }
    }

    /// When a scaled usage that nothing is added to becomes negligible; `None` for never.
    pub fn negligible_from(&self, scaled: f64) -> Option<f64> {
        let half_life = self.half_life.0?;
        let left = (scaled / NEGLIGIBLE).log2();
        left.is_finite().then_some(self.epoch + left * half_life)
    }

    /// The scale to use at `now`, if this one would lose digits or overflow there. Its epoch is whole half-lives away, so that
    /// usages are multiplied by an exact power of two: what is equal stays equal.
    pub fn rebased(&self, now: f64) -> Option<Scale> {
        let half_life = self.half_life.0?;
        let away = (now - self.epoch) / half_life;
        (away.abs() > REACH).then(|| Scale { epoch: self.epoch + away.round() * half_life, ..*self })
    }
}

#[cfg(test)]
pub(crate) mod tests;
