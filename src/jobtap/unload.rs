// SPDX-License-Identifier: LGPL-3.0-only
//! Telling why a plugin can't be loaded.
//!
//! Of a `flux_plugin_init` that fails Flux says just that. What a plugin answers to the `conf.update` right after it,
//! however, is what the client is told, and ends the load as well: so a plugin that can't be loaded comes up as one that
//! does nothing but refuse every configuration, and is gone before any job could see it.

use super::{Args, Plugin, c_text, sys};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

struct Why {
    plugin: Plugin,
    text: CString,
}

/// Has the load fail with this text; what `flux_plugin_init` is to return.
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
