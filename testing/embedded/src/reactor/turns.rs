// SPDX-License-Identifier: LGPL-3.0-only
//! What is due is done, turn by turn, and time passes.

use std::ffi::c_void;

use super::super::{fault, host::Host};
use super::{Due, micros, pointer};

/// A timer that re-arms itself without delay would keep `settle` busy for ever.
const TURNS: usize = 10_000_000;

impl Host {
    /// Lets everything happen that is due now: timers, commits, answers, scheduling. Time stands still.
    pub fn settle(&self) {
        for _ in 0..TURNS {
            if !self.step() {
                return;
            }
        }
        self.violation("a timer without delay re-arms itself for ever".into());
    }

    /// One thing that is due now: a turn of the reactor. Whether there was any.
    pub fn step(&self) -> bool {
        let due = self.store.borrow_mut().agenda.pop_due();
        match due {
            Some(due) => {
                self.turn(due);
                true
            }
            None => self.commit() || self.schedule(),
        }
    }

    /// As [`Host::settle`], but no more than so many commits are made: what comes after them is lost to the KVS.
    pub fn settle_commits(&self, most: usize) {
        for _ in 0..most {
            loop {
                // The borrow ends before the turn begins.
                let due = self.store.borrow_mut().agenda.pop_due();
                let Some(due) = due else { break };
                self.turn(due);
            }
            if !self.commit() {
                break;
            }
        }
        self.store.borrow_mut().agenda.kvs.lose();
    }

    /// Lets `seconds` pass.
    pub fn advance(&self, seconds: f64) {
        let end = self.store.borrow().agenda.now.saturating_add(micros(seconds));
        loop {
            self.settle();
            let mut store = self.store.borrow_mut();
            match store.agenda.due.first_key_value().map(|(at, _)| at.0) {
                Some(at) if at <= end => store.agenda.now = at,
                _ => break store.agenda.now = end,
            }
        }
        self.settle();
    }

    fn turn(&self, due: Due) {
        match due {
            Due::Finish(id) => self.finish(id),
            Due::Released(id) => self.released(id),
            Due::Timer(key) => self.fire(key),
            Due::Answer(key) => {
                let mut store = self.store.borrow_mut();
                let Some(future) = store.agenda.futures.get_mut(&key) else { return };
                future.due = None;
                let (Some((callback, data)), owner, pointer) =
                    (future.then.take(), future.owner, pointer(&future.tag))
                else {
                    return;
                };
                drop(store);
                // SAFETY: flux_future_then(3): the continuation gets its future and data; the plugin is loaded,
                // because removal drops the futures it owns.
                self.as_plugin(owner, || unsafe { callback(pointer, data) });
            }
        }
    }

    fn fire(&self, key: usize) {
        let mut store = self.store.borrow_mut();
        let agenda = &mut store.agenda;
        let Some(watcher) = agenda.watchers.get_mut(&key) else { return };
        watcher.armed = None;
        let (callback, data, owner, repeat) = (watcher.callback, watcher.data, watcher.owner, watcher.repeat);
        let pointer = pointer(&watcher.tag);
        if repeat > 0 {
            watcher.after = repeat;
            agenda.arm(key, Some(true), None);
        }
        drop(store);
        let reactor = std::ptr::from_ref(self).cast_mut().cast::<c_void>();
        // SAFETY: flux_timer_watcher_create(3): reactor, watcher, events, data; the plugin is loaded, because
        // removal drops the watchers it owns.
        self.as_plugin(owner, || unsafe { callback(reactor, pointer, 0, data) });
    }

    /// Runs plugin code: what it creates meanwhile is its own.
    pub(crate) fn as_plugin<T>(&self, uid: usize, code: impl FnOnce() -> T) -> T {
        self.store.borrow_mut().agenda.calling.push(uid);
        let result = fault::as_plugin(self, code);
        self.store.borrow_mut().agenda.calling.pop();
        result
    }
}
