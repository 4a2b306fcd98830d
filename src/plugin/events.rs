// SPDX-License-Identifier: LGPL-3.0-only
//! Turns a topic and its arguments into an [`Event`].

use super::MfPriority;
use super::jobspec::{UNREADABLE_NAMES, has_dependencies, read_facts, read_facts_leniently, state_from_bit};
use super::overruled::compare_priorities;
use super::resources::read_resources;
use crate::jobtap::{Args, BadArgs, Failed, Host, LogLevel};
use fairshare_engine::engine::{Event, Settings, State, answers};
use fairshare_engine::ids::{JobId, UserId};
use fairshare_protocol::{settings, wire};
use std::borrow::Cow;

/// A callback from Flux for `topic`, with its arguments.
pub(super) struct Callback<'a> {
    pub plugin: &'a MfPriority,
    pub host: Host<'a, MfPriority>,
    pub topic: &'a str,
    pub args: Args<'a>,
}

impl Callback<'_> {
    /// Passes the callback to the engine as an event, and carries out the effects.
    pub fn dispatch(&self) -> Result<(), Failed> {
        let args = self.args;
        match self.topic {
            "job.validate" => self.on_validate(),
            "job.update.attributes.system.queue" => {
                let to_event = |id, user, state, queue| Event::UpdateQueue { id, user, state, queue };
                self.on_update("unable to unpack plugin args", to_event)
            }
            "job.update.attributes.system.bank" => {
                let to_event = |id, user, state, bank| Event::UpdateBank { id, user, state, bank };
                self.on_update(UNREADABLE_NAMES, to_event)
            }
            "plugin.query" => self.on_query(),
            "conf.update" => self.apply_instance_configuration(),
            "job.state.priority" | "job.priority.get" => self.answer_priority(),
            "job.new" => self.pass_to_engine(Event::New(read_facts_leniently(&self.or_log(args.job())?))),
            "job.update" => {
                let job = self.or_log(args.job())?;
                self.add_job_missing_in_engine(JobId(job.id))?;
                self.pass_to_engine(Event::Updated(read_facts_leniently(&job)))
            }
            "job.create" => {
                let job = self.or_log(args.job())?;
                let (id, state) = (JobId(job.id), state_from_bit(job.state));
                let has_dependencies = has_dependencies(job.jobspec);
                self.pass_to_engine(Event::Created { id, state, has_dependencies })
            }
            "job.event.dependency-add" => self.on_dependency(true),
            "job.event.dependency-remove" => self.on_dependency(false),
            "job.event.urgency" => {
                let (id, urgency) = self.or_log(args.id_and_urgency())?;
                self.pass_to_engine(Event::UrgencyChanged(JobId(id), urgency))
            }
            "job.event.resource-update" => self.pass_to_engine(Event::ResourcesUpdated),
            "job.state.depend" => self.handle_job_state(Event::Depend),
            "job.state.sched" => {
                self.compare_priority(true);
                self.handle_job_state(Event::Sched)
            }
            "job.state.run" => self.on_run(),
            "job.state.cleanup" => self.handle_job_event(Event::Cleanup),
            "job.state.inactive" => self.handle_job_event(Event::Inactive),
            "job.destroy" => self.handle_job_event(Event::Gone),
            _ => Ok(()),
        }
    }

    fn pass_to_engine(&self, event: Event<'_>) -> Result<(), Failed> {
        self.plugin.feed_event(self.host, Some(self.args), event)
    }

    /// Compares the priority of the job in Flux with the posted priority: see [`compare_priorities`].
    fn compare_priority(&self, is_answer: bool) {
        let Ok((in_flux, _)) = self.args.priority_and_state() else { return };
        let Ok(job) = self.args.id().map(JobId) else { return };
        let Some(posted) = self.plugin.engine.view(|view| view.posted_priority(job)).flatten() else {
            return;
        };
        let known = &self.plugin.overruled;
        if let Some((level, text)) =
            compare_priorities(known, job, posted, in_flux, is_answer, self.host.now())
        {
            self.host.plugin().log(level, &text);
        }
    }

    fn handle_job_event(&self, event: fn(JobId) -> Event<'static>) -> Result<(), Failed> {
        self.pass_to_engine(event(JobId(self.or_log(self.args.id())?)))
    }

    fn handle_job_state(&self, event: fn(JobId) -> Event<'static>) -> Result<(), Failed> {
        let id = JobId(self.or_log(self.args.id())?);
        self.add_job_missing_in_engine(id)?;
        self.pass_to_engine(event(id))
    }

    fn on_run(&self) -> Result<(), Failed> {
        let (id, r) = self.or_log(self.args.id_and_resources())?;
        self.add_job_missing_in_engine(JobId(id))?;
        self.pass_to_engine(Event::Run(JobId(id), read_resources(r)))
    }

    /// Passes the callback's job to the engine if the engine does not have job `id`, because its `job.new` was lost.
    fn add_job_missing_in_engine(&self, id: JobId) -> Result<(), Failed> {
        match self.plugin.engine.view(|view| view.has_job(id)) {
            Some(false) => self.handle_new_job(),
            _ => Ok(()),
        }
    }

    /// Passes the callback's job to the engine as a new job.
    fn handle_new_job(&self) -> Result<(), Failed> {
        match self.args.job() {
            Ok(job) => self.pass_to_engine(Event::New(read_facts_leniently(&job))),
            Err(_) => Ok(()),
        }
    }

    fn on_dependency(&self, added: bool) -> Result<(), Failed> {
        let (id, name) = self.or_log(self.args.dependency())?;
        self.pass_to_engine(Event::Dependency { id: JobId(id), name, added })
    }

    fn on_validate(&self) -> Result<(), Failed> {
        let job = self.args.job().ok();
        match job.as_ref().and_then(read_facts) {
            Some(facts) => self.pass_to_engine(Event::Validate(facts)),
            None => self.reject(UNREADABLE_NAMES),
        }
    }

    fn answer_priority(&self) -> Result<(), Failed> {
        let (id, urgency) = self.or_log(self.args.id_and_urgency())?;
        let id = JobId(id);
        if self.topic == "job.priority.get" {
            self.compare_priority(false);
        }
        let event = || match (self.topic, self.args.get_returned_priority()) {
            ("job.priority.get", _) => Event::PriorityGet(id, urgency),
            (_, Some(posted)) => Event::Bounced { id, urgency, posted },
            (_, None) => Event::Priority(id, urgency),
        };
        let effects = self.plugin.engine.feed(self.host.now(), event()).ok_or(Failed)?;
        if !effects.is_empty() {
            return self.plugin.perform_engine_effects(self.host, Some(self.args), effects);
        }
        // After a restart Flux may ask for a job's priority before it calls `job.new`.
        self.handle_new_job()?;
        self.pass_to_engine(event())
    }

    /// Passes the update of a job's queue or bank to the engine. Rejects the update with `unreadable` if the new name is not a
    /// string.
    fn on_update<'a>(
        &'a self,
        unreadable: &str,
        to_event: fn(JobId, UserId, State, &'a str) -> Event<'a>,
    ) -> Result<(), Failed> {
        let (Ok(job), Some(name)) = (self.args.job(), self.args.requested_text()) else {
            return self.reject(unreadable);
        };
        self.pass_to_engine(to_event(JobId(job.id), UserId(job.userid), state_from_bit(job.state), name))
    }

    /// Applies the configuration of the instance, at load and when Flux reads it again. Options given at load take
    /// precedence.
    fn apply_instance_configuration(&self) -> Result<(), Failed> {
        let table = self.or_log(self.args.config_table(settings::TABLE))?;
        let queues = self.or_log(self.args.config_table(c"queues"))?;
        let access = self.or_log(self.args.config_table(c"access"))?;
        let options = self.host.plugin().config();
        for (options, place) in [(&table, "fairshare."), (&options, "")] {
            for text in options.iter().flat_map(|options| settings::list_retired(options, place)) {
                self.host.plugin().log(LogLevel::Warning, &format!("mf_priority: {text}"));
            }
        }
        let read = || {
            let settings = table.map_or_else(
                || Ok(Settings::default()),
                |table| settings::read_table(&table, Settings::default()),
            )?;
            let settings =
                options.map_or(Ok(settings.clone()), |conf| wire::read_load_settings(&conf, settings))?;
            settings::check_queues(&settings, queues.as_deref())?;
            Ok::<Settings, String>(settings)
        };
        match read() {
            Ok(settings) => {
                if let Some(text) = self.plugin.loaded.take() {
                    self.host.plugin().log(LogLevel::Info, &text);
                }
                let is_saved = settings.remember;
                self.plugin.is_private.set(settings::is_private(access.as_deref()));
                self.pass_to_engine(Event::ConfiguredQueues(settings::configured_queues(queues.as_deref())))?;
                self.pass_to_engine(Event::Settings(settings))?;
                self.plugin
                    .advance_snapshot(self.host, |snapshot, engine| snapshot.configure(engine, is_saved));
                Ok(())
            }
            Err(text) => {
                let text = format!("mf_priority: {text}");
                self.host.plugin().log(LogLevel::Error, &text);
                self.reject(&text)
            }
        }
    }

    fn on_query(&self) -> Result<(), Failed> {
        let mut snapshot = self.plugin.engine.view(answers::snapshot).ok_or(Failed)?;
        snapshot.version = Some(Cow::Borrowed(env!("CARGO_PKG_VERSION")));
        snapshot.updated = self.plugin.update_time();
        snapshot.pushed_by = self.plugin.updated.get().and_then(|updated| updated.by);
        if let Some(last) = &mut snapshot.live.last {
            last.seconds = self.plugin.costs.refreshes.get().last.map(|(_, seconds)| seconds);
        }
        self.or_log(self.args.add_to_answer(&snapshot))
    }

    /// Makes Flux reject the job, the update or the configuration with the error text `text`.
    fn reject(&self, text: &str) -> Result<(), Failed> {
        self.args.set_error(self.host.plugin(), text);
        Err(Failed)
    }

    /// Returns what was read from the arguments. Logs that the arguments cannot be read if `read` is a fault.
    fn or_log<T>(&self, read: Result<T, BadArgs>) -> Result<T, Failed> {
        read.map_err(|BadArgs(fault)| {
            let text = format!("mf_priority: {}: unable to read arguments: {fault}", self.topic);
            self.host.plugin().log(LogLevel::Error, &text);
            Failed
        })
    }
}
