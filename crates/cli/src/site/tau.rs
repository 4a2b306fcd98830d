// SPDX-License-Identifier: LGPL-3.0-only
//! Kendall's tau-b: the agreement of two orders with ties. O(n log n) (Knight 1966).

/// Returns tau-b: 1 for the same order, -1 for the reversed order. Returns `None` if all values of one of the orders are equal.
pub(super) fn kendall_tau(pairs: &[(u32, u32)]) -> Option<f64> {
    let mut sorted = pairs.to_vec();
    sorted.sort_unstable();
    let all_pairs = count_pairs(sorted.len() as u64);
    let tied_first = count_tied_pairs(sorted.iter().map(|pair| pair.0));
    let tied_both = count_tied_pairs(sorted.iter().copied());
    let mut seconds: Vec<u32> = sorted.iter().map(|pair| pair.1).collect();
    let discordant = sort_and_count_inversions(&mut seconds);
    let tied_second = count_tied_pairs(seconds.iter().copied());
    let comparable = (all_pairs - tied_first) as f64 * (all_pairs - tied_second) as f64;
    // All pairs that are neither tied in an order nor discordant are concordant.
    let difference = all_pairs as i128 - tied_first as i128 - tied_second as i128 + tied_both as i128
        - 2 * discordant as i128;
    (comparable > 0.0).then(|| difference as f64 / comparable.sqrt())
}

fn count_pairs(count: u64) -> u64 {
    count * count.saturating_sub(1) / 2
}

/// Returns the number of pairs of equal values in a sorted sequence.
fn count_tied_pairs<T: PartialEq>(values: impl Iterator<Item = T>) -> u64 {
    let (mut pairs, mut run, mut last) = (0, 0, None);
    for value in values {
        run = if last.as_ref() == Some(&value) { run + 1 } else { 0 };
        pairs += run;
        last = Some(value);
    }
    pairs
}

/// Sorts by merging, bottom-up, and returns the number of pairs that were in the wrong order.
fn sort_and_count_inversions<T: Ord + Copy>(values: &mut Vec<T>) -> u64 {
    let mut inversions = 0;
    let mut buffer = Vec::with_capacity(values.len());
    let mut width = 1;
    while width < values.len() {
        buffer.clear();
        for block in values.chunks(2 * width) {
            let (left, right) = block.split_at(width.min(block.len()));
            let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
            loop {
                match (left.peek(), right.peek()) {
                    (Some(a), Some(b)) if b < a => {
                        inversions += left.len() as u64;
                        buffer.extend(right.next());
                    }
                    (Some(_), _) => buffer.extend(left.next()),
                    (None, Some(_)) => buffer.extend(right.next()),
                    (None, None) => break,
                }
            }
        }
        std::mem::swap(values, &mut buffer);
        width *= 2;
    }
    inversions
}

#[cfg(test)]
mod tests {
    use super::kendall_tau;

    /// Computes tau-b by its definition, pair by pair. Returns `None` if tau-b is undefined.
    fn compute_tau_by_definition(pairs: &[(u32, u32)]) -> Option<f64> {
        let (mut sum, mut first, mut second) = (0.0, 0.0, 0.0);
        for (i, a) in pairs.iter().enumerate() {
            for b in &pairs[i + 1..] {
                let x = f64::from(a.0.cmp(&b.0) as i8);
                let y = f64::from(a.1.cmp(&b.1) as i8);
                sum += x * y;
                first += x * x;
                second += y * y;
            }
        }
        (first * second > 0.0).then(|| sum / f64::sqrt(first * second))
    }

    #[test]
    fn tau_of_small_samples_has_the_known_values() {
        assert_eq!(kendall_tau(&[(1, 1), (2, 2), (3, 3)]), Some(1.0));
        assert_eq!(kendall_tau(&[(1, 3), (2, 2), (3, 1)]), Some(-1.0));
        assert_eq!(kendall_tau(&[(1, 1), (1, 2)]), None);
        assert_eq!(kendall_tau(&[]), None);
    }

    proptest::proptest! {
        #[test]
        fn tau_equals_its_definition(pairs in proptest::collection::vec((0u32..20, 0u32..20), 0..60)) {
            match (kendall_tau(&pairs), compute_tau_by_definition(&pairs)) {
                (Some(fast), Some(slow)) => assert!((fast - slow).abs() < 1e-12, "{fast} {slow}"),
                (fast, slow) => assert_eq!(fast, slow),
            }
        }
    }
}
