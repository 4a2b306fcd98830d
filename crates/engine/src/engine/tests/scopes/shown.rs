// SPDX-License-Identifier: LGPL-3.0-only
//! Limits over scopes as people are shown them, with what is in use.

use super::*;
use crate::engine::answers::{LimitShown, Open, StandingsWanted};

/// Returns the scope of a limit over a scope, in words.
fn whose(limit: &LimitShown) -> Option<String> {
    Some(Target::parse(&limit.scope, limit.name.as_deref()?).unwrap().to_string())
}

/// Of an association: those on itself, on its bank and the banks above, and on its user.
#[test]
fn an_association_is_shown_the_limits_under_which_its_jobs_come() {
    let user = |user| Target::User(UserId(user));
    let mut host = site(vec![
        limit(bank("science"), None, "run-sched-gpus", 8),
        limit(bank("root"), Some("q1"), "run-jobs", 2),
        limit(Target::EachBank, None, "run-sched-jobs", 5),
        limit(bank("C"), None, "run-jobs", 1),
        limit(Target::EachUser, None, "run-sched-gpus", 20),
        limit(user(9), None, "run-sched-gpus", 1),
        limit(Target::Association(UserId(7), "A".into()), Some("q2"), "run-nodes", 3),
    ]);
    let running = host.submit(job(7, "A", 3)).unwrap();
    host.start(running);
    host.submit(job(7, "B", 2)).unwrap();
    let page = |open| {
        let wanted = StandingsWanted { user: None, bank: None, after: None, most: 9, open };
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
            // Nobody counts here yet but in the banks.
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
                // Of a bank by name, and of each: of another amount both.
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
        let over = standing.unwrap().limits.iter().filter_map(|it| Some((it, whose(it)?)));
        let shown: Vec<_> = over
            .map(|(it, whose)| {
                (whose, it.queue.as_ref().map(|queue| queue.as_str().to_owned()), it.used, it.cap)
            })
            .collect();
        // What one has oneself is one's own; what all in a bank have is what others use.
        let is_shown = |whose: &str| open != Open::Own || whose.starts_with("user ");
        let expected: Vec<_> = expected
            .iter()
            .map(|(whose, queue, used, cap)| {
                ((*whose).to_owned(), queue.map(str::to_owned), is_shown(whose).then_some(*used), *cap)
            })
            .collect();
        assert_eq!(shown, expected, "user {user} in bank {of}, {open:?}");
    }
    exact(&host);
}

/// A released job reserves what it will run with: that is shown as reserved, and nothing as used before it runs.
#[test]
fn what_released_jobs_reserve_is_shown_apart_from_what_runs() {
    let mut host = site(vec![limit(bank("C"), None, "run-jobs", 2)]);
    let of_c = |host: &Host| {
        let wanted =
            StandingsWanted { user: Some(UserId(9)), bank: None, after: None, most: 9, open: Open::All };
        let mut page = crate::engine::answers::standings(&host.engine.view(), &wanted, host.now);
        let limits = page.associations.remove(0).limits;
        let limit = limits.into_iter().find(|it| it.name.as_deref() == Some("C")).unwrap();
        assert_eq!(limit.cap, Some(2));
        (limit.used.unwrap(), limit.reserved.unwrap())
    };
    let jobs = [0; 4].map(|_| host.submit(job(9, "C", 0)).unwrap());
    assert_eq!(of_c(&host), (0, 0), "they may run: none was held");
    host.start(jobs[0]);
    host.start(jobs[1]);
    assert_eq!(of_c(&host), (2, 0));
    let held = host.submit(job(9, "C", 0)).unwrap();
    assert_eq!((host.state(held), of_c(&host)), (Some(State::Depend), (2, 0)));
    host.end(jobs[0]);
    assert_eq!((host.state(held), of_c(&host)), (Some(State::Sched), (1, 1)), "released, and does not run");
    host.end(jobs[1]);
    assert_eq!(of_c(&host), (0, 1), "nothing runs");
    host.start(held);
    assert_eq!(of_c(&host), (1, 0));
    exact(&host);
}
