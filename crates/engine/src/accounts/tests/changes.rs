// SPDX-License-Identifier: LGPL-3.0-only
//! Tests how site documents change a `Book`: its settings, its generation number, and the reported changes.
//! Rules: D14

use super::*;
use crate::engine::tests::site::queue;

#[test]
fn max_running_jobs_of_minus_1_marks_an_association_as_broken() {
    let mut association = record(1, "A", 0.1).association;
    for (max_running_jobs, is_broken) in [(-2, false), (-1, true), (0, false), (1, false)] {
        association.max_running_jobs = Limit(max_running_jobs);
        assert_eq!(association.is_broken(), is_broken, "{max_running_jobs}");
    }
}

#[test]
fn a_site_document_replaces_the_settings_it_contains() {
    let both_switches = ConfigPatch { zero_score: Some(ZeroScore::Floor), deny_unknown_queues: Some(true) };
    let mut book = Book::default();
    book.replace_records(SiteRecords { config: both_switches, ..SiteRecords::default() });
    assert_eq!(book.config(), Config { zero_score: ZeroScore::Floor, deny_unknown_queues: true });
}

#[test]
fn each_change_of_the_data_increases_the_generation() {
    let changes: [fn(&mut Book); 7] = [
        |book| book.upsert(vec![], OWNER),
        |book| book.set_queues(vec![]),
        |book| book.set_projects(vec![]),
        |book| book.set_banks(vec![]),
        |book| book.set_weights(vec![]),
        |book| book.set_config(ConfigPatch::default()),
        |book| {
            book.replace_records(SiteRecords::default());
        },
    ];
    let mut book = Book::default();
    for (change, generation) in changes.iter().zip(1..) {
        change(&mut book);
        assert_eq!(book.generation(), generation);
    }
}

#[test]
fn a_push_reports_its_differences() {
    let mut book = Book::default();
    assert!(book.is_empty());
    book.upsert(vec![record(1, "A", 0.1), record(2, "A", 0.2), record(3, "A", 0.3)], OWNER);
    assert_eq!(book.latest(), Difference { added: 3, ..Difference::default() });
    assert!(!book.is_empty());
    let pushed = [(1, 0.1), (2, 0.2), (3, 0.4), (4, 0.4), (5, 0.5)];
    book.upsert(pushed.map(|(user, fairshare)| record(user, "A", fairshare)).into(), OWNER);
    assert_eq!(book.latest(), Difference { added: 2, changed: 1, unchanged: 2, ..Difference::default() });
    book.upsert(pushed.map(|(user, fairshare)| record(user, "A", fairshare / 2.0)).into(), OWNER);
    assert_eq!(book.latest(), Difference { changed: 5, ..Difference::default() });
}

#[test]
fn has_data_is_true_after_the_first_association_was_pushed() {
    let mut book = Book::default();
    book.replace_records(SiteRecords::default());
    assert!(!book.has_data(), "a document without associations");
    book.replace_records(make_document(vec![record(1, "A", 0.1)]));
    assert!(book.has_data());
    book.replace_records(SiteRecords::default());
    assert!(book.has_data() && book.is_empty());
}

#[test]
fn settings_from_several_parts_of_a_push_are_merged() {
    let [hold, floor] = [ZeroScore::Hold, ZeroScore::Floor]
        .map(|zero_score| ConfigPatch { zero_score: Some(zero_score), ..ConfigPatch::default() });
    let deny = ConfigPatch { deny_unknown_queues: Some(true), ..ConfigPatch::default() };
    let mut book = Book::default();
    book.begin_staging(false);
    for config in [hold, deny, floor] {
        book.stage_records(SiteRecords { config, ..SiteRecords::default() });
    }
    assert!(book.is_staging());
    assert_eq!(book.config(), Config::default());
    book.commit_records(&TreeChange::default());
    assert_eq!(book.config(), Config { zero_score: ZeroScore::Floor, deny_unknown_queues: true });
}

#[test]
fn queues_and_banks_are_listed_by_name() {
    let mut book = Book::default();
    book.set_queues(vec![queue("silver"), queue("gold")]);
    book.set_banks(vec![("B".into(), 2.0), ("A".into(), 3.0)]);
    assert_eq!(book.tables().queues.keys().map(|name| name.as_str()).collect::<Vec<_>>(), ["gold", "silver"]);
    let banks: Vec<(&str, f64)> =
        book.tables().banks.iter().map(|(name, priority)| (name.as_str(), *priority)).collect();
    assert_eq!(banks, [("A", 3.0), ("B", 2.0)]);
}
