// SPDX-License-Identifier: LGPL-3.0-only
//! Ensures that a job manager has one instance of a plugin.
//!
//! Flux refuses a second .so only if it has the file name of a loaded one. A copy under another name would hold and
//! prioritize each job again, while pushes reach one of the two. Two instances of one image also share one panic
//! hook, which could outlive its instance.

use super::{Error, sys};
use std::ffi::CStr;
use std::ptr::null_mut;

/// The mark of a loaded instance on the job manager's handle. Its drop removes the mark.
pub(super) struct SingleInstance {
    flux: *mut sys::flux_t,
    name: &'static CStr,
}

impl SingleInstance {
    /// Sets the mark. Returns `None` if an instance of this name is loaded. Without a handle there is no job manager,
    /// and so no other instance.
    pub(super) fn claim(
        flux: *mut sys::flux_t,
        name: &'static CStr,
    ) -> Result<Option<SingleInstance>, Error> {
        if flux.is_null() {
            return Ok(Some(SingleInstance { flux, name }));
        }
        // SAFETY: the job manager's handle, and a name that Flux only reads.
        if !unsafe { sys::flux_aux_get(flux, name.as_ptr()) }.is_null() {
            return Ok(None);
        }
        // SAFETY: the same handle; Flux copies the name. The value is an address that is never dereferenced.
        let rc = unsafe { sys::flux_aux_set(flux, name.as_ptr(), flux.cast(), None) };
        Error::check("flux_aux_set", rc)?;
        Ok(Some(SingleInstance { flux, name }))
    }
}

impl Drop for SingleInstance {
    fn drop(&mut self) {
        if !self.flux.is_null() {
            // SAFETY: the job manager's handle outlives all plugins; removing a value cannot fail.
            unsafe { sys::flux_aux_set(self.flux, self.name.as_ptr(), null_mut(), None) };
        }
    }
}
