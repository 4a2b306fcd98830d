// SPDX-License-Identifier: LGPL-3.0-only
//! What is kept in the KVS for after a reload or a restart: the last policy that came whole, with its tree and usages.
//!
//! ```text
//!   conf.update (first) ─> ask for the manifest ─┬─ nothing there, or data came first ──────────> wait for a push
//!                                                ├─ read all texts ─> apply them as a push in parts ─> in force
//!                                                └─ none of ours, or damaged: told in the log ──> wait for a push
//!   a whole policy in force ─┬─ what changed, as a text of the log ┬─> the manifest, and away with what only the former had
//!                            └─ new texts, batch by batch ─────────┘
//! ```
//!
//! # What it costs
//! The KVS keeps whatever was ever written, so a push is to cost what it changed. A line of the log, some 40 bytes, tells the new
//! usage of an association, or one that came, went, or has other limits. A fair-share that is what the tree of the same
//! record gives is not written, but reckoned again when it is read: of a policy of ranks all change when one does. When
//! the log is as long as the fair-shares and usages in the groups, these are written anew, and the log is empty; so are they
//! where a push changes about as much at once, as at the end of a half-life period. So a record has at most twice its
//! length, and over many pushes twice what changed is written, and what the manifest and the directories take.
//!
//! # Rules
//! - Kept is what `policy_update` or `policy_commit` put in force. What flux-accounting's own methods bring is not, and
//!   takes away what is there: it would tell of something that is not in force any more.
//! - Whatever comes before the record was read goes before it: a document given at load, or any push. Jobs that ended add to a push:
//!   after a whole one those that the record tells of are read all the same.
//! - With `remember = false` nothing is written, what is there is not read, and is taken away.
//! - A record is read only by the owner of the instance that wrote it, in the format of this plugin, and only whole:
//!   each text must have the hash it is called by. It then goes the way of a push, and is judged as one.
//! - What is refused stays where it is until the next push takes its place.

mod applying;
mod changes;
mod found;
mod jobs;
mod known;
mod lines;
mod parsing;
mod reading;
mod record;
mod rest;
#[cfg(test)]
mod tests;
mod writing;

use super::MfPriority;
use crate::jobtap::{self, Host, LogLevel, Patience};
use applying::Applying;
use fairshare::shortened;
use fairshare_engine::engine::{self};
use fairshare_engine::engine::{Event, Timer};
use found::Lists;
use jobs::Log;
use known::Known;
use reading::Reading;
use record::{ROOT, manifest_key};
use std::rc::Rc;
use writing::{Base, Before, JOBS_PAGE, PAGE, Then, Wants, Writing};

/// The number by which the manifest is asked for: no text has it.
const MANIFEST: u64 = u64::MAX;
/// And that of the list of ended jobs.
const ENDED: u64 = MANIFEST - 1;
/// And that of groups. The number between is that of what the site has.
const GROUPS: u64 = MANIFEST - 3;
/// Seconds between two writes of jobs that ended, and how many are written together.
const ENDED_EVERY: f64 = 60.0;
const ENDED_AT_ONCE: usize = 2000;
/// Seconds after which it is looked again whether an open push has come to its end.
const PATIENCE: f64 = 1.0;
/// So many panics, and no more is remembered until the configuration is read again.
const MAX_PANICS: u32 = 3;

/// What is remembered, and what goes on about it.
#[derive(Default)]
pub(super) struct Remember {
    /// The setting; `None` before the first configuration.
    is_on: Option<bool>,
    state: State,
    /// What of the KVS is ours.
    known: Known,
    /// The record there, if it is known what it says.
    base: Option<Rc<Base>>,
    /// A commit failed: what of it was done is not known.
    doubts: bool,
    /// What is in force is to be written.
    is_due: bool,
    /// A whole push came before the record was read: of that only the jobs that ended are wanted.
    is_late: bool,
    /// Jobs that ended since the last push.
    log: Log,
    panics: u32,
}

#[derive(Default)]
enum State {
    #[default]
    Idle,
    /// For the manifest, after a commit of nothing. Commits are done in turn, and a lookup does not wait for them: one that the plugin
    /// sent before it was loaded anew would change the record while it is read.
    Asking,
    AskingLists(Lists),
    Reading(Reading),
    Applying(Box<Applying>),
    Writing(Box<Writing>),
    /// Jobs that ended are being written under some keys, and taken away under others.
    Adding {
        there: Vec<String>,
        gone: Vec<String>,
    },
    Removing,
}

impl State {
    /// Whether a record is being read, and the engine was not told yet of all jobs in it that ended.
    fn has_jobs_to_tell(&self) -> bool {
        match self {
            State::Asking | State::AskingLists(_) | State::Reading(_) => true,
            State::Applying(applying) => applying.has_jobs_to_tell(),
            State::Idle | State::Writing(_) | State::Adding { .. } | State::Removing => false,
        }
    }
}

impl MfPriority {
    /// The configuration came.
    pub(super) fn remember_as_configured(&self, host: Host<'_, Self>, is_on: bool) {
        let Ok(mut it) = self.remember.try_borrow_mut() else { return };
        let before = it.is_on.replace(is_on);
        if before.is_none() {
            it.state = State::Asking;
            drop(it);
            return host.write(&[]);
        }
        if before == Some(is_on) {
            return;
        }
        it.is_due = is_on
            && self.engine.view(|view| view.generation()).unwrap_or_default() > 0
            && self.is_whole.get();
        it.is_late &= is_on;
        drop(it);
        self.remember_turns(host);
    }

    /// A whole policy is in force.
    pub(super) fn remember_policy(&self, host: Host<'_, Self>) {
        self.is_whole.set(true);
        self.is_given.set(false);
        self.remember_anew(host, true);
    }

    /// Something came that is no whole policy: what is in force is not what was kept.
    pub(super) fn forget_policy(&self, host: Host<'_, Self>) {
        self.is_whole.set(false);
        self.is_given.set(false);
        self.remember_anew(host, false);
    }

    fn remember_anew(&self, host: Host<'_, Self>, is_due: bool) {
        let Ok(mut it) = self.remember.try_borrow_mut() else { return };
        it.is_due = is_due && it.is_on == Some(true);
        it.is_late = it.is_due && it.state.has_jobs_to_tell();
        drop(it);
        self.remember_turns(host);
    }

    /// What is wanted is another thing now. What the KVS was asked to change is waited for, so that it is known what is
    /// there; whoever waits looks again what is wanted.
    fn remember_turns(&self, host: Host<'_, Self>) {
        let Ok(mut it) = self.remember.try_borrow_mut() else { return };
        let was_applying = matches!(it.state, State::Applying(_));
        if it.is_late && it.state.has_jobs_to_tell() {
            drop(it);
            return self.unstage(host, was_applying);
        }
        if it.is_on.is_some() && (was_applying || matches!(it.state, State::Idle | State::Reading(_))) {
            it.state = State::Idle;
            drop(it);
            self.unstage(host, was_applying);
            host.forget_errands();
            self.remember_next(host);
        }
    }

    /// What was staged of the record goes where it is given up; what is staged of an open push is not the record's.
    fn unstage(&self, host: Host<'_, Self>, was_applying: bool) {
        if was_applying && !self.parts.try_borrow().is_ok_and(|parts| parts.is_open()) {
            let _ = self.drive(host, None, Event::PolicyAbort);
        }
    }

    /// A push begins: what was staged of the record is gone with it.
    pub(super) fn remember_steps_aside(&self) {
        if let Ok(mut it) = self.remember.try_borrow_mut()
            && let State::Applying(applying) = &mut it.state
        {
            applying.rewind();
        }
    }

    /// Nothing is under way: what is to be done now.
    fn remember_next(&self, host: Host<'_, Self>) {
        let Ok(mut it) = self.remember.try_borrow_mut() else { return };
        let has_data = self.engine.view(|view| view.generation()).unwrap_or_default() > 0;
        let is_stale = it.is_on == Some(false) || has_data && !self.is_whole.get() && !self.is_given.get();
        if is_stale && !it.known.is_nothing() {
            it.state = State::Removing;
            drop(it);
            return host.write(&[(ROOT.to_owned(), None)]);
        }
        if !it.is_due {
            if it.is_on == Some(true) && self.is_whole.get() && !it.known.is_nothing() {
                drop(it);
                // Jobs may end faster than so many in that time.
                let is_behind = self.engine.view(|view| engine::has_news(view, ENDED_AT_ONCE)) == Some(true);
                host.restart(Timer::Remember.index(), if is_behind { 0.0 } else { ENDED_EVERY });
            }
            return;
        }
        let begun = self.engine.view(|view| (view.generation(), engine::kept_rest(view)));
        let Some((generation, rest)) = begun else { return };
        it.is_due = false;
        // All that ended so far is among what is told anew.
        self.engine.decide(|engine| engine.news().clear());
        let owner = jobtap::own_user();
        let before = match &it.base {
            _ if it.known.is_foreign() => Before::Foreign,
            _ if it.doubts => Before::Doubtful,
            base => Before::Ours(base.clone()),
        };
        let writing = Writing::new(generation, owner, host.now(), &rest, before, it.known.keys());
        it.state = State::Writing(Box::new(writing));
        drop(it);
        host.restart(Timer::Remember.index(), 0.0);
    }

    /// The next step.
    pub(super) fn remember_step(&self, host: Host<'_, Self>) {
        let Ok(mut it) = self.remember.try_borrow_mut() else { return };
        let Remember { state, known, is_on, .. } = &mut *it;
        match state {
            State::Applying(_) => {
                drop(it);
                self.apply_remembered(host);
            }
            State::Writing(writing) => {
                let Some(generation) = self.engine.view(|view| view.generation()) else { return };
                // It would tell of two things at once, or is not wanted any more.
                if generation != writing.generation || *is_on != Some(true) {
                    it.state = State::Idle;
                    drop(it);
                    return self.remember_next(host);
                }
                let then = match writing.wants() {
                    Wants::AsPushed => writing.as_pushed(self.engine.view(engine::as_pushed).flatten()),
                    Wants::Page(after, as_pushed) => {
                        let page = self.engine.view(|view| engine::kept(view, after, PAGE, as_pushed));
                        writing.page(&page.unwrap_or_default(), known.keys())
                    }
                    Wants::Jobs(first) => {
                        let page = self.engine.view(|view| engine::uncovered(view, first, JOBS_PAGE));
                        writing.ended(page.unwrap_or_default(), known.keys())
                    }
                };
                drop(it);
                self.write_on(host, then);
            }
            State::Idle => {
                drop(it);
                self.add_ended(host);
            }
            _ => {}
        }
    }

    /// Writes jobs that ended since they were written last.
    fn add_ended(&self, host: Host<'_, Self>) {
        let Ok(mut it) = self.remember.try_borrow_mut() else { return };
        let is_right = it.is_on == Some(true) && self.is_whole.get() && !it.known.is_nothing();
        if !is_right || it.is_due || self.engine.view(|view| engine::has_news(view, 1)) != Some(true) {
            drop(it);
            return self.remember_next(host);
        }
        let ended = self.engine.decide(|engine| engine.news().take(ENDED_AT_ONCE)).flatten();
        let Some(ended) = ended.filter(|_| !it.log.is_too_long()) else {
            it.is_due = true;
            drop(it);
            return self.remember_next(host);
        };
        let changes = it.log.add(&ended, &[], jobtap::own_user());
        let texts = changes.iter().filter(|(key, _)| *key != jobs::list_key());
        let (there, gone): (Vec<_>, Vec<_>) = texts.partition(|(_, text)| text.is_some());
        let [there, gone] = [there, gone].map(|it| it.into_iter().map(|(key, _)| key.clone()).collect());
        it.state = State::Adding { there, gone };
        drop(it);
        host.write(&changes);
    }

    fn write_on(&self, host: Host<'_, Self>, then: Then) {
        match then {
            Then::Page => host.restart(Timer::Remember.index(), 0.0),
            Then::Write(changes) => host.write(&changes),
            Then::Done(keys) => {
                let Ok(mut it) = self.remember.try_borrow_mut() else { return };
                if let State::Writing(writing) = std::mem::take(&mut it.state) {
                    let (base, log) = writing.into_base();
                    (it.base, it.log) = (Some(Rc::new(base)), log);
                }
                (it.known, it.doubts, it.panics) = (Known::Texts(keys), false, 0);
                drop(it);
                self.remember_next(host);
            }
        }
    }

    /// What became of what was written.
    pub(super) fn remember_written(&self, host: Host<'_, Self>, outcome: Result<(), String>) {
        let Ok(mut it) = self.remember.try_borrow_mut() else { return };
        if matches!(it.state, State::Asking) {
            drop(it);
            return host.look_up(&manifest_key(), MANIFEST, Patience::Now);
        }
        if let Err(fault) = outcome {
            let was_removing = matches!(it.state, State::Removing);
            // What ended and was not written is told anew, with all else, a while later; so is a push that came meanwhile.
            it.is_due |= matches!(it.state, State::Adding { .. });
            let is_due = it.is_due;
            (it.state, it.base, it.doubts) = (State::Idle, None, true);
            let what = if was_removing {
                "what is remembered of the last push can't be taken away"
            } else {
                "the policy in force can't be remembered, and is to be pushed again after a restart"
            };
            let text = format!("mf_priority: {what}: {fault}");
            self.logger.log(LogLevel::Error, &text);
            drop(it);
            if is_due {
                host.restart(Timer::Remember.index(), ENDED_EVERY);
            }
            return;
        }
        let Remember { state, known, .. } = &mut *it;
        match state {
            State::Removing => {
                (it.state, it.known, it.base) = (State::Idle, Known::default(), None);
                drop(it);
                self.remember_next(host);
            }
            State::Adding { there, gone } => {
                known.lose(gone);
                known.have(std::mem::take(there).into_iter());
                it.state = State::Idle;
                drop(it);
                self.remember_next(host);
            }
            State::Writing(writing) => {
                known.have(writing.keys().iter().cloned());
                let then = writing.go_on(known.keys());
                drop(it);
                self.write_on(host, then);
            }
            _ => {}
        }
    }

    /// A panic cut something short, and nobody waits for the KVS any more.
    pub(super) fn remember_recovers(&self, host: Host<'_, Self>) {
        let Ok(mut it) = self.remember.try_borrow_mut() else { return };
        if it.is_on.is_none() || matches!(it.state, State::Idle) {
            return;
        }
        it.panics += 1;
        it.is_due |= matches!(it.state, State::Writing(_));
        // What was being written may be done after the manifest is read.
        it.doubts |= matches!(it.state, State::Writing(_) | State::Adding { .. } | State::Removing);
        it.base = None;
        let gives_up = it.panics > MAX_PANICS;
        let was_applying = matches!(it.state, State::Applying(_));
        it.state = if gives_up { State::Idle } else { State::Asking };
        if gives_up {
            it.is_on = None;
            let text = "mf_priority: no policy is remembered until the configuration is read again";
            self.logger.log(LogLevel::Error, text);
        }
        drop(it);
        self.unstage(host, was_applying);
        if !gives_up {
            host.write(&[]);
        }
    }
}
