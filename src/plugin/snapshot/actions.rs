// SPDX-License-Identifier: LGPL-3.0-only
//! What [`Snapshot`] has the plugin do. The plugin does so when no borrow is alive, because Flux may call back.

use super::Snapshot;
use super::applying::Applying;
use super::writing::Changes;
use crate::jobtap::{Host, LogLevel, Patience};
use crate::plugin::MfPriority;
use fairshare_engine::engine::{Engine, Event, Timer};
use std::collections::VecDeque;
use std::time::SystemTime;

/// One action. Actions are carried out in order.
pub(in crate::plugin) enum Action {
    /// Commits changes to the KVS.
    Write(Changes),
    /// Looks a key up in the KVS. The answer has the number.
    LookUp(u64, String),
    /// Ignores the answers of the KVS that have not come.
    ForgetErrands,
    /// Takes the next step after so many seconds.
    StepIn(f64),
    /// Begins the next work, if there is any.
    Next,
    /// Passes a part of the snapshot to the engine.
    Feed(Box<Event<'static>>),
    /// Puts the staged snapshot in force.
    Commit(Box<Applying>),
    /// Drops what is staged.
    Abort,
    /// Drops what is staged of the snapshot; what is staged of an open push stays.
    Unstage,
    /// The data in force are as of this time.
    Updated(Option<SystemTime>),
    Log(LogLevel, String),
}

impl MfPriority {
    /// Returns true if a staged push is open.
    pub(in crate::plugin) fn is_push_open(&self) -> bool {
        self.parts.try_borrow().is_ok_and(|parts| parts.is_open())
    }

    /// Has `decide` change the state of the snapshot, and carries out the actions that it returns.
    pub(in crate::plugin) fn advance_snapshot(
        &self,
        host: Host<'_, Self>,
        decide: impl FnOnce(&mut Snapshot, &mut Engine) -> Vec<Action>,
    ) {
        let mut todo = VecDeque::from(self.decide_snapshot(decide));
        while let Some(action) = todo.pop_front() {
            // What follows from an action comes before the actions after it.
            let next = self.act(host, action);
            next.into_iter().rev().for_each(|action| todo.push_front(action));
        }
    }

    fn decide_snapshot(&self, decide: impl FnOnce(&mut Snapshot, &mut Engine) -> Vec<Action>) -> Vec<Action> {
        let Ok(mut snapshot) = self.snapshot.try_borrow_mut() else { return Vec::new() };
        self.engine.decide(|engine| decide(&mut snapshot, engine)).unwrap_or_default()
    }

    /// Carries out an action, and returns what follows from it.
    fn act(&self, host: Host<'_, Self>, action: Action) -> Vec<Action> {
        match action {
            Action::Write(changes) => host.write(&changes),
            Action::LookUp(number, key) => host.look_up(&key, number, Patience::Now),
            Action::ForgetErrands => host.forget_errands(),
            Action::StepIn(seconds) => host.restart(Timer::Remember.index(), seconds),
            Action::Next => {
                let now = host.now();
                return self.decide_snapshot(|snapshot, engine| snapshot.next(engine, now));
            }
            Action::Feed(event) => {
                let outcome = self.drive(host, None, *event);
                return self.decide_snapshot(|snapshot, _| snapshot.fed(outcome.is_ok()));
            }
            Action::Commit(applying) => {
                let _ = self.drive(host, None, Event::PolicyCommit);
                let fault = self.rejected.take();
                return self.decide_snapshot(|snapshot, engine| snapshot.committed(engine, *applying, fault));
            }
            Action::Abort => drop(self.drive(host, None, Event::PolicyAbort)),
            Action::Unstage => {
                if !self.is_push_open() {
                    let _ = self.drive(host, None, Event::PolicyAbort);
                }
            }
            Action::Updated(at) => self.updated.set(at),
            Action::Log(level, text) => self.logger.log(level, &format!("mf_priority: {text}")),
        }
        Vec::new()
    }
}
