// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of pushes to a `Book`: records, site documents, and staged pushes.
//! Rules: D1, D2, D5, D8, D10, D18

mod changes;

use super::*;
use crate::ids::Limit;

fn record(user: u32, bank: &str, fairshare: f64) -> AssociationRecord {
    let association = Association {
        user: UserId(user),
        bank: bank.into(),
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
    AssociationRecord { association, fairshare, def_bank: "A".into() }
}

impl Book {
    /// Replaces all stored site data by `records`.
    pub fn replace_records(&mut self, records: SiteRecords) -> Difference {
        self.begin_staging(false);
        self.stage_records(records);
        self.commit_records(&TreeChange::default())
    }
}

fn make_document(associations: Vec<AssociationRecord>) -> SiteRecords {
    SiteRecords { associations, ..SiteRecords::default() }
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
    assert_eq!(book.fairshare(a).unwrap(), 0.9);
    assert!(book.find(UserId(1), Some("B")).is_some());
    assert_eq!(book.find(UserId(2), None), None);
    assert_eq!(book.generation(), 3);
}

#[test]
fn a_user_need_not_have_an_association_in_the_default_bank() {
    let mut book = Book::default();
    book.upsert(vec![record(1, "B", 0.1)], OWNER);
    assert_eq!(book.find(UserId(1), None), None);
    assert!(book.find(UserId(1), Some("B")).is_some());
}

#[test]
fn a_document_removes_unlisted_associations_and_keeps_ids() {
    let mut book = Book::default();
    book.upsert(vec![record(1, "A", 0.1), record(2, "A", 0.2), record(3, "A", 0.3)], OWNER);
    let [first, second] = [1, 2].map(|user| book.find(UserId(user), None).unwrap());
    let document = make_document(vec![record(1, "A", 0.1), record(3, "A", 0.5), record(4, "A", 0.4)]);
    let difference = Difference { added: 1, changed: 1, removed: 1, unchanged: 1, ..Difference::default() };
    assert_eq!(book.replace_records(document), difference);
    assert_eq!(book.find(UserId(1), None), Some(first));
    assert_eq!(book.find(UserId(2), None), None);
    assert_eq!(book.fairshare(second).unwrap(), 0.2, "live jobs still use the fair-share");
    book.upsert(vec![record(2, "A", 0.7)], OWNER);
    assert_eq!(book.find(UserId(2), None), Some(second), "the association has its former id");
    assert_eq!((book.associations(None).count(), book.len()), (4, 4));
}

#[test]
fn a_document_replaces_all_weights() {
    let mut book = Book::default();
    book.set_weights(vec![("bank".to_owned(), 5), ("later".to_owned(), 1)]);
    assert_eq!((book.tables().weights.get("bank"), book.tables().weights.get("fairshare")), (Some(&5), None));
    book.replace_records(SiteRecords { weights: vec![("queue".to_owned(), 3)], ..SiteRecords::default() });
    assert_eq!(book.tables().weights, BTreeMap::from([("queue".to_owned(), 3)]));
}

#[test]
fn an_association_permits_its_projects_and_rejects_jobs_above_its_cap() {
    let mut association = record(1, "A", 0.1).association;
    assert!(
        association.permits_project("*")
            && association.permits_project("own")
            && !association.permits_project("x")
    );
    assert!(!association.permits_queue("q"));
    assert!(association.active_headroom(7) == 0 && association.active_headroom(6) == 1);
    association.max_active_jobs = Limit(0);
    assert_eq!(association.active_headroom(u64::MAX), u64::MAX, "a cap of 0 is unlimited");
    association.max_active_jobs = Limit(-2);
    assert_eq!(association.active_headroom(u64::MAX), u64::MAX, "a negative limit acts like 0");
}

/// Returns all associations with their ids, and the default bank of user 1.
fn list_associations(book: &Book) -> (Vec<(usize, Association)>, Option<BankName>) {
    let associations = book.associations(None).map(|(id, record)| (id.index(), record.clone()));
    (associations.collect(), book.default_bank(UserId(1)).cloned())
}

#[test]
fn staged_parts_take_effect_at_the_commit() {
    let mut book = Book::default();
    book.upsert(vec![record(1, "A", 0.1), record(2, "A", 0.2), record(3, "A", 0.3)], OWNER);
    let before = list_associations(&book);
    let one = book.find(UserId(1), None).unwrap();
    book.begin_staging(false);
    book.stage_records(make_document(vec![record(1, "A", 0.9), record(4, "A", 0.4)]));
    book.stage_records(make_document(vec![record(3, "A", 0.3)]));
    assert_eq!(list_associations(&book), before);
    assert_eq!((book.find(UserId(4), None), book.len()), (None, 3));
    let difference = Difference { added: 1, changed: 1, removed: 1, unchanged: 1, ..Difference::default() };
    assert_eq!(book.commit_records(&TreeChange::default()), difference);
    assert_eq!(book.latest(), difference);
    assert_eq!(book.find(UserId(1), None), Some(one));
    assert_eq!(book.fairshare(one).unwrap(), 0.9);
    assert_eq!((book.find(UserId(2), None), book.len()), (None, 3));
    let removed: Vec<UserId> = book.removed().map(|(_, record)| record.user).collect();
    assert_eq!(removed, [UserId(2)]);
}

#[test]
fn many_abandoned_pushes_leave_no_data() {
    let mut book = Book::default();
    book.upsert(vec![record(1, "A", 0.1), record(2, "A", 0.2)], OWNER);
    book.begin_staging(false);
    book.stage_records(make_document(vec![record(1, "A", 0.3)]));
    book.commit_records(&TreeChange::default());
    let before = list_associations(&book);
    for push in 0..1200 {
        book.begin_staging(false);
        book.stage_records(make_document(vec![
            record(1, "A", 0.9),
            record(2, "A", 0.8),
            record(push, "A", 0.7),
        ]));
        if push % 2 == 0 {
            book.abort_staging();
        }
        assert_eq!(list_associations(&book), before, "{push}");
    }
    book.begin_staging(false);
    book.stage_records(make_document(vec![record(2, "A", 0.2)]));
    book.commit_records(&TreeChange::default());
    let removed: Vec<(UserId, f64)> =
        book.removed().map(|(id, r)| (r.user, book.fairshare(id).unwrap())).collect();
    assert_eq!(removed, [(UserId(1), 0.3)]);
}

#[test]
fn an_aborted_push_leaves_no_data() {
    let mut book = Book::default();
    book.upsert(vec![record(1, "A", 0.1), record(2, "A", 0.2)], OWNER);
    let before = list_associations(&book);
    book.begin_staging(false);
    book.stage_records(make_document(vec![record(1, "A", 0.9), record(7, "A", 0.7)]));
    book.abort_staging();
    assert_eq!((list_associations(&book), book.generation(), book.is_staging()), (before, 1, false));
    // No current association and no removed association has values of the aborted push.
    book.begin_staging(false);
    book.stage_records(make_document(vec![record(2, "A", 0.2)]));
    assert_eq!(
        book.commit_records(&TreeChange::default()),
        Difference { removed: 1, unchanged: 1, ..Difference::default() }
    );
    let removed: Vec<(UserId, f64)> =
        book.removed().map(|(id, r)| (r.user, book.fairshare(id).unwrap())).collect();
    assert_eq!(removed, [(UserId(1), 0.1)]);
}

#[test]
fn a_second_begin_of_a_push_discards_the_first_staged_push() {
    let mut book = Book::default();
    book.begin_staging(false);
    book.stage_records(make_document(vec![record(1, "A", 0.1)]));
    book.begin_staging(false);
    book.stage_records(make_document(vec![record(2, "A", 0.2)]));
    assert_eq!(book.commit_records(&TreeChange::default()), Difference { added: 1, ..Difference::default() });
    assert_eq!(book.find(UserId(1), None), None);
}

#[test]
fn the_commit_of_a_push_overrides_updates_made_during_the_push() {
    let mut book = Book::default();
    book.upsert(vec![record(1, "A", 0.1), record(2, "A", 0.2)], OWNER);
    book.begin_staging(false);
    book.stage_records(make_document(vec![record(1, "A", 0.9), record(2, "A", 0.2), record(3, "A", 0.3)]));
    book.upsert(
        vec![record(1, "A", 0.9), record(2, "A", 0.8), record(3, "A", 0.3), record(4, "A", 0.4)],
        OWNER,
    );
    assert_eq!(book.fairshare(book.find(UserId(2), None).unwrap()).unwrap(), 0.8);
    assert_eq!(
        book.commit_records(&TreeChange::default()),
        Difference { changed: 1, removed: 1, unchanged: 2, ..Difference::default() }
    );
    assert_eq!(book.fairshare(book.find(UserId(2), None).unwrap()).unwrap(), 0.2);
}

#[test]
fn an_association_in_two_parts_of_a_push_has_the_values_of_the_last_part() {
    let mut book = Book::default();
    book.upsert(vec![record(1, "A", 0.1)], OWNER);
    book.begin_staging(false);
    book.stage_records(make_document(vec![record(1, "A", 0.5), record(1, "B", 0.5)]));
    book.stage_records(make_document(vec![record(1, "A", 0.1)]));
    assert_eq!(
        book.commit_records(&TreeChange::default()),
        Difference { added: 1, unchanged: 1, ..Difference::default() }
    );
    assert_eq!(book.fairshare(book.find(UserId(1), None).unwrap()).unwrap(), 0.1);
}

#[test]
fn a_push_is_complete_when_its_parts_contain_all_required_arrays() {
    let mut book = Book::default();
    assert_eq!(book.missing_array(), Some("associations"), "no push is open");
    book.begin_staging(false);
    assert_eq!(book.missing_array(), Some("associations"));
    let [others @ .., last] = SiteRecords::ARRAYS;
    book.stage_records(SiteRecords { arrays: others.into(), ..SiteRecords::default() });
    assert_eq!(book.missing_array(), Some("priority_factors"));
    book.stage_records(SiteRecords { arrays: [last].into(), ..SiteRecords::default() });
    assert_eq!(book.missing_array(), None);
}

#[test]
fn lists_in_several_parts_are_concatenated() {
    let mut book = Book::default();
    book.set_projects(vec!["old".into()]);
    book.begin_staging(false);
    for (project, bank) in [("a", "A"), ("b", "B")] {
        book.stage_records(SiteRecords {
            projects: vec![project.into()],
            banks: vec![(bank.into(), 2.0)],
            ..SiteRecords::default()
        });
    }
    book.commit_records(&TreeChange::default());
    assert_eq!(book.tables().projects, ["a".into(), "b".into()]);
    assert_eq!(book.tables().banks.len(), 2);
}

#[test]
fn a_push_keeps_the_switches_that_it_does_not_set_unless_it_replaces_all() {
    let floor = ConfigPatch { zero_score: Some(ZeroScore::Floor), ..ConfigPatch::default() };
    let deny = ConfigPatch { deny_unknown_queues: Some(true), ..ConfigPatch::default() };
    let both_switches = Config { zero_score: ZeroScore::Floor, deny_unknown_queues: true };
    let mut book = Book::default();
    book.set_config(floor);
    book.set_config(deny);
    assert_eq!(book.config(), both_switches);
    book.begin_staging(true);
    book.stage_records(SiteRecords { config: deny, ..SiteRecords::default() });
    book.commit_records(&TreeChange::default());
    assert_eq!(book.config(), both_switches);
    book.replace_records(make_document(vec![]));
    assert_eq!(book.config(), Config::default());
}

#[test]
fn associations_are_listed_from_the_first_one_after_the_given_key() {
    let mut book = Book::default();
    book.upsert(
        vec![record(2, "B", 0.1), record(1, "A", 0.1), record(2, "A", 0.1), record(3, "A", 0.1)],
        OWNER,
    );
    let list_after = |after| -> Vec<(u32, &str)> {
        book.associations(after).map(|(_, record)| (record.user.0, record.bank.as_str())).collect()
    };
    let all = [(1, "A"), (2, "A"), (2, "B"), (3, "A")];
    assert_eq!(list_after(None), all);
    for at in 0..all.len() {
        assert_eq!(list_after(Some((UserId(all[at].0), all[at].1))), all[at + 1..]);
    }
    assert_eq!(list_after(Some((UserId(2), ""))), all[1..]);
    assert_eq!(list_after(Some((UserId(u32::MAX), ""))), []);
}

#[test]
fn a_bank_exists_while_a_committed_association_belongs_to_the_bank() {
    let mut book = Book::default();
    book.upsert(vec![record(1, "A", 0.1)], OWNER);
    book.begin_staging(false);
    book.stage_records(make_document(vec![record(2, "B", 0.1)]));
    let banks = |book: &Book| ["A", "B", "C"].map(|bank| book.has_bank(bank));
    assert_eq!(banks(&book), [true, false, false], "the push is not committed");
    book.commit_records(&TreeChange::default());
    assert_eq!(banks(&book), [false, true, false]);
    book.replace_records(make_document(vec![record(2, "A", 0.1), record(2, "B", 0.1)]));
    assert_eq!(banks(&book), [true, true, false]);
}

/// A simple model of `Book`. The model and `Book` share no code.
#[derive(Default)]
struct Model {
    present: BTreeMap<(u32, &'static str), f64>,
    removed: BTreeMap<(u32, &'static str), f64>,
    default_banks: BTreeMap<u32, &'static str>,
}

/// Returns the default bank in the record with this fair-share.
fn choose_default_bank(fairshare: f64) -> &'static str {
    if fairshare == 2.0 { "B" } else { "A" }
}

impl Model {
    fn upsert(&mut self, records: &[(u32, &'static str, f64)]) {
        for (user, bank, fairshare) in records {
            self.default_banks.insert(*user, choose_default_bank(*fairshare));
            self.removed.remove(&(*user, *bank));
            self.present.insert((*user, *bank), *fairshare);
        }
    }

    fn replace(&mut self, records: &[(u32, &'static str, f64)]) -> Difference {
        let before = std::mem::take(&mut self.present);
        self.default_banks.clear();
        self.upsert(records);
        let mut difference = Difference::default();
        for (key, fairshare) in &self.present {
            match before.get(key) {
                None => difference.added += 1,
                Some(former) if former == fairshare => difference.unchanged += 1,
                Some(_) => difference.changed += 1,
            }
        }
        for (key, fairshare) in before.into_iter().filter(|(key, _)| !self.present.contains_key(key)) {
            difference.removed += 1;
            self.removed.insert(key, fairshare);
        }
        difference
    }
}

proptest::proptest! {
    /// Random steps push whole documents or parts, abandon pushes, and update records during a push. Each association must keep its first
    /// id.
    #[test]
    fn the_associations_equal_those_of_a_simple_model_after_random_pushes(
        steps in proptest::collection::vec(
            (0u8..6, proptest::collection::vec((0u32..5, 0usize..2, 0u8..3), 0..6), 1usize..4),
            1..10,
        ),
    ) {
        let mut book = Book::default();
        let mut model = Model::default();
        let mut ids = BTreeMap::new();
        for (kind, listed, size) in steps {
            let listed: Vec<(u32, &'static str, f64)> =
                listed.into_iter().map(|(user, bank, n)| (user, ["A", "B"][bank], f64::from(n))).collect();
            let make_record = |(user, bank, fairshare): &(u32, &str, f64)| {
                let def_bank = choose_default_bank(*fairshare).into();
                AssociationRecord { def_bank, ..record(*user, bank, *fairshare) }
            };
            let records: Vec<AssociationRecord> = listed.iter().map(make_record).collect();
            if kind >= 2 {
                book.begin_staging(false);
                records.chunks(size).for_each(|chunk| book.stage_records(make_document(chunk.to_vec())));
            }
            match kind {
                0 => {
                    book.upsert(records, UserId(99));
                    model.upsert(&listed);
                }
                1 => {
                    let changed = book.replace_records(make_document(records));
                    proptest::prop_assert_eq!(changed, model.replace(&listed));
                }
                2 => book.abort_staging(),
                3 => {}
                _ => {
                    if kind == 5 {
                        book.upsert(vec![record(1, "A", 7.0), record(2, "B", 1.0)], UserId(99));
                        model.upsert(&[(1, "A", 7.0), (2, "B", 1.0)]);
                    }
                    proptest::prop_assert_eq!(book.commit_records(&TreeChange::default()), model.replace(&listed));
                }
            }
            let present: Vec<_> = book
                .associations(None)
                .map(|(id, listed)| ((listed.user.0, listed.bank.as_str().to_owned()), book.fairshare(id).unwrap()))
                .collect();
            let wanted: Vec<_> =
                model.present.iter().map(|((user, bank), n)| ((*user, (*bank).to_owned()), *n)).collect();
            proptest::prop_assert_eq!(present, wanted);
            proptest::prop_assert_eq!(book.len(), model.present.len());
            let removed: BTreeMap<_, _> = book
                .removed()
                .map(|(id, listed)| ((listed.user.0, listed.bank.as_str().to_owned()), book.fairshare(id).unwrap()))
                .collect();
            let wanted: BTreeMap<_, _> =
                model.removed.iter().map(|((user, bank), n)| ((*user, (*bank).to_owned()), *n)).collect();
            proptest::prop_assert_eq!(removed, wanted);
            for (id, listed) in book.associations(None).chain(book.removed()) {
                let first = *ids.entry((listed.user, listed.bank.clone())).or_insert(id);
                proptest::prop_assert_eq!(first, id);
            }
            for user in 0..5 {
                let default = book.default_bank(UserId(user)).map(|bank| bank.as_str());
                proptest::prop_assert_eq!(default, model.default_banks.get(&user).copied());
            }
            for (id, listed) in book.associations(None) {
                proptest::prop_assert_eq!(book.find(listed.user, Some(listed.bank.as_str())), Some(id));
            }
        }
    }
}
