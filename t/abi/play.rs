// SPDX-License-Identifier: LGPL-3.0-only
//! A history in which Flux calls every callback, method, timer and future of the plugin. The plugin is compared with the jobs of the host.

use fairshare_embedded::{Cred, Errno, Host, Options, Order, State, Submission};
use fairshare_engine::engine::Timer;
use serde_json::{Value, json};
use std::collections::BTreeMap;

use super::push::parse_answer;
use super::seen::{JobInHost, assert_counts};
use super::{METHODS, OWNER, PluginCopy, SO, Site, faulty_plugin, job, job_in, make_dependent_job, topic};

mod documents;

pub(super) use documents::full_document;
use documents::{LATE, first_document, with_tree};

/// The priority that `.priority-default` gives each job of the history. Our plugin answers later and never gives this priority.
const DEFAULT_PRIORITY: i64 = 16;

/// A site whose plugin may panic. Collects the log lines, and the error texts of refused requests.
pub(super) struct Play {
    pub site: Site,
    pub refusals: Vec<String>,
    pub log: Vec<String>,
    /// If true, the state of the plugin is not compared with the jobs of the host.
    pub is_trusting: bool,
    /// The number of loads in a row that the plugin may refuse.
    pub refusable: u64,
    /// The bank of each job that names one or got one by an update. The plugin must not change this bank.
    banks: BTreeMap<u64, String>,
    /// If true, a guest sends requests until one must wait.
    asks_much: bool,
    /// The kind of call in which a panic is injected.
    what: String,
}

fn queues() -> Value {
    json!({"q": {}, "r": {}})
}

/// Returns the name of a timer in the log.
fn name(timer: Timer) -> &'static str {
    Timer::NAMES.get(timer.index()).expect("each timer has a name")
}

/// Returns a configuration with the table `fairshare`. If `what` is the name of the timer `TimeLeft`, adds a limit on
/// node-hours, which starts this timer. The limit applies to no job.
fn make_configuration(what: &str, mut fairshare: Value) -> Value {
    if what == name(Timer::TimeLeft) {
        fairshare["limits"] = json!([{"scope": "user", "name": "4999", "run-node-hours": 1}]);
    }
    json!({"queues": queues(), "fairshare": fairshare})
}

impl Play {
    pub fn new(what: &str) -> Play {
        // The plugin arms the retry timer only if job-list does not answer.
        let options = Options { job_list: what != name(Timer::Retry), ..Options::default() };
        let host = Host::new(options).expect("the C side is linked in");
        // The configuration lists the queues, so that the plugin does not request their states. Each answer then
        // has only its own effects.
        host.reload_config(&make_configuration(what, json!({}))).expect("a configuration");
        let site = Site { host, so: PluginCopy::new(faulty_plugin()) };
        site.load(&first_document());
        let asks_much = what == name(Timer::Answer);
        let banks = BTreeMap::new();
        Play {
            site,
            refusals: Vec::new(),
            log: Vec::new(),
            is_trusting: false,
            refusable: 1,
            banks,
            asks_much,
            what: what.to_owned(),
        }
    }

    fn note<T>(&mut self, result: Result<T, String>) -> Option<T> {
        let result = result.map_err(|text| self.refusals.push(text)).ok();
        self.compare_with_host();
        result
    }

    fn submit(&mut self, job: &Submission) -> Option<u64> {
        self.submit_batch(std::slice::from_ref(job)).pop()?
    }

    fn submit_batch(&mut self, batch: &[Submission]) -> Vec<Option<u64>> {
        let submitted = self.site.host.submit_batch(batch);
        for (job, result) in batch.iter().zip(&submitted) {
            if let (Some(bank), Ok(id)) = (job.jobspec["attributes"]["system"]["bank"].as_str(), result) {
                self.banks.insert(*id, bank.to_owned());
            }
        }
        self.site.host.settle();
        submitted.into_iter().map(|result| self.note(result)).collect()
    }

    fn update(&mut self, id: Option<u64>, key: &str, value: &str) {
        let Some(id) = id else { return };
        let path = format!("attributes.system.{key}");
        let done = self.site.host.update(id, &[(&path, json!(value))], OWNER);
        if key == "bank" && done.is_ok() {
            self.banks.insert(id, value.to_owned());
        }
        self.note(done.map_err(|refused| refused.text));
    }

    fn urgency(&mut self, id: Option<u64>, urgency: i32) {
        let Some(id) = id else { return };
        let done = self.site.host.set_urgency(id, urgency, OWNER);
        self.note(done.map_err(|refused| refused.text));
    }

    fn request(&mut self, method: &str, payload: &Value) -> Option<Value> {
        let done = self.site.host.request(&topic(method), Some(&payload.to_string()), OWNER);
        self.site.host.settle();
        match done {
            Ok(answer) => answer.map(|text| parse_answer(method, &text)),
            Err(refused) => {
                self.refusals.push(refused.text);
                None
            }
        }
    }

    /// Sends a staged push that expires, one that is aborted, and one that is committed.
    fn push_in_parts(&mut self) {
        self.request("policy_begin", &json!({"expires": 1}));
        self.site.host.advance(1.5);
        for end in ["policy_abort", "policy_commit"] {
            let Some(begun) = self.request("policy_begin", &json!({})) else { continue };
            let mut part = full_document();
            part["push"] = begun["push"].clone();
            self.request("policy_part", &part);
            self.request(end, &json!({"push": begun["push"]}));
        }
        self.request("associations", &json!({}));
        self.compare_with_host();
    }

    /// Sends the requests of users.
    fn send_user_requests(&mut self) {
        let jobs: Vec<u64> = self.site.host.jobs().into_iter().take(100).collect();
        for (method, payload) in [
            ("explain", json!({"jobs": jobs})),
            ("standing", json!({})),
            ("jobs", json!({})),
            ("stats", json!({})),
        ] {
            self.request(method, &payload);
        }
        let guest = Cred::guest(5001);
        for _ in 0..if self.asks_much { 20_000 } else { 0 } {
            let asked = self.site.host.request_now(&topic("standing"), Some("{}"), guest);
            if asked.is_err_and(|refused| refused.errno == Errno::EINPROGRESS) {
                break;
            }
        }
        self.site.host.advance(60.0);
        self.site.host.take_late_answers();
        self.compare_with_host();
    }

    /// Prepares the return to another plugin as an administrator would: sets the urgency of held jobs to 0, and calls
    /// the methods `hand_over` and `rest`. Then sets the urgency to 16 again.
    fn hand_over(&mut self) {
        let mut held = self.site.host.jobs();
        held.retain(|id| self.site.state(*id) == State::Depend);
        held.iter().for_each(|id| self.urgency(Some(*id), 0));
        self.request("hand_over", &json!({}));
        self.request("rest", &json!({"ids": held}));
        held.iter().for_each(|id| self.urgency(Some(*id), 16));
    }

    /// Pushes a document by the methods of flux-accounting.
    fn push(&mut self, document: &Value) {
        for (key, method) in METHODS {
            self.request(method, &json!({"data": document[key]}));
        }
        self.request("reprioritize", &json!({}));
        self.compare_with_host();
    }

    fn finish(&mut self, id: Option<u64>) {
        if let Some(id) = id {
            self.site.finish(id);
            self.compare_with_host();
        }
    }

    /// Plays a history in which the host performs every action. User 5001 may have one running and two scheduled jobs, and user 5003 two nodes.
    /// Each association may have one running job in queue r.
    pub fn history(&mut self) {
        let refused =
            self.site.host.reload_config(&make_configuration(&self.what, json!({"refresh": 7}))).err();
        self.refusals.extend(refused);
        // The plugin writes the bank of the first job. Flux must not post this update to the second job, which names another bank.
        let batch = self.submit_batch(&[job(5002, 1), job_in(5002, "B", 1)]);
        batch.into_iter().for_each(|id| self.finish(id));
        let early = self.submit(&job(5002, 1));
        let late = early.and_then(|early| self.submit(&make_dependent_job(early)));
        // The plugin subscribes to the events of a job that depends on another job, so it gets the event about the new urgency.
        let _ = late.map(|late| self.site.host.set_urgency(late, 17, OWNER));
        self.finish(early);
        self.finish(late);
        let mut in_r = job(5002, 1);
        in_r.jobspec["attributes"]["system"]["queue"] = json!("r");
        self.submit(&in_r);
        let held_in_r = self.submit(&in_r);
        let first = self.submit(&job(5001, 2));
        let held: Vec<_> = (0..3).map(|_| self.submit(&job(5001, 1))).collect();
        let other = self.submit(&job(5002, 1));
        self.site.host.set_instance_expiration(self.site.host.now() + 86_400.0);
        self.compare_with_host();
        // The cluster is full. The first job stays in SCHED, and the second is held until the first runs.
        self.submit(&job(5004, 1));
        self.submit(&job(5004, 1));
        if let Some(first) = first {
            self.submit(&Submission { userid: 5001, ..make_dependent_job(first) });
            let kept = self.submit(&Submission { userid: 5001, ..make_dependent_job(first) });
            let _ = kept.map(|id| self.site.host.cancel(id, OWNER));
            self.compare_with_host();
        }
        let pending = [self.submit(&job_in(5002, "B", 2)), self.submit(&job_in(5002, "A", 2))];
        // The plugin writes the default bank and project of a job that is waiting for resources.
        let mut plain = job(5003, 2);
        plain.jobspec["attributes"]["system"].as_object_mut().unwrap().remove("queue");
        let plain = self.submit(&plain);
        self.submit(&job(5003, 1));
        // The plugin rejects a job of a user without an association.
        self.submit(&job(LATE, 1));
        self.site.host.reprioritize_all();
        self.compare_with_host();
        self.update(pending[0], "queue", "r");
        self.update(held_in_r, "queue", "closed");
        self.update(held_in_r, "queue", "q");
        self.update(pending[1], "bank", "B");
        self.update(held[1], "bank", "B");
        self.urgency(plain, 0);
        self.urgency(plain, 20);
        let queried = self.site.host.query(SO);
        if queried.is_err() {
            self.refusals.push("internal error in plugin.query".to_owned());
        }
        self.compare_with_host();
        self.request("check", &json!({}));
        self.push(&full_document());
        self.submit(&job(LATE, 1));
        // Priorities change.
        self.request("rec_fac_update", &json!({"data": [{"factor": "fairshare", "weight": 200_000}]}));
        self.request("reprioritize", &json!({}));
        // If the factor `size` has a weight, the plugin reads the site's number of nodes.
        self.request("rec_fac_update", &json!({"data": [{"factor": "size", "weight": 200}]}));
        self.request("policy_update", &json!({"data": full_document()}));
        self.compare_with_host();
        self.finish(first);
        self.finish(other);
        let _ = held[0].map(|id| self.site.host.cancel(id, OWNER));
        self.compare_with_host();
        // After a reload without data, a job in SCHED keeps its priority until the push.
        self.site.host.remove(SO).unwrap();
        let loaded = self.site.host.load(&self.site.so.path(), None);
        self.repeat_refused_load(loaded, None);
        self.site.host.settle();
        self.submit(&job(LATE, 1));
        self.push(&full_document());
        let restarted = self.site.host.restart(Order::Descending);
        self.repeat_refused_load(restarted, None);
        self.site.host.settle();
        self.push(&full_document());
        self.compare_with_host();
        self.push_in_parts();
        self.send_user_requests();
        self.push_tree_and_reload();
        self.restart_with_unreadable_eventlog();
        self.hand_over();
    }

    /// Pushes a tree, so that running jobs accrue usage, which changes priorities. Then reloads the plugin, which restores its snapshot.
    fn push_tree_and_reload(&mut self) {
        self.request("policy_update", &json!({"data": with_tree(full_document())}));
        self.submit(&job(5002, 2));
        self.submit(&job_in(5002, "B", 2));
        self.site.host.advance(31.0);
        self.compare_with_host();
        self.request("priorities", &json!({}));
        self.request("prices", &json!({}));
        self.request("tree", &json!({}));
        let jobspec =
            json!({"resources": [], "tasks": [], "attributes": {"system": {"duration": 60}}, "version": 1});
        self.request("check_job", &json!({"jobspec": jobspec, "user": 5002}));
        self.check_refreshes();
        self.site.host.remove(SO).unwrap();
        let loaded = self.site.host.load(&self.site.so.path(), None);
        self.repeat_refused_load(loaded, None);
        self.site.host.settle();
        self.site.host.advance(31.0);
        self.push(&full_document());
        self.compare_with_host();
    }

    /// Checks that refreshes continue after any panic.
    fn check_refreshes(&mut self) {
        let last =
            |play: &Play| play.site.host.query(SO).map(|query| query["live"].clone()).unwrap_or_default();
        if self.is_trusting || last(self)["on"] != true {
            return;
        }
        let before = last(self)["last"]["when"].as_f64();
        self.site.host.advance(31.0);
        self.site.host.advance(31.0);
        self.compare_with_host();
        let after = last(self);
        assert!(
            after.is_null() || after["last"]["when"].as_f64() > before,
            "{before:?} {after}: {:#?}",
            self.log
        );
    }

    /// Repeats a load until the plugin accepts it, at most `refusable` times. The accepted load takes over all jobs.
    fn repeat_refused_load(&mut self, mut outcome: Result<(), String>, conf: Option<&Value>) {
        for _ in 0..self.refusable {
            let Err(refused) = outcome else { return };
            self.refusals.push(refused);
            outcome = self.site.host.load(&self.site.so.path(), conf);
        }
        outcome.unwrap();
    }

    /// Restarts the job manager while the eventlog of a held job cannot be read. Then makes the eventlog readable again.
    fn restart_with_unreadable_eventlog(&mut self) {
        let host = self.site.host.clone();
        let Some(id) = host.jobs().into_iter().find(|id| self.site.state(*id) == State::Depend) else {
            return;
        };
        host.set_readable(id, false);
        let conf = json!({"config": full_document()});
        let restarted = host.restart_with_configuration(Order::Ascending, Some(&conf));
        self.repeat_refused_load(restarted, Some(&conf));
        host.settle();
        host.advance(6.0);
        host.set_readable(id, true);
        host.advance(6.0);
        self.compare_with_host();
    }

    /// Runs all jobs to their end, one after another, and checks that no counter stays above 0.
    pub fn end(&mut self) {
        self.push(&full_document());
        loop {
            let running: Vec<u64> =
                self.site.host.jobs().into_iter().filter(|id| self.site.state(*id) == State::Run).collect();
            if running.is_empty() {
                break;
            }
            running.into_iter().for_each(|id| self.finish(Some(id)));
        }
        for id in self.site.host.jobs() {
            let log = self.site.host.job(id, |job| format!("{:#?}", job.eventlog));
            assert_eq!(self.site.state(id), State::Inactive, "job {id} never ran: {log:#?}\n{:#?}", self.log);
        }
        let check = self.site.check();
        assert_eq!(check["jobs"], 0, "{check}");
        self.site.host.remove(SO).unwrap();
        assert_eq!((self.site.host.live_watchers(), self.site.host.plugin_aux_count()), (0, 0));
        assert_eq!(self.site.host.violations(), Vec::<String>::new());
    }

    /// Compares the associations of the plugin with the jobs of the host.
    fn compare_with_host(&mut self) {
        self.site.host.settle();
        self.log.extend(self.site.host.take_log().into_iter().map(|line| line.text));
        if self.is_trusting {
            return;
        }
        let Ok(query) = self.site.host.query(SO) else {
            self.refusals.push("internal error in plugin.query".to_owned());
            return;
        };
        let jobs: Vec<JobInHost> = self
            .site
            .host
            .jobs()
            .into_iter()
            .map(|id| self.site.host.job(id, JobInHost::from_job).unwrap())
            .collect();
        assert_counts(&query, &jobs, || format!("{jobs:#?}\n{:#?}", self.log));
        for (&id, bank) in &self.banks {
            let named = self.site.host.job(id, |job| job.attribute("bank").map(str::to_owned));
            assert!(
                named.is_none_or(|named| named.as_ref() == Some(bank)),
                "bank {bank} was changed in the jobspec of job {id}\n{:#?}",
                self.log
            );
        }
        let known = |job: &JobInHost| {
            query["mf_priority_map"].as_array().unwrap().iter().any(|u| u["userid"] == job.user)
        };
        let banks = |user: &Value| user["banks"].as_array().unwrap().clone();
        let all: Vec<Value> = query["mf_priority_map"].as_array().unwrap().iter().flat_map(banks).collect();
        let is_held =
            |job: &JobInHost| all.iter().any(|bank| bank["held_jobs"].get(job.id.to_string()).is_some());
        // The plugin subscribes to one running job, to get changes of its expiration.
        let running = jobs.iter().filter(|job| job.state == State::Run).map(|job| job.subscriptions);
        assert!(running.sum::<usize>() <= 1, "subscribed: {jobs:#?}\n{:#?}", self.log);
        for job in &jobs {
            assert!(
                !job.priorities.contains(&DEFAULT_PRIORITY),
                "the job got a priority from another plugin: {job:?}\n{:#?}",
                self.log
            );
            let waits = job.state == State::Priority && known(job) && !is_held(job);
            // The plugin subscribes once to a job that other plugins may block, and ends the subscription afterwards.
            let most = usize::from(matches!(job.state, State::New | State::Depend | State::Run));
            let is_over = job.state == State::Inactive;
            assert!(job.subscriptions <= most || is_over, "subscribed: {job:?}\n{:#?}", self.log);
            assert!(!waits, "no callback asks for the priority of {job:?}\n{:#?}", self.log);
        }
    }
}
