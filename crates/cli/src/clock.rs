// SPDX-License-Identifier: LGPL-3.0-only
//! The current time, or the time that an option names.

use jiff::{Timestamp, Zoned};

use crate::ui::figures;

/// Parses seconds since the epoch, or a time with a time zone.
pub(crate) fn parse_instant(text: &str) -> Result<f64, String> {
    // After the year 33658 a double no longer counts microseconds exactly.
    let seconds = parse_absolute_time(text).filter(|seconds| (0.0..1e12).contains(seconds));
    seconds.ok_or_else(|| "expected seconds since the epoch, or a time like 2026-11-21T12:00:00Z".to_owned())
}

/// Parses seconds since the epoch, or a time with a time zone, such as those of RFC 3339 in `--json`. Returns seconds since the epoch.
pub(crate) fn parse_absolute_time(text: &str) -> Option<f64> {
    let zoned = || text.parse::<Zoned>().map(|when| when.timestamp());
    let timestamp = || Some(text.parse::<Timestamp>().or_else(|_| zoned()).ok()?.as_duration().as_secs_f64());
    text.parse().ok().filter(|seconds: &f64| seconds.is_finite()).or_else(timestamp)
}

/// Returns `given`, or the current time if it is `None`, in seconds since the epoch.
pub(crate) fn now(given: Option<f64>) -> f64 {
    given.unwrap_or_else(figures::now)
}
