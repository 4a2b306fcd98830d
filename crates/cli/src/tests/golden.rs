// SPDX-License-Identifier: LGPL-3.0-only
//! Answers of the plugin for tests, and the comparison of screens with the golden files in `t/golden/screens/`.

use std::fs;
use std::path::Path;

use jiff::tz::TimeZone;
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use crate::ui::screen::Screen;
use crate::ui::words::Words;

/// The current time in the test answers of the plugin, in seconds since the epoch.
pub(crate) const NOW: f64 = 1_763_776_000.0;

/// A bank's name with characters that control a terminal.
pub(crate) const EVIL: &str = "ev\u{1b}[31mil\nbank\u{202e}";

/// Returns a formatter for users, job ids and times. Its results do not depend on the machine.
pub(crate) fn make_words() -> Words<'static> {
    let user = |user| match user {
        5001 => Some("ann".to_owned()),
        5002 => Some("ben".to_owned()),
        5003 => Some("cy\u{1b}[2Jd".to_owned()),
        _ => None,
    };
    Words::new(|id| format!("ƒ{id}"), user, TimeZone::UTC, NOW)
}

/// Returns a screen that is `width` cells wide.
pub(crate) fn make_screen(width: usize) -> Screen {
    Screen { width: Some(width), rows: None, colour: false, unicode: true, terminal: false, pager: false }
}

/// Compares a text with the golden file `name`, which `UPDATE_GOLDEN=1` rewrites. Also checks that the text has no control
/// characters, and no line wider than `width`.
#[track_caller]
pub(crate) fn check(name: &str, width: usize, text: &str) {
    for line in text.lines() {
        assert!(line.width() <= width, "{name}: wider than {width}: {line:?}");
        assert!(
            !line.contains(|letter: char| letter.is_control() || letter == '\u{202e}'),
            "{name}: {line:?}"
        );
    }
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .join("t/golden/screens")
        .join(format!("{name}.txt"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, text).expect("written");
    }
    let wanted = fs::read_to_string(&path).unwrap_or_default();
    assert!(wanted == text, "{name}: UPDATE_GOLDEN=1 rewrites it; is now\n{text}");
}

/// Returns an answer to `explain` about these jobs.
pub(crate) fn make_explain_answer(jobs: &[Value]) -> Value {
    json!({"now": NOW, "generation": 3, "live": true, "live_generation": 12, "policy": "fair-tree", "refused": [], "jobs": jobs})
}

/// Returns a priority with these terms. Each term is a name, a value and a weight.
pub(crate) fn make_priority(terms: &[(&str, f64, i64)]) -> Value {
    let shown: Vec<Value> = terms
        .iter()
        .map(|(name, value, weight)| {
            json!({"name": name, "value": value, "weight": weight, "product": value * *weight as f64})
        })
        .collect();
    let sum: f64 = terms.iter().map(|(_, value, weight)| value * *weight as f64).sum();
    json!({
        "priority": sum.round().max(0.0) as u64,
        "outcome": if sum.round() > 0.0 { "taken" } else { "held-by-score" },
        "sum": sum,
        "rounded": sum.round(),
        "urgency": 16,
        "terms": shown,
        "when": NOW - 125.0,
        "generation": 12,
        "reason": {"code": "refresh", "text": "live fair-share was refreshed"},
    })
}

/// Returns a job that waits for the scheduler.
pub(crate) fn make_pending_job(id: u64, user: u32, bank: &str, posted: Value) -> Value {
    json!({
        "id": id, "userid": user, "bank": bank, "queue": "debug", "project": "*", "urgency": 16, "state": "sched",
        "submitted": NOW - 600.0, "nodes": 2, "cores": 8, "duration": 3600.0, "fairshare": 0.5, "posted": posted,
        "exact": posted, "lag": null, "turn": null, "held": false, "carries": [], "holds": [], "latest": null,
        "latest_reason": {"code": "free", "text": "no limit holds it"}, "if_started": null, "line": null,
        "others": [{"cause": "resources", "text": "it is waiting for resources", "name": null, "at": null}],
        "helps": [{"code": "wait", "text": "wait: 3 jobs have a larger priority"}],
        "place": posted["priority"].as_u64().is_some_and(|priority| priority > 0).then(|| json!({"place": 3, "of": 7})),
    })
}

/// Returns a pending job that a limit holds.
pub(crate) fn make_held_job(id: u64, user: u32, bank: &str) -> Value {
    let mut job = make_pending_job(id, user, bank, Value::Null);
    let more = json!({
        "state": "depend", "held": true, "carries": ["max-run-jobs-queue"],
        "holds": [{
            "limit": "max-running-jobs-user-limit", "measure": "jobs", "stage": "running", "scope": "association",
            "queue": null, "used": 1, "limit_is": 1, "needed": 1,
            "text": format!("1 of 1 running jobs of user {user} in bank {bank}; this job needs 1"),
            "frees": [
                {"id": 17, "state": "run", "amount": 1, "by": NOW + 590.0},
                {"id": 18, "state": "sched", "amount": 1, "by": null},
            ],
            "frees_total": 7, "latest": NOW + 590.0,
        }],
        "latest": NOW + 590.0, "latest_reason": {"code": "bounded", "text": "known"}, "if_started": NOW + 3600.0,
        "line": {"place": 1, "of": 3},
        "others": [{"cause": "begin-time", "text": "its begin time has not come", "name": "begin-time=1", "at": NOW + 90_000.0}],
        "others_total": 1235,
        "helps": [{"code": "wait", "text": "the end of job 17 makes room"}, {"code": "ask", "text": "ask for another limit"}],
    });
    if let (Some(job), Value::Object(more)) = (job.as_object_mut(), more) {
        job.extend(more);
    }
    job
}

/// Returns a page of the answer to `jobs`.
pub(crate) fn make_jobs_page() -> Value {
    let row = |id: u64, user: u32, bank: &str, queue: Value, values: &[f64], holds: &[&str]| {
        let weights = [100_000.0, 10_000.0, 0.0, 1000.0, 250.5, 0.0];
        let sum: f64 = values.iter().zip(weights).map(|(value, weight)| value * weight).sum();
        let is_priced = !values.is_empty();
        json!({
            "id": id, "userid": user, "bank": bank, "queue": queue, "state": if is_priced { "sched" } else { "depend" },
            "urgency": 16, "nodes": id % 7, "cores": id, "submitted": NOW - 60.0 * id as f64,
            "priority": is_priced.then_some(sum.round()).map(|sum| sum as u64),
            "exact": is_priced.then_some(sum.round()).map(|sum| sum as u64 + id % 2),
            "outcome": is_priced.then_some("taken"), "weighing": is_priced.then_some(0), "values": values,
            "sum": is_priced.then_some(sum), "when": is_priced.then_some(NOW - 5.0), "holds": holds, "kept": id == 25,
        })
    };
    let mut page = json!({
        "now": NOW, "generation": 3, "live": true,
        "terms": ["fairshare", "queue", "bank", "urgency", "age", "size"],
        "weights": [100_000, 10_000, 0, 1000, 250, 0], "weighings": [[100_000, 10_000, 0, 1000, 250, 0]],
        "jobs": [
            row(21, 5001, "chem", json!("debug"), &[0.421_053, 1.0, 0.0, 0.0, 0.0, 0.25], &[]),
            row(22, 5002, "phys", Value::Null, &[0.9, 0.0, 0.0, -5.0, 0.5, 0.25], &[]),
            row(23, 5001, "chem", json!("debug"), &[], &["max-running-jobs-user-limit"]),
            row(24, 5003, EVIL, json!("a\tb"), &[0.1, 0.0, 0.0, 0.0, 1.0, 0.25], &[]),
            row(25, 5001, "chem", json!("debug"), &[], &["max-nodes-user-limit", "max-run-jobs-queue"]),
        ],
        "next": null,
    });
    for (job, (place, of)) in [(0, (1, 2)), (1, (1, 3)), (3, (2, 2))] {
        page["jobs"][job]["place"] = json!({"place": place, "of": of});
    }
    page
}

/// Returns an answer to `standing` for the user ann in the bank chem.
pub(crate) fn make_standing_reply() -> Value {
    let level = |name: &str,
                 kind: &str,
                 shares: u64,
                 part: f64,
                 used: f64,
                 value: Option<f64>,
                 even: Option<f64>| {
        json!({
            "name": name, "kind": kind, "shares": shares, "shares_part": part, "usage": used * 7200.0, "usage_part": used,
            "value": value, "worst": name == "chem", "even_usage": null, "even_at": even, "siblings": [], "siblings_total": 0,
        })
    };
    let mut chem = level("chem", "bank", 1, 0.25, 0.7, Some(0.357), Some(NOW + 9.5 * 86_400.0));
    let beside = level("phys", "bank", 3, 0.75, 0.3, Some(2.5), None);
    let evil = json!({"name": EVIL, "kind": "bank", "shares": 0, "shares_part": 0.0, "usage": 0.0, "usage_part": 0.0, "value": null, "infinite": true});
    chem["siblings"] = json!([evil, beside]);
    chem["siblings_total"] = json!(3);
    let limit = |name: &str, queue: Value, measure: &str, used: u64, reserved: u64, most: Value| {
        json!({"limit": name, "scope": "association", "queue": queue, "measure": measure, "stage": "running", "used": used,
            "reserved": reserved, "limit_is": most})
    };
    let shared = |scope: &str, of: &str, queue: Value, limit: &str, used: u64, most: u64| {
        json!({"limit": limit, "scope": scope, "name": of, "queue": queue, "measure": "gpus", "stage": "both", "used": used,
            "reserved": 0, "limit_is": most})
    };
    json!({
        "now": NOW, "generation": 3, "live": true, "live_generation": 12, "policy": "fair-tree", "options": {}, "public": "banks",
        "half_life": 604_800.0, "in_node_seconds": true, "refreshed": NOW - 30.0, "next": null,
        "associations": [{
            "userid": 5001, "bank": "chem", "default": true, "active": true, "removed": false, "fairshare": 0.421_053,
            "usage": 5040.0, "queues": ["debug", "a\u{1b}b"], "projects": ["*", "p1", "p2"], "default_project": "p1",
            "jobs": {"active": 6, "max_active": 10, "held": 2, "pending": 1, "running": 3, "nodes": 4, "cores": 16},
            "limits": [
                limit("max-active-jobs", Value::Null, "jobs", 6, 0, json!(10)),
                limit("max-running-jobs-user-limit", Value::Null, "jobs", 3, 1, json!(4)),
                limit("max-resources-user-limit", Value::Null, "nodes", 4, 0, json!(400)),
                limit("max-run-jobs-queue", json!("debug"), "jobs", 0, 0, json!(0)),
                limit("max-sched-jobs", Value::Null, "jobs", 0, 0, Value::Null),
                shared("bank", "chem", json!("debug"), "max-run-sched-gpus-bank-queue", 3, 8),
                shared("bank", "root", Value::Null, "max-run-sched-gpus-bank", 95, 96),
                shared("user", "5001", Value::Null, "max-run-sched-gpus-user", 16, 16),
            ],
            "rank": {"place": 11, "of": 18, "before": 10, "tied": 1},
            "levels": [
                level("root", "bank", 1, 1.0, 1.0, None, None),
                chem,
                level("ann", "user", 2, 0.5, 0.2, Some(2.5), None),
            ],
        }],
    })
}

/// Returns an answer to `standing` with bank science, a sibling of ops, above bank chem.
pub(crate) fn make_standing_reply_with_nested_banks() -> Value {
    let mut answer = make_standing_reply();
    let levels = answer["associations"][0]["levels"].as_array_mut().expect("levels");
    let named = |name: &str, siblings: Value| {
        let mut bank = levels[0].clone();
        (bank["name"], bank["siblings"]) = (name.into(), siblings);
        bank
    };
    levels.insert(1, named("science", json!([named("ops", json!([]))])));
    answer
}

/// Returns an answer to `stats`.
pub(crate) fn make_stats_answer() -> Value {
    let load = |bank: &str, queue: &str, jobs: u64, nodes: u64| json!({"bank": bank, "queue": queue, "jobs": jobs, "nodes": nodes, "cores": nodes * 4});
    let bank = |name: &str,
                parent: Value,
                part: f64,
                promised: f64,
                used: f64,
                delivered: f64,
                associations: u64| {
        json!({"bank": name, "parent": parent, "shares": 1, "shares_part": part, "promised": promised, "usage": delivered * 7200.0,
            "usage_part": used, "delivered": delivered, "fairshare": promised / used.max(0.01), "associations": associations})
    };
    json!({
        "now": NOW, "version": "0.1.0", "generation": 3, "live": true, "live_generation": 12, "policy": "fair-tree",
        "updated": NOW - 90.0, "associations": 18, "queues": 2,
        "jobs": {"live": 43, "pending": 12, "held": 5, "running": 22, "waiting": 1, "blocked": 2, "ending": 1},
        "held_by_limit": {"max-running-jobs-user-limit": 4, "max-nodes-user-limit": 2},
        "pending": [load("chem", "debug", 9, 18), load("phys", "debug", 2, 2), load(EVIL, "a\tb", 1, 1)],
        "held": [load("chem", "debug", 5, 10)],
        "running": [load("chem", "debug", 2, 30), load("phys", "debug", 20, 10)],
        "banks": [
            bank("root", Value::Null, 1.0, 1.0, 1.0, 1.0, 0),
            bank("chem", json!("root"), 0.25, 0.25, 0.7, 0.7, 3),
            bank("phys", json!("root"), 0.75, 0.75, 0.3, 0.3, 4),
            bank(EVIL, json!("phys"), 1.0, 0.75, 1.0, 0.3, 4),
        ],
        "refresh": {"total": 100, "seconds_total": 0.75, "touched_total": 4321, "under_way": false, "lagging": 2,
            "last": {"when": NOW - 30.0, "seconds": 0.0072, "worked_out": 9, "ranked": true, "changed": 11, "touched": 6, "lagging": 2, "right_to": 5}},
        "push": {"total": 3, "seconds_total": 0.5, "last": {"when": NOW - 90.0, "seconds": 0.0031}},
        "requests": {"explain": {"total": 5, "deferred": 1, "refused": 0}, "jobs": {"total": 7, "deferred": 0, "refused": 2}},
        "waiting_requests": 0, "drift": 0,
    })
}
