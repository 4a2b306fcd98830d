// SPDX-License-Identifier: LGPL-3.0-only
//! Tests which limits a query shows, and the amount in use that the query shows for each limit.

use super::*;
use crate::engine::answers::{AssociationFilter, LimitUsage, Open};

/// Returns the scope of a limit as text, or `None` if the limit names no scope.
fn scope_text(limit: &LimitUsage) -> Option<String> {
    Some(Target::parse(&limit.scope, limit.name.as_deref()?).unwrap().to_string())
}

/// The limits are on the association itself, on its bank and the banks above, and on its user.
#[test]
fn the_answer_about_an_association_lists_the_limits_on_its_jobs() {
    let user = |user| Target::User(UserId(user));
    let mut host = make_site(vec![
        limit(bank_target("science"), None, "run-sched-gpus", 8),
        limit(bank_target("root"), Some("q1"), "run-jobs", 2),
        limit(Target::EachBank, None, "run-sched-jobs", 5),
        limit(bank_target("C"), None, "run-jobs", 1),
        limit(Target::EachUser, None, "run-sched-gpus", 20),
        limit(user(9), None, "run-sched-gpus", 1),
        limit(Target::Association(UserId(7), "A".into()), Some("q2"), "run-nodes", 3),
    ]);
    let running_job = host.submit(make_job(7, "A", 3)).unwrap();
    host.start_job(running_job);
    host.submit(make_job(7, "B", 2)).unwrap();
    let page = |open| {
        let wanted = AssociationFilter { user: None, bank: None, after: None, most: 9, open };
        crate::engine::answers::standings(&host.engine.view(), &wanted, host.now)
    };
    type Row<'a> = (&'a str, Option<&'a str>, u64, Option<u64>);
    let cases: [(u32, &str, &[Row<'_>]); 3] = [
        (
            7,
            "A",
            &[
                ("user 7 in bank A", Some("q2"), 0, Some(3)),
                ("bank A", None, 1, Some(5)),
                ("bank science", None, 5, Some(8)),
                ("bank root", Some("q1"), 1, Some(2)),
                ("user 7", None, 5, Some(20)),
            ],
        ),
        (
            8,
            "A",
            // User 8 has no jobs, so the numbers are those of the other jobs in the banks.
            &[
                ("bank A", None, 1, Some(5)),
                ("bank science", None, 5, Some(8)),
                ("bank root", Some("q1"), 1, Some(2)),
                ("user 8", None, 0, Some(20)),
            ],
        ),
        (
            9,
            "C",
            &[
                // One limit names bank C, and the other applies to each bank. They count jobs in different states, so
                // neither replaces the other.
                ("bank C", None, 0, Some(1)),
                ("bank C", None, 0, Some(5)),
                ("bank root", Some("q1"), 1, Some(2)),
                ("user 9", None, 0, Some(1)),
            ],
        ),
    ];
    for (open, (user, of, expected)) in
        [Open::All, Open::Banks, Open::Own].into_iter().flat_map(|open| cases.map(|case| (open, case)))
    {
        let page = page(open);
        let standing =
            page.associations.iter().find(|it| (it.userid, it.bank.as_str()) == (UserId(user), of));
        let over = standing.unwrap().limits.iter().filter_map(|it| Some((it, scope_text(it)?)));
        let shown: Vec<_> = over
            .map(|(it, scope_text)| {
                (scope_text, it.queue.as_ref().map(|queue| queue.as_str().to_owned()), it.used, it.cap)
            })
            .collect();
        // A user who may see only their own usage does not see the use of a bank's limit.
        let is_shown = |scope_text: &str| open != Open::Own || scope_text.starts_with("user ");
        let expected: Vec<_> = expected
            .iter()
            .map(|(scope_text, queue, used, cap)| {
                (
                    (*scope_text).to_owned(),
                    queue.map(str::to_owned),
                    is_shown(scope_text).then_some(*used),
                    *cap,
                )
            })
            .collect();
        assert_eq!(shown, expected, "user {user} in bank {of}, {open:?}");
    }
    assert_counters_and_holds(&host);
}

/// A released job reserves headroom until it runs. Then it counts as use.
#[test]
fn reservations_of_released_jobs_are_shown_separately_from_running_jobs() {
    let mut host = make_site(vec![limit(bank_target("C"), None, "run-jobs", 2)]);
    let use_of_c = |host: &Host| {
        let wanted =
            AssociationFilter { user: Some(UserId(9)), bank: None, after: None, most: 9, open: Open::All };
        let mut page = crate::engine::answers::standings(&host.engine.view(), &wanted, host.now);
        let limits = page.associations.remove(0).limits;
        let limit = limits.into_iter().find(|it| it.name.as_deref() == Some("C")).unwrap();
        assert_eq!(limit.cap, Some(2));
        (limit.used.unwrap(), limit.reserved.unwrap())
    };
    let jobs = [0; 4].map(|_| host.submit(make_job(9, "C", 0)).unwrap());
    assert_eq!(use_of_c(&host), (0, 0), "no job was held, so none has a reservation");
    host.start_job(jobs[0]);
    host.start_job(jobs[1]);
    assert_eq!(use_of_c(&host), (2, 0));
    let held_job = host.submit(make_job(9, "C", 0)).unwrap();
    assert_eq!((host.state(held_job), use_of_c(&host)), (Some(State::Depend), (2, 0)));
    host.end_job(jobs[0]);
    assert_eq!(
        (host.state(held_job), use_of_c(&host)),
        (Some(State::Sched), (1, 1)),
        "released, and not running"
    );
    host.end_job(jobs[1]);
    assert_eq!(use_of_c(&host), (0, 1), "nothing runs");
    host.start_job(held_job);
    assert_eq!(use_of_c(&host), (1, 0));
    assert_counters_and_holds(&host);
}

/// User 7 has had no job in bank A, so no scope counts this association yet.
#[test]
fn why_suggests_no_bank_whose_limit_is_full() {
    let full = |name, amount| limit(bank_target(name), None, amount, 1);
    for amount in ["run-sched-jobs", "run-sched-gpus"] {
        let mut host = make_site(vec![full("A", amount), full("B", "run-sched-jobs")]);
        let first = host.submit(make_job(8, "A", 1)).unwrap();
        host.submit(make_job(7, "B", 1)).unwrap();
        let held = host.submit(make_job(7, "B", 1)).unwrap();
        let suggested = |host: &Host| {
            let helps = super::super::why::explain_job(host, held).helps;
            helps.into_iter().find(|help| help.code == "bank").map(|help| help.text)
        };
        assert_eq!((host.state(held), suggested(&host)), (Some(State::Depend), None), "{amount}");
        host.end_job(first);
        assert!(suggested(&host).is_some_and(|text| text.starts_with("bank A has headroom")), "{amount}");
    }
}
