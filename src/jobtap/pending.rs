// SPDX-License-Identifier: LGPL-3.0-only
//! Requests to Flux that have no reply yet. They are destroyed with the instance, so no continuation runs after that.

use super::error::Error;
use super::guard::Instance;
use super::shared::{address, borrow_from_c};
use super::{Jobtap, sys};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::{CStr, c_char, c_void};
use std::ptr::null;
use std::rc::Rc;

/// A future with a continuation. Dropping it destroys the future, so that the continuation does not run. Flux allows
/// this within the continuation too.
pub(super) struct Future(*mut sys::flux_future_t);

impl Future {
    /// Takes ownership of a future.
    pub fn own(future: *mut sys::flux_future_t) -> Future {
        Future(future)
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
    id: u64,
}

/// A pending request.
pub(super) struct PendingRequest {
    /// This field must come first, because Rust drops the fields in order. The future has a pointer to the ticket.
    _future: Future,
    _ticket: Rc<ContinuationArgument>,
}

impl PendingRequest {
    /// Starts a request with the id `id`. Calls `start` with the address of a `ContinuationArgument`, which `start`
    /// must pass to the future's continuation.
    pub fn start<J: Jobtap>(
        instance: &Instance<J>,
        id: u64,
        start: impl FnOnce(*mut c_void) -> Result<Future, Error>,
    ) -> Result<PendingRequest, Error> {
        let ticket = Rc::new(ContinuationArgument { instance: instance.as_arg(), id });
        Ok(PendingRequest { _future: start(address(&ticket))?, _ticket: ticket })
    }

    /// Returns the instance and the id of the answered request.
    ///
    /// # Safety
    /// `arg` is the argument that `start` got. The request is still pending in its instance, which lives for `'a`.
    pub unsafe fn identify<'a, J: Jobtap>(arg: *mut c_void) -> (&'a Instance<J>, u64) {
        // SAFETY: `arg` is the argument that `start` got, so it points to the ticket. The pending request keeps the
        // ticket alive.
        unsafe {
            let ticket = borrow_from_c::<ContinuationArgument>(arg);
            (borrow_from_c::<Instance<J>>(ticket.instance), ticket.id)
        }
    }
}

/// Pending requests by id.
pub(super) type PendingRequests = RefCell<BTreeMap<u64, PendingRequest>>;

/// Reads of eventlogs: requested, pending, or waiting for the KVS.
#[derive(Default)]
pub(super) struct Reads {
    /// Jobs whose eventlogs were requested after the current wait began.
    pub requested: VecDeque<u64>,
    /// The future of the current step of the wait.
    pub wait_step: Option<Future>,
    /// Jobs whose eventlogs can be read when the KVS has the events posted so far.
    pub waiting: VecDeque<u64>,
    pub pending: BTreeMap<u64, PendingRequest>,
    /// Jobs whose eventlogs can be read now.
    pub readable: VecDeque<u64>,
}

/// Returns the value that a look-up in the KVS found.
///
/// # Safety
/// `future` belongs to a look-up and is fulfilled.
pub(super) unsafe fn read_look_up_value(future: *mut sys::flux_future_t) -> Result<String, Error> {
    let mut value: *const c_char = null();
    // SAFETY: the future belongs to a look-up and is fulfilled.
    let rc = unsafe { sys::flux_kvs_lookup_get(future, &raw mut value) };
    Error::check_rc("flux_kvs_lookup", rc)?;
    // SAFETY: on success the value is a C string borrowed from the future, or null if the value is empty.
    Ok(if value.is_null() { String::new() } else { unsafe { copy_c_string(value) } })
}

/// Returns the payload of the reply to an RPC, or `None` if the RPC failed or the reply is empty.
///
/// # Safety
/// `future` belongs to an RPC and is fulfilled.
pub(super) unsafe fn read_reply(future: *mut sys::flux_future_t) -> Option<String> {
    let mut payload: *const c_char = null();
    // SAFETY: the future belongs to an RPC and is fulfilled.
    let rc = unsafe { sys::flux_rpc_get(future, &raw mut payload) };
    // SAFETY: on success the payload is a C string borrowed from the future, or null.
    (rc >= 0 && !payload.is_null()).then(|| unsafe { copy_c_string(payload) })
}

/// # Safety
/// `value` is a C string.
unsafe fn copy_c_string(value: *const c_char) -> String {
    // SAFETY: `value` is a C string.
    unsafe { CStr::from_ptr(value) }.to_string_lossy().into_owned()
}
