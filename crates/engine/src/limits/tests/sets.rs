// SPDX-License-Identifier: LGPL-3.0-only
//! Sets of limits, and the dependency names that a job has or had.

use super::*;

fn hold(index: usize) -> Hold {
    Hold::of_rule(index, "a limit").unwrap()
}

fn set(holds: &[usize]) -> HoldSet {
    holds.iter().map(|index| hold(*index)).collect()
}

#[test]
fn limits_of_records_and_limits_over_scopes_have_separate_rows() {
    for (index, row) in [(0, Some(0)), (15, Some(15)), (16, None), (300, None)] {
        assert_eq!(Hold::of_rule(index, "a limit").map(Hold::index), row);
    }
    for (index, row) in [(0, 16), (5, 21), (111, 127), (112, 127), (255, 127)] {
        assert_eq!(Hold::of_row(index, "a limit").index(), row);
    }
    let both: HoldSet =
        [hold(15), Hold::of_row(0, "a limit"), Hold::of_row(7, "a limit")].into_iter().collect();
    assert_eq!(both.rows().collect::<Vec<_>>(), [0, 7]);
    assert_eq!(both.without(both.over_scopes()), set(&[15]));
}

#[test]
fn hold_sets_support_union_intersection_and_difference() {
    let (few, more) = (set(&[1, 3]), set(&[3, 5]));
    assert_eq!((few.or(more), few.and(more), few.without(more)), (set(&[1, 3, 5]), set(&[3]), set(&[1])));
    assert_eq!(
        [few, set(&[7]), HoldSet::NONE].map(HoldSet::without_last),
        [set(&[1]), HoldSet::NONE, HoldSet::NONE]
    );
    assert_eq!([few, HoldSet::NONE].map(HoldSet::is_empty), [false, true]);
}

/// The eventlog contains the addition and the removal of names. Flux ignores a name that was removed once.
#[test]
fn a_name_that_was_used_before_neither_holds_nor_releases_a_job() {
    let name = |use_count| HoldName { hold: hold(2), use_count };
    for (what, events, outstanding) in [
        ("added", &[(1, true)][..], true),
        ("removed", &[(1, true), (1, false)], false),
        ("added again by the same name", &[(1, true), (1, false), (1, true)], false),
        ("added by a new name", &[(1, true), (1, false), (2, true)], true),
        ("the former is removed late", &[(1, true), (2, true), (1, false)], true),
        ("only the removal is there", &[(3, false)], false),
    ] {
        let mut names = HoldNames::default();
        assert!(!names.were_used());
        events.iter().for_each(|(count, added)| names.replay(name(*count), *added));
        assert_eq!(!names.outstanding().is_empty(), outstanding, "{what}");
        assert!(names.were_used(), "{what}");
    }
}
