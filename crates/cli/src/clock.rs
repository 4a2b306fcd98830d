// SPDX-License-Identifier: LGPL-3.0-only
//! The current time, or the time that an option names.

use crate::ui::figures;

/// Parses seconds since the epoch.
pub(crate) fn parse_instant(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected seconds since the epoch".to_owned())?;
    // After the year 33658 a double no longer counts microseconds exactly.
    if !(0.0..1e12).contains(&seconds) {
        return Err("expected seconds since the epoch".to_owned());
    }
    Ok(seconds)
}

/// Returns `given`, or the current time if it is `None`, in seconds since the epoch.
pub(crate) fn now(given: Option<f64>) -> f64 {
    given.unwrap_or_else(figures::now)
}
