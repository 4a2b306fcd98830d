// SPDX-License-Identifier: LGPL-3.0-only
//! Calls the methods of a staged push in any order, also with the numbers of other pushes. A second plugin gets the same data as a push in
//! one message. Both plugins must then have the same data.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::drive::{Choices, Rng, fuzz, hash_feature, mutate_bytes, strip_values};
use super::{check_log, configured_data};
use crate::abi::{OWNER, Site, association, document, queue, topic};

/// A model of the staged push.
#[derive(Clone, Default)]
struct StagedPush {
    number: u64,
    is_dry: bool,
    /// The records by user and bank. A later record replaces an earlier one.
    associations: BTreeMap<(u32, String), Value>,
    lists: BTreeMap<&'static str, Value>,
}

/// Chooses a part of a staged push, and adds the records of the part to `open`.
fn choose_push_part(choices: &mut Choices<'_>, open: &mut StagedPush) -> Value {
    let mut part = json!({"push": open.number});
    if choices.below(4) != 3 {
        let mut records = Vec::new();
        for _ in 0..choices.below(5) {
            let (user, bank) =
                (choices.pick(&[5001u32, 5002, 5003, 4_000_000_000]), choices.pick(&["A", "B"]));
            let more = json!({"max_running_jobs": choices.pick(&[1, 2, 1000]), "fairshare": choices.pick(&[0.0, 0.25, 1.0])});
            let record = association(user, bank, more);
            open.associations.insert((user, bank.to_owned()), record.clone());
            records.push(record);
        }
        part["associations"] = records.into();
    }
    let lists = [
        ("queues", json!([queue("q", json!({"priority": choices.below(9)}))])),
        ("projects", json!([{"project": choices.pick(&["*", "p1", "p2"])}])),
        ("banks", json!([{"bank": choices.pick(&["A", "B"]), "priority": choices.below(5) as f64}])),
        ("priority_factors", json!([{"factor": "fairshare", "weight": choices.below(1000)}])),
    ];
    for (key, list) in lists {
        if choices.below(4) != 3 && !open.lists.contains_key(key) {
            open.lists.insert(key, list.clone());
            part[key] = list;
        }
    }
    part
}

/// Returns the staged push `open` as the document of a push in one message.
fn build_single_message(open: &StagedPush) -> Value {
    let mut complete = document();
    complete["associations"] = open.associations.values().cloned().collect();
    for (key, list) in &open.lists {
        complete[*key] = list.clone();
    }
    complete
}

/// Runs one input, and returns its features. Adds the number of committed pushes to `in_force`.
fn run_input(pair: &mut Option<(Site, Site)>, in_force: &mut usize, input: &[u8]) -> Vec<u64> {
    let mut choices = Choices(input);
    let (site, model) = pair.take().unwrap_or_else(|| (Site::new(), Site::new()));
    for site in [&site, &model] {
        site.rpc("policy_update", &document()).unwrap();
    }
    let mut latest: u64 = 0;
    let mut open: Option<StagedPush> = None;
    let mut features = Vec::new();
    let ask = |method: &str, payload: &Value| {
        let answer = site.host.request(&topic(method), Some(&payload.to_string()), OWNER);
        let text = answer.as_ref().map_or_else(|refused| strip_values(&refused.text), |_| "done".to_owned());
        (answer.is_ok(), hash_feature((method, text)), answer.ok().flatten())
    };
    let mut before = configured_data(&site);
    while !choices.is_over() {
        // Most requests name the open push.
        let number = match (choices.below(5), &open) {
            (0, _) => choices.pick(&[0, 1, latest.wrapping_sub(1), latest + 1, u64::MAX]),
            (_, Some(open)) => open.number,
            (_, None) => latest,
        };
        let is_open_push = open.as_ref().is_some_and(|open| open.number == number);
        let (is_done, feature) = match choices.below(10) {
            0 => {
                let (is_dry, keeps) = (choices.below(4) == 3, choices.below(2) == 1);
                let wanted = json!({"dry_run": is_dry, "keep_config": keeps, "expires": 60});
                let (is_done, feature, answer) = ask("policy_begin", &wanted);
                assert!(is_done, "a push can always begin");
                let answer: Value = serde_json::from_str(&answer.unwrap()).unwrap();
                let number = answer["push"].as_u64().unwrap();
                assert!(number > latest || open.is_none(), "{number} after {latest}");
                latest = number;
                open = Some(StagedPush { number, is_dry, ..StagedPush::default() });
                (true, feature)
            }
            1..=4 => {
                let mut trial = open.clone().unwrap_or_default();
                trial.number = number;
                let payload = choose_push_part(&mut choices, &mut trial);
                let (is_done, feature, _) = ask("policy_part", &payload);
                assert_eq!(is_done, is_open_push, "part {number} of {latest}");
                if is_open_push {
                    open = Some(trial);
                }
                (is_done, feature)
            }
            5 => {
                let (is_done, feature, _) = ask("policy_abort", &json!({"push": number}));
                open = open.filter(|_| !is_open_push);
                (is_done, feature)
            }
            6 => {
                site.host.advance(choices.pick(&[1.0, 61.0]));
                // After 60 seconds without a part, the plugin drops the push.
                let (is_open, feature, _) = ask("policy_part", &json!({"push": latest}));
                open = open.filter(|open| open.number == latest && is_open);
                (false, feature)
            }
            _ => {
                let (is_done, feature, _) = ask("policy_commit", &json!({"push": number}));
                if is_open_push {
                    let open = open.take().unwrap();
                    let is_whole = ["queues", "projects", "banks", "priority_factors"]
                        .iter()
                        .all(|key| open.lists.contains_key(key));
                    if is_done && !open.is_dry {
                        assert!(is_whole, "a push without {:?} came into force", open.lists.keys());
                        model.rpc("policy_update", &build_single_message(&open)).unwrap();
                        assert_eq!(
                            configured_data(&site),
                            configured_data(&model),
                            "in parts, and in one message"
                        );
                        *in_force += 1;
                    }
                    if is_done && open.is_dry {
                        assert_eq!(configured_data(&site), before, "a dry run changed something");
                    }
                } else {
                    assert!(!is_done, "commit of {number}, which is not open");
                }
                (is_done && is_open_push, feature)
            }
        };
        let now = configured_data(&site);
        if !is_done {
            assert_eq!(now, before, "a refused request changed something");
        }
        before = now;
        features.push(hash_feature((feature, open.is_some())));
    }
    site.check();
    features.extend(check_log(&site));
    check_log(&model);
    *pair = Some((site, model));
    features
}

#[test]
fn parts_of_pushes_in_any_order() {
    let (mut pair, mut in_force) = (None, 0);
    // A request with a part of a push uses about twenty bytes of the input. The longest seed has 590 bytes, which give about thirty requests.
    let mut rng = Rng::new(1);
    let seeds = (0..60).map(|n| (0..n * 10).map(|_| rng.next() as u8).collect()).collect();
    fuzz("push", seeds, mutate_bytes, |input| run_input(&mut pair, &mut in_force, input));
    assert!(in_force > 0, "no push was committed");
}
