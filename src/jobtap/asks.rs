// SPDX-License-Identifier: LGPL-3.0-only
//! Requests to job-list and to other services of Flux.

use super::error::Error;
use super::pending::{Ask, Future, replied};
use super::{Host, Jobtap, Turn, sys};
use std::ffi::{CStr, c_void};

/// The key of the request for ended jobs in `asks`. No job has this id (FLUX_JOBID_ANY).
const ENDED: u64 = u64::MAX;

/// The key of request 0 to a service in `asks`; the other requests follow by their numbers. No job has an id in this
/// range.
const SERVICES: u64 = ENDED - 1 - u32::MAX as u64;

impl<J: Jobtap> Host<'_, J> {
    /// Sends a request to a service of Flux and passes the reply to [`Jobtap::answered`]. The request replaces a
    /// pending request with the same `number`.
    pub fn ask_service(self, number: u32, topic: &'static CStr, payload: &str) {
        let plugin = self.instance.plugin;
        let id = SERVICES + u64::from(number);
        if self.ask(id, |arg| plugin.call(topic, payload, on_listed::<J>, arg)).is_err() {
            self.instance.jobtap.answered(self, number, None);
        }
    }

    /// Sends `request` (JSON) to `job-list.list` and passes the reply to [`Jobtap::ended`]. The request replaces a
    /// pending request to `job-list.list`.
    pub fn list_ended(self, request: &str) {
        let plugin = self.instance.plugin;
        let asked = self.ask(ENDED, |arg| plugin.list_jobs(request, on_listed::<J>, arg));
        if asked.is_err() {
            self.instance.jobtap.ended(self, None);
        }
    }

    /// Asks job-list for the job's outstanding dependencies and passes the reply to [`Jobtap::dependencies`].
    pub fn read_dependencies(self, id: u64) {
        let plugin = self.instance.plugin;
        let asked = self.ask(id, |arg| plugin.list_dependencies(id, on_listed::<J>, arg));
        if asked.is_err() {
            self.instance.jobtap.dependencies(self, id, None);
        }
    }

    fn ask(self, id: u64, start: impl FnOnce(*mut c_void) -> Result<Future, Error>) -> Result<(), Error> {
        let ask = Ask::start(self.instance, id, start)?;
        let former = self.instance.asks.borrow_mut().insert(id, ask);
        drop(former);
        Ok(())
    }
}

unsafe extern "C" fn on_listed<J: Jobtap>(future: *mut sys::flux_future_t, arg: *mut c_void) {
    // SAFETY: Flux passes the argument that the request was started with, and the request is still pending.
    let (instance, id) = unsafe { Ask::answered::<J>(arg) };
    let body = || {
        // SAFETY: the future belongs to an RPC and is fulfilled.
        let text = unsafe { replied(future) };
        let answered = instance.asks.borrow_mut().remove(&id);
        drop(answered);
        match id {
            ENDED => instance.jobtap.ended(instance.host(), text.as_deref()),
            SERVICES..ENDED => {
                let number = u32::try_from(id - SERVICES).unwrap_or_default();
                instance.jobtap.answered(instance.host(), number, text.as_deref());
            }
            _ => instance.jobtap.dependencies(instance.host(), id, text.as_deref()),
        }
    };
    instance.guarded(Turn::Dependencies.name(), || Some(id).filter(|id| *id < SERVICES), body);
}
