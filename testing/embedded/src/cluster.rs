// SPDX-License-Identifier: LGPL-3.0-only
//! A small cluster of equal nodes and a scheduler that serves jobs strictly by priority, then by id.

use serde_json::{Value, json};

use super::host::{Host, Options};
use super::job::{Job, State};
use super::reactor::Due;

/// Free cores per node, and who holds what.
pub(super) struct Cluster {
    cores_per_node: usize,
    free: Vec<usize>,
    held: Vec<(u64, Vec<(usize, usize)>)>,
}

/// What a jobspec asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Request {
    /// Whole nodes asked for, 0: wherever the slots fit.
    nodes: usize,
    /// Slots per node, or in all when no node is asked for.
    slots: usize,
    /// Cores per slot.
    cores: usize,
}

fn count(vertex: &Value) -> Option<usize> {
    match vertex.get("count")? {
        Value::Object(range) => range.get("min")?.as_u64(),
        number => number.as_u64(),
    }
    .and_then(|n| usize::try_from(n).ok())
    .filter(|&n| n > 0)
}

/// Reads RFC 25 V1 shapes: `[node] > slot > core`, or `slot > node > core`.
fn request(jobspec: &Value) -> Option<Request> {
    let mut request = Request { nodes: 0, slots: 1, cores: 1 };
    let mut vertex = jobspec.get("resources")?.get(0)?;
    let mut seen_slot = false;
    loop {
        let n = count(vertex)?;
        match vertex.get("type")?.as_str()? {
            // A slot above nodes multiplies them.
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
        Cluster { cores_per_node, free: vec![cores_per_node; nodes], held: Vec::new() }
    }

    /// Cores to take from each node, if `free` allows.
    fn place(free: &[usize], request: Request) -> Option<Vec<(usize, usize)>> {
        let mut taken = Vec::new();
        if request.nodes > 0 {
            let need = request.slots.checked_mul(request.cores)?;
            let fitting = free.iter().enumerate().filter(|(_, cores)| **cores >= need);
            taken.extend(fitting.take(request.nodes).map(|(node, _)| (node, need)));
            return (taken.len() == request.nodes).then_some(taken);
        }
        let mut slots = request.slots;
        for (node, &cores) in free.iter().enumerate() {
            let here = slots.min(cores / request.cores.max(1));
            if here > 0 {
                taken.push((node, here * request.cores));
                slots -= here;
            }
        }
        (slots == 0).then_some(taken)
    }

    /// Whether an empty cluster could run it.
    fn feasible(&self, request: Request) -> bool {
        Cluster::place(&vec![self.cores_per_node; self.free.len()], request).is_some()
    }

    fn allocate(&mut self, id: u64, request: Request) -> Option<Vec<(usize, usize)>> {
        let taken = Cluster::place(&self.free, request)?;
        for &(node, cores) in &taken {
            if let Some(free) = self.free.get_mut(node) {
                *free -= cores;
            }
        }
        self.held.push((id, taken.clone()));
        Some(taken)
    }

    fn release(&mut self, id: u64) {
        let Some(at) = self.held.iter().position(|(holder, _)| *holder == id) else { return };
        for (node, cores) in self.held.remove(at).1 {
            if let Some(free) = self.free.get_mut(node) {
                *free += cores;
            }
        }
    }
}

/// Resource set of all there is.
pub(super) fn all_resources(options: &Options) -> Value {
    let all: Vec<(usize, usize)> = (0..options.nodes).map(|node| (node, options.cores)).collect();
    resource_set(&all, 0.0)
}

/// Resource set (RFC 20) of an allocation.
fn resource_set(taken: &[(usize, usize)], start: f64) -> Value {
    let lite: Vec<Value> = taken
        .iter()
        .map(|(node, cores)| {
            // A range of one is no idset (RFC 22).
            let core = if *cores == 1 { "0".to_owned() } else { format!("0-{}", cores - 1) };
            json!({"rank": node.to_string(), "children": {"core": core}})
        })
        .collect();
    let names: Vec<String> = taken.iter().map(|(node, _)| format!("node{node}")).collect();
    json!({"version": 1, "execution": {
        "R_lite": lite, "nodelist": names, "starttime": start, "expiration": 0.0,
    }})
}

/// How long the job runs by itself: the test-exec duration, else its time limit, else until `finish`.
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
    system.get("duration").and_then(Value::as_f64).filter(|seconds| *seconds > 0.0)
}

impl Host {
    /// One decision of the scheduler: starts, or refuses, the first job of the line. False: nothing to do.
    pub(super) fn schedule(&self) -> bool {
        let first = {
            let store = self.store.borrow();
            let waiting = store.jobs.values().filter(|job| {
                job.state() == State::Sched && job.alloc_pending && job.priority > 0 && job.queue.is_empty()
            });
            waiting
                .min_by_key(|job| (std::cmp::Reverse(job.priority), job.id))
                .map(|job| (job.id, request(&job.jobspec)))
        };
        let Some((id, request)) = first else { return false };
        let owner = self.options.owner;
        let Some(request) = request.filter(|request| self.store.borrow().cluster.feasible(*request)) else {
            self.job_mut(id, |job| job.alloc_pending = false);
            let _ = self.raise(id, "alloc", 0, owner, "alloc denied due to unsatisfiable request");
            return true;
        };
        let Some(taken) = self.store.borrow_mut().cluster.allocate(id, request) else { return false };
        let r = resource_set(&taken, self.now());
        self.job_mut(id, |job| (job.alloc_pending, job.r) = (false, Some(r)));
        let _ = self.post(id, "alloc", None);
        true
    }

    pub(super) fn free_resources(&self, id: u64) {
        self.store.borrow_mut().cluster.release(id);
    }

    /// The tasks start; they end by themselves if the job says when.
    pub(super) fn start_job(&self, id: u64) {
        if let Some(seconds) = self.job(id, run_time).flatten() {
            self.store.borrow_mut().agenda.after(seconds, Due::Finish(id));
        }
    }

    /// The tasks of a running job end normally.
    pub fn finish(&self, id: u64) {
        self.store.borrow_mut().agenda.cancel(Due::Finish(id));
        if self.state(id) == Some(State::Run) {
            let _ = self.post(id, "finish", Some(json!({"status": 0})));
        }
    }

    /// The tasks go, or the scheduler gives the request back, in a later turn of the reactor.
    pub(super) fn end_later(&self, id: u64) {
        let mut store = self.store.borrow_mut();
        store.agenda.cancel(Due::Finish(id));
        if !store.agenda.is_due(Due::Released(id)) {
            store.agenda.after(0.0, Due::Released(id));
        }
    }

    pub(super) fn released(&self, id: u64) {
        let had_tasks = self.job_mut(id, |job| {
            job.alloc_pending = false;
            std::mem::take(&mut job.start_pending)
        });
        let result = match had_tasks {
            Some(true) => self.post(id, "release", Some(json!({"ranks": "all", "final": true}))),
            Some(false) => self.action(id),
            None => Ok(()),
        };
        if result.is_err() {
            self.violation(format!("job {id} could not be cleaned up"));
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
    fn shapes() {
        let of = |resource: Value| request(&json!({"resources": [resource]}));
        assert_eq!(of(slot(4, 2)), Some(Request { nodes: 0, slots: 4, cores: 2 }));
        let nodes = json!({"type": "node", "count": 2, "with": [slot(3, 4)]});
        assert_eq!(of(nodes), Some(Request { nodes: 2, slots: 3, cores: 4 }));
        let above = json!({"type": "slot", "count": 2, "label": "t",
            "with": [{"type": "node", "count": 3, "with": [{"type": "core", "count": 1}]}]});
        assert_eq!(of(above), Some(Request { nodes: 6, slots: 1, cores: 1 }));
        assert_eq!(of(json!({"type": "gpu", "count": 1})), None);
        assert_eq!(of(slot(0, 1)), None);
    }

    #[test]
    fn cores_come_back() {
        let mut cluster = Cluster::new(2, 4);
        let all = Request { nodes: 0, slots: 2, cores: 4 };
        assert_eq!(cluster.allocate(1, all), Some(vec![(0, 4), (1, 4)]));
        assert_eq!(cluster.allocate(2, Request { nodes: 0, slots: 1, cores: 1 }), None);
        cluster.release(1);
        assert!(cluster.allocate(3, all).is_some());
        assert!(!cluster.feasible(Request { nodes: 3, slots: 1, cores: 1 }));
    }
}
