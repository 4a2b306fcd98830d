// SPDX-License-Identifier: LGPL-3.0-only
//! A small cluster of equal nodes, and a scheduler that starts jobs strictly by priority, then by id.

use serde_json::{Value, json};

use super::host::{Host, Options};
use super::job::{Job, State};
use super::reactor::DueEvent;

/// Free cores per node, and the allocations of jobs.
#[derive(Default)]
pub(super) struct Cluster {
    cores_per_node: usize,
    free: Vec<usize>,
    allocations: Vec<(u64, Vec<(usize, usize)>)>,
}

/// The resource request of a jobspec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Request {
    /// Number of nodes, or 0 if the slots may be on any nodes.
    nodes: usize,
    /// Slots per node, or the total number of slots if `nodes` is 0.
    slots: usize,
    /// Cores per slot.
    cores: usize,
}

fn read_count(vertex: &Value) -> Option<usize> {
    match vertex.get("count")? {
        Value::Object(range) => range.get("min")?.as_u64(),
        number => number.as_u64(),
    }
    .and_then(|n| usize::try_from(n).ok())
    .filter(|&n| n > 0)
}

/// Reads the forms of RFC 25 V1: `[node] > slot > core`, or `slot > node > core`. Returns `None` for any other form.
fn read_request(jobspec: &Value) -> Option<Request> {
    let mut request = Request { nodes: 0, slots: 1, cores: 1 };
    let mut vertex = jobspec.get("resources")?.get(0)?;
    let mut seen_slot = false;
    loop {
        let n = read_count(vertex)?;
        match vertex.get("type")?.as_str()? {
            // Each slot contains `n` nodes.
            "node" if seen_slot => (request.nodes, request.slots) = (request.slots.checked_mul(n)?, 1),
            "node" => request.nodes = n,
            "slot" => (request.slots, seen_slot) = (n, true),
            "core" => return Some(Request { cores: n, ..request }),
            _ => {}
        }
        let children = vertex.get("with")?.as_array()?;
        let is_gpu = |child: &&Value| child.get("type").and_then(Value::as_str) == Some("gpu");
        vertex = children.iter().find(|child| !is_gpu(child))?;
    }
}

impl Cluster {
    pub(super) fn new(nodes: usize, cores_per_node: usize) -> Cluster {
        Cluster { cores_per_node, free: vec![cores_per_node; nodes], allocations: Vec::new() }
    }

    /// Returns the nodes for `request` with the number of cores to allocate on each, or `None` if too few cores are free.
    fn find_cores(free: &[usize], request: Request) -> Option<Vec<(usize, usize)>> {
        let mut allocation = Vec::new();
        if request.nodes > 0 {
            let need = request.slots.checked_mul(request.cores)?;
            let fitting = free.iter().enumerate().filter(|(_, cores)| **cores >= need);
            allocation.extend(fitting.take(request.nodes).map(|(node, _)| (node, need)));
            return (allocation.len() == request.nodes).then_some(allocation);
        }
        let mut slots = request.slots;
        for (node, &cores) in free.iter().enumerate() {
            let here = slots.min(cores / request.cores.max(1));
            if here > 0 {
                allocation.push((node, here * request.cores));
                slots -= here;
            }
        }
        (slots == 0).then_some(allocation)
    }

    /// Returns true if the request fits into the empty cluster.
    fn is_feasible(&self, request: Request) -> bool {
        Cluster::find_cores(&vec![self.cores_per_node; self.free.len()], request).is_some()
    }

    fn allocate(&mut self, id: u64, request: Request) -> Option<Vec<(usize, usize)>> {
        let allocation = Cluster::find_cores(&self.free, request)?;
        for &(node, cores) in &allocation {
            if let Some(free) = self.free.get_mut(node) {
                *free -= cores;
            }
        }
        self.allocations.push((id, allocation.clone()));
        Some(allocation)
    }

    fn release(&mut self, id: u64) {
        let Some(at) = self.allocations.iter().position(|(holder, _)| *holder == id) else { return };
        for (node, cores) in self.allocations.remove(at).1 {
            if let Some(free) = self.free.get_mut(node) {
                *free += cores;
            }
        }
    }
}

/// Returns the resource set of the whole cluster.
pub(super) fn all_resources(options: &Options) -> Value {
    let all: Vec<(usize, usize)> = (0..options.nodes).map(|node| (node, options.cores)).collect();
    resource_set(&all, 0.0, None)
}

/// Returns the resource set (RFC 20) of an allocation. An allocation without a time limit does not expire.
fn resource_set(allocation: &[(usize, usize)], start: f64, limit: Option<f64>) -> Value {
    let lite: Vec<Value> = allocation
        .iter()
        .map(|(node, cores)| {
            // A range of a single id is not a valid idset (RFC 22).
            let core = if *cores == 1 { "0".to_owned() } else { format!("0-{}", cores - 1) };
            json!({"rank": node.to_string(), "children": {"core": core}})
        })
        .collect();
    let names: Vec<String> = allocation.iter().map(|(node, _)| format!("node{node}")).collect();
    json!({"version": 1, "execution": {
        "R_lite": lite, "nodelist": names, "starttime": start, "expiration": limit.map_or(0.0, |limit| start + limit),
    }})
}

/// Returns the run time of a job: the test-exec duration, or else the time limit. Returns `None` if the job runs until
/// `finish`.
fn run_time(job: &Job) -> Option<f64> {
    let system = job.jobspec.pointer("/attributes/system")?;
    if let Some(test) = system.pointer("/exec/test") {
        if test.get("override").and_then(Value::as_i64) == Some(1) {
            return None;
        }
        if let Some(text) = test.get("run_duration").and_then(Value::as_str) {
            return text.trim_end_matches('s').parse().ok();
        }
    }
    time_limit(job)
}

/// Returns the time limit of a job, or `None` if it has none.
fn time_limit(job: &Job) -> Option<f64> {
    let duration = job.jobspec.pointer("/attributes/system/duration").and_then(Value::as_f64);
    duration.filter(|seconds| *seconds > 0.0)
}

impl Host {
    /// Makes one decision of the scheduler: starts or rejects the first job. Returns false if there is nothing to do.
    pub(super) fn schedule(&self) -> bool {
        let first = {
            let store = self.store.borrow();
            let waiting = store.jobs.values().filter(|job| {
                job.state() == State::Sched && job.alloc_pending && job.priority > 0 && job.queue.is_empty()
            });
            waiting
                .min_by_key(|job| (std::cmp::Reverse(job.priority), job.id))
                .map(|job| (job.id, read_request(&job.jobspec)))
        };
        let Some((id, request)) = first else { return false };
        let owner = self.options.owner;
        let Some(request) = request.filter(|request| self.store.borrow().cluster.is_feasible(*request))
        else {
            self.job_mut(id, |job| job.alloc_pending = false);
            let _ = self.raise_exception(id, "alloc", 0, owner, "alloc denied due to unsatisfiable request");
            return true;
        };
        let Some(allocation) = self.store.borrow_mut().cluster.allocate(id, request) else { return false };
        let r = resource_set(&allocation, self.now(), self.job(id, time_limit).flatten());
        self.job_mut(id, |job| (job.alloc_pending, job.r) = (false, Some(r)));
        let _ = self.post_event(id, "alloc", None);
        true
    }

    pub(super) fn free_resources(&self, id: u64) {
        self.store.borrow_mut().cluster.release(id);
    }

    /// Starts the tasks of a job. If the job has a run time, the tasks end after that time.
    pub(super) fn start_job(&self, id: u64) {
        if let Some(seconds) = self.job(id, run_time).flatten() {
            self.store.borrow_mut().agenda.schedule_event(seconds, DueEvent::Finish(id));
        }
    }

    /// Ends the tasks of a running job successfully.
    pub fn finish(&self, id: u64) {
        self.store.borrow_mut().agenda.cancel(DueEvent::Finish(id));
        if self.state(id) == Some(State::Run) {
            let _ = self.post_event(id, "finish", Some(json!({"status": 0})));
        }
    }

    /// Schedules the event that the tasks have ended, or that the scheduler has dropped the job's request, for a later reactor turn.
    pub(super) fn schedule_end(&self, id: u64) {
        let mut store = self.store.borrow_mut();
        store.agenda.cancel(DueEvent::Finish(id));
        if !store.agenda.is_due(DueEvent::Released(id)) {
            store.agenda.schedule_event(0.0, DueEvent::Released(id));
        }
    }

    /// Continues the cleanup of a job. The job's tasks have ended, or the scheduler has dropped the job's request.
    pub(super) fn finish_release(&self, id: u64) {
        let had_tasks = self.job_mut(id, |job| {
            job.alloc_pending = false;
            std::mem::take(&mut job.start_pending)
        });
        let result = match had_tasks {
            Some(true) => self.post_event(id, "release", Some(json!({"ranks": "all", "final": true}))),
            Some(false) => self.perform_action(id),
            None => Ok(()),
        };
        if result.is_err() {
            self.report_violation(format!("job {id} could not be cleaned up"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(n: u64, cores: u64) -> Value {
        json!({"type": "slot", "count": n, "label": "task", "with": [{"type": "core", "count": cores}]})
    }

    #[test]
    fn requests_are_read_from_jobspecs() {
        let read = |resource: Value| read_request(&json!({"resources": [resource]}));
        assert_eq!(read(slot(4, 2)), Some(Request { nodes: 0, slots: 4, cores: 2 }));
        let nodes = json!({"type": "node", "count": 2, "with": [slot(3, 4)]});
        assert_eq!(read(nodes), Some(Request { nodes: 2, slots: 3, cores: 4 }));
        let slot_above_nodes = json!({"type": "slot", "count": 2, "label": "t",
            "with": [{"type": "node", "count": 3, "with": [{"type": "core", "count": 1}]}]});
        assert_eq!(read(slot_above_nodes), Some(Request { nodes: 6, slots: 1, cores: 1 }));
        assert_eq!(read(json!({"type": "gpu", "count": 1})), None);
        assert_eq!(read(slot(0, 1)), None);
    }

    #[test]
    fn released_cores_are_free_again() {
        let mut cluster = Cluster::new(2, 4);
        let all = Request { nodes: 0, slots: 2, cores: 4 };
        assert_eq!(cluster.allocate(1, all), Some(vec![(0, 4), (1, 4)]));
        assert_eq!(cluster.allocate(2, Request { nodes: 0, slots: 1, cores: 1 }), None);
        cluster.release(1);
        assert!(cluster.allocate(3, all).is_some());
        assert!(!cluster.is_feasible(Request { nodes: 3, slots: 1, cores: 1 }));
    }
}
