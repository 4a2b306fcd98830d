// SPDX-License-Identifier: LGPL-3.0-only
//! What was asked of Flux and is not answered yet. It dies with the instance, and nothing of it comes afterwards.

use super::sys;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::rc::Rc;

/// What is read, and what is to be.
pub(super) struct Reads {
    /// While not null: what is waited for before anything is read.
    pub commits: *mut sys::flux_future_t,
    pub under_way: BTreeMap<u64, Read>,
    pub to_come: VecDeque<u64>,
}

/// A read under way.
pub(super) struct Read {
    pub future: *mut sys::flux_future_t,
    pub _ticket: Rc<Ticket>,
}

/// What Flux hands back with an eventlog or an answer.
pub(super) struct Ticket {
    /// The address of the instance.
    pub instance: *mut c_void,
    pub id: u64,
}

impl Default for Reads {
    fn default() -> Self {
        Reads { commits: null_mut(), under_way: BTreeMap::new(), to_come: VecDeque::new() }
    }
}

impl Drop for Reads {
    fn drop(&mut self) {
        let futures = std::mem::take(&mut self.under_way).into_values().map(|read| read.future);
        futures.chain([self.commits]).for_each(destroy);
    }
}

/// Destroys a future of ours, or none. Its continuation does not come any more; in it, Flux allows this.
pub(super) fn destroy(future: *mut sys::flux_future_t) {
    if !future.is_null() {
        // SAFETY: the future is ours, and nobody else knows it.
        unsafe { sys::flux_future_destroy(future) };
    }
}

/// What was asked.
#[derive(Default)]
pub(super) struct Asks {
    pub under_way: RefCell<BTreeMap<u64, Ask>>,
}

/// A request under way.
pub(super) struct Ask {
    pub future: *mut sys::flux_future_t,
    pub _ticket: Rc<Ticket>,
}

impl Asks {
    /// Nobody waits for any answer any more.
    pub(super) fn forget(&self) {
        for ask in std::mem::take(&mut *self.under_way.borrow_mut()).into_values() {
            // SAFETY: the future is ours; destroying it cancels its continuation.
            unsafe { sys::flux_future_destroy(ask.future) };
        }
    }
}

impl Drop for Asks {
    fn drop(&mut self) {
        self.forget();
    }
}
