// SPDX-License-Identifier: LGPL-3.0-only
//! Texts of the plugin's own in the instance's KVS: some are written together or not at all, each is read by itself.

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

/// Whether a look-up waits for its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// What is not there is [`Found::Nothing`].
    Now,
    /// It is answered when something is there. [`Host::forget_errands`] leaves it, and so does a panic.
    WhenThere,
}

/// What the KVS is at for us.
#[derive(Default)]
pub(super) struct Errands {
    write: RefCell<Option<Future>>,
    look_ups: RefCell<BTreeMap<u64, (Ask, Patience)>>,
}

impl Errands {
    /// Nobody waits any more, but for what waits for its key. What was asked to be written may come to be nevertheless.
    pub(super) fn forget(&self) {
        self.set_write(None);
        self.look_ups.borrow_mut().retain(|_, (_, patience)| *patience == Patience::WhenThere);
    }

    fn set_write(&self, write: Option<Future>) {
        drop(self.write.replace(write));
    }
}

impl<J: Jobtap> Host<'_, J> {
    /// Puts texts under keys, and takes away what is under keys without one: all of it or nothing. [`Jobtap::written`]
    /// is called when it is done, in a later reactor turn; of an earlier write that is not answered yet no more is told.
    pub fn write(self, changes: &[(String, Option<String>)]) {
        self.instance.errands.set_write(None);
        match self.instance.plugin.commit(changes, on_written::<J>, self.instance.at()) {
            Ok(future) => self.instance.errands.set_write(Some(future)),
            Err(error) => self.instance.jobtap.written(self, Err(error.to_string())),
        }
    }

    /// Has [`Jobtap::found`] called with what is under a key, in a later reactor turn. One request of each number is
    /// under way at a time.
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

    /// Nobody waits any more for what was asked by [`Host::write`] and [`Host::look_up`].
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

    /// Starts reading from the primary namespace.
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
    // SAFETY: `arg` is the instance, which destroys the future before it goes.
    let instance = unsafe { shared::<Instance<J>>(arg) };
    let body = || {
        // SAFETY: the future is fulfilled; no payload is wanted.
        let rc = unsafe { sys::flux_rpc_get(future, null_mut()) };
        let outcome = Error::check("flux_kvs_commit", rc).map_err(|error| error.to_string());
        instance.errands.set_write(None);
        instance.jobtap.written(instance.host(), outcome);
    };
    instance.guarded(Turn::Written.name(), || None, body);
}

unsafe extern "C" fn on_found<J: Jobtap>(future: *mut sys::flux_future_t, arg: *mut c_void) {
    // SAFETY: Flux hands back what it was given, while the look-up is under way.
    let (instance, number) = unsafe { Ask::answered::<J>(arg) };
    let body = || {
        // SAFETY: the future is that of a look-up, and fulfilled.
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
