// SPDX-License-Identifier: LGPL-3.0-only
//! Random operations of a host. After each, the counters of the plugin must equal the host's count of its jobs.

use std::collections::BTreeMap;

use fairshare_embedded::{Job, Order, Shape, State, Submission};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{OWNER, SO, Site, association, document, queue};

/// An operation on the embedded job manager.
#[derive(Clone, Debug)]
enum Op {
    Submit {
        user: usize,
        bank: usize,
        queue: usize,
        nodes: u64,
        cores: u64,
        urgency: i32,
        after: Option<usize>,
    },
    Finish(usize),
    Cancel(usize),
    Urgency(usize, i32),
    Queue(usize, usize),
    Bank(usize, usize),
    Push(u8),
    Reprioritize,
    Restart(bool),
    Reload,
    /// Removes the plugin, ends jobs, and loads the plugin again.
    EndWithoutPlugin(Vec<usize>),
}

const USERS: [u32; 3] = [5001, 5002, 5003];
const BANKS: [Option<&str>; 3] = [None, Some("A"), Some("B")];
const QUEUES: [Option<&str>; 4] = [None, Some("q"), Some("r"), Some("unknown")];

fn any_op() -> impl Strategy<Value = Op> {
    let urgency = prop_oneof![6 => Just(16), 1 => Just(0), 1 => Just(31), 1 => 1..31];
    let submit = (
        0..3usize,
        0..3usize,
        0..4usize,
        0..3u64,
        1..3u64,
        urgency.clone(),
        proptest::option::weighted(0.2, 0..40usize),
    )
        .prop_map(|(user, bank, queue, nodes, cores, urgency, after)| Op::Submit {
            user,
            bank,
            queue,
            nodes,
            cores,
            urgency,
            after,
        });
    let job = 0..40usize;
    prop_oneof![
        10 => submit,
        5 => job.clone().prop_map(Op::Finish),
        3 => job.clone().prop_map(Op::Cancel),
        2 => (job.clone(), urgency).prop_map(|(job, urgency)| Op::Urgency(job, urgency)),
        3 => (job.clone(), 1..4usize).prop_map(|(job, queue)| Op::Queue(job, queue)),
        3 => (job.clone(), 1..3usize).prop_map(|(job, bank)| Op::Bank(job, bank)),
        2 => any::<u8>().prop_map(Op::Push),
        1 => Just(Op::Reprioritize),
        1 => any::<bool>().prop_map(Op::Restart),
        1 => Just(Op::Reload),
        1 => proptest::collection::vec(job, 0..4).prop_map(Op::EndWithoutPlugin),
    ]
}

/// Returns a document with low limits, which `seed` chooses.
fn document_with_limits(seed: u8) -> Value {
    let n = |shift: u8, choices: &[i64]| choices[usize::from(seed >> shift) % choices.len()];
    let mut data = document();
    let user = |id: u32, bank: &str| {
        association(
            id,
            bank,
            json!({
                "max_running_jobs": n(0, &[1, 2, 5, 3]), "max_sched_jobs": n(2, &[1, 2, 100]),
                "max_nodes": n(1, &[2, 4, 100]), "max_cores": n(3, &[4, 100]), "fairshare": n(4, &[1, 2]) as f64 / 4.0,
            }),
        )
    };
    data["associations"] = USERS.iter().flat_map(|&id| [user(id, "A"), user(id, "B")]).collect();
    let of_queue = json!({
        "max_running_jobs": n(5, &[1, 3]), "max_nodes_per_assoc": n(6, &[2, 4]), "max_sched_jobs": n(1, &[1, 5]),
        "max_sched_nodes_per_assoc": n(2, &[2, 9]), "max_sched_cores_per_assoc": n(4, &[2, 9]),
    });
    data["queues"] = json!([queue("q", of_queue), queue("r", json!({"max_running_jobs": n(7, &[1, 2])}))]);
    data
}

fn apply(site: &Site, op: &Op, jobs: &mut Vec<u64>) {
    let host = &site.host;
    let pick = |at: &usize| jobs.get(at % jobs.len().max(1)).copied();
    match op {
        Op::Submit { user, bank, queue, nodes, cores, urgency, after } => {
            let texts = [("bank", BANKS[*bank]), ("queue", QUEUES[*queue])];
            let attributes: Vec<(&str, &str)> =
                texts.iter().filter_map(|(key, value)| Some((*key, (*value)?))).collect();
            let shape = Shape { nodes: *nodes, cores: *cores, attributes: &attributes, ..Shape::default() };
            let mut submission = Submission::simple(USERS[*user], &shape);
            submission.urgency = *urgency;
            if let Some(wanted) = after.as_ref().and_then(pick) {
                let dependency = json!([{"scheme": "afterany", "value": wanted}]);
                submission.jobspec["attributes"]["system"]["dependencies"] = dependency;
            }
            jobs.extend(host.submit(&submission));
        }
        Op::Finish(at) => pick(at).into_iter().for_each(|id| site.finish(id)),
        Op::Cancel(at) => pick(at).into_iter().for_each(|id| drop(host.cancel(id, OWNER))),
        Op::Urgency(at, urgency) => {
            pick(at).into_iter().for_each(|id| drop(host.set_urgency(id, *urgency, OWNER)));
        }
        Op::Queue(at, queue) => {
            let update = [("attributes.system.queue", json!(QUEUES[*queue]))];
            pick(at).into_iter().for_each(|id| drop(host.update(id, &update, OWNER)));
        }
        Op::Bank(at, bank) => {
            let update = [("attributes.system.bank", json!(BANKS[*bank]))];
            pick(at).into_iter().for_each(|id| drop(host.update(id, &update, OWNER)));
        }
        Op::Push(of) => site.push(&document_with_limits(*of)),
        Op::Reprioritize => drop(site.rpc("reprioritize", &json!({})).unwrap()),
        Op::Restart(descending) => {
            let order = if *descending { Order::Descending } else { Order::Ascending };
            host.restart(order).unwrap();
        }
        Op::Reload => {
            host.remove(SO).unwrap();
            site.load(&document_with_limits(0));
        }
        Op::EndWithoutPlugin(ends) => {
            host.remove(SO).unwrap();
            ends.iter().filter_map(pick).for_each(|id| site.finish(id));
            site.load(&document_with_limits(0));
        }
    }
    host.settle();
}

/// Returns the nodes and cores of a job that was built by [`Submission::simple`].
fn job_size(job: &Job) -> (i64, i64) {
    let count = |vertex: &Value| vertex["count"].as_i64().unwrap();
    let top = &job.jobspec["resources"][0];
    let (nodes, slot) = if top["type"] == "node" { (count(top), &top["with"][0]) } else { (0, top) };
    let per_node = count(slot) * count(&slot["with"][0]);
    (nodes.max(1), per_node * nodes.max(1))
}

type Counts = BTreeMap<String, i64>;

/// Returns the counters of each association, computed from the jobs of the host.
fn host_counts(site: &Site) -> BTreeMap<(u32, String), Counts> {
    let mut all: BTreeMap<(u32, String), Counts> = BTreeMap::new();
    for id in site.host.jobs() {
        site.host.job(id, |job| {
            if job.state() == State::Inactive {
                return;
            }
            let bank = job.attribute("bank").unwrap_or("A").to_string();
            let counts = all.entry((job.userid, bank)).or_default();
            let (nodes, cores) = job_size(job);
            let mut add = |key: String, n: i64| *counts.entry(key).or_default() += n;
            add("cur_active_jobs".into(), 1);
            let kind = match job.state() {
                State::Sched => "sched",
                State::Run => "run",
                State::Cleanup if job.r.is_some() => "run",
                _ => return,
            };
            add(format!("cur_{kind}_jobs"), 1);
            if kind == "run" {
                add("cur_nodes".into(), nodes);
                add("cur_cores".into(), cores);
            }
            if let Some(queue) = job.attribute("queue") {
                add(format!("{queue}.cur_{kind}_jobs"), 1);
                let (of_nodes, of_cores) = if kind == "run" {
                    ("cur_nodes", None)
                } else {
                    ("cur_sched_nodes", Some("cur_sched_cores"))
                };
                add(format!("{queue}.{of_nodes}"), nodes);
                of_cores.into_iter().for_each(|key| add(format!("{queue}.{key}"), cores));
            }
        });
    }
    all.values_mut().for_each(|counts| counts.retain(|_, n| *n != 0));
    all.retain(|_, counts| !counts.is_empty());
    all
}

fn parse_job_counts_of_query(query: &Value) -> BTreeMap<(u32, String), Counts> {
    let mut all = BTreeMap::new();
    for user in query["mf_priority_map"].as_array().unwrap() {
        for bank in user["banks"].as_array().unwrap() {
            let mut counts = Counts::new();
            for key in ["cur_active_jobs", "cur_run_jobs", "cur_sched_jobs", "cur_nodes", "cur_cores"] {
                counts.insert(key.into(), bank[key].as_i64().unwrap());
            }
            for (queue, usage) in bank["queue_usage"].as_object().unwrap() {
                for (key, n) in usage.as_object().unwrap() {
                    counts.insert(format!("{queue}.{key}"), n.as_i64().unwrap());
                }
            }
            counts.retain(|_, n| *n != 0);
            if !counts.is_empty() {
                let key = (
                    user["userid"].as_u64().unwrap() as u32,
                    bank["bank_name"].as_str().unwrap().to_string(),
                );
                all.insert(key, counts);
            }
        }
    }
    all
}

/// Returns two maps from job id to the names of the limits that hold the job: one map from the host, one from the query.
fn hold_names(site: &Site, query: &Value) -> (BTreeMap<u64, Vec<String>>, BTreeMap<u64, Vec<String>>) {
    let (mut by_host, mut by_query) = (BTreeMap::new(), BTreeMap::new());
    for id in site.host.jobs().into_iter().filter(|&id| site.state(id) == State::Depend) {
        let mut ours: Vec<String> = site.host.job(id, |job| job.dependencies.clone()).unwrap();
        ours.retain(|name| name.starts_with("max-"));
        ours.sort();
        if !ours.is_empty() {
            by_host.insert(id, ours);
        }
    }
    for user in query["mf_priority_map"].as_array().unwrap() {
        for bank in user["banks"].as_array().unwrap() {
            for (id, held) in bank["held_jobs"].as_object().unwrap() {
                let deps = held["deps"].as_array().unwrap().iter();
                let mut deps: Vec<String> = deps.map(|dep| dep.as_str().unwrap().to_string()).collect();
                deps.sort();
                // In the host, jobs in PRIORITY and SCHED have no dependencies.
                let id = id.parse().unwrap();
                if !matches!(site.state(id), State::Priority | State::Sched) {
                    by_query.insert(id, deps);
                }
            }
        }
    }
    (by_host, by_query)
}

/// Checks that the plugin's recount finds no difference, and that the query equals the counts of the host.
pub fn assert_counts_equal_host(site: &Site) {
    site.check();
    let query = site.query();
    assert_eq!(parse_job_counts_of_query(&query), host_counts(site));
    let (by_host, by_query) = hold_names(site, &query);
    assert_eq!(by_query, by_host, "held jobs");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn plugin_counters_equal_the_counts_of_the_simulated_host(ops in proptest::collection::vec(any_op(), 1..60), first in any::<u8>()) {
        let site = Site::with(&document_with_limits(first));
        let mut jobs = Vec::new();
        for op in &ops {
            apply(&site, op, &mut jobs);
            assert_counts_equal_host(&site);
        }
        let trouble: Vec<String> = site.errors().into_iter().filter(|line| !line.contains("is not a valid")).collect();
        prop_assert_eq!(trouble, Vec::<String>::new());
        for &id in &jobs {
            let _ = site.host.cancel(id, OWNER);
        }
        prop_assert_eq!(site.check()["jobs"].clone(), json!(0));
    }
}
