// SPDX-License-Identifier: LGPL-3.0-only
//! Carrying out what the engine decided. No borrow of the engine is alive here: any of these calls may re-enter us.

use super::answers::ask_scheduler;
use super::jobspec::lenient_facts;
use super::resources::resources;
use super::services::{busy, error};
use super::{MfPriority, SITE_RESOURCES};
use crate::jobtap::{
    Args, BadArgs, EINVAL, EIO, ENOENT, Error, Failed, Host, LogLevel, Patience, Plugin, RequestError,
};
use fairshare_engine::engine::{Effect, Event, Level, Posting, Refusal, Step};
use fairshare_engine::ids::{BankName, JobId, ProjectName, with_f58};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::ffi::CStr;

const BANK: &CStr = c"attributes.system.bank";
const PROJECT: &CStr = c"attributes.system.project";
const SCHED: i64 = 8;

/// What came of an effect.
enum Outcome {
    Done,
    /// The callback is to report failure.
    Fail,
    Refused(Effect, Refusal),
    Told(Box<Event<'static>>),
    Then(Step),
    /// What the engine said to what was found.
    Answered(Vec<Effect>),
}

impl MfPriority {
    /// Feeds an event to the engine and carries out what follows from it, in order.
    pub(super) fn drive(
        &self,
        host: Host<'_, Self>,
        args: Option<Args<'_>>,
        event: Event<'_>,
    ) -> Result<(), Failed> {
        let effects = self.engine.feed(host.now(), event).ok_or(Failed)?;
        self.carry_out(host, args, effects)
    }

    /// Feeds an event that a request brings, and carries out what follows. Returns an error for the sender if Flux refused an effect.
    pub(super) fn effect(&self, host: Host<'_, Self>, event: Event<'_>) -> Result<(), RequestError> {
        self.refusal.take();
        self.drive(host, None, event).map_err(|_| busy())?;
        match self.refusal.take() {
            None => Ok(()),
            Some(text) => Err(error(EIO, format!("mf_priority: {text}"))),
        }
    }

    /// Carries out effects in order, and whatever follows from them.
    pub(super) fn carry_out(
        &self,
        host: Host<'_, Self>,
        args: Option<Args<'_>>,
        effects: Vec<Effect>,
    ) -> Result<(), Failed> {
        let mut todo = VecDeque::from(effects);
        // Flux keeps these in one place, and posts them to the job of whichever callback ends next: no other call may follow.
        let mut own = VecDeque::new();
        let mut result = Ok(());
        while let Some(effect) = todo.pop_front().or_else(|| own.pop_front()) {
            if !todo.is_empty() && matches!(effect, Effect::SetJobspec { posting: Posting::Current, .. }) {
                own.push_back(effect);
                continue;
            }
            host.before_effect();
            let next = match self.apply(host, args, effect) {
                Outcome::Done => continue,
                Outcome::Fail => {
                    result = Err(Failed);
                    continue;
                }
                Outcome::Refused(effect, why) => self.refused(effect, why),
                Outcome::Told(event) => self.engine.feed(host.now(), *event),
                Outcome::Then(step) => self.engine.decide(|engine| engine.step(step)),
                Outcome::Answered(effects) => Some(effects),
            };
            // What follows from an effect comes before the effects after it.
            next.unwrap_or_default().into_iter().rev().for_each(|effect| todo.push_front(effect));
        }
        result
    }

    /// Tells the engine that Flux refused an effect, and returns what follows. If the engine logs an error about it, the sender of a
    /// running request gets its text.
    fn refused(&self, effect: Effect, why: Refusal) -> Option<Vec<Effect>> {
        let effects = self.engine.decide(|engine| engine.refused(effect, why))?;
        let complaint = effects.iter().find_map(|effect| match effect {
            Effect::Log(Level::Error, text) => Some(text),
            _ => None,
        });
        if let (Some(text), Ok(mut refusal)) = (complaint, self.refusal.try_borrow_mut()) {
            refusal.get_or_insert_with(|| text.clone());
        }
        Some(effects)
    }

    fn apply(&self, host: Host<'_, Self>, args: Option<Args<'_>>, effect: Effect) -> Outcome {
        let plugin = host.plugin();
        let done = match effect {
            Effect::Reject(ref text) => {
                if let Some(args) = args {
                    args.set_error(plugin, text);
                }
                return Outcome::Fail;
            }
            Effect::RejectPolicy(text) => {
                self.rejected.replace(Some(text));
                return Outcome::Done;
            }
            Effect::SetPriority(priority) => {
                return answered(args, |args| args.set_priority(i64::from(priority)));
            }
            Effect::PriorityUnavailable => {
                return answered(args, |args| args.set_priority_unavailable(plugin));
            }
            Effect::Annotate(id, ref text) => volatile_memo(plugin, id, json!({"standing": text})),
            Effect::KeepPriority => {
                return answered(args, |args| keep_priority(plugin, args));
            }
            Effect::SetJobspec { id, posting, ref bank, ref project } => {
                let id = (posting == Posting::ById).then_some(id.0);
                let bank = bank.as_ref().map(BankName::as_str);
                let project = project.as_ref().map(ProjectName::as_str);
                plugin.jobspec_update(id, [(BANK, bank), (PROJECT, project)])
            }
            Effect::AddDependency(id, name) => plugin.dependency_add(id.0, &name.to_string()),
            Effect::AskUrgency(id) => match plugin.urgency(id.0) {
                Ok(urgency) => return Outcome::Told(Box::new(Event::Urgency(id, urgency))),
                Err(error) => Err(error),
            },
            Effect::AskExpiration(id) => {
                match plugin.job(id.0, |job| resources(job.resources).allocation()) {
                    Ok(Some(given)) => {
                        return Outcome::Told(Box::new(Event::Expiration(id, given.expiration)));
                    }
                    Ok(None) => return Outcome::Done,
                    Err(error) => Err(error),
                }
            }
            Effect::LookUp(id) => {
                match plugin.job(id.0, |job| self.engine.feed(host.now(), Event::Shown(lenient_facts(job)))) {
                    Ok(effects) => return Outcome::Answered(effects.unwrap_or_default()),
                    Err(error) => Err(error),
                }
            }
            Effect::AskScheduler => {
                ask_scheduler(host);
                return Outcome::Done;
            }
            Effect::AskQueues(names) => {
                self.ask_for_engine(host, names);
                return Outcome::Done;
            }
            Effect::Subscribe(id) => plugin.job_subscribe(id.0),
            Effect::Unsubscribe(id) => {
                plugin.job_unsubscribe(id.0);
                Ok(())
            }
            Effect::RemoveDependency(id, name) => plugin.dependency_remove(id.0, &name.to_string()),
            Effect::Memo(id, fairshare) => plugin.memo(id.0, c"fairshare", fairshare),
            Effect::VolatileMemo(id, fairshare) => volatile_memo(plugin, id, json!({"fairshare": fairshare})),
            Effect::Raise(id, ref note) => plugin.raise(id.0, c"mf_priority", note),
            Effect::Prioritize(id, priority) => plugin.reprioritize_job(id.0, priority),
            Effect::ReprioritizeAll => plugin.reprioritize_all(),
            Effect::Log(level, ref text) => {
                let level = match level {
                    Level::Error => LogLevel::Error,
                    Level::Warning => LogLevel::Warning,
                    Level::Debug => LogLevel::Debug,
                };
                plugin.log(level, &format!("mf_priority: {}", with_f58(text)));
                Ok(())
            }
            Effect::Arm(timer) => {
                host.arm(timer.index(), timer.seconds());
                Ok(())
            }
            Effect::ArmIn(timer, seconds) => {
                host.restart(timer.index(), seconds);
                Ok(())
            }
            Effect::ReadEventlog(id) => {
                host.read_eventlog(id.0);
                Ok(())
            }
            Effect::ListEnded { since, before, most } => {
                host.list_ended(&super::ended::request(since, before, most));
                Ok(())
            }
            Effect::ReadSiteNodes => {
                let (key, number) = SITE_RESOURCES;
                host.look_up(key, number, Patience::WhenThere);
                Ok(())
            }
            Effect::ReadDependencies(id) => {
                host.read_dependencies(id.0);
                Ok(())
            }
            Effect::Then(step) => return Outcome::Then(step),
        };
        match done {
            Ok(()) => Outcome::Done,
            Err(Error { errno: ENOENT, .. }) => Outcome::Refused(effect, Refusal::Absent),
            Err(Error { errno: EINVAL, .. }) => Outcome::Refused(effect, Refusal::TooLate),
            Err(error) => Outcome::Refused(effect, Refusal::Other(error.to_string())),
        }
    }
}

/// Answers that a job in SCHED keeps its priority, and that any other has none. A job that was in SCHED until now must return there: the
/// scheduler may have decided on it.
pub(super) fn keep_priority(plugin: Plugin, args: Args<'_>) -> Result<(), BadArgs> {
    if let Some(posted) = args.bounced_priority() {
        return args.set_priority(i64::from(posted));
    }
    match args.priority_state() {
        Ok((priority, SCHED)) if priority >= 0 => args.set_priority(priority),
        _ => args.set_priority_unavailable(plugin),
    }
}

/// Has Flux show members among the annotations of a job, in no eventlog.
fn volatile_memo(plugin: Plugin, id: JobId, memo: Value) -> Result<(), Error> {
    let request = json!({"id": id.0, "volatile": true, "memo": memo});
    plugin.send(c"job-manager.memo", &request.to_string())
}

/// Puts an answer into the callback's arguments; outside a callback there is nobody to answer.
fn answered<E>(args: Option<Args<'_>>, answer: impl FnOnce(Args<'_>) -> Result<(), E>) -> Outcome {
    match args.map(answer) {
        Some(Err(_)) => Outcome::Fail,
        _ => Outcome::Done,
    }
}
