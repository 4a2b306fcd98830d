// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of the tree levels in the answer to `standings`. In these tests, a level is very large, or has no shares and
//! no usage.

use super::host::Host;
use super::live::{accounts, leaf, make_host_with_live_fairshare, tree};
use super::site::{association, queue, record};
use crate::accounts::{Association, Queue};
use crate::engine::Event;
use crate::engine::answers::{self, AssociationFilter, Open};
use crate::ids::{Limit, UserId};
use crate::standing::{Bank, Leaf, SitePart};
use fairshare::Policy;

#[test]
fn a_level_without_shares_and_usage_has_no_fractions() {
    let mut host = make_host_with_live_fairshare(Policy::FairTree);
    let SitePart { rule, banks, .. } = tree(Policy::FairTree, host.now, Vec::new());
    let mut leaves = vec![leaf(7, "A", 0.0, 0.0), leaf(8, "A", 0.0, 0.0)];
    leaves.iter_mut().for_each(|leaf| leaf.shares = 0);
    host.send_event(Event::Policy(
        accounts(),
        SitePart { rule, banks, associations: leaves, ..SitePart::default() },
    ));
    let wanted =
        AssociationFilter { user: Some(UserId(8)), bank: None, after: None, most: 9, open: Open::All };
    let answer = answers::standings(&host.engine.view(), &wanted, host.now);
    let lowest = answer.associations[0].levels.last().unwrap();
    for node in lowest.siblings.iter().chain([&lowest.node]) {
        assert_eq!((node.shares_part, node.usage_part), (None, None), "{}", node.name);
    }
}

/// A bank has 5,000 users. The engine compares the requested user with the 1,000 users on either side by name, and shows 200 of them.
#[test]
fn the_answer_shows_at_most_200_siblings_of_an_association() {
    let mut host = make_host_with_live_fairshare(Policy::FairTree);
    let SitePart { rule, banks, .. } = tree(Policy::FairTree, host.now, Vec::new());
    let name = |user: u32| format!("{user:04}").into();
    // If the users are sorted by name, each user has less usage and a better rank than the user before.
    let leaves =
        (1..=5000).map(|user| Leaf { name: name(user), ..leaf(user, "A", 1e6 - f64::from(user), 0.0) });
    let mut all_accounts = accounts();
    all_accounts.associations = [7, 3500, 5000].map(|user| record(association(user, "A"), "A")).into();
    host.send_event(Event::Policy(
        all_accounts,
        SitePart { rule, banks, associations: leaves.collect(), ..SitePart::default() },
    ));
    // Each row has the requested user, and the user with the best rank among the 200 users that the answer shows.
    for (user, best) in [(7, 2001), (3500, 4500), (5000, 4999)] {
        let wanted =
            AssociationFilter { user: Some(UserId(user)), bank: None, after: None, most: 1, open: Open::All };
        let answer = answers::standings(&host.engine.view(), &wanted, host.now);
        let lowest = answer.associations[0].levels.last().unwrap();
        assert_eq!((lowest.siblings.len(), lowest.siblings_total), (200, 4999), "{user}");
        let least = lowest.siblings.iter().map(|it| it.usage).fold(f64::INFINITY, f64::min);
        assert_eq!(1e6 - least, f64::from(best), "{user}");
    }
}

#[test]
fn a_page_of_associations_ends_at_the_maximum_number_of_tree_levels() {
    let banks: Vec<String> = (0..14).map(|number| format!("bank{number:02}")).collect();
    let mut host = make_host_with_live_fairshare(Policy::FairTree);
    let SitePart { rule, banks: mut above, .. } = tree(Policy::FairTree, host.now, Vec::new());
    let mut pushed_accounts = accounts();
    let mut leaves = Vec::new();
    for name in &banks {
        above.push(Bank { name: name.as_str().into(), ..above[1].clone() });
        for user in (7..8).chain(1000..1300) {
            pushed_accounts.associations.push(record(association(user, name), "A"));
            leaves.push(leaf(user, name, f64::from(user), 0.0));
        }
    }
    host.send_event(Event::Policy(
        pushed_accounts,
        SitePart { rule, banks: above, associations: leaves, ..SitePart::default() },
    ));
    let page = |after: Option<&str>, open| {
        let after = after.map(|bank| (UserId(7), bank.to_owned()));
        let wanted = AssociationFilter { user: Some(UserId(7)), bank: None, after, most: 100, open };
        let page = answers::standings(&host.engine.view(), &wanted, host.now);
        let names = page.associations.iter().map(|it| it.bank.to_string()).collect::<Vec<_>>();
        (names, page.next.map(|(_, bank)| bank.to_string()))
    };
    // For each of the new banks, the answer has 215 entries: 200 users and 15 banks. So ten of these banks fill a
    // page, which ends above 2,000 entries. The page also has two associations without entries.
    let (first, next) = page(None, Open::All);
    assert_eq!((first.len(), next.as_deref()), (12, Some("bank09")));
    let (rest, next) = page(next.as_deref(), Open::All);
    assert_eq!((rest.as_slice(), next), (&banks[10..], None));
    // Answers that show no other users fit into one page.
    for open in [Open::Banks, Open::Own] {
        assert_eq!((page(None, open).0.len(), page(None, open).1), (16, None), "{open:?}");
    }
}

/// Each association shows the limits of 700 queues, so three associations fill a page.
#[test]
fn a_page_of_standings_ends_at_the_maximum_number_of_limits() {
    let name = |number: u32| format!("q{number:03}");
    let queues = (0..700).map(|number| Queue { max_running_jobs: Limit(5), ..queue(&name(number)) });
    let banks = ["A", "B", "C", "D", "E"];
    let user_in = |bank: &str| Association {
        queues: (0..700).map(|number| name(number).as_str().into()).collect(),
        ..association(7, bank)
    };
    let host = Host::with_data(banks.map(|bank| record(user_in(bank), "A")).into(), queues.collect());
    let page = |after: Option<&str>| {
        let after = after.map(|bank| (UserId(7), bank.to_owned()));
        let wanted =
            AssociationFilter { user: Some(UserId(7)), bank: None, after, most: 100, open: Open::Own };
        let page = answers::standings(&host.engine.view(), &wanted, host.now);
        assert!(page.associations.iter().all(|it| it.limits.len() >= 700));
        (page.associations.len(), page.next.map(|(_, bank)| bank.to_string()))
    };
    assert_eq!(page(None), (3, Some("C".to_owned())));
    assert_eq!(page(Some("C")), (2, None));
}

/// Sibling 9 is inactive and does not compete for resources, so it has no sort value.
#[test]
fn only_active_siblings_have_a_sort_value() {
    let mut host = make_host_with_live_fairshare(Policy::FairTree);
    let SitePart { rule, banks, .. } = tree(Policy::FairTree, host.now, Vec::new());
    let mut pushed_accounts = accounts();
    pushed_accounts.associations.push(record(association(9, "A"), "A"));
    let inactive = Leaf { active: false, ..leaf(9, "A", 3.0, 0.0) };
    let leaves = vec![leaf(7, "A", 5.0, 0.0), leaf(8, "A", 9.0, 0.0), inactive, leaf(7, "B", 1.0, 0.0)];
    host.send_event(Event::Policy(
        pushed_accounts,
        SitePart { rule, banks, associations: leaves, ..SitePart::default() },
    ));
    let wanted =
        AssociationFilter { user: Some(UserId(8)), bank: None, after: None, most: 9, open: Open::All };
    let answer = answers::standings(&host.engine.view(), &wanted, host.now);
    let levels = &answer.associations[0].levels;
    let mut values: Vec<_> = levels
        .iter()
        .flat_map(|level| &level.siblings)
        .map(|it| (it.name.as_str(), it.value.is_some()))
        .collect();
    values.sort_unstable();
    assert_eq!(values, [("7", true), ("9", false), ("B", true)]);
}
