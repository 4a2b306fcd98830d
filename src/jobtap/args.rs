// SPDX-License-Identifier: LGPL-3.0-only
//! The arguments of a callback: typed views of IN, and functions that write OUT.
//!
//! All plugins share IN and OUT of a call, so these functions add members to OUT. Both are jansson objects
//! that Flux passes by reference. This module reads the members one by one, because unpacking by a format
//! would make jansson build a table of keys in every call.

use super::error::{EPROTO, Error};
use super::json::Json;
use super::{Plugin, make_one_line_c_string, sys};
use jansson_sys::{json_integer, json_object_set_new, json_object_update, json_t};
use serde::Serialize;
use std::ffi::{CStr, c_int};
use std::ptr::null_mut;

const IN: c_int = 0;
const OUT: c_int = 1;
/// FLUX_JOB_STATE_SCHED.
const STATE_SCHED: i64 = 8;

/// The size of an error text (`flux_error_t`) in bytes, without the final NUL.
const ERROR_MAX: usize = 159;

/// The arguments of the running callback.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    raw: *mut sys::flux_plugin_arg_t,
    /// The object IN; `None` if the callback has no arguments.
    input: Option<Json<'a>>,
}

/// The arguments that every job callback has.
#[derive(Clone, Copy, Debug)]
pub struct JobArgs<'a> {
    /// Job id.
    pub id: u64,
    /// Submitting user.
    pub userid: u32,
    /// The job's urgency, 0 to 31.
    pub urgency: i64,
    /// RFC 21 state bit.
    pub state: i64,
    /// The job's priority; -1 if it has none yet.
    pub priority: i64,
    /// The jobspec, without the job's environment.
    pub jobspec: Json<'a>,
    /// The time of submission, in seconds since the epoch; `None` if this version of Flux does not report it.
    pub submitted: Option<f64>,
    /// R, if the job has one.
    pub resources: Option<Json<'a>>,
}

/// The error of a callback whose arguments lack a member, or have a member of the wrong type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadArgs(pub String);

impl<'a> Args<'a> {
    /// # Safety
    /// `raw` is null or the argument object of a callback that runs for `'a`.
    pub(super) unsafe fn borrow(raw: *mut sys::flux_plugin_arg_t) -> Self {
        let args = Args { raw, input: None };
        // SAFETY: the object IN stays alive and unchanged while the callback runs, and the callback runs for
        // `'a`.
        let input = args.root(IN).ok().and_then(|root| unsafe { Json::borrow(root) });
        Args { input, ..args }
    }

    fn check_rc(self, rc: c_int) -> Result<(), BadArgs> {
        if rc == 0 {
            return Ok(());
        }
        // SAFETY: flux_plugin_arg_strerror accepts any args object and returns a C string that lives as long as the
        // object.
        let text = unsafe {
            let text = sys::flux_plugin_arg_strerror(self.raw);
            if text.is_null() { c"".to_owned() } else { CStr::from_ptr(text).to_owned() }
        };
        Err(BadArgs(text.to_string_lossy().into_owned()))
    }

    /// Returns the object that `which` selects, IN or OUT, without taking a reference.
    fn root(self, which: c_int) -> Result<*mut json_t, BadArgs> {
        let mut root: *mut json_t = null_mut();
        // SAFETY: the format fills one borrowed json_t pointer. Flux reports null args as an error.
        let rc = unsafe { sys::flux_plugin_arg_unpack(self.raw, which, c"o".as_ptr(), &raw mut root) };
        self.check_rc(rc).map(|()| root)
    }

    fn input(self) -> Result<Json<'a>, BadArgs> {
        match self.input {
            Some(input) => Ok(input),
            None => self.root(IN).and_then(|_| Err(BadArgs("no arguments".to_owned()))),
        }
    }

    /// Returns the job's id.
    pub fn id(self) -> Result<u64, BadArgs> {
        read_integer(self.input()?, c"id").map(i64::cast_unsigned)
    }

    /// Returns the job's id and urgency. The most frequent callbacks read only these.
    pub fn id_and_urgency(self) -> Result<(u64, i64), BadArgs> {
        let input = self.input()?;
        Ok((read_integer(input, c"id")?.cast_unsigned(), read_integer(input, c"urgency")?))
    }

    /// Returns the job's id, and R if the job has an R.
    pub fn id_and_resources(self) -> Result<(u64, Option<Json<'a>>), BadArgs> {
        let input = self.input()?;
        Ok((read_integer(input, c"id")?.cast_unsigned(), input.get(c"R")))
    }

    /// Returns the timestamp of the event that caused the callback, in seconds since the epoch; `None` if no event
    /// caused it.
    pub fn timestamp(self) -> Option<f64> {
        self.input().ok()?.get(c"entry")?.get(c"timestamp")?.as_number()
    }

    /// Returns the job's current priority (-1 if it has none) and its state.
    pub fn priority_and_state(self) -> Result<(i64, i64), BadArgs> {
        let input = self.input()?;
        Ok((read_integer(input, c"priority")?, read_integer(input, c"state")?))
    }

    /// Returns the posted priority of a job that Flux sent from SCHED back to PRIORITY, or `None` for any other job.
    /// After a restart the job has no priority in Flux and the scheduler has not seen it, so the result is `None` too.
    pub fn get_returned_priority(self) -> Option<u32> {
        let input = self.input().ok()?;
        let was_in_sched = read_integer(input, c"prev_state").ok()? == STATE_SCHED;
        u32::try_from(read_integer(input, c"priority").ok()?).ok().filter(|_| was_in_sched)
    }

    /// Returns the table `table` of the instance's configuration as JSON text, or `None` if it does not exist.
    pub fn config_table(self, table: &CStr) -> Result<Option<String>, BadArgs> {
        let conf =
            self.input()?.get(c"conf").ok_or_else(|| BadArgs("the configuration is missing".to_owned()))?;
        Ok(conf.get(table).map(Json::text))
    }

    /// Returns all facts about the job.
    pub fn job(self) -> Result<JobArgs<'a>, BadArgs> {
        let input = self.input()?;
        let jobspec = input.get(c"jobspec").ok_or_else(|| BadArgs("jobspec is missing".to_owned()))?;
        Ok(JobArgs {
            id: read_integer(input, c"id")?.cast_unsigned(),
            userid: read_userid(read_integer(input, c"userid")?)?,
            urgency: read_integer(input, c"urgency")?,
            state: read_integer(input, c"state")?,
            priority: read_integer(input, c"priority")?,
            jobspec,
            submitted: input.get(c"t_submit").and_then(Json::as_number).filter(|time| *time > 0.0),
            resources: input.get(c"R"),
        })
    }

    /// Returns the job's id, and the name of the dependency from the `entry` of a dependency event.
    pub fn dependency(self) -> Result<(u64, &'a str), BadArgs> {
        let input = self.input()?;
        let context = input.get(c"entry").and_then(|entry| entry.get(c"context"));
        let name = context.and_then(|context| context.get(c"description")).and_then(Json::as_str);
        let name = name.ok_or_else(|| BadArgs("entry.context.description is missing".to_owned()))?;
        Ok((read_integer(input, c"id")?.cast_unsigned(), name))
    }

    /// Returns the requested value of `job.update.KEY`, if it is a string.
    pub fn requested_text(self) -> Option<&'a str> {
        self.input().ok()?.get(c"value")?.as_str()
    }

    /// Answers with a priority.
    pub fn set_priority(self, priority: i64) -> Result<(), BadArgs> {
        let out = self.root(OUT)?;
        // SAFETY: OUT is an object that belongs to this call; jansson takes ownership of the new integer even if it
        // fails.
        let rc = unsafe { json_object_set_new(out, c"priority".as_ptr(), json_integer(priority)) };
        if rc < 0 { Err(BadArgs("OUT is not an object".to_owned())) } else { Ok(()) }
    }

    /// Answers that the job gets no priority now. A job in state PRIORITY stays there.
    pub fn set_priority_unavailable(self, plugin: Plugin) -> Result<(), BadArgs> {
        // SAFETY: both pointers belong to the running callback.
        let rc = unsafe { sys::flux_jobtap_priority_unavail(plugin.as_ptr(), self.raw) };
        self.check_rc(rc)
    }

    /// Answers with an error text for the user, cut to the size of Flux's buffer.
    pub fn set_error(self, plugin: Plugin, text: &str) {
        let text = make_one_line_c_string(text, ERROR_MAX);
        // SAFETY: the format is a constant that takes one C string, so user text is never a format. The call returns -1
        // even on success.
        unsafe { sys::flux_jobtap_error(plugin.as_ptr(), self.raw, c"%s".as_ptr(), text.as_ptr()) };
    }

    /// Adds the members of `object`, which serializes as a JSON object, to the answer.
    ///
    /// The object is first written as JSON text, because this crate makes jansson values only by parsing (see
    /// docs/evidence/less.md).
    pub fn add_to_answer<T: Serialize>(self, object: &T) -> Result<(), BadArgs> {
        let text = serde_json::to_string(object).map_err(|error| BadArgs(error.to_string()))?;
        let out = self.root(OUT)?;
        // SAFETY: both objects are alive; OUT takes its own references to the members.
        let rc = Json::parse(&text, |object| unsafe { json_object_update(out, object.as_ptr()) });
        let rc = rc.map_err(|reason| BadArgs(format!("jansson refuses the answer: {reason}")))?;
        if rc < 0 { Err(BadArgs("OUT is not an object".to_owned())) } else { Ok(()) }
    }
}

fn read_integer(input: Json<'_>, key: &CStr) -> Result<i64, BadArgs> {
    let name = || key.to_string_lossy();
    let value = input.get(key).ok_or_else(|| BadArgs(format!("{} is missing", name())))?;
    value.as_int().ok_or_else(|| BadArgs(format!("{} is {}, not an integer", name(), value.describe_type())))
}

fn read_userid(userid: i64) -> Result<u32, BadArgs> {
    u32::try_from(userid).map_err(|_| BadArgs(format!("userid {userid} is not within 0 to {}", u32::MAX)))
}

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

    /// Looks up job `id` and passes its arguments to `read`. The job may be inactive.
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
        // SAFETY: `args` owns the arguments until the end of this function, also if `read` panics.
        read(unsafe { Args::borrow(args.0) }).map_err(|_| Error { call, errno: EPROTO })
    }
}
