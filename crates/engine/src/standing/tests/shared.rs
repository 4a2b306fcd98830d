// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of leaves without jobs, and of leaves that share a user id. The leaves of departed users may share a user id.

use super::*;
use crate::standing::{SharedIds, SitePart, StagedSite};

fn make_named_leaf(name: &str, user: Option<u32>, bank: &str, usage: f64) -> Leaf {
    Leaf { user: user.map(UserId), name: name.into(), ..leaf(0, bank, usage, Watermark::default()) }
}

/// Returns a site with ann and the two given departed users in bank A, and ben in bank B.
fn make_site_with_departed_users(first: (&str, Option<u32>), second: (&str, Option<u32>)) -> Site {
    let mut site = site(Policy::WeightedWalk);
    site.associations = vec![
        make_named_leaf("ann", Some(1), "A", 10.0),
        make_named_leaf(first.0, first.1, "A", 500.0),
        make_named_leaf(second.0, second.1, "A", 1.0),
        make_named_leaf("ben", Some(3), "B", 400.0),
    ];
    site
}

/// Pushes `site` to two standings, in one message and in parts with one association each. Refreshes both standings.
fn push_whole_and_in_parts(site: &Site) -> [Standing; 2] {
    let at_once = standing(site.clone());
    let (mut in_parts, mut staged) = (Standing::default(), StagedSite::default());
    let rule = Some(site.rule.clone());
    staged.absorb(SitePart { rule, banks: site.banks.clone(), ..SitePart::default() }, &mut in_parts);
    for leaf in &site.associations {
        let associations = vec![leaf.clone()];
        staged.absorb(SitePart { associations, ..SitePart::default() }, &mut in_parts);
    }
    in_parts.push_staged(staged, Mode::Elapsed).expect("a site");
    [at_once, in_parts].map(|mut standing| {
        standing.refresh(T0);
        standing
    })
}

fn get_usage_of_bank(standing: &Standing, bank: &str) -> f64 {
    let (tree, ranking) = (standing.tree().expect("a tree"), standing.ranking().expect("ranked"));
    ranking.usage(tree, tree.bank(bank).expect("a bank"))
}

#[test]
fn usage_of_each_user_counts_in_the_bank_whatever_the_user_id() {
    for ids in
        [(Some(8), Some(9)), (Some(65534), Some(65534)), (None, None), (None, Some(65534)), (Some(1), None)]
    {
        for standing in push_whole_and_in_parts(&make_site_with_departed_users(("cy", ids.0), ("dan", ids.1)))
        {
            let ranking = standing.ranking().expect("ranked");
            assert_eq!((get_usage_of_bank(&standing, "A"), ranking.ranked()), (511.0, 4), "{ids:?}");
            // If all usage of bank A counts, ben ranks first. Without cy's usage ben would rank last.
            let node = standing.node(standing.find(UserId(3), &"B".into()).expect("ben")).expect("a leaf");
            assert_eq!(ranking.place(node), Some(1), "{ids:?}");
        }
    }
}

#[test]
fn jobs_of_a_shared_user_id_count_for_the_user_pushed_last() {
    let site = make_site_with_departed_users(("cy", Some(65534)), ("dan", Some(65534)));
    for mut standing in push_whole_and_in_parts(&site) {
        let shared = SharedIds {
            leaves: 1,
            example: ("cy".into(), UserId(65534), "A".into()),
            counts_in: "dan".into(),
        };
        assert_eq!(standing.shared_ids(), Some(&shared));
        standing.usages.track_start(&job(1, 65534, "A", 1, T0)).expect("a job");
        standing.refresh(T0 + 100.0);
        assert_close(usage(&standing, 65534, "A", T0), 1.0);
        assert!(usage(&standing, 65534, "A", T0 + 100.0) > 100.0);
        let tree = standing.tree().expect("a tree");
        let node = standing.node(standing.find(UserId(65534), &"A".into()).expect("known")).expect("a leaf");
        assert_eq!(tree.name(node), "dan");
        // The next push lists the two leaves in the other order.
        standing
            .push(make_site_with_departed_users(("dan", Some(65534)), ("cy", Some(65534))))
            .expect("a site");
        standing.refresh(T0 + 100.0);
        let tree = standing.tree().expect("a tree");
        let node = standing.node(standing.find(UserId(65534), &"A".into()).expect("known")).expect("a leaf");
        assert_eq!((tree.name(node), tree.leaves().count()), ("cy", 4));
        assert!(usage(&standing, 65534, "A", T0 + 100.0) > 100.0, "the running job still counts");
        standing.push(make_site_with_departed_users(("cy", Some(8)), ("dan", Some(9)))).expect("a site");
        assert_eq!(standing.shared_ids(), None);
    }
}

#[test]
fn repeated_records_of_an_association_become_one_leaf_with_the_last_values() {
    for ids in [(Some(65534), Some(65534)), (None, None)] {
        for standing in push_whole_and_in_parts(&make_site_with_departed_users(("cy", ids.0), ("cy", ids.1)))
        {
            assert_eq!(get_usage_of_bank(&standing, "A"), 11.0, "{ids:?}");
            assert_eq!(standing.shared_ids(), None);
        }
    }
    // Three records have the same user id. Two of them also have the same user name, so only two leaves remain.
    let mut site = make_site_with_departed_users(("cy", Some(65534)), ("cy", Some(65534)));
    site.associations.push(make_named_leaf("dan", Some(65534), "A", 100.0));
    for standing in push_whole_and_in_parts(&site) {
        assert_eq!(get_usage_of_bank(&standing, "A"), 111.0);
    }
}

#[test]
fn leaves_without_jobs_are_exported() {
    for standing in
        push_whole_and_in_parts(&make_site_with_departed_users(("cy", Some(65534)), ("dan", Some(65534))))
    {
        let exported = standing.list_leaves_without_jobs();
        assert_eq!(exported, [make_named_leaf("cy", None, "A", 500.0)]);
    }
}

#[test]
fn a_push_without_a_leaf_removes_the_leaf_if_it_has_no_jobs() {
    let mut standing = standing(make_site_with_departed_users(("cy", None), ("dan", None)));
    assert_eq!(standing.usages.counts().0, 4);
    standing.push(site(Policy::WeightedWalk)).expect("a site");
    assert_eq!((standing.usages.counts().0, standing.list_leaves_without_jobs().len()), (3, 0));
}

#[test]
fn a_push_without_a_tree_has_no_shared_user_ids() {
    let shared = make_site_with_departed_users(("cy", Some(65534)), ("dan", Some(65534)));
    let mut standing = standing(shared);
    assert!(standing.shared_ids().is_some());
    standing.push_staged(StagedSite::default(), Mode::Elapsed).expect("a push without a tree");
    assert_eq!(standing.shared_ids(), None);
}
