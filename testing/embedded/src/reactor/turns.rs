// SPDX-License-Identifier: LGPL-3.0-only
//! Runs due callbacks, commits, and scheduling, and advances the virtual time.

use std::ffi::c_void;

use super::super::{fault, host::Host};
use super::{DueEvent, ObjectKind, tag_address, to_micros};

/// The maximum number of turns in `settle`. Without it, `settle` would not end if a timer re-arms itself without delay.
const MAX_TURNS: usize = 10_000_000;

impl Host {
    /// Runs the reactor until nothing is due at the current virtual time: no timer, commit, response or scheduling.
    pub fn settle(&self) {
        for _ in 0..MAX_TURNS {
            if !self.step() {
                return;
            }
        }
        self.report_violation("a timer without delay re-arms itself indefinitely".into());
    }

    /// Runs one turn of the reactor. Returns false if nothing was due.
    pub fn step(&self) -> bool {
        self.run_reactor_turn() || self.commit() || self.schedule()
    }

    /// Runs the reactor until no work is left, or until `most` commits are made. Then drops all KVS changes that are not yet applied.
    pub fn run_reactor_up_to_commit_limit(&self, most: usize) {
        for _ in 0..most {
            while self.run_reactor_turn() {}
            if !self.commit() {
                break;
            }
        }
        self.store.borrow_mut().agenda.kvs.drop_sent_changes();
    }

    /// Advances the virtual time by `seconds`, and runs all events that are due until then.
    pub fn advance(&self, seconds: f64) {
        let end = self.store.borrow().agenda.now.saturating_add(to_micros(seconds));
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

    /// Runs the event that is due next. Returns false if no event is due.
    fn run_reactor_turn(&self) -> bool {
        // End the borrow before the event runs, because callbacks borrow the store.
        let due = self.store.borrow_mut().agenda.pop_due_event();
        let Some(due) = due else { return false };
        match due {
            DueEvent::Finish(id) => self.finish(id),
            DueEvent::Released(id) => self.finish_release(id),
            DueEvent::Object(key) => self.call_back(key),
        }
        true
    }

    /// Calls the callback of a timer, or the continuation of a future.
    fn call_back(&self, key: usize) {
        let mut store = self.store.borrow_mut();
        let Some(object) = store.agenda.objects.get_mut(&key) else { return };
        object.due = None;
        let (pointer, owner) = (tag_address(&object.tag), object.owner);
        match &mut object.kind {
            ObjectKind::Timer { callback, data, .. } => {
                let (callback, data) = (*callback, *data);
                drop(store);
                let reactor = std::ptr::from_ref(self).cast_mut().cast::<c_void>();
                // SAFETY: as in flux_timer_watcher_create(3), the callback gets the reactor, its watcher, the events and its
                // registered data. The plugin is loaded, because the removal of a plugin drops its watchers.
                self.run_as_plugin(owner, || unsafe { callback(reactor, pointer, 0, data) });
            }
            ObjectKind::Future { then, .. } => {
                let Some((callback, data)) = then.take() else { return };
                drop(store);
                // SAFETY: as in flux_future_then(3), the continuation gets its future and its registered data. The plugin is
                // loaded, because the removal of a plugin drops its futures.
                self.run_as_plugin(owner, || unsafe { callback(pointer, data) });
            }
        }
    }

    /// Runs code of a plugin. The plugin owns the watchers and futures that the code creates.
    pub(crate) fn run_as_plugin<T>(&self, uid: usize, code: impl FnOnce() -> T) -> T {
        self.store.borrow_mut().agenda.calling.push(uid);
        let result = fault::run_as_plugin(self, code);
        self.store.borrow_mut().agenda.calling.pop();
        result
    }
}
