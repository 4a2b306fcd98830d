// SPDX-License-Identifier: LGPL-3.0-only
//! Parses idsets (RFC 22) range by range, so that the time does not depend on the sizes of the ranges.

/// Calls `call` for each range of an idset, in ascending order. Returns `None` if the text is not an idset.
pub fn each_range(text: &str, mut call: impl FnMut(u32, u32)) -> Option<()> {
    let text = if let Some(inner) = text.strip_prefix('[') { inner.strip_suffix(']')? } else { text };
    let mut last = None;
    for range in text.split(',').filter(|range| !range.is_empty()) {
        let (low, high) = match range.split_once('-') {
            Some((low, high)) => (parse_id(low)?, parse_id(high)?),
            None => (parse_id(range)?, parse_id(range)?),
        };
        if last.is_some_and(|last| low <= last) || high < low || (high == low && range.contains('-')) {
            return None;
        }
        last = Some(high);
        call(low, high);
    }
    Some(())
}

/// Returns the number of ids in an idset; `None` if the text is not an idset.
pub fn count(text: &str) -> Option<u64> {
    let mut count = 0;
    each_range(text, |low, high| count += u64::from(high - low) + 1)?;
    Some(count)
}

/// Parses one id: digits without leading zeros. Returns `None` for any other text.
fn parse_id(text: &str) -> Option<u32> {
    let is_number = !text.is_empty() && text.bytes().all(|letter| letter.is_ascii_digit());
    let is_padded = text.len() > 1 && text.starts_with('0');
    if !is_number || is_padded { None } else { text.parse().ok() }
}

/// The ranks of a resource set. A resource set with a repeated rank is invalid.
#[derive(Debug, Default)]
pub struct Ranks {
    ranges: Vec<(u32, u32)>,
    is_unsorted: bool,
}

impl Ranks {
    /// Adds the ranks from `low` to `high`.
    pub fn add(&mut self, low: u32, high: u32) {
        self.is_unsorted |= self.ranges.last().is_some_and(|(_, last)| low <= *last);
        self.ranges.push((low, high));
    }

    /// Returns true if no rank occurs twice.
    pub fn are_distinct(mut self) -> bool {
        if !self.is_unsorted {
            return true;
        }
        self.ranges.sort_unstable();
        self.ranges.windows(2).all(|pair| matches!(pair, [(_, high), (low, _)] if high < low))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_idsets_in_the_form_of_flux_are_accepted() {
        for (text, wanted) in [
            ("", Some(0)),
            ("[]", Some(0)),
            ("7", Some(1)),
            ("0", Some(1)),
            ("[3-5]", Some(3)),
            ("0-3,5,[", None),
            ("[0-3,5,9-10]", Some(7)),
            ("0-3,5,9-10", Some(7)),
            ("0-4294967295", Some(1 << 32)),
            ("4294967296", None),
            // These lists have ids in the wrong order, a repeated id, a descending range, or a range of one id.
            ("5,3", None),
            ("3,3", None),
            ("1-3,3", None),
            ("5-3", None),
            ("3-3", None),
            // No digits, or leading zeros.
            ("a", None),
            ("-", None),
            ("1-", None),
            ("+1", None),
            ("01", None),
            ("00", None),
            ("[1", None),
        ] {
            assert_eq!(count(text), wanted, "{text}");
        }
        let mut ranges = Vec::new();
        assert_eq!(each_range("[0-3,5]", |low, high| ranges.push((low, high))), Some(()));
        assert_eq!(ranges, [(0, 3), (5, 5)]);
    }

    #[test]
    fn ranges_with_a_common_rank_are_not_distinct() {
        for (ranges, are_distinct) in [
            (&[][..], true),
            (&[(0, 3), (4, 4), (9, 12)], true),
            (&[(9, 12), (0, 3), (4, 4)], true),
            (&[(0, 3), (3, 5)], false),
            (&[(9, 12), (0, 3), (10, 10)], false),
            (&[(4, 4), (4, 4)], false),
        ] {
            let mut ranks = Ranks::default();
            ranges.iter().for_each(|(low, high)| ranks.add(*low, *high));
            assert_eq!(ranks.are_distinct(), are_distinct, "{ranges:?}");
        }
    }
}
