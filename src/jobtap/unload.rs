// SPDX-License-Identifier: LGPL-3.0-only
//! Gives the client the reason why a plugin cannot be loaded.
//!
//! If `flux_plugin_init` fails, Flux reports only that. But the error text of the `conf.update` callback right after
//! it reaches the client, and ends the load too. So a plugin that cannot be loaded registers one callback, which
//! refuses every configuration, and is removed before a job could see it.

use super::{Args, Plugin, c_text, sys};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

struct Why {
    plugin: Plugin,
    text: CString,
}

/// Makes the load fail with `text`. Returns the result for `flux_plugin_init`.
pub(super) fn fail_load(plugin: Plugin, name: &CStr, text: &str) -> c_int {
    let why = Box::into_raw(Box::new(Why { plugin, text: c_text(text) })).cast::<c_void>();
    // SAFETY: the handle is ours; it owns the box from here on, and frees it by `free` after the last callback.
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
        // SAFETY: `why` is what `fail_load` registered, alive as long as the plugin; args are those of the call.
        let (why, args) = unsafe { (&*why.cast::<Why>(), Args::borrow(args)) };
        args.set_error(why.plugin, &why.text.to_string_lossy());
    }));
    -1
}

unsafe extern "C" fn free(why: *mut c_void) {
    // SAFETY: Flux calls this once, with the pointer given to flux_plugin_aux_set.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(unsafe { Box::from_raw(why.cast::<Why>()) })));
}
