// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of the limits that apply to a user in a bank, and of the parsing of targets.

use super::*;

const GPUS: Amount = Amount { stage: Stage::Running, measure: Measure::Gpus };
const JOBS: Amount = Amount { stage: Stage::Running, measure: Measure::Jobs };

fn limit(target: Target, queue: Option<&str>, amount: Amount, cap: i64) -> SiteLimit {
    let cap = Cap { limit: Limit(cap), is_given: false };
    SiteLimit { target, queue: queue.map(Into::into), amount, cap }
}

fn set_pushed_limits(book: &mut Book, limits: Vec<SiteLimit>, parents: Vec<(BankName, BankName)>) {
    book.replace_tables(SiteTables { limits, parents, ..book.tables.clone() });
}

fn list_limits(limits: &SiteLimits, user: u32, bank: &str) -> Vec<String> {
    let all = limits.list_limits_of_user(UserId(user), &bank.into());
    let format_limit = |(target, queue, caps): ScopeLimits| {
        let queue = queue.map_or(String::new(), |queue| format!(" in {queue}"));
        let caps: Vec<String> = caps.iter().map(|(amount, cap)| format!("{amount}={}", cap.limit)).collect();
        format!("{target}{queue}: {}", caps.join(" "))
    };
    all.into_iter().map(format_limit).collect()
}

#[test]
fn a_job_counts_under_its_bank_and_all_banks_above() {
    let limits = [
        limit(Target::Bank("root".into()), None, GPUS, 100),
        limit(Target::EachBank, None, GPUS, 96),
        limit(Target::EachBank, None, JOBS, 7),
        limit(Target::Bank("small".into()), None, GPUS, 4),
        limit(Target::Bank("science".into()), Some("batch"), GPUS, 50),
        limit(Target::EachUser, None, GPUS, 16),
        limit(Target::User(UserId(8)), None, GPUS, 32),
        limit(Target::Association(UserId(7), "small".into()), None, JOBS, 1),
        limit(Target::EachAssociation, Some("batch"), JOBS, 2),
        limit(Target::EachUser, Some("batch"), JOBS, 5),
    ];
    let parents = [("science", "root"), ("small", "science"), ("large", "science"), ("other", "root")];
    let parents = parents.map(|(bank, parent)| (bank.into(), parent.into()));
    let limits = SiteLimits::new(&limits, &parents, &[], &Default::default());
    assert_eq!(
        list_limits(&limits, 7, "small"),
        [
            "user 7 in bank small: run-jobs=1",
            "user 7 in bank small in batch: run-jobs=2",
            "bank small: run-jobs=7 run-gpus=4",
            "bank science in batch: run-gpus=50",
            "bank root: run-gpus=100",
            "user 7: run-gpus=16",
            "user 7 in batch: run-jobs=5",
        ]
    );
    assert_eq!(
        list_limits(&limits, 8, "other"),
        [
            "user 8 in bank other in batch: run-jobs=2",
            "bank other: run-jobs=7 run-gpus=96",
            "bank root: run-gpus=100",
            "user 8: run-gpus=32",
            "user 8 in batch: run-jobs=5",
        ]
    );
    // Bank science has banks below it, so the limits of `EachBank` do not apply to it.
    assert_eq!(list_limits(&limits, 9, "science")[1], "bank science in batch: run-gpus=50");
    assert!(SiteLimits::default().list_limits_of_user(UserId(7), &"small".into()).is_empty());
}

#[test]
fn limits_can_be_listed_if_the_banks_form_a_cycle() {
    let parents = [("a".into(), "b".into()), ("b".into(), "a".into())];
    let limits = SiteLimits::new(
        &[limit(Target::Bank("a".into()), None, GPUS, 1)],
        &parents,
        &[],
        &Default::default(),
    );
    assert!(!list_limits(&limits, 7, "b").is_empty());
}

#[test]
fn a_limit_on_each_queue_applies_to_pushed_queues_without_their_own_limit() {
    let on_batch = limit(Target::Queue("batch".into()), Some("batch"), GPUS, 4);
    let limits = [limit(Target::EachQueue, None, GPUS, 9), limit(Target::EachQueue, None, JOBS, 3), on_batch];
    let parents = [("debug".into(), "batch".into())];
    let queue_parents = Arc::new(QueueParents::from(parents));
    let limits = SiteLimits::new(&limits, &[], &["batch".into(), "debug".into()], &queue_parents);
    assert_eq!(
        list_limits(&limits, 7, "small"),
        ["queue batch in batch: run-jobs=3 run-gpus=4", "queue debug in debug: run-jobs=3 run-gpus=9"]
    );
    let mut book = Book::default();
    set_pushed_limits(&mut book, vec![limit(Target::EachQueue, None, JOBS, 3)], Vec::new());
    assert_eq!(list_limits(book.site_limits(), 7, "A"), [""; 0]);
    book.set_queues(vec![Queue { name: "batch".into(), ..Queue::default() }]);
    assert_eq!(list_limits(book.site_limits(), 7, "A"), ["queue batch in batch: run-jobs=3"]);
    book.set_queues(Vec::new());
    assert_eq!(list_limits(book.site_limits(), 7, "A"), [""; 0]);
}

#[test]
fn a_printed_target_parses_to_itself() {
    for target in [
        Target::Association(UserId(7), "a/b".into()),
        Target::EachAssociation,
        Target::Bank("a".into()),
        Target::EachBank,
        Target::User(UserId(0)),
        Target::EachUser,
        Target::Queue("batch".into()),
        Target::EachQueue,
    ] {
        assert_eq!(Target::parse(target.kind(), &target.name()), Ok(target));
    }
    for (kind, name, text) in [
        ("group", "x", "scope: expected \"association\", \"bank\", \"user\" or \"queue\", got \"group\""),
        ("bank", "", "name: expected a bank, got an empty string"),
        ("queue", "", "name: expected a queue, got an empty string"),
        ("user", "alice", "name: expected a user id, got \"alice\""),
        ("user", "4294967295", "name: expected a user id, got \"4294967295\""),
        ("association", "7", "name: expected USERID/BANK, got \"7\""),
        ("association", "7/", "name: expected USERID/BANK, got \"7/\""),
        ("association", "x/a", "name: expected a user id, got \"x\""),
    ] {
        assert_eq!(Target::parse(kind, name), Err(text.to_owned()));
    }
}

#[test]
fn a_push_that_removes_limits_or_moves_banks_changes_limits_at_once() {
    let mut book = Book::default();
    let pushed = || vec![limit(Target::Bank("root".into()), None, GPUS, 4)];
    let parents = |parent: &str| vec![("A".into(), parent.into())];
    set_pushed_limits(&mut book, pushed(), parents("root"));
    assert_eq!(book.tables().limits, pushed());
    assert_eq!(list_limits(book.site_limits(), 7, "A"), ["bank root: run-gpus=4"]);
    set_pushed_limits(&mut book, pushed(), parents("other"));
    assert_eq!(list_limits(book.site_limits(), 7, "A"), [""; 0]);
    set_pushed_limits(&mut book, pushed(), parents("root"));
    let before = Arc::clone(book.site_limits());
    set_pushed_limits(&mut book, pushed(), parents("root"));
    assert!(Arc::ptr_eq(&before, book.site_limits()));
    set_pushed_limits(&mut book, Vec::new(), parents("root"));
    assert!(book.site_limits().is_empty() && book.tables().limits.is_empty());
}

/// A record of flux-accounting has limits on running jobs, nodes and cores, and on scheduled jobs.
#[test]
fn limits_of_flux_accounting_records_are_recognized() {
    let association = Target::Association(UserId(7), "A".into());
    for (measure, is_in_records) in [
        ("run-jobs", true),
        ("run-nodes", true),
        ("run-cores", true),
        ("run-gpus", false),
        ("run-node-hours", false),
        ("sched-jobs", true),
        ("active-jobs", true),
        ("job-nodes", false),
        ("job-time", false),
        ("run-sched-jobs", false),
        ("nonsense", false),
    ] {
        let has_cap = |target: &Target, is_in_queue: bool| {
            Amount::parse(measure).is_some_and(|amount| target.is_in_records(is_in_queue, amount))
        };
        assert_eq!(has_cap(&association, false), is_in_records, "{measure}");
        assert!(!has_cap(&association, true), "{measure} in a queue");
        assert!(!has_cap(&Target::Bank("A".into()), false), "{measure} of a bank");
        assert_eq!(measures().iter().any(|known| known == measure), measure != "nonsense", "{measure}");
    }
}
