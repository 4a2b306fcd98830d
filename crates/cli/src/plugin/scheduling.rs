// SPDX-License-Identifier: LGPL-3.0-only
//! Asks Flux about pending jobs: the scheduler's estimates of their starts, stopped queues, and the resources of queues. A value that Flux
//! does not report is unknown.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::ask::{ask_flux, ask_listed, configuration, scheduler_status};
use crate::ui::figures::number;
use crate::ui::printable::count;
use fairshare_client::Flux;
use fairshare_engine::engine::answers::Why;
use fairshare_engine::ids::{QueueName, idset};

/// The state SCHED in requests to job-list.
const SCHED: u64 = 8;
/// The flag of job-info that applies the updates of a jobspec.
const LOOKUP_CURRENT: u64 = 2;
/// The greatest number of jobs whose estimates are read. job-list sorts pending jobs by priority, and schedulers estimate only the first ones.
const MOST_ESTIMATES: u64 = 2000;
/// The most host names of a constraint that are read.
const MOST_HOSTS: usize = 100_000;
/// The most queues whose states are read.
const MOST_QUEUES: usize = 100;

/// What Flux reports about a pending job.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct StartFacts {
    /// When the scheduler expects the job to start, in seconds since the epoch.
    pub(crate) estimated_start: Option<f64>,
    /// Why the job can never get the resources that it requests. `None` if no such reason is known.
    pub(crate) never_fits: Option<String>,
    /// Describes the nodes or cores that the job needs, and how many suitable nodes or cores are free. `None` if this is unknown.
    pub(crate) free_resources: Option<String>,
}

/// A job in an answer of job-list.
#[derive(Deserialize)]
struct AnnotatedJob {
    id: u64,
    #[serde(default)]
    annotations: Value,
}

impl AnnotatedJob {
    /// Returns the time in the annotation `sched.t_estimate`, as `flux jobs` reads it, or `None` if the scheduler has no estimate.
    fn estimate(&self) -> Option<f64> {
        self.annotations.pointer("/sched/t_estimate")?.as_f64().filter(|time| *time > 0.0)
    }
}

/// Returns the scheduler's estimates of starts, by job id, for the first jobs in SCHED. If `user` is given,
/// only for jobs of this user.
pub(crate) fn ask_estimates(flux: &Flux, user: Option<u32>) -> HashMap<u64, f64> {
    let state = json!({ "states": [SCHED] });
    let constraint = match user {
        Some(user) => json!({ "and": [state, { "userid": [user] }] }),
        None => state,
    };
    let wanted = json!({"max_entries": MOST_ESTIMATES, "attrs": ["annotations"], "constraint": constraint});
    let mut list: Value = ask_flux(flux, "job-list.list", &wanted).unwrap_or_default();
    let jobs = list.get_mut("jobs").map(Value::take).unwrap_or_default();
    let jobs: Vec<AnnotatedJob> = serde_json::from_value(jobs).unwrap_or_default();
    jobs.into_iter().filter_map(|job| Some((job.id, job.estimate()?))).collect()
}

/// Returns true if a job is neither in RUN nor in CLEANUP.
pub(crate) fn is_pending(job: &Why) -> bool {
    !["run", "cleanup"].contains(&job.state.as_ref())
}

/// Returns what Flux reports about the start of a job. If the job is not pending, does not ask Flux and returns empty facts.
pub(crate) fn ask_flux_about_job_start(flux: &Flux, job: &Why) -> StartFacts {
    if !is_pending(job) {
        return StartFacts::default();
    }
    let listed: Option<AnnotatedJob> = ask_listed(flux, job.id.0, &["annotations"]);
    // Users may read the jobspecs of their own jobs only. For other jobs, only the total nodes and cores are known.
    let wanted = json!({"id": job.id, "keys": ["jobspec"], "flags": LOOKUP_CURRENT});
    let stored: Option<Value> = ask_flux(flux, "job-info.lookup", &wanted);
    let jobspec: Option<Value> =
        stored.and_then(|answer| serde_json::from_str(answer.get("jobspec")?.as_str()?).ok());
    let request = ResourceRequest::new([job.nodes, job.cores], jobspec.as_ref());
    let estimated_start = listed.and_then(|listed| listed.estimate());
    let described = describe_resources(flux, job.queue.as_deref(), &request);
    let [never_fits, free_resources] = described.unwrap_or_default();
    StartFacts { estimated_start, never_fits, free_resources }
}

/// Returns two texts: why the resources of a queue can never be enough for a request, and how many of them are free now. The first
/// text is `None` if the resources can be enough. Returns `None` if Flux does not report the resources.
pub(crate) fn describe_resources(
    flux: &Flux,
    queue: Option<&str>,
    request: &ResourceRequest,
) -> Option<[Option<String>; 2]> {
    let resources: SchedulerResources = scheduler_status(flux)?;
    compare_resources(queue, request, &resources, &configuration(flux))
}

/// The resources that a job requests.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ResourceRequest {
    nodes: u64,
    cores: u64,
    gpus: u64,
    /// The nodes that the jobspec requests, by the number of cores and GPUs of each node. A slot outside of
    /// nodes is left out, because its cores may be on several nodes.
    shapes: Vec<NodeShape>,
    /// Whether the job shares no node with other jobs.
    is_exclusive: bool,
    /// The constraint on the nodes (RFC 31); `None` if the jobspec is unknown.
    constraint: Option<Value>,
}

/// Nodes with the same number of cores and of GPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
struct NodeShape {
    count: u64,
    cores: u64,
    gpus: u64,
}

impl ResourceRequest {
    /// Returns the request of a job with these total numbers of nodes and cores. The GPUs, the shapes of the nodes and the constraint
    /// come from the jobspec (RFC 14), if the jobspec is known.
    pub(crate) fn new([nodes, cores]: [u64; 2], jobspec: Option<&Value>) -> ResourceRequest {
        let resources = jobspec.and_then(|jobspec| jobspec.get("resources"));
        let gpus = amount(resources, "gpu", false);
        let find_constraint = |jobspec: &Value| jobspec.pointer("/attributes/system/constraints").cloned();
        let constraint = jobspec.map(|jobspec| find_constraint(jobspec).unwrap_or(json!({"and": []})));
        let mut request =
            ResourceRequest { nodes, cores, gpus, shapes: Vec::new(), is_exclusive: false, constraint };
        request.add_nodes(resources, 1, false);
        request
    }

    fn add_nodes(&mut self, vertices: Option<&Value>, multiple: u64, is_in_slot: bool) {
        for vertex in vertices.and_then(Value::as_array).into_iter().flatten() {
            let (kind, count, with) = read_vertex(vertex);
            let count = multiple.saturating_mul(count);
            let is_in_slot = is_in_slot || kind == "slot";
            // A node that contains nodes is a group, and Flux does not count it.
            if kind == "node" && amount(with, "node", true) == 0 {
                let [cores, gpus] = ["core", "gpu"].map(|kind| amount(with, kind, is_in_slot));
                self.shapes.push(NodeShape { count, cores, gpus });
                self.is_exclusive |= vertex.get("exclusive") == Some(&Value::Bool(true));
            } else {
                self.add_nodes(with, count, is_in_slot);
            }
        }
    }
}

/// Counts the resources of type `kind` that are in slots. Searches `vertices` and all vertices below them. `is_in_slot` is true
/// if `vertices` themselves are in a slot. A count that is not a number is taken as 0.
fn amount(vertices: Option<&Value>, kind: &str, is_in_slot: bool) -> u64 {
    let vertices = vertices.and_then(Value::as_array).into_iter().flatten();
    let amounts = vertices.map(|vertex| {
        let (this, count, with) = read_vertex(vertex);
        let each = match this == kind {
            true => u64::from(is_in_slot),
            false => amount(with, kind, is_in_slot || this == "slot"),
        };
        count.saturating_mul(each)
    });
    amounts.fold(0, u64::saturating_add)
}

/// Returns the type and the count of a resource, and the resources below.
fn read_vertex(vertex: &Value) -> (&str, u64, Option<&Value>) {
    let kind = vertex.get("type").and_then(Value::as_str).unwrap_or_default();
    (kind, vertex.get("count").and_then(Value::as_u64).unwrap_or(0), vertex.get("with"))
}

/// The part of Flux's configuration that assigns nodes to queues.
#[derive(Default, Deserialize)]
struct QueueConfiguration {
    #[serde(default)]
    queues: BTreeMap<String, ConfiguredQueue>,
}

#[derive(Deserialize)]
struct ConfiguredQueue {
    /// The properties of the queue's nodes; a leading `^` negates a property.
    requires: Option<Vec<String>>,
    /// The queue to which a virtual queue belongs.
    parent: Option<String>,
}

impl QueueConfiguration {
    /// Returns the queue that limits the nodes of jobs in `queue`, and the properties that the queue requires. Returns `None` if no queue limits
    /// the nodes. A virtual queue has the nodes of its parent.
    fn requirement(&self, queue: Option<&str>) -> Option<(&str, &[String])> {
        let own = self.queues.get_key_value(queue?)?;
        let parent = own.1.parent.as_ref().and_then(|parent| self.queues.get_key_value(parent));
        let mut queues = [Some(own), parent].into_iter().flatten();
        queues.find_map(|(name, queue)| Some((name.as_str(), queue.requires.as_deref()?)))
    }
}

/// The answer of `resource.sched-status`, which `flux resource list` shows.
#[derive(Deserialize)]
struct SchedulerResources {
    all: ResourceSet,
    down: Option<ResourceSet>,
    allocated: Option<ResourceSet>,
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
    /// The host names of the ranks, as hostlists (RFC 29), in the order of the ranks in `groups`.
    #[serde(default)]
    nodelist: Vec<String>,
    /// The ranks that have each property.
    #[serde(default)]
    properties: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct RankGroup {
    rank: String,
    children: BTreeMap<String, String>,
}

impl Execution {
    /// Returns the nodes that satisfy all constraints, by rank. Returns `None` if the resource set is invalid, or if
    /// [`select_ranks`](Self::select_ranks) does not support a constraint.
    fn find_matching_nodes(&self, constraints: &[&Value]) -> Option<BTreeMap<u32, NodeShape>> {
        let mut nodes = BTreeMap::new();
        for group in &self.groups {
            let amount = |kind: &str| idset::count(group.children.get(kind).map_or("", String::as_str));
            let shape = NodeShape { count: 1, cores: amount("core")?, gpus: amount("gpu")? };
            nodes.extend(parse_ranks(&group.rank)?.into_iter().map(|rank| (rank, shape)));
        }
        for constraint in constraints {
            let selected = self.select_ranks(&nodes.keys().copied().collect(), constraint)?;
            nodes.retain(|rank, _| selected.contains(rank));
        }
        Some(nodes)
    }

    /// Returns the ranks of `all` that satisfy a constraint (RFC 31), or `None` if the constraint is invalid.
    fn select_ranks(&self, all: &BTreeSet<u32>, constraint: &Value) -> Option<BTreeSet<u32>> {
        let (operator, values) = constraint.as_object().filter(|object| object.len() == 1)?.iter().next()?;
        let values = values.as_array()?;
        let select = |value: &Value| match operator.as_str() {
            "properties" => {
                let name = value.as_str()?;
                let plain = name.trim_start_matches('^');
                let having = parse_ranks(self.properties.get(plain).map_or("", String::as_str))?;
                Some(if plain == name { having } else { all - &having })
            }
            "hostlist" => self.find_ranks_of_hosts(value.as_str()?),
            "ranks" => {
                let mut ranks = BTreeSet::new();
                idset::each_range(value.as_str()?, |low, high| ranks.extend(all.range(low..=high)))?;
                Some(ranks)
            }
            "and" | "or" => self.select_ranks(all, value),
            "not" if values.len() == 1 => Some(all - &self.select_ranks(all, value)?),
            _ => None,
        };
        let sets: Vec<BTreeSet<u32>> = values.iter().map(select).collect::<Option<_>>()?;
        Some(match operator.as_str() {
            "or" | "hostlist" | "ranks" => &sets.into_iter().flatten().collect() & all,
            _ => sets.iter().fold(all.clone(), |left, set| &left & set),
        })
    }

    /// Returns the ranks whose host names are in a hostlist. Returns `None` if a list is invalid.
    fn find_ranks_of_hosts(&self, hosts: &str) -> Option<BTreeSet<u32>> {
        let wanted: BTreeSet<String> = expand_hostlist(hosts)?.into_iter().collect();
        let ranks: Vec<_> =
            self.groups.iter().map(|group| parse_ranks(&group.rank)).collect::<Option<_>>()?;
        let names: Vec<_> = self.nodelist.iter().map(|list| expand_hostlist(list)).collect::<Option<_>>()?;
        let named = ranks.into_iter().flatten().zip(names.into_iter().flatten());
        Some(named.filter(|(_, name)| wanted.contains(name)).map(|(rank, _)| rank).collect())
    }
}

/// Returns the host names of a hostlist, such as `n[08-11],login`. Returns `None` if the list is invalid, or longer than [`MOST_HOSTS`].
fn expand_hostlist(list: &str) -> Option<Vec<String>> {
    let (mut names, mut is_in_brackets) = (Vec::new(), false);
    let is_end = |letter: char| {
        is_in_brackets = letter == '[' || is_in_brackets && letter != ']';
        letter == ',' && !is_in_brackets
    };
    for part in list.split(is_end) {
        let Some((prefix, (ranges, suffix))) =
            part.split_once('[').and_then(|(prefix, rest)| Some((prefix, rest.split_once(']')?)))
        else {
            names.push(part.to_owned());
            continue;
        };
        for range in ranges.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (width, low, high) = (first.len(), first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
            if high.saturating_sub(low) > MOST_HOSTS || names.len() > MOST_HOSTS || suffix.contains('[') {
                return None;
            }
            names.extend((low..=high).map(|number| format!("{prefix}{number:0width$}{suffix}")));
        }
    }
    Some(names)
}

fn parse_ranks(text: &str) -> Option<BTreeSet<u32>> {
    let mut ranks = BTreeSet::new();
    idset::each_range(text, |low, high| ranks.extend(low..=high))?;
    Some(ranks)
}

/// Compares a request with the nodes of a queue that satisfy the job's constraint. Nodes that are down are included.
/// Returns two texts: why the queue has too few of these nodes, and how many of these nodes are free.
///
/// A node is free if it is up and has enough free cores and GPUs for the job. If the job requests no nodes, the
/// function counts cores. If the constraint is unknown, the second text is `None`. If a resource set is invalid, the
/// function returns `None`.
fn compare_resources(
    queue: Option<&str>,
    request: &ResourceRequest,
    resources: &SchedulerResources,
    configuration: &QueueConfiguration,
) -> Option<[Option<String>; 2]> {
    let requirement = configuration.requirement(queue);
    let of_queue = json!({ "properties": requirement.map_or(&[][..], |(_, required)| required) });
    let all = &resources.all.execution;
    let usable = request.constraint.as_ref().and_then(|own| all.find_matching_nodes(&[&of_queue, own]));
    let (is_known, of_queue) = (usable.is_some(), all.find_matching_nodes(&[&of_queue])?);
    let nodes = usable.unwrap_or_else(|| of_queue.clone());
    let within = if nodes.len() < of_queue.len() { "within its constraint " } else { "" };
    let owner = requirement.map_or("the instance".to_owned(), |(name, _)| format!("queue {name}"));
    let owner = format!("{within}{owner}");
    let too_few = |wanted: u64, unit: &str, of_node: fn(&NodeShape) -> u64| {
        let there: u64 = nodes.values().map(|node| node.count * of_node(node)).sum();
        (wanted > there).then(|| format!("it requests {}, and {owner} has {there}", count(wanted, unit)))
    };
    let too_small = |wanted: &NodeShape| {
        let is_enough = |node: &&NodeShape| node.cores >= wanted.cores && node.gpus >= wanted.gpus;
        let there: u64 = nodes.values().filter(is_enough).map(|node| node.count).sum();
        let mut each = vec![count(wanted.cores, "core")];
        each.extend((wanted.gpus > 0).then(|| count(wanted.gpus, "GPU")));
        let such = if there == 0 { "no such node".to_owned() } else { count(there, "such node") };
        (wanted.count > there).then(|| {
            let per_node = if wanted.count == 1 { "" } else { " each" };
            let (nodes, each) = (count(wanted.count, "node"), each.join(" and "));
            format!("it requests {nodes} with {each}{per_node}, and {owner} has {such}")
        })
    };
    let misfit = too_few(request.nodes, "node", |_| 1)
        .or_else(|| too_few(request.cores, "core", |node| node.cores))
        .or_else(|| too_few(request.gpus, "GPU", |node| node.gpus))
        .or_else(|| request.shapes.iter().find_map(too_small));
    let mut free = nodes.clone();
    for set in [&resources.down, &resources.allocated].into_iter().flatten() {
        for (rank, used) in set.execution.find_matching_nodes(&[])? {
            let Some(node) = free.get_mut(&rank) else { continue };
            node.cores = if request.is_exclusive { 0 } else { node.cores.saturating_sub(used.cores) };
            node.gpus = node.gpus.saturating_sub(used.gpus);
        }
    }
    let sum = |nodes: &BTreeMap<u32, NodeShape>| nodes.values().map(|node| node.cores).sum();
    let (unit, needed, [free, total]) = match request.shapes.iter().find(|shape| shape.count > 0) {
        None => ("core", request.cores, [sum(&free), sum(&nodes)]),
        Some(each) => {
            let is_free = |node: &&NodeShape| node.cores >= each.cores.max(1) && node.gpus >= each.gpus;
            ("node", request.nodes, [free.values().filter(is_free).count() as u64, nodes.len() as u64])
        }
    };
    let down = resources
        .down
        .iter()
        .map(|set| set.execution.find_matching_nodes(&[]))
        .collect::<Option<Vec<_>>>()?;
    let down = down.iter().flat_map(BTreeMap::keys).filter(|rank| nodes.contains_key(rank)).count();
    let down = if down > 0 { format!(" ({} down or drained)", count(down, "node")) } else { String::new() };
    let free = format!("{} of {} free{down}", number(free), count(total, unit));
    let free = format!("it needs {}, and {owner} has {free}", count(needed, unit));
    Some([misfit, is_known.then_some(free)])
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
    /// `parent` or `scheduler` if the queue is started but its parent or the scheduler stops it.
    blocked: Option<String>,
}

impl QueueState {
    /// Asks for the state of a queue; `None` is the queue without a name.
    pub(crate) fn ask(flux: &Flux, name: Option<&str>) -> QueueState {
        let wanted = name.map_or(json!({}), |name| json!({ "name": name }));
        ask_flux(flux, "job-manager.queue-status", &wanted).unwrap_or_default()
    }

    /// Returns why the queue is stopped; an empty text if Flux gives no reason.
    pub(crate) fn get_stop_reason(&self) -> &str {
        match (&self.stop_reason, self.blocked.as_deref()) {
            (Some(reason), _) => reason,
            (None, Some("parent")) => "its parent queue is stopped",
            (None, Some("scheduler")) => "the scheduler is offline",
            (None, _) => "",
        }
    }
}

/// Returns a phrase to append to "pending jobs". It names the jobs that compete with a job in `queue`.
pub(crate) fn describe_list(one_queue_list: Option<bool>, queue: Option<&QueueName>) -> String {
    match (one_queue_list, queue) {
        (Some(true), Some(_)) => " of all queues, which the scheduler keeps in one list".to_owned(),
        (_, Some(queue)) => format!(" in queue {queue}"),
        (_, None) => String::new(),
    }
}

/// Returns the name of a queue for messages. `None` means the queue without a name.
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
            self.0.insert(name.map(str::to_owned), state.get_stop_reason().to_owned());
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

    fn request(nodes: u64, cores: u64) -> ResourceRequest {
        ResourceRequest::new([nodes, cores], Some(&json!({})))
    }

    /// Returns what a jobspec requests: `nodes`, each with `slots` of `cores` and `gpus`.
    fn shaped(nodes: u64, slots: u64, cores: u64, gpus: u64) -> ResourceRequest {
        let with = json!([{"type": "core", "count": cores}, {"type": "gpu", "count": gpus}]);
        let slot = json!([{"type": "slot", "count": slots, "with": with}]);
        let resources = json!([{"type": "node", "count": nodes, "with": slot}]);
        ResourceRequest::new([nodes, nodes * slots * cores], Some(&json!({ "resources": resources })))
    }

    #[test]
    fn a_job_that_requests_more_than_its_queue_has_never_fits() {
        let resources: SchedulerResources =
            serde_json::from_value(json!({"all": {"version": 1, "execution": {
                "R_lite": [
                    {"rank": "0-3", "children": {"core": "0-7", "gpu": "0-1"}},
                    {"rank": "4,6", "children": {"core": "0-1"}},
                ],
                "nodelist": ["n[0-4,6]"],
                "properties": {"big": "0-3", "old": "3-4"},
            }}}))
            .expect("resources");
        let configuration: QueueConfiguration = serde_json::from_value(json!({"queues": {
            "all": {}, "big": {"requires": ["big"]}, "new": {"requires": ["big", "^old"]}, "v": {"parent": "big"},
            "old": {"requires": ["old"]}, "none": {"requires": ["nosuch"]},
        }}))
        .expect("a configuration");
        for (queue, request, expected) in [
            ("all", request(6, 36), None),
            ("all", request(7, 36), Some("it requests 7 nodes, and the instance has 6")),
            ("all", request(6, 37), Some("it requests 37 cores, and the instance has 36")),
            ("big", request(4, 32), None),
            ("big", request(5, 5), Some("it requests 5 nodes, and queue big has 4")),
            ("v", request(5, 5), Some("it requests 5 nodes, and queue big has 4")),
            ("new", request(3, 24), None),
            ("new", request(1, 25), Some("it requests 25 cores, and queue new has 24")),
            ("none", request(1, 1), Some("it requests 1 node, and queue none has 0")),
            ("all", shaped(4, 2, 4, 1), None),
            (
                "all",
                shaped(1, 3, 3, 0),
                Some("it requests 1 node with 9 cores, and the instance has no such node"),
            ),
            (
                "all",
                shaped(5, 1, 4, 0),
                Some("it requests 5 nodes with 4 cores each, and the instance has 4 such nodes"),
            ),
            ("all", shaped(3, 1, 1, 3), Some("it requests 9 GPUs, and the instance has 8")),
            (
                "all",
                shaped(2, 1, 1, 3),
                Some("it requests 2 nodes with 1 core and 3 GPUs each, and the instance has no such node"),
            ),
            ("old", shaped(2, 1, 2, 0), None),
            (
                "old",
                shaped(2, 1, 3, 0),
                Some("it requests 2 nodes with 3 cores each, and queue old has 1 such node"),
            ),
        ] {
            let [text, _] =
                compare_resources(Some(queue), &request, &resources, &configuration).expect("valid");
            assert_eq!(text.as_deref(), expected, "{queue} {request:?}");
        }
    }

    #[test]
    fn a_node_is_free_if_it_has_the_free_cores_that_the_job_needs() {
        let set = |ranks: &str, cores: &str| json!({"execution": {"R_lite": [{"rank": ranks, "children": {"core": cores}}], "properties": {"big": "0-2"}}});
        let resources: SchedulerResources = serde_json::from_value(
            json!({"all": set("0-7", "0-7"), "down": set("7", "0-7"), "allocated": set("0-4", "0-5")}),
        )
        .expect("resources");
        let configuration =
            serde_json::from_value(json!({"queues": {"big": {"requires": ["big"]}}})).expect("queues");
        let alone = ResourceRequest { is_exclusive: true, ..shaped(4, 1, 1, 0) };
        for (queue, request, expected) in [
            (
                None,
                shaped(4, 1, 8, 0),
                "it needs 4 nodes, and the instance has 2 of 8 nodes free (1 node down or drained)",
            ),
            (
                None,
                shaped(4, 1, 2, 0),
                "it needs 4 nodes, and the instance has 7 of 8 nodes free (1 node down or drained)",
            ),
            (
                None,
                alone,
                "it needs 4 nodes, and the instance has 2 of 8 nodes free (1 node down or drained)",
            ),
            (Some("big"), shaped(1, 1, 3, 0), "it needs 1 node, and queue big has 0 of 3 nodes free"),
            (
                None,
                request(0, 40),
                "it needs 40 cores, and the instance has 26 of 64 cores free (1 node down or drained)",
            ),
        ] {
            let [_, text] = compare_resources(queue, &request, &resources, &configuration).expect("valid");
            assert_eq!(text.as_deref(), Some(expected), "{request:?}");
        }
    }

    #[test]
    fn only_nodes_that_satisfy_the_constraint_of_the_job_are_free() {
        let set = |ranks: &str| {
            json!({"execution": {
                "R_lite": [{"rank": ranks, "children": {"core": "0-7"}}],
                "nodelist": ["n[08-11]", "n[12-14],login"],
                "properties": {"big": "0-5", "fast": "4-7", "new": "0,4"},
            }})
        };
        let resources: SchedulerResources =
            serde_json::from_value(json!({"all": set("0-7"), "allocated": set("0-4")})).expect("resources");
        let configuration =
            serde_json::from_value(json!({"queues": {"big": {"requires": ["big"]}}})).expect("queues");
        let fast = json!({"properties": ["fast"]});
        let free = |text: &str| [None, Some(format!("it needs 1 node, and {text}"))];
        let fast_of_queue = || free("within its constraint queue big has 1 of 2 nodes free");
        for (queue, constraint, expected) in [
            (Some("big"), fast.clone(), fast_of_queue()),
            (Some("big"), json!({"and": [fast.clone(), {"properties": ["big"]}]}), fast_of_queue()),
            (Some("big"), json!({"properties": ["big"]}), free("queue big has 1 of 6 nodes free")),
            (None, fast.clone(), free("within its constraint the instance has 3 of 4 nodes free")),
            (
                None,
                json!({"not": [fast.clone()]}),
                free("within its constraint the instance has 0 of 4 nodes free"),
            ),
            (
                None,
                json!({"properties": ["fast", "^new"]}),
                free("within its constraint the instance has 3 of 3 nodes free"),
            ),
            (
                Some("big"),
                json!({"properties": ["nosuch"]}),
                [
                    Some("it requests 1 node, and within its constraint queue big has 0".to_owned()),
                    free("within its constraint queue big has 0 of 0 nodes free")[1].clone(),
                ],
            ),
            (
                None,
                json!({"or": [fast.clone(), {"ranks": ["0", "3-9"]}]}),
                free("within its constraint the instance has 3 of 6 nodes free"),
            ),
            (
                None,
                json!({"hostlist": ["n[9,11-13]", "login,n8"]}),
                free("within its constraint the instance has 2 of 4 nodes free"),
            ),
            (
                None,
                json!({"hostlist": ["n8"]}),
                [
                    Some("it requests 1 node, and within its constraint the instance has 0".to_owned()),
                    free("within its constraint the instance has 0 of 0 nodes free")[1].clone(),
                ],
            ),
            (
                None,
                json!({"not": [{"hostlist": ["n[08-14]"]}]}),
                free("within its constraint the instance has 1 of 1 node free"),
            ),
            // The number of nodes is unknown.
            (None, json!({"hostlist": ["n[1-x]"]}), [None, None]),
            (None, json!({"hostlist": ["n[0-4000000000]"]}), [None, None]),
            (None, json!({"hostlist": ["r[1-2]n[08-14]"]}), [None, None]),
            (None, json!({"host": ["n1"]}), [None, None]),
            (None, json!({"not": [fast.clone(), fast.clone()]}), [None, None]),
            (None, json!({"and": [], "or": []}), [None, None]),
        ] {
            let request = ResourceRequest { constraint: Some(constraint.clone()), ..shaped(1, 1, 8, 0) };
            let texts = compare_resources(queue, &request, &resources, &configuration).expect("valid");
            assert_eq!(texts, expected, "{queue:?} {constraint}");
        }
        let of_jobspec = |constraints| {
            let jobspec = json!({"attributes": {"system": {"constraints": constraints}}});
            ResourceRequest::new([1, 1], Some(&jobspec)).constraint
        };
        assert_eq!(of_jobspec(fast.clone()), Some(fast));
        let without_jobspec = ResourceRequest::new([1, 1], None);
        let texts = compare_resources(None, &without_jobspec, &resources, &configuration).expect("valid");
        assert_eq!(texts, [None, None]);
    }

    #[test]
    fn a_request_lists_the_nodes_of_its_jobspec() {
        let shape = |resources: Value| ResourceRequest::new([0, 0], Some(&json!({ "resources": resources })));
        let core = |count: u64| json!({"type": "core", "count": count});
        // If a slot is not in a node, its cores may be on several nodes.
        let slots =
            shape(json!([{"type": "slot", "count": 2, "with": [core(64), {"type": "gpu", "count": 3}]}]));
        assert_eq!((slots.gpus, slots.shapes), (6, vec![]));
        let socket = json!({"type": "socket", "count": 2, "with": [core(4)]});
        let node = json!({"type": "node", "count": 3, "with": [socket]});
        let in_slot = shape(json!([{"type": "slot", "count": 2, "with": [node]}]));
        assert_eq!(in_slot.shapes, [NodeShape { count: 6, cores: 8, gpus: 0 }]);
        // Flux counts a core only if it is in a slot. If a node contains nodes, Flux counts only the inner nodes.
        let inner = json!({"type": "node", "count": 2, "with": [{"type": "slot", "count": 1, "with": [core(1)]}, core(9)]});
        let nested = shape(json!([{"type": "node", "count": 2, "with": [inner]}]));
        assert_eq!(nested.shapes, [NodeShape { count: 4, cores: 1, gpus: 0 }]);
        let range =
            shape(json!([{"type": "node", "count": {"min": 9}, "with": [{"type": "slot", "count": 1}]}]));
        assert_eq!(range.shapes, [NodeShape { count: 0, cores: 0, gpus: 0 }]);
    }

    #[test]
    fn a_stopped_queue_is_reported_with_the_reason_that_flux_gives() {
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
