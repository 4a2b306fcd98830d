// SPDX-License-Identifier: LGPL-3.0-only
//! The methods of a staged push in any order, with the numbers of other pushes, compared with a model. A committed push must equal a push in
//! one message.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::drive::{Choices, Rng, bytes, fuzz, gist, seen};
use super::{configured, said};
use crate::abi::{OWNER, Site, association, document, queue, topic};

/// The data of an open push.
#[derive(Clone, Default)]
struct Open {
    number: u64,
    is_dry: bool,
    /// By user and bank; the last record counts.
    associations: BTreeMap<(u32, String), Value>,
    lists: BTreeMap<&'static str, Value>,
}

fn part(of: &mut Choices<'_>, open: &mut Open) -> Value {
    let mut part = json!({"push": open.number});
    if of.below(4) != 3 {
        let mut some = Vec::new();
        for _ in 0..of.below(5) {
            let (user, bank) = (of.pick(&[5001u32, 5002, 5003, 4_000_000_000]), of.pick(&["A", "B"]));
            let more =
                json!({"max_running_jobs": of.pick(&[1, 2, 1000]), "fairshare": of.pick(&[0.0, 0.25, 1.0])});
            let record = association(user, bank, more);
            open.associations.insert((user, bank.to_owned()), record.clone());
            some.push(record);
        }
        part["associations"] = some.into();
    }
    let lists = [
        ("queues", json!([queue("q", json!({"priority": of.below(9)}))])),
        ("projects", json!([{"project": of.pick(&["*", "p1", "p2"])}])),
        ("banks", json!([{"bank": of.pick(&["A", "B"]), "priority": of.below(5) as f64}])),
        ("priority_factors", json!([{"factor": "fairshare", "weight": of.below(1000)}])),
    ];
    for (key, list) in lists {
        if of.below(4) != 3 && !open.lists.contains_key(key) {
            open.lists.insert(key, list.clone());
            part[key] = list;
        }
    }
    part
}

fn whole(open: &Open) -> Value {
    let mut whole = document();
    whole["associations"] = open.associations.values().cloned().collect();
    for (key, list) in &open.lists {
        whole[*key] = list.clone();
    }
    whole
}

fn live_through(pair: &mut Option<(Site, Site)>, in_force: &mut usize, input: &[u8]) -> Vec<u64> {
    let mut of = Choices(input);
    let (site, model) = pair.take().unwrap_or_else(|| (Site::new(), Site::new()));
    for site in [&site, &model] {
        site.rpc("policy_update", &document()).unwrap();
    }
    let mut latest: u64 = 0;
    let mut open: Option<Open> = None;
    let mut features = Vec::new();
    let ask = |method: &str, payload: &Value| {
        let answer = site.host.request(&topic(method), Some(&payload.to_string()), OWNER);
        let told = answer.as_ref().map_or_else(|refused| gist(&refused.text), |_| "done".to_owned());
        (answer.is_ok(), seen((method, told)), answer.ok().flatten())
    };
    let mut before = configured(&site);
    while !of.is_over() {
        // The number of the open push, or another number.
        let number = match (of.below(5), &open) {
            (0, _) => of.pick(&[0, 1, latest.wrapping_sub(1), latest + 1, u64::MAX]),
            (_, Some(open)) => open.number,
            (_, None) => latest,
        };
        let is_it = open.as_ref().is_some_and(|open| open.number == number);
        let (is_done, feature) = match of.below(10) {
            0 => {
                let (is_dry, keeps) = (of.below(4) == 3, of.below(2) == 1);
                let wanted = json!({"dry_run": is_dry, "keep_config": keeps, "expires": 60});
                let (is_done, feature, answer) = ask("policy_begin", &wanted);
                assert!(is_done, "a push may always begin");
                let answer: Value = serde_json::from_str(&answer.unwrap()).unwrap();
                let number = answer["push"].as_u64().unwrap();
                assert!(number > latest || open.is_none(), "{number} after {latest}");
                latest = number;
                open = Some(Open { number, is_dry, ..Open::default() });
                (true, feature)
            }
            1..=4 => {
                let mut trial = open.clone().unwrap_or_default();
                trial.number = number;
                let payload = part(&mut of, &mut trial);
                let (is_done, feature, _) = ask("policy_part", &payload);
                assert_eq!(is_done, is_it, "part {number} of {latest}");
                if is_it {
                    open = Some(trial);
                }
                (is_done, feature)
            }
            5 => {
                let (is_done, feature, _) = ask("policy_abort", &json!({"push": number}));
                open = open.filter(|_| !is_it);
                (is_done, feature)
            }
            6 => {
                site.host.advance(of.pick(&[1.0, 61.0]));
                // A pause ends a push.
                let gone = ask("policy_part", &json!({"push": latest}));
                open = open.filter(|open| open.number == latest && gone.0);
                (false, gone.1)
            }
            _ => {
                let (is_done, feature, _) = ask("policy_commit", &json!({"push": number}));
                if is_it {
                    let open = open.take().unwrap();
                    let is_whole = ["queues", "projects", "banks", "priority_factors"]
                        .iter()
                        .all(|key| open.lists.contains_key(key));
                    if is_done && !open.is_dry {
                        assert!(is_whole, "a push without {:?} came into force", open.lists.keys());
                        model.rpc("policy_update", &whole(&open)).unwrap();
                        assert_eq!(configured(&site), configured(&model), "in parts, and at once");
                        *in_force += 1;
                    }
                    if is_done && open.is_dry {
                        assert_eq!(configured(&site), before, "a question changed something");
                    }
                } else {
                    assert!(!is_done, "commit of {number}, which is not open");
                }
                (is_done && is_it, feature)
            }
        };
        let now = configured(&site);
        if !is_done {
            assert_eq!(now, before, "a refused request changed something");
        }
        before = now;
        features.push(seen((feature, open.is_some())));
    }
    site.check();
    features.extend(said(&site));
    said(&model);
    *pair = Some((site, model));
    features
}

#[test]
fn parts_of_pushes_in_any_order() {
    let (mut pair, mut in_force) = (None, 0);
    // A part takes about twenty choices.
    let mut rng = Rng::new(1);
    let seeds = (0..60).map(|n| (0..n * 10).map(|_| rng.next() as u8).collect()).collect();
    fuzz("push", seeds, bytes, |input| live_through(&mut pair, &mut in_force, input));
    assert!(in_force > 0, "no push ever came into force");
}
