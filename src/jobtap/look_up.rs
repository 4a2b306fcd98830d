// SPDX-License-Identifier: LGPL-3.0-only
//! Looking a job up outside its callbacks: Flux shows it as a callback would.

use super::args::{Args, BadArgs, JobArgs};
use super::call::Plugin;
use super::error::{EPROTO, Error};
use super::sys;

/// Arguments that a look-up made for us.
struct Found(*mut sys::flux_plugin_arg_t);

impl Drop for Found {
    fn drop(&mut self) {
        // SAFETY: the arguments are ours, and nobody uses them any more.
        unsafe { sys::flux_plugin_arg_destroy(self.0) };
    }
}

impl Plugin {
    /// A job's present urgency, whatever callbacks told of it.
    pub fn urgency(self, id: u64) -> Result<i64, Error> {
        self.look_up(id, |args| args.id_urgency().map(|(_, urgency)| urgency))
    }

    /// Shows a job as it is now, also one that is inactive.
    pub fn job<R>(self, id: u64, read: impl FnOnce(&JobArgs<'_>) -> R) -> Result<R, Error> {
        self.look_up(id, |args| args.job().map(|job| read(&job)))
    }

    /// Reads a job's arguments as a callback would get them.
    fn look_up<R>(self, id: u64, read: impl FnOnce(Args<'_>) -> Result<R, BadArgs>) -> Result<R, Error> {
        let call = "flux_jobtap_job_lookup";
        // SAFETY: the handle is ours.
        let found = unsafe { sys::flux_jobtap_job_lookup(self.raw(), id) };
        if found.is_null() {
            return Err(Error::last(call));
        }
        let found = Found(found);
        // SAFETY: the arguments are ours, and destroyed when they were read, or reading panicked.
        read(unsafe { Args::borrow(found.0) }).map_err(|_| Error { call, errno: EPROTO })
    }
}
