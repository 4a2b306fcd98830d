// SPDX-License-Identifier: LGPL-3.0-only
//! The error of a call into Flux.

use std::fmt;
use std::io;

/// A call into Flux that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// The C function that failed.
    pub call: &'static str,
    /// The errno of the failure.
    pub errno: i32,
}

/// ENOENT: no such key, job or file.
pub const ENOENT: i32 = 2;
/// EIO, input/output error: the plugin itself failed the request.
pub const EIO: i32 = 5;
/// EINVAL: an invalid argument, or an operation that the job's state does not allow.
pub const EINVAL: i32 = 22;
/// EPERM: the caller may not do this.
pub const EPERM: i32 = 1;
/// EAGAIN: the request cannot be answered now, and the caller may repeat it.
pub const EAGAIN: i32 = 11;
/// EPROTO, protocol error: the payload is absent or cannot be decoded.
pub const EPROTO: i32 = 71;

impl Error {
    /// Returns the error of `call` with the current errno.
    pub(super) fn from_errno(call: &'static str) -> Self {
        Error { call, errno: io::Error::last_os_error().raw_os_error().unwrap_or(EINVAL) }
    }

    /// Returns the error of `call` if its return value `rc` is negative.
    pub(super) fn check_rc(call: &'static str, rc: i32) -> Result<(), Self> {
        if rc < 0 { Err(Error::from_errno(call)) } else { Ok(()) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.call, io::Error::from_raw_os_error(self.errno))
    }
}

impl std::error::Error for Error {}
