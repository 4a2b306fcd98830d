// SPDX-License-Identifier: LGPL-3.0-only
//! What was asked of Flux and is not answered yet. It dies with the instance, and nothing of it comes afterwards.

use super::error::Error;
use super::guard::Instance;
use super::shared::{address, shared};
use super::{Jobtap, sys};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::{CStr, c_char, c_void};
use std::ptr::null;
use std::rc::Rc;

/// A future of ours that has a continuation. Dropping it destroys it: its continuation does not come any more. Flux allows
/// that in the continuation too.
pub(super) struct Future(*mut sys::flux_future_t);

impl Future {
    /// Takes a future over that nobody else destroys.
    pub fn own(future: *mut sys::flux_future_t) -> Future {
        Future(future)
    }
}

impl Drop for Future {
    fn drop(&mut self) {
        // SAFETY: the future is ours, and nobody else destroys it.
        unsafe { sys::flux_future_destroy(self.0) };
    }
}

/// What Flux hands back with an answer.
struct Ticket {
    /// The address of the instance.
    instance: *mut c_void,
    id: u64,
}

/// A request under way, which Flux answers with its number.
pub(super) struct Ask {
    /// Destroyed before the ticket that it points to.
    _future: Future,
    _ticket: Rc<Ticket>,
}

impl Ask {
    /// Starts a request; `start` is given what Flux is to hand back.
    pub fn start<J: Jobtap>(
        instance: &Instance<J>,
        id: u64,
        start: impl FnOnce(*mut c_void) -> Result<Future, Error>,
    ) -> Result<Ask, Error> {
        let ticket = Rc::new(Ticket { instance: instance.at(), id });
        Ok(Ask { _future: start(address(&ticket))?, _ticket: ticket })
    }

    /// Whose request was answered, and its number.
    ///
    /// # Safety
    /// `arg` is what the function that started it was given, and the request is still under way in its instance, which lives
    /// for `'a`.
    pub unsafe fn answered<'a, J: Jobtap>(arg: *mut c_void) -> (&'a Instance<J>, u64) {
        // SAFETY: contract of this function: the request owns the ticket.
        unsafe {
            let ticket = shared::<Ticket>(arg);
            (shared::<Instance<J>>(ticket.instance), ticket.id)
        }
    }
}

/// Requests under way by number: one of each.
pub(super) type Asks = RefCell<BTreeMap<u64, Ask>>;

/// What is read, and what is to be.
#[derive(Default)]
pub(super) struct Reads {
    /// Jobs of which an eventlog was asked for since what is waited for was.
    pub asked: VecDeque<u64>,
    /// The step of the wait that is under way.
    pub commits: Option<Future>,
    /// Those that can be read when it is over: all were asked for before it began.
    pub awaited: VecDeque<u64>,
    pub under_way: BTreeMap<u64, Ask>,
    /// Those that can be read.
    pub to_come: VecDeque<u64>,
}

/// What a look-up in the KVS found.
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

/// What an RPC was answered with: `None` if it failed, or nothing was said.
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
