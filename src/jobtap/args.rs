// SPDX-License-Identifier: LGPL-3.0-only
//! The arguments of a callback: typed views of IN, and what may be put into OUT.
//!
//! IN and OUT are shared by all plugins of one call, so OUT is only ever merged into. Each `unpack` pairs a format
//! with the C types it fills: `I` i64, `i` c_int, `o` a borrowed `json_t`.

use super::json::Json;
use super::{Plugin, c_text, sys};
use jansson_sys::json_t;
use std::ffi::{CStr, c_int};
use std::marker::PhantomData;
use std::ptr::null_mut;

const IN: c_int = 0;
const OUT: c_int = 1;

/// The arguments of the running callback.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    raw: *mut sys::flux_plugin_arg_t,
    owner: PhantomData<&'a ()>,
}

/// What every job callback shows of its job.
#[derive(Clone, Copy, Debug)]
pub struct JobArgs<'a> {
    /// Job id.
    pub id: u64,
    /// Submitting user.
    pub userid: u32,
    /// 0 to 31.
    pub urgency: i64,
    /// RFC 21 state bit.
    pub state: i64,
    /// The jobspec, without environment.
    pub jobspec: Json<'a>,
    /// Whether R is there.
    pub has_resources: bool,
}

/// What `job.update.KEY` shows.
#[derive(Clone, Copy, Debug)]
pub struct UpdateArgs<'a> {
    /// Job id.
    pub id: u64,
    /// Submitting user.
    pub userid: u32,
    /// RFC 21 state bit.
    pub state: i64,
    /// The wanted value.
    pub value: Json<'a>,
}

/// The callback's arguments lack something, or have it in another type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadArgs(pub String);

impl<'a> Args<'a> {
    /// # Safety
    /// `raw` is null or the argument object of a callback that runs for `'a`.
    pub(super) unsafe fn borrow(raw: *mut sys::flux_plugin_arg_t) -> Self {
        Args { raw, owner: PhantomData }
    }

    fn check(self, rc: c_int) -> Result<(), BadArgs> {
        if rc == 0 {
            return Ok(());
        }
        // SAFETY: flux_plugin_arg_strerror accepts any args object and returns a C string that lives as long as it.
        let text = unsafe {
            let text = sys::flux_plugin_arg_strerror(self.raw);
            if text.is_null() { c"".to_owned() } else { CStr::from_ptr(text).to_owned() }
        };
        Err(BadArgs(text.to_string_lossy().into_owned()))
    }

    /// The job's id.
    pub fn id(self) -> Result<u64, BadArgs> {
        let mut id: i64 = 0;
        let format = c"{s:I}";
        // SAFETY: `I` fills an i64. The key is a C string. Flux reports null args as an error.
        let rc = unsafe {
            sys::flux_plugin_arg_unpack(self.raw, IN, format.as_ptr(), c"id".as_ptr(), &raw mut id)
        };
        self.check(rc).map(|()| id.cast_unsigned())
    }

    /// The job's id and urgency: all that the hottest callbacks read.
    pub fn id_urgency(self) -> Result<(u64, i64), BadArgs> {
        let (mut id, mut urgency): (i64, c_int) = (0, 0);
        let format = c"{s:I s:i}";
        // SAFETY: `I` fills an i64, `i` a c_int; keys are C strings.
        let rc = unsafe {
            sys::flux_plugin_arg_unpack(
                self.raw,
                IN,
                format.as_ptr(),
                c"id".as_ptr(),
                &raw mut id,
                c"urgency".as_ptr(),
                &raw mut urgency,
            )
        };
        self.check(rc).map(|()| (id.cast_unsigned(), i64::from(urgency)))
    }

    /// The job's present priority (-1: never set) and state.
    pub fn priority_state(self) -> Result<(i64, i64), BadArgs> {
        let (mut priority, mut state): (i64, c_int) = (0, 0);
        let format = c"{s:I s:i}";
        // SAFETY: `I` fills an i64, `i` a c_int; keys are C strings.
        let rc = unsafe {
            sys::flux_plugin_arg_unpack(
                self.raw,
                IN,
                format.as_ptr(),
                c"priority".as_ptr(),
                &raw mut priority,
                c"state".as_ptr(),
                &raw mut state,
            )
        };
        self.check(rc).map(|()| (priority, i64::from(state)))
    }

    /// All of the job.
    pub fn job(self) -> Result<JobArgs<'a>, BadArgs> {
        let (mut id, mut userid): (i64, i64) = (0, 0);
        let (mut urgency, mut state): (c_int, c_int) = (0, 0);
        let (mut jobspec, mut resources): (*mut json_t, *mut json_t) = (null_mut(), null_mut());
        let format = c"{s:I s:I s:i s:i s:o s?o}";
        // SAFETY: `I` fills an i64, `i` a c_int, `o` a borrowed json_t pointer; keys are C strings.
        let rc = unsafe {
            sys::flux_plugin_arg_unpack(
                self.raw,
                IN,
                format.as_ptr(),
                c"id".as_ptr(),
                &raw mut id,
                c"userid".as_ptr(),
                &raw mut userid,
                c"urgency".as_ptr(),
                &raw mut urgency,
                c"state".as_ptr(),
                &raw mut state,
                c"jobspec".as_ptr(),
                &raw mut jobspec,
                c"R".as_ptr(),
                &raw mut resources,
            )
        };
        self.check(rc)?;
        // SAFETY: IN keeps the jobspec alive while the callback runs, and nobody changes it meanwhile.
        let jobspec = unsafe { Json::borrow(jobspec) }.ok_or_else(|| BadArgs("no jobspec".to_owned()))?;
        Ok(JobArgs {
            id: id.cast_unsigned(),
            userid: user(userid)?,
            urgency: i64::from(urgency),
            state: i64::from(state),
            jobspec,
            has_resources: !resources.is_null(),
        })
    }

    /// The wanted value of an update, and the job it is for.
    pub fn update(self) -> Result<UpdateArgs<'a>, BadArgs> {
        let (mut id, mut userid): (i64, i64) = (0, 0);
        let mut state: c_int = 0;
        let mut value: *mut json_t = null_mut();
        let format = c"{s:I s:I s:i s:o}";
        // SAFETY: `I` fills an i64, `i` a c_int, `o` a borrowed json_t pointer; keys are C strings.
        let rc = unsafe {
            sys::flux_plugin_arg_unpack(
                self.raw,
                IN,
                format.as_ptr(),
                c"id".as_ptr(),
                &raw mut id,
                c"userid".as_ptr(),
                &raw mut userid,
                c"state".as_ptr(),
                &raw mut state,
                c"value".as_ptr(),
                &raw mut value,
            )
        };
        self.check(rc)?;
        // SAFETY: IN keeps the value alive while the callback runs, and nobody changes it meanwhile.
        let value = unsafe { Json::borrow(value) }.ok_or_else(|| BadArgs("no value".to_owned()))?;
        Ok(UpdateArgs { id: id.cast_unsigned(), userid: user(userid)?, state: i64::from(state), value })
    }

    /// Answers with a priority.
    pub fn set_priority(self, priority: i64) -> Result<(), BadArgs> {
        let format = c"{s:I}";
        // SAFETY: `I` takes an i64; the key is a C string.
        let rc = unsafe {
            sys::flux_plugin_arg_pack(self.raw, OUT, format.as_ptr(), c"priority".as_ptr(), priority)
        };
        self.check(rc)
    }

    /// Answers that no priority can be given now: a job in PRIORITY stays there.
    pub fn set_priority_unavailable(self, plugin: Plugin) -> Result<(), BadArgs> {
        // SAFETY: both pointers are those of the running callback.
        let rc = unsafe { sys::flux_jobtap_priority_unavail(plugin.raw(), self.raw) };
        self.check(rc)
    }

    /// Answers with an error text for the user.
    pub fn set_error(self, plugin: Plugin, text: &str) {
        let text = c_text(text);
        // SAFETY: the format is ours and takes one C string, so user text is never a format. The call always returns
        // -1, which says nothing.
        unsafe { sys::flux_jobtap_error(plugin.raw(), self.raw, c"%s".as_ptr(), text.as_ptr()) };
    }

    /// Merges the members of a JSON object into the answer.
    pub fn merge(self, object: &str) -> Result<(), BadArgs> {
        let text = c_text(object);
        // SAFETY: args are those of the running callback; without REPLACE the call merges.
        let rc = unsafe { sys::flux_plugin_arg_set(self.raw, OUT, text.as_ptr()) };
        self.check(rc)
    }
}

fn user(userid: i64) -> Result<u32, BadArgs> {
    u32::try_from(userid).map_err(|_| BadArgs(format!("userid {userid} is not within 0 to {}", u32::MAX)))
}
