// SPDX-License-Identifier: LGPL-3.0-only
//! `fairshare-embedded run`: runs a scenario in the embedded job manager and prints the actions of the plugin. A test
//! runs the same scenario in a real Flux instance and compares the outputs, so that the two do not diverge.
//!
//! The output is JSON lines. Each step has `{"step", "answers": [text or null], "ids": {job: id}, "states": {id: state}, "query",
//! "drift", "now", "trace": [[id, event, context, time], ..]}`, with all events in the order of handling. At the end of a step with
//! the member `wait`, the virtual time advances by this number of seconds.
//!
//! With `--trace` the command reads the steps from its input, one per line, and the steps of the scenario are empty.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;

use serde_json::{Map, Value, json};

use super::Outcome;
use fairshare_embedded::{Cred, Host, Options, Order, Shape, State, Submission};

const OWNER: Cred = Cred { userid: 0, rolemask: 1 };
/// The number of records in one part of a staged push.
const PART: usize = 3;
/// The value of an unlimited limit.
const UNLIMITED: i64 = i32::MAX as i64;

/// Play a scenario and print what the plugin did
#[derive(Debug, clap::Args)]
pub struct ScenarioArgs {
    /// JSON document of queues and steps
    scenario: PathBuf,
    /// The jobtap plugin, named mf_priority.so
    #[arg(long)]
    plugin: PathBuf,
    /// Read the steps from the input
    #[arg(long)]
    trace: bool,
    /// Path of a second plugin that the steps `add` and `drop` request to hold and release jobs
    #[arg(long)]
    keeper: Option<PathBuf>,
}

pub fn run(args: &ScenarioArgs) -> Outcome {
    let ScenarioArgs { scenario, plugin, trace, keeper } = args;
    let file_error = |error: &dyn std::fmt::Display| format!("{}: {error}", scenario.display());
    let text = fs::read_to_string(scenario).map_err(|error| file_error(&error))?;
    let document: Value = serde_json::from_str(&text).map_err(|error| file_error(&error))?;
    let queues = document.get("queues").and_then(Value::as_array).into_iter().flatten();
    let queues: Map<String, Value> =
        queues.filter_map(Value::as_str).map(|queue| (queue.to_owned(), json!({}))).collect();
    let options = Options {
        owner: OWNER.userid,
        priority_default: false,
        trace: true,
        nodes: document.get("nodes").and_then(Value::as_u64).map_or(4, |n| n as usize),
        queues: queues.keys().cloned().collect(),
        ..Options::default()
    };
    let host = Host::new(options)?;
    host.set_response("job-manager.queue-status", Some(r#"{"enable": true, "start": true}"#));
    let mut play = Play { host, plugin: plugin.clone(), ids: BTreeMap::new(), queues };
    document.get("virtual").into_iter().for_each(|parents| play.set_virtual_queues(parents));
    play.replace_config(&json!({}))?;
    let conf = make_plugin_conf(document.get("document").unwrap_or(&Value::Null));
    play.host.load(plugin, Some(&conf))?;
    keeper.iter().try_for_each(|keeper| play.host.load(keeper, None))?;
    if *trace {
        for (index, line) in io::stdin().lines().enumerate() {
            let step = serde_json::from_str(&line?)?;
            println!("{}", play.perform_traced_step(index, &step));
        }
    }
    let steps = document.get("steps").and_then(Value::as_array).ok_or_else(|| file_error(&"no steps"))?;
    for (index, step) in steps.iter().enumerate() {
        println!("{}", play.perform_traced_step(index, step));
    }
    match play.host.violations().as_slice() {
        [] => Ok(()),
        [first, ..] => Err(first.clone().into()),
    }
}

/// Returns the load-time configuration of the plugin, with `document` unless it is null. The snapshot is disabled,
/// because scenarios do not contain snapshots. The plugin uses the pushed fair-shares.
fn make_plugin_conf(document: &Value) -> Value {
    match document {
        Value::Null => json!({"remember": false, "live": false}),
        document => json!({"config": add_defaults(document), "remember": false, "live": false}),
    }
}

struct Play {
    host: Rc<Host>,
    plugin: PathBuf,
    ids: BTreeMap<String, u64>,
    /// The queues in Flux's configuration.
    queues: Map<String, Value>,
}

fn text<'a>(step: &'a Value, key: &str) -> Option<&'a str> {
    step.get(key).and_then(Value::as_str)
}

fn number(step: &Value, key: &str) -> u64 {
    step.get(key).and_then(Value::as_u64).unwrap_or(0)
}

impl Play {
    /// Performs one step. Returns the line that is printed for the step.
    fn perform_traced_step(&mut self, index: usize, step: &Value) -> Value {
        self.host.take_recorded_events();
        let answers = match step.get("batch").and_then(Value::as_array) {
            Some(batch) => self.submit_batch(batch),
            None => vec![self.perform_step(step).unwrap_or_else(Some)],
        };
        self.host.advance(step.get("wait").and_then(Value::as_f64).unwrap_or(0.0));
        let state = |id: &u64| (id.to_string(), json!(self.host.state(*id).map_or("INACTIVE", State::name)));
        let states: Map<String, Value> = self.ids.values().map(state).collect();
        let event = |(id, entry): (u64, Value)| {
            json!([id, entry.get("name"), entry.get("context"), entry.get("timestamp")])
        };
        let trace: Vec<Value> = self.host.take_recorded_events().into_iter().map(event).collect();
        let query = self.plugin.file_name().and_then(|name| self.host.query(&name.to_string_lossy()).ok());
        let check = self.host.request("job-manager.mf_priority.check", None, OWNER).ok().flatten();
        let check = check.and_then(|text| serde_json::from_str::<Value>(&text).ok());
        json!({"step": index, "answers": answers, "ids": self.ids, "states": states, "query": query,
            "drift": check.and_then(|check| check.get("drift").cloned()), "now": self.host.now(), "trace": trace})
    }

    /// Submits several jobs at once. Flux accepts all jobs before the first job continues.
    fn submit_batch(&mut self, batch: &[Value]) -> Vec<Option<String>> {
        let submissions: Vec<Submission> = batch.iter().map(|step| self.build_submission(step)).collect();
        let results = self.host.submit_batch(&submissions);
        let record = |(step, result): (&Value, Result<u64, String>)| {
            result.map(|id| self.ids.insert(text(step, "submit").unwrap_or_default().to_string(), id)).err()
        };
        batch.iter().zip(results).map(record).collect()
    }

    /// Performs one step. Returns the text of the rejection if the plugin or Flux rejects the step, which a scenario may expect.
    fn perform_step(&mut self, step: &Value) -> Result<Option<String>, String> {
        let mut verbs =
            "push data policy parts config restart reload load remove reprioritize submit".split(' ');
        step.get("virtual").into_iter().for_each(|parents| self.set_virtual_queues(parents));
        if let Some(verb) = verbs.find(|verb| step.get(*verb).is_some()) {
            let value = step.get(verb).unwrap_or(&Value::Null);
            return match verb {
                "submit" => Ok(self.submit(step).err()),
                other => self.perform_instance_command(other, value).map(|()| None),
            };
        }
        let find_job = |key: &str| text(step, key).and_then(|name| self.ids.get(name)).copied();
        let rejection = if let Some(id) = find_job("finish") {
            self.host.finish(id);
            None
        } else if let Some(id) = find_job("cancel") {
            self.host.cancel(id, OWNER).err()
        } else if let Some(id) = find_job("urgency") {
            self.host.set_urgency(id, number(step, "value") as i32, OWNER).err()
        } else if let Some(id) = find_job("update") {
            let keys = ["queue", "bank"];
            let key = keys.into_iter().find(|key| step.get(*key).is_some()).ok_or("update of what?")?;
            let value = step.get(key).cloned().unwrap_or_default();
            self.host.update(id, &[(&format!("attributes.system.{key}"), value)], OWNER).err()
        } else if let Some((id, method)) =
            ["add", "drop"].iter().find_map(|method| Some((find_job(method)?, method)))
        {
            let payload = json!({"id": id, "name": step.get("name")}).to_string();
            let topic = format!("job-manager.keeper.{method}");
            self.host.request(&topic, Some(&payload), OWNER).err()
        } else {
            return Err(format!("unknown step or job: {step}"));
        };
        Ok(rejection.map(|error| error.text))
    }

    fn perform_instance_command(&self, verb: &str, value: &Value) -> Result<(), String> {
        let conf = Some(make_plugin_conf(value));
        let basename = self.plugin.file_name().map(|name| name.to_string_lossy().into_owned());
        let basename = basename.ok_or("the plugin has no name")?;
        match verb {
            "restart" => self.host.restart_with_configuration(Order::Ascending, conf.as_ref()),
            "reload" => {
                self.host.remove(&basename)?;
                self.host.load(&self.plugin, conf.as_ref())
            }
            "remove" => self.host.remove(&basename),
            "load" => self.host.load(&self.plugin, conf.as_ref()),
            "reprioritize" => self.request("reprioritize", &json!({})).map(drop),
            "policy" => self.request("policy_update", &add_defaults(value)).map(drop),
            "parts" => self.push_in_parts(&add_defaults(value)),
            "config" => self.replace_config(value),
            _ => {
                self.push_records(value)?;
                if verb == "push" { self.request("reprioritize", &json!({})).map(drop) } else { Ok(()) }
            }
        }
    }

    fn push_records(&self, document: &Value) -> Result<(), String> {
        let document = add_defaults(document);
        let methods = [
            ("associations", "rec_update"),
            ("queues", "rec_q_update"),
            ("projects", "rec_proj_update"),
            ("banks", "rec_bank_update"),
            ("priority_factors", "rec_fac_update"),
            ("config", "rec_config_update"),
        ];
        methods.iter().try_for_each(|(key, method)| match document.get(key) {
            Some(data) => self.request(method, &json!({"data": data})).map(drop),
            None => Ok(()),
        })
    }

    /// Pushes a site document in parts of a few records.
    fn push_in_parts(&self, document: &Value) -> Result<(), String> {
        let begun = self.request("policy_begin", &json!({}))?;
        let push = begun.get("push").cloned().ok_or("policy_begin gives no number")?;
        for (kind, records) in document.as_object().into_iter().flatten() {
            let push_part =
                |records: Value| self.request("policy_part", &json!({"push": push, kind: records}));
            match records.as_array() {
                Some(records) if !records.is_empty() => {
                    records.chunks(PART).try_for_each(|some| push_part(some.into()).map(drop))?;
                }
                _ => push_part(records.clone()).map(drop)?,
            }
        }
        self.request("policy_commit", &json!({"push": push})).map(drop)
    }

    /// Sets the parent of each virtual queue, for the next configuration.
    fn set_virtual_queues(&mut self, parents: &Value) {
        for (queue, configured) in &mut self.queues {
            let parent = parents.get(queue);
            *configured = parent.map_or(json!({}), |parent| json!({"parent": parent}));
            let state = json!({"enable": true, "start": true, "parent": parent});
            let key = format!("job-manager.queue-status {queue}");
            self.host.set_response(&key, Some(&state.to_string()));
        }
    }

    /// Replaces the table `[fairshare]` of Flux's configuration.
    fn replace_config(&self, table: &Value) -> Result<(), String> {
        self.host.reload_config(&json!({"fairshare": table, "queues": self.queues})).map(drop)
    }

    fn request(&self, method: &str, payload: &Value) -> Result<Value, String> {
        let topic = format!("job-manager.mf_priority.{method}");
        let answer = self.host.request(&topic, Some(&payload.to_string()), OWNER);
        let text = answer.map_err(|error| format!("{method}: {}", error.text))?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or(Value::Null))
    }

    fn submit(&mut self, step: &Value) -> Result<(), String> {
        let submission = self.build_submission(step);
        let id = self.host.submit(&submission)?;
        let name = text(step, "submit").unwrap_or_default().to_string();
        self.ids.insert(name, id);
        Ok(())
    }

    fn build_submission(&self, step: &Value) -> Submission {
        let attributes: Vec<(&str, &str)> = ["queue", "bank", "project"]
            .into_iter()
            .filter_map(|key| Some((key, text(step, key)?)))
            .collect();
        let shape = Shape {
            nodes: number(step, "nodes"),
            tasks: number(step, "tasks"),
            // Without `cores` in the step, a task gets a whole node. The nodes have 4 cores.
            cores: step.get("cores").and_then(Value::as_u64).unwrap_or(4),
            duration: step.get("limit").and_then(Value::as_f64).unwrap_or(7200.0),
            attributes: &attributes,
        };
        let mut submission = Submission::simple(number(step, "user") as u32, &shape);
        if step.get("urgency").is_some() {
            submission.urgency = number(step, "urgency") as i32;
        }
        let gpus = number(step, "gpus");
        let slot = if shape.nodes > 0 { "/resources/0/with/0/with" } else { "/resources/0/with" };
        if let Some(slot) =
            submission.jobspec.pointer_mut(slot).and_then(Value::as_array_mut).filter(|_| gpus > 0)
        {
            slot.push(json!({"type": "gpu", "count": gpus}));
        }
        if let Some(system) =
            submission.jobspec.pointer_mut("/attributes/system").and_then(Value::as_object_mut)
        {
            // Without `run`, the job runs until a step finishes it.
            let test = text(step, "run").map_or(json!({"override": 1}), |run| json!({"run_duration": run}));
            system.insert("exec".into(), json!({"test": test}));
            let after = text(step, "after").and_then(|name| self.ids.get(name));
            let after = after.map(|id| json!({"scheme": "afterany", "value": id}));
            let keep = text(step, "keep").map(|name| json!({"scheme": "keep", "value": name}));
            let wanted: Vec<Value> = after.into_iter().chain(keep).collect();
            if !wanted.is_empty() {
                system.insert("dependencies".into(), wanted.into());
            }
            if let Some(name) = text(step, "keep_silently") {
                system.insert("keep_silently".into(), name.into());
            }
        }
        submission
    }
}

/// Adds default values for keys that the records of `document` lack.
fn add_defaults(document: &Value) -> Value {
    let fill_in = |defaults: Value, record: &Value| {
        let mut all = defaults.as_object().cloned().unwrap_or_default();
        all.extend(record.as_object().cloned().unwrap_or_default());
        Value::Object(all)
    };
    let mut document = document.clone();
    let Some(map) = document.as_object_mut() else { return document };
    for (kind, records) in map.iter_mut() {
        for record in records.as_array_mut().into_iter().flatten() {
            let defaults = match kind.as_str() {
                "associations" => json!({
                    "def_bank": "A", "fairshare": 0.5, "max_running_jobs": UNLIMITED, "max_active_jobs": UNLIMITED,
                    "max_sched_jobs": UNLIMITED, "max_nodes": UNLIMITED, "max_cores": UNLIMITED, "queues": "",
                    "active": 1, "projects": "*", "def_project": "*",
                }),
                "queues" => json!({
                    "priority": 0, "min_nodes_per_job": 0, "max_nodes_per_job": UNLIMITED, "max_time_per_job": UNLIMITED,
                    "max_running_jobs": UNLIMITED, "max_nodes_per_assoc": UNLIMITED, "max_sched_jobs": UNLIMITED,
                    "max_sched_nodes_per_assoc": UNLIMITED, "max_sched_cores_per_assoc": UNLIMITED,
                }),
                _ => json!({}),
            };
            *record = fill_in(defaults, record);
        }
    }
    document
}
