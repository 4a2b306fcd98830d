// SPDX-License-Identifier: LGPL-3.0-only
//! Requests to job-list and to other services of Flux.

use super::error::Error;
use super::pending::{Future, PendingRequest, read_reply};
use super::{Host, Jobtap, reply, sys};
use std::ffi::{CStr, c_void};

/// The key of the request for ended jobs. No job has this id (FLUX_JOBID_ANY).
const ENDED: u64 = u64::MAX;

/// The key of request 0 to a service. The key of request `number` is `SERVICES + number`. Requests about jobs have the
/// job ids as keys, and no job id is in this range.
const SERVICES: u64 = ENDED - 1 - u32::MAX as u64;

impl<J: Jobtap> Host<'_, J> {
    /// Sends a request to a service of Flux and passes the reply to [`Jobtap::receive_service_reply`]. The request
    /// replaces a pending request with the same `number`.
    pub fn send_service_request(self, number: u32, topic: &'static CStr, payload: &str) {
        let plugin = self.instance.plugin;
        let id = SERVICES + u64::from(number);
        if self.start_request(id, |arg| plugin.send_request(topic, payload, on_reply::<J>, arg)).is_err() {
            self.instance.jobtap.receive_service_reply(self, number, None);
        }
    }

    /// Sends `request` (JSON) to `job-list.list` and passes the reply to [`Jobtap::receive_ended_jobs`]. The request
    /// replaces a pending request to `job-list.list`.
    pub fn list_ended(self, request: &str) {
        let plugin = self.instance.plugin;
        let outcome = self
            .start_request(ENDED, |arg| plugin.send_request(c"job-list.list", request, on_reply::<J>, arg));
        if outcome.is_err() {
            self.instance.jobtap.receive_ended_jobs(self, None);
        }
    }

    /// Asks job-list for the job's outstanding dependencies and passes the reply to [`Jobtap::receive_dependencies`].
    pub fn read_dependencies(self, id: u64) {
        let plugin = self.instance.plugin;
        let payload = format!("{{\"id\":{id},\"attrs\":[\"dependencies\"]}}");
        let send = |arg| plugin.send_request(c"job-list.list-id", &payload, on_reply::<J>, arg);
        let outcome = self.start_request(id, send);
        if outcome.is_err() {
            self.instance.jobtap.receive_dependencies(self, id, None);
        }
    }

    fn start_request(
        self,
        id: u64,
        start: impl FnOnce(*mut c_void) -> Result<Future, Error>,
    ) -> Result<(), Error> {
        let request = PendingRequest::start(self.instance, id, start)?;
        let replaced_request = self.instance.requests.borrow_mut().insert(id, request);
        drop(replaced_request);
        Ok(())
    }
}

unsafe extern "C" fn on_reply<J: Jobtap>(future: *mut sys::flux_future_t, arg: *mut c_void) {
    // SAFETY: Flux passes the argument that the request was started with, and the request is still pending.
    let (instance, id) = unsafe { PendingRequest::identify::<J>(arg) };
    let body = || {
        // SAFETY: the future belongs to an RPC and is fulfilled.
        let text = unsafe { read_reply(future) };
        let answered_request = instance.requests.borrow_mut().remove(&id);
        drop(answered_request);
        match id {
            ENDED => instance.jobtap.receive_ended_jobs(instance.host(), text.as_deref()),
            SERVICES..ENDED => {
                let number = u32::try_from(id - SERVICES).unwrap_or_default();
                instance.jobtap.receive_service_reply(instance.host(), number, text.as_deref());
            }
            _ => instance.jobtap.receive_dependencies(instance.host(), id, text.as_deref()),
        }
    };
    instance.catch_panic(reply::DEPENDENCIES, || Some(id).filter(|id| *id < SERVICES), body);
}
