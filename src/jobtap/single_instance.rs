// SPDX-License-Identifier: LGPL-3.0-only
//! Ensures that a job manager has one instance of a plugin.
//!
//! Flux refuses a second .so only if it has the file name of a loaded one. With a copy under another name, two
//! instances would hold and prioritize each job, but a push would reach only one of them. Also, two instances of one
//! .so share one panic hook, which could outlive the instance that installed it.

use super::{Error, sys};
use std::ffi::CStr;
use std::ptr::null_mut;

/// Marks the job manager's handle while an instance is loaded. Dropping it removes the mark.
pub(super) struct SingleInstance {
    flux: *mut sys::flux_t,
    name: &'static CStr,
}

impl SingleInstance {
    /// Marks Flux's handle. Returns `None` if an instance with this name is loaded. A null handle means that
    /// there is no job manager, and so no other instance.
    pub(super) fn claim(
        flux: *mut sys::flux_t,
        name: &'static CStr,
    ) -> Result<Option<SingleInstance>, Error> {
        if flux.is_null() {
            return Ok(Some(SingleInstance { flux, name }));
        }
        // SAFETY: `flux` is the job manager's handle; Flux only reads the name.
        if !unsafe { sys::flux_aux_get(flux, name.as_ptr()) }.is_null() {
            return Ok(None);
        }
        // SAFETY: `flux` is the job manager's handle, and Flux copies the name. The stored address is only a mark that
        // no code dereferences.
        let rc = unsafe { sys::flux_aux_set(flux, name.as_ptr(), flux.cast(), None) };
        Error::check_rc("flux_aux_set", rc)?;
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
