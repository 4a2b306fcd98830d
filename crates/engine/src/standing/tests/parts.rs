// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of staged pushes: a site that is pushed in parts must give the same result as in one message. A staged push that is not committed
//! must leave no data.
//! Rules: D8, D11

use super::*;

/// Splits a site into parts with at most one association each.
fn split_site_into_parts(site: &Site) -> impl Iterator<Item = SitePart> {
    let head = SitePart { rule: Some(site.rule.clone()), banks: site.banks.clone(), ..SitePart::default() };
    let make_part = |leaf: &Leaf| SitePart { associations: vec![leaf.clone()], ..SitePart::default() };
    std::iter::once(head).chain(site.associations.iter().map(make_part).collect::<Vec<_>>())
}

fn stage_site(site: &Site, standing: &mut Standing) -> StagedSite {
    let mut staged = StagedSite::default();
    split_site_into_parts(site).for_each(|part| staged.absorb(part, standing));
    staged
}

/// Returns [`site`] with users 4 and 5 added.
fn make_larger_site() -> Site {
    let mut larger = site(Policy::FairTree);
    larger.associations.extend([4, 5].map(|user| leaf(user, "B", 0.0, Watermark::default())));
    for (leaf, usage) in larger.associations.iter_mut().zip([5.0, 4.0, 3.0, 2.0, 1.0]) {
        leaf.usage = Some(usage * 1e6);
    }
    larger
}

/// Refreshes `standing`. Returns the usage and the fair-share of each user.
fn refresh_and_read_fairshares(standing: &mut Standing) -> Vec<(u32, Option<f64>, Option<f64>)> {
    standing.refresh(T0);
    let read_figures = |user: u32| {
        let index = ["A", "B"].iter().find_map(|bank| standing.find(UserId(user), &BankName::from(*bank)));
        let usage = index.and_then(|index| standing.usage(index, T0));
        (user, usage, index.and_then(|index| standing.fairshare(index)))
    };
    (1..=5).map(read_figures).collect()
}

#[test]
fn a_site_pushed_in_parts_equals_the_same_site_pushed_at_once() {
    let mut at_once = standing(site(Policy::FairTree));
    at_once.push(make_larger_site()).expect("a site");
    let mut in_parts = standing(site(Policy::FairTree));
    let staged = stage_site(&make_larger_site(), &mut in_parts);
    in_parts.push_staged(staged, Mode::Elapsed).expect("a site");
    assert_eq!(refresh_and_read_fairshares(&mut in_parts), refresh_and_read_fairshares(&mut at_once));
    assert!(refresh_and_read_fairshares(&mut in_parts).iter().all(|(.., fairshare)| fairshare.is_some()));
}

/// The records of a repeated association may be in different parts of the push.
#[test]
fn a_repeated_association_has_the_values_of_its_last_record() {
    let mut without_repeats = standing(site(Policy::FairTree));
    without_repeats.push(make_larger_site()).expect("a site");
    let mut repeats = make_larger_site();
    for (user, bank) in [(5, "B"), (2, "A")] {
        repeats.associations.insert(0, leaf(user, bank, 9e9, Watermark::default()));
    }
    let mut at_once = standing(site(Policy::FairTree));
    at_once.push(repeats.clone()).expect("a site");
    let mut in_parts = standing(site(Policy::FairTree));
    let staged = stage_site(&repeats, &mut in_parts);
    in_parts.push_staged(staged, Mode::Elapsed).expect("a site");
    assert_eq!(
        [refresh_and_read_fairshares(&mut at_once), refresh_and_read_fairshares(&mut in_parts)],
        [
            refresh_and_read_fairshares(&mut without_repeats),
            refresh_and_read_fairshares(&mut without_repeats)
        ]
    );
}

#[test]
fn a_staged_site_that_is_dropped_leaves_no_association() {
    let mut standing = standing(site(Policy::FairTree));
    let before = refresh_and_read_fairshares(&mut standing);
    drop(stage_site(&make_larger_site(), &mut standing));
    assert_eq!(refresh_and_read_fairshares(&mut standing)[..3], before[..3], "the fair-shares are unchanged");
    standing.usages.remove_unused();
    assert_eq!((standing.usages.counts().0, refresh_and_read_fairshares(&mut standing)), (3, before));
}

#[test]
fn an_invalid_push_or_one_without_a_policy_adds_no_association() {
    let mut standing = standing(site(Policy::FairTree));
    let mut invalid = make_larger_site();
    invalid.associations.push(leaf(6, "nowhere", 0.0, Watermark::default()));
    let staged = stage_site(&invalid, &mut standing);
    let error = standing.push_staged(staged, Mode::Elapsed).expect_err("an unknown bank");
    assert!(error.ends_with("bank \"nowhere\" does not exist"), "{error}");
    assert_eq!(standing.usages.counts().0, 3);
    let mut without_rule = StagedSite::default();
    split_site_into_parts(&make_larger_site())
        .skip(1)
        .for_each(|part| without_rule.absorb(part, &mut standing));
    standing.push_staged(without_rule, Mode::Elapsed).expect("a push without a tree");
    assert_eq!((standing.usages.counts().0, standing.tree().is_none()), (0, true));
}
