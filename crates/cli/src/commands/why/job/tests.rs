// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of explanations of jobs, and of the terms that decide which of two jobs is ahead.

use serde_json::{Value, json};
use std::collections::BTreeMap;

use super::decide::{Cause, Side, decide, list_obstacles, swap_terms};
use super::ended::{ListedJob, RequestedJob};
use super::history::{WaitCause, read_history};
use super::{is_job, is_known_to_plugin, may_be_job_id};
use crate::plugin::scheduling::StartFacts;
use crate::tests::golden::{
    EVIL, NOW, check, make_explain_answer, make_held_job, make_pending_job, make_priority, make_screen,
    make_standing_reply, make_words,
};
use crate::ui::teller::TextPrinter;
use fairshare_engine::accounts::ZeroScore;
use fairshare_engine::engine::answers::{AssociationStanding, Explained, Standings, Why};
use fairshare_engine::ids::{BankName, UserId};
use fairshare_engine::priority::{
    FACTORS, Factors, MAX_FACTORS, PRIORITY_LIMIT, PriorityBounds, WeightedFactors,
};

fn read_job(value: Value) -> Why {
    serde_json::from_value(value).expect("a job")
}

#[test]
fn job_ids_are_distinguished_from_user_names() {
    for text in [
        "ƒABC",
        "fVx2",
        "f1",
        "0x12",
        "16777216",
        "0000.0000.0aee.2000",
        "job.0000.0000.0aee.2000",
        "a-b-c--d-e-f",
    ] {
        assert!(is_job(text), "{text}");
    }
    for text in ["ann", "fred", "5001", "ann/chem", "f", "fA/b", "chem-phys", "u.v.w.x", ""] {
        assert!(!is_job(text), "{text}");
    }
    assert!(may_be_job_id("fpsoops") && may_be_job_id("ƒpsoops"));
    assert!(!may_be_job_id("root") && !may_be_job_id("5001"));
}

#[test]
fn why_does_not_take_the_id_of_another_users_job_for_a_user_name() {
    for (code, is_known) in [("not-yours", true), ("later", true), ("unknown", false)] {
        let mut answer = make_explain_answer(&[]);
        answer["refused"] = json!([{"id": 1, "code": code, "text": ""}]);
        let explained = serde_json::from_value(answer).expect("an answer");
        assert_eq!(is_known_to_plugin(&explained), is_known, "{code}");
    }
}

#[test]
fn screens_of_one_job_equal_the_golden_files() {
    let terms = [
        ("fairshare", 0.421_053, 100_000),
        ("queue", 1.0, 10_000),
        ("bank", 0.0, 0),
        ("urgency", -2.0, 1000),
    ];
    let mut lagging = make_pending_job(22, 5003, EVIL, make_priority(&terms));
    lagging["exact"]["priority"] = json!(51_000);
    lagging["lag"] =
        json!({"by": 895, "code": "budget", "text": "the refresh touched as many jobs as it may at once"});
    lagging["turn"] = json!({"number": 3, "fairshare": 0.25});
    let mut no = make_pending_job(23, 5001, "chem", make_priority(&[("fairshare", 0.0, 100_000)]));
    no["others"] = json!([{"cause": "score", "text": "its score of 0 holds it", "name": null, "at": null}]);
    let zero = json!({"priority": 0, "outcome": "held-by-urgency", "sum": null, "rounded": null, "urgency": 0, "terms": []});
    let mut resting = make_pending_job(30, 5001, "chem", zero);
    resting["urgency"] = json!(0);
    resting["others"] = json!([{"cause": "urgency", "text": "its urgency is 0, so it does not run", "name": null, "at": null}]);
    resting["helps"] = json!([{"code": "urgency", "text": "flux job urgency f30 16 allows it to run"}]);
    let mut urgent = make_pending_job(
        24,
        5001,
        "chem",
        json!({"priority": 4_294_967_295u64, "outcome": "expedited", "sum": null, "rounded": null, "urgency": 31, "terms": []}),
    );
    urgent["duration"] = Value::Null;
    let mut bounded = make_held_job(25, 5001, EVIL);
    bounded["holds"]
        .as_array_mut()
        .expect("holds")
        .push(json!({"limit": "max-run-jobs-queue", "text": "0 of 0 jobs; this job needs 1"}));
    bounded["latest"] = Value::Null;
    bounded["latest_reason"] =
        json!({"code": "never", "text": "It is larger than the limit: it will never run as it is."});
    bounded["others"] = json!([]);
    let mut gpus = make_held_job(32, 5001, "chem");
    let hold = &mut gpus["holds"][0];
    (hold["limit"], hold["measure"]) = (json!("max-run-gpus-bank"), json!("gpus"));
    hold["text"] = json!("1 of 1 running gpus of bank chem; this job needs 1");
    let mut in_sched = make_held_job(26, 5001, "chem");
    (in_sched["state"], in_sched["carries"], in_sched["others"]) = (json!("sched"), json!([]), json!([]));
    let mut virtual_queue = make_pending_job(27, 5001, "chem", make_priority(&terms));
    virtual_queue["parent_queue"] = json!("batch");
    let mut running = make_pending_job(29, 5001, "chem", Value::Null);
    (running["state"], running["others"], running["helps"]) = (json!("run"), json!([]), json!([]));
    let started_at_once = make_eventlog(&[
        (0.0, "submit", json!({"userid": 5001, "urgency": 16})),
        (0.2, "depend", Value::Null),
        (0.3, "priority", json!({"priority": 1000})),
        (0.4, "alloc", Value::Null),
    ]);
    let changed = make_eventlog(&[
        (0.0, "submit", json!({"userid": 5001, "urgency": 16})),
        (0.2, "depend", Value::Null),
        (0.3, "priority", json!({"priority": 49_000})),
        (60.0, "priority", json!({"priority": 50_105})),
    ]);
    let none = StartFacts::default;
    let estimate = |time| StartFacts { estimated_start: Some(time), ..none() };
    let free_resources = Some("it needs 2 nodes, and queue debug has 1 of 8 nodes free".to_owned());
    let never_fits = Some("it requests 2 nodes, and queue debug has 1".to_owned());
    for (name, value, start, history) in [
        ("held", make_held_job(21, 5001, "chem"), none(), None),
        ("gpus", gpus, none(), None),
        ("in-sched", in_sched, none(), None),
        ("lagging", lagging, none(), read_history(&changed, NOW)),
        ("score", no, none(), None),
        (
            "resources",
            make_pending_job(31, 5001, "chem", make_priority(&terms)),
            StartFacts { free_resources, ..none() },
            None,
        ),
        ("urgency-0", resting, none(), None),
        ("expedited", urgent, estimate(NOW + 3600.0), None),
        ("never", bounded, none(), None),
        ("virtual-queue", virtual_queue, estimate(NOW - 60.0), None),
        (
            "never-fits",
            make_pending_job(28, 5001, "chem", make_priority(&terms)),
            StartFacts { never_fits, ..none() },
            None,
        ),
        ("running", running.clone(), none(), read_history(&make_eventlog_of_ended_job(), NOW)),
        ("running-at-once", running.clone(), none(), read_history(&started_at_once, NOW)),
        ("running-of-another-user", running, none(), None),
    ] {
        let explained: Explained = serde_json::from_value(make_explain_answer(&[value])).expect("an answer");
        let mut screens = String::new();
        for width in [80, 120] {
            let (screen, words) = (make_screen(width), make_words());
            let teller = TextPrinter::new(&screen, &words);
            teller.explain_job(&explained.jobs[0], &explained, &start, history.as_ref());
            let text = String::from_utf8(teller.out.into_bytes()).expect("text");
            screens.push_str(&format!("===== {width} columns\n{text}"));
            if width == 80 {
                assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
            }
        }
        check(&format!("why-job-{name}"), 120, &screens);
    }
}

/// Returns an eventlog of these events. Times are in seconds after the first event.
fn make_eventlog(events: &[(f64, &str, Value)]) -> String {
    let line = |(at, name, context): &(f64, &str, Value)| {
        json!({"timestamp": NOW - 7200.0 + at, "name": name, "context": context}).to_string() + "\n"
    };
    events.iter().map(line).collect()
}

fn make_eventlog_of_ended_job() -> String {
    let dependency = |name: &str| json!({ "description": name });
    let priority = |priority: u64| json!({ "priority": priority });
    make_eventlog(&[
        (0.0, "submit", json!({"userid": 5001, "urgency": 16, "flags": 0, "version": 1})),
        (0.5, "dependency-add", dependency("max-running-jobs-user-limit")),
        (0.5, "dependency-add", dependency("begin-time=1.5")),
        (0.5, "validate", Value::Null),
        (100.0, "dependency-remove", dependency("max-running-jobs-user-limit")),
        (300.0, "dependency-remove", dependency("begin-time=1.5")),
        (300.0, "dependency-add", dependency("max-running-jobs-user-limit.2")),
        (420.0, "dependency-remove", dependency("max-running-jobs-user-limit.2")),
        (420.0, "depend", Value::Null),
        (421.0, "priority", priority(1000)),
        (451.0, "priority", priority(1010)),
        (481.0, "priority", priority(1020)),
        (500.0, "urgency", json!({"userid": 5002, "urgency": 0})),
        (500.0, "priority", priority(0)),
        (560.0, "urgency", json!({"userid": 5001, "urgency": 20})),
        (560.0, "priority", priority(5000)),
        (600.0, "flux-restart", Value::Null),
        (610.0, "priority", priority(5001)),
        (640.0, "alloc", Value::Null),
        (641.0, "start", Value::Null),
        (700.0, "priority", priority(9)),
        (900.0, "finish", json!({"status": 256})),
        (901.0, "clean", Value::Null),
    ])
}

#[test]
fn a_job_history_contains_wait_causes_holds_and_priorities() {
    let history = read_history(&make_eventlog_of_ended_job(), NOW).expect("a history");
    assert_eq!((history.waited_seconds, history.waits.values().sum::<f64>()), (640.0, 640.0));
    let waits: Vec<(WaitCause, f64)> = history.waits.into_iter().collect();
    assert_eq!(
        waits,
        [
            (WaitCause::Limits, 219.5),
            (WaitCause::Dependencies, 200.0),
            (WaitCause::Validation, 0.5),
            (WaitCause::Priority, 11.0),
            (WaitCause::Urgency, 60.0),
            (WaitCause::Resources, 149.0),
        ]
    );
    let holds: Vec<_> =
        history.holds.iter().map(|hold| (hold.name.as_str(), hold.is_limit, hold.seconds)).collect();
    assert_eq!(
        holds,
        [
            ("max-running-jobs-user-limit", true, Some(99.5)),
            ("begin-time=1.5", false, Some(299.5)),
            ("max-running-jobs-user-limit", true, Some(120.0)),
        ]
    );
    let priorities: Vec<_> =
        history.priorities.iter().map(|one| (one.priority, one.cause.code.as_ref())).collect();
    assert_eq!(
        priorities,
        [
            (1000, "released"),
            (1010, "recomputed"),
            (1020, "recomputed"),
            (0, "urgency"),
            (5000, "urgency"),
            (5001, "restart"),
        ]
    );
    assert_eq!(history.result.as_deref(), Some("failed with exit status 1"));
}

#[test]
fn a_job_that_never_ran_waited_until_its_exception() {
    let log = make_eventlog(&[
        (0.0, "submit", json!({"userid": 5001, "urgency": 16})),
        (1.0, "dependency-add", json!({"description": "max-run-jobs-queue"})),
        (61.0, "exception", json!({"type": "cancel", "severity": 0, "note": ""})),
        (62.0, "clean", Value::Null),
    ]);
    let history = read_history(&log, NOW).expect("a history");
    assert_eq!((history.allocated, history.waited_seconds), (None, 61.0));
    assert_eq!(history.waits.get(&WaitCause::Limits), Some(&60.0));
    assert_eq!(history.holds[0].seconds, Some(60.0));
    assert_eq!(history.result.as_deref(), Some("canceled"));
    let without_exception = log.lines().take(2).map(|line| format!("{line}\n")).collect::<String>();
    let pending = read_history(&without_exception, NOW).expect("a history");
    let until_now = (pending.waited_seconds, pending.waits.get(&WaitCause::Limits).copied());
    assert_eq!(until_now, (7200.0, Some(7199.0)), "a pending job has waited until now");
    assert_eq!(pending.holds[0].until, None);
    assert_eq!(read_history("", NOW), None);
    assert_eq!(read_history("{\"timestamp\": 1.0, \"name\": \"clean\"}\n", NOW), None);
}

#[test]
fn why_takes_the_cause_of_a_priority_from_the_preceding_memo_event() {
    let memo = |fairshare: f64| json!({ "fairshare": fairshare });
    let priority = |priority: u64| json!({ "priority": priority });
    let log = make_eventlog(&[
        (0.0, "submit", json!({"userid": 5001, "urgency": 16})),
        (1.0, "depend", Value::Null),
        (1.0, "memo", memo(0.5)),
        (1.0, "priority", priority(50)),
        (60.0, "memo", json!({"uri": "local:///run"})),
        (60.0, "priority", priority(49)),
        (90.0, "memo", memo(0.25)),
        (90.0, "priority", priority(25)),
        (95.0, "urgency", json!({"userid": 5001, "urgency": 20})),
        (95.0, "memo", memo(0.125)),
        (95.0, "priority", priority(4012)),
    ]);
    let causes = read_history(&log, NOW).expect("a history").priorities.into_iter().map(|one| one.cause);
    let causes: Vec<(String, String)> = causes.map(|cause| (cause.code.to_string(), cause.text)).collect();
    let expected = [
        ("submitted", "the first after the submission"),
        ("recomputed", "recomputed; the eventlog does not say why"),
        ("fairshare", "its fair-share changed from 0.500000 to 0.250000"),
        ("urgency", "user 5001 changed the urgency from 16 to 20"),
    ];
    assert_eq!(causes, expected.map(|(code, text)| (code.to_owned(), text.to_owned())));
}

#[test]
fn screens_of_an_ended_job_and_another_job_equal_the_golden_files() {
    let history = || read_history(&make_eventlog_of_ended_job(), NOW);
    let (mut ended, mut runs) =
        (make_pending_job(29, 5001, EVIL, Value::Null), make_pending_job(31, 5002, "chem", Value::Null));
    (ended["state"], runs["state"]) = (json!("inactive"), json!("run"));
    let waits = make_pending_job(30, 5002, "chem", make_priority(&[("fairshare", 0.421_053, 100_000)]));
    let past = |value: &Value, history| RequestedJob { job: read_job(value.clone()), history };
    let never = read_history(
        &make_eventlog(&[
            (0.0, "submit", json!({"userid": 5001, "urgency": 16})),
            (61.0, "exception", json!({"type": "cancel", "severity": 0, "note": ""})),
            (62.0, "clean", Value::Null),
        ]),
        NOW,
    );
    let mut screens = String::new();
    for (title, jobs) in [
        ("one has ended, one waits", [past(&ended, history()), past(&waits, None)]),
        ("one runs, one ended without a priority", [past(&runs, history()), past(&ended, never)]),
        ("the eventlog of the running job is not readable", [past(&runs, None), past(&ended, history())]),
        ("both have ended", [past(&ended, history()), past(&ended, history())]),
    ] {
        let (screen, words) = (make_screen(80), make_words());
        let teller = TextPrinter::new(&screen, &words);
        teller.explain_without_order(&jobs);
        screens.push_str(&format!(
            "===== {title}\n{}",
            String::from_utf8(teller.out.into_bytes()).expect("text")
        ));
    }
    check("why-jobs-ended", 80, &screens);
}

#[test]
fn the_listed_job_of_another_user_has_a_priority_only() {
    let compare = |id: u64, listed: Value, posted: Value| {
        let mut job = json!({"id": id, "userid": 5002, "bank": "phys", "queue": "debug", "urgency": 16, "priority": 42_105, "state": 8});
        job.as_object_mut().expect("a job").extend(listed.as_object().expect("an object").clone());
        let listed: ListedJob = serde_json::from_value(job).expect("a listed job");
        let (screen, words) = (make_screen(80), make_words());
        TextPrinter::new(&screen, &words)
            .compare_with_listed_job(&read_job(make_pending_job(21, 5001, "chem", posted)), &listed)
    };
    let mine = || {
        make_priority(&[
            ("fairshare", 0.421_05, 100_000),
            ("queue", 0.0, 10),
            ("urgency", 0.0, 1),
            ("age", 0.5, 0),
        ])
    };
    let fairshare = " At the present weights, the two jobs can differ only in fair-share.";
    let three = " At the present weights, the two jobs can differ only in fair-share, queue and urgency.";
    for (id, listed, posted, expected, terms) in [
        (
            22,
            json!({}),
            mine(),
            "has priority 42,105, your job has priority 42,105, so your job is ahead in the order of priority and job id",
            fairshare,
        ),
        (
            20,
            json!({}),
            mine(),
            "has priority 42,105, your job has priority 42,105, so ƒ20 is ahead in the order of priority and job id",
            fairshare,
        ),
        (
            22,
            json!({"queue": "batch", "urgency": 20}),
            mine(),
            "has priority 42,105, your job has priority 42,105, so your job is ahead in the order of priority and job id",
            three,
        ),
        (
            22,
            json!({"state": 16}),
            mine(),
            "has priority 42,105, your job has priority 42,105; ƒ22 has started",
            fairshare,
        ),
        (22, json!({"priority": null}), mine(), "has no priority yet, your job has priority 42,105", ""),
        (22, json!({}), Value::Null, "has priority 42,105, your job has no priority yet", ""),
    ] {
        let rest = format!("Only ben, the instance owner and admins see the priority terms of ƒ{id}.");
        let expected = format!("Job ƒ{id} of ben in bank phys {expected}.{terms} {rest}");
        assert_eq!(compare(id, listed, posted), expected);
    }
}

#[test]
fn screens_of_an_ended_job_equal_the_golden_files() {
    let history = read_history(&make_eventlog_of_ended_job(), NOW).expect("a history");
    let mut ended = make_pending_job(29, 5001, EVIL, Value::Null);
    ended["state"] = json!("inactive");
    let mut screens = String::new();
    for width in [80, 120] {
        let (screen, words) = (make_screen(width), make_words());
        let teller = TextPrinter::new(&screen, &words);
        teller.explain_ended_job(&read_job(ended.clone()), &history);
        let text = String::from_utf8(teller.out.into_bytes()).expect("text");
        screens.push_str(&format!("===== {width} columns\n{text}"));
    }
    check("why-job-ended", 120, &screens);
}

fn make_answers_for_ann_and_ben() -> [AssociationStanding; 2] {
    let mut answer: Standings = serde_json::from_value(make_standing_reply()).expect("a standing");
    let ann = answer.associations.remove(0);
    let mut ben = ann.clone();
    let of = &mut ben;
    (of.userid, of.bank) = (UserId(5002), BankName::from("phys"));
    of.levels[1].node.name = "phys".to_owned();
    (of.levels[1].node.value, of.levels[1].node.shares_part, of.levels[1].node.usage_part) =
        (Some(2.5), Some(0.75), Some(0.3));
    (of.levels[2].node.name, of.levels[2].node.value) = ("ben".to_owned(), Some(0.1));
    if let Some(rank) = &mut of.rank {
        (rank.place, rank.before) = (3, 2);
    }
    [ann, ben]
}

#[test]
fn screens_of_two_jobs_equal_the_golden_files() {
    let chem = |fairshare: f64, queue: f64, urgency: f64| {
        make_priority(&[
            ("fairshare", fairshare, 100_000),
            ("queue", queue, 10_000),
            ("urgency", urgency, 1000),
            ("size", 0.5, 0),
        ])
    };
    let a = make_pending_job(21, 5001, "chem", chem(0.4, 1.0, 0.0));
    let stopped = |id: u64| {
        let mut job = make_pending_job(id, 5002, "phys", chem(0.5 + id as f64 / 100.0, 0.0, 0.0));
        job["others"] = json!([{"cause": "queue-stopped", "text": "queue debug is stopped: for repair", "name": null, "at": null}]);
        job
    };
    let started = |id: u64| {
        let mut job = make_pending_job(id, 5002, "phys", Value::Null);
        job["state"] = json!("run");
        job
    };
    let mut depends = make_pending_job(28, 5001, "chem", Value::Null);
    depends["others"] = json!([{"cause": "dependency", "text": "job 17 has to end successfully first (dependency afterok); job 17 is running", "name": "after-success=17", "at": null}]);
    let rows = [
        ("fairshare", make_pending_job(22, 5002, "phys", chem(0.9, 0.0, 0.0))),
        ("together", make_pending_job(23, 5002, "phys", chem(0.3, 0.0, -5.0))),
        ("held", make_held_job(24, 5002, EVIL)),
        ("equal", make_pending_job(25, 5001, "chem", chem(0.4, 1.0, 0.0))),
        ("stopped", stopped(26)),
        ("both-stopped", stopped(26)),
        ("neither", make_held_job(27, 5002, EVIL)),
        ("both-run", started(29)),
        ("unpriced", make_pending_job(30, 5002, "phys", Value::Null)),
    ];
    for (name, b) in rows {
        let a = match name {
            "both-stopped" => stopped(21),
            "neither" => depends.clone(),
            "both-run" => started(21),
            "unpriced" => make_pending_job(21, 5001, "chem", Value::Null),
            _ => a.clone(),
        };
        let explained: Explained = serde_json::from_value(make_explain_answer(&[a, b])).expect("an answer");
        let standings = make_answers_for_ann_and_ben();
        let (screen, words) = (make_screen(80), make_words());
        let verdict = decide(&explained.jobs[0], &explained.jobs[1]);
        let teller = TextPrinter::new(&screen, &words);
        teller.compare_jobs(&explained.jobs[0], &explained.jobs[1], &verdict, Some(&standings));
        check(&format!("why-jobs-{name}"), 80, &String::from_utf8(teller.out.into_bytes()).expect("text"));
    }
}

#[test]
fn why_names_the_cause_that_decides_between_two_jobs() {
    let terms = |fairshare: f64, queue: f64| {
        make_priority(&[("fairshare", fairshare, 100_000), ("queue", queue, 10_000)])
    };
    let plain = |id, price| read_job(make_pending_job(id, 5001, "chem", price));
    let verdict = |a: &Why, b: &Why| {
        let (one, other) = (decide(a, b), decide(b, a));
        assert_ne!(one.side, other.side, "whoever is named first");
        assert_eq!(one.cause, other.cause);
        (one.side, one.cause)
    };
    let a = plain(1, terms(0.4, 1.0));
    assert_eq!(verdict(&a, &plain(2, terms(0.9, 1.0))), (Side::Second, Cause::Terms(vec![0])));
    assert_eq!(verdict(&a, &plain(2, terms(0.45, 0.0))), (Side::First, Cause::Terms(vec![1])));
    assert_eq!(verdict(&a, &plain(2, terms(0.4, 1.0))), (Side::First, Cause::Id));
    assert_eq!(verdict(&a, &plain(2, terms(0.0, 0.0))), (Side::First, Cause::Score(vec![0])));
    assert_eq!(verdict(&a, &read_job(make_held_job(2, 5001, "chem"))), (Side::First, Cause::Held));
    let mut running = make_held_job(2, 5001, "chem");
    running["state"] = json!("run");
    running["holds"] = json!([]);
    assert_eq!(verdict(&a, &read_job(running)), (Side::Second, Cause::Runs));
    let urgent = |priority: u64, outcome: &str| json!({"priority": priority, "outcome": outcome, "sum": null, "rounded": null, "urgency": 31, "terms": []});
    assert_eq!(verdict(&a, &plain(2, urgent(4_294_967_295, "expedited"))), (Side::Second, Cause::Urgency));
    assert_eq!(verdict(&a, &plain(2, urgent(0, "held-by-urgency"))), (Side::First, Cause::Urgency));
    let kept = |id: u64, cause: &str, posted: Value| {
        let mut job = make_pending_job(id, 5001, "chem", posted);
        job["others"] =
            json!([{"cause": cause, "text": format!("because of {cause}"), "name": null, "at": null}]);
        job
    };
    // A job that cannot run is behind a job that can run, whatever the priorities are.
    for cause in ["queue-stopped", "urgency", "dependency", "begin-time", "association"] {
        let higher = read_job(kept(2, cause, terms(0.9, 1.0)));
        assert_eq!(verdict(&a, &higher), (Side::First, Cause::Held), "{cause}");
        assert_eq!(list_obstacles(&higher), [(cause, format!("because of {cause}"))]);
        assert_eq!(
            decide(&read_job(make_held_job(3, 5001, "chem")), &higher).cause,
            Cause::Neither,
            "{cause}"
        );
    }
    for cause in ["resources", "queue-disabled"] {
        let higher = read_job(kept(2, cause, terms(0.9, 1.0)));
        assert_eq!(verdict(&a, &higher), (Side::Second, Cause::Terms(vec![0])), "{cause}");
        assert_eq!(list_obstacles(&higher), []);
    }
    // If the queues of both jobs are stopped, their priorities decide.
    let stopped =
        [(1, 0.4), (2, 0.9)].map(|(id, value)| read_job(kept(id, "queue-stopped", terms(value, 1.0))));
    assert_eq!(verdict(&stopped[0], &stopped[1]), (Side::Second, Cause::Terms(vec![0])));
    assert_eq!(
        decide(&read_job(make_held_job(2, 5001, "chem")), &read_job(make_held_job(3, 5001, "chem"))).cause,
        Cause::Neither
    );
    // The three terms have equal effects. Swapping the values of one term does not reverse the order of the jobs. Swapping the
    // values of two terms reverses it.
    let three = |value: f64| make_priority(&[("a", value, 10), ("b", value, 10), ("c", value, 10)]);
    assert_eq!(
        verdict(&plain(1, three(2.0)), &plain(2, three(1.0))),
        (Side::First, Cause::Terms(vec![0, 1]))
    );
    // The values are equal, but the weights differ.
    let other = make_priority(&[("fairshare", 0.4, 200_000), ("queue", 1.0, 10_000)]);
    let other = plain(2, other);
    assert_eq!(verdict(&a, &other), (Side::Second, Cause::Weights));
    // If the job's priority is below the maximum of its queue, the maximum has no effect.
    let mut below = a.clone();
    below.queue_rules.max_priority = Some(4_000_000);
    assert_eq!(verdict(&below, &other), (Side::Second, Cause::Weights));
    // Both jobs get the highest possible priority. Their priorities are equal, so the job with the smaller id is ahead.
    let mut most = [terms(60_000.0, 0.0), terms(70_000.0, 0.0)];
    for price in &mut most {
        (price["priority"], price["outcome"]) = (json!(4_294_967_294u64), json!("lowered"));
    }
    let [one, other] = most;
    assert_eq!(verdict(&plain(1, one), &plain(2, other)), (Side::First, Cause::Id));
    // The queue limits the priority of the second job to 10. Because of this limit, swapping terms can't put that job ahead.
    let mut lowered = plain(2, {
        let mut price = terms(0.9, 1.0);
        (price["priority"], price["outcome"]) = (json!(10), json!("lowered-in-queue"));
        price
    });
    lowered.queue_rules.max_priority = Some(10);
    assert_eq!(verdict(&a, &lowered), (Side::First, Cause::MaxPriority));
}

#[test]
fn why_does_not_count_the_age_of_a_job_whose_score_is_0() {
    // If the jobs swap their fair-shares, the fair-share term of the first job is below 0. The first job then has priority 0,
    // whatever its age is.
    let terms = |fairshare: f64, age: f64| make_priority(&[("fairshare", fairshare, 10), ("age", age, 100)]);
    let [a, b] = [(1, terms(0.4, 1.0)), (2, terms(-0.5, 0.5))]
        .map(|(id, price)| read_job(make_pending_job(id, 5001, "chem", price)));
    let [one, other] = [&a, &b].map(|job| job.posted.as_ref().expect("a priority"));
    assert_eq!(swap_terms([one, other], [None; 2], &[0]), [0, 54]);
}

proptest::proptest! {
    /// If two jobs swap the values of factors, `why` computes the same priorities as the plugin.
    #[test]
    fn why_computes_priorities_by_the_formula_of_the_plugin(
        values in proptest::collection::vec((-3.0..3.0, -3.0..3.0), FACTORS.len()),
        weights in proptest::collection::vec(0i64..100_000, FACTORS.len()),
        places in proptest::sample::subsequence((0..FACTORS.len()).collect::<Vec<_>>(), 0..=FACTORS.len()),
        is_raised in proptest::bool::ANY,
        most in proptest::array::uniform2(proptest::option::of(1u32..100_000)),
    ) {
        let mut jobs = [[0.0; MAX_FACTORS]; 2];
        for (at, (one, other)) in values.into_iter().enumerate() {
            (jobs[0][at], jobs[1][at]) = (one, other);
        }
        let named: Vec<(&str, i64)> = FACTORS.iter().map(|factor| factor.name).zip(weights).collect();
        let [one, other] = jobs.map(|values| {
            let terms: Vec<_> = named.iter().zip(values).map(|((name, weight), value)| (*name, value, *weight)).collect();
            let mut price = make_priority(&terms);
            if is_raised {
                price["outcome"] = json!("raised");
            }
            read_job(make_pending_job(1, 5001, "x", price)).posted.expect("a priority")
        });
        for at in &places {
            (jobs[0][*at], jobs[1][*at]) = (jobs[1][*at], jobs[0][*at]);
        }
        let weighed = WeightedFactors::new(Factors::default(), &BTreeMap::new(), &named);
        let zero = if is_raised { ZeroScore::Floor } else { ZeroScore::Hold };
        let posted = [0, 1].map(|at| {
            let bounds = PriorityBounds { zero, max: most[at].unwrap_or(PRIORITY_LIMIT) };
            weighed.explain_values(16, jobs[at], bounds).priority
        });
        proptest::prop_assert_eq!(swap_terms([&one, &other], most, &places), posted);
    }

    /// If the jobs swap the values of the named terms, their order must be reversed. Swapping fewer of these terms
    /// must not reverse the order. The test computes with integers to avoid rounding.
    #[test]
    fn swapping_the_terms_that_why_names_reverses_the_job_order(
        ours in proptest::collection::vec((-50i64..50, 0i64..20), 1..7),
        theirs in proptest::collection::vec(-50i64..50, 7),
    ) {
        let names = ["t0", "t1", "t2", "t3", "t4", "t5", "t6"];
        let terms = |values: &[i64]| {
            let terms: Vec<_> = values.iter().zip(&ours).zip(names).map(|((value, (_, weight)), name)| (name, *value as f64, *weight)).collect();
            make_priority(&terms)
        };
        let mine: Vec<i64> = ours.iter().map(|(value, _)| *value).collect();
        let theirs = &theirs[..mine.len()];
        let order = |mine: &[i64], theirs: &[i64]| {
            let sum = |values: &[i64]| values.iter().zip(&ours).map(|(value, (_, weight))| value * weight).sum::<i64>().max(0);
            sum(mine) >= sum(theirs)
        };
        let (a, b) = (read_job(make_pending_job(1, 5001, "x", terms(&mine))), read_job(make_pending_job(2, 5002, "y", terms(theirs))));
        let verdict = decide(&a, &b);
        let before = order(&mine, theirs);
        proptest::prop_assert_eq!(before, verdict.side == Side::First);
        let equal = a.posted.as_ref().map(|price| price.made.priority) == b.posted.as_ref().map(|price| price.made.priority);
        match verdict.cause {
            Cause::Id => proptest::prop_assert!(equal),
            Cause::Terms(places) | Cause::Score(places) => {
                let after = |places: &[usize]| {
                    let (mut mine, mut theirs) = (mine.clone(), theirs.to_vec());
                    places.iter().for_each(|at| std::mem::swap(&mut mine[*at], &mut theirs[*at]));
                    order(&mine, &theirs)
                };
                proptest::prop_assert_ne!(before, after(&places));
                proptest::prop_assert_eq!(before, after(&places[..places.len() - 1]));
            }
            other => proptest::prop_assert!(false, "{:?}", other),
        }
    }
}

/// Other plugins may use any name for their dependencies, so only names of our limits count as holds.
#[test]
fn why_counts_only_dependencies_named_after_limits_as_holds() {
    let add = |name: &str| {
        let event = json!({"timestamp": 2.0, "name": "dependency-add", "context": {"description": name}});
        format!("{event}\n")
    };
    let submit = json!({"timestamp": 1.0, "name": "submit", "context": {"userid": 5001, "urgency": 16}});
    let names = [
        "max-licenses",
        "max-running-jobs-user-limit",
        "max-running-jobs-user-limit.2",
        "max-running-jobs-user-limit.x",
    ];
    let history = read_history(&(format!("{submit}\n") + &names.map(add).concat()), NOW).expect("a history");
    let holds: Vec<(&str, bool)> =
        history.holds.iter().map(|hold| (hold.name.as_str(), hold.is_limit)).collect();
    let limit = ("max-running-jobs-user-limit", true);
    assert_eq!(holds, [(names[0], false), limit, limit, (names[3], false)]);
}

#[test]
fn the_time_limit_of_a_job_is_not_rounded() {
    let (screen, words) = (make_screen(200), make_words());
    let teller = TextPrinter::new(&screen, &words);
    for (seconds, text) in [(8400.0, ", at most 2h 20m, "), (216_000.0, ", at most 60h, ")] {
        let mut job = make_pending_job(22, 5003, "chem", make_priority(&[]));
        job["duration"] = json!(seconds);
        let properties = teller.describe_job_properties(&read_job(job));
        assert!(properties.contains(text), "{properties}");
    }
}
