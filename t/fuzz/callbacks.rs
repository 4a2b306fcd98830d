// SPDX-License-Identifier: LGPL-3.0-only
//! Calls the callbacks of the .so in any order: early, late, twice or never, about existing and unknown jobs, between pushes, submissions
//! and timers. The counters must equal the sums over the jobs. When all jobs have ended, all counters must be 0, and the next job must run.

use fairshare_embedded::State;
use mf_priority_testing::jobtap::Jobtap;
use mf_priority_testing::plugin::MfPriority;
use serde_json::{Value, json};

use super::drive::{Choices, Rng, fuzz, hash_feature, mutate_bytes, strip_values};
use super::{check_log, document_with_tree};
use crate::abi::{OWNER, SO, Site, job, topic};

/// The numbers that Flux uses for the states of jobs.
const STATES: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Ids of jobs that Flux does not have.
const UNKNOWN_JOBS: [u64; 2] = [4711, 4712];

/// Chooses valid arguments of a callback about job `id`.
fn choose_arguments(choices: &mut Choices, id: u64) -> Value {
    let (user, nodes) = (choices.pick(&[5001, 5002, 5003, 6000]), choices.pick(&[1, 2, 5]));
    let mut jobspec = job(user, nodes).jobspec;
    match choices.below(4) {
        0 => {}
        1 => jobspec["attributes"]["system"]["bank"] = json!("B"),
        2 => jobspec["attributes"]["system"]["queue"] = json!("r"),
        _ => {
            jobspec["attributes"]["system"]["dependencies"] =
                json!([{"scheme": "afterany", "value": UNKNOWN_JOBS[0]}])
        }
    }
    let name = choices.pick(&[
        "afterany:1",
        "max-running-jobs-user-limit",
        "max-resources-user-limit.1",
        "begin-time=9",
    ]);
    json!({
        "id": id, "userid": user, "urgency": choices.pick(&[16, 0, 31]), "priority": choices.pick(&[-1, 0, 16, 4_294_967_295_i64]),
        "state": choices.pick(&STATES), "t_submit": 1.5, "jobspec": jobspec, "value": choices.pick(&["r", "q", "B", "nowhere"]),
        "cred": {"userid": user, "rolemask": 2}, "updates": {"attributes.system.queue": choices.pick(&["r", "q"])},
        "entry": {"timestamp": 1.5, "name": "dependency-add", "context": {"description": name}},
        "end_event": {"timestamp": 1.7e9, "name": "finish"},
    })
}

/// Chooses an event and sends it to the plugin. Adds a submitted job to `submitted`. Returns a hash of the answer.
fn send_event(site: &Site, choices: &mut Choices, submitted: &mut Vec<u64>) -> u64 {
    let kind = choices.below(8);
    match kind {
        0..5 => {
            let id = match choices.below(4) {
                0 => UNKNOWN_JOBS[0],
                1 => UNKNOWN_JOBS[1],
                at => submitted.get(at - 2).copied().unwrap_or(UNKNOWN_JOBS[0]),
            };
            let all: Vec<&str> = MfPriority::TOPICS.iter().filter_map(|topic| topic.to_str().ok()).collect();
            let topic = choices.pick(&all);
            let result = site.host.call_raw(SO, topic, id, Some(&choose_arguments(choices, id)));
            let text =
                |out: Option<Value>| out.map(|out| strip_values(out["errmsg"].as_str().unwrap_or("nothing")));
            hash_feature((topic, result.map(|(rc, out)| (rc, text(out)))))
        }
        5 => {
            let outcome = site.host.submit(&job(choices.pick(&[5001, 5002, 5003]), choices.pick(&[1, 2])));
            submitted.extend(outcome.as_ref().ok());
            hash_feature(outcome.map_err(|text| strip_values(&text)).is_ok())
        }
        6 => {
            let first = submitted.first().copied();
            let result = match choices.below(4) {
                0 => site.host.request(&topic("reprioritize"), Some("{}"), OWNER).map(drop),
                1 => {
                    let payload = json!({"data": document_with_tree()}).to_string();
                    site.host.request(&topic("policy_update"), Some(&payload), OWNER).map(drop)
                }
                2 => first.map_or(Ok(()), |id| site.host.set_urgency(id, choices.pick(&[0, 16, 31]), OWNER)),
                _ => first.map_or(Ok(()), |id| site.host.cancel(id, OWNER)),
            };
            hash_feature(result.map_err(|refused| strip_values(&refused.text)))
        }
        _ => {
            site.host.advance(choices.pick(&[0.0, 1.0, 6.0, 31.0]));
            hash_feature("time")
        }
    }
}

#[test]
fn the_plugin_survives_any_order_of_callbacks() {
    // A callback uses about twelve bytes of the input, so 600 bytes give about fifty callbacks.
    let seeds = (0..40).map(Rng::new).map(|mut rng| (0..600).map(|_| rng.next() as u8).collect()).collect();
    fuzz("callbacks", seeds, mutate_bytes, |input| {
        let site = Site::new();
        let mut choices = Choices(input);
        let (mut submitted, mut features, mut steps) = (Vec::new(), Vec::new(), 0);
        while !choices.is_over() && steps < 60 {
            features.push(send_event(&site, &mut choices, &mut submitted));
            steps += 1;
        }
        site.host.settle();
        features.push(hash_feature(site.check().to_string()));
        // End and destroy all jobs, also jobs that are unknown to the host.
        for &id in &submitted {
            if site.state(id) != State::Inactive {
                let _ = site.host.cancel(id, OWNER);
                site.host.settle();
            }
        }
        let mut choices = Choices(&[]);
        for &id in submitted.iter().chain(&UNKNOWN_JOBS) {
            let arguments = choose_arguments(&mut choices, id);
            for topic in ["job.state.cleanup", "job.state.inactive", "job.destroy"] {
                site.host.call_raw(SO, topic, id, Some(&arguments));
            }
        }
        site.host.advance(31.0);
        let check = site.check();
        assert_eq!(check["jobs"], 0, "{check}");
        let next = site.submit(&job(5002, 1));
        assert_eq!(site.state(next), State::Run);
        site.finish(next);
        assert_eq!(site.check()["jobs"], 0);
        features.extend(check_log(&site));
        features
    });
}
