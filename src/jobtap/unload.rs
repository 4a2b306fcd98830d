// SPDX-License-Identifier: LGPL-3.0-only
//! Gives the client the reason why a plugin cannot be loaded.
//!
//! If `flux_plugin_init` fails, the client gets no reason. But Flux calls `conf.update` right after `flux_plugin_init`,
//! and the error text of that callback reaches the client and ends the load. So a plugin that cannot be loaded
//! registers one callback that refuses every configuration. Flux then removes the plugin before it handles a job.

use super::{Args, Plugin, c_text, sys};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

struct Why {
    plugin: Plugin,
    text: CString,
}

/// Registers the callback that fails the load with `text`. Returns the result for `flux_plugin_init`.
pub(super) fn fail_load(plugin: Plugin, name: &CStr, text: &str) -> c_int {
    let why = Box::into_raw(Box::new(Why { plugin, text: c_text(text) })).cast::<c_void>();
    // SAFETY: the handle is valid. It owns the box from here on, and frees it by `free` after the last callback.
    if unsafe { sys::flux_plugin_aux_set(plugin.raw(), std::ptr::null(), why, Some(free)) } < 0 {
        // SAFETY: Flux did not take the box.
        drop(unsafe { Box::from_raw(why.cast::<Why>()) });
        return -1;
    }
    let table = [
        sys::flux_plugin_handler { topic: c"conf.update".as_ptr(), cb: Some(refuse), data: why },
        sys::flux_plugin_handler { topic: std::ptr::null(), cb: None, data: null_mut() },
    ];
    // SAFETY: the table ends with a null topic; Flux copies it.
    unsafe { sys::flux_plugin_register(plugin.raw(), name.as_ptr(), table.as_ptr()) }
}

unsafe extern "C" fn refuse(
    _plugin: *mut sys::flux_plugin_t,
    _topic: *const c_char,
    args: *mut sys::flux_plugin_arg_t,
    why: *mut c_void,
) -> c_int {
    let _ = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: `fail_load` registered `why`, which lives as long as the plugin; args belong to the call.
        let (why, args) = unsafe { (&*why.cast::<Why>(), Args::borrow(args)) };
        args.set_error(why.plugin, &why.text.to_string_lossy());
    }));
    -1
}

unsafe extern "C" fn free(why: *mut c_void) {
    // SAFETY: Flux calls this once, with the pointer given to flux_plugin_aux_set.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(unsafe { Box::from_raw(why.cast::<Why>()) })));
}
