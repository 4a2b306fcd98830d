// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of the priority that a score gives, and of its explanation.

use super::*;
use crate::accounts::ZeroScore;
use std::collections::BTreeMap;

/// Returns the explanation of four terms, each with a weight and a value.
fn make_explanation_from_four_terms(terms: [(i64, f64); 4], zero: ZeroScore) -> Explanation {
    let named = FACTORS.iter().zip(terms).map(|(factor, (weight, value))| (factor.name, weight, value));
    Explanation::from_priority_terms(named, PriorityBounds { zero, ..HOLD })
}

const HOLD: PriorityBounds = PriorityBounds { zero: ZeroScore::Hold, max: PRIORITY_LIMIT };

#[test]
fn a_score_above_the_largest_priority_of_the_queue_is_lowered_to_it() {
    for (max, sum, outcome, priority) in [
        (100, 99.4, Outcome::Taken, 99),
        (100, 100.4, Outcome::Taken, 100),
        (100, 100.5, Outcome::LoweredInQueue, 100),
        (100, -5.0, Outcome::HeldByScore, 0),
        (1, 1e12, Outcome::LoweredInQueue, 1),
        (PRIORITY_LIMIT, 1e12, Outcome::Lowered, PRIORITY_LIMIT),
    ] {
        let score = score([("bank", 1, sum)].into_iter(), PriorityBounds { max, ..HOLD });
        assert_eq!((score.outcome, score.priority, score.sum), (outcome, priority, sum));
    }
}

#[test]
fn a_score_becomes_a_priority() {
    use Outcome::{HeldByScore, Lowered, Raised, Taken};
    let none = (0, 0.0);
    for (what, terms, (hold_outcome, hold_priority), (floor_outcome, floor_priority)) in [
        ("t1001", [(100_000, 0.45321), none, none, (1, -1.0)], (Taken, 45_320), (Taken, 45_320)),
        (
            "t1013",
            [(100_000, 0.5), (10_000, 10_000.0), none, none],
            (Taken, 100_050_000),
            (Taken, 100_050_000),
        ),
        ("t1054", [none, none, (100, 3.5), none], (Taken, 350), (Taken, 350)),
        ("half away from zero", [none, none, (1, 0.5), none], (Taken, 1), (Taken, 1)),
        ("just below a half", [none, none, (1, 0.499), none], (HeldByScore, 0), (Raised, 1)),
        ("zero", [none, none, none, none], (HeldByScore, 0), (Raised, 1)),
        ("negative", [(100_000, 0.01), none, none, (1_000, -15.0)], (HeldByScore, 0), (Raised, 1)),
        ("largest", [none, (1, 4_294_967_294.0), none, none], (Taken, u32::MAX - 1), (Taken, u32::MAX - 1)),
        (
            "the priority of expedited jobs",
            [none, (1, 4_294_967_295.0), none, none],
            (Lowered, u32::MAX - 1),
            (Lowered, u32::MAX - 1),
        ),
        ("too large", [none, (i64::MAX, 1e9), none, none], (Lowered, u32::MAX - 1), (Lowered, u32::MAX - 1)),
        ("too small", [none, (i64::MIN, 1e9), none, none], (HeldByScore, 0), (Raised, 1)),
        (
            "opposite infinities",
            [(i64::MAX, 1e300), (i64::MIN, 1e300), none, none],
            (HeldByScore, 0),
            (Raised, 1),
        ),
    ] {
        for (zero, outcome, priority) in [
            (ZeroScore::Hold, hold_outcome, hold_priority),
            (ZeroScore::Floor, floor_outcome, floor_priority),
        ] {
            let explanation = make_explanation_from_four_terms(terms, zero);
            assert_eq!((explanation.outcome, explanation.priority), (outcome, priority), "{what}");
            assert_eq!(explanation.rounded, explanation.sum.round(), "{what}");
            assert_eq!(explanation.terms().len(), 4, "{what}");
        }
    }
}

#[test]
fn terms_are_summed_in_the_order_of_the_table() {
    // If the terms were added in another order, rounding would lose the two terms of 1.
    let explanation =
        make_explanation_from_four_terms([(1, 1.0), (1, 1e16), (1, -1e16), (1, 1.0)], ZeroScore::Hold);
    assert_eq!((explanation.sum, explanation.priority), (1.0 + 1e16 - 1e16 + 1.0, 1));
    let products: Vec<f64> = explanation.terms().iter().map(|term| term.product).collect();
    assert_eq!(products, [1.0, 1e16, -1e16, 1.0]);
}

#[test]
fn infinite_terms_of_opposite_sign_give_a_score_of_0() {
    let explanation = make_explanation_from_four_terms(
        [(i64::MAX, f64::MAX), (i64::MIN, f64::MAX), (0, 0.0), (0, 0.0)],
        ZeroScore::Hold,
    );
    assert_eq!((explanation.sum, explanation.priority), (0.0, 0));
}

#[test]
fn a_weight_is_pushed_or_configured_or_the_default() {
    let pushed = BTreeMap::from([("bank".to_owned(), 5), ("later".to_owned(), 1)]);
    let weighted = WeightedFactors::new(Factors::default(), &pushed, &[("size", 3), ("bank", 9)]);
    let all: Vec<_> = weighted.all().map(|(factor, weight)| (factor.name, weight)).collect();
    assert_eq!(
        all,
        [("fairshare", 100_000), ("queue", 10_000), ("bank", 5), ("urgency", 1_000), ("age", 0), ("size", 3)]
    );
}

#[test]
fn two_weight_sets_are_equal_only_if_no_factor_weight_differs() {
    let weights = WeightedFactors::new(Factors::default(), &BTreeMap::new(), &[]);
    assert!(weights.has_equal_weights(&weights.with_weight("size", 0)));
    assert!(!weights.has_equal_weights(&weights.with_weight("size", 1)));
}

#[test]
fn the_priority_of_a_held_or_expedited_job_has_no_terms() {
    let weights = WeightedFactors::new(Factors::default(), &BTreeMap::new(), &[]);
    let values = [0.0; MAX_FACTORS];
    for (urgency, outcome, priority) in
        [(0, Outcome::HeldByUrgency, 0), (31, Outcome::Expedited, PRIORITY_MAX)]
    {
        let explanation = weights.explain_values(urgency, values, HOLD);
        assert!(explanation.terms().is_empty() && !explanation.is_decided_by_terms());
        assert_eq!((explanation.outcome, explanation.priority), (outcome, priority));
    }
    let by_terms = weights.explain_values(16, values, HOLD);
    assert_eq!((by_terms.outcome, by_terms.terms().len()), (Outcome::HeldByScore, 6));
}

#[test]
fn each_outcome_has_its_name() {
    for (outcome, name) in [
        (Outcome::Taken, "taken"),
        (Outcome::HeldByScore, "held-by-score"),
        (Outcome::Raised, "raised"),
        (Outcome::Lowered, "lowered"),
        (Outcome::LoweredInQueue, "lowered-in-queue"),
        (Outcome::HeldByUrgency, "held-by-urgency"),
        (Outcome::Expedited, "expedited"),
    ] {
        assert_eq!((outcome.name(), name.parse()), (name, Ok(outcome)));
    }
}
