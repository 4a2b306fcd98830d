// SPDX-License-Identifier: LGPL-3.0-only
//! What the engine needs to know of a jobspec (RFC 14, RFC 25).

use super::resources::resources;
use crate::jobtap::{JobArgs, Json};
use fairshare_engine::engine::{JobFacts, Past, State};
use fairshare_engine::ids::{JobId, UserId};
use fairshare_engine::limits::{Kind, Resources, Size, SizeError, Vertex, measure};
use std::ffi::CStr;

/// `attributes.system` is missing, or a member of it that should be text is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable;

/// The state behind an RFC 21 state bit.
pub fn state(bit: i64) -> State {
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

/// The facts of a job. Bank, queue or project that can't be read is an error.
pub fn facts<'a>(job: &JobArgs<'a>) -> Result<JobFacts<'a>, Unreadable> {
    let system = system(job.jobspec).filter(|system| system.is_object()).ok_or(Unreadable)?;
    let text = |key: &CStr| system.get(key).map(|value| value.as_str().ok_or(Unreadable)).transpose();
    Ok(JobFacts {
        id: JobId(job.id),
        user: UserId(job.userid),
        state: state(job.state),
        urgency: job.urgency,
        priority: job.priority,
        bank: text(c"bank")?,
        queue: text(c"queue")?,
        project: text(c"project")?,
        size: size(job.jobspec, Some(system)),
        submitted: job.submitted,
        duration: duration(Some(system)),
        resources: resources(job.resources),
    })
}

/// The facts of a job that was accepted once: what is not text counts as absent.
pub fn lenient_facts<'a>(job: &JobArgs<'a>) -> JobFacts<'a> {
    let size = size(job.jobspec, system(job.jobspec));
    JobFacts { size, resources: resources(job.resources), ..brief_facts(job) }
}

/// The same of a job that is known, for whoever asks about it: what it asks for and was given is not measured again. Its user makes a
/// jobspec as long as he likes, and may ask about a hundred at once.
pub fn brief_facts<'a>(job: &JobArgs<'a>) -> JobFacts<'a> {
    let system = system(job.jobspec);
    let text = |key: &CStr| system?.get(key)?.as_str();
    JobFacts {
        id: JobId(job.id),
        user: UserId(job.userid),
        state: state(job.state),
        urgency: job.urgency,
        priority: job.priority,
        bank: text(c"bank"),
        queue: text(c"queue"),
        project: text(c"project"),
        size: Ok(Size::ONE),
        submitted: job.submitted,
        duration: duration(system),
        resources: Resources::None,
    }
}

/// Returns `attributes.system`.
fn system(jobspec: Json<'_>) -> Option<Json<'_>> {
    jobspec.get(c"attributes")?.get(c"system")
}

/// The time limit; 0 where it is none. Not a filter on the option: compilers compare first what may not be there, which memcheck
/// reports.
fn duration(system: Option<Json<'_>>) -> f64 {
    let seconds = system.and_then(|system| system.get(c"duration")?.as_number()).unwrap_or(0.0);
    if seconds.is_finite() { seconds.max(0.0) } else { 0.0 }
}

/// Whether the jobspec declares dependencies, by which other plugins will keep the job in DEPEND.
pub fn has_dependencies(jobspec: Json<'_>) -> bool {
    let list = system(jobspec).and_then(|system| system.get(c"dependencies"));
    list.is_some_and(|list| list.items().next().is_some())
}

fn size(jobspec: Json<'_>, system: Option<Json<'_>>) -> Result<Size, SizeError> {
    let malformed = |what: &str| Err(SizeError::Malformed(what.to_owned()));
    if jobspec.get(c"version").and_then(Json::as_int).is_none() {
        return malformed("version is not an integer");
    }
    if system.and_then(|system| system.get(c"duration")?.as_number()).is_none() {
        return malformed("attributes.system.duration is not a number");
    }
    match jobspec.get(c"resources") {
        Some(resources) if resources.is_array() => measure(&flatten(resources)?),
        Some(other) => malformed(&format!("resources is {}, not an array", other.describe())),
        None => malformed("resources is missing"),
    }
}

/// The resource tree in depth-first order.
fn flatten(resources: Json<'_>) -> Result<Vec<Vertex>, SizeError> {
    let mut vertices = Vec::new();
    /// Pushes the members so that the first comes off first.
    fn push<'a>(stack: &mut Vec<(Json<'a>, usize)>, array: Json<'a>, depth: usize) {
        let from = stack.len();
        stack.extend(array.items().map(|member| (member, depth)));
        if let Some(added) = stack.get_mut(from..) {
            added.reverse();
        }
    }
    let mut stack = Vec::new();
    push(&mut stack, resources, 0);
    while let Some((member, depth)) = stack.pop() {
        vertices.push(vertex(member, depth)?);
        match member.get(c"with") {
            Some(below) if below.is_array() => push(&mut stack, below, depth + 1),
            Some(other) => {
                return Err(SizeError::Malformed(format!(
                    "'with' of a resource is {}, not an array",
                    other.describe()
                )));
            }
            None => {}
        }
    }
    Ok(vertices)
}

fn vertex(member: Json<'_>, depth: usize) -> Result<Vertex, SizeError> {
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
                let what = count.describe();
                return Err(SizeError::Malformed(format!(
                    "count of {name} is {what}, not an integer (no ranges)"
                )));
            }
        },
    };
    Ok(Vertex { depth, kind, count })
}

/// The outstanding dependencies that job-list tells of a job; `None` if it does not tell.
pub fn outstanding_dependencies(reply: &str) -> Option<Vec<String>> {
    #[derive(serde::Deserialize)]
    struct Reply {
        job: Job,
    }
    #[derive(serde::Deserialize)]
    struct Job {
        /// Absent where there are none.
        #[serde(default)]
        dependencies: Vec<String>,
    }
    serde_json::from_str(reply).ok().map(|reply: Reply| reply.job.dependencies)
}

/// What an eventlog tells of how long its job was eligible and when it began to run: urgencies, dependencies and the allocation with
/// their times, in order.
pub fn eligible_history(eventlog: &str) -> Vec<(f64, Past)> {
    #[derive(serde::Deserialize)]
    struct Entry<'a> {
        timestamp: f64,
        name: &'a str,
        #[serde(default)]
        context: serde_json::Value,
    }
    let names = ["\"submit\"", "\"validate\"", "\"alloc\"", "\"urgency\"", "\"dependency-"];
    let lines = eventlog.lines().filter(|line| names.iter().any(|name| line.contains(name)));
    let change = |line: &str| {
        let Entry { timestamp, name, context } = serde_json::from_str(line).ok()?;
        let of_name = |added| {
            let description = context.get("description")?.as_str()?;
            Some(Past::Dependency(description.to_owned(), added))
        };
        let past = match name {
            "submit" | "urgency" => Past::Urgency(context.get("urgency")?.as_i64()?),
            "validate" => Past::Accepted,
            "alloc" => Past::Allocated,
            "dependency-add" => of_name(true)?,
            "dependency-remove" => of_name(false)?,
            _ => return None,
        };
        Some((timestamp, past))
    };
    lines.filter_map(change).collect()
}

/// What an eventlog (RFC 18: one JSON object a line) says of dependencies: descriptions added and removed, in order.
pub fn dependency_history(eventlog: &str) -> Vec<(String, bool)> {
    #[derive(serde::Deserialize)]
    struct Entry {
        name: String,
        #[serde(default)]
        context: serde_json::Value,
    }
    let lines = eventlog.lines().filter(|line| line.contains("\"dependency-"));
    let entries = lines.filter_map(|line| serde_json::from_str::<Entry>(line).ok());
    let change = |entry: Entry| {
        let added = match entry.name.as_str() {
            "dependency-add" => true,
            "dependency-remove" => false,
            _ => return None,
        };
        Some((entry.context.get("description")?.as_str()?.to_owned(), added))
    };
    entries.filter_map(change).collect()
}
