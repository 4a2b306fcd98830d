// SPDX-License-Identifier: LGPL-3.0-only
//! Requests to Flux that have no reply yet. They are destroyed with the instance, so no continuation runs after that.

use super::error::Error;
use super::guard::Instance;
use super::shared::{address, borrow_from_c};
use super::{Jobtap, sys};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::null;
use std::rc::Rc;

/// Identifies a request of the plugin to Flux. At most one request with each id is pending: a new request replaces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestId {
    /// The job manager sends its batch of events to the KVS. The plugin gets no reply.
    Batch,
    /// The KVS commits the events that the job manager sent. The plugin gets no reply.
    Commits,
    /// The eventlog of this job ([`Host::read_eventlog`](super::Host::read_eventlog)).
    Eventlog(u64),
    /// job-list's answer about this job ([`Host::read_dependencies`](super::Host::read_dependencies)).
    Dependencies(u64),
    /// job-list's list of ended jobs ([`Host::list_ended`](super::Host::list_ended)).
    EndedJobs,
    /// The answer of a service ([`Host::send_service_request`](super::Host::send_service_request)).
    Service(u32),
    /// The result of a commit ([`Host::write`](super::Host::write)). If it is an error, no key was written.
    Write,
    /// The value of a key ([`Host::look_up`](super::Host::look_up)). The error is ENOENT if the key does not exist.
    LookUp(u64),
    /// The value of a key that may not exist yet ([`Host::await_key`](super::Host::await_key)).
    AwaitedKey,
}

impl RequestId {
    /// The names of all requests.
    pub const NAMES: [&'static str; 6] = ["batch", "commits", "eventlog", "dependencies", "written", "found"];

    /// Returns the name of the request in the log.
    fn name(self) -> &'static str {
        match self {
            RequestId::Batch => "batch",
            RequestId::Commits => "commits",
            RequestId::Eventlog(_) => "eventlog",
            RequestId::Dependencies(_) | RequestId::EndedJobs | RequestId::Service(_) => "dependencies",
            RequestId::Write => "written",
            RequestId::LookUp(_) | RequestId::AwaitedKey => "found",
        }
    }

    /// Returns the job that the request is about, if it is about one job.
    fn job(self) -> Option<u64> {
        match self {
            RequestId::Eventlog(id) | RequestId::Dependencies(id) => Some(id),
            _ => None,
        }
    }
}

/// A future. Dropping it destroys the future, so that its continuation does not run. Flux allows this within the
/// continuation too.
pub(super) struct Future(*mut sys::flux_future_t);

impl Future {
    /// Takes ownership of the future that the C function `function` returned.
    pub fn own(function: &'static str, future: *mut sys::flux_future_t) -> Result<Future, Error> {
        if future.is_null() { Err(Error::from_errno(function)) } else { Ok(Future(future)) }
    }
}

impl Drop for Future {
    fn drop(&mut self) {
        // SAFETY: `self` owns the future and destroys it once.
        unsafe { sys::flux_future_destroy(self.0) };
    }
}

/// The argument of a continuation. It identifies the instance and the request.
struct ContinuationArgument {
    /// The address of the instance.
    instance: *mut c_void,
    id: RequestId,
}

/// A pending request.
pub(super) struct PendingRequest {
    /// This field must come first, because Rust drops the fields in order. The future has a pointer to the argument.
    _future: Future,
    _argument: Rc<ContinuationArgument>,
}

/// The pending requests.
pub(super) type PendingRequests = RefCell<BTreeMap<RequestId, PendingRequest>>;

impl<J: Jobtap> Instance<J> {
    /// Waits for the reply to the request `id` that `sent` has sent, and passes it to [`Instance::handle_reply`] in a
    /// later reactor turn. If the request was not sent, passes the error at once.
    pub(super) fn await_reply(&self, id: RequestId, sent: Result<Future, Error>) {
        let replaced_request = self.pending.borrow_mut().remove(&id);
        drop(replaced_request);
        let argument = Rc::new(ContinuationArgument { instance: self.as_arg(), id });
        let awaited = sent.and_then(|future| {
            // SAFETY: the future has no continuation yet; a negative timeout means no timeout. The pending request keeps
            // the argument alive as long as the future.
            let rc =
                unsafe { sys::flux_future_then(future.0, -1.0, Some(on_reply::<J>), address(&argument)) };
            Error::check_rc("flux_future_then", rc)?;
            Ok(future)
        });
        match awaited {
            Ok(future) => {
                let request = PendingRequest { _future: future, _argument: argument };
                self.pending.borrow_mut().insert(id, request);
            }
            Err(error) => self.handle_reply(id, Err(error)),
        }
    }

    /// Handles the reply to the request `id`.
    fn handle_reply(&self, id: RequestId, reply: Result<&str, Error>) {
        match id {
            RequestId::Batch => self.await_commits(),
            RequestId::Commits => self.end_wait(),
            _ => self.jobtap.receive_reply(self.host(), id, reply),
        }
    }

    /// Cancels the pending requests for which `is_cancelled` is true. The KVS may still carry out a commit.
    pub(super) fn cancel_requests(&self, is_cancelled: impl Fn(RequestId) -> bool) {
        self.pending.borrow_mut().retain(|id, _| !is_cancelled(*id));
    }

    /// Returns the instance's address, for C to pass to continuations.
    fn as_arg(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }
}

unsafe extern "C" fn on_reply<J: Jobtap>(future: *mut sys::flux_future_t, arg: *mut c_void) {
    // SAFETY: `arg` is the argument that `await_reply` passed. The pending request keeps it alive, and the instance
    // destroys its futures before it is dropped.
    let (instance, id) = unsafe {
        let argument = borrow_from_c::<ContinuationArgument>(arg);
        (borrow_from_c::<Instance<J>>(argument.instance), argument.id)
    };
    let body = || {
        // SAFETY: the future belongs to the request `id` and is fulfilled.
        let reply = unsafe { read_reply(future, id) };
        let answered_request = instance.pending.borrow_mut().remove(&id);
        drop(answered_request);
        instance.handle_reply(id, reply.as_deref().map_err(|error| *error));
        instance.start_reads();
    };
    instance.catch_panic(id.name(), || id.job(), body);
}

/// Returns the reply to the request `id`. An empty reply is an empty text.
///
/// # Safety
/// `future` belongs to the request `id` and is fulfilled.
unsafe fn read_reply(future: *mut sys::flux_future_t, id: RequestId) -> Result<String, Error> {
    let mut text: *const c_char = null();
    let (function, rc) = match id {
        RequestId::Eventlog(_) | RequestId::LookUp(_) | RequestId::AwaitedKey => {
            // SAFETY: the future belongs to a look-up and is fulfilled.
            ("flux_kvs_lookup", unsafe { sys::flux_kvs_lookup_get(future, &raw mut text) })
        }
        RequestId::Commits | RequestId::Write => {
            // SAFETY: the future is fulfilled, and a commit is an RPC.
            ("flux_kvs_commit", unsafe { sys::flux_rpc_get(future, &raw mut text) })
        }
        RequestId::Batch | RequestId::Dependencies(_) | RequestId::EndedJobs | RequestId::Service(_) => {
            // SAFETY: the future belongs to an RPC and is fulfilled.
            ("flux_rpc_get", unsafe { sys::flux_rpc_get(future, &raw mut text) })
        }
    };
    Error::check_rc(function, rc)?;
    if text.is_null() {
        return Ok(String::new());
    }
    // SAFETY: on success the text is null or a C string borrowed from the future.
    Ok(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}
