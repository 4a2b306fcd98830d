// SPDX-License-Identifier: LGPL-3.0-only
//! Deferred requests, and the decoding and answering of requests.

use super::call::{REFUSAL_MAX, make_one_line_c_string};
use super::caller::{Caller, Request};
use super::error::{EAGAIN, EPROTO, Error};
use super::{LogLevel, Plugin, Reply, RequestError, Result, sys, to_c_string};
use std::ffi::{CStr, c_char};
use std::ptr::{null, null_mut};

/// A request that is answered after its handler returned. If the `Deferred` is dropped without a reply, the
/// sender gets EAGAIN, because the plugin was removed, or panicked while it answered.
pub struct Deferred {
    plugin: Plugin,
    msg: *const sys::flux_msg_t,
    is_answered: bool,
}

impl Deferred {
    /// # Safety
    /// `msg` is the message of the running handler.
    pub(super) unsafe fn new(plugin: Plugin, msg: *const sys::flux_msg_t) -> Deferred {
        // SAFETY: the message is alive; `Deferred` owns the new reference.
        let msg = unsafe { sys::flux_msg_incref(msg) };
        Deferred { plugin, msg, is_answered: false }
    }

    /// Decodes the request.
    pub fn decode(&self) -> Result<Request<'_>> {
        // SAFETY: the message is alive as long as `self`.
        unsafe { decode_request(self.plugin, self.msg) }
    }

    /// Replies to the request.
    pub fn answer(mut self, reply: Reply) {
        self.is_answered = true;
        send_reply(self.plugin, self.msg, reply);
    }
}

impl Drop for Deferred {
    fn drop(&mut self) {
        if !self.is_answered {
            let text = c"the plugin was removed or failed; try again";
            // SAFETY: the job manager's handle outlives all plugins, the message is alive, the text is copied.
            unsafe { sys::flux_respond_error(self.plugin.flux, self.msg, EAGAIN, text.as_ptr()) };
        }
        // SAFETY: `self` owns the reference.
        unsafe { sys::flux_msg_decref(self.msg) };
    }
}

/// Returns the request in a message. A payload that is not a C string in UTF-8 is an error.
///
/// # Safety
/// `msg` lives for `'a`.
pub(super) unsafe fn decode_request<'a>(plugin: Plugin, msg: *const sys::flux_msg_t) -> Result<Request<'a>> {
    let mut payload: *const c_char = null();
    // SAFETY: the message lives for `'a`, and the payload is part of the message. With a null pointer for the topic,
    // Flux returns no topic.
    let rc = unsafe { sys::flux_request_decode(msg, null_mut(), &raw mut payload) };
    // SAFETY: the message lives for `'a`.
    let caller = unsafe { Caller::from_message(msg) };
    let caller =
        caller.map_err(|error: Error| RequestError { errno: error.errno, text: error.to_string() })?;
    let utf8_error = || RequestError { errno: EPROTO, text: "the payload is not UTF-8 text".to_owned() };
    if rc < 0 {
        return Err(utf8_error());
    }
    // SAFETY: on success the payload is null or a C string that lives as long as the message.
    let text = (!payload.is_null()).then(|| unsafe { CStr::from_ptr(payload) });
    let text = text.map(CStr::to_str).transpose().map_err(|_| utf8_error())?;
    Ok(Request::new(caller, text, plugin, msg))
}

pub(super) fn send_reply(plugin: Plugin, msg: *const sys::flux_msg_t, reply: Reply) {
    let flux = plugin.flux;
    let rc = match reply {
        // SAFETY: handle and message are alive; a null payload is an empty reply.
        Ok(None) => unsafe { sys::flux_respond(flux, msg, null()) },
        Ok(Some(text)) => {
            let text = to_c_string(&text);
            // SAFETY: handle and message are alive; Flux copies the text.
            unsafe { sys::flux_respond(flux, msg, text.as_ptr()) }
        }
        Err(error) => {
            let errno = if error.errno == 0 { EPROTO } else { error.errno };
            let text = make_one_line_c_string(&error.text, REFUSAL_MAX);
            // SAFETY: handle and message are alive; Flux copies the text.
            unsafe { sys::flux_respond_error(flux, msg, errno, text.as_ptr()) }
        }
    };
    if rc < 0 {
        let text = format!("failed to answer a request: {}", std::io::Error::last_os_error());
        plugin.log(LogLevel::Error, &text);
    }
}
