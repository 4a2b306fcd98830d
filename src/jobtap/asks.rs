// SPDX-License-Identifier: LGPL-3.0-only
//! Requests to services of Flux and to its KVS. [`Jobtap::receive_reply`] gets the replies.

use super::call::to_c_string;
use super::error::Error;
use super::pending::{Future, RequestId};
use super::{Host, Jobtap, Plugin, sys};
use std::ffi::{CStr, c_int};
use std::ptr::null;

/// `FLUX_KVS_WAITCREATE`.
const WAITCREATE: c_int = 8;

impl<J: Jobtap> Host<'_, J> {
    /// Sends a request to a service of Flux ([`RequestId::Service`]).
    pub fn send_service_request(self, number: u32, topic: &'static CStr, payload: &str) {
        let sent = self.plugin().send_request(topic, payload);
        self.instance.await_reply(RequestId::Service(number), sent);
    }

    /// Sends `request` (JSON) to `job-list.list` ([`RequestId::EndedJobs`]).
    pub fn list_ended(self, request: &str) {
        let sent = self.plugin().send_request(c"job-list.list", request);
        self.instance.await_reply(RequestId::EndedJobs, sent);
    }

    /// Asks job-list for the job's outstanding dependencies ([`RequestId::Dependencies`]).
    pub fn read_dependencies(self, id: u64) {
        let payload = format!("{{\"id\":{id},\"attrs\":[\"dependencies\"]}}");
        let sent = self.plugin().send_request(c"job-list.list-id", &payload);
        self.instance.await_reply(RequestId::Dependencies(id), sent);
    }

    /// Sets each key of `changes` to its text, or unlinks a key without a text, all in one commit
    /// ([`RequestId::Write`]).
    pub fn write(self, changes: &[(String, Option<String>)]) {
        self.instance.await_reply(RequestId::Write, self.plugin().commit_changes(changes));
    }

    /// Looks up `key` in the KVS ([`RequestId::LookUp`]).
    pub fn look_up(self, key: &str, number: u64) {
        self.instance
            .await_reply(RequestId::LookUp(number), self.plugin().start_look_up(&to_c_string(key), 0));
    }

    /// Looks up `key` in the KVS, and waits until a client creates the key ([`RequestId::AwaitedKey`]). Neither
    /// [`Host::cancel_kvs_requests`] nor a panic cancels the look-up.
    pub fn await_key(self, key: &CStr) {
        self.instance.await_reply(RequestId::AwaitedKey, self.plugin().start_look_up(key, WAITCREATE));
    }

    /// Cancels the pending requests of [`Host::write`] and [`Host::look_up`].
    pub fn cancel_kvs_requests(self) {
        self.instance.cancel_requests(|id| matches!(id, RequestId::Write | RequestId::LookUp(_)));
    }
}

impl Plugin {
    /// Starts a commit of `changes` to the primary namespace of the KVS.
    pub(super) fn commit_changes(self, changes: &[(String, Option<String>)]) -> Result<Future, Error> {
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
            Future::own("flux_kvs_commit", unsafe { sys::flux_kvs_commit(self.flux, null(), 0, txn) })
        };
        let outcome = send_changes();
        // SAFETY: this function owns the transaction and does not use it afterwards.
        unsafe { sys::flux_kvs_txn_destroy(txn) };
        outcome
    }

    /// Starts a look-up of `key` in the primary namespace of the KVS.
    pub(super) fn start_look_up(self, key: &CStr, flags: c_int) -> Result<Future, Error> {
        // SAFETY: the key is a C string that is copied; a null namespace is the primary one.
        let future = unsafe { sys::flux_kvs_lookup(self.flux, null(), flags, key.as_ptr()) };
        Future::own("flux_kvs_lookup", future)
    }
}
