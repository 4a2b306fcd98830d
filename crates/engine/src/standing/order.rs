// SPDX-License-Identifier: LGPL-3.0-only
//! Prices for turns: numbers that stand in the order of the turns and stay close to the fair-shares.
//!
//! Where jobs start in turns (see [`super::Turns`]), the k-th association to come up for the first time gets the k-th of the
//! fair-shares that these associations have, from the highest: under a rank rule that is its own. Jobs that come up again in
//! between get numbers between this and the next lower fair-share, evenly apart; so every job stands right by its number, and one of
//! whom nobody has a second job is priced as ever. Where fair-shares are so near to each other that a price, which is a whole
//! number, would not show a difference, those before are raised by as little as it takes.

/// One number for each turn; `turns` are associations, each with its fair-share, in the order of their turns. Not increasing; equal
/// only among associations that have the same fair-share and come up for the first time before any comes up again; else apart by
/// `least`, if there is room for that.
pub(super) fn numbers<A: Copy + Ord>(turns: &[(A, f64)], least: f64) -> Vec<f64> {
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
    // Turns since the first repetition on this level: they are spread when the next level is known.
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
    use super::numbers;
    use proptest::prelude::*;

    #[test]
    fn numbers_stand_between_the_fairshares() {
        for (what, turns, expected) in [
            ("nobody", vec![], vec![]),
            ("one job each", vec![(1, 0.9), (2, 0.5), (3, 0.1)], vec![0.9, 0.5, 0.1]),
            ("two equal ones", vec![(1, 0.6), (2, 0.6), (1, 0.6), (2, 0.6)], vec![0.6, 0.6, 0.4, 0.2]),
            ("one is far ahead", vec![(1, 0.9), (1, 0.9), (1, 0.9), (2, 0.3)], vec![0.9, 0.7, 0.5, 0.3]),
            (
                "turns by another order than fair-shares",
                vec![(1, 0.2), (2, 0.8), (1, 0.2)],
                vec![0.8, 0.2, 0.1],
            ),
            (
                "an equal one after a repetition",
                vec![(1, 0.8), (1, 0.8), (2, 0.8)],
                vec![0.8, 0.5333, 0.2667],
            ),
        ] {
            let ours = numbers(&turns, 1e-6);
            assert_eq!(ours.len(), turns.len(), "{what}");
            for (ours, expected) in ours.iter().zip(&expected) {
                assert!((ours - expected).abs() < 1e-3, "{what}: {ours} {expected}");
            }
        }
    }

    /// Between 1 and nothing, with as much room above as below.
    #[test]
    fn where_there_is_no_room_the_numbers_share_it() {
        assert_eq!(numbers(&[(1, 0.0), (1, 0.0), (1, 0.0)], 0.9), [0.75, 0.5, 0.25]);
        assert_eq!(numbers(&[(1, 0.5), (2, 0.5), (3, 0.0)], 0.125), [0.5, 0.5, 0.125]);
    }

    proptest! {
        #[test]
        fn they_fall_and_keep_to_the_range(
            fairshares in prop::collection::vec(0.01..1.0f64, 1..6), turns in prop::collection::vec(0..6usize, 1..60),
        ) {
            let of = |turn: usize| (turn % fairshares.len(), fairshares[turn % fairshares.len()]);
            let turns: Vec<(usize, f64)> = turns.into_iter().map(of).collect();
            let ours = numbers(&turns, 1e-4);
            prop_assert_eq!(ours.len(), turns.len());
            prop_assert!(ours.iter().all(|number| *number > 0.0 && *number <= 1.0));
            for (at, pair) in ours.windows(2).enumerate() {
                let again = |at: usize| turns[..at].iter().any(|(before, _)| *before == turns[at].0);
                prop_assert!(pair[0] - pair[1] > 0.99e-4 || pair[0] == pair[1] && !again(at) && !again(at + 1));
            }
        }
    }
}
