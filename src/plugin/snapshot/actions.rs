// SPDX-License-Identifier: LGPL-3.0-only
//! The actions that [`Snapshot`] returns. The plugin carries them out while the snapshot is not borrowed, because Flux
//! may re-enter the plugin.

use super::Snapshot;
use super::applying::Applying;
use super::writing::Changes;
use crate::jobtap::{Host, LogLevel};
use crate::plugin::{DataUpdate, MfPriority};
use fairshare_engine::engine::{Engine, Event, Timer};
use std::collections::VecDeque;
use std::time::SystemTime;

/// An action. The plugin carries out actions in order.
pub(in crate::plugin) enum Action {
    /// Commits changes to the KVS.
    Write(Changes),
    /// Looks up a key in the KVS. The first field is the number of the look-up.
    LookUp(u64, String),
    /// Cancels the pending requests to the KVS.
    CancelRequests,
    /// Continues with the next step after this number of seconds.
    StepIn(f64),
    /// Continues with the next step within this number of seconds.
    StepWithin(f64),
    /// Begins the next task of the snapshot, if there is one.
    Next,
    /// Passes a part of the snapshot to the engine.
    Feed(Box<Event<'static>>),
    /// Applies the staged snapshot.
    Commit(Box<Applying>),
    /// Drops the staged records, unless they belong to an open push.
    Unstage,
    /// Sets the time of the last change of the site data.
    SetUpdated(Option<SystemTime>),
    Log(LogLevel, String),
}

impl MfPriority {
    /// Returns true if a staged push is open.
    pub(in crate::plugin) fn is_push_open(&self) -> bool {
        self.staged_pushes.borrow().time_limit().is_some()
    }

    /// Calls `decide`, which may change the state of the snapshot, and carries out the actions that it returns.
    pub(in crate::plugin) fn advance_snapshot(
        &self,
        host: Host<'_, Self>,
        decide: impl FnOnce(&mut Snapshot, &mut Engine) -> Vec<Action>,
    ) {
        let mut todo = VecDeque::from(self.update_snapshot(decide));
        while let Some(action) = todo.pop_front() {
            // The actions that this action caused come before the remaining actions.
            let next = self.execute_action(host, action);
            next.into_iter().rev().for_each(|action| todo.push_front(action));
        }
    }

    fn update_snapshot(&self, decide: impl FnOnce(&mut Snapshot, &mut Engine) -> Vec<Action>) -> Vec<Action> {
        let Ok(mut snapshot) = self.snapshot.try_borrow_mut() else { return Vec::new() };
        self.engine.update(|engine| decide(&mut snapshot, engine)).unwrap_or_default()
    }

    /// Carries out an action, and returns the actions that follow from it.
    fn execute_action(&self, host: Host<'_, Self>, action: Action) -> Vec<Action> {
        match action {
            Action::Write(changes) => host.write(&changes),
            Action::LookUp(number, key) => host.look_up(&key, number),
            Action::CancelRequests => host.cancel_kvs_requests(),
            Action::StepIn(seconds) => host.restart_timer(Timer::Remember.index(), seconds),
            Action::StepWithin(seconds) => host.arm_timer(Timer::Remember.index(), seconds),
            Action::Next => {
                let now = host.now();
                return self.update_snapshot(|snapshot, engine| snapshot.begin_next_task(engine, now));
            }
            Action::Feed(event) => {
                let outcome = self.feed_event(host, None, *event);
                return self.update_snapshot(|snapshot, _| snapshot.continue_after_part(outcome.is_ok()));
            }
            Action::Commit(applying) => {
                let _ = self.feed_event(host, None, Event::PolicyCommit);
                let fault = self.rejected.take();
                return self.update_snapshot(|snapshot, engine| {
                    snapshot.continue_after_snapshot_commit(engine, *applying, fault)
                });
            }
            Action::Unstage => {
                if !self.is_push_open() {
                    let _ = self.feed_event(host, None, Event::PolicyAbort);
                }
            }
            Action::SetUpdated(at) => self.updated.set(at.map(|at| DataUpdate { at, by: None })),
            Action::Log(level, text) => host.plugin().log(level, &format!("mf_priority: {text}")),
        }
        Vec::new()
    }
}
