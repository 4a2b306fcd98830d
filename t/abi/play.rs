// SPDX-License-Identifier: LGPL-3.0-only
//! A history in which the plugin gets every callback, method, timer and future, while the host's own jobs say what is right.

use fairshare_embedded::{Cred, Errno, Host, Options, Order, State, Submission};
use fairshare_engine::engine::Timer;
use serde_json::{Value, json};
use std::collections::BTreeMap;

use super::seen::{Seen, assert_counts};
use super::{Copy, METHODS, OWNER, SO, Site, after, faulty, job, job_in, topic};

mod documents;

pub(super) use documents::full_document;
use documents::{LATE, first_document, with_tree};

/// What `.priority-default` answers for every job here; it comes before the plugin, whose prices are never this.
const OF_OTHERS: i64 = 16;

/// A plugin that panics somewhere, and what was heard of it.
pub(super) struct Play {
    pub site: Site,
    pub refusals: Vec<String>,
    pub log: Vec<String>,
    /// Nothing is compared.
    pub is_trusting: bool,
    /// So many loads in a row may be refused.
    pub refusable: u64,
    /// The bank that a job names, or was moved to by hand: nobody else's answer may end up there.
    banks: BTreeMap<u64, String>,
    /// A guest asks until he is answered in his turn: that takes thousands of requests.
    asks_much: bool,
}

fn queues() -> Value {
    json!({"q": {}, "r": {}})
}

impl Play {
    pub fn new(what: &str) -> Play {
        // Where nobody tells what an eventlog does not, it is tried again.
        let options = Options { job_list: what != Timer::Retry.name(), ..Options::default() };
        let host = Host::new(options).expect("the C side is linked in");
        // The queues are configured: the plugin need not ask about them, so that each answer has its own effects.
        host.reload_config(&json!({"queues": queues()})).expect("a configuration");
        let site = Site { host, so: Copy::of(faulty()) };
        site.load(&first_document());
        let asks_much = what == Timer::Answer.name();
        let banks = BTreeMap::new();
        Play {
            site,
            refusals: Vec::new(),
            log: Vec::new(),
            is_trusting: false,
            refusable: 1,
            banks,
            asks_much,
        }
    }

    fn note<T>(&mut self, result: Result<T, String>) -> Option<T> {
        let result = result.map_err(|text| self.refusals.push(text)).ok();
        self.agrees();
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
            Ok(answer) => answer.and_then(|text| serde_json::from_str(&text).ok()),
            Err(refused) => {
                self.refusals.push(refused.text);
                None
            }
        }
    }

    /// One policy in parts that is forgotten, one that is given up, and one that comes whole.
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
        self.agrees();
    }

    /// What people ask.
    fn questions(&mut self) {
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
        self.site.host.take_late();
        self.agrees();
    }

    /// Held jobs are to be left in peace by another plugin, and then go on.
    fn hand_over(&mut self) {
        let mut held = self.site.host.jobs();
        held.retain(|id| self.site.state(*id) == State::Depend);
        held.iter().for_each(|id| self.urgency(Some(*id), 0));
        self.request("hand_over", &json!({}));
        self.request("rest", &json!({"ids": held}));
        held.iter().for_each(|id| self.urgency(Some(*id), 16));
    }

    /// Waiting jobs wait for the last of these.
    fn push(&mut self, document: &Value) {
        for (key, method) in METHODS {
            self.request(method, &json!({"data": document[key]}));
        }
        self.request("reprioritize", &json!({}));
        self.agrees();
    }

    fn finish(&mut self, id: Option<u64>) {
        if let Some(id) = id {
            self.site.finish(id);
            self.agrees();
        }
    }

    /// Everything a host does. Of 5001 one job may run and two be scheduled; 5003 has two nodes; in queue r each has one
    /// running job.
    pub fn history(&mut self) {
        let refused =
            self.site.host.reload_config(&json!({"fairshare": {"depth": 7}, "queues": queues()})).err();
        self.refusals.extend(refused);
        // The bank of the first comes from us, in the call before those of the second.
        let batch = self.submit_batch(&[job(5002, 1), job_in(5002, "B", 1)]);
        batch.into_iter().for_each(|id| self.finish(id));
        let early = self.submit(&job(5002, 1));
        let late = early.and_then(|early| self.submit(&after(early)));
        // Of a job that waits for another the plugin is told when its urgency changes.
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
        self.agrees();
        // The cluster is full: one of these is in line, the other is held until it runs.
        self.submit(&job(5004, 1));
        self.submit(&job(5004, 1));
        if let Some(first) = first {
            self.submit(&Submission { userid: 5001, ..after(first) });
            let kept = self.submit(&Submission { userid: 5001, ..after(first) });
            let _ = kept.map(|id| self.site.host.cancel(id, OWNER));
            self.agrees();
        }
        let pending = [self.submit(&job_in(5002, "B", 2)), self.submit(&job_in(5002, "A", 2))];
        // Its default bank and project come from us, while it waits for a node.
        let mut plain = job(5003, 2);
        plain.jobspec["attributes"]["system"].as_object_mut().unwrap().remove("queue");
        let plain = self.submit(&plain);
        self.submit(&job(5003, 1));
        // Without an association it is refused; what was accepted before the data came waits.
        self.submit(&job(LATE, 1));
        self.site.host.reprioritize_all();
        self.agrees();
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
        self.agrees();
        self.request("check", &json!({}));
        self.push(&full_document());
        self.submit(&job(LATE, 1));
        // Prices change.
        self.request("rec_fac_update", &json!({"data": [{"factor": "fairshare", "weight": 200_000}]}));
        self.request("reprioritize", &json!({}));
        // A part of the site weighs something, whose size is asked for.
        self.request("rec_fac_update", &json!({"data": [{"factor": "size", "weight": 200}]}));
        self.request("policy_update", &json!({"data": full_document()}));
        self.agrees();
        self.finish(first);
        self.finish(other);
        let _ = held[0].map(|id| self.site.host.cancel(id, OWNER));
        self.agrees();
        // A job whose data are not there yet, and a bounce.
        self.site.host.remove(SO).unwrap();
        let loaded = self.site.host.load(&self.site.so.path(), None);
        self.loaded(loaded, None);
        self.site.host.settle();
        self.submit(&job(LATE, 1));
        self.push(&full_document());
        let restarted = self.site.host.restart(Order::Descending);
        self.loaded(restarted, None);
        self.site.host.settle();
        self.push(&full_document());
        self.agrees();
        self.push_in_parts();
        self.questions();
        self.live();
        self.without_eventlog();
        self.hand_over();
    }

    /// A tree is pushed: jobs accrue, the order follows, and all of it is there again after a reload.
    fn live(&mut self) {
        self.request("policy_update", &json!({"data": with_tree(full_document())}));
        self.submit(&job(5002, 2));
        self.submit(&job_in(5002, "B", 2));
        self.site.host.advance(31.0);
        self.agrees();
        self.request("prices", &json!({}));
        self.request("usages", &json!({}));
        self.request("tree", &json!({}));
        self.refreshes();
        self.site.host.remove(SO).unwrap();
        let loaded = self.site.host.load(&self.site.so.path(), None);
        self.loaded(loaded, None);
        self.site.host.settle();
        self.site.host.advance(31.0);
        self.push(&full_document());
        self.agrees();
    }

    /// Whatever was cut short before, or is cut short now: there are refreshes after it.
    fn refreshes(&mut self) {
        let last =
            |play: &Play| play.site.host.query(SO).map(|query| query["live"].clone()).unwrap_or_default();
        if self.is_trusting || last(self)["on"] != true {
            return;
        }
        let before = last(self)["last"]["when"].as_f64();
        self.site.host.advance(31.0);
        self.site.host.advance(31.0);
        self.agrees();
        let after = last(self);
        assert!(
            after.is_null() || after["last"]["when"].as_f64() > before,
            "{before:?} {after}: {:#?}",
            self.log
        );
    }

    /// A load that was refused leaves all as it was: the next one finds the jobs.
    fn loaded(&mut self, mut outcome: Result<(), String>, conf: Option<&Value>) {
        for _ in 0..self.refusable {
            let Err(refused) = outcome else { return };
            self.refusals.push(refused);
            outcome = self.site.host.load(&self.site.so.path(), conf);
        }
        outcome.unwrap();
    }

    /// A held job whose eventlog can't be read for a while.
    fn without_eventlog(&mut self) {
        let host = self.site.host.clone();
        let Some(id) = host.jobs().into_iter().find(|id| self.site.state(*id) == State::Depend) else {
            return;
        };
        host.set_readable(id, false);
        let conf = json!({"config": full_document()});
        let restarted = host.restart_with(Order::Ascending, Some(&conf));
        self.loaded(restarted, Some(&conf));
        host.settle();
        host.advance(6.0);
        host.set_readable(id, true);
        host.advance(6.0);
        self.agrees();
    }

    /// All jobs run to their end, one after another, and nothing is left of them.
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
            let log = self.site.host.job(id, |job| format!("{:#?}", job.eventlog()));
            assert_eq!(self.site.state(id), State::Inactive, "job {id} never ran: {log:#?}\n{:#?}", self.log);
        }
        let check = self.site.check();
        assert_eq!(check["jobs"], 0, "{check}");
        self.site.host.remove(SO).unwrap();
        assert_eq!((self.site.host.live_watchers(), self.site.host.plugin_aux_count()), (0, 0));
        assert_eq!(self.site.host.violations(), Vec::<String>::new());
    }

    /// Compares what the plugin tells of its associations with the jobs that the host has.
    fn agrees(&mut self) {
        self.site.host.settle();
        self.log.extend(self.site.host.take_log().into_iter().map(|line| line.text));
        if self.is_trusting {
            return;
        }
        let Ok(query) = self.site.host.query(SO) else {
            self.refusals.push("internal error in plugin.query".to_owned());
            return;
        };
        let jobs: Vec<Seen> =
            self.site.host.jobs().into_iter().map(|id| self.site.host.job(id, Seen::of).unwrap()).collect();
        assert_counts(&query, &jobs, || format!("{jobs:#?}\n{:#?}", self.log));
        for (&id, bank) in &self.banks {
            let named = self.site.host.job(id, |job| job.attribute("bank").map(str::to_owned));
            assert!(
                named.is_none_or(|named| named.as_ref() == Some(bank)),
                "job {id} named {bank}\n{:#?}",
                self.log
            );
        }
        let known =
            |job: &Seen| query["mf_priority_map"].as_array().unwrap().iter().any(|u| u["userid"] == job.user);
        let banks = |user: &Value| user["banks"].as_array().unwrap().clone();
        let all: Vec<Value> = query["mf_priority_map"].as_array().unwrap().iter().flat_map(banks).collect();
        let is_held = |job: &Seen| all.iter().any(|bank| bank["held_jobs"].get(job.id.to_string()).is_some());
        // One running job is subscribed to for its expiration.
        let running = jobs.iter().filter(|job| job.state == State::Run).map(|job| job.subscriptions);
        assert!(running.sum::<usize>() <= 1, "subscribed: {jobs:#?}\n{:#?}", self.log);
        for job in &jobs {
            assert!(!job.prices.contains(&OF_OTHERS), "not our price: {job:?}\n{:#?}", self.log);
            let waits = job.state == State::Priority && known(job) && !is_held(job);
            // Once while others may keep it, and no longer.
            let most = usize::from(matches!(job.state, State::New | State::Depend | State::Run));
            let is_over = job.state == State::Inactive;
            assert!(job.subscriptions <= most || is_over, "subscribed: {job:?}\n{:#?}", self.log);
            assert!(!waits, "nobody asks for the price of {job:?}\n{:#?}", self.log);
        }
    }
}
