// SPDX-License-Identifier: LGPL-3.0-only
//! The plugin's timers: one watcher for each name of [`Jobtap::TIMERS`].

use super::guard::Instance;
use super::shared::{address, shared};
use super::{Jobtap, Plugin, sys};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::rc::Rc;

/// One timer: what Flux hands back when it fires.
pub(super) struct Timer {
    /// The address of the instance.
    instance: *mut c_void,
    index: usize,
    watcher: Cell<*mut sys::flux_watcher_t>,
}

impl Timer {
    /// The timer in row `index`. Nothing is told to C yet.
    pub(super) fn new(instance: *mut c_void, index: usize) -> Timer {
        Timer { instance, index, watcher: Cell::new(null_mut()) }
    }

    /// Makes its watcher, which does not run before it is armed. False if Flux makes none.
    pub(super) fn create<J: Jobtap>(this: &Rc<Self>, plugin: Plugin) -> bool {
        // SAFETY: the handle of the job manager has a reactor; the timer outlives its watcher (see Drop).
        let watcher = unsafe {
            let reactor = sys::flux_get_reactor(plugin.flux());
            sys::flux_timer_watcher_create(reactor, 0.0, 0.0, Some(on_timer::<J>), address(this))
        };
        this.watcher.set(watcher);
        !watcher.is_null()
    }

    /// Has it fire once after some seconds.
    pub(super) fn arm(&self, seconds: f64) {
        let watcher = self.watcher.get();
        if watcher.is_null() {
            return;
        }
        // SAFETY: the watcher is ours until this is dropped. Resetting one that is started is allowed.
        unsafe {
            sys::flux_timer_watcher_reset(watcher, seconds, 0.0);
            sys::flux_watcher_start(watcher);
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let watcher = self.watcher.replace(null_mut());
        if !watcher.is_null() {
            // SAFETY: the watcher is ours; nobody uses it any more.
            unsafe { sys::flux_watcher_destroy(watcher) };
        }
    }
}

unsafe extern "C" fn on_timer<J: Jobtap>(
    _reactor: *mut sys::flux_reactor_t,
    _watcher: *mut sys::flux_watcher_t,
    _events: c_int,
    arg: *mut c_void,
) {
    // SAFETY: `arg` is a timer, which destroys its watcher before it goes; the instance owns it.
    let (instance, index) = unsafe {
        let timer = shared::<Timer>(arg);
        (shared::<Instance<J>>(timer.instance), timer.index)
    };
    let name = J::TIMERS.get(index).copied().unwrap_or_default();
    instance.guarded(name, || None, || instance.jobtap.timer(instance.host(), index));
}
