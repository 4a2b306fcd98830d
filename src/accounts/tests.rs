// SPDX-License-Identifier: LGPL-3.0-only
//! The book under pushes and whole policies.

use super::*;
use crate::ids::Limit;

fn record(user: u32, bank: &str, fairshare: f64) -> AssociationRecord {
    let association = Association {
        user: UserId(user),
        bank: bank.into(),
        fairshare,
        max_running_jobs: Limit(5),
        max_active_jobs: Limit(7),
        max_sched_jobs: Limit(5),
        max_nodes: Limit(10),
        max_cores: Limit(10),
        queues: [].into(),
        projects: ["*"].map(Into::into).into(),
        def_project: Some("own".into()),
        active: true,
    };
    AssociationRecord { association, def_bank: "A".into() }
}

fn policy(associations: Vec<AssociationRecord>) -> Policy {
    Policy { associations, ..Policy::default() }
}

const OWNER: UserId = UserId(0);

#[test]
fn a_push_inserts_and_replaces_and_never_removes() {
    let mut book = Book::default();
    assert!(!book.has_data());
    book.upsert(vec![], OWNER);
    assert!(!book.has_data());
    book.upsert(vec![record(1, "A", 0.1), record(1, "B", 0.2)], OWNER);
    let a = book.find(UserId(1), None).unwrap();
    book.upsert(vec![record(1, "A", 0.9)], OWNER);
    assert_eq!(book.find(UserId(1), Some("A")), Some(a));
    assert_eq!(book.association(a).unwrap().fairshare, 0.9);
    assert!(book.find(UserId(1), Some("B")).is_some());
    assert_eq!(book.find(UserId(2), None), None);
    assert_eq!(book.generation(), 3);
}

#[test]
fn a_default_bank_need_not_be_one_of_the_users() {
    let mut book = Book::default();
    book.upsert(vec![record(1, "B", 0.1)], OWNER);
    assert_eq!(book.find(UserId(1), None), None);
    assert!(book.find(UserId(1), Some("B")).is_some());
}

#[test]
fn a_policy_removes_what_it_does_not_list_and_ids_stay_with_their_associations() {
    let mut book = Book::default();
    book.upsert(vec![record(1, "A", 0.1), record(2, "A", 0.2), record(3, "A", 0.3)], OWNER);
    let [one, two] = [1, 2].map(|user| book.find(UserId(user), None).unwrap());
    let next = policy(vec![record(1, "A", 0.1), record(3, "A", 0.5), record(4, "A", 0.4)]);
    let difference = Difference { added: 1, changed: 1, removed: 1, unchanged: 1 };
    assert_eq!(book.difference(&next), difference);
    assert_eq!(book.replace(next), difference);
    assert_eq!(book.find(UserId(1), None), Some(one));
    assert_eq!(book.find(UserId(2), None), None);
    assert_eq!(book.association(two).unwrap().fairshare, 0.2, "live jobs still read it");
    book.upsert(vec![record(2, "A", 0.7)], OWNER);
    assert_eq!(book.find(UserId(2), None), Some(two), "it returns under its id");
    assert_eq!(book.users().count(), 4);
}

#[test]
fn a_policy_starts_from_default_weights() {
    let mut book = Book::default();
    book.set_weights(vec![("bank".to_owned(), 5), ("later".to_owned(), 1)]);
    assert_eq!((book.weights().bank, book.weights().fairshare), (5, 100_000));
    book.replace(Policy { weights: vec![("queue".to_owned(), 3)], ..Policy::default() });
    assert_eq!(*book.weights(), Weights { queue: 3, ..Weights::default() });
}

#[test]
fn permissions_and_caps() {
    let mut one = record(1, "A", 0.1).association;
    assert!(one.permits_project("*") && one.permits_project("own") && !one.permits_project("x"));
    assert!(!one.permits_queue("q"));
    assert!(one.is_full(7) && !one.is_full(6));
    one.max_active_jobs = Limit(0);
    assert!(!one.is_full(u64::MAX), "0 is unlimited here");
    one.max_active_jobs = Limit(-2);
    assert!(!one.is_full(u64::MAX), "a negative limit acts like 0");
}
