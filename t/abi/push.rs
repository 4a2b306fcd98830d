// SPDX-License-Identifier: LGPL-3.0-only
//! Tests staged pushes, pages of associations, and the answers and log lines of pushes.
//! Rules: D1, D4, D6, D7, D14, D15, D16, D17

use fairshare_embedded::{Errno, Fault, Options, State};
use serde_json::{Value, json};

use super::remember::tree;
use super::{SO, Site, association, document, job, plugin, queue};

/// Parses an answer. serde_json keeps only the last of several members with the same name, so the length shows whether each name is unique.
pub(super) fn parse_answer(method: &str, text: &str) -> Value {
    let answer: Value = serde_json::from_str(text).unwrap();
    assert_eq!(answer.to_string().len(), text.len(), "{method} has a member twice: {text}");
    answer
}

impl Site {
    /// Sends a request of the owner, and returns the answer.
    pub(super) fn ask(&self, method: &str, payload: &Value) -> Value {
        let answer = self.rpc(method, payload).unwrap_or_else(|refused| panic!("{method}: {}", refused.text));
        parse_answer(method, &answer.expect("with a document"))
    }

    /// Sends a request that the plugin must refuse, and returns the text of the refusal.
    fn refusal_text(&self, method: &str, payload: &Value) -> String {
        self.rpc(method, payload).expect_err(method).text
    }

    /// Begins a staged push, and returns its number.
    pub(super) fn begin(&self) -> u64 {
        self.ask("policy_begin", &json!({}))["push"].as_u64().unwrap()
    }
}

/// Splits a document into parts. The first part has all arrays except the associations, and each other part has `size` associations.
pub(super) fn split_document(document: &Value, size: usize) -> Vec<Value> {
    let mut rest = document.clone();
    rest["associations"] = json!([]);
    let chunks = document["associations"].as_array().unwrap().chunks(size);
    [rest].into_iter().chain(chunks.map(|chunk| json!({ "associations": chunk }))).collect()
}

fn push_parts(site: &Site, document: &Value, size: usize) -> Value {
    let push = site.begin();
    for mut part in split_document(document, size) {
        part["push"] = json!(push);
        site.ask("policy_part", &part);
    }
    site.ask("policy_commit", &json!({ "push": push }))
}

/// Returns [`document`] with changes: user 5001 has higher limits, 5002 is only in bank B, 5003 is removed, and 5004 is added.
fn changed_document() -> Value {
    let mut next = document();
    next["associations"] = json!([
        association(5001, "A", json!({"max_running_jobs": 2, "max_sched_jobs": 2})),
        association(5002, "B", json!({"fairshare": 0.25})),
        association(5004, "A", json!({})),
    ]);
    next["queues"] = json!([queue("q", json!({"priority": 5}))]);
    next["config"] = json!({"zero_score": "floor"});
    next
}

#[test]
fn a_push_in_parts_has_the_result_of_a_push_in_one_message() {
    for size in [1, 2, 100] {
        let sites = [Site::new(), Site::new()];
        for site in &sites {
            for (userid, nodes) in [(5001, 4), (5001, 1), (5003, 1), (5003, 2)] {
                site.submit(&job(userid, nodes));
            }
        }
        let [in_parts, at_once] = sites;
        let answer = push_parts(&in_parts, &changed_document(), size);
        assert_eq!(answer, at_once.ask("policy_update", &changed_document()));
        assert_eq!([&answer["added"], &answer["changed"], &answer["removed"]], [1, 1, 2]);
        assert_eq!(in_parts.query(), at_once.query());
        in_parts.check();
    }
}

#[test]
fn a_staged_push_is_not_visible_before_the_commit_or_after_an_abort() {
    let site = Site::new();
    site.submit(&job(5001, 4));
    site.submit(&job(5003, 1));
    let before = site.query();
    let push = site.begin();
    for mut part in split_document(&changed_document(), 1) {
        part["push"] = json!(push);
        site.ask("policy_part", &part);
        assert_eq!(site.query(), before);
    }
    assert!(site.host.submit(&job(5004, 1)).is_err(), "the association is only staged");
    assert_eq!(site.rpc("policy_abort", &json!({ "push": push })), Ok(None));
    assert_eq!(site.query(), before);
    let text = site.refusal_text("policy_commit", &json!({ "push": push }));
    assert_eq!(text, format!("mf_priority: push {push}: it was aborted"));
    site.check();
}

#[test]
fn a_push_from_before_a_reload_does_not_change_a_later_push() {
    let site = Site::new();
    let earlier = site.begin();
    site.host.remove(SO).unwrap();
    site.host.advance(1.0);
    site.load(&document());
    let later = site.begin();
    let text = site.refusal_text("policy_part", &json!({"push": earlier, "projects": []}));
    assert!(text.contains("there is no such push"), "{text}");
    assert_eq!(site.rpc("policy_abort", &json!({ "push": later })), Ok(None));
}

#[test]
fn a_request_for_a_push_that_is_not_staged_is_refused() {
    let site = Site::new();
    let before = site.query();
    let push = |push: u64| json!({ "push": push });
    assert!(site.refusal_text("policy_part", &push(1)).contains("push 1: there is no such push"));
    assert!(site.refusal_text("policy_part", &json!({})).contains("policy.push: key is missing"));
    let first = site.begin();
    let second = site.begin();
    let text = site.refusal_text("policy_part", &push(first));
    assert!(text.contains(&format!("push {second} replaced it")), "{text}");
    let mut bad = association(5001, "A", json!({}));
    bad["active"] = json!("no");
    let fault = site.refusal_text("policy_part", &json!({"push": second, "associations": [bad]}));
    assert!(
        fault.ends_with("associations[0].active: expected integer, got string (user 5001, bank A)"),
        "{fault}"
    );
    let text = site.refusal_text("policy_commit", &push(second));
    assert!(
        text.contains("a part of the push was refused: ") && text.contains("active: expected integer"),
        "{text}"
    );
    let third = site.begin();
    let text = site.refusal_text("policy_commit", &push(third));
    assert!(text.contains("policy.associations: key is missing in all parts"), "{text}");
    assert!(site.refusal_text("policy_commit", &push(third)).contains("an array is missing"));
    assert_eq!(site.query(), before, "a refused push changes nothing");
    let fourth = site.begin();
    site.ask("policy_update", &document());
    assert!(
        site.refusal_text("policy_commit", &push(fourth))
            .contains("a policy_update in one message replaced it")
    );
    push_parts(&site, &document(), 2);
    assert!(site.refusal_text("policy_commit", &push(fourth + 1)).contains("it was committed"));
    site.check();
}

#[test]
fn an_abandoned_push_expires() {
    let site = Site::new();
    let begun = site.ask("policy_begin", &json!({"expires": 2}));
    assert_eq!(begun["expires"], 2);
    let mut part = split_document(&changed_document(), 100).remove(1);
    part["push"] = begun["push"].clone();
    // The time limit of the push starts again when a part arrives.
    for _ in 0..2 {
        site.host.advance(1.5);
        site.ask("policy_part", &part);
    }
    site.host.advance(2.5);
    let before = site.query();
    let text = site.refusal_text("policy_commit", &json!({"push": begun["push"]}));
    assert!(text.contains("it expired, because no part arrived in time"), "{text}");
    assert_eq!(site.query(), before);
}

#[test]
fn the_time_limit_of_an_aborted_push_does_not_end_the_next_push() {
    let site = Site::new();
    let first = site.ask("policy_begin", &json!({"expires": 2}))["push"].clone();
    site.host.advance(1.5);
    site.rpc("policy_abort", &json!({ "push": first })).unwrap();
    let second = site.ask("policy_begin", &json!({"expires": 2}))["push"].clone();
    site.host.advance(1.5);
    for mut part in split_document(&document(), 100) {
        part["push"] = second.clone();
        site.ask("policy_part", &part);
    }
    site.ask("policy_commit", &json!({ "push": second }));
    // The timer does nothing if no push is open.
    site.host.advance(3.0);
    let text = site.refusal_text("policy_commit", &json!({ "push": second }));
    assert!(text.contains("it was committed"), "{text}");
    site.check();
}

#[test]
fn a_part_with_too_many_records_or_bytes_is_refused() {
    let site = Site::new();
    let begun = site.ask("policy_begin", &json!({}));
    let most = begun["max_records"].as_u64().unwrap() as u32;
    let records = |count: u32| (0..count).map(|n| association(n, "A", json!({}))).collect::<Vec<_>>();
    site.ask("policy_part", &json!({"push": begun["push"], "associations": records(most)}));
    let text =
        site.refusal_text("policy_part", &json!({"push": begun["push"], "associations": records(most + 1)}));
    assert!(
        text.contains(&format!("a part of a push has at most {most} records; this part has {}", most + 1)),
        "{text}"
    );
    let begun = site.ask("policy_begin", &json!({}));
    let long = "x".repeat(begun["max_bytes"].as_u64().unwrap() as usize);
    let text = site.refusal_text("policy_part", &json!({"push": begun["push"], "later": long}));
    assert!(text.contains("bytes; this part has "), "{text}");
}

#[test]
fn a_dry_run_push_in_several_parts_changes_nothing() {
    let site = Site::new();
    let before = site.query();
    let push = site.ask("policy_begin", &json!({"dry_run": true}))["push"].clone();
    for mut part in split_document(&changed_document(), 2) {
        part["push"] = push.clone();
        site.ask("policy_part", &part);
    }
    let answer = site.ask("policy_commit", &json!({ "push": push }));
    let mut dry_run = changed_document();
    dry_run["dry_run"] = json!(true);
    let at_once = site.ask("policy_update", &dry_run);
    for (key, value) in at_once.as_object().unwrap() {
        assert_eq!(&answer[key], value, "{key}");
    }
    assert_eq!((&answer["dry_run"], &answer["pending"]), (&json!(true), &json!(0)));
    assert_eq!(site.query(), before);
}

#[test]
fn switches_that_a_push_does_not_mention_stay() {
    let score = |site: &Site| site.query()["config"]["zero_score"].clone();
    let mut given = document();
    given["config"] = json!({"zero_score": "floor"});
    let site = Site::with(&given);
    assert_eq!(score(&site), "floor");
    // `flux account-priority-update` sends this payload.
    site.rpc("rec_config_update", &json!({"data": {"deny_unknown_queues": false}})).unwrap();
    assert_eq!(score(&site), "floor");
    site.rpc("rec_config_update", &json!({"data": {"zero_score": "hold"}})).unwrap();
    assert_eq!(score(&site), "hold");
    site.rpc("rec_config_update", &json!({"data": {"zero_score": "floor"}})).unwrap();
    let push = site.ask("policy_begin", &json!({"keep_config": true}))["push"].clone();
    for mut part in split_document(&document(), 9) {
        part["push"] = push.clone();
        site.ask("policy_part", &part);
    }
    site.ask("policy_commit", &json!({ "push": push }));
    assert_eq!(score(&site), "floor");
    push_parts(&site, &document(), 9);
    assert_eq!(score(&site), "hold", "a push without keep_config resets all switches");
}

#[test]
fn an_error_of_flux_is_in_the_answer() {
    let site = Site::new();
    let call = "flux_jobtap_reprioritize_all";
    site.host.set_fault(Some(Fault { call, after: 0, times: u64::MAX, errno: Errno(12) }));
    let error = site.rpc("reprioritize", &json!({})).unwrap_err();
    let text = "mf_priority: failed to reprioritize: flux_jobtap_reprioritize_all: ";
    assert!(error.errno.0 == 5 && error.text.starts_with(text), "{error:?}");
    let before = site.query();
    let error = site.rpc("policy_update", &changed_document()).unwrap_err();
    assert!(
        error.text.starts_with("the policy is in force (generation 2), but: mf_priority: failed"),
        "{error:?}"
    );
    assert_ne!(site.query(), before);
    site.host.set_fault(None);
    assert_eq!(site.rpc("reprioritize", &json!({})), Ok(None));
}

#[test]
fn pages_of_associations_contain_all_associations_of_the_query() {
    let mut given = document();
    given["associations"]
        .as_array_mut()
        .unwrap()
        .extend((0..20).map(|n| association(6000 + n, "A", json!({}))));
    let site = Site::with(&given);
    site.submit(&job(5001, 4));
    site.submit(&job(5001, 1));
    let query = site.query();
    let banks = |map: &Value| -> Vec<(u64, Value)> {
        let users = map.as_array().unwrap().iter();
        users
            .flat_map(|user| {
                let userid = user["userid"].as_u64().unwrap();
                user["banks"].as_array().unwrap().iter().map(move |bank| (userid, bank.clone()))
            })
            .collect()
    };
    let all = banks(&query["mf_priority_map"]);
    assert_eq!(all.len(), 24);
    for limit in [1, 2, 3, 7, 23, 24, 25] {
        let mut shown = Vec::new();
        let mut after = Value::Null;
        loop {
            let page = site.ask("associations", &json!({"after": after, "limit": limit}));
            assert_eq!(page["generation"], query["generation"]);
            let rows = banks(&page["mf_priority_map"]);
            assert!(rows.len() <= limit && (!rows.is_empty()));
            shown.extend(rows);
            after = page["next"].clone();
            if after.is_null() {
                break;
            }
        }
        assert_eq!(shown, all, "{limit} at a time");
    }
    let banks_of = |user: u32| banks(&site.ask("associations", &json!({ "user": user }))["mf_priority_map"]);
    assert_eq!(banks_of(5002), all.iter().filter(|(user, _)| *user == 5002).cloned().collect::<Vec<_>>());
    assert_eq!(banks_of(4711), []);
    assert!(site.rpc("associations", &json!({"limit": 0})).is_err());
}

#[test]
fn a_removed_association_stays_visible_while_its_jobs_live() {
    let site = Site::new();
    let [running, held] = [4, 1].map(|nodes| site.submit(&job(5001, nodes)));
    assert_eq!(site.query()["removed_associations"], json!([]));
    let shown = site.association(5001, "A");
    let mut fewer = document();
    fewer["associations"].as_array_mut().unwrap().remove(0);
    site.ask("policy_update", &fewer);
    let query = site.query();
    let gone = &query["removed_associations"];
    assert_eq!(
        (gone.as_array().unwrap().len(), &gone[0]["userid"], &gone[0]["removed"]),
        (1, &json!(5001), &json!(true))
    );
    for (key, value) in shown.as_object().unwrap() {
        assert_eq!(&gone[0][key], value, "{key}");
    }
    assert!(gone[0]["held_jobs"].get(held.to_string()).is_some());
    assert_eq!(&site.ask("associations", &json!({}))["removed_associations"], gone);
    assert_eq!(site.ask("associations", &json!({"user": 5002}))["removed_associations"], json!([]));
    site.finish(running);
    site.finish(held);
    assert_eq!(site.query()["removed_associations"], json!([]));
    site.check();
}

#[test]
fn the_log_has_one_line_for_each_load_push_and_removal() {
    let site = Site::empty(plugin());
    let info_lines = |site: &Site| -> Vec<String> {
        let lines = site.host.take_log().into_iter();
        lines.filter(|line| line.level == 6).map(|line| line.text).collect()
    };
    site.load(&document());
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        info_lines(&site),
        [format!("mf_priority: loaded (version {version}): 4 associations, 2 queues")]
    );
    let line = |what, generation, changes: [usize; 4], others: &str| {
        let [added, changed, removed, unchanged] = changes;
        [format!(
            "mf_priority: {what}: generation {generation}, associations: {added} added, {changed} changed, \
             {removed} removed, {unchanged} unchanged{others}"
        )]
    };
    site.push(&changed_document());
    assert_eq!(
        info_lines(&site),
        line("push", 7, [1, 1, 0, 1], "; queues: 0 added, 1 changed, 1 removed; config: 1 changed")
    );
    push_parts(&site, &document(), 2);
    assert_eq!(
        info_lines(&site),
        line("policy", 8, [0, 1, 1, 3], "; queues: 1 added, 1 changed, 0 removed; config: 1 changed")
    );
    site.rpc("reprioritize", &json!({})).unwrap();
    assert_eq!(info_lines(&site), [""; 0]);
    site.submit(&job(5002, 1));
    site.host.remove(SO).unwrap();
    assert_eq!(info_lines(&site), ["mf_priority: removed; 1 live job left unchanged"]);
    site.load(&document());
    site.host.settle();
    assert_eq!(info_lines(&site).last().map(String::as_str), Some("mf_priority: took over 1 live job"));
}

/// If job-list does not answer, the plugin asks job-list again at each push. These requests must not delay the timer for the next read of an
/// eventlog.
#[test]
fn no_sequence_of_pushes_delays_a_timer_that_is_due() {
    let site = Site::with_options(
        plugin(),
        Options { priority_default: false, job_list: false, ..Options::default() },
    );
    let mut document = tree(3, f64::from);
    document["associations"][0]["max_running_jobs"] = json!(1);
    let push = || {
        site.ask("policy_update", &document);
        site.host.settle();
    };
    site.host.load(&site.so.path(), None).expect("the plugin loads");
    push();
    let runs = site.submit(&job(1000, 1));
    let held = site.submit(&job(1000, 1));
    assert_eq!([runs, held].map(|id| site.state(id)), [State::Run, State::Depend]);
    site.host.remove(SO).unwrap();
    site.finish(runs);
    site.host.set_readable(held, false);
    site.host.load(&site.so.path(), None).expect("the plugin loads");
    push();
    assert_eq!(site.state(held), State::Depend);
    site.host.set_readable(held, true);
    for _ in 0..3 {
        site.host.advance(2.0);
        push();
    }
    assert_eq!(site.state(held), State::Run);
}
