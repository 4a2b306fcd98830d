// SPDX-License-Identifier: LGPL-3.0-only
//! What a failed call into Flux is.

use std::fmt;
use std::io;

/// A call into Flux that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// The C function.
    pub call: &'static str,
    /// Its errno.
    pub errno: i32,
}

/// No such thing.
pub const ENOENT: i32 = 2;
/// Input/output error: what a request gets when we fail it ourselves.
pub const EIO: i32 = 5;
/// Invalid argument, or not in this state.
pub const EINVAL: i32 = 22;
/// The caller may not do that.
pub const EPERM: i32 = 1;
/// Try again.
pub const EAGAIN: i32 = 11;
/// Protocol error: a payload that is absent or can't be decoded.
pub const EPROTO: i32 = 71;

impl Error {
    /// The failure of `call` that errno tells of.
    pub(super) fn last(call: &'static str) -> Self {
        Error { call, errno: io::Error::last_os_error().raw_os_error().unwrap_or(EINVAL) }
    }

    /// `Ok` unless `rc` is negative, as C functions report.
    pub(super) fn check(call: &'static str, rc: i32) -> Result<(), Self> {
        if rc < 0 { Err(Error::last(call)) } else { Ok(()) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.call, io::Error::from_raw_os_error(self.errno))
    }
}

impl std::error::Error for Error {}
