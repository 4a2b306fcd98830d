// SPDX-License-Identifier: LGPL-3.0-only
//! Reads the facts of a job for the engine from its jobspec (RFC 14, RFC 25).

use super::resources::read_resources;
use crate::jobtap::{JobArgs, Json};
use fairshare_engine::engine::{JobFacts, Past, State};
use fairshare_engine::ids::{JobId, UserId};
use fairshare_engine::limits::{Kind, Resources, Size, SizeError, Vertex, measure};
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

/// The text that rejects a job whose bank, queue or project is not a text.
pub const UNREADABLE_NAMES: &str = "unable to unpack bank arg";

/// Returns the facts of a job, or `None` if its bank, queue or project is not a text.
pub fn read_facts<'a>(job: &JobArgs<'a>) -> Option<JobFacts<'a>> {
    let system = find_system(job.jobspec).filter(|system| system.is_object())?;
    let is_readable = |key: &CStr| system.get(key).is_none_or(|value| value.as_str().is_some());
    [c"bank", c"queue", c"project"].into_iter().all(is_readable).then(|| read_facts_leniently(job))
}

/// Returns the facts of a job that Flux has already accepted. A bank, queue or project that is not a text counts as
/// absent.
pub fn read_facts_leniently<'a>(job: &JobArgs<'a>) -> JobFacts<'a> {
    let size = read_size(job.jobspec, find_system(job.jobspec));
    JobFacts { size, resources: read_resources(job.resources), ..read_brief_facts(job) }
}

/// Returns the facts of a job without its size and its resources. Reading those takes time linear in the length of the
/// jobspec and R. The user chooses that length, and a request may ask about a hundred jobs.
pub fn read_brief_facts<'a>(job: &JobArgs<'a>) -> JobFacts<'a> {
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

/// Returns the time limit in seconds; 0 means no limit. A filter on the `Option` would make the compiler read the
/// number before the discriminant, which memcheck reports.
fn read_duration(system: Option<Json<'_>>) -> f64 {
    let seconds = system.and_then(|system| system.get(c"duration")?.as_number()).unwrap_or(0.0);
    if seconds.is_finite() { seconds.max(0.0) } else { 0.0 }
}

/// Returns true if the jobspec declares dependencies, by which other plugins will block the job in DEPEND.
pub fn has_dependencies(jobspec: Json<'_>) -> bool {
    let list = find_system(jobspec).and_then(|system| system.get(c"dependencies"));
    list.is_some_and(|list| list.items().next().is_some())
}

fn read_size(jobspec: Json<'_>, system: Option<Json<'_>>) -> Result<Size, SizeError> {
    let malformed_error = |what: &str| Err(SizeError::Malformed(what.to_owned()));
    if jobspec.get(c"version").and_then(Json::as_int).is_none() {
        return malformed_error("version is not an integer");
    }
    if system.and_then(|system| system.get(c"duration")?.as_number()).is_none() {
        return malformed_error("attributes.system.duration is not a number");
    }
    match jobspec.get(c"resources") {
        Some(resources) if resources.is_array() => measure(&flatten_resources(resources)?),
        Some(other) => malformed_error(&format!("resources is {}, not an array", other.describe_type())),
        None => malformed_error("resources is missing"),
    }
}

/// Returns the vertices of the resource tree in depth-first order.
fn flatten_resources(resources: Json<'_>) -> Result<Vec<Vertex>, SizeError> {
    let mut vertices = Vec::new();
    /// Pushes the members of `array` in reverse, so that the first is popped first.
    fn push_reversed<'a>(stack: &mut Vec<(Json<'a>, usize)>, array: Json<'a>, depth: usize) {
        let from = stack.len();
        stack.extend(array.items().map(|member| (member, depth)));
        if let Some(added) = stack.get_mut(from..) {
            added.reverse();
        }
    }
    let mut stack = Vec::new();
    push_reversed(&mut stack, resources, 0);
    while let Some((member, depth)) = stack.pop() {
        vertices.push(read_vertex(member, depth)?);
        match member.get(c"with") {
            Some(below) if below.is_array() => push_reversed(&mut stack, below, depth + 1),
            Some(other) => {
                return Err(SizeError::Malformed(format!(
                    "'with' of a resource is {}, not an array",
                    other.describe_type()
                )));
            }
            None => {}
        }
    }
    Ok(vertices)
}

fn read_vertex(member: Json<'_>, depth: usize) -> Result<Vertex, SizeError> {
    let Some(name) = member.get(c"type").and_then(Json::as_str) else {
        return Err(SizeError::Malformed("a resource has no type".to_owned()));
    };
    let kind = match name {
        "node" => Kind::Node,
        "slot" => Kind::Slot,
        "core" => Kind::Core,
        "gpu" => Kind::Gpu,
        _ => Kind::Other,
    };
    let count = match member.get(c"count") {
        None => return Err(SizeError::Malformed(format!("{name} has no count"))),
        Some(count) => match count.as_int() {
            Some(count) if count > 0 => count.unsigned_abs(),
            Some(count) => {
                return Err(SizeError::Malformed(format!("count of {name} is {count}, not positive")));
            }
            None => {
                let type_name = count.describe_type();
                return Err(SizeError::Malformed(format!(
                    "count of {name} is {type_name}, not an integer (no ranges)"
                )));
            }
        },
    };
    Ok(Vertex { depth, kind, count })
}

/// Returns the outstanding dependencies in job-list's reply, or `None` if the reply has no such list.
pub fn read_outstanding_dependencies(reply: &str) -> Option<Vec<String>> {
    #[derive(serde::Deserialize)]
    struct Reply {
        job: Job,
    }
    #[derive(serde::Deserialize)]
    struct Job {
        /// Absent if there are none.
        #[serde(default)]
        dependencies: Vec<String>,
    }
    serde_json::from_str(reply).ok().map(|reply: Reply| reply.job.dependencies)
}

/// Returns the events, with their times, that show when a job was eligible and when it began to run: urgencies,
/// acceptance, dependencies and the allocation, in the order of `eventlog`.
pub fn read_eligible_history(eventlog: &str) -> Vec<(f64, Past)> {
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

/// Returns the descriptions of dependencies in an eventlog (RFC 18: one JSON object a line), in order. Each has a flag:
/// true if the dependency was added, false if it was removed.
pub fn read_dependency_history(eventlog: &str) -> Vec<(String, bool)> {
    #[derive(serde::Deserialize)]
    struct DependencyEntry {
        name: String,
        #[serde(default)]
        context: serde_json::Value,
    }
    let lines = eventlog.lines().filter(|line| line.contains("\"dependency-"));
    let entries = lines.filter_map(|line| serde_json::from_str::<DependencyEntry>(line).ok());
    let read_entry = |entry: DependencyEntry| {
        let added = match entry.name.as_str() {
            "dependency-add" => true,
            "dependency-remove" => false,
            _ => return None,
        };
        Some((entry.context.get("description")?.as_str()?.to_owned(), added))
    };
    entries.filter_map(read_entry).collect()
}
