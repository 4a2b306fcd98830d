// SPDX-License-Identifier: LGPL-3.0-only
//! Sets of limits, and the dependency names that a job has or had.

use super::*;

fn make_hold_of_rule(index: usize) -> Hold {
    Hold::from_rule(index, "a limit").unwrap()
}

fn make_set(holds: &[usize]) -> HoldSet {
    holds.iter().map(|index| make_hold_of_rule(*index)).collect()
}

#[test]
fn association_limits_and_site_limits_have_separate_hold_indices() {
    for (index, row) in [(0, Some(0)), (15, Some(15)), (16, None), (300, None)] {
        assert_eq!(Hold::from_rule(index, "a limit").map(Hold::index), row);
    }
    for (index, row) in [(0, 16), (5, 21), (111, 127), (112, 127), (255, 127)] {
        assert_eq!(Hold::from_scope_row(index, "a limit").index(), row);
    }
    let holds: HoldSet =
        [make_hold_of_rule(15), Hold::from_scope_row(0, "a limit"), Hold::from_scope_row(7, "a limit")]
            .into_iter()
            .collect();
    assert_eq!(holds.list_scope_row_indices().collect::<Vec<_>>(), [0, 7]);
    assert_eq!(holds.without(holds.scope_limits()), make_set(&[15]));
}

#[test]
fn hold_sets_support_union_intersection_and_difference() {
    let (first, second) = (make_set(&[1, 3]), make_set(&[3, 5]));
    assert_eq!(
        (first.or(second), first.and(second), first.without(second)),
        (make_set(&[1, 3, 5]), make_set(&[3]), make_set(&[1]))
    );
    assert_eq!(
        [first, make_set(&[7]), HoldSet::NONE].map(HoldSet::without_last_member),
        [make_set(&[1]), HoldSet::NONE, HoldSet::NONE]
    );
    assert_eq!([first, HoldSet::NONE].map(HoldSet::is_empty), [false, true]);
}

/// An eventlog contains additions and removals of names. If a name was removed once, Flux ignores further additions of this name.
#[test]
fn a_dependency_name_that_was_removed_once_does_not_hold_a_job_again() {
    let name = |use_count| HoldName { hold: make_hold_of_rule(2), use_count };
    for (what, events, outstanding) in [
        ("added", &[(1, true)][..], true),
        ("removed", &[(1, true), (1, false)], false),
        ("the same name is added again", &[(1, true), (1, false), (1, true)], false),
        ("a new name is added", &[(1, true), (1, false), (2, true)], true),
        ("the first name is removed after the second was added", &[(1, true), (2, true), (1, false)], true),
        ("the eventlog contains only the removal", &[(3, false)], false),
    ] {
        let mut names = HoldNames::default();
        assert!(!names.was_job_ever_held());
        events.iter().for_each(|(count, is_added)| names.replay(name(*count), *is_added));
        assert_eq!(!names.outstanding().is_empty(), outstanding, "{what}");
        assert!(names.was_job_ever_held(), "{what}");
    }
}
