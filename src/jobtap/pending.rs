// SPDX-License-Identifier: LGPL-3.0-only
//! Requests to Flux that have no reply yet. They are destroyed with the instance, and no continuation runs after
//! that.

use super::error::Error;
use super::guard::Instance;
use super::shared::{address, shared};
use super::{Jobtap, sys};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::{CStr, c_char, c_void};
use std::ptr::null;
use std::rc::Rc;

/// A future with a continuation. Its drop destroys the future, so that the continuation does not run. Flux allows
/// that within the continuation too.
pub(super) struct Future(*mut sys::flux_future_t);

impl Future {
    /// Takes ownership of a future.
    pub fn own(future: *mut sys::flux_future_t) -> Future {
        Future(future)
    }
}

impl Drop for Future {
    fn drop(&mut self) {
        // SAFETY: the future is ours, and destroyed once.
        unsafe { sys::flux_future_destroy(self.0) };
    }
}

/// The argument of a continuation: identifies the instance and the request.
struct Ticket {
    /// The address of the instance.
    instance: *mut c_void,
    id: u64,
}

/// A pending request.
pub(super) struct Ask {
    /// Destroyed before the ticket that the continuation points to.
    _future: Future,
    _ticket: Rc<Ticket>,
}

impl Ask {
    /// Starts the request `id`. `start` gets the argument for the continuation.
    pub fn start<J: Jobtap>(
        instance: &Instance<J>,
        id: u64,
        start: impl FnOnce(*mut c_void) -> Result<Future, Error>,
    ) -> Result<Ask, Error> {
        let ticket = Rc::new(Ticket { instance: instance.as_arg(), id });
        Ok(Ask { _future: start(address(&ticket))?, _ticket: ticket })
    }

    /// Returns the instance and the id of the request that was answered.
    ///
    /// # Safety
    /// `arg` is the argument that `start` got, and the request is still pending in its instance, which lives for
    /// `'a`.
    pub unsafe fn answered<'a, J: Jobtap>(arg: *mut c_void) -> (&'a Instance<J>, u64) {
        // SAFETY: contract of this function: the request owns the ticket.
        unsafe {
            let ticket = shared::<Ticket>(arg);
            (shared::<Instance<J>>(ticket.instance), ticket.id)
        }
    }
}

/// Pending requests by id.
pub(super) type Asks = RefCell<BTreeMap<u64, Ask>>;

/// Eventlog reads: requested, pending, and waiting for the KVS.
#[derive(Default)]
pub(super) struct Reads {
    /// Jobs whose eventlogs were requested after the present wait began.
    pub asked: VecDeque<u64>,
    /// The step of the present wait.
    pub commits: Option<Future>,
    /// Jobs whose eventlogs can be read when the present wait ends.
    pub awaited: VecDeque<u64>,
    pub under_way: BTreeMap<u64, Ask>,
    /// Jobs whose eventlogs can be read now.
    pub to_come: VecDeque<u64>,
}

/// Returns the value that a look-up in the KVS found.
///
/// # Safety
/// `future` is that of a look-up, and fulfilled.
pub(super) unsafe fn looked_up(future: *mut sys::flux_future_t) -> Result<String, Error> {
    let mut value: *const c_char = null();
    // SAFETY: contract of this function.
    let rc = unsafe { sys::flux_kvs_lookup_get(future, &raw mut value) };
    Error::check("flux_kvs_lookup", rc)?;
    // SAFETY: on success the value is a C string borrowed from the future, or null where it is empty.
    Ok(if value.is_null() { String::new() } else { unsafe { text(value) } })
}

/// Returns the payload of the reply to an RPC; `None` if the RPC failed or the reply is empty.
///
/// # Safety
/// `future` is that of an RPC, and fulfilled.
pub(super) unsafe fn replied(future: *mut sys::flux_future_t) -> Option<String> {
    let mut payload: *const c_char = null();
    // SAFETY: contract of this function.
    let rc = unsafe { sys::flux_rpc_get(future, &raw mut payload) };
    // SAFETY: on success the payload is a C string borrowed from the future, or null.
    (rc >= 0 && !payload.is_null()).then(|| unsafe { text(payload) })
}

/// # Safety
/// `value` is a C string.
unsafe fn text(value: *const c_char) -> String {
    // SAFETY: contract of this function.
    unsafe { CStr::from_ptr(value) }.to_string_lossy().into_owned()
}
