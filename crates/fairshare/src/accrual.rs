// SPDX-License-Identifier: LGPL-3.0-only
//! Computes the usage of a job at any time, while the job runs and after its end, by one formula.
//!
//! Usage decays continuously while it accrues. A job with rate w that runs from a to b has at T >= b the usage `w *
//! h/ln2 * (1 - 2^-((b-a)/h)) * 2^-((T-b)/h)`. The usage at T depends only on the job and on T. It needs no sum per
//! second, and no state from an earlier time. A clock that is set back or forward therefore causes no lasting error.
//!
//! All usages of a site decay by the same factor. [`Scale`] divides usages by this factor. The scaled usage
//! of an association without running jobs, `usage * 2^((T - epoch)/h)`, is constant, so two usages are
//! compared without a power of two. A constant plain usage, such as the minimum usage of `pbs`, must be
//! scaled again for each time. [`NEGLIGIBLE`] is compared with plain usage.

use std::f64::consts::LN_2;
use strum::{EnumString, IntoStaticStr};

/// Smaller usage becomes 0, so that decay never produces denormal numbers.
pub const NEGLIGIBLE: f64 = 1e-9;
/// Highest usage that a job accrues per second. The product of this rate and [`MAX_TIME`] is far below [`super::MAX_USAGE`].
pub const MAX_RATE: f64 = 1e30;
/// Latest valid time, in seconds before or after 1970, and longest valid duration.
pub const MAX_TIME: f64 = 1e12;
/// Highest usage in a push. It is so far below [`super::MAX_USAGE`] that a [`Scale`] can multiply it.
pub const MAX_PUSHED: f64 = 1e250;
/// Highest weight of a node-, core- or GPU-second.
pub const MAX_WEIGHT: f64 = 1e12;
/// A [`Scale`] may be used at times that are at most this number of half-lives before or after its epoch.
const MAX_HALF_LIVES: f64 = 64.0;

/// Half-life of usage, or no decay.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HalfLife(Option<f64>);

impl HalfLife {
    /// Usage does not decay.
    pub const NONE: HalfLife = HalfLife(None);

    /// Makes a half-life from seconds; 0 and infinity mean no decay. Returns `None` for NaN, negative values and
    /// values below 1 ms.
    pub fn new(seconds: f64) -> Option<HalfLife> {
        match seconds {
            _ if seconds == 0.0 || seconds == f64::INFINITY => Some(HalfLife::NONE),
            _ if seconds >= 1e-3 => Some(HalfLife(Some(seconds))),
            _ => None,
        }
    }

    /// Returns the half-life in seconds, or `None` without decay.
    pub fn seconds(self) -> Option<f64> {
        self.0
    }

    /// Returns the fraction of a usage that is left after `elapsed` seconds; 1 if `elapsed` <= 0.
    pub fn left_after(self, elapsed: f64) -> f64 {
        if elapsed > 0.0 { self.power_of_two(-elapsed) } else { 1.0 }
    }

    /// Returns 2^(`seconds` / half-life), or 1 without decay.
    fn power_of_two(self, seconds: f64) -> f64 {
        self.0.map_or(1.0, |half_life| (seconds / half_life).exp2())
    }

    /// Returns the decayed usage at the end of an interval of `length` seconds with rate 1.
    pub fn accrued(self, length: f64) -> f64 {
        match self.0 {
            _ if length.is_nan() || length <= 0.0 => 0.0,
            None => length,
            // expm1 is exact for short intervals, where the difference of two powers would lose all digits.
            Some(half_life) => -(-length / half_life * LN_2).exp_m1() * half_life / LN_2,
        }
    }
}

/// The usage that is counted for a running job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Mode {
    /// The usage until now.
    #[default]
    Elapsed,
    /// The usage until now, plus the usage that the job would have in the rest of its time limit. After the job ends,
    /// only its actual usage is counted. For a job without a time limit, the same as [`Mode::Elapsed`].
    Committed,
}

impl Mode {
    /// Returns the name of the accrual mode in the configuration.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// One run of a job: rate, start, end and time limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    rate: f64,
    start: f64,
    end: f64,
    requested: f64,
}

impl Run {
    /// Returns a job run that starts at `start` and accrues `rate` per second. Returns `None` if `rate` or `start` is out of range.
    pub fn new(rate: f64, start: f64) -> Option<Run> {
        let is_valid = (0.0..=MAX_RATE).contains(&rate) && start.abs() <= MAX_TIME;
        is_valid.then_some(Run { rate, start, end: f64::INFINITY, requested: 0.0 })
    }

    /// Returns the run with a time limit of `seconds`. The run has no limit if `seconds` is NaN, not
    /// positive, or above [`MAX_TIME`].
    pub fn limit_run_time(self, seconds: f64) -> Run {
        let has_limit = seconds > 0.0 && seconds <= MAX_TIME;
        Run { requested: if has_limit { seconds } else { 0.0 }, ..self }
    }

    /// Returns the run with another rate, limited to 0 to [`MAX_RATE`]; NaN becomes 0.
    pub fn with_rate(self, rate: f64) -> Run {
        Run { rate: if rate > 0.0 { rate.min(MAX_RATE) } else { 0.0 }, ..self }
    }

    /// Sets the end of the run. If `end` is before the start, the run ends at its start. Returns `None` if `end` is beyond [`MAX_TIME`].
    pub fn with_end(self, end: f64) -> Option<Run> {
        (end.abs() <= MAX_TIME).then_some(Run { end: end.max(self.start), ..self })
    }

    /// Returns the start in seconds since the epoch.
    pub fn start(&self) -> f64 {
        self.start
    }

    /// Returns the end in seconds since the epoch, or `None` while the job runs.
    pub fn end(&self) -> Option<f64> {
        Some(self.end).filter(|end| end.is_finite())
    }

    /// Returns the time limit in seconds; 0 means none.
    pub fn time_limit(&self) -> f64 {
        self.requested
    }

    /// Returns the usage at `now`; negligible usage is 0.
    pub fn usage(&self, now: f64, mode: Mode, half_life: HalfLife) -> f64 {
        zero_negligible(self.scaled(now, mode, &Scale::new(now, half_life)))
    }

    /// Returns the usage at `now` in the units of `scale`. Negligible usage is not removed.
    pub fn scaled(&self, now: f64, mode: Mode, scale: &Scale) -> f64 {
        let until = self.end.min(now);
        let used = self.rate * scale.half_life.accrued(until - self.start) * scale.factor(until);
        match self.outstanding(now, mode) {
            0.0 => used,
            outstanding => used + outstanding * scale.factor(now),
        }
    }

    /// Returns the usage that `mode` adds for the rest of the time limit. This usage is not decayed.
    fn outstanding(&self, now: f64, mode: Mode) -> f64 {
        if mode == Mode::Elapsed || self.end <= now {
            return 0.0;
        }
        // If the clock was set back, the job may end later than `now`. The usage until the end of the job is then added too.
        let expected = if self.end.is_finite() { self.end - self.start } else { self.requested };
        // Because of rounding, the difference may be outside this range: times have seven digits after the decimal
        // point, and durations have more.
        self.rate * (expected - (now - self.start)).clamp(0.0, expected)
    }
}

/// Returns `usage`, or 0 if it is below [`NEGLIGIBLE`].
pub fn zero_negligible(usage: f64) -> f64 {
    if usage < NEGLIGIBLE { 0.0 } else { usage }
}

/// Converts usage to scaled usage, which is constant for an association without running jobs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    epoch: f64,
    half_life: HalfLife,
}

impl Scale {
    /// Makes a scale in which scaled usage equals plain usage at `epoch`.
    pub fn new(epoch: f64, half_life: HalfLife) -> Scale {
        Scale { epoch, half_life }
    }

    /// Returns the time at which scaled usage equals plain usage.
    pub fn epoch(&self) -> f64 {
        self.epoch
    }

    /// Returns the half-life with which usage decays.
    pub fn half_life(&self) -> HalfLife {
        self.half_life
    }

    /// Returns the factor that converts usage at the time `instant` to scaled usage.
    pub fn factor(&self, instant: f64) -> f64 {
        self.half_life.power_of_two(instant - self.epoch)
    }

    /// Converts scaled usage to the real usage at the time `now`.
    pub fn plain(&self, scaled: f64, now: f64) -> f64 {
        scaled * self.half_life.power_of_two(self.epoch - now)
    }

    /// Returns the time at which the usage `scaled` becomes negligible if no usage is added, or `None` if it never does.
    pub fn find_negligible_time(&self, scaled: f64) -> Option<f64> {
        let half_life = self.half_life.0?;
        let left = (scaled / NEGLIGIBLE).log2();
        left.is_finite().then_some(self.epoch + left * half_life)
    }

    /// Returns a new scale if this scale would lose digits or overflow at the time `now`. The new epoch is a whole
    /// number of half-lives away. So usages are multiplied by an exact power of two, and equal usages stay equal.
    pub fn rebased(&self, now: f64) -> Option<Scale> {
        let half_life = self.half_life.0?;
        let away = (now - self.epoch) / half_life;
        (away.abs() > MAX_HALF_LIVES).then(|| Scale { epoch: self.epoch + away.round() * half_life, ..*self })
    }
}

#[cfg(test)]
pub(crate) mod tests;
