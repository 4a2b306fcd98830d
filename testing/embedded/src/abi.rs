// SPDX-License-Identifier: LGPL-3.0-only
//! The boundary to abi.c: the C objects that plugins use, as owned Rust values.
//!
//! The C side is found with dlsym in the running executable, so this crate links, and its unit tests run, without abi.c.
//! In an executable without the C side, [`Abi::load`] returns an error.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::NonNull;

use serde_json::Value;

use super::ops::{HOST_OPS, HostOps};

/// An opaque `flux_plugin_t`.
#[repr(C)]
pub(super) struct CPlugin {
    _opaque: [u8; 0],
}

/// An opaque `flux_plugin_arg_t`.
#[repr(C)]
pub(super) struct CArgs {
    _opaque: [u8; 0],
}

/// An opaque `flux_msg_t`.
#[repr(C)]
pub(super) struct CMsg {
    _opaque: [u8; 0],
}

/// A topic callback.
pub(super) type PluginFn =
    unsafe extern "C" fn(*mut CPlugin, *const c_char, *mut CArgs, *mut c_void) -> c_int;
/// A service method.
pub(super) type MessageFn = unsafe extern "C" fn(*mut c_void, *mut c_void, *const CMsg, *mut c_void);
/// A timer callback.
pub(super) type WatcherFn = unsafe extern "C" fn(*mut c_void, *mut c_void, c_int, *mut c_void);
/// A future's continuation.
pub(super) type ContinuationFn = unsafe extern "C" fn(*mut c_void, *mut c_void);

/// Selects the arguments that a callback reads.
pub(super) const IN: c_int = 0;
/// Selects the arguments that a callback writes.
pub(super) const OUT: c_int = 1;

/// The functions of abi.c for the host (`struct abi`).
#[repr(C)]
pub(super) struct Abi {
    plugin_new: unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut CPlugin,
    plugin_free: unsafe extern "C" fn(*mut CPlugin),
    args_new: unsafe extern "C" fn(*const c_char, *const c_char) -> *mut CArgs,
    args_free: unsafe extern "C" fn(*mut CArgs),
    args_get: unsafe extern "C" fn(*mut CArgs, c_int, *mut *mut c_char) -> c_int,
    args_set: unsafe extern "C" fn(*mut CArgs, c_int, *const c_char) -> c_int,
    msg_new: unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char, u32, u32) -> *mut CMsg,
    msg_free: unsafe extern "C" fn(*mut CMsg),
    msg_refs: unsafe extern "C" fn(*const CMsg) -> c_int,
    free_text: unsafe extern "C" fn(*mut c_void),
}

impl Abi {
    /// Registers the host's functions with the C side.
    ///
    /// # Errors
    /// Returns an error if the executable was linked without abi.c.
    pub(super) fn load() -> Result<&'static Abi, String> {
        let this = libloading::os::unix::Library::this();
        type SetHost = unsafe extern "C" fn(*const HostOps) -> *const Abi;
        // SAFETY: the symbol is embedded_set_host of abi.c, which has this prototype.
        let set_host = unsafe { this.get::<SetHost>("embedded_set_host") }
            .map_err(|_| "this program was built without the embedded job manager's C side".to_string())?;
        // SAFETY: the table is copied during the call; the returned table is a static of abi.c.
        Ok(unsafe { &*set_host(&HOST_OPS) })
    }
}

/// Converts a text to a C string, which ends before the first NUL byte of the text.
pub(super) fn make_c_string_from_text(text: &str) -> CString {
    let upto = text.split('\0').next().unwrap_or("");
    CString::new(upto).unwrap_or_default()
}

/// Converts text from C. Invalid UTF-8 is replaced; null becomes `None`.
///
/// # Safety
/// `text` must be null or a NUL-terminated string.
pub(super) unsafe fn rust_text(text: *const c_char) -> Option<String> {
    // SAFETY: `text` is not null, and the caller guarantees the terminator.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

fn json_text(value: &Value) -> CString {
    CString::new(value.to_string()).unwrap_or_default()
}

/// The argument object of a callback or of a job lookup.
pub(super) struct Args {
    abi: &'static Abi,
    raw: NonNull<CArgs>,
}

impl Args {
    /// Makes an object with IN and OUT. Returns `None` if jansson rejects the text (out of memory, NUL byte).
    pub(super) fn new(abi: &'static Abi, input: Option<&Value>, output: Option<&Value>) -> Option<Args> {
        let (input, output) = (input.map(json_text), output.map(json_text));
        let pointer = |text: &Option<CString>| text.as_ref().map_or(std::ptr::null(), |text| text.as_ptr());
        // SAFETY: both pointers are null or NUL-terminated strings that are only read during the call.
        let raw = unsafe { (abi.args_new)(pointer(&input), pointer(&output)) };
        NonNull::new(raw).map(|raw| Args { abi, raw })
    }

    pub(super) fn as_ptr(&self) -> *mut CArgs {
        self.raw.as_ptr()
    }

    /// Passes the object to C, which destroys it with flux_plugin_arg_destroy.
    pub(super) fn into_raw(self) -> *mut CArgs {
        let raw = self.raw.as_ptr();
        std::mem::forget(self);
        raw
    }

    pub(super) fn get(&self, side: c_int) -> Option<Value> {
        serde_json::from_str(&self.text(side)?).ok()
    }

    /// Returns one side (IN or OUT) as JSON text, or `None` if the side was not set.
    pub(super) fn text(&self, side: c_int) -> Option<String> {
        let mut text = std::ptr::null_mut();
        // SAFETY: `raw` is valid; on success `text` is a NUL-terminated string from malloc that we own.
        if unsafe { (self.abi.args_get)(self.raw.as_ptr(), side, &mut text) } < 0 {
            return None;
        }
        // SAFETY: args_get succeeded, so `text` is a NUL-terminated string.
        let copy = unsafe { rust_text(text) };
        // SAFETY: json_dumps allocated `text`, which is not used afterwards.
        unsafe { (self.abi.free_text)(text.cast()) };
        copy
    }

    /// Merges the JSON object `value` into the side `side` (IN or OUT).
    pub(super) fn merge(&self, side: c_int, value: &Value) {
        let text = json_text(value);
        // SAFETY: `raw` is valid, and the text is only read during the call.
        unsafe { (self.abi.args_set)(self.raw.as_ptr(), side, text.as_ptr()) };
    }
}

impl Drop for Args {
    fn drop(&mut self) {
        // SAFETY: args_new created the object, which is destroyed once.
        unsafe { (self.abi.args_free)(self.raw.as_ptr()) };
    }
}

/// The `flux_plugin_t` of a loaded plugin.
pub(super) struct PluginHandle {
    abi: &'static Abi,
    raw: *mut CPlugin,
}

impl PluginHandle {
    /// Makes a handle that refers to `slot`.
    pub(super) fn new(abi: &'static Abi, slot: *mut c_void, conf: Option<&Value>) -> PluginHandle {
        let conf = conf.map(json_text);
        // SAFETY: the text is copied, and `slot` is only stored.
        let raw = unsafe { (abi.plugin_new)(slot, conf.as_ref().map_or(std::ptr::null(), |c| c.as_ptr())) };
        PluginHandle { abi, raw }
    }

    pub(super) fn as_ptr(&self) -> *mut CPlugin {
        self.raw
    }
}

impl Drop for PluginHandle {
    fn drop(&mut self) {
        // SAFETY: plugin_new created the handle, which is freed once.
        unsafe { (self.abi.plugin_free)(self.raw) };
    }
}

/// A request message, valid while its handler runs and until the response is sent.
pub(super) struct Message {
    abi: &'static Abi,
    raw: *mut CMsg,
}

impl Message {
    pub(super) fn new(
        abi: &'static Abi,
        host: *mut c_void,
        topic: &str,
        payload: Option<&CStr>,
        userid: u32,
        rolemask: u32,
    ) -> Message {
        let topic = make_c_string_from_text(topic);
        let payload = payload.map_or(std::ptr::null(), |text| text.as_ptr());
        // SAFETY: both texts are copied during the call.
        let raw = unsafe { (abi.msg_new)(host, topic.as_ptr(), payload, userid, rolemask) };
        Message { abi, raw }
    }

    pub(super) fn as_ptr(&self) -> *const CMsg {
        self.raw
    }

    /// Returns true if the handler took a reference to the message.
    pub(super) fn is_referenced(&self) -> bool {
        // SAFETY: the message is valid.
        unsafe { (self.abi.msg_refs)(self.raw) > 0 }
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        // SAFETY: msg_new created the message, which is freed once.
        unsafe { (self.abi.msg_free)(self.raw) };
    }
}
