// SPDX-License-Identifier: LGPL-3.0-only
//! The functions for asynchronous requests (futures).

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use serde_json::{Value, json};

use super::super::abi::ContinuationFn;
use super::super::host::Host;
use super::super::reactor::FutureRequest;
use super::{Text, host_at, object_at, read_text, run_host_call};

/// Creates the future of a request. Returns null if a test makes `call` fail, or if there is no request.
fn create_future(
    pointer: *mut c_void,
    call: &'static str,
    request: impl FnOnce(&Host) -> Option<FutureRequest>,
) -> *mut c_void {
    let host = host_at(pointer);
    let wanted = if host.inject_fault(call).is_some() { None } else { request(host) };
    wanted.map_or(null_mut(), |wanted| host.store.borrow_mut().agenda.create_future(host, wanted))
}

/// Creates the future of a request, or returns null if the host cannot answer the request. The host answers these requests:
/// - queries to job-list for ended jobs, and for the dependencies of a job
/// - `job-manager.memo`
/// - `job-manager.submit` without jobs, which is answered when all events posted so far are committed
/// - requests with a topic for which a test has set an answer
pub(super) extern "C" fn rpc(pointer: *mut c_void, topic: Text, payload: Text) -> *mut c_void {
    create_future(pointer, "flux_rpc", |host| {
        let topic = read_text(topic)?;
        let payload = read_text(payload).and_then(|payload| serde_json::from_str(&payload).ok());
        let payload: Value = payload.unwrap_or_default();
        let id = payload.get("id").and_then(Value::as_u64).unwrap_or_default();
        match topic.as_str() {
            "job-manager.submit" if payload == json!({"jobs": []}) => Some(FutureRequest::Commit),
            "job-list.list-id" if payload.get("attrs") == Some(&json!(["dependencies"])) => {
                Some(FutureRequest::Dependencies(id))
            }
            "job-list.list" => Some(FutureRequest::EndedJobs(payload)),
            "job-manager.memo" => {
                host.annotate(&payload);
                Some(FutureRequest::Other(topic))
            }
            _ => {
                let name = payload.get("name").and_then(Value::as_str).unwrap_or_default();
                let is_set = |key: &String| host.store.borrow().forced_answers.contains_key(key);
                [format!("{topic} {name}"), topic].into_iter().find(is_set).map(FutureRequest::Other)
            }
        }
    })
}

pub(super) extern "C" fn commit(
    pointer: *mut c_void,
    count: c_int,
    keys: *const Text,
    texts: *const Text,
) -> *mut c_void {
    let entry = |array: *const Text, index: usize| {
        // SAFETY: both arrays have `count` entries, and `index` is below `count`.
        read_text(unsafe { *array.add(index) })
    };
    create_future(pointer, "flux_kvs_commit", |host| {
        let indices = 0..usize::try_from(count).unwrap_or(0);
        let changes = indices.map(|index| (entry(keys, index).unwrap_or_default(), entry(texts, index)));
        host.store.borrow_mut().agenda.kvs.send_changes(changes.collect());
        Some(FutureRequest::Commit)
    })
}

pub(super) extern "C" fn lookup(pointer: *mut c_void, key: Text) -> *mut c_void {
    create_future(pointer, "flux_kvs_lookup", |_| read_text(key).map(FutureRequest::Key))
}

pub(super) extern "C" fn future_then(
    future: *mut c_void,
    callback: ContinuationFn,
    data: *mut c_void,
) -> c_int {
    let (host, key) = object_at(future);
    run_host_call(host, "flux_future_then", || host.store.borrow_mut().agenda.then(key, callback, data))
}

pub(super) extern "C" fn lookup_get(future: *mut c_void, value: *mut Text) -> c_int {
    let (host, key) = object_at(future);
    run_host_call(host, "flux_kvs_lookup_get", || {
        let found = host.lookup_text(key)?;
        if !value.is_null() {
            // SAFETY: not null, so the caller of flux_kvs_lookup_get passed the address of a variable.
            unsafe { *value = found };
        }
        Ok(())
    })
}
