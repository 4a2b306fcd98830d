// SPDX-License-Identifier: LGPL-3.0-only
//! Looks a job up outside its callbacks. Flux returns the same arguments as for a callback.

use super::args::{Args, BadArgs, JobArgs};
use super::call::Plugin;
use super::error::{EPROTO, Error};
use super::sys;

/// The arguments that a look-up returned.
struct Found(*mut sys::flux_plugin_arg_t);

impl Drop for Found {
    fn drop(&mut self) {
        // SAFETY: the arguments are ours, and not used after this.
        unsafe { sys::flux_plugin_arg_destroy(self.0) };
    }
}

impl Plugin {
    /// Returns a job's present urgency, which may be newer than the last callback's.
    pub fn urgency(self, id: u64) -> Result<i64, Error> {
        self.look_up(id, |args| args.id_urgency().map(|(_, urgency)| urgency))
    }

    /// Reads the facts of a job as it is now. The job may be inactive.
    pub fn job<R>(self, id: u64, read: impl FnOnce(&JobArgs<'_>) -> R) -> Result<R, Error> {
        self.look_up(id, |args| args.job().map(|job| read(&job)))
    }

    /// Looks a job up and reads its arguments.
    fn look_up<R>(self, id: u64, read: impl FnOnce(Args<'_>) -> Result<R, BadArgs>) -> Result<R, Error> {
        let call = "flux_jobtap_job_lookup";
        // SAFETY: the handle is ours.
        let found = unsafe { sys::flux_jobtap_job_lookup(self.raw(), id) };
        if found.is_null() {
            return Err(Error::last(call));
        }
        let found = Found(found);
        // SAFETY: the arguments are ours, and destroyed after the read, or if it panics.
        read(unsafe { Args::borrow(found.0) }).map_err(|_| Error { call, errno: EPROTO })
    }
}
