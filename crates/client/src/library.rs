// SPDX-License-Identifier: LGPL-3.0-only
//! The functions of libflux-core that the client calls, loaded by name.

use std::error::Error;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Once;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// `flux_msg_t`, used only through pointers.
pub(super) type FluxMessage = c_void;
/// `flux_t`, used only through pointers.
pub(super) type FluxHandle = c_void;

/// `FLUX_MATCHTAG_NONE`: no tag.
pub(super) const MATCHTAG_NONE: u32 = 0;
/// `FLUX_O_NONBLOCK`.
pub(super) const NONBLOCK: c_int = 4;
/// `FLUX_MSGTYPE_RESPONSE`.
const MSGTYPE_RESPONSE: c_int = 2;

/// `struct flux_match`: a selection of messages.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Match {
    typemask: c_int,
    matchtag: u32,
    topic_glob: *const c_char,
}

impl Match {
    /// Selects all responses.
    pub(super) fn any_response() -> Match {
        Match { typemask: MSGTYPE_RESPONSE, matchtag: MATCHTAG_NONE, topic_glob: std::ptr::null() }
    }
}

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

/// The functions of libflux-core that the client calls. Their types are the declarations in flux-core's
/// headers.
#[derive(Debug)]
pub(super) struct Api {
    pub(super) open: unsafe extern "C" fn(*const c_char, c_int, *mut ErrorText) -> *mut FluxHandle,
    pub(super) close: unsafe extern "C" fn(*mut FluxHandle),
    pub(super) opt_set: unsafe extern "C" fn(*mut FluxHandle, *const c_char, *const c_void, usize) -> c_int,
    pub(super) attr_get: unsafe extern "C" fn(*mut FluxHandle, *const c_char) -> *const c_char,
    pub(super) matchtag_alloc: unsafe extern "C" fn(*mut FluxHandle) -> u32,
    pub(super) matchtag_free: unsafe extern "C" fn(*mut FluxHandle, u32),
    pub(super) request_encode: unsafe extern "C" fn(*const c_char, *const c_char) -> *mut FluxMessage,
    pub(super) set_matchtag: unsafe extern "C" fn(*mut FluxMessage, u32) -> c_int,
    pub(super) get_matchtag: unsafe extern "C" fn(*const FluxMessage, *mut u32) -> c_int,
    pub(super) send: unsafe extern "C" fn(*mut FluxHandle, *const FluxMessage, c_int) -> c_int,
    pub(super) recv: unsafe extern "C" fn(*mut FluxHandle, Match, c_int) -> *mut FluxMessage,
    pub(super) pollfd: unsafe extern "C" fn(*mut FluxHandle) -> c_int,
    pub(super) pollevents: unsafe extern "C" fn(*mut FluxHandle) -> c_int,
    pub(super) response_decode:
        unsafe extern "C" fn(*const FluxMessage, *mut *const c_char, *mut *const c_char) -> c_int,
    pub(super) response_error: unsafe extern "C" fn(*const FluxMessage, *mut *const c_char) -> c_int,
    pub(super) message_destroy: unsafe extern "C" fn(*mut FluxMessage),
    pub(super) job_id_parse: unsafe extern "C" fn(*const c_char, *mut u64) -> c_int,
    pub(super) job_id_encode: unsafe extern "C" fn(u64, *const c_char, *mut c_char, usize) -> c_int,
}

/// The test program `fairshare-embedded` defines functions with the names of functions of libflux-core, for
/// the plugin that it loads. With RTLD_DEEPBIND, libflux-core calls its own functions.
const FLAGS: c_int = RTLD_NOW | RTLD_LOCAL | libc::RTLD_DEEPBIND;

/// The file names of libflux-core that are tried, in this order. Only development packages install
/// `libflux-core.so`.
const NAMES: [&str; 4] = [
    "libflux-core.so.2",
    "libflux-core.so",
    "/usr/local/lib/libflux-core.so.2",
    "/usr/lib64/libflux-core.so.2",
];

impl Api {
    /// Loads libflux-core and all functions. The error names a missing library or function.
    pub(super) fn load() -> Result<Api, String> {
        // The library chooses the prefix of job ids by the locale. A program has to set its locale first.
        static LOCALE: Once = Once::new();
        LOCALE.call_once(|| {
            // SAFETY: setlocale(3) reads a C string. It is called once: a program connects before it starts a thread that
            // connects too.
            let _ = unsafe { libc::setlocale(libc::LC_CTYPE, c"".as_ptr()) };
        });
        let mut first_error = None;
        for name in NAMES {
            // SAFETY: libflux-core's initialisers are those of an ordinary C library.
            match unsafe { Library::open(Some(name), FLAGS) } {
                Ok(library) => return Api::look_up(library).map_err(|text| format!("{name}: {text}")),
                Err(error) => first_error = first_error.or_else(|| Some(format_error_with_cause(&error))),
            }
        }
        Err(first_error.unwrap_or_default())
    }

    fn look_up(library: Library) -> Result<Api, String> {
        macro_rules! symbol {
            ($name:literal) => {
                // SAFETY: the type of the field is the declaration of the function in flux-core's headers.
                *unsafe { library.get($name) }.map_err(|error| format_error_with_cause(&error))?
            };
        }
        let api = Api {
            open: symbol!(b"flux_open_ex\0"),
            close: symbol!(b"flux_close\0"),
            opt_set: symbol!(b"flux_opt_set\0"),
            attr_get: symbol!(b"flux_attr_get\0"),
            matchtag_alloc: symbol!(b"flux_matchtag_alloc\0"),
            matchtag_free: symbol!(b"flux_matchtag_free\0"),
            request_encode: symbol!(b"flux_request_encode\0"),
            set_matchtag: symbol!(b"flux_msg_set_matchtag\0"),
            get_matchtag: symbol!(b"flux_msg_get_matchtag\0"),
            send: symbol!(b"flux_send\0"),
            recv: symbol!(b"flux_recv\0"),
            pollfd: symbol!(b"flux_pollfd\0"),
            pollevents: symbol!(b"flux_pollevents\0"),
            response_decode: symbol!(b"flux_response_decode\0"),
            response_error: symbol!(b"flux_response_decode_error\0"),
            message_destroy: symbol!(b"flux_msg_destroy\0"),
            job_id_parse: symbol!(b"flux_job_id_parse\0"),
            job_id_encode: symbol!(b"flux_job_id_encode\0"),
        };
        // The library is never unloaded, so that the function pointers stay valid.
        std::mem::forget(library);
        Ok(api)
    }
}

/// Returns the text of `error`, followed by the text of its cause. In libloading's errors, only the cause
/// contains the reason.
pub(super) fn format_error_with_cause(error: &dyn Error) -> String {
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

/// Copies a C string; returns `None` for NULL.
///
/// # Safety
/// `text` must be NULL or point to a valid C string.
pub(super) unsafe fn copy_text(text: *const c_char) -> Option<String> {
    // SAFETY: the caller guarantees a valid C string unless it is NULL.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}
