// SPDX-License-Identifier: LGPL-3.0-only
//! What of a push is kept and told: numbers that its tree gives by itself, and nothing of one that never came to its end.

use super::live::{accounts, leaf, leaves, live, tree};
use super::site::{NOW, association, record};
use crate::accounts::{AssociationRecord, PolicyPart};
use crate::engine::Event;
use crate::fairshare::Policy;
use crate::ids::UserId;

/// Only numbers that the tree does not give have to be remembered.
#[test]
fn a_fair_share_that_the_tree_gives_is_told_as_such() {
    let mut host = live(Policy::FairTree);
    let given = host.engine.as_pushed().expect("there is a tree");
    let told = |host: &super::host::Host| -> Vec<(u32, bool)> {
        let kept = host.engine.kept(None, 10, Some(&given)).into_iter();
        kept.map(|kept| (kept.record.association.user.0, kept.is_reckoned)).collect()
    };
    // What was pushed beside the tree is 0.5 for all.
    let by_tree = |user: u32, bank: &str| {
        host.engine
            .standing
            .fairshare_as_pushed(&given, UserId(user), &bank.into())
            .expect("it is in the tree")
    };
    let of = [(7, "A"), (8, "A"), (7, "B")].map(|(user, bank)| (user, bank, by_tree(user, bank)));
    let wanted: Vec<(u32, bool)> = {
        let mut all: Vec<_> = of.iter().map(|(user, bank, is)| (*user, *bank, *is == 0.5)).collect();
        all.sort_unstable();
        all.into_iter().map(|(user, _, is)| (user, is)).collect()
    };
    assert_eq!(told(&host), wanted);
    let records = of.map(|(user, bank, fairshare)| AssociationRecord {
        fairshare,
        ..record(association(user, bank), "A")
    });
    host.event(Event::Associations(records.to_vec()));
    assert_eq!(told(&host), [(7, true), (7, true), (8, true)]);
    assert!(
        host.engine.kept(None, 10, None).iter().all(|kept| !kept.is_reckoned),
        "without a tree nothing is"
    );
}

#[test]
fn a_push_that_is_given_up_leaves_nobody_behind() {
    let mut host = live(Policy::FairTree);
    let before = host.engine.standing.counts();
    let mut more = leaves();
    more.push(leaf(9, "B", 5.0, 0.0));
    let of_accounts = accounts();
    let part = || PolicyPart {
        parents: Vec::new(),
        limits: Vec::new(),
        associations: Some(of_accounts.associations.clone()),
        queues: None,
        projects: None,
        banks: None,
        weights: None,
        config: of_accounts.config.into(),
    };
    for gives_up in [Event::PolicyAbort, Event::PolicyBegin { keeps_config: false }] {
        host.event(Event::PolicyBegin { keeps_config: false });
        host.event(Event::PolicyPart(part(), tree(Policy::FairTree, NOW, more.clone())));
        assert_ne!(host.engine.standing.counts(), before, "they are known as they come");
        host.event(gives_up);
        assert_eq!(host.engine.standing.counts(), before);
    }
}
