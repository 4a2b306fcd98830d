// SPDX-License-Identifier: LGPL-3.0-only
//! Leaves that share a user id, as those of departed users may, and leaves that no job matches.

use super::*;
use crate::standing::{SharedIds, SitePart, StagedSite};

fn named(name: &str, user: Option<u32>, bank: &str, usage: f64) -> Leaf {
    Leaf { user: user.map(UserId), name: name.into(), ..leaf(0, bank, usage, Watermark::default()) }
}

/// Returns a site with ann and the two given departed users in bank A, and ben in bank B.
fn departed(first: (&str, Option<u32>), second: (&str, Option<u32>)) -> Site {
    let mut site = site(Policy::WeightedWalk);
    site.associations = vec![
        named("ann", Some(1), "A", 10.0),
        named(first.0, first.1, "A", 500.0),
        named(second.0, second.1, "A", 1.0),
        named("ben", Some(3), "B", 400.0),
    ];
    site
}

/// Pushes a site in one message to one standing, and in parts with one association each to another.
fn both_ways(site: &Site) -> [Standing; 2] {
    let whole = standing(site.clone());
    let (mut parts, mut draft) = (Standing::default(), StagedSite::default());
    let rule = Some(site.rule.clone());
    draft.absorb(SitePart { rule, banks: site.banks.clone(), associations: Vec::new() }, &mut parts);
    for leaf in &site.associations {
        let associations = vec![leaf.clone()];
        draft.absorb(SitePart { associations, ..SitePart::default() }, &mut parts);
    }
    parts.push_staged(draft, Mode::Elapsed).expect("a site");
    [whole, parts].map(|mut standing| {
        standing.refresh(T0);
        standing
    })
}

fn bank_usage(standing: &Standing, bank: &str) -> f64 {
    let (tree, ranking) = (standing.tree().expect("a tree"), standing.ranking().expect("ranked"));
    ranking.usage(tree, tree.bank(bank).expect("a bank"))
}

#[test]
fn every_leaf_counts_in_its_bank_whatever_user_ids_they_have() {
    for ids in
        [(Some(8), Some(9)), (Some(65534), Some(65534)), (None, None), (None, Some(65534)), (Some(1), None)]
    {
        for standing in both_ways(&departed(("cy", ids.0), ("dan", ids.1))) {
            let ranking = standing.ranking().expect("ranked");
            assert_eq!((bank_usage(&standing, "A"), ranking.ranked()), (511.0, 4), "{ids:?}");
            // If all usage of bank A counts, ben ranks first. Without cy's usage ben would rank last.
            let place = standing.node(standing.find(UserId(3), &"B".into()).expect("ben")).expect("a leaf");
            assert_eq!(ranking.place(place), Some(1), "{ids:?}");
        }
    }
}

#[test]
fn jobs_of_a_shared_user_id_count_in_the_last_leaf() {
    let site = departed(("cy", Some(65534)), ("dan", Some(65534)));
    for mut standing in both_ways(&site) {
        let shared = SharedIds {
            leaves: 1,
            example: ("cy".into(), UserId(65534), "A".into()),
            counts_in: "dan".into(),
        };
        assert_eq!(standing.shared_ids(), Some(&shared));
        standing.usages.started(&job(1, 65534, "A", 1, T0)).expect("a job");
        standing.refresh(T0 + 100.0);
        assert_close(usage(&standing, 65534, "A", T0), 1.0);
        assert!(usage(&standing, 65534, "A", T0 + 100.0) > 100.0);
        let tree = standing.tree().expect("a tree");
        let at = standing.node(standing.find(UserId(65534), &"A".into()).expect("known")).expect("a leaf");
        assert_eq!(tree.name(at), "dan");
        // The next push lists the rows in the other order.
        standing.push(departed(("dan", Some(65534)), ("cy", Some(65534)))).expect("a site");
        standing.refresh(T0 + 100.0);
        let tree = standing.tree().expect("a tree");
        let at = standing.node(standing.find(UserId(65534), &"A".into()).expect("known")).expect("a leaf");
        assert_eq!((tree.name(at), tree.leaves().count()), ("cy", 4));
        assert!(usage(&standing, 65534, "A", T0 + 100.0) > 100.0, "its running job still counts");
        standing.push(departed(("cy", Some(8)), ("dan", Some(9)))).expect("a site");
        assert_eq!(standing.shared_ids(), None);
    }
}

#[test]
fn repeated_rows_of_one_name_are_one_leaf_with_the_values_of_the_last() {
    for ids in [(Some(65534), Some(65534)), (None, None)] {
        for standing in both_ways(&departed(("cy", ids.0), ("cy", ids.1))) {
            assert_eq!(bank_usage(&standing, "A"), 11.0, "{ids:?}");
            assert_eq!(standing.shared_ids(), None);
        }
    }
    // Two rows with one name and a third row with another name and the same user id give two leaves.
    let mut site = departed(("cy", Some(65534)), ("cy", Some(65534)));
    site.associations.push(named("dan", Some(65534), "A", 100.0));
    for standing in both_ways(&site) {
        assert_eq!(bank_usage(&standing, "A"), 111.0);
    }
}

#[test]
fn leaves_without_jobs_are_exported() {
    for standing in both_ways(&departed(("cy", Some(65534)), ("dan", Some(65534)))) {
        let kept = standing.leaves_without_jobs();
        assert_eq!(kept, [named("cy", None, "A", 500.0)]);
    }
}

#[test]
fn a_leaf_without_jobs_that_leaves_the_tree_is_removed() {
    let mut standing = standing(departed(("cy", None), ("dan", None)));
    assert_eq!(standing.usages.counts().0, 4);
    standing.push(site(Policy::WeightedWalk)).expect("a site");
    assert_eq!((standing.usages.counts().0, standing.leaves_without_jobs().len()), (3, 0));
}
