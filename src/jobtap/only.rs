// SPDX-License-Identifier: LGPL-3.0-only
//! One instance of a plugin in a job manager.
//!
//! Flux refuses a second .so with the file name of one that is loaded, and no other: the same .so by another name, or a copy of it,
//! would hold and price each job once more, while pushes reach one of the two. Of two instances of one image, which have one
//! panic hook between them, the hook could outlive its instance.

use super::{Error, sys};
use std::ffi::CStr;
use std::ptr::null_mut;

/// The job manager's handle remembers that there is an instance, for as long as this lives.
pub(super) struct Only {
    flux: *mut sys::flux_t,
    name: &'static CStr,
}

impl Only {
    /// `None` where there is one of this name. Without a handle there is no job manager, and nobody else.
    pub(super) fn claim(flux: *mut sys::flux_t, name: &'static CStr) -> Result<Option<Only>, Error> {
        if flux.is_null() {
            return Ok(Some(Only { flux, name }));
        }
        // SAFETY: the job manager's handle, and a name that Flux only reads.
        if !unsafe { sys::flux_aux_get(flux, name.as_ptr()) }.is_null() {
            return Ok(None);
        }
        // SAFETY: the same handle; Flux copies the name. What is kept under it is an address to tell that something is, which nobody
        // reads.
        let kept = unsafe { sys::flux_aux_set(flux, name.as_ptr(), flux.cast(), None) };
        Error::check("flux_aux_set", kept)?;
        Ok(Some(Only { flux, name }))
    }
}

impl Drop for Only {
    fn drop(&mut self) {
        if !self.flux.is_null() {
            // SAFETY: the job manager's handle outlives all plugins; to take a value away can't fail.
            unsafe { sys::flux_aux_set(self.flux, self.name.as_ptr(), null_mut(), None) };
        }
    }
}
