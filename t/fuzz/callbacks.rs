// SPDX-License-Identifier: LGPL-3.0-only
//! The callbacks of the .so in any order: early, late, twice or never, about existing jobs and unknown ones, between pushes, submissions
//! and timers. Nothing panics, and the counters equal the sums over the shown jobs. When all jobs have ended, all counters are 0 and
//! the next job runs.

use fairshare_embedded::State;
use mf_priority_testing::jobtap::Jobtap;
use mf_priority_testing::plugin::MfPriority;
use serde_json::{Value, json};

use super::drive::{Choices, Rng, bytes, fuzz, gist, seen};
use super::{said, with_a_tree};
use crate::abi::{OWNER, SO, Site, job, topic};

/// Flux's numbers of the states.
const STATES: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Jobs that Flux does not have.
const STRANGERS: [u64; 2] = [4711, 4712];

/// Returns the arguments of a callback about a job, which are consistent in themselves.
fn facts(of: &mut Choices, id: u64) -> Value {
    let (user, nodes) = (of.pick(&[5001, 5002, 5003, 6000]), of.pick(&[1, 2, 5]));
    let mut jobspec = job(user, nodes).jobspec;
    match of.below(4) {
        0 => {}
        1 => jobspec["attributes"]["system"]["bank"] = json!("B"),
        2 => jobspec["attributes"]["system"]["queue"] = json!("r"),
        _ => {
            jobspec["attributes"]["system"]["dependencies"] =
                json!([{"scheme": "afterany", "value": STRANGERS[0]}])
        }
    }
    let name =
        of.pick(&["afterany:1", "max-running-jobs-user-limit", "max-resources-user-limit.1", "begin-time=9"]);
    json!({
        "id": id, "userid": user, "urgency": of.pick(&[16, 0, 31]), "priority": of.pick(&[-1, 0, 16, 4_294_967_295_i64]),
        "state": of.pick(&STATES), "t_submit": 1.5, "jobspec": jobspec, "value": of.pick(&["r", "q", "B", "nowhere"]),
        "cred": {"userid": user, "rolemask": 2}, "updates": {"attributes.system.queue": of.pick(&["r", "q"])},
        "entry": {"timestamp": 1.5, "name": "dependency-add", "context": {"description": name}},
        "end_event": {"timestamp": 1.7e9, "name": "finish"},
    })
}

/// Plays one event and returns a hash of the answer.
fn step(site: &Site, of: &mut Choices, submitted: &mut Vec<u64>) -> u64 {
    let kind = of.below(8);
    match kind {
        0..5 => {
            let id = match of.below(4) {
                0 => STRANGERS[0],
                1 => STRANGERS[1],
                at => submitted.get(at - 2).copied().unwrap_or(STRANGERS[0]),
            };
            let all: Vec<&str> = MfPriority::TOPICS.iter().filter_map(|topic| topic.to_str().ok()).collect();
            let topic = of.pick(&all);
            let called = site.host.call_raw(SO, topic, id, Some(&facts(of, id)));
            let said = |out: Option<Value>| out.map(|out| gist(out["errmsg"].as_str().unwrap_or("nothing")));
            seen((topic, called.map(|(rc, out)| (rc, said(out)))))
        }
        5 => {
            let outcome = site.host.submit(&job(of.pick(&[5001, 5002, 5003]), of.pick(&[1, 2])));
            submitted.extend(outcome.as_ref().ok());
            seen(outcome.map_err(|text| gist(&text)).is_ok())
        }
        6 => {
            let first = submitted.first().copied();
            let asked = match of.below(4) {
                0 => site.host.request(&topic("reprioritize"), Some("{}"), OWNER).map(drop),
                1 => {
                    let payload = json!({"data": with_a_tree()}).to_string();
                    site.host.request(&topic("policy_update"), Some(&payload), OWNER).map(drop)
                }
                2 => first.map_or(Ok(()), |id| site.host.set_urgency(id, of.pick(&[0, 16, 31]), OWNER)),
                _ => first.map_or(Ok(()), |id| site.host.cancel(id, OWNER)),
            };
            seen(asked.map_err(|refused| gist(&refused.text)))
        }
        _ => {
            site.host.advance(of.pick(&[0.0, 1.0, 6.0, 31.0]));
            seen("time")
        }
    }
}

#[test]
fn any_order_of_callbacks() {
    // A callback takes a dozen choices, so an input has about fifty events, mostly callbacks.
    let seeds = (0..40).map(Rng::new).map(|mut rng| (0..600).map(|_| rng.next() as u8).collect()).collect();
    fuzz("callbacks", seeds, bytes, |input| {
        let site = Site::new();
        let mut of = Choices(input);
        let (mut submitted, mut features, mut steps) = (Vec::new(), Vec::new(), 0);
        while !of.is_over() && steps < 60 {
            features.push(step(&site, &mut of, &mut submitted));
            steps += 1;
        }
        site.host.settle();
        features.push(seen(site.check().to_string()));
        // All jobs end and are destroyed, also the unknown ones.
        for &id in &submitted {
            if site.state(id) != State::Inactive {
                let _ = site.host.cancel(id, OWNER);
                site.host.settle();
            }
        }
        let mut of = Choices(&[]);
        for &id in submitted.iter().chain(&STRANGERS) {
            let facts = facts(&mut of, id);
            for topic in ["job.state.cleanup", "job.state.inactive", "job.destroy"] {
                site.host.call_raw(SO, topic, id, Some(&facts));
            }
        }
        site.host.advance(31.0);
        let check = site.check();
        assert_eq!(check["jobs"], 0, "{check}");
        let next = site.submit(&job(5002, 1));
        assert_eq!(site.state(next), State::Run);
        site.finish(next);
        assert_eq!(site.check()["jobs"], 0);
        features.extend(said(&site));
        features
    });
}
