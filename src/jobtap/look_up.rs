// SPDX-License-Identifier: LGPL-3.0-only
//! Looks up a job outside its callbacks. Flux returns the same arguments as for a callback.

use super::args::{Args, BadArgs, JobArgs};
use super::call::Plugin;
use super::error::{EPROTO, Error};
use super::sys;

/// The arguments that a look-up returned.
struct LookedUpArgs(*mut sys::flux_plugin_arg_t);

impl Drop for LookedUpArgs {
    fn drop(&mut self) {
        // SAFETY: `self` owns the arguments and does not use them afterwards.
        unsafe { sys::flux_plugin_arg_destroy(self.0) };
    }
}

impl Plugin {
    /// Returns a job's current urgency, which may be newer than the urgency in the last callback.
    pub fn read_urgency(self, id: u64) -> Result<i64, Error> {
        self.look_up(id, |args| args.id_and_urgency().map(|(_, urgency)| urgency))
    }

    /// Reads the facts of a job with `read`. The job may be inactive.
    pub fn read_job<R>(self, id: u64, read: impl FnOnce(&JobArgs<'_>) -> R) -> Result<R, Error> {
        self.look_up(id, |args| args.job().map(|job| read(&job)))
    }

    /// Looks up a job and reads its arguments with `read`.
    fn look_up<R>(self, id: u64, read: impl FnOnce(Args<'_>) -> Result<R, BadArgs>) -> Result<R, Error> {
        let call = "flux_jobtap_job_lookup";
        // SAFETY: the handle is valid.
        let args = unsafe { sys::flux_jobtap_job_lookup(self.as_ptr(), id) };
        if args.is_null() {
            return Err(Error::from_errno(call));
        }
        let args = LookedUpArgs(args);
        // SAFETY: `args` owns the arguments, and destroys them after the read or when the read panics.
        read(unsafe { Args::borrow(args.0) }).map_err(|_| Error { call, errno: EPROTO })
    }
}
