// SPDX-License-Identifier: LGPL-3.0-only
//! Parses single values of JSON documents. A value is parsed after its node is known, so that the error text can name
//! the node. serde's error texts do not name the node.

use std::borrow::Cow;

use serde_json::value::RawValue;

use fairshare::{MAX_USAGE, Shares};

/// An unparsed value of any type; `None` if it is missing or null.
pub(super) type Raw = Option<Box<RawValue>>;

/// The maximum number of characters of a value that an error text shows in full.
const MAX_SHOWN: usize = 40;

/// Adds quotes around `Infinity`, `-Infinity` and `NaN`. JSON lacks these values, but Slurm's programs and Python write
/// them. The parser of the value then reads a text.
pub(super) fn quote_bare_numbers(text: &str) -> Cow<'_, str> {
    let mut quoted = String::new();
    let mut copied = 0;
    let mut in_text = false;
    let mut at = 0;
    let bytes = text.as_bytes();
    while let Some(byte) = bytes.get(at) {
        let rest = text.get(at..).unwrap_or_default();
        match byte {
            b'\\' if in_text => at += 2,
            b'"' => {
                in_text = !in_text;
                at += 1;
            }
            b'I' | b'i' | b'N' | b'n' | b'-' if !in_text => {
                let end = rest
                    .find(|letter: char| !letter.is_ascii_alphabetic() && letter != '-')
                    .unwrap_or(rest.len());
                let word = rest.get(..end).unwrap_or_default();
                let name = word.trim_start_matches('-').to_ascii_lowercase();
                if ["infinity", "inf", "nan"].contains(&name.as_str()) {
                    quoted.push_str(text.get(copied..at).unwrap_or_default());
                    quoted.push_str(&format!("\"{word}\""));
                    copied = at + end;
                }
                at += end.max(1);
            }
            _ => at += 1,
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    quoted.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(quoted)
}

/// Parses a required text. The error text begins with a verb. The caller puts the names of the node and the key before it.
pub(super) fn parse_text(raw: &Raw) -> Result<String, String> {
    let value = raw.as_ref().ok_or_else(missing_error)?;
    serde_json::from_str(value.get()).map_err(|_| type_error(value, "text"))
}

/// Parses an optional text.
pub(super) fn parse_optional_text(raw: &Raw) -> Result<Option<String>, String> {
    raw.is_some().then(|| parse_text(raw)).transpose()
}

/// Parses a number of shares or `"parent"`.
pub(super) fn parse_shares(raw: &Raw) -> Result<Shares, String> {
    let value = raw.as_ref().ok_or_else(missing_error)?;
    if value.get() == "\"parent\"" {
        return Ok(Shares::Parent);
    }
    // Below 2^53 an f64 without fraction is an exact integer.
    let is_whole = |number: &f64| number.fract() == 0.0 && (0.0..9_007_199_254_740_992.0).contains(number);
    let count = value.get().parse().ok();
    let count = count.or_else(|| value.get().parse().ok().filter(is_whole).map(|number: f64| number as u64));
    let expected = "a whole number from 0 to 18446744073709551615 or \"parent\"";
    count.map(Shares::Count).ok_or_else(|| type_error(value, expected))
}

/// Parses an optional usage.
pub(super) fn parse_usage(raw: &Raw) -> Result<Option<f64>, String> {
    let Some(value) = raw else { return Ok(None) };
    let usage = value.get().parse().ok().filter(|usage| (0.0..=MAX_USAGE).contains(usage));
    usage.map(Some).ok_or_else(|| type_error(value, "a number from 0 to 1e298"))
}

/// Parses an optional `true`, `false`, 1 or 0.
pub(super) fn parse_flag(raw: &Raw) -> Result<Option<bool>, String> {
    let Some(value) = raw else { return Ok(None) };
    match value.get() {
        "true" | "1" => Ok(Some(true)),
        "false" | "0" => Ok(Some(false)),
        _ => Err(type_error(value, "true, false, 1 or 0")),
    }
}

fn missing_error() -> String {
    "is missing".to_owned()
}

pub(super) fn type_error(value: &RawValue, expected: &str) -> String {
    let text = value.get();
    let shown: String = text.chars().take(MAX_SHOWN).collect();
    let more = if shown.len() < text.len() { ".." } else { "" };
    format!("is {shown}{more}, expected {expected}")
}
