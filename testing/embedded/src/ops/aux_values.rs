// SPDX-License-Identifier: LGPL-3.0-only
//! The functions that store values on a plugin, on a job, or on the job manager's handle.

use std::ffi::{c_int, c_void};

use super::super::aux::FreeFn;
use super::super::job::Errno;
use super::{Slot, Text, find_job, host_at, host_of_slot, plugin_at, read_text, return_code, run_call};

pub(super) extern "C" fn aux_set(
    slot: Slot,
    key: Text,
    value: *mut c_void,
    destroy: Option<FreeFn>,
) -> c_int {
    run_call(slot, "flux_plugin_aux_set", |plugin, _| {
        let displaced = plugin.aux.borrow_mut().set(read_text(key), value, destroy);
        displaced.map(drop)
    })
}

pub(super) extern "C" fn aux_get(slot: Slot, key: Text) -> *mut c_void {
    read_text(key).and_then(|key| plugin_at(slot).aux.borrow().get(&key)).unwrap_or(std::ptr::null_mut())
}

pub(super) extern "C" fn job_aux_set(
    slot: Slot,
    id: u64,
    key: Text,
    value: *mut c_void,
    destroy: Option<FreeFn>,
) -> c_int {
    let (host, uid) = (host_of_slot(slot), plugin_at(slot).uid);
    return_code(find_job(host, id, "flux_jobtap_job_aux_set").and_then(|id| {
        let set = host.job_mut(id, |job| job.aux.entry(uid).or_default().set(read_text(key), value, destroy));
        set.unwrap_or(Err(Errno::ENOENT)).map(drop)
    }))
}

pub(super) extern "C" fn job_aux_get(slot: Slot, id: u64, key: Text, value: *mut *mut c_void) -> c_int {
    let (host, uid) = (host_of_slot(slot), plugin_at(slot).uid);
    let found = find_job(host, id, "flux_jobtap_job_aux_get").and_then(|id| {
        let key = read_text(key).unwrap_or_default();
        host.job(id, |job| job.aux.get(&uid).and_then(|aux| aux.get(&key))).flatten().ok_or(Errno::ENOENT)
    });
    return_code(found.map(|found| {
        // SAFETY: abi.c passes the address of a local variable.
        unsafe { *value = found };
    }))
}

pub(super) extern "C" fn handle_aux_set(
    pointer: *mut c_void,
    key: Text,
    value: *mut c_void,
    destroy: Option<FreeFn>,
) -> c_int {
    let host = host_at(pointer);
    if let Some(error_code) = host.inject_fault("flux_aux_set") {
        return error_code;
    }
    let displaced = host.aux.borrow_mut().set(read_text(key), value, destroy);
    return_code(displaced.map(drop))
}

pub(super) extern "C" fn handle_aux_get(pointer: *mut c_void, key: Text) -> *mut c_void {
    read_text(key).and_then(|key| host_at(pointer).aux.borrow().get(&key)).unwrap_or(std::ptr::null_mut())
}
