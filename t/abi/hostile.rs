// SPDX-License-Identifier: LGPL-3.0-only
//! Callbacks with arguments that Flux never sends, and jobspecs of users who want to do harm.

use fairshare_embedded::{State, Submission};
use mf_priority_testing::jobtap::Jobtap;
use mf_priority_testing::plugin::MfPriority;
use serde_json::{Value, json};

use super::{SO, Site, job};

/// All topics that the plugin handles, in the order of a job's life. The last two topics remove the job.
pub(super) const TOPICS: [&str; 20] = [
    "conf.update",
    "plugin.query",
    "job.create",
    "job.validate",
    "job.new",
    "job.event.dependency-add",
    "job.state.depend",
    "job.event.urgency",
    "job.event.resource-update",
    "job.event.dependency-remove",
    "job.state.priority",
    "job.priority.get",
    "job.update",
    "job.update.attributes.system.queue",
    "job.update.attributes.system.bank",
    "job.state.sched",
    "job.state.run",
    "job.state.cleanup",
    "job.state.inactive",
    "job.destroy",
];

/// Calls the plugin, and returns its exit status. The test fails if the plugin has no handler, or if the host cannot make the arguments.
fn call(site: &Site, topic: &str, id: u64, input: Option<&Value>) -> i32 {
    let outcome = site.host.call_raw(SO, topic, id, input);
    let (rc, _) = outcome.unwrap_or_else(|| panic!("{topic} was not called with {input:?}"));
    assert_ne!(rc, 0, "the plugin has no handler for {topic}");
    rc
}

/// Returns true if a handler that is registered for `pattern` gets `topic`. A pattern may end with `*`.
fn matches_topic(pattern: &str, topic: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == topic, |start| topic.starts_with(start))
}

fn list_topic_patterns() -> impl Iterator<Item = &'static str> {
    MfPriority::TOPICS.iter().map(|pattern| pattern.to_str().unwrap())
}

#[test]
fn each_topic_has_one_handler_and_each_handler_has_a_topic() {
    for topic in TOPICS {
        assert_eq!(
            list_topic_patterns().filter(|pattern| matches_topic(pattern, topic)).count(),
            1,
            "{topic}"
        );
    }
    for pattern in list_topic_patterns() {
        assert!(TOPICS.iter().any(|topic| matches_topic(pattern, topic)), "{pattern}");
    }
}

#[test]
fn flux_finds_the_handlers_of_a_submission_after_few_comparisons() {
    let of_submission = [
        "job.create",
        "job.validate",
        "job.new",
        "job.update",
        "job.state.depend",
        "job.state.priority",
        "job.state.sched",
    ];
    let comparisons =
        |topic: &str| 1 + list_topic_patterns().take_while(|pattern| !matches_topic(pattern, topic)).count();
    assert!(of_submission.into_iter().map(comparisons).sum::<usize>() <= 24);
    assert_eq!(comparisons("job.priority.get"), 1);
}

/// Returns valid arguments of a callback about a job that does not exist.
fn valid_arguments() -> Value {
    json!({
        "id": 4711, "userid": 5002, "urgency": 16, "priority": -1, "state": 2, "t_submit": 1.5,
        "jobspec": job(5002, 1).jobspec, "value": "r", "key": "attributes.system.queue",
        "cred": {"userid": 5002, "rolemask": 2}, "updates": {"attributes.system.queue": "r"},
        "entry": {"timestamp": 1.5, "name": "dependency-add", "context": {"description": "begin-time:1"}},
    })
}

fn set(document: &mut Value, path: &str, value: Value) {
    *document.pointer_mut(path).unwrap_or_else(|| panic!("{path} is there")) = value;
}

/// Returns values of all JSON types, numbers at the limits of their ranges, a long text and a deeply nested
/// value. No text contains NUL, because jansson accepts none.
fn unusual_values() -> Vec<Value> {
    let deep = (0..1500).fold(json!(1), |inner, level| match level % 2 {
        0 => json!([inner]),
        _ => json!({"with": inner}),
    });
    vec![
        Value::Null,
        json!(true),
        json!(0),
        json!(-1),
        json!(i64::MAX),
        json!(i64::MIN),
        json!(4_294_967_296_i64),
        json!(0.5),
        json!(1e308),
        json!(""),
        json!("\u{202e}%s%n%d'\"\\;\u{1f600}"),
        json!("x".repeat(20_000)),
        json!([]),
        json!({}),
        json!({"min": 1, "max": 4}),
        json!([[[]]]),
        deep,
    ]
}

const PLACES: [&str; 22] = [
    "/id",
    "/userid",
    "/urgency",
    "/priority",
    "/state",
    "/jobspec",
    "/value",
    "/updates",
    "/entry",
    "/entry/context",
    "/entry/context/description",
    "/jobspec/version",
    "/jobspec/resources",
    "/jobspec/resources/0",
    "/jobspec/resources/0/type",
    "/jobspec/resources/0/count",
    "/jobspec/resources/0/with",
    "/jobspec/resources/0/with/0/count",
    "/jobspec/attributes",
    "/jobspec/attributes/system",
    "/jobspec/attributes/system/duration",
    "/jobspec/attributes/system/queue",
];

fn remove(document: &mut Value, path: &str) {
    let (parent, key) = path.rsplit_once('/').unwrap();
    match document.pointer_mut(parent).unwrap() {
        Value::Array(list) => drop(list.remove(key.parse().unwrap())),
        other => drop(other.as_object_mut().unwrap().remove(key)),
    }
}

/// Returns a site in which a job has used each queue, because the query shows only such queues in queue_usage.
fn make_site_with_queue_usage() -> Site {
    let site = Site::new();
    for queue in ["q", "r"] {
        let mut first = job(5002, 1);
        set(&mut first.jobspec, "/attributes/system/queue", json!(queue));
        let id = site.submit(&first);
        site.finish(id);
        assert_eq!(site.state(id), State::Inactive);
    }
    site
}

/// Returns the answer to a query without the values that may differ after a job has ended.
fn query_counters(site: &Site) -> Value {
    let mut query = site.query();
    // The numbers in `live` include ended jobs.
    query.as_object_mut().unwrap().remove("live");
    for user in query["mf_priority_map"].as_array_mut().unwrap() {
        for bank in user["banks"].as_array_mut().unwrap() {
            bank["queue_factor"] = json!(0);
            let usage = bank["queue_usage"].as_object_mut().unwrap();
            usage.retain(|_, counts| counts.as_object().unwrap().values().any(|count| *count != 0));
        }
    }
    query
}

/// Calls the callbacks of a job's whole life with `input`. Then removes the job by its last two callbacks, with valid
/// arguments.
fn call_all_topics(site: &Site, input: &Value) {
    for topic in TOPICS {
        call(site, topic, 4711, Some(input));
    }
    site.host.settle();
    // If `input` has an integer as job id, the last two callbacks get this id. The plugin then removes the
    // job with this id.
    let mut end = valid_arguments();
    end["id"] = input.get("id").filter(|id| id.is_i64()).cloned().unwrap_or(json!(4711));
    for topic in ["job.state.inactive", "job.destroy"] {
        call(site, topic, 4711, Some(&end));
    }
    site.host.settle();
}

#[test]
fn callbacks_without_arguments_change_nothing() {
    let site = make_site_with_queue_usage();
    let before = query_counters(&site);
    for topic in TOPICS {
        for input in [None, Some(json!([])), Some(json!({}))] {
            // Only these callbacks return an error to Flux if their arguments are missing.
            let refuses = ["job.validate", "job.create", "conf.update"].contains(&topic)
                || topic.starts_with("job.update.");
            let expected = if refuses { -1 } else { 1 };
            assert_eq!(call(&site, topic, 4711, input.as_ref()), expected, "{topic} with {input:?}");
        }
    }
    assert_eq!(query_counters(&site), before);
    site.check();
}

#[test]
fn missing_and_unusual_arguments_leave_no_counts() {
    let site = make_site_with_queue_usage();
    let before = query_counters(&site);
    for place in PLACES {
        let mut input = valid_arguments();
        remove(&mut input, place);
        call_all_topics(&site, &input);
        assert_eq!(query_counters(&site), before, "without {place}");
        for odd in unusual_values() {
            let mut input = valid_arguments();
            set(&mut input, place, odd.clone());
            call_all_topics(&site, &input);
            let shown: String = odd.to_string().chars().take(60).collect();
            assert_eq!(query_counters(&site), before, "{place} = {shown}");
        }
        site.check();
    }
    // No panic was logged, and the plugin serves a valid job.
    let panics: Vec<String> = site.errors().into_iter().filter(|line| line.contains("panic")).collect();
    assert_eq!(panics, Vec::<String>::new());
    let id = site.submit(&job(5002, 1));
    assert_eq!(site.state(id), State::Run);
    site.finish(id);
    assert_eq!(query_counters(&site), before);
}

#[test]
fn unusual_callback_arguments_never_count_a_running_job_twice() {
    let site = make_site_with_queue_usage();
    let id = site.submit(&job(5002, 2));
    assert_eq!(site.state(id), State::Run);
    for place in PLACES.iter().filter(|place| **place != "/id") {
        for odd in unusual_values() {
            let mut input = valid_arguments();
            input["id"] = json!(id);
            input["state"] = json!(16);
            set(&mut input, place, odd);
            for topic in TOPICS.iter().take(TOPICS.len() - 2) {
                call(&site, topic, id, Some(&input));
            }
        }
        site.check();
    }
    assert_eq!(site.association(5002, "A")["cur_active_jobs"], 1);
    site.finish(id);
    let counts = site.association(5002, "A");
    assert_eq!([&counts["cur_active_jobs"], &counts["cur_run_jobs"], &counts["cur_nodes"]], [0, 0, 0]);
    site.check();
}

#[test]
fn a_callback_argument_of_ten_megabytes_changes_no_counter() {
    let site = make_site_with_queue_usage();
    let before = query_counters(&site);
    for place in ["/value", "/jobspec/attributes/system/queue", "/jobspec/resources/0/type"] {
        let mut input = valid_arguments();
        set(&mut input, place, json!("x".repeat(10_000_000)));
        call_all_topics(&site, &input);
        assert_eq!(query_counters(&site), before, "{place}");
    }
    site.check();
}

#[test]
fn a_query_ignores_arguments() {
    let site = make_site_with_queue_usage();
    let (rc, out) = site.host.call_raw(SO, "plugin.query", 1, Some(&json!({"name": 5}))).unwrap();
    assert_eq!(rc, 1);
    assert!(out.unwrap()["mf_priority_map"].is_array());
}

/// Submits a jobspec with one changed or missing value. Returns the text of the rejection. An accepted job runs to its end.
fn submit_changed_jobspec(site: &Site, place: &str, odd: Option<Value>) -> Result<(), String> {
    let mut submission: Submission = job(5002, 1);
    match odd {
        Some(odd) => set(&mut submission.jobspec, place, odd),
        None => remove(&mut submission.jobspec, place),
    }
    let id = site.host.submit(&submission)?;
    site.finish(id);
    let _ = site.host.cancel(id, super::OWNER);
    assert_eq!(site.state(id), State::Inactive);
    Ok(())
}

#[test]
fn jobs_with_unusual_values_are_rejected_with_a_text_or_run_to_their_end() {
    let site = make_site_with_queue_usage();
    let before = query_counters(&site);
    for place in PLACES.iter().filter_map(|place| place.strip_prefix("/jobspec").filter(|p| !p.is_empty())) {
        for odd in unusual_values().into_iter().map(Some).chain([None]) {
            if let Err(text) = submit_changed_jobspec(&site, place, odd) {
                assert!(!text.is_empty() && text.len() < 160, "{place}: {text}");
            }
            assert_eq!(query_counters(&site), before, "{place}");
        }
    }
    site.check();
}

#[test]
fn a_job_whose_resources_cannot_be_counted_is_rejected() {
    let site = make_site_with_queue_usage();
    let slot =
        |count: Value, with: Value| json!([{"type": "slot", "count": count, "label": "task", "with": with}]);
    let core = json!([{"type": "core", "count": 1}]);
    let refused = [
        ("a range", slot(json!({"min": 1, "max": 2, "operator": "+", "operand": 1}), core.clone())),
        ("text", slot(json!("1-4"), core.clone())),
        ("no slots", slot(json!(0), core.clone())),
        ("a negative number of slots", slot(json!(-4), core.clone())),
        ("half a slot", slot(json!(0.5), core.clone())),
        ("more than 64 bits in all", slot(json!(i64::MAX), json!([{"type": "core", "count": i64::MAX}]))),
        ("GPUs only", slot(json!(1), json!([{"type": "gpu", "count": 1}]))),
        ("no slot", core.clone()),
        ("no resources", json!([])),
    ];
    for (what, resources) in refused {
        let odd = submit_changed_jobspec(&site, "/resources", Some(resources));
        let text = odd.expect_err(what);
        assert!(text.starts_with("unable to count resources for job; "), "{what}: {text}");
    }
    assert_eq!(
        submit_changed_jobspec(&site, "/attributes/system/duration", None),
        Err("unable to count resources for job; attributes.system.duration is not a number".to_string())
    );
    assert_eq!(
        submit_changed_jobspec(&site, "/attributes/system/queue", Some(json!(7))),
        Err("unable to unpack bank arg".to_string())
    );
    // Two slots, each with one node and one core, are 2 nodes and 2 cores.
    let above = slot(json!(2), json!([{"type": "node", "count": 1, "with": core}]));
    let mut submission = job(5002, 1);
    set(&mut submission.jobspec, "/resources", above);
    let id = site.submit(&submission);
    let counts = site.association(5002, "A");
    assert_eq!([&counts["cur_nodes"], &counts["cur_cores"]], [2, 2]);
    site.finish(id);
    site.check();
}

#[test]
fn huge_jobs_do_not_change_the_counters() {
    let site = make_site_with_queue_usage();
    let before = query_counters(&site);
    let of_gpus = |count: u64| {
        let slot = json!([{"type": "slot", "count": 1, "label": "task",
            "with": [{"type": "core", "count": 1}, {"type": "gpu", "count": count}]}]);
        let mut submission = job(5002, 1);
        set(&mut submission.jobspec, "/resources", slot);
        submission
    };
    // Three of the refused jobs would overflow a 64-bit counter. If the counter stopped at its maximum, the end of one
    // job would subtract too much.
    let text = site.host.submit(&of_gpus(i64::MAX as u64)).expect_err("too large");
    assert_eq!(
        text,
        "unable to count resources for job; resources exceed 1099511627776 nodes, cores or GPUs"
    );
    let ids: Vec<u64> = (0..4).map(|_| site.submit(&of_gpus(1 << 40))).collect();
    site.check();
    for id in ids {
        let _ = site.host.cancel(id, super::OWNER);
        site.host.settle();
        site.check();
    }
    assert_eq!(query_counters(&site), before);
}

#[test]
fn control_characters_in_job_texts_are_escaped_in_the_log() {
    let site = make_site_with_queue_usage();
    let hostile = "no\nbroker.err[0]: all is lost\r\u{1b}[2J\u{9b}31m\u{202e}%s%n";
    for place in [
        "/resources/0/type",
        "/attributes/system/queue",
        "/attributes/system/bank",
        "/attributes/system/project",
    ] {
        let mut submission = job(5002, 1);
        let (parent, key) = place.rsplit_once('/').unwrap();
        submission.jobspec.pointer_mut(parent).unwrap()[key] = json!(hostile);
        submission.jobspec["resources"][0]["count"] = json!(-1);
        let _ = site.host.submit(&submission);
        submission.jobspec["resources"] = job(5002, 1).jobspec["resources"].clone();
        if let Err(text) = site.host.submit(&submission) {
            assert!(!text.chars().any(char::is_control), "{place}: {text:?}");
        }
    }
    let lines: Vec<String> = site.host.take_log().into_iter().map(|line| line.text).collect();
    assert!(
        lines.iter().any(|line| line.contains("count of no\\nbroker.err[0]: all is lost\\r\\u{1b}[2J")),
        "{lines:#?}"
    );
    assert_eq!(lines.iter().filter(|line| line.chars().any(char::is_control)).count(), 0, "{lines:#?}");
}
