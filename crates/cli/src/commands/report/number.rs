// SPDX-License-Identifier: LGPL-3.0-only
//! Numbers in the JSON document of a report.

use serde::{Serialize, Serializer};

/// A number in the document: integers without a point, others with seven significant digits, and `null` for NaN and infinity.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(with = "Option<f64>"))]
pub(super) struct Number(pub(super) f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Number(number) = *self;
        if !number.is_finite() {
            return serializer.serialize_none();
        }
        let digits = (6 - number.abs().log10().max(-400.0).floor() as i32).max(0);
        let scale = 10f64.powi(digits);
        let rounded = if scale.is_finite() { (number * scale).round() / scale } else { number };
        // Above this limit a double can't represent every integer.
        if rounded.fract() == 0.0 && rounded.abs() < 9e15 {
            return serializer.serialize_i64(rounded as i64);
        }
        serializer.serialize_f64(rounded)
    }
}
