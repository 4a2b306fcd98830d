// SPDX-License-Identifier: LGPL-3.0-only
//! Asking job-list what the KVS does not tell, and trying again later.

use super::guard::{Instance, Timer};
use super::pending::{Ask, Ticket};
use super::shared::{address, shared};
use super::{Host, Jobtap, Turn, sys};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::rc::Rc;

impl<J: Jobtap> Host<'_, J> {
    /// Has [`Jobtap::dependencies`] called with what job-list tells of the job's outstanding dependencies.
    pub fn read_dependencies(self, id: u64) {
        let ticket = Rc::new(Ticket { instance: self.0.at(), id });
        match self.0.plugin.list_dependencies(id, on_listed::<J>, address(&ticket)) {
            Ok(future) => {
                let ask = Ask { future, _ticket: ticket };
                if let Some(former) = self.0.asks.under_way.borrow_mut().insert(id, ask) {
                    // SAFETY: the future is ours, and its continuation is not running.
                    unsafe { sys::flux_future_destroy(former.future) };
                }
            }
            Err(_) => self.0.jobtap.dependencies(self, id, None),
        }
    }

    /// Has [`Jobtap::timer`] called with [`Timer::Retry`] after some seconds.
    pub fn retry_after(self, seconds: f64) {
        let arg = self.0.at();
        if self.0.asks.retry.get().is_null() {
            // SAFETY: the handle of the job manager has a reactor; `arg` outlives the watcher (see Drop).
            let timer = unsafe {
                let reactor = sys::flux_get_reactor(self.0.plugin.flux());
                sys::flux_timer_watcher_create(reactor, seconds, 0.0, Some(on_retry::<J>), arg)
            };
            self.0.asks.retry.set(timer);
        }
        let timer = self.0.asks.retry.get();
        if !timer.is_null() {
            // SAFETY: the watcher is ours until `Instance` is dropped. Resetting one that is started is allowed.
            unsafe {
                sys::flux_timer_watcher_reset(timer, seconds, 0.0);
                sys::flux_watcher_start(timer);
            }
        }
    }
}

unsafe extern "C" fn on_listed<J: Jobtap>(future: *mut sys::flux_future_t, arg: *mut c_void) {
    // SAFETY: `arg` is the ticket of the request, which is freed only after its future was destroyed; the instance owns it.
    let (instance, id) = unsafe {
        let ticket = shared::<Ticket>(arg);
        (shared::<Instance<J>>(ticket.instance), ticket.id)
    };
    let body = || {
        let mut payload: *const c_char = std::ptr::null();
        // SAFETY: the future is fulfilled; on success the payload is a C string borrowed from it, or null.
        let text = unsafe {
            let rc = sys::flux_rpc_get(future, &raw mut payload);
            (rc >= 0 && !payload.is_null()).then(|| CStr::from_ptr(payload).to_string_lossy().into_owned())
        };
        if let Some(ask) = instance.asks.under_way.borrow_mut().remove(&id) {
            // SAFETY: the future is ours. Flux allows destroying it in its continuation.
            unsafe { sys::flux_future_destroy(ask.future) };
        }
        instance.jobtap.dependencies(Host(instance), id, text.as_deref());
    };
    instance.guarded(Turn::Dependencies.name(), || Some(id), body);
}

unsafe extern "C" fn on_retry<J: Jobtap>(
    _reactor: *mut sys::flux_reactor_t,
    _watcher: *mut sys::flux_watcher_t,
    _events: c_int,
    arg: *mut c_void,
) {
    // SAFETY: `arg` is the instance, which destroys the watcher before it goes.
    let instance = unsafe { shared::<Instance<J>>(arg) };
    instance.guarded(Turn::Retry.name(), || None, || instance.jobtap.timer(Host(instance), Timer::Retry));
}
