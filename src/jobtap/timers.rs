// SPDX-License-Identifier: LGPL-3.0-only
//! The plugin's timers: one watcher for each name of [`Jobtap::TIMERS`](super::Jobtap::TIMERS).

use super::shared::address;
use super::{Plugin, sys};
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::rc::Rc;

/// A timer, and the argument that Flux passes when it fires.
pub(super) struct Timer {
    /// The address of the instance.
    pub instance: *mut c_void,
    /// The index of the timer in the table of timers.
    pub index: usize,
    watcher: Cell<*mut sys::flux_watcher_t>,
    /// The time at which the timer fires, in seconds since the epoch; `None` if it is not armed.
    due: Cell<Option<f64>>,
}

impl Timer {
    /// Makes the timer `index`, without a watcher.
    pub(super) fn new(instance: *mut c_void, index: usize) -> Timer {
        Timer { instance, index, watcher: Cell::new(null_mut()), due: Cell::new(None) }
    }

    /// Makes the timer's watcher without starting it. When the watcher fires, Flux calls `fired` with this timer.
    /// Returns false if Flux cannot make the watcher.
    pub(super) fn create_watcher(this: &Rc<Self>, plugin: Plugin, fired: sys::flux_watcher_f) -> bool {
        // SAFETY: the reactor lives longer than the plugin; the timer outlives its watcher (see Drop).
        let watcher =
            unsafe { sys::flux_timer_watcher_create(plugin.reactor, 0.0, 0.0, fired, address(this)) };
        this.watcher.set(watcher);
        !watcher.is_null()
    }

    /// Makes the timer fire once, at most `seconds` after `now`. A timer that is due earlier keeps its time,
    /// so repeated calls cannot delay it.
    pub(super) fn arm(&self, now: f64, seconds: f64) {
        if self.due.get().is_none_or(|due| now + seconds < due) {
            self.restart(now, seconds);
        }
    }

    /// Records that the timer has fired.
    pub(super) fn record_timer_fired(&self) {
        self.due.set(None);
    }

    /// Makes the timer fire once, `seconds` after `now`. Replaces the time at which the timer was due.
    pub(super) fn restart(&self, now: f64, seconds: f64) {
        let watcher = self.watcher.get();
        if watcher.is_null() {
            return;
        }
        self.due.set(Some(now + seconds));
        // SAFETY: the timer owns the watcher until it is dropped. A started watcher would keep its old time, so it is
        // stopped first.
        unsafe {
            sys::flux_watcher_stop(watcher);
            sys::flux_timer_watcher_reset(watcher, seconds, 0.0);
            sys::flux_watcher_start(watcher);
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let watcher = self.watcher.replace(null_mut());
        if !watcher.is_null() {
            // SAFETY: the timer owns the watcher and does not use it afterwards.
            unsafe { sys::flux_watcher_destroy(watcher) };
        }
    }
}
