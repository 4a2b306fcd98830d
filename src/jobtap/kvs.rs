// SPDX-License-Identifier: LGPL-3.0-only
//! Texts of the plugin's own in the instance's KVS: some are written together or not at all, each is read by itself.

use super::call::{c_text, then};
use super::error::{ENOENT, Error};
use super::guard::Instance;
use super::pending::{Read, Ticket, destroy};
use super::shared::{address, shared};
use super::{Host, Jobtap, Plugin, Turn, sys};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::{null, null_mut};
use std::rc::Rc;

/// What is under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// This.
    Text(&'a str),
    /// Nothing.
    Nothing,
    /// It can't be read, for this reason.
    Unreadable(String),
}

/// What the KVS is at for us.
pub(super) struct Errands {
    /// Null while nothing is being written.
    write: Cell<*mut sys::flux_future_t>,
    look_ups: RefCell<BTreeMap<u64, Read>>,
}

impl Default for Errands {
    fn default() -> Self {
        Errands { write: Cell::new(null_mut()), look_ups: RefCell::default() }
    }
}

impl Errands {
    /// Nobody waits for any of it any more. What was asked to be written may come to be nevertheless.
    pub(super) fn forget(&self) {
        destroy(self.write.replace(null_mut()));
        let look_ups = std::mem::take(&mut *self.look_ups.borrow_mut());
        look_ups.into_values().for_each(|read| destroy(read.future));
    }
}

impl Drop for Errands {
    fn drop(&mut self) {
        self.forget();
    }
}

impl<J: Jobtap> Host<'_, J> {
    /// Puts texts under keys, and takes away what is under keys without one: all of it or nothing. [`Jobtap::written`]
    /// is called when it is done, in a later reactor turn; of an earlier write that is not answered yet no more is told.
    pub fn write(self, changes: &[(String, Option<String>)]) {
        destroy(self.instance.errands.write.replace(null_mut()));
        match self.instance.plugin.commit(changes, on_written::<J>, self.instance.at()) {
            Ok(future) => self.instance.errands.write.set(future),
            Err(error) => self.instance.jobtap.written(self, Err(error.to_string())),
        }
    }

    /// Has [`Jobtap::found`] called with what is under a key, in a later reactor turn. One request of each number is
    /// under way at a time.
    pub fn look_up(self, key: &str, number: u64) {
        let ticket = Rc::new(Ticket { instance: self.instance.at(), id: number });
        match self.instance.plugin.kvs_lookup(key, on_found::<J>, address(&ticket)) {
            Ok(future) => {
                let read = Read { future, _ticket: ticket };
                let former = self.instance.errands.look_ups.borrow_mut().insert(number, read);
                destroy(former.map_or(null_mut(), |former| former.future));
            }
            Err(error) => self.instance.jobtap.found(self, number, Found::Unreadable(error.to_string())),
        }
    }

    /// Nobody waits any more for what was asked by [`Host::write`] and [`Host::look_up`].
    pub fn forget_errands(self) {
        self.instance.errands.forget();
    }
}

impl Plugin {
    /// Starts a commit to the primary namespace. The future is the caller's to destroy.
    fn commit(
        self,
        changes: &[(String, Option<String>)],
        done: super::call::Continuation,
        arg: *mut c_void,
    ) -> Result<*mut sys::flux_future_t, Error> {
        // SAFETY: the transaction is ours; it copies keys and texts, and the commit copies it.
        let txn = unsafe { sys::flux_kvs_txn_create() };
        if txn.is_null() {
            return Err(Error::last("flux_kvs_txn_create"));
        }
        let put = || {
            for (key, text) in changes {
                let key = c_text(key);
                let text = text.as_deref().map(c_text);
                let (call, rc) = if let Some(text) = text {
                    // SAFETY: the transaction is ours, key and text are C strings.
                    let rc = unsafe { sys::flux_kvs_txn_put(txn, 0, key.as_ptr(), text.as_ptr()) };
                    ("flux_kvs_txn_put", rc)
                } else {
                    // SAFETY: the transaction is ours, the key is a C string.
                    let rc = unsafe { sys::flux_kvs_txn_unlink(txn, 0, key.as_ptr()) };
                    ("flux_kvs_txn_unlink", rc)
                };
                Error::check(call, rc)?;
            }
            // SAFETY: a null namespace is the primary one.
            let future = unsafe { sys::flux_kvs_commit(self.flux(), null(), 0, txn) };
            then("flux_kvs_commit", future, done, arg)
        };
        let outcome = put();
        // SAFETY: the transaction is ours, and nobody looks at it any more.
        unsafe { sys::flux_kvs_txn_destroy(txn) };
        outcome
    }

    /// Starts reading from the primary namespace. The future is the caller's to destroy.
    fn kvs_lookup(
        self,
        key: &str,
        done: super::call::Continuation,
        arg: *mut c_void,
    ) -> Result<*mut sys::flux_future_t, Error> {
        let key = c_text(key);
        // SAFETY: the key is a C string that is copied; a null namespace is the primary one.
        let future = unsafe { sys::flux_kvs_lookup(self.flux(), null(), 0, key.as_ptr()) };
        then("flux_kvs_lookup", future, done, arg)
    }
}

unsafe extern "C" fn on_written<J: Jobtap>(future: *mut sys::flux_future_t, arg: *mut c_void) {
    // SAFETY: `arg` is the instance, which destroys the future before it goes.
    let instance = unsafe { shared::<Instance<J>>(arg) };
    let body = || {
        // SAFETY: the future is fulfilled; no payload is wanted.
        let rc = unsafe { sys::flux_rpc_get(future, null_mut()) };
        let outcome = Error::check("flux_kvs_commit", rc).map_err(|error| error.to_string());
        destroy(instance.errands.write.replace(null_mut()));
        instance.jobtap.written(instance.host(), outcome);
    };
    instance.guarded(Turn::Written.name(), || None, body);
}

unsafe extern "C" fn on_found<J: Jobtap>(future: *mut sys::flux_future_t, arg: *mut c_void) {
    // SAFETY: `arg` is the ticket of the request, which is freed only after its future was destroyed; the instance owns it.
    let (instance, number) = unsafe {
        let ticket = shared::<Ticket>(arg);
        (shared::<Instance<J>>(ticket.instance), ticket.id)
    };
    let body = || {
        let mut value: *const c_char = null();
        // SAFETY: the future is fulfilled.
        let rc = unsafe { sys::flux_kvs_lookup_get(future, &raw mut value) };
        let outcome = Error::check("flux_kvs_lookup", rc);
        // SAFETY: on success the value is a C string borrowed from the future, or null.
        let text = (outcome.is_ok() && !value.is_null())
            .then(|| unsafe { CStr::from_ptr(value).to_string_lossy().into_owned() });
        let read = instance.errands.look_ups.borrow_mut().remove(&number);
        destroy(read.map_or(null_mut(), |read| read.future));
        let found = match (outcome, &text) {
            (Ok(()), text) => Found::Text(text.as_deref().unwrap_or_default()),
            (Err(Error { errno: ENOENT, .. }), _) => Found::Nothing,
            (Err(error), _) => Found::Unreadable(error.to_string()),
        };
        instance.jobtap.found(instance.host(), number, found);
    };
    instance.guarded(Turn::Found.name(), || None, body);
}
