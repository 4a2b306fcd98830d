// SPDX-License-Identifier: LGPL-3.0-only
//! Reads the facts of a job for the engine from its jobspec (RFC 14, RFC 25).

use super::resources::read_resources;
use crate::jobtap::{JobArgs, Json};
use fairshare_engine::engine::{JobFacts, Past, State};
use fairshare_engine::ids::{JobId, UserId};
use fairshare_engine::limits::{Kind, Resources, Size, Vertex, measure};
use std::ffi::CStr;

/// Returns the state of an RFC 21 state bit.
pub fn state_from_bit(bit: i64) -> State {
    match bit {
        2 => State::Depend,
        4 => State::Priority,
        8 => State::Sched,
        16 => State::Run,
        32 => State::Cleanup,
        64 => State::Inactive,
        _ => State::New,
    }
}

/// The text that rejects a job whose bank, queue or project is not a string.
pub const UNREADABLE_NAMES: &str = "unable to unpack bank arg";

/// Returns the job's data for the engine, or `None` if the job's bank, queue or project is not a string.
pub fn read_facts<'a>(job: &JobArgs<'a>) -> Option<JobFacts<'a>> {
    let system = find_system(job.jobspec).filter(|system| system.is_object())?;
    let is_readable = |key: &CStr| system.get(key).is_none_or(|value| value.as_str().is_some());
    [c"bank", c"queue", c"project"].into_iter().all(is_readable).then(|| read_facts_leniently(job))
}

/// Returns the facts of a job that Flux has already accepted. A bank, queue or project that is not a string
/// counts as absent.
pub fn read_facts_leniently<'a>(job: &JobArgs<'a>) -> JobFacts<'a> {
    let size = read_size(job.jobspec, find_system(job.jobspec));
    JobFacts { size, resources: read_resources(job.resources), ..read_job_without_size(job) }
}

/// Returns the facts of a job without its size and its resources. Reading the size and the resources takes
/// time linear in the length of the jobspec and R. The user chooses this length, and a request may ask about
/// a hundred jobs.
pub fn read_job_without_size<'a>(job: &JobArgs<'a>) -> JobFacts<'a> {
    let system = find_system(job.jobspec);
    let text = |key: &CStr| system?.get(key)?.as_str();
    JobFacts {
        id: JobId(job.id),
        user: UserId(job.userid),
        state: state_from_bit(job.state),
        urgency: job.urgency,
        priority: job.priority,
        bank: text(c"bank"),
        queue: text(c"queue"),
        project: text(c"project"),
        size: Ok(Size::ONE),
        submitted: job.submitted,
        duration: read_duration(system),
        resources: Resources::None,
    }
}

/// Returns `attributes.system`, or `None` if the jobspec lacks it.
fn find_system(jobspec: Json<'_>) -> Option<Json<'_>> {
    jobspec.get(c"attributes")?.get(c"system")
}

/// Returns the time limit in seconds; 0 means no limit. This avoids `Option::filter`, with which the compiled
/// code reads the number before it checks that there is one, as memcheck reports.
fn read_duration(system: Option<Json<'_>>) -> f64 {
    let seconds = system.and_then(|system| system.get(c"duration")?.as_number()).unwrap_or(0.0);
    if seconds.is_finite() { seconds.max(0.0) } else { 0.0 }
}

/// Returns true if the jobspec declares dependencies. Other plugins will hold the job in DEPEND until these are satisfied.
pub fn has_dependencies(jobspec: Json<'_>) -> bool {
    let list = find_system(jobspec).and_then(|system| system.get(c"dependencies"));
    list.is_some_and(|list| list.items().next().is_some())
}

fn read_size(jobspec: Json<'_>, system: Option<Json<'_>>) -> Result<Size, String> {
    jobspec.get(c"version").and_then(Json::as_int).ok_or("version is not an integer")?;
    let duration = system.and_then(|system| system.get(c"duration")?.as_number());
    duration.ok_or("attributes.system.duration is not a number")?;
    let resources = jobspec.get(c"resources").ok_or("resources is missing")?;
    if !resources.is_array() {
        return Err(format!("resources is {}, not an array", resources.describe_type()));
    }
    measure(&flatten_resources(resources)?)
}

/// Returns the vertices of the resource tree in depth-first order.
fn flatten_resources(resources: Json<'_>) -> Result<Vec<Vertex>, String> {
    let mut vertices = Vec::new();
    // `pop` takes the last member first, so the members are pushed in reverse order.
    let mut stack: Vec<(Json<'_>, usize)> = resources.items().rev().map(|member| (member, 0)).collect();
    while let Some((member, depth)) = stack.pop() {
        vertices.push(read_vertex(member, depth)?);
        let Some(below) = member.get(c"with") else { continue };
        if !below.is_array() {
            return Err(format!("'with' of a resource is {}, not an array", below.describe_type()));
        }
        stack.extend(below.items().rev().map(|member| (member, depth + 1)));
    }
    Ok(vertices)
}

fn read_vertex(member: Json<'_>, depth: usize) -> Result<Vertex, String> {
    let name = member.get(c"type").and_then(Json::as_str).ok_or("a resource has no type")?;
    let kind = match name {
        "node" => Kind::Node,
        "slot" => Kind::Slot,
        "core" => Kind::Core,
        "gpu" => Kind::Gpu,
        _ => Kind::Other,
    };
    let given = member.get(c"count").ok_or_else(|| format!("{name} has no count"))?;
    let type_error = || format!("count of {name} is {}, not an integer (no ranges)", given.describe_type());
    let count = given.as_int().ok_or_else(type_error)?;
    if count <= 0 {
        return Err(format!("count of {name} is {count}, not positive"));
    }
    Ok(Vertex { depth, kind, count: count.unsigned_abs() })
}

/// Returns the outstanding dependencies in job-list's reply, or `None` if the reply has no such list.
pub fn read_outstanding_dependencies(reply: &str) -> Option<Vec<String>> {
    #[derive(serde::Deserialize)]
    struct Reply {
        job: Job,
    }
    #[derive(serde::Deserialize)]
    struct Job {
        /// Absent if the job has no dependencies.
        #[serde(default)]
        dependencies: Vec<String>,
    }
    serde_json::from_str(reply).ok().map(|reply: Reply| reply.job.dependencies)
}

/// Returns the events of `eventlog` that show when a job was eligible and when it began to run, in order, each with its
/// time: urgencies, acceptance, dependencies and the allocation. Each line of an eventlog is a JSON object (RFC 18).
pub fn read_history(eventlog: &str) -> Vec<(f64, Past)> {
    #[derive(serde::Deserialize)]
    struct HistoryEntry<'a> {
        timestamp: f64,
        name: &'a str,
        #[serde(default)]
        context: serde_json::Value,
    }
    let names = ["\"submit\"", "\"validate\"", "\"alloc\"", "\"urgency\"", "\"dependency-"];
    let lines = eventlog.lines().filter(|line| names.iter().any(|name| line.contains(name)));
    let read_entry = |line: &str| {
        let HistoryEntry { timestamp, name, context } = serde_json::from_str(line).ok()?;
        let read_dependency = |added| {
            let description = context.get("description")?.as_str()?;
            Some(Past::Dependency(description.to_owned(), added))
        };
        let past = match name {
            "submit" | "urgency" => Past::Urgency(context.get("urgency")?.as_i64()?),
            "validate" => Past::Accepted,
            "alloc" => Past::Allocated,
            "dependency-add" => read_dependency(true)?,
            "dependency-remove" => read_dependency(false)?,
            _ => return None,
        };
        Some((timestamp, past))
    };
    lines.filter_map(read_entry).collect()
}
