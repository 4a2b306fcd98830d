// SPDX-License-Identifier: LGPL-3.0-only
//! The functions of libflux-core that the client calls, looked up by name.

use std::error::Error;
use std::ffi::{CStr, c_char, c_int, c_void};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// `flux_t`, only ever behind a pointer.
pub(super) type FluxHandle = c_void;
/// `flux_future_t`, only ever behind a pointer.
pub(super) type FluxFuture = c_void;

/// `FLUX_NODEID_ANY`: let Flux choose the rank that answers.
pub(super) const NODEID_ANY: u32 = 0xFFFF_FFFF;

/// `flux_error_t`: text of at most 159 bytes.
#[repr(C)]
#[derive(Debug)]
pub(super) struct ErrorText {
    bytes: [u8; 160],
}

impl Default for ErrorText {
    fn default() -> Self {
        ErrorText { bytes: [0; 160] }
    }
}

impl ErrorText {
    pub(super) fn text(&self) -> Option<String> {
        CStr::from_bytes_until_nul(&self.bytes).ok().map(|text| text.to_string_lossy().into_owned())
    }
}

/// The functions, as flux-core's headers declare them.
#[derive(Debug)]
pub(super) struct Api {
    pub(super) open: unsafe extern "C" fn(*const c_char, c_int, *mut ErrorText) -> *mut FluxHandle,
    pub(super) close: unsafe extern "C" fn(*mut FluxHandle),
    pub(super) opt_set: unsafe extern "C" fn(*mut FluxHandle, *const c_char, *const c_void, usize) -> c_int,
    pub(super) attr_get: unsafe extern "C" fn(*mut FluxHandle, *const c_char) -> *const c_char,
    pub(super) rpc:
        unsafe extern "C" fn(*mut FluxHandle, *const c_char, *const c_char, u32, c_int) -> *mut FluxFuture,
    pub(super) rpc_get: unsafe extern "C" fn(*mut FluxFuture, *mut *const c_char) -> c_int,
    pub(super) error_string: unsafe extern "C" fn(*mut FluxFuture) -> *const c_char,
    pub(super) future_destroy: unsafe extern "C" fn(*mut FluxFuture),
}

/// This program defines some of the library's names itself, for the plugins of the embedded job manager. The library
/// must keep using its own.
const FLAGS: c_int = RTLD_NOW | RTLD_LOCAL | libc::RTLD_DEEPBIND;

/// Where to look: the run-time name first, then the one of a development install.
const NAMES: [&str; 4] = [
    "libflux-core.so.2",
    "libflux-core.so",
    "/usr/local/lib/libflux-core.so.2",
    "/usr/lib64/libflux-core.so.2",
];

impl Api {
    /// Loads libflux-core and looks up every function, or says what is missing.
    pub(super) fn load() -> Result<Api, String> {
        let mut first_error = None;
        for name in NAMES {
            // SAFETY: libflux-core's initialisers are those of an ordinary C library.
            match unsafe { Library::open(Some(name), FLAGS) } {
                Ok(library) => return Api::look_up(library).map_err(|text| format!("{name}: {text}")),
                Err(error) => first_error = first_error.or_else(|| Some(with_cause(&error))),
            }
        }
        Err(first_error.unwrap_or_default())
    }

    fn look_up(library: Library) -> Result<Api, String> {
        macro_rules! symbol {
            ($name:literal) => {
                // SAFETY: the field's type is the function's declaration in flux-core's headers.
                *unsafe { library.get($name) }.map_err(|error| with_cause(&error))?
            };
        }
        let api = Api {
            open: symbol!(b"flux_open_ex\0"),
            close: symbol!(b"flux_close\0"),
            opt_set: symbol!(b"flux_opt_set\0"),
            attr_get: symbol!(b"flux_attr_get\0"),
            rpc: symbol!(b"flux_rpc\0"),
            rpc_get: symbol!(b"flux_rpc_get\0"),
            error_string: symbol!(b"flux_future_error_string\0"),
            future_destroy: symbol!(b"flux_future_destroy\0"),
        };
        // The pointers must stay good as long as any copy of them: the library is never unloaded.
        std::mem::forget(library);
        Ok(api)
    }
}

/// An error and its cause: alone, libloading's says only which call failed, not what the loader had against it.
pub(super) fn with_cause(error: &dyn Error) -> String {
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

/// A copy of a C string; `None` for NULL.
///
/// # Safety
/// `text` is NULL or points to a C string that is alive now.
pub(super) unsafe fn owned_text(text: *const c_char) -> Option<String> {
    // SAFETY: the caller's promise, once NULL is excluded.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}
