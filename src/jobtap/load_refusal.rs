// SPDX-License-Identifier: LGPL-3.0-only
//! Gives the client the reason why a plugin cannot be loaded.
//!
//! If `flux_plugin_init` fails, the client gets no reason. But Flux calls `conf.update` right after `flux_plugin_init`,
//! and the error text of that callback reaches the client and ends the load. So a plugin that cannot be loaded
//! registers one callback that refuses every configuration. Flux then removes the plugin before it handles a job.

use super::{Args, Plugin, sys, to_c_string};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

struct LoadRefusal {
    plugin: Plugin,
    text: CString,
}

/// Registers the callback that fails the load with `text`. Returns the result for `flux_plugin_init`.
pub(super) fn fail_load(plugin: Plugin, name: &CStr, text: &str) -> c_int {
    let refusal = Box::into_raw(Box::new(LoadRefusal { plugin, text: to_c_string(text) })).cast::<c_void>();
    // SAFETY: the handle is valid. From here on the handle owns the box, and frees the box by `free_refusal` after the
    // last callback.
    if unsafe { sys::flux_plugin_aux_set(plugin.as_ptr(), std::ptr::null(), refusal, Some(free_refusal)) } < 0
    {
        // SAFETY: `flux_plugin_aux_set` failed, so Flux does not own the box.
        drop(unsafe { Box::from_raw(refusal.cast::<LoadRefusal>()) });
        return -1;
    }
    let table = [
        sys::flux_plugin_handler { topic: c"conf.update".as_ptr(), cb: Some(refuse_config), data: refusal },
        sys::flux_plugin_handler { topic: std::ptr::null(), cb: None, data: null_mut() },
    ];
    // SAFETY: the table ends with a null topic; Flux copies it.
    unsafe { sys::flux_plugin_register(plugin.as_ptr(), name.as_ptr(), table.as_ptr()) }
}

unsafe extern "C" fn refuse_config(
    _plugin: *mut sys::flux_plugin_t,
    _topic: *const c_char,
    args: *mut sys::flux_plugin_arg_t,
    refusal: *mut c_void,
) -> c_int {
    let _ = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: `fail_load` registered `refusal`, which lives as long as the plugin; args belong to the call.
        let (refusal, args) = unsafe { (&*refusal.cast::<LoadRefusal>(), Args::borrow(args)) };
        args.set_error(refusal.plugin, &refusal.text.to_string_lossy());
    }));
    -1
}

unsafe extern "C" fn free_refusal(refusal: *mut c_void) {
    // SAFETY: Flux calls this once, with the pointer given to flux_plugin_aux_set.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(unsafe { Box::from_raw(refusal.cast::<LoadRefusal>()) })));
}
