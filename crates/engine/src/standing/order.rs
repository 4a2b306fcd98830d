// SPDX-License-Identifier: LGPL-3.0-only
//! Assigns a fair-share to each job start, so that priorities give the order of the starts ([`super::Turns`]). The
//! assigned fair-shares stay close to the fair-shares of the associations.
//!
//! The k-th association to start its first job gets the k-th highest fair-share. Under a rank policy, this is its own
//! fair-share. Some associations start further jobs before the next association starts its first job. These jobs get
//! evenly spaced fair-shares in between. If each association has one job, each job gets the fair-share of its
//! association.
//!
//! Priorities are whole numbers. If two fair-shares are too close to give different priorities, the higher fair-share
//! is raised by the smallest step that is enough.

/// Returns a fair-share for each job start in `turns`. An entry of `turns` has the association that starts a job, and
/// the fair-share of this association. The results never rise from one start to the next. Two results are equal only
/// for the first jobs of associations with equal fair-shares, before any association has started a second job.
/// Different results differ by at least `least`, or by less if there are more than 1 / `least` starts.
pub(super) fn assign_numbers<A: Copy + Ord>(turns: &[(A, f64)], least: f64) -> Vec<f64> {
    let mut seen = std::collections::BTreeSet::new();
    let is_first: Vec<bool> = turns.iter().map(|(association, _)| seen.insert(*association)).collect();
    let mut levels: Vec<f64> = turns
        .iter()
        .zip(&is_first)
        .filter(|(_, first)| **first)
        .map(|((_, fairshare), _)| *fairshare)
        .collect();
    levels.sort_unstable_by(|a, b| b.total_cmp(a));
    let mut numbers = Vec::with_capacity(turns.len());
    let mut levels = levels.into_iter().peekable();
    let mut level = 0.0;
    // The number of job starts without an assigned fair-share. The function assigns these fair-shares when it knows
    // the next lower fair-share.
    let mut between = 0usize;
    let spread = |numbers: &mut Vec<f64>, level: f64, next: f64, between: usize| {
        let step = (level - next) / (between + 1) as f64;
        numbers.extend((1..=between).map(|number| level - step * number as f64));
    };
    for first in is_first {
        if first && let Some(next) = levels.next() {
            if between == 0 {
                level = next;
            } else if next < level {
                spread(&mut numbers, level, next, between);
                (level, between) = (next, 0);
            }
            if between == 0 {
                numbers.push(level);
                continue;
            }
        }
        between += 1;
    }
    spread(&mut numbers, level, 0.0, between);
    let least = least.min(1.0 / (turns.len() + 1) as f64);
    let (mut after, mut raised) = (0.0, 0.0);
    for number in numbers.iter_mut().rev() {
        let own = *number;
        *number = if own == after && own > 0.0 { raised } else { own.max(raised + least) };
        (after, raised) = (own, *number);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::assign_numbers;
    use proptest::prelude::*;

    #[test]
    fn fair_shares_of_further_jobs_are_interpolated_between_associations() {
        for (what, turns, expected) in [
            ("no turns", vec![], vec![]),
            ("one job each", vec![(1, 0.9), (2, 0.5), (3, 0.1)], vec![0.9, 0.5, 0.1]),
            (
                "two equal associations",
                vec![(1, 0.6), (2, 0.6), (1, 0.6), (2, 0.6)],
                vec![0.6, 0.6, 0.4, 0.2],
            ),
            (
                "one association is far ahead",
                vec![(1, 0.9), (1, 0.9), (1, 0.9), (2, 0.3)],
                vec![0.9, 0.7, 0.5, 0.3],
            ),
            (
                "turns in another order than the fair-shares",
                vec![(1, 0.2), (2, 0.8), (1, 0.2)],
                vec![0.8, 0.2, 0.1],
            ),
            (
                "an equal association after a repeated turn",
                vec![(1, 0.8), (1, 0.8), (2, 0.8)],
                vec![0.8, 0.5333, 0.2667],
            ),
        ] {
            let numbers = assign_numbers(&turns, 1e-6);
            assert_eq!(numbers.len(), turns.len(), "{what}");
            for (number, expected) in numbers.iter().zip(&expected) {
                assert!((number - expected).abs() < 1e-3, "{what}: {number} {expected}");
            }
        }
    }

    #[test]
    fn numbers_are_evenly_spaced_if_the_step_is_too_large() {
        assert_eq!(assign_numbers(&[(1, 0.0), (1, 0.0), (1, 0.0)], 0.9), [0.75, 0.5, 0.25]);
        assert_eq!(assign_numbers(&[(1, 0.5), (2, 0.5), (3, 0.0)], 0.125), [0.5, 0.5, 0.125]);
    }

    proptest! {
        #[test]
        fn fair_shares_of_interleaved_jobs_decrease_and_stay_between_0_and_1(
            fairshares in prop::collection::vec(0.01..1.0f64, 1..6), turns in prop::collection::vec(0..6usize, 1..60),
        ) {
            let make_turn = |turn: usize| (turn % fairshares.len(), fairshares[turn % fairshares.len()]);
            let turns: Vec<(usize, f64)> = turns.into_iter().map(make_turn).collect();
            let numbers = assign_numbers(&turns, 1e-4);
            prop_assert_eq!(numbers.len(), turns.len());
            prop_assert!(numbers.iter().all(|number| *number > 0.0 && *number <= 1.0));
            for (at, pair) in numbers.windows(2).enumerate() {
                let is_repeated = |at: usize| turns[..at].iter().any(|(before, _)| *before == turns[at].0);
                prop_assert!(pair[0] - pair[1] > 0.99e-4 || pair[0] == pair[1] && !is_repeated(at) && !is_repeated(at + 1));
            }
        }
    }
}
