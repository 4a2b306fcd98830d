// SPDX-License-Identifier: LGPL-3.0-only
//! Asking job-list what the KVS does not tell.

use super::guard::Instance;
use super::pending::{Ask, Ticket};
use super::shared::{address, shared};
use super::{Host, Jobtap, Turn, sys};
use std::ffi::{CStr, c_char, c_void};
use std::rc::Rc;

/// Under what the request for ended jobs is kept: no job has this id (FLUX_JOBID_ANY).
const ENDED: u64 = u64::MAX;

impl<J: Jobtap> Host<'_, J> {
    /// Has [`Jobtap::ended`] called with what job-list answers to this request (`job-list.list`), given as JSON. One that is
    /// under way is given up.
    pub fn list_ended(self, request: &str) {
        let ticket = Rc::new(Ticket { instance: self.instance.at(), id: ENDED });
        match self.instance.plugin.list_jobs(request, on_listed::<J>, address(&ticket)) {
            Ok(future) => self.asked(ENDED, Ask { future, _ticket: ticket }),
            Err(_) => self.instance.jobtap.ended(self, None),
        }
    }

    fn asked(self, id: u64, ask: Ask) {
        if let Some(former) = self.instance.asks.under_way.borrow_mut().insert(id, ask) {
            // SAFETY: the future is ours, and its continuation is not running.
            unsafe { sys::flux_future_destroy(former.future) };
        }
    }

    /// Has [`Jobtap::dependencies`] called with what job-list tells of the job's outstanding dependencies.
    pub fn read_dependencies(self, id: u64) {
        let ticket = Rc::new(Ticket { instance: self.instance.at(), id });
        match self.instance.plugin.list_dependencies(id, on_listed::<J>, address(&ticket)) {
            Ok(future) => self.asked(id, Ask { future, _ticket: ticket }),
            Err(_) => self.instance.jobtap.dependencies(self, id, None),
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
        match id {
            ENDED => instance.jobtap.ended(instance.host(), text.as_deref()),
            _ => instance.jobtap.dependencies(instance.host(), id, text.as_deref()),
        }
    };
    instance.guarded(Turn::Dependencies.name(), || Some(id).filter(|id| *id != ENDED), body);
}
