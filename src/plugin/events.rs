// SPDX-License-Identifier: LGPL-3.0-only
//! From a topic and its arguments to an [`Event`].

use super::jobspec::{facts, has_dependencies, lenient_facts, state};
use super::resources::resources;
use super::{MfPriority, query};
use crate::jobtap::{Args, BadArgs, Failed, Host, LogLevel};
use fairshare_engine::engine::answers;
use fairshare_engine::engine::{Event, Settings};
use fairshare_engine::ids::{JobId, UserId};
use fairshare_protocol::{settings, wire};

impl MfPriority {
    pub(super) fn dispatch(&self, host: Host<'_, Self>, topic: &str, args: Args<'_>) -> Result<(), Failed> {
        let outcome = match topic {
            "job.validate" => return self.validate(host, args),
            "job.update.attributes.system.queue" => return self.update_queue(host, args),
            "job.update.attributes.system.bank" => return self.update_bank(host, args),
            "plugin.query" => return self.query(host, args),
            "conf.update" => return self.configure(host, args),
            "job.state.priority" | "job.priority.get" => return self.priority(host, topic, args),
            "job.new" => args.job().map(|job| self.drive(host, Some(args), Event::New(lenient_facts(&job)))),
            "job.update" => args.job().map(|job| {
                self.show_unknown(host, args, JobId(job.id))?;
                self.drive(host, Some(args), Event::Updated(lenient_facts(&job)))
            }),
            "job.create" => args.job().map(|job| {
                let (id, state) = (JobId(job.id), state(job.state));
                let has_dependencies = has_dependencies(job.jobspec);
                self.drive(host, Some(args), Event::Created { id, state, has_dependencies })
            }),
            "job.event.dependency-add" => self.dependency(host, args, true),
            "job.event.dependency-remove" => self.dependency(host, args, false),
            "job.event.urgency" => args
                .id_urgency()
                .map(|(id, urgency)| self.drive(host, Some(args), Event::UrgencyChanged(JobId(id), urgency))),
            "job.event.resource-update" => Ok(self.drive(host, Some(args), Event::ResourcesUpdated)),
            "job.state.depend" => self.on_state(host, args, Event::Depend),
            "job.state.sched" => {
                self.compare_priority(host, args, true);
                self.on_state(host, args, Event::Sched)
            }
            "job.state.run" => self.run(host, args),
            "job.state.cleanup" => self.on_id(host, args, Event::Cleanup),
            "job.state.inactive" => self.on_id(host, args, Event::Inactive),
            "job.destroy" => self.on_id(host, args, Event::Gone),
            _ => Ok(Ok(())),
        };
        outcome.unwrap_or_else(|fault| complain(host, topic, &fault))
    }

    /// Compares the priority of the job in Flux with the posted one.
    fn compare_priority(&self, host: Host<'_, Self>, args: Args<'_>, is_answer: bool) {
        let Ok((in_flux, _)) = args.priority_state() else { return };
        let Ok(job) = args.id().map(JobId) else { return };
        let Some(posted) = self.engine.view(|view| view.posted_priority(job)).flatten() else { return };
        if let Some((level, text)) = self.others.compare(job, posted, in_flux, is_answer, host.now()) {
            self.logger.log(level, &text);
        }
    }

    fn on_id(
        &self,
        host: Host<'_, Self>,
        args: Args<'_>,
        event: fn(JobId) -> Event<'static>,
    ) -> Result<Result<(), Failed>, BadArgs> {
        args.id().map(|id| self.drive(host, Some(args), event(JobId(id))))
    }

    fn on_state(
        &self,
        host: Host<'_, Self>,
        args: Args<'_>,
        event: fn(JobId) -> Event<'static>,
    ) -> Result<Result<(), Failed>, BadArgs> {
        let id = JobId(args.id()?);
        let shown = self.show_unknown(host, args, id);
        Ok(shown.and_then(|()| self.drive(host, Some(args), event(id))))
    }

    fn run(&self, host: Host<'_, Self>, args: Args<'_>) -> Result<Result<(), Failed>, BadArgs> {
        let (id, r) = args.id_resources()?;
        let id = JobId(id);
        let shown = self.show_unknown(host, args, id);
        Ok(shown.and_then(|()| self.drive(host, Some(args), Event::Run(id, resources(r)))))
    }

    /// Shows a job whose `job.new` was lost.
    fn show_unknown(&self, host: Host<'_, Self>, args: Args<'_>, id: JobId) -> Result<(), Failed> {
        match self.engine.view(|view| view.knows(id)) {
            Some(false) => self.show(host, args),
            _ => Ok(()),
        }
    }

    fn show(&self, host: Host<'_, Self>, args: Args<'_>) -> Result<(), Failed> {
        match args.job() {
            Ok(job) => self.drive(host, Some(args), Event::New(lenient_facts(&job))),
            Err(_) => Ok(()),
        }
    }

    fn dependency(
        &self,
        host: Host<'_, Self>,
        args: Args<'_>,
        added: bool,
    ) -> Result<Result<(), Failed>, BadArgs> {
        let (id, name) = args.dependency()?;
        Ok(self.drive(host, Some(args), Event::Dependency { id: JobId(id), name, added }))
    }

    fn validate(&self, host: Host<'_, Self>, args: Args<'_>) -> Result<(), Failed> {
        let job = args.job().ok();
        match job.as_ref().and_then(|job| facts(job).ok()) {
            Some(facts) => self.drive(host, Some(args), Event::Validate(facts)),
            None => reject(host, args, "unable to unpack bank arg"),
        }
    }

    fn priority(&self, host: Host<'_, Self>, topic: &str, args: Args<'_>) -> Result<(), Failed> {
        let (id, urgency) = match args.id_urgency() {
            Ok(read) => read,
            Err(fault) => return complain(host, topic, &fault),
        };
        let id = JobId(id);
        if topic == "job.priority.get" {
            self.compare_priority(host, args, false);
        }
        let event = || match (topic, args.bounced_priority()) {
            ("job.priority.get", _) => Event::PriorityGet(id, urgency),
            (_, Some(posted)) => Event::Bounced { id, urgency, posted },
            (_, None) => Event::Priority(id, urgency),
        };
        let effects = self.engine.feed(host.now(), event()).ok_or(Failed)?;
        if !effects.is_empty() {
            return self.carry_out(host, Some(args), effects);
        }
        // After a crash a job's priority may come before its `job.new`.
        self.show(host, args)?;
        self.drive(host, Some(args), event())
    }

    fn update_queue(&self, host: Host<'_, Self>, args: Args<'_>) -> Result<(), Failed> {
        let update = args.update().ok();
        let Some((update, queue)) = update.and_then(|update| Some((update, update.value.as_str()?))) else {
            return reject(host, args, "unable to unpack plugin args");
        };
        let (id, user, state) = (JobId(update.id), UserId(update.userid), state(update.state));
        self.drive(host, Some(args), Event::UpdateQueue { id, user, state, queue })
    }

    fn update_bank(&self, host: Host<'_, Self>, args: Args<'_>) -> Result<(), Failed> {
        let update = args.update().ok();
        let Some((update, bank)) = update.and_then(|update| Some((update, update.value.as_str()?))) else {
            return reject(host, args, "unable to unpack bank arg");
        };
        let (id, user, state) = (JobId(update.id), UserId(update.userid), state(update.state));
        self.drive(host, Some(args), Event::UpdateBank { id, user, state, bank })
    }

    /// The instance's configuration, at load and when it is read anew. What is given at load goes before it.
    fn configure(&self, host: Host<'_, Self>, args: Args<'_>) -> Result<(), Failed> {
        let tables = args
            .configured(settings::TABLE)
            .and_then(|table| Ok((table, args.configured(c"queues")?, args.configured(c"access")?)));
        let (table, queues, access) = match tables {
            Ok(tables) => tables,
            Err(fault) => return complain(host, "conf.update", &fault),
        };
        let given = host.plugin().config();
        let read = || {
            let settings = table.map_or_else(
                || Ok(Settings::default()),
                |table| settings::of_table(&table, Settings::default()),
            )?;
            let settings = given.map_or(Ok(settings.clone()), |conf| wire::load_settings(&conf, settings))?;
            settings::queues_are_known(&settings, queues.as_deref())?;
            Ok::<Settings, String>(settings)
        };
        match read() {
            Ok(settings) => {
                if let Some(text) = self.loaded.take() {
                    host.plugin().log(LogLevel::Info, &text);
                }
                let remembers = settings.remember;
                self.is_private.set(settings::is_private(access.as_deref()));
                self.drive(
                    host,
                    Some(args),
                    Event::ConfiguredQueues(settings::configured_queues(queues.as_deref())),
                )?;
                self.drive(host, Some(args), Event::Settings(settings))?;
                self.advance_snapshot(host, |remember, engine| remember.configure(engine, remembers));
                Ok(())
            }
            Err(text) => {
                let text = format!("mf_priority: {text}");
                host.plugin().log(LogLevel::Error, &text);
                reject(host, args, &text)
            }
        }
    }

    fn query(&self, host: Host<'_, Self>, args: Args<'_>) -> Result<(), Failed> {
        let snapshot = self.engine.view(answers::snapshot).ok_or(Failed)?;
        args.merge(&query::document(&snapshot, self.updated.get(), self.costs.refreshes()))
            .or_else(|fault| complain(host, "plugin.query", &fault))
    }
}

fn reject(host: Host<'_, MfPriority>, args: Args<'_>, text: &str) -> Result<(), Failed> {
    args.set_error(host.plugin(), text);
    Err(Failed)
}

fn complain(host: Host<'_, MfPriority>, topic: &str, fault: &BadArgs) -> Result<(), Failed> {
    let text = format!("mf_priority: {topic}: unable to read arguments: {}", fault.0);
    host.plugin().log(LogLevel::Error, &text);
    Err(Failed)
}
