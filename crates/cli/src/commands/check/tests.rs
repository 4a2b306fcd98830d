// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of the output about jobs that are not submitted yet.

use super::text::{FluxAnswer, describe, explain_queue_refusal};
use crate::plugin::scheduling::QueueState;
use crate::tests::golden::{NOW, check, make_held_job, make_priority, make_screen, make_words};
use crate::ui::teller::TextPrinter;
use fairshare_engine::engine::answers::CheckedJob;
use serde_json::{Value, json};

fn make_answer(more: Value) -> CheckedJob {
    let priority = make_priority(&[("fairshare", 0.421, 100_000), ("urgency", 0.0, 1000)]);
    let mut answer = json!({
        "now": NOW, "generation": 3, "live": true, "live_generation": 12, "policy": "fair-tree", "overruled": null,
        "userid": 5001, "bank": "chem", "queue": "debug", "project": "*", "nodes": 2, "cores": 8, "gpus": 0, "duration": 3600.0,
        "rejection": null, "waits_for_data": false, "holds": [], "priority": priority, "place": 3, "place_of": 7, "jobs": 1,
        "jobs_rejected": 0, "jobs_held": 0, "first_limit": null,
    });
    let members = answer.as_object_mut().expect("an object");
    members.extend(more.as_object().expect("an object").clone());
    serde_json::from_value(answer).expect("an answer")
}

fn format_description(
    checked: &CheckedJob,
    refusal: Option<&str>,
    never_fits: Option<&str>,
    queue: &QueueState,
) -> String {
    let (screen, words) = (make_screen(100), make_words());
    let teller = TextPrinter::new(&screen, &words);
    describe(&teller, checked, &FluxAnswer { refusal, never_fits, queue });
    String::from_utf8(teller.out.into_bytes()).expect("text")
}

#[test]
fn screens_of_a_check_before_submission_equal_the_golden_files() {
    let state = |answer| serde_json::from_value::<QueueState>(answer).expect("a state");
    let open = state(json!({"enable": true, "start": true}));
    let stopped = state(json!({"enable": true, "start": false, "stop_reason": "maintenance"}));
    let holds = make_held_job(1, 5001, "chem")["holds"].clone();
    let rejection = "job size (9 node(s)) is greater than the maximum of user 5001";
    let several = json!({"jobs": 100, "jobs_rejected": 20, "jobs_held": 70, "first_limit": "max-resource-user-limit",
        "active_limit": "max-active-jobs: 20 of 100 jobs of user 5001 in bank chem are active now"});
    let mut screens = String::new();
    for (name, answer, refusal, queue) in [
        ("accepted", make_answer(json!({})), None, &open),
        ("held", make_answer(json!({"holds": holds, "jobs_held": 1})), None, &stopped),
        (
            "rejected",
            make_answer(json!({"rejection": rejection, "jobs_rejected": 1, "priority": null})),
            None,
            &open,
        ),
        (
            "rejected for several reasons",
            make_answer(json!({"rejection": rejection, "further_rejections": ["user has max active jobs"]})),
            Some("Invalid queue 'debug2' specified (queues: batch, debug)"),
            &open,
        ),
        ("rejected by Flux", make_answer(json!({})), Some("queue debug takes no new jobs"), &open),
        (
            "without data",
            make_answer(json!({"waits_for_data": true, "bank": null, "priority": null})),
            None,
            &open,
        ),
        (
            "score 0",
            make_answer(json!({"place": null, "priority": make_priority(&[("fairshare", 0.0, 100_000)])})),
            None,
            &open,
        ),
        ("several", make_answer(several), None, &open),
        ("several without a limit", make_answer(json!({"jobs": 5})), None, &open),
    ] {
        screens.push_str(&format!("===== {name}\n{}", format_description(&answer, refusal, None, queue)));
    }
    let never_fits = Some("it requests 2 nodes, and queue debug has 1");
    screens.push_str(&format!(
        "===== too large\n{}",
        format_description(&make_answer(json!({})), None, never_fits, &open)
    ));
    let own = make_answer(json!({"leaves_out_shared_limits": true}));
    screens
        .push_str(&format!("===== without limits on banks\n{}", format_description(&own, None, None, &open)));
    check("check", 100, &screens);
    assert!(
        screens.contains("It has priority 42,100, and would be 3rd of 7 pending jobs in queue debug."),
        "{screens}"
    );
    assert_eq!(
        explain_queue_refusal(
            &make_answer(json!({})),
            &state(json!({"enable": false, "start": true, "disable_reason": "maintenance"}))
        )
        .as_deref(),
        Some("queue debug takes no new jobs: maintenance")
    );
}
