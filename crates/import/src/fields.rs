// SPDX-License-Identifier: LGPL-3.0-only
//! Single values of JSON documents. They are taken out of the document unread, and read when it is known whose they are:
//! so a fault can name the node, which serde's own messages can't.

use std::borrow::Cow;

use serde_json::value::RawValue;

use fairshare::{MAX_USAGE, Shares};

/// A value of any type, unread; `None` if it is absent or null.
pub(super) type Raw<'a> = Option<&'a RawValue>;

/// Longest value that a message repeats in full.
const SHOWN: usize = 40;

/// Puts quotes around `Infinity`, `-Infinity` and `NaN`, which JSON does not have but Slurm's programs and Python write. Each is then
/// a text that the reader of the value judges.
pub(super) fn quote_bare_numbers(text: &str) -> Cow<'_, str> {
    let mut quoted = String::new();
    let mut done = 0;
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
                    quoted.push_str(text.get(done..at).unwrap_or_default());
                    quoted.push_str(&format!("\"{word}\""));
                    done = at + end;
                }
                at += end.max(1);
            }
            _ => at += 1,
        }
    }
    if done == 0 {
        return Cow::Borrowed(text);
    }
    quoted.push_str(text.get(done..).unwrap_or_default());
    Cow::Owned(quoted)
}

/// Text that must be there. Faults begin with a verb: the caller puts node and key before them.
pub(super) fn text(raw: Raw<'_>) -> Result<String, String> {
    let value = raw.ok_or_else(missing)?;
    serde_json::from_str(value.get()).map_err(|_| fault(value, "text"))
}

/// Text, if any.
pub(super) fn optional_text(raw: Raw<'_>) -> Result<Option<String>, String> {
    raw.map(|_| text(raw)).transpose()
}

/// A number of shares or `"parent"`.
pub(super) fn shares(raw: Raw<'_>) -> Result<Shares, String> {
    let value = raw.ok_or_else(missing)?;
    if value.get() == "\"parent\"" {
        return Ok(Shares::Parent);
    }
    // Below 2^53 a double without fraction is an exact count.
    let whole = |number: &f64| number.fract() == 0.0 && (0.0..9_007_199_254_740_992.0).contains(number);
    let count = value.get().parse().ok();
    let count = count.or_else(|| value.get().parse().ok().filter(whole).map(|number: f64| number as u64));
    let expected = "a whole number from 0 to 18446744073709551615 or \"parent\"";
    count.map(Shares::Count).ok_or_else(|| fault(value, expected))
}

/// A usage, if any.
pub(super) fn usage(raw: Raw<'_>) -> Result<Option<f64>, String> {
    let Some(value) = raw else { return Ok(None) };
    let usage = value.get().parse().ok().filter(|usage| (0.0..=MAX_USAGE).contains(usage));
    usage.map(Some).ok_or_else(|| fault(value, "a number from 0 to 1e298"))
}

/// `true`, `false`, 1 or 0, if any.
pub(super) fn flag(raw: Raw<'_>) -> Result<Option<bool>, String> {
    let Some(value) = raw else { return Ok(None) };
    match value.get() {
        "true" | "1" => Ok(Some(true)),
        "false" | "0" => Ok(Some(false)),
        _ => Err(fault(value, "true, false, 1 or 0")),
    }
}

fn missing() -> String {
    "is missing".to_owned()
}

pub(super) fn fault(value: &RawValue, expected: &str) -> String {
    let text = value.get();
    let shown: String = text.chars().take(SHOWN).collect();
    let more = if shown.len() < text.len() { ".." } else { "" };
    format!("is {shown}{more}, expected {expected}")
}
