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

/// Selects all responses.
pub(super) const ANY_RESPONSE: Match =
    Match { typemask: MSGTYPE_RESPONSE, matchtag: MATCHTAG_NONE, topic_glob: std::ptr::null() };

/// `flux_error_t`: text of at most 159 bytes.
pub(super) type ErrorText = [u8; 160];

/// Declares [`Api`]. Each row has a field, the name of its function in libflux-core, and the type of the function.
macro_rules! flux_functions {
    ($($field:ident = $name:ident: fn($($argument:ty),*) $(-> $result:ty)?,)*) => {
        /// The functions of libflux-core that the client calls. Their types are the declarations in flux-core's
        /// headers.
        #[derive(Debug)]
        pub(super) struct Api {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Api {
            fn look_up(library: &Library) -> Result<Api, libloading::Error> {
                Ok(Api {
                    // SAFETY: each field has the type that libflux-core's headers declare for its function.
                    $($field: *unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()) }?,)*
                })
            }
        }
    };
}

flux_functions! {
    open = flux_open_ex: fn(*const c_char, c_int, *mut ErrorText) -> *mut FluxHandle,
    close = flux_close: fn(*mut FluxHandle),
    opt_set = flux_opt_set: fn(*mut FluxHandle, *const c_char, *const c_void, usize) -> c_int,
    attr_get = flux_attr_get: fn(*mut FluxHandle, *const c_char) -> *const c_char,
    matchtag_alloc = flux_matchtag_alloc: fn(*mut FluxHandle) -> u32,
    matchtag_free = flux_matchtag_free: fn(*mut FluxHandle, u32),
    request_encode = flux_request_encode: fn(*const c_char, *const c_char) -> *mut FluxMessage,
    set_matchtag = flux_msg_set_matchtag: fn(*mut FluxMessage, u32) -> c_int,
    get_matchtag = flux_msg_get_matchtag: fn(*const FluxMessage, *mut u32) -> c_int,
    send = flux_send: fn(*mut FluxHandle, *const FluxMessage, c_int) -> c_int,
    recv = flux_recv: fn(*mut FluxHandle, Match, c_int) -> *mut FluxMessage,
    pollfd = flux_pollfd: fn(*mut FluxHandle) -> c_int,
    pollevents = flux_pollevents: fn(*mut FluxHandle) -> c_int,
    response_decode = flux_response_decode: fn(*const FluxMessage, *mut *const c_char, *mut *const c_char) -> c_int,
    response_error = flux_response_decode_error: fn(*const FluxMessage, *mut *const c_char) -> c_int,
    message_destroy = flux_msg_destroy: fn(*mut FluxMessage),
    job_id_parse = flux_job_id_parse: fn(*const c_char, *mut u64) -> c_int,
    job_id_encode = flux_job_id_encode: fn(u64, *const c_char, *mut c_char, usize) -> c_int,
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
                Ok(library) => {
                    let api = Api::look_up(&library);
                    // The library is never unloaded, so that the function pointers stay valid.
                    std::mem::forget(library);
                    return api.map_err(|error| format!("{name}: {}", format_error_with_cause(&error)));
                }
                Err(error) => first_error = first_error.or_else(|| Some(format_error_with_cause(&error))),
            }
        }
        Err(first_error.unwrap_or_default())
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
