// SPDX-License-Identifier: LGPL-3.0-only
//! Connects Flux to the engine. No other module uses both.

mod answers;
mod costs;
mod effects;
mod ended;
mod engine;
mod events;
mod jobspec;
mod methods;
mod overruled;
mod pace;
mod parts;
mod queue_states;
mod resources;
mod services;
mod snapshot;
#[cfg(test)]
mod tests;

use crate::jobtap::{
    self, Args, Caller, Error, Failed, Host, Jobtap, LogLevel, Method, Plugin, Reply, Request, RequestId,
    Result, Role,
};
use answers::{AllCalls, DelayedRequest};
use costs::PushAndRefreshCosts;
use engine::SharedEngine;
use events::Callback;
use fairshare_engine::accounts::Difference;
use fairshare_engine::engine::answers::{Open, Overruled};
use fairshare_engine::engine::{Effect, Engine, Event, Settings, Timer};
use fairshare_engine::ids::{JobId, UserId};
use fairshare_protocol::{reading::Reader, wire};
use methods::staged_push;
use pace::Pace;
use parts::StagedPushes;
use queue_states::QueueStates;
use snapshot::Snapshot;
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_int, c_void};
use std::time::{SystemTime, UNIX_EPOCH};

/// The KVS key of the instance's resources.
const SITE_RESOURCES: &CStr = c"resource.R";

/// The plugin's state. Its methods turn callbacks into events, carry out effects by calls to Flux, and pass requests
/// to their handlers.
pub struct MfPriority {
    engine: SharedEngine,
    staged_pushes: RefCell<StagedPushes>,
    /// The sum of the changes by a push that flux-accounting sends as several requests. The log line at the end of the push
    /// shows this sum.
    pieces: Cell<Option<Difference>>,
    costs: PushAndRefreshCosts,
    /// True if Flux is in private mode (`[access] private-mode`) according to its last configuration.
    is_private: Cell<bool>,
    /// The last update of the data.
    updated: Cell<Option<DataUpdate>>,
    /// The sender of the last request that belongs to a push.
    pusher: Cell<Option<UserId>>,
    /// The first refusal by Flux since the running request began, as an error text.
    refusal: RefCell<Option<String>>,
    /// The reason why the engine rejected the site document of the running request.
    rejected: RefCell<Option<String>>,
    snapshot: RefCell<Snapshot>,
    /// Limits the job manager's time that requests of guests take.
    pace: RefCell<Pace<DelayedRequest>>,
    queues: RefCell<QueueStates>,
    calls: RefCell<AllCalls>,
    /// The log line that reports the load. It is logged at the first `conf.update`, because Flux refuses a plugin
    /// whose name is taken only after the entry point has returned.
    loaded: RefCell<Option<String>>,
    /// The job that shows that another priority plugin decides priorities; `None` if no such job is known.
    overruled: Cell<Option<Overruled>>,
    /// The plugin handle, for the log line that reports the removal.
    handle: Plugin,
}

/// The last change of the data: by a push, at the load, or from the snapshot.
#[derive(Clone, Copy)]
struct DataUpdate {
    at: SystemTime,
    /// The user who pushed the data; `None` if the data came from the load or the snapshot.
    by: Option<UserId>,
}

impl MfPriority {
    /// Stores that the running request has changed the data.
    fn record_data_update(&self) {
        self.updated.set(Some(DataUpdate { at: SystemTime::now(), by: self.pusher.get() }));
    }

    /// Returns the time of the last change of the site data, in seconds since the epoch. Returns `None` without site
    /// data.
    fn update_time(&self) -> Option<f64> {
        self.updated.get()?.at.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs_f64())
    }

    /// Returns true if Flux is in private mode and the caller is a guest, who then sees no jobs of others.
    fn hides_other_jobs_from(&self, caller: Caller) -> bool {
        self.is_private.get() && !caller.is_privileged()
    }

    /// Returns the part of the tree that guests may see. Fails if the engine is in use.
    fn read_guest_access(&self) -> Result<Open> {
        let public = self.view(|view| view.settings().public)?;
        Ok(if self.is_private.get() { Open::Own } else { public })
    }

    fn receive_eventlog(&self, host: Host<'_, Self>, id: JobId, text: Option<&str>) {
        let past = text.map(jobspec::read_history);
        let history =
            past.as_ref().map(|past| past.iter().filter_map(|(_, past)| past.dependency()).collect());
        if let Some(past) = past {
            let _ = self.feed_event(host, None, Event::Past(id, past));
        }
        let _ = self.feed_event(host, None, Event::Eventlog(id, history));
    }

    fn count_live_jobs(&self) -> usize {
        self.engine.view(|view| view.site_size().jobs).unwrap_or_default()
    }
}

impl Jobtap for MfPriority {
    const NAME: &'static CStr = c"mf_priority";
    // A topic `job.*` would also match `job.dependency.X` and `job.update.KEY`, and Flux accepts each X and
    // KEY for which a plugin has a handler.
    const TOPICS: &'static [&'static CStr] = &[
        // For each call, Flux compares the topic twice with these topics in order, at 0.05 us a comparison. So
        // `job.priority.get`, which Flux calls for all jobs at once, comes first, and then the topics of a submission.
        c"job.priority.get",
        // This matches the topics of the six states after NEW.
        c"job.state.*",
        c"job.create",
        c"job.validate",
        c"job.new",
        c"job.update",
        c"job.destroy",
        c"job.event.dependency-add",
        c"job.event.dependency-remove",
        c"job.event.urgency",
        c"job.event.resource-update",
        c"job.update.attributes.system.queue",
        c"job.update.attributes.system.bank",
        c"plugin.query",
        c"conf.update",
    ];
    const METHODS: &'static [Method<Self>] = methods::METHODS;

    const TIMERS: &'static [&'static str] = Timer::NAMES;

    fn load(plugin: Plugin) -> Result<Self, String> {
        let mut engine = Engine::new(UserId(jobtap::own_user()));
        let mut reader = Reader::default();
        let policy = match plugin.config() {
            Some(conf) => {
                let fault = |fault| services::describe_load_fault(&fault);
                let policy = wire::read_load_config(&conf, &mut reader).map_err(fault)?;
                wire::read_load_settings(&conf, Settings::default())
                    .map_err(|error| fault(wire::WireError::Record(error.text)))?;
                policy
            }
            None => None,
        };
        services::log_warnings(plugin, &mut reader.warnings);
        services::log_omitted_warnings(plugin, &reader.warnings);
        let mut updated = None;
        if let Some((policy, site)) = policy {
            let effects = engine.handle(plugin.now(), Event::Policy(policy, site));
            if let Some(fault) = effects.iter().find_map(Effect::push_rejection) {
                let fault = wire::WireError::Record(format!("config.tree: {fault}"));
                return Err(services::describe_load_fault(&fault));
            }
            updated = Some(DataUpdate { at: SystemTime::now(), by: None });
        }
        // Flux then replays the jobs in later states first, so that the counters are complete before the
        // engine handles the held jobs.
        plugin.set_load_order(c"-state").map_err(|error| format!("mf_priority: {error}"))?;
        let site_size = engine.view().site_size();
        let data = match site_size.associations {
            0 => "no associations yet".to_owned(),
            count => {
                format!("{}, {}", format_count(count, "association"), format_count(site_size.queues, "queue"))
            }
        };
        let loaded = format!("mf_priority: loaded (version {}): {data}", env!("CARGO_PKG_VERSION"));
        Ok(MfPriority {
            engine: SharedEngine::new(engine),
            staged_pushes: RefCell::default(),
            pieces: Cell::default(),
            costs: PushAndRefreshCosts::default(),
            is_private: Cell::default(),
            updated: Cell::new(updated),
            pusher: Cell::default(),
            refusal: RefCell::default(),
            rejected: RefCell::default(),
            snapshot: RefCell::new(Snapshot::new(updated.is_some())),
            pace: RefCell::default(),
            queues: RefCell::default(),
            calls: RefCell::default(),
            loaded: RefCell::new(Some(loaded)),
            overruled: Cell::default(),
            handle: plugin,
        })
    }

    fn handle_callback(&self, host: Host<'_, Self>, topic: &str, args: Args<'_>) -> Result<(), Failed> {
        // If an event caused the callback, the engine gets the event's timestamp, because it computes usage from the
        // timestamps in the job's eventlog. The reactor's time is less exact: it is the start of the current reactor
        // turn. No event causes `job.priority.get`.
        let event = (topic != "job.priority.get").then(|| args.timestamp()).flatten();
        let host = event.map_or(host, |timestamp| host.with_time(timestamp));
        Callback { plugin: self, host, topic, args }.dispatch()
    }

    fn handle_request(
        &self,
        host: Host<'_, Self>,
        method: &'static Method<Self>,
        request: &Request<'_>,
    ) -> Option<Reply> {
        if method.role == Role::Guest {
            return self.handle_open_request(host, method, request);
        }
        if request.caller.is_privileged() && self.engine.view(|view| view.needs_comparison()) == Some(true) {
            let _ = self.feed_event(host, None, Event::TryAgain);
        }
        if !methods::is_push(method) {
            return Some((method.answer)(self, host, request));
        }
        self.pusher.set(Some(UserId(request.caller.userid)));
        let reply = self.costs.time_push(host, &self.engine, || (method.answer)(self, host, request));
        Some(reply)
    }

    fn handle_timer(&self, host: Host<'_, Self>, timer: usize) {
        let Some(timer) = Timer::from_repr(timer) else { return };
        match timer {
            Timer::Remember => {
                let is_push_open = self.is_push_open();
                return self.advance_snapshot(host, |snapshot, engine| snapshot.step(engine, is_push_open));
            }
            Timer::Expire => return staged_push::expire_push(self, host),
            Timer::Answer => return self.answer_delayed_requests(host),
            Timer::ReactorTurn
            | Timer::Retry
            | Timer::Refresh
            | Timer::Slice
            | Timer::Queues
            | Timer::TimeLeft => {}
        }
        if self.engine.view(|view| view.is_replaying()) == Some(true) {
            let jobs = self.count_live_jobs();
            let text = format!("mf_priority: took over {}", format_count(jobs, "live job"));
            host.plugin().log(LogLevel::Info, &text);
        }
        // The result is ignored, because Flux expects none from a timer.
        let _ =
            self.costs.time_refresh(host, &self.engine, || self.feed_event(host, None, Event::Timer(timer)));
    }

    fn receive_reply(&self, host: Host<'_, Self>, id: RequestId, reply: Result<&str, Error>) {
        let event = match id {
            RequestId::Batch | RequestId::Commits => return,
            RequestId::Eventlog(id) => return self.receive_eventlog(host, JobId(id), reply.ok()),
            RequestId::Service(number) => return self.receive_service_reply(host, number, reply),
            RequestId::Write => {
                let outcome = reply.map(drop).map_err(|error| error.to_string());
                return self
                    .advance_snapshot(host, |snapshot, _| snapshot.continue_after_write_commit(outcome));
            }
            RequestId::LookUp(number) => {
                return self
                    .advance_snapshot(host, |snapshot, engine| snapshot.note_reply(engine, number, reply));
            }
            RequestId::Dependencies(id) => {
                let names = reply.ok().and_then(jobspec::read_outstanding_dependencies);
                Event::Dependencies(JobId(id), names)
            }
            RequestId::EndedJobs => Event::Ended(reply.ok().and_then(ended::read_jobs)),
            RequestId::AwaitedKey => Event::SiteNodes(reply.ok().and_then(resources::count_site_nodes)),
        };
        let _ = self.feed_event(host, None, event);
    }

    fn set_safe_answer(&self, host: Host<'_, Self>, topic: &str, args: Args<'_>) -> Result<(), Failed> {
        match topic {
            // Another plugin may have set its own priority. If this call fails, Flux keeps the priority that the job
            // has.
            "job.priority.get" | "job.state.priority" => {
                effects::keep_priority(host.plugin(), args).map_err(|_| Failed)
            }
            "job.new" | "job.destroy" | "job.update" => Ok(()),
            _ if topic.starts_with("job.state.") || topic.starts_with("job.event.") => Ok(()),
            _ => Err(Failed),
        }
    }

    fn recover(&self, host: Host<'_, Self>, id: Option<u64>) {
        let _ = self.feed_event(host, None, Event::Panicked(id.map(JobId)));
        self.advance_snapshot(host, |snapshot, _| snapshot.recover());
        // The timer that ends an abandoned push may have panicked.
        let time_limit = self.staged_pushes.borrow().time_limit();
        time_limit.into_iter().for_each(|seconds| host.arm_timer(Timer::Expire.index(), seconds));
        self.restore_delayed_requests(host);
    }
}

fn format_count(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

impl Drop for MfPriority {
    fn drop(&mut self) {
        if self.loaded.borrow().is_some() {
            return;
        }
        let jobs = self.count_live_jobs();
        let text = format!("mf_priority: removed; {} left unchanged", format_count(jobs, "live job"));
        self.handle.log(LogLevel::Info, &text);
    }
}

/// Entry point, which Flux calls once when it loads the .so.
///
/// # Safety
/// `plugin` is the handle that Flux made for this plugin.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flux_plugin_init(plugin: *mut c_void) -> c_int {
    // SAFETY: `plugin` is the handle that Flux made for this plugin.
    unsafe { jobtap::init::<MfPriority>(plugin) }
}
