// SPDX-License-Identifier: LGPL-3.0-only
//! Makes the jobspec that Flux would give the plugin: from options of `flux submit` or a file, with the site's defaults.

use std::fs;
use std::io::{self, Read};

use clap::{CommandFactory, Parser};
use serde_json::{Map, Value, json};

use super::suggestion::Reason;
use crate::outcome::{Result, failure};
use crate::ui::figures::exact_duration;
use crate::ui::printable::printable;
use fairshare_engine::engine::answers::{CheckedJob, RejectionCause};
use fairshare_engine::priority::{URGENCY_DEFAULT, URGENCY_EXPEDITE, URGENCY_HOLD};
use fairshare_protocol::settings::parse_duration;

/// The attributes in `attributes.system` that the plugin reads.
const READ: [&str; 5] = ["bank", "queue", "project", "duration", "dependencies"];

/// Options of `flux submit` that decide how the plugin treats a job.
#[derive(Debug, Parser)]
#[command(name = "flux fairshare check", no_binary_name = true, disable_help_flag = true)]
pub(crate) struct SubmitArgs {
    /// Number of nodes
    #[arg(short = 'N', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    nodes: Option<u64>,
    /// Number of tasks
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    ntasks: Option<u64>,
    /// Cores of each task
    #[arg(short = 'c', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    cores_per_task: Option<u64>,
    /// GPUs of each task
    #[arg(short = 'g', long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    gpus_per_task: Option<u64>,
    /// Time limit; minutes, or a number with s, m, h or d
    #[arg(short = 't', long, value_name = "TIME", value_parser = parse_time_limit)]
    time_limit: Option<f64>,
    /// Queue
    #[arg(short = 'q', long, value_name = "NAME")]
    queue: Option<String>,
    /// Bank
    #[arg(short = 'B', long, value_name = "NAME")]
    bank: Option<String>,
    /// Urgency, 0 to 31, hold, expedite or default
    #[arg(long, value_name = "N", value_parser = parse_urgency)]
    urgency: Option<i64>,
    /// Attribute, such as system.project=NAME
    #[arg(short = 'S', long, value_name = "ATTR=VALUE")]
    setattr: Vec<String>,
    /// An option of the command itself, which may follow those of flux submit
    #[arg(short, long, hide = true)]
    pub(crate) user: Option<String>,
    /// An option of the command itself, which may follow those of flux submit
    #[arg(long, hide = true)]
    pub(crate) json: bool,
    /// A jobspec; after options, the command of the job, which is ignored
    #[arg(trailing_var_arg = true)]
    words: Vec<String>,
}

/// Returns the names of the configured queues, for the message that a queue is invalid or missing.
pub(super) fn list_queues(config: &Value) -> String {
    let queues = config.get("queues").and_then(Value::as_object);
    let names: Vec<&str> = queues.into_iter().flat_map(Map::keys).map(String::as_str).collect();
    if names.is_empty() { "no queues".to_owned() } else { format!("queues: {}", names.join(", ")) }
}

/// The jobspec and the urgency of a job to check.
#[derive(Debug, PartialEq)]
pub(crate) struct JobToCheck {
    pub(crate) jobspec: Value,
    pub(crate) urgency: i64,
}

/// The error if a jobspec and options that describe a job are given.
const BOTH: &str = "expected a jobspec, which describes the whole job, or options of flux submit, not both";

/// Parses a time limit, in minutes or as a Flux Standard Duration. Returns seconds.
fn parse_time_limit(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().ok().map(|minutes| minutes * 60.0).or_else(|| parse_duration(text));
    let seconds = seconds.filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
    seconds.ok_or_else(|| "expected minutes, or a number with s, m, h or d, such as 1.5h".to_owned())
}

fn parse_urgency(text: &str) -> Result<i64, String> {
    match text {
        "hold" => Some(URGENCY_HOLD),
        "default" => Some(URGENCY_DEFAULT),
        "expedite" => Some(URGENCY_EXPEDITE),
        number => number.parse().ok().filter(|urgency| (URGENCY_HOLD..=URGENCY_EXPEDITE).contains(urgency)),
    }
    .ok_or_else(|| "expected a number from 0 to 31, hold, expedite or default".to_owned())
}

impl SubmitArgs {
    /// Parses `words` as the options and arguments of `flux submit`.
    pub(crate) fn read(words: &[String]) -> Result<SubmitArgs> {
        let plain = |error: clap::Error| {
            let text = error.render().to_string();
            let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
            let is_unknown = error.kind() == clap::error::ErrorKind::UnknownArgument;
            let other = if is_unknown {
                "; for other options: flux submit --dry-run OPTIONS COMMAND | flux fairshare check -"
            } else {
                ""
            };
            failure(format!("{first}; \"flux fairshare check --help\" lists the options{other}"))
        };
        let args = SubmitArgs::try_parse_from(words).map_err(plain)?;
        match args.words.as_slice() {
            [path] if path != "-" && !args.has_no_shape() && read_jobspec(path).is_ok() => Err(failure(BOTH)),
            [_, rest @ ..] if args.has_no_shape() && !rest.is_empty() => {
                let more = SubmitArgs::try_parse_from(rest).map_err(plain)?;
                if !more.has_no_shape() || !more.words.is_empty() {
                    return Err(failure(BOTH));
                }
                Ok(SubmitArgs {
                    urgency: more.urgency.or(args.urgency),
                    user: more.user.or(args.user),
                    json: args.json || more.json,
                    ..args
                })
            }
            _ => Ok(args),
        }
    }

    /// Returns the path of the jobspec: the first word, if no option describes the job.
    fn jobspec_path(&self) -> Option<&String> {
        self.words.first().filter(|_| self.has_no_shape())
    }

    /// Returns the job that the options or the jobspec describe.
    pub(crate) fn job(&self) -> Result<JobToCheck> {
        let jobspec = match self.jobspec_path() {
            Some(path) => read_jobspec(path)?,
            None => self.jobspec()?,
        };
        Ok(JobToCheck { jobspec, urgency: self.urgency.unwrap_or(URGENCY_DEFAULT) })
    }

    /// Returns the arguments of `flux submit` for this job, with `options` in place of the job's own values. Returns `None` if the caller
    /// gave a jobspec.
    pub(crate) fn words_with(&self, options: &[String]) -> Option<Vec<String>> {
        let mut all: Vec<String> =
            options.iter().flat_map(|option| option.splitn(2, ' ')).map(str::to_owned).collect();
        let is_changed = |option: &str| options.iter().any(|changed| changed.starts_with(option));
        // With fewer nodes, the number of tasks on each node stays the same.
        let ntasks = self.ntasks.map(|ntasks| {
            match (self.nodes, options.iter().find_map(|it| it.strip_prefix("-N ")?.parse().ok())) {
                (Some(before), Some::<u64>(nodes)) => ntasks.div_ceil(before) * nodes,
                _ => ntasks,
            }
        });
        let text = |number: Option<u64>| number.map(|number| number.to_string());
        let kept = [
            ("-q", self.queue.clone()),
            ("-B", self.bank.clone()),
            ("-t", self.time_limit.map(|seconds| format!("{seconds}s"))),
            ("-N", text(self.nodes)),
            ("-n", text(ntasks)),
            ("-c", text(self.cores_per_task)),
            ("-g", text(self.gpus_per_task)),
            ("--urgency", self.urgency.map(|urgency| urgency.to_string())),
        ];
        for (option, value) in kept {
            let value = value.filter(|_| !is_changed(option));
            all.extend(value.into_iter().flat_map(|value| [option.to_owned(), value]));
        }
        all.extend(self.setattr.iter().flat_map(|attribute| ["-S".to_owned(), attribute.clone()]));
        let command = if self.words.is_empty() { &["COMMAND".to_owned()] } else { self.words.as_slice() };
        all.extend_from_slice(command);
        self.jobspec_path().is_none().then_some(all)
    }

    fn has_no_shape(&self) -> bool {
        let counts = [self.nodes, self.ntasks, self.cores_per_task, self.gpus_per_task];
        counts.iter().all(Option::is_none)
            && self.time_limit.is_none()
            && self.queue.is_none()
            && self.bank.is_none()
            && self.setattr.is_empty()
    }

    /// Returns the jobspec that `flux submit` makes of these options, without the attributes that the plugin does not read.
    fn jobspec(&self) -> Result<Value> {
        let ntasks = self.ntasks.or(self.nodes).unwrap_or(1);
        let mut with = vec![json!({"type": "core", "count": self.cores_per_task.unwrap_or(1)})];
        with.extend(
            self.gpus_per_task.filter(|gpus| *gpus > 0).map(|gpus| json!({"type": "gpu", "count": gpus})),
        );
        let slot = |count: u64| json!({"type": "slot", "label": "task", "count": count, "with": with});
        let resources = match self.nodes {
            None => slot(ntasks),
            Some(nodes) if nodes > ntasks => {
                return Err(failure("node count must not be greater than task count"));
            }
            Some(nodes) => json!({"type": "node", "count": nodes, "with": [slot(ntasks.div_ceil(nodes))]}),
        };
        let mut system = Map::from_iter([("duration".to_owned(), json!(self.time_limit.unwrap_or(0.0)))]);
        system.extend(self.queue.as_ref().map(|queue| ("queue".to_owned(), json!(queue))));
        system.extend(self.bank.as_ref().map(|bank| ("bank".to_owned(), json!(bank))));
        let mut attributes = json!({ "system": system });
        for attribute in &self.setattr {
            set_attribute(&mut attributes, attribute);
        }
        Ok(remove_unread_members(&json!({"version": 1, "resources": [resources], "attributes": attributes})))
    }
}

/// Sets the attribute `NAME=VALUE` as `flux submit --setattr` does. A name without a leading dot, `system.` or `user.` is below `system`. A
/// value that is not JSON is a text.
fn set_attribute(attributes: &mut Value, text: &str) {
    let (name, value) = text.split_once('=').unwrap_or((text, "1"));
    let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
    let name = match name.strip_prefix('.') {
        Some(name) => name.to_owned(),
        None if name.starts_with("system.") || name.starts_with("user.") => name.to_owned(),
        None => format!("system.{name}"),
    };
    let mut target = attributes;
    for part in name.split('.') {
        if !target.is_object() {
            *target = json!({});
        }
        target = &mut target[part];
    }
    *target = value;
}

fn read_jobspec(path: &str) -> Result<Value> {
    let shown = printable(path);
    let mut text = String::new();
    let read = match path {
        "-" => io::stdin().read_to_string(&mut text).map(|_| text),
        path => fs::read_to_string(path),
    };
    let text = read.map_err(|error| failure(format!("can't read the jobspec {shown}: {error}")))?;
    let jobspec: Value = serde_json::from_str(&text)
        .map_err(|error| failure(format!("{shown} is not a jobspec in JSON: {error}")))?;
    if !jobspec.is_object() {
        return Err(failure(format!("{shown} is not a jobspec: expected a JSON object")));
    }
    Ok(remove_unread_members(&jobspec))
}

/// Returns a jobspec with only the members that the plugin reads. A job's environment could make the request too long.
fn remove_unread_members(jobspec: &Value) -> Value {
    let mut short = Map::new();
    for key in ["version", "resources"] {
        short.extend(jobspec.get(key).map(|value| (key.to_owned(), value.clone())));
    }
    let system = jobspec.pointer("/attributes/system").and_then(Value::as_object);
    if let Some(system) = system {
        let read = READ.iter().filter_map(|key| Some(((*key).to_owned(), system.get(*key)?.clone())));
        short.insert("attributes".to_owned(), json!({"system": Map::from_iter(read)}));
    }
    Value::Object(short)
}

/// Adds the defaults of Flux's configuration to a jobspec, as Flux does before the plugin gets it. Fails with the text with which Flux
/// rejects the job, which lacks the list of queues.
pub(crate) fn apply_defaults(jobspec: &mut Value, config: &Value) -> Result<(), String> {
    const DEFAULTS: &str = "/policy/jobspec/defaults/system";
    if !config.is_object() {
        return Ok(());
    }
    let has_frobnicator =
        config.pointer("/ingest/frobnicator/disable").and_then(Value::as_bool) != Some(true);
    let Some(system) = jobspec.pointer_mut("/attributes/system").and_then(Value::as_object_mut) else {
        return Ok(());
    };
    let members = |table: Option<&Value>| table.and_then(Value::as_object).cloned().unwrap_or_default();
    let queues = members(config.get("queues"));
    let mut defaults = members(config.pointer(DEFAULTS).filter(|_| has_frobnicator));
    let queue = system.get("queue").or(defaults.get("queue")).and_then(Value::as_str).map(str::to_owned);
    match queue {
        None if !queues.is_empty() => {
            let text = if has_frobnicator { "no queue specified" } else { "a named queue is required" };
            return Err(text.to_owned());
        }
        Some(queue) => {
            // Without queues, the frobnicator leaves the check to the job manager.
            let refusal = || match has_frobnicator && !queues.is_empty() {
                true => format!("Invalid queue '{queue}' specified"),
                false => format!("'{queue}' is not a valid queue"),
            };
            let own = queues.get(&queue).ok_or_else(refusal)?;
            let parent = own.get("parent").and_then(Value::as_str).and_then(|parent| queues.get(parent));
            for table in [parent, Some(own)].into_iter().flatten() {
                defaults.extend(members(table.pointer(DEFAULTS)));
            }
        }
        None => {}
    }
    if !has_frobnicator {
        return Ok(());
    }
    for (key, value) in defaults.into_iter().filter(|(key, _)| READ.contains(&key.as_str())) {
        let is_given = match (key.as_str(), system.get(&key)) {
            ("duration", Some(given)) => given.as_f64() != Some(0.0),
            (_, given) => given.is_some(),
        };
        let seconds = value.as_str().filter(|_| key == "duration").and_then(parse_duration);
        if !is_given {
            system.insert(key, seconds.map_or(value, |seconds| json!(seconds)));
        }
    }
    Ok(())
}

/// Returns the text with which Flux rejects a job for its duration or size, by the limits in Flux's configuration. Limits of the queue take
/// precedence over limits of its parent queue and of the instance. The text has exact durations; Flux rounds them to two digits.
pub(super) fn exceeds_policy_limit(job: &CheckedJob, jobspec: &Value, config: &Value) -> Option<Reason> {
    let queue = job.queue.as_ref().map(|queue| queue.as_str());
    let own = queue.and_then(|queue| config.get("queues")?.get(queue));
    let parent = own.and_then(|own| config.get("queues")?.get(own.get("parent")?.as_str()?));
    let tables = [own, parent, Some(config)];
    let find = |path: &str| {
        let path = format!("/policy/limits/{path}");
        tables.iter().flatten().find_map(|table| table.pointer(&path))
    };
    let of_queue = queue.map(|queue| format!(" for queue {queue}")).unwrap_or_default();
    let longest =
        find("duration").and_then(Value::as_str).and_then(parse_duration).filter(|limit| *limit > 0.0);
    let duration = job.duration.filter(|seconds| *seconds > 0.0);
    if let Some(limit) = longest.filter(|limit| duration.is_none_or(|seconds| seconds > *limit)) {
        let requested = duration.map_or("unlimited".to_owned(), exact_duration);
        let limit = exact_duration(limit);
        let text = format!("requested duration ({requested}) exceeds policy limit of {limit}{of_queue}");
        return Some(Reason { cause: RejectionCause::TimeLimit, text });
    }
    // Flux counts 0 nodes if the jobspec requests cores only.
    let has_nodes = jobspec.get("resources").is_some_and(requests_nodes);
    let sizes =
        [("nnodes", if has_nodes { job.nodes } else { 0 }), ("ncores", job.cores), ("ngpus", job.gpus)];
    let exceeds = |bound: &str, (name, size): (&str, u64)| {
        let limit = find(&format!("job-size/{bound}/{name}"))?.as_u64()?;
        let is_outside = if bound == "max" { size > limit } else { size < limit };
        let verb = if bound == "max" { "exceeds" } else { "is under" };
        is_outside.then(|| format!("requested {name} ({size}) {verb} policy limit of {limit}{of_queue}"))
    };
    let text = ["max", "min"]
        .into_iter()
        .find_map(|bound| sizes.into_iter().find_map(|size| exceeds(bound, size)))?;
    Some(Reason { cause: RejectionCause::Size, text })
}

/// Returns true if a resource in `resources` of a jobspec is a node.
fn requests_nodes(resources: &Value) -> bool {
    let is_node = |resource: &Value| {
        resource.get("type") == Some(&json!("node")) || resource.get("with").is_some_and(requests_nodes)
    };
    resources.as_array().is_some_and(|resources| resources.iter().any(is_node))
}

/// Returns the options for the help of the command.
pub(crate) fn help() -> String {
    let mut text = "Options of flux submit:\n".to_owned();
    for option in SubmitArgs::command().get_arguments().filter(|option| !option.is_hide_set()) {
        let (Some(long), Some(about)) = (option.get_long(), option.get_help()) else {
            continue;
        };
        let letter = option.get_short().map_or("    ".to_owned(), |letter| format!("-{letter}, "));
        let value = option.get_value_names().and_then(<[_]>::first).map_or("", |name| name.as_str());
        text.push_str(&format!("  {:<30}{about}\n", format!("{letter}--{long}={value}")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<JobToCheck, String> {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        SubmitArgs::read(&words).and_then(|args| args.job()).map_err(|failure| failure.to_string())
    }

    #[test]
    fn the_command_check_builds_the_same_jobspec_as_flux_submit() {
        let job = read(&[
            "-N2",
            "-n4",
            "-c",
            "3",
            "-g1",
            "-t1.5h",
            "-q",
            "debug",
            "--bank=phys",
            "--urgency=20",
            "-Sproject=p",
        ]);
        let jobspec = json!({
            "version": 1,
            "resources": [{"type": "node", "count": 2, "with": [{"type": "slot", "label": "task", "count": 2,
                "with": [{"type": "core", "count": 3}, {"type": "gpu", "count": 1}]}]}],
            "attributes": {"system": {"duration": 5400.0, "queue": "debug", "bank": "phys", "project": "p"}},
        });
        assert_eq!(job, Ok(JobToCheck { jobspec, urgency: 20 }));
        let job = read(&["-n", "5", "-t", "10", "-S", "system.project=p", "./a.out", "-N", "x"]).unwrap();
        assert_eq!(job.jobspec["resources"][0]["count"], 5);
        assert_eq!(job.jobspec["attributes"]["system"], json!({"duration": 600.0, "project": "p"}));
        // As in flux submit, the number of tasks per node is rounded up.
        assert_eq!(read(&["-N2", "-n3"]).unwrap().jobspec["resources"][0]["with"][0]["count"], 2);
        assert_eq!(read(&["-N4"]).unwrap().jobspec["resources"][0]["with"][0]["count"], 1);
    }

    const JSON_FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schemas/check.json");

    #[test]
    fn a_suggested_flux_submit_command_has_the_changed_options_first() {
        let with = |words: &[&str], options: &[&str]| {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            let options: Vec<String> = options.iter().map(ToString::to_string).collect();
            SubmitArgs::read(&words).unwrap().words_with(&options).map(|words| words.join(" "))
        };
        let words = ["-qdebugg", "-N9", "-n", "18", "-t5m", "-Sproject=p", "./a.out", "-x"];
        for (options, expected) in [
            (&["-q debug"][..], "-q debug -t 300s -N 9 -n 18 -S project=p ./a.out -x"),
            (&["-t 1m", "-N 4"], "-t 1m -N 4 -q debugg -n 8 -S project=p ./a.out -x"),
        ] {
            assert_eq!(with(&words, options).as_deref(), Some(expected));
        }
        assert_eq!(with(&["-n2"], &["-B chem"]).as_deref(), Some("-B chem -n 2 COMMAND"));
        assert_eq!(with(&[JSON_FILE], &["-B chem"]), None);
        let words = SubmitArgs::read(&[]).unwrap().words_with(&["-B my bank".to_owned()]);
        assert_eq!(words.unwrap(), ["-B", "my bank", "COMMAND"]);
    }

    #[test]
    fn an_error_in_the_options_is_one_sentence() {
        let help = "; \"flux fairshare check --help\" lists the options";
        for (words, text) in [
            (&["job.json", "-q", "debug"][..], BOTH.to_owned()),
            (&["-q", "debug", JSON_FILE], BOTH.to_owned()),
            (&["-N3", "-n2"][..], "node count must not be greater than task count".to_owned()),
            (&["-N0"], format!("invalid value '0' for '--nodes <N>': 0 is not in 1..=1000000{help}")),
            (
                &["--exclusive"],
                format!(
                    "unexpected argument '--exclusive' found{help}; for other options: flux submit --dry-run OPTIONS COMMAND | flux fairshare check -"
                ),
            ),
            (
                &["/nonexistent"],
                "can't read the jobspec /nonexistent: No such file or directory (os error 2)".to_owned(),
            ),
        ] {
            assert_eq!(read(words), Err(text), "{words:?}");
        }
    }

    #[test]
    fn limits_of_the_queue_replace_limits_of_its_parent_and_of_the_instance() {
        let config = json!({
            "policy": {"limits": {"duration": "2h", "job-size": {"max": {"nnodes": 4, "ngpus": -1}, "min": {"ncores": 2}}}},
            "queues": {"batch": {}, "debug": {"policy": {"limits": {"duration": "1h", "job-size": {"max": {"nnodes": 1}}}}},
                "sub": {"parent": "debug", "policy": {"limits": {"job-size": {"max": {"nnodes": -1}}}}},
                "long": {"policy": {"limits": {"duration": "0"}}}},
        });
        for (queue, duration, [nodes, cores, gpus], refusal) in [
            (Some("batch"), Some(7200.0), [4, 8, 9], None),
            (
                Some("batch"),
                None,
                [4, 8, 0],
                Some("duration (unlimited) exceeds policy limit of 2h for queue batch"),
            ),
            (
                Some("batch"),
                Some(60.0),
                [5, 8, 0],
                Some("nnodes (5) exceeds policy limit of 4 for queue batch"),
            ),
            (
                Some("batch"),
                Some(60.0),
                [1, 1, 0],
                Some("ncores (1) is under policy limit of 2 for queue batch"),
            ),
            (
                Some("debug"),
                Some(5400.0),
                [1, 2, 0],
                Some("duration (1h 30m) exceeds policy limit of 1h for queue debug"),
            ),
            (
                Some("sub"),
                Some(5400.0),
                [1, 2, 0],
                Some("duration (1h 30m) exceeds policy limit of 1h for queue sub"),
            ),
            (Some("sub"), Some(60.0), [9, 9, 0], None),
            (Some("long"), None, [1, 2, 0], None),
            (None, Some(9000.0), [1, 2, 0], Some("duration (2h 30m) exceeds policy limit of 2h")),
        ] {
            let queue = queue.map(Into::into);
            let job = CheckedJob { queue, duration, nodes, cores, gpus, ..CheckedJob::default() };
            let jobspec = json!({"resources": [{"type": "node"}]});
            let refusal = refusal.map(|text| format!("requested {text}"));
            assert_eq!(exceeds_policy_limit(&job, &jobspec, &config).map(|reason| reason.text), refusal);
        }
        let job = CheckedJob { nodes: 5, cores: 5, duration: Some(1.0), ..CheckedJob::default() };
        assert_eq!(exceeds_policy_limit(&job, &json!({"resources": [{"type": "slot"}]}), &config), None);
        assert_eq!(exceeds_policy_limit(&job, &Value::Null, &Value::Null), None);
    }

    #[test]
    fn defaults_of_the_site_and_of_the_queue_are_added() {
        let config = json!({
            "policy": {"jobspec": {"defaults": {"system": {"queue": "batch", "duration": "1h"}}}},
            "queues": {"batch": {}, "long": {"policy": {"jobspec": {"defaults": {"system": {"duration": "2d"}}}}},
                "sub": {"parent": "long"}},
        });
        for (words, queue, duration) in [
            (&["-n1"][..], "batch", 3600.0),
            (&["-qlong"], "long", 172_800.0),
            (&["-qsub"], "sub", 172_800.0),
            (&["-qlong", "-t5"], "long", 300.0),
        ] {
            let mut job = read(words).unwrap();
            assert_eq!(apply_defaults(&mut job.jobspec, &config), Ok(()));
            assert_eq!(job.jobspec["attributes"]["system"], json!({"queue": queue, "duration": duration}));
        }
        let mut job = read(&["-qnone"]).unwrap();
        assert_eq!(
            apply_defaults(&mut job.jobspec, &config),
            Err("Invalid queue 'none' specified".to_owned())
        );
        assert_eq!(list_queues(&config), "queues: batch, long, sub");
        let mut job = read(&["-n1"]).unwrap();
        let without = json!({"queues": {"batch": {}}});
        assert_eq!(apply_defaults(&mut job.jobspec, &without), Err("no queue specified".to_owned()));
        let disabled = json!({"queues": {"batch": {}}, "ingest": {"frobnicator": {"disable": true}}});
        assert_eq!(apply_defaults(&mut job.jobspec, &disabled), Err("a named queue is required".to_owned()));
        let mut job = read(&["-qnone"]).unwrap();
        for (config, queues) in [(&disabled, "queues: batch"), (&json!({}), "no queues")] {
            assert_eq!(
                apply_defaults(&mut job.jobspec, config),
                Err("'none' is not a valid queue".to_owned())
            );
            assert_eq!(list_queues(config), queues);
        }
        assert_eq!(apply_defaults(&mut job.jobspec, &Value::Null), Ok(()), "the configuration is unknown");
    }
}
