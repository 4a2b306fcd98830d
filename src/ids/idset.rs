// SPDX-License-Identifier: LGPL-3.0-only
//! Sets of ids as Flux writes them (RFC 22), without taking them apart: a range costs the same whatever it spans.

/// Calls for each range of an idset, in ascending order; `None` if the text is none.
pub fn each_range(text: &str, mut call: impl FnMut(u32, u32)) -> Option<()> {
    let text = match text.strip_prefix('[') {
        Some(inner) => inner.strip_suffix(']')?,
        None => text,
    };
    let mut last = None;
    for range in text.split(',').filter(|range| !range.is_empty()) {
        let (low, high) = match range.split_once('-') {
            Some((low, high)) => (id(low)?, id(high)?),
            None => (id(range)?, id(range)?),
        };
        if last.is_some_and(|last| low <= last) || high < low || (high == low && range.contains('-')) {
            return None;
        }
        last = Some(high);
        call(low, high);
    }
    Some(())
}

/// How many ids an idset holds; `None` if the text is none.
pub fn count(text: &str) -> Option<u64> {
    let mut count = 0;
    each_range(text, |low, high| count += u64::from(high - low) + 1)?;
    Some(count)
}

/// One id: digits, none of them a leading zero.
fn id(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|letter| letter.is_ascii_digit());
    let padded = text.len() > 1 && text.starts_with('0');
    if !digits || padded { None } else { text.parse().ok() }
}

/// The ranks met so far: one that is named twice makes a resource set that can't be read.
#[derive(Debug, Default)]
pub struct Ranks {
    ranges: Vec<(u32, u32)>,
    out_of_order: bool,
}

impl Ranks {
    /// Takes a range in.
    pub fn add(&mut self, low: u32, high: u32) {
        self.out_of_order |= self.ranges.last().is_some_and(|(_, last)| low <= *last);
        self.ranges.push((low, high));
    }

    /// Whether no rank was named twice.
    pub fn are_distinct(mut self) -> bool {
        if !self.out_of_order {
            return true;
        }
        self.ranges.sort_unstable();
        self.ranges.windows(2).all(|pair| matches!(pair, [(_, high), (low, _)] if high < low))
    }
}
