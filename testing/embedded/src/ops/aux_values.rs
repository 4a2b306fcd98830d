// SPDX-License-Identifier: LGPL-3.0-only
//! The functions that store values on a plugin or on the job manager's handle.

use std::ffi::{c_int, c_void};

use super::super::aux::FreeFn;
use super::{Slot, Text, host_at, plugin_at, read_text, run_call, run_host_call};

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

pub(super) extern "C" fn handle_aux_set(
    pointer: *mut c_void,
    key: Text,
    value: *mut c_void,
    destroy: Option<FreeFn>,
) -> c_int {
    let host = host_at(pointer);
    run_host_call(host, "flux_aux_set", || {
        let displaced = host.aux.borrow_mut().set(read_text(key), value, destroy);
        displaced.map(drop)
    })
}

pub(super) extern "C" fn handle_aux_get(pointer: *mut c_void, key: Text) -> *mut c_void {
    read_text(key).and_then(|key| host_at(pointer).aux.borrow().get(&key)).unwrap_or(std::ptr::null_mut())
}
