// SPDX-License-Identifier: LGPL-3.0-only
//! The functions for asynchronous requests (futures).

use std::ffi::{c_int, c_void};

use serde_json::{Value, json};

use super::super::abi::ContinuationFn;
use super::super::reactor::FutureRequest;
use super::{Text, host_at, read_text, return_code, tag_at};

/// Creates the future of a request, or returns null if the host cannot answer the request. The host answers these requests:
/// - queries to job-list for ended jobs, and for the dependencies of a job
/// - `job-manager.memo`
/// - `job-manager.submit` without jobs, which is answered when all events posted so far are committed
/// - requests with a topic for which a test has set an answer
pub(super) extern "C" fn rpc(pointer: *mut c_void, topic: Text, payload: Text) -> *mut c_void {
    let host = host_at(pointer);
    if host.inject_fault("flux_rpc").is_some() {
        return std::ptr::null_mut();
    }
    let payload = read_text(payload).and_then(|payload| serde_json::from_str(&payload).ok());
    let payload: Option<Value> = payload;
    if let (Some("job-manager.memo"), Some(payload)) = (read_text(topic).as_deref(), &payload) {
        host.annotate(payload);
    }
    let wanted = match (read_text(topic).as_deref(), payload) {
        (Some("job-manager.submit"), Some(payload)) if payload == json!({"jobs": []}) => {
            FutureRequest::Commit
        }
        (Some("job-list.list-id"), Some(payload))
            if payload.get("attrs") == Some(&json!(["dependencies"])) =>
        {
            FutureRequest::Dependencies(payload.get("id").and_then(Value::as_u64).unwrap_or_default())
        }
        (Some("job-list.list"), Some(payload)) => FutureRequest::EndedJobs(payload),
        (Some("job-manager.memo"), _) => FutureRequest::Other("job-manager.memo".to_owned()),
        (Some(topic), payload) => {
            let name = payload.as_ref().and_then(|payload| payload.get("name")?.as_str()).unwrap_or_default();
            let keys = [format!("{topic} {name}"), topic.to_owned()];
            let is_set = |key: &String| host.store.borrow().forced_answers.contains_key(key);
            let Some(key) = keys.into_iter().find(is_set) else { return std::ptr::null_mut() };
            FutureRequest::Other(key)
        }
        _ => return std::ptr::null_mut(),
    };
    host.store.borrow_mut().agenda.create_future(host, wanted)
}

pub(super) extern "C" fn commit(
    pointer: *mut c_void,
    count: c_int,
    keys: *const Text,
    texts: *const Text,
) -> *mut c_void {
    let host = host_at(pointer);
    if host.inject_fault("flux_kvs_commit").is_some() {
        return std::ptr::null_mut();
    }
    let entry = |array: *const Text, index: usize| {
        // SAFETY: both arrays have `count` entries, and `index` is below `count`.
        read_text(unsafe { *array.add(index) })
    };
    let count = usize::try_from(count).unwrap_or(0);
    let changes =
        (0..count).map(|index| (entry(keys, index).unwrap_or_default(), entry(texts, index))).collect();
    let agenda = &mut host.store.borrow_mut().agenda;
    agenda.kvs.send_changes(changes);
    agenda.create_future(host, FutureRequest::Commit)
}

pub(super) extern "C" fn lookup(pointer: *mut c_void, key: Text) -> *mut c_void {
    let host = host_at(pointer);
    if host.inject_fault("flux_kvs_lookup").is_some() {
        return std::ptr::null_mut();
    }
    host.store.borrow_mut().agenda.create_future(host, FutureRequest::Key(read_text(key).unwrap_or_default()))
}

pub(super) extern "C" fn future_then(
    future: *mut c_void,
    callback: ContinuationFn,
    data: *mut c_void,
) -> c_int {
    let tag = tag_at(future);
    if let Some(error_code) = host_at(tag.host.cast()).inject_fault("flux_future_then") {
        return error_code;
    }
    return_code(host_at(tag.host.cast()).store.borrow_mut().agenda.then(tag.key, callback, data))
}

pub(super) extern "C" fn lookup_get(future: *mut c_void, value: *mut Text) -> c_int {
    let tag = tag_at(future);
    if let Some(error_code) = host_at(tag.host.cast()).inject_fault("flux_kvs_lookup_get") {
        return error_code;
    }
    return_code(host_at(tag.host.cast()).lookup_text(tag.key).map(|found| {
        if !value.is_null() {
            // SAFETY: not null, so the caller of flux_kvs_lookup_get passed the address of a variable.
            unsafe { *value = found };
        }
    }))
}

pub(super) extern "C" fn future_destroy(future: *mut c_void) {
    let tag = tag_at(future);
    let (host, key) = (host_at(tag.host.cast()), tag.key);
    host.store.borrow_mut().agenda.destroy_future(key);
}
