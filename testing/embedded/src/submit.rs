// SPDX-License-Identifier: LGPL-3.0-only
//! Requests of users: submitting, cancelling, changing the urgency.

use serde_json::{Map, Value, json};

use super::abi::{Args, IN};
use super::host::Host;
use super::job::{Errno, Job, State};
use super::service::{Cred, RequestError};

/// A job to submit.
#[derive(Clone, Debug)]
pub struct Submission {
    /// User id.
    pub userid: u32,
    /// 0 to 31; the default is 16.
    pub urgency: i32,
    /// Jobspec (RFC 25).
    pub jobspec: Value,
}

/// Parameters of a job for [`Submission::simple`].
#[derive(Clone, Debug, Default)]
pub struct Shape<'a> {
    /// Number of nodes, or 0 if the job requests only cores.
    pub nodes: u64,
    /// Number of tasks (slots): for each node, or in total if `nodes` is 0.
    pub tasks: u64,
    /// Cores per task.
    pub cores: u64,
    /// Time limit in seconds, or 0 if the job runs until [`Host::finish`].
    pub duration: f64,
    /// `attributes.system` strings: queue, bank, project.
    pub attributes: &'a [(&'a str, &'a str)],
}

impl Submission {
    /// Makes a job with the default urgency. If the number of tasks or of cores is 0, the job gets 1.
    pub fn simple(userid: u32, shape: &Shape) -> Submission {
        let slot = json!({"type": "slot", "count": shape.tasks.max(1), "label": "task",
            "with": [{"type": "core", "count": shape.cores.max(1)}]});
        let resource = match shape.nodes {
            0 => slot,
            nodes => json!({"type": "node", "count": nodes, "with": [slot]}),
        };
        let mut system: Map<String, Value> = Map::new();
        system.insert("duration".into(), json!(shape.duration));
        system.extend(shape.attributes.iter().map(|(key, value)| (key.to_string(), json!(value))));
        let jobspec = json!({
            "version": 1, "resources": [resource],
            "tasks": [{"command": ["job"], "slot": "task", "count": {"per_slot": 1}}],
            "attributes": {"system": system},
        });
        Submission { userid, urgency: 16, jobspec }
    }
}

impl Host {
    /// Submits a batch. Creates, validates and announces all jobs; the jobs continue at the next [`Host::settle`]. Returns
    /// the id of each job, or the text of its rejection.
    pub fn submit_batch(&self, batch: &[Submission]) -> Vec<Result<u64, String>> {
        batch.iter().map(|submission| self.submit_one(submission)).collect()
    }

    /// Submits a job, and runs the reactor until no work is left.
    ///
    /// # Errors
    /// Returns the text of the rejection.
    pub fn submit(&self, submission: &Submission) -> Result<u64, String> {
        let result = self.submit_one(submission);
        self.settle();
        result
    }

    fn submit_one(&self, submission: &Submission) -> Result<u64, String> {
        let id = {
            let mut store = self.store.borrow_mut();
            // Ids ascend with the time of submission and leave the low bits free, like FLUIDs.
            store.last_id += 1 << 24;
            let id = store.last_id;
            let job = Job::new(id, submission.userid, submission.urgency, submission.jobspec.clone());
            store.jobs.insert(id, job);
            id
        };
        let context =
            json!({"userid": submission.userid, "urgency": submission.urgency, "flags": 0, "version": 1});
        let posted = self
            .post_event(id, "submit", Some(context))
            .map_err(|_| "error posting submit event".to_string());
        let accepted = posted
            .and_then(|()| self.ask_plugins_to_accept_job(id, "job.create"))
            .and_then(|()| self.ask_plugins_to_accept_job(id, "job.validate"))
            .and_then(|()| self.check_dependencies(id));
        if let Err(text) = accepted {
            let _ = self.post_event(id, "invalidate", None);
            self.notify_plugins(id, "job.destroy", &[]);
            self.store.borrow_mut().jobs.remove(&id);
            return Err(text);
        }
        self.notify_plugins(id, "job.new", &[]);
        self.store.borrow_mut().batch.push(id);
        self.job_mut(id, |job| job.hold_events = true);
        self.post_event(id, "validate", None).map_err(|_| "error posting validate event".to_string())?;
        Ok(id)
    }

    fn ask_plugins_to_accept_job(&self, id: u64, topic: &str) -> Result<(), String> {
        if !self.has_handler(topic) {
            return Ok(());
        }
        let args = self.job_args(id, &[]).ok_or("out of memory")?;
        self.ask_plugins(id, topic, &args, "rejected by job-manager plugin").map(|_| ())
    }

    pub(super) fn declared_dependencies(&self, id: u64) -> Vec<Value> {
        let declared =
            |job: &Job| job.jobspec.pointer("/attributes/system/dependencies")?.as_array().cloned();
        self.job(id, declared).flatten().unwrap_or_default()
    }

    /// Calls the handler of each declared dependency. Returns an error if a scheme has no handler.
    pub(super) fn check_dependencies(&self, id: u64) -> Result<(), String> {
        for (index, dependency) in self.declared_dependencies(id).into_iter().enumerate() {
            let scheme = dependency.get("scheme").and_then(Value::as_str);
            let scheme = scheme.ok_or(format!("dependency[{index}] missing string scheme"))?.to_string();
            let args: Args = self.job_args(id, &[]).ok_or("out of memory")?;
            args.merge(IN, &json!({"dependency": dependency}));
            let default = "rejected by job-manager dependency plugin";
            if self.ask_plugins(id, &format!("job.dependency.{scheme}"), &args, default)? == 0 {
                return Err(format!("dependency scheme \"{scheme}\" not supported"));
            }
        }
        Ok(())
    }

    fn authorize(&self, id: u64, cred: Cred, text: &str) -> Result<State, RequestError> {
        let (state, userid) = self
            .job(id, |job| (job.state(), job.userid))
            .ok_or_else(|| RequestError::new(Errno::ENOENT, "unknown job"))?;
        if !cred.is_owner() && cred.userid != userid {
            return Err(RequestError::new(Errno::EPERM, text));
        }
        if state == State::Inactive {
            return Err(RequestError::new(Errno::EINVAL, "job is inactive"));
        }
        Ok(state)
    }

    /// Performs `flux cancel`.
    ///
    /// # Errors
    /// Returns an error if the job is unknown, inactive or of another user.
    pub fn cancel(&self, id: u64, cred: Cred) -> Result<(), RequestError> {
        self.authorize(id, cred, "guests can only raise exceptions on their own jobs")?;
        self.raise_exception(id, "cancel", 0, cred.userid, "")
            .map_err(|errno| RequestError::new(errno, "cancel failed"))?;
        self.settle();
        Ok(())
    }

    /// Cancels a job without running the reactor, so that a job with resources stays in CLEANUP.
    pub fn cancel_without_running_reactor(&self, id: u64) {
        let _ = self.raise_exception(id, "cancel", 0, self.options.owner, "");
    }

    /// Performs `flux job urgency`.
    ///
    /// # Errors
    /// Returns an error in the same cases as Flux: guests may neither exceed the default nor change jobs of others,
    /// and the job must not have resources.
    pub fn set_urgency(&self, id: u64, urgency: i32, cred: Cred) -> Result<(), RequestError> {
        if !(0..=31).contains(&urgency) {
            return Err(RequestError::new(Errno::EINVAL, "urgency value is out of range"));
        }
        self.authorize(id, cred, "guests can only reprioritize their own jobs")?;
        let (current, has_resources) =
            self.job(id, |job| (job.urgency, job.has_resources)).unwrap_or((16, false));
        if !cred.is_owner() && urgency > current.max(16) {
            return Err(RequestError::new(Errno::EPERM, "guests can only adjust urgency <= default"));
        }
        if has_resources {
            return Err(RequestError::new(
                Errno::EINVAL,
                "urgency cannot be changed once resources are allocated",
            ));
        }
        let context = json!({"userid": cred.userid, "urgency": urgency});
        self.post_event(id, "urgency", Some(context))
            .map_err(|errno| RequestError::new(errno, "urgency failed"))?;
        self.settle();
        Ok(())
    }
}
