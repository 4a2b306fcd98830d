// SPDX-License-Identifier: LGPL-3.0-only
//! Asks Flux about pending jobs: the scheduler's estimates of their starts, stopped queues, and the resources of queues. A value that Flux
//! does not report is unknown.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::ask::{ask_flux, configuration, scheduler_status};
use crate::ui::printable::count;
use fairshare_client::Flux;
use fairshare_engine::engine::answers::Why;
use fairshare_engine::ids::idset;

/// The state SCHED in requests to job-list.
const SCHED: u64 = 8;
/// The most jobs whose estimates are read. job-list sorts pending jobs by priority, and schedulers plan only the first ones.
const MOST_ESTIMATES: u64 = 2000;
/// The most queues whose states are read.
const MOST_QUEUES: usize = 100;

/// What Flux reports about a pending job.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct StartFacts {
    /// When the scheduler expects the job to start, in seconds since the epoch.
    pub(crate) estimated_start: Option<f64>,
    /// Why the resources can never be enough for the job; `None` if they are, or if that is unknown.
    pub(crate) never_fits: Option<String>,
}

/// A job in an answer of job-list.
#[derive(Deserialize)]
struct AnnotatedJob {
    id: u64,
    #[serde(default)]
    annotations: Value,
}

impl AnnotatedJob {
    /// Returns the time in the annotation `sched.t_estimate`, as `flux jobs` reads it.
    fn estimate(&self) -> Option<f64> {
        self.annotations.pointer("/sched/t_estimate")?.as_f64().filter(|time| *time > 0.0)
    }
}

/// Returns the scheduler's estimates of starts by job id, of the first jobs in SCHED; only of jobs of `user` if that is given.
pub(crate) fn estimates(flux: &Flux, user: Option<u32>) -> HashMap<u64, f64> {
    #[derive(Deserialize)]
    struct ListAnswer {
        jobs: Vec<AnnotatedJob>,
    }
    let state = json!({ "states": [SCHED] });
    let constraint = match user {
        Some(user) => json!({ "and": [state, { "userid": [user] }] }),
        None => state,
    };
    let wanted = json!({"max_entries": MOST_ESTIMATES, "attrs": ["annotations"], "constraint": constraint});
    let list: Option<ListAnswer> = ask_flux(flux, "job-list.list", &wanted);
    list.into_iter().flat_map(|list| list.jobs).filter_map(|job| Some((job.id, job.estimate()?))).collect()
}

/// Returns what Flux reports about the start of a job; nothing if the job is not pending.
pub(crate) fn start_facts(flux: &Flux, job: &Why) -> StartFacts {
    #[derive(Deserialize)]
    struct ListIdAnswer {
        job: AnnotatedJob,
    }
    if ["run", "cleanup"].contains(&job.state.as_ref()) {
        return StartFacts::default();
    }
    let wanted = json!({"id": job.id, "attrs": ["annotations"]});
    let listed: Option<ListIdAnswer> = ask_flux(flux, "job-list.list-id", &wanted);
    let resources: Option<SchedulerResources> = scheduler_status(flux);
    StartFacts {
        estimated_start: listed.and_then(|listed| listed.job.estimate()),
        never_fits: resources.and_then(|resources| describe_misfit(job, &resources, &configuration(flux))),
    }
}

/// The part of Flux's configuration that says which nodes a queue has.
#[derive(Default, Deserialize)]
struct QueueConfiguration {
    #[serde(default)]
    queues: BTreeMap<String, ConfiguredQueue>,
}

#[derive(Deserialize)]
struct ConfiguredQueue {
    /// The properties of the queue's nodes; a leading `^` negates a property.
    requires: Option<Vec<String>>,
}

impl QueueConfiguration {
    /// Returns the queue that limits the nodes of the job, and the properties that it requires. A virtual queue has the nodes of its
    /// parent.
    fn requirement(&self, job: &Why) -> Option<(&str, &[String])> {
        let names = [job.queue.as_deref(), job.parent_queue.as_deref()].into_iter().flatten();
        names
            .filter_map(|name| self.queues.get_key_value(name))
            .find_map(|(name, queue)| Some((name.as_str(), queue.requires.as_deref()?)))
    }
}

/// The answer of `resource.sched-status`, which `flux resource list` shows.
#[derive(Deserialize)]
struct SchedulerResources {
    all: ResourceSet,
}

/// A resource set (RFC 20).
#[derive(Deserialize)]
struct ResourceSet {
    execution: Execution,
}

#[derive(Deserialize)]
struct Execution {
    #[serde(rename = "R_lite")]
    groups: Vec<RankGroup>,
    /// The ranks of the nodes with each property.
    #[serde(default)]
    properties: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct RankGroup {
    rank: String,
    children: BTreeMap<String, String>,
}

impl Execution {
    /// Returns the numbers of nodes and cores with all properties in `required`. Returns `None` if the resource set is invalid.
    fn amounts(&self, required: &[String]) -> Option<(u64, u64)> {
        let mut rules: Vec<(BTreeSet<u32>, bool)> = Vec::new();
        for property in required {
            let (name, is_wanted) = match property.strip_prefix('^') {
                Some(name) => (name, false),
                None => (property.as_str(), true),
            };
            rules.push((parse_ranks(self.properties.get(name).map_or("", String::as_str))?, is_wanted));
        }
        let (mut nodes, mut cores) = (0, 0);
        for group in &self.groups {
            let fits =
                |rank: &u32| rules.iter().all(|(having, is_wanted)| having.contains(rank) == *is_wanted);
            let count = parse_ranks(&group.rank)?.iter().filter(|rank| fits(rank)).count() as u64;
            nodes += count;
            cores += count * idset::count(group.children.get("core").map_or("", String::as_str))?;
        }
        Some((nodes, cores))
    }
}

fn parse_ranks(text: &str) -> Option<BTreeSet<u32>> {
    let mut ranks = BTreeSet::new();
    idset::each_range(text, |low, high| ranks.extend(low..=high))?;
    Some(ranks)
}

/// Returns why all the nodes of the job's queue, also those that are down now, are too few for the job. Returns `None` if they are enough.
fn describe_misfit(
    job: &Why,
    resources: &SchedulerResources,
    configuration: &QueueConfiguration,
) -> Option<String> {
    let requirement = configuration.requirement(job);
    let (nodes, cores) =
        resources.all.execution.amounts(requirement.map_or(&[], |(_, required)| required))?;
    let owner = requirement.map_or("the instance".to_owned(), |(name, _)| format!("queue {name}"));
    let too_few = |wanted: u64, there: u64, unit: &str| {
        let wanted = usize::try_from(wanted).ok()?;
        (wanted as u64 > there)
            .then(|| format!("it requests {}, and {owner} has {there}", count(wanted, unit)))
    };
    too_few(job.nodes, nodes, "node").or_else(|| too_few(job.cores, cores, "core"))
}

/// The state of a queue, as Flux reports it. A value that Flux does not report is unknown.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct QueueState {
    /// Whether the queue accepts new jobs.
    #[serde(rename = "enable")]
    pub(crate) is_enabled: Option<bool>,
    /// Whether the scheduler starts jobs of the queue.
    #[serde(rename = "start")]
    pub(crate) is_started: Option<bool>,
    /// Why the queue is disabled.
    pub(crate) disable_reason: Option<String>,
    stop_reason: Option<String>,
    /// What stops the queue although the queue itself is started.
    blocked: Option<String>,
}

impl QueueState {
    /// Asks for the state of a queue; `None` is the queue without a name.
    pub(crate) fn ask(flux: &Flux, name: Option<&str>) -> QueueState {
        let wanted = name.map_or(json!({}), |name| json!({ "name": name }));
        ask_flux(flux, "job-manager.queue-status", &wanted).unwrap_or_default()
    }

    /// Returns why the queue is stopped; an empty text if Flux gives no reason.
    pub(crate) fn why_stopped(&self) -> &str {
        match (&self.stop_reason, self.blocked.as_deref()) {
            (Some(reason), _) => reason,
            (None, Some("parent")) => "its parent queue is stopped",
            (None, Some("scheduler")) => "the scheduler is offline",
            (None, _) => "",
        }
    }
}

/// Returns how texts name a queue; `None` is the queue without a name.
pub(crate) fn queue_label(name: Option<&str>) -> String {
    name.map_or("the queue".to_owned(), |name| format!("queue {name}"))
}

/// The stopped queues, each with the reason if there is one. `None` is the queue without a name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StoppedQueues(BTreeMap<Option<String>, String>);

impl StoppedQueues {
    /// Asks for the states of `queues`.
    pub(crate) fn ask<'a>(flux: &Flux, queues: impl IntoIterator<Item = Option<&'a str>>) -> StoppedQueues {
        let names: BTreeSet<Option<&str>> = queues.into_iter().collect();
        let mut stopped = StoppedQueues::default();
        for name in names.into_iter().take(MOST_QUEUES) {
            stopped.note(name, &QueueState::ask(flux, name));
        }
        stopped
    }

    /// Adds a queue if it is stopped.
    pub(crate) fn note(&mut self, name: Option<&str>, state: &QueueState) {
        if state.is_started == Some(false) {
            self.0.insert(name.map(str::to_owned), state.why_stopped().to_owned());
        }
    }

    /// Returns true if the queue is stopped.
    pub(crate) fn contains(&self, queue: Option<&str>) -> bool {
        self.0.contains_key(&queue.map(str::to_owned))
    }

    /// Returns the names of the stopped queues.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(|name| name.as_deref().unwrap_or("the queue"))
    }

    /// Returns a text about each stopped queue: `queue batch is stopped: for repair`.
    pub(crate) fn texts(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(name, reason)| {
            let queue = queue_label(name.as_deref());
            let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
            format!("{queue} is stopped{reason}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make_job(queue: &str, parent: Value, nodes: u64, cores: u64) -> Why {
        serde_json::from_value(
            json!({"queue": queue, "parent_queue": parent, "nodes": nodes, "cores": cores}),
        )
        .expect("a job")
    }

    #[test]
    fn a_job_that_requests_more_than_its_queue_has_never_fits() {
        let resources: SchedulerResources =
            serde_json::from_value(json!({"all": {"version": 1, "execution": {
                "R_lite": [
                    {"rank": "0-3", "children": {"core": "0-7", "gpu": "0"}},
                    {"rank": "4,6", "children": {"core": "0-1"}},
                ],
                "nodelist": ["n[0-4,6]"],
                "properties": {"big": "0-3", "old": "3-4"},
            }}}))
            .expect("resources");
        let configuration: QueueConfiguration = serde_json::from_value(json!({"queues": {
            "all": {}, "big": {"requires": ["big"]}, "new": {"requires": ["big", "^old"]}, "v": {"parent": "big"},
            "none": {"requires": ["nosuch"]},
        }}))
        .expect("a configuration");
        let null = || Value::Null;
        for (job, expected) in [
            (make_job("all", null(), 6, 36), None),
            (make_job("all", null(), 7, 36), Some("it requests 7 nodes, and the instance has 6")),
            (make_job("all", null(), 6, 37), Some("it requests 37 cores, and the instance has 36")),
            (make_job("big", null(), 4, 32), None),
            (make_job("big", null(), 5, 5), Some("it requests 5 nodes, and queue big has 4")),
            (make_job("v", json!("big"), 5, 5), Some("it requests 5 nodes, and queue big has 4")),
            (make_job("new", null(), 3, 24), None),
            (make_job("new", null(), 1, 25), Some("it requests 25 cores, and queue new has 24")),
            (make_job("none", null(), 1, 1), Some("it requests 1 node, and queue none has 0")),
        ] {
            assert_eq!(describe_misfit(&job, &resources, &configuration).as_deref(), expected, "{job:?}");
        }
    }

    #[test]
    fn a_stopped_queue_has_the_reason_of_flux() {
        let mut stopped = StoppedQueues::default();
        let state = |answer| serde_json::from_value::<QueueState>(answer).expect("a state");
        stopped.note(Some("on"), &state(json!({"enable": true, "start": true})));
        stopped.note(Some("a"), &state(json!({"enable": true, "start": false, "stop_reason": "for repair"})));
        stopped.note(
            Some("v"),
            &state(json!({"enable": true, "start": false, "parent": "a", "blocked": "parent"})),
        );
        stopped.note(None, &state(json!({"enable": true, "start": false})));
        let texts: Vec<String> = stopped.texts().collect();
        assert_eq!(
            texts,
            [
                "the queue is stopped",
                "queue a is stopped: for repair",
                "queue v is stopped: its parent queue is stopped",
            ]
        );
        assert!(stopped.contains(None) && stopped.contains(Some("a")) && !stopped.contains(Some("on")));
    }

    #[test]
    fn an_estimate_is_the_time_in_the_annotation_of_the_scheduler() {
        for (annotations, expected) in [
            (json!({"sched": {"t_estimate": 1234.5}}), Some(1234.5)),
            (json!({"sched": {"t_estimate": 0}}), None),
            (json!({"sched": {"resource_summary": "rank0/core0"}}), None),
            (json!({"user": {"t_estimate": 1.0}}), None),
            (Value::Null, None),
        ] {
            assert_eq!(AnnotatedJob { id: 1, annotations }.estimate(), expected);
        }
    }
}
