// SPDX-License-Identifier: LGPL-3.0-only
//! Reads and writes the plugin's keys in the instance's KVS. One commit writes several keys; each look-up reads one
//! key.

use super::call::{Continuation, c_text, then};
use super::error::{ENOENT, Error};
use super::guard::Instance;
use super::pending::{Ask, Future, looked_up};
use super::shared::shared;
use super::{Host, Jobtap, Plugin, Turn, sys};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};

/// `FLUX_KVS_WAITCREATE`.
const WAITCREATE: c_int = 8;

/// The result of a look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// The value of the key.
    Text(&'a str),
    /// The key does not exist.
    Nothing,
    /// The key cannot be read; the text is the reason.
    Unreadable(String),
}

/// Says whether a look-up waits until its key exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// If the key does not exist, the result is [`Found::Nothing`].
    Now,
    /// The look-up waits until the key exists. Neither [`Host::forget_errands`] nor a panic cancels the look-up.
    WhenThere,
}

/// The pending write and the pending look-ups.
#[derive(Default)]
pub(super) struct Errands {
    write: RefCell<Option<Future>>,
    look_ups: RefCell<BTreeMap<u64, (Ask, Patience)>>,
}

impl Errands {
    /// Cancels the pending write and the look-ups that do not wait for their keys. The KVS may still carry out the
    /// write.
    pub(super) fn forget(&self) {
        self.set_write(None);
        self.look_ups.borrow_mut().retain(|_, (_, patience)| *patience == Patience::WhenThere);
    }

    fn set_write(&self, write: Option<Future>) {
        drop(self.write.replace(write));
    }
}

impl<J: Jobtap> Host<'_, J> {
    /// Sets each key of `changes` to its text, or unlinks a key without a text, all in one commit. Calls
    /// [`Jobtap::written`] with the result in a later reactor turn. If an earlier write is still pending, its result is
    /// dropped.
    pub fn write(self, changes: &[(String, Option<String>)]) {
        self.instance.errands.set_write(None);
        match self.instance.plugin.commit(changes, on_written::<J>, self.instance.as_arg()) {
            Ok(future) => self.instance.errands.set_write(Some(future)),
            Err(error) => self.instance.jobtap.written(self, Err(error.to_string())),
        }
    }

    /// Looks up `key` and passes the result to [`Jobtap::found`] in a later reactor turn. The look-up replaces a
    /// pending look-up with the same `number`.
    pub fn look_up(self, key: &str, number: u64, patience: Patience) {
        let start = |arg| self.instance.plugin.kvs_lookup(key, patience, on_found::<J>, arg);
        match Ask::start(self.instance, number, start) {
            Ok(ask) => {
                let former = self.instance.errands.look_ups.borrow_mut().insert(number, (ask, patience));
                drop(former);
            }
            Err(error) => self.instance.jobtap.found(self, number, Found::Unreadable(error.to_string())),
        }
    }

    /// Cancels the pending requests of [`Host::write`] and [`Host::look_up`].
    pub fn forget_errands(self) {
        self.instance.errands.forget();
    }
}

impl Plugin {
    /// Starts a commit to the primary namespace.
    fn commit(
        self,
        changes: &[(String, Option<String>)],
        done: Continuation,
        arg: *mut c_void,
    ) -> Result<Future, Error> {
        // SAFETY: this function owns the transaction. The transaction copies keys and texts, and the commit copies the
        // transaction.
        let txn = unsafe { sys::flux_kvs_txn_create() };
        if txn.is_null() {
            return Err(Error::last("flux_kvs_txn_create"));
        }
        let put = || {
            for (key, text) in changes {
                let key = c_text(key);
                let text = text.as_deref().map(c_text);
                let (call, rc) = if let Some(text) = text {
                    // SAFETY: this function owns the transaction; key and text are C strings.
                    let rc = unsafe { sys::flux_kvs_txn_put(txn, 0, key.as_ptr(), text.as_ptr()) };
                    ("flux_kvs_txn_put", rc)
                } else {
                    // SAFETY: this function owns the transaction; the key is a C string.
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
        // SAFETY: this function owns the transaction and does not use it afterwards.
        unsafe { sys::flux_kvs_txn_destroy(txn) };
        outcome
    }

    /// Starts a look-up in the primary namespace.
    fn kvs_lookup(
        self,
        key: &str,
        patience: Patience,
        done: Continuation,
        arg: *mut c_void,
    ) -> Result<Future, Error> {
        let key = c_text(key);
        let flags = match patience {
            Patience::Now => 0,
            Patience::WhenThere => WAITCREATE,
        };
        // SAFETY: the key is a C string that is copied; a null namespace is the primary one.
        let future = unsafe { sys::flux_kvs_lookup(self.flux(), null(), flags, key.as_ptr()) };
        then("flux_kvs_lookup", future, done, arg)
    }
}

unsafe extern "C" fn on_written<J: Jobtap>(future: *mut sys::flux_future_t, arg: *mut c_void) {
    // SAFETY: `arg` points to the instance, which destroys the future before the instance itself is dropped.
    let instance = unsafe { shared::<Instance<J>>(arg) };
    let body = || {
        // SAFETY: the future is fulfilled; with a null pointer Flux returns no payload.
        let rc = unsafe { sys::flux_rpc_get(future, null_mut()) };
        let outcome = Error::check("flux_kvs_commit", rc).map_err(|error| error.to_string());
        instance.errands.set_write(None);
        instance.jobtap.written(instance.host(), outcome);
    };
    instance.guarded(Turn::Written.name(), || None, body);
}

unsafe extern "C" fn on_found<J: Jobtap>(future: *mut sys::flux_future_t, arg: *mut c_void) {
    // SAFETY: Flux passes the argument that the look-up was started with, and the look-up is still pending.
    let (instance, number) = unsafe { Ask::answered::<J>(arg) };
    let body = || {
        // SAFETY: the future belongs to a look-up and is fulfilled.
        let outcome = unsafe { looked_up(future) };
        let answered = instance.errands.look_ups.borrow_mut().remove(&number);
        drop(answered);
        let found = match &outcome {
            Ok(text) => Found::Text(text),
            Err(Error { errno: ENOENT, .. }) => Found::Nothing,
            Err(error) => Found::Unreadable(error.to_string()),
        };
        instance.jobtap.found(instance.host(), number, found);
    };
    instance.guarded(Turn::Found.name(), || None, body);
}
