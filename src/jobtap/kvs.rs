// SPDX-License-Identifier: LGPL-3.0-only
//! Reads and writes the plugin's keys in the instance's KVS. One commit writes several keys; each look-up reads one
//! key.

use super::call::{Continuation, set_continuation, to_c_string};
use super::error::{ENOENT, Error};
use super::guard::Instance;
use super::pending::{Future, PendingRequest, read_look_up_value};
use super::shared::borrow_from_c;
use super::{Host, Jobtap, Plugin, reply, sys};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};

/// `FLUX_KVS_WAITCREATE`.
const WAITCREATE: c_int = 8;

/// The result of a look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookUpResult<'a> {
    /// The value of the key.
    Text(&'a str),
    /// The key does not exist.
    Missing,
    /// The key cannot be read; the text is the reason.
    Unreadable(String),
}

/// The behavior of a look-up whose key does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingKey {
    /// The look-up returns [`LookUpResult::Missing`].
    Report,
    /// The look-up waits until another client creates the key. Neither [`Host::cancel_kvs_requests`] nor a panic
    /// cancels the look-up.
    AwaitCreation,
}

/// The pending write and the pending look-ups.
#[derive(Default)]
pub(super) struct KvsRequests {
    write: RefCell<Option<Future>>,
    look_ups: RefCell<BTreeMap<u64, (PendingRequest, MissingKey)>>,
}

impl KvsRequests {
    /// Cancels the pending write and the look-ups that do not wait for their keys. The KVS may still carry out the
    /// write.
    pub(super) fn cancel(&self) {
        self.set_write(None);
        self.look_ups.borrow_mut().retain(|_, (_, missing_key)| *missing_key == MissingKey::AwaitCreation);
    }

    fn set_write(&self, write: Option<Future>) {
        drop(self.write.replace(write));
    }
}

impl<J: Jobtap> Host<'_, J> {
    /// Sets each key of `changes` to its text, or unlinks a key without a text, all in one commit. Calls
    /// [`Jobtap::receive_commit_result`] with the result in a later reactor turn. If an earlier write is still pending,
    /// its result is dropped.
    pub fn write(self, changes: &[(String, Option<String>)]) {
        self.instance.kvs_requests.set_write(None);
        match self.instance.plugin.commit_changes(changes, on_written::<J>, self.instance.as_arg()) {
            Ok(future) => self.instance.kvs_requests.set_write(Some(future)),
            Err(error) => self.instance.jobtap.receive_commit_result(self, Err(error.to_string())),
        }
    }

    /// Looks up `key` and passes the result to [`Jobtap::receive_look_up`] in a later reactor turn. The look-up
    /// replaces a pending look-up with the same `number`.
    pub fn look_up(self, key: &str, number: u64, missing_key: MissingKey) {
        let start = |arg| self.instance.plugin.start_look_up(key, missing_key, on_found::<J>, arg);
        match PendingRequest::start(self.instance, number, start) {
            Ok(request) => {
                let replaced_request =
                    self.instance.kvs_requests.look_ups.borrow_mut().insert(number, (request, missing_key));
                drop(replaced_request);
            }
            Err(error) => self.instance.jobtap.receive_look_up(
                self,
                number,
                LookUpResult::Unreadable(error.to_string()),
            ),
        }
    }

    /// Cancels the pending requests of [`Host::write`] and [`Host::look_up`].
    pub fn cancel_kvs_requests(self) {
        self.instance.kvs_requests.cancel();
    }
}

impl Plugin {
    /// Starts a commit of `changes` to the primary namespace of the KVS.
    fn commit_changes(
        self,
        changes: &[(String, Option<String>)],
        done: Continuation,
        arg: *mut c_void,
    ) -> Result<Future, Error> {
        // SAFETY: this function owns the transaction. The transaction copies keys and texts, and the commit copies the
        // transaction.
        let txn = unsafe { sys::flux_kvs_txn_create() };
        if txn.is_null() {
            return Err(Error::from_errno("flux_kvs_txn_create"));
        }
        let send_changes = || {
            for (key, text) in changes {
                let key = to_c_string(key);
                let text = text.as_deref().map(to_c_string);
                let (call, rc) = if let Some(text) = text {
                    // SAFETY: this function owns the transaction; key and text are C strings.
                    let rc = unsafe { sys::flux_kvs_txn_put(txn, 0, key.as_ptr(), text.as_ptr()) };
                    ("flux_kvs_txn_put", rc)
                } else {
                    // SAFETY: this function owns the transaction; the key is a C string.
                    let rc = unsafe { sys::flux_kvs_txn_unlink(txn, 0, key.as_ptr()) };
                    ("flux_kvs_txn_unlink", rc)
                };
                Error::check_rc(call, rc)?;
            }
            // SAFETY: a null namespace is the primary one.
            let future = unsafe { sys::flux_kvs_commit(self.flux(), null(), 0, txn) };
            set_continuation("flux_kvs_commit", future, done, arg)
        };
        let outcome = send_changes();
        // SAFETY: this function owns the transaction and does not use it afterwards.
        unsafe { sys::flux_kvs_txn_destroy(txn) };
        outcome
    }

    /// Starts a look-up in the primary namespace.
    fn start_look_up(
        self,
        key: &str,
        missing_key: MissingKey,
        done: Continuation,
        arg: *mut c_void,
    ) -> Result<Future, Error> {
        let key = to_c_string(key);
        let flags = match missing_key {
            MissingKey::Report => 0,
            MissingKey::AwaitCreation => WAITCREATE,
        };
        // SAFETY: the key is a C string that is copied; a null namespace is the primary one.
        let future = unsafe { sys::flux_kvs_lookup(self.flux(), null(), flags, key.as_ptr()) };
        set_continuation("flux_kvs_lookup", future, done, arg)
    }
}

unsafe extern "C" fn on_written<J: Jobtap>(future: *mut sys::flux_future_t, arg: *mut c_void) {
    // SAFETY: `arg` points to the instance, which destroys the future before the instance itself is dropped.
    let instance = unsafe { borrow_from_c::<Instance<J>>(arg) };
    let body = || {
        // SAFETY: the future is fulfilled; with a null pointer Flux returns no payload.
        let rc = unsafe { sys::flux_rpc_get(future, null_mut()) };
        let outcome = Error::check_rc("flux_kvs_commit", rc).map_err(|error| error.to_string());
        instance.kvs_requests.set_write(None);
        instance.jobtap.receive_commit_result(instance.host(), outcome);
    };
    instance.catch_panic(reply::WRITTEN, || None, body);
}

unsafe extern "C" fn on_found<J: Jobtap>(future: *mut sys::flux_future_t, arg: *mut c_void) {
    // SAFETY: Flux passes the argument that the look-up was started with, and the look-up is still pending.
    let (instance, number) = unsafe { PendingRequest::identify::<J>(arg) };
    let body = || {
        // SAFETY: the future belongs to a look-up and is fulfilled.
        let outcome = unsafe { read_look_up_value(future) };
        let answered_request = instance.kvs_requests.look_ups.borrow_mut().remove(&number);
        drop(answered_request);
        let result = match &outcome {
            Ok(text) => LookUpResult::Text(text),
            Err(Error { errno: ENOENT, .. }) => LookUpResult::Missing,
            Err(error) => LookUpResult::Unreadable(error.to_string()),
        };
        instance.jobtap.receive_look_up(instance.host(), number, result);
    };
    instance.catch_panic(reply::FOUND, || None, body);
}
