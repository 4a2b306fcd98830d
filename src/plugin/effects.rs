// SPDX-License-Identifier: LGPL-3.0-only
//! Carries out the effects of the engine. No borrow of the engine is alive in this module, because each call into Flux
//! may re-enter the plugin.

use super::answers::ping_sched_simple;
use super::jobspec::read_facts_leniently;
use super::resources::read_resources;
use super::services::{busy_error, request_error};
use super::{MfPriority, SITE_RESOURCES};
use crate::jobtap::{Args, BadArgs, EINVAL, EIO, ENOENT, Error, Failed, Host, LogLevel, Plugin, Result};
use fairshare_engine::engine::{Effect, Event, Level, Posting, Refusal};
use fairshare_engine::ids::{BankName, JobId, ProjectName, replace_job_numbers_with_f58};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::ffi::CStr;

const BANK: &CStr = c"attributes.system.bank";
const PROJECT: &CStr = c"attributes.system.project";
const SCHED: i64 = 8;

/// The result of an effect that Flux did not refuse.
enum Outcome {
    Done,
    /// The callback must report failure.
    Fail,
    /// The effects that the engine returned for Flux's reply.
    Followed(Vec<Effect>),
}

impl MfPriority {
    /// Feeds an event to the engine and carries out the effects, in order.
    pub(super) fn feed_event(
        &self,
        host: Host<'_, Self>,
        args: Option<Args<'_>>,
        event: Event<'_>,
    ) -> Result<(), Failed> {
        let effects = self.engine.feed(host.now(), event).ok_or(Failed)?;
        self.perform_engine_effects(host, args, effects)
    }

    /// Feeds an event of a request to the engine, and carries out the effects. Returns an error for the sender if
    /// Flux refused an effect.
    pub(super) fn feed_request_event(&self, host: Host<'_, Self>, event: Event<'_>) -> Result<()> {
        self.refusal.take();
        self.feed_event(host, None, event).map_err(|_| busy_error())?;
        match self.refusal.take() {
            None => Ok(()),
            Some(text) => Err(request_error(EIO, format!("mf_priority: {text}"))),
        }
    }

    /// Carries out `effects` in order. The effects that an effect causes are carried out before the next one.
    pub(super) fn perform_engine_effects(
        &self,
        host: Host<'_, Self>,
        args: Option<Args<'_>>,
        effects: Vec<Effect>,
    ) -> Result<(), Failed> {
        let mut pending = VecDeque::from(effects);
        // Flux posts updates of the current job's jobspec when the next callback ends. If a later effect ran a callback
        // about a second job, Flux would post the updates to the second job. So these updates are carried out last.
        let mut jobspec_updates = VecDeque::new();
        let mut result = Ok(());
        while let Some(effect) = pending.pop_front().or_else(|| jobspec_updates.pop_front()) {
            if !pending.is_empty() && matches!(effect, Effect::SetJobspec { posting: Posting::Current, .. }) {
                jobspec_updates.push_back(effect);
                continue;
            }
            host.note_that_effect_begins();
            let following = match effect {
                Effect::Then(step) => self.engine.update(|engine| engine.execute_step(step)),
                effect => match self.apply_effect(host, args, &effect) {
                    Ok(Outcome::Done) => continue,
                    Ok(Outcome::Fail) => {
                        result = Err(Failed);
                        continue;
                    }
                    Ok(Outcome::Followed(effects)) => Some(effects),
                    Err(error) => self.report_effect_refused_by_flux(effect, &error),
                },
            };
            // The engine may answer an effect with further effects. They are carried out before the pending
            // effects.
            following.unwrap_or_default().into_iter().rev().for_each(|effect| pending.push_front(effect));
        }
        result
    }

    /// Reports to the engine that Flux refused an effect, and returns the effects that the engine returns. If
    /// the engine logs an error about the refusal, the sender of the running request gets this error text.
    fn report_effect_refused_by_flux(&self, effect: Effect, error: &Error) -> Option<Vec<Effect>> {
        let why = match error.errno {
            ENOENT => Refusal::Absent,
            EINVAL => Refusal::TooLate,
            _ => Refusal::Other(error.to_string()),
        };
        let effects = self.engine.update(|engine| engine.refused(effect, why))?;
        let error_text = effects.iter().find_map(|effect| match effect {
            Effect::Log(Level::Error, text) => Some(text),
            _ => None,
        });
        if let (Some(text), Ok(mut refusal)) = (error_text, self.refusal.try_borrow_mut()) {
            refusal.get_or_insert_with(|| text.clone());
        }
        Some(effects)
    }

    /// Carries out an effect. Returns the error of Flux if Flux refuses the effect.
    fn apply_effect(
        &self,
        host: Host<'_, Self>,
        args: Option<Args<'_>>,
        effect: &Effect,
    ) -> Result<Outcome, Error> {
        let plugin = host.plugin();
        let report =
            |event: Event<'_>| Outcome::Followed(self.engine.feed(host.now(), event).unwrap_or_default());
        match *effect {
            Effect::Reject(ref text) => {
                args.into_iter().for_each(|args| args.set_error(plugin, text));
                return Ok(Outcome::Fail);
            }
            Effect::RejectPush(ref text) => drop(self.rejected.replace(Some(text.clone()))),
            Effect::SetPriority(priority) => {
                return Ok(set_callback_answer(args, |args| args.set_priority(i64::from(priority))));
            }
            Effect::PriorityUnavailable => {
                return Ok(set_callback_answer(args, |args| args.set_priority_unavailable(plugin)));
            }
            Effect::KeepPriority => return Ok(set_callback_answer(args, |args| keep_priority(plugin, args))),
            Effect::Annotate(id, ref text) => post_volatile_memo(plugin, id, json!({"standing": text}))?,
            Effect::SetJobspec { id, posting, ref bank, ref project } => {
                let id = (posting == Posting::ById).then_some(id.0);
                let bank = bank.as_ref().map(BankName::as_str);
                let project = project.as_ref().map(ProjectName::as_str);
                plugin.update_jobspec(id, [(BANK, bank), (PROJECT, project)])?;
            }
            Effect::AddDependency(id, name) => plugin.add_dependency(id.0, &name.to_string())?,
            Effect::AskUrgency(id) => {
                return Ok(report(Event::Urgency(id, plugin.read_urgency(id.0)?)));
            }
            Effect::AskExpiration(id) => {
                let allocation = plugin.read_job(id.0, |job| read_resources(job.resources).allocation())?;
                let event = allocation.map(|known| Event::Expiration(id, known.expiration));
                return Ok(event.map_or(Outcome::Done, report));
            }
            Effect::LookUp(id) => {
                return plugin.read_job(id.0, |job| report(Event::Shown(read_facts_leniently(job))));
            }
            Effect::AskScheduler => ping_sched_simple(host),
            Effect::AskQueues(ref names) => self.ask_queues_for_engine(host, names.clone()),
            Effect::Subscribe(id) => plugin.subscribe_to_job(id.0)?,
            Effect::Unsubscribe(id) => plugin.unsubscribe_from_job(id.0),
            Effect::RemoveDependency(id, name) => plugin.remove_dependency(id.0, &name.to_string())?,
            Effect::Memo(id, fairshare) => plugin.post_memo(id.0, c"fairshare", fairshare)?,
            Effect::VolatileMemo(id, fairshare) => {
                post_volatile_memo(plugin, id, json!({"fairshare": fairshare}))?;
            }
            Effect::Raise(id, ref note) => plugin.raise_exception(id.0, c"mf_priority", note)?,
            Effect::Prioritize(id, priority) => plugin.reprioritize_job(id.0, priority)?,
            Effect::ReprioritizeAll => plugin.reprioritize_all()?,
            Effect::Log(level, ref text) => {
                let level = match level {
                    Level::Error => LogLevel::Error,
                    Level::Warning => LogLevel::Warning,
                    Level::Debug => LogLevel::Debug,
                };
                plugin.log(level, &format!("mf_priority: {}", replace_job_numbers_with_f58(text)));
            }
            Effect::Arm(timer) => host.arm_timer(timer.index(), timer.seconds()),
            Effect::ArmIn(timer, seconds) => host.restart_timer(timer.index(), seconds),
            Effect::ReadEventlog(id) => host.read_eventlog(id.0),
            Effect::ListEnded { since, before, most } => {
                host.list_ended(&super::ended::build_list_request(since, before, most));
            }
            Effect::ReadSiteNodes => host.await_key(SITE_RESOURCES),
            Effect::ReadDependencies(id) => host.read_dependencies(id.0),
            Effect::Then(_) => {}
        }
        Ok(Outcome::Done)
    }
}

/// Answers that a job keeps its priority if it is in SCHED, or was in SCHED until now: the scheduler may have
/// allocated resources for it. Any other job gets no priority.
pub(super) fn keep_priority(plugin: Plugin, args: Args<'_>) -> Result<(), BadArgs> {
    if let Some(posted) = args.get_returned_priority() {
        return args.set_priority(i64::from(posted));
    }
    match args.priority_and_state() {
        Ok((priority, SCHED)) if priority >= 0 => args.set_priority(priority),
        _ => args.set_priority_unavailable(plugin),
    }
}

/// Makes Flux show `memo` among the annotations of a job, without an entry in its eventlog.
fn post_volatile_memo(plugin: Plugin, id: JobId, memo: Value) -> Result<(), Error> {
    let request = json!({"id": id.0, "volatile": true, "memo": memo});
    plugin.send_without_reply(c"job-manager.memo", &request.to_string())
}

/// Sets the answer of the callback. Does nothing outside a callback.
fn set_callback_answer<E>(args: Option<Args<'_>>, answer: impl FnOnce(Args<'_>) -> Result<(), E>) -> Outcome {
    if let Some(Err(_)) = args.map(answer) { Outcome::Fail } else { Outcome::Done }
}
