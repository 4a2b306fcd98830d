// SPDX-License-Identifier: LGPL-3.0-only
//! Many requests under way at once: they are answered in whatever order Flux likes.
//!
//! Requests carry tags of Flux's own pool and answers are read straight off the connection, one by one. Flux's futures
//! would do the same with a reactor and callbacks in between, for nothing that is needed here.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char};
use std::io;
use std::ptr::{NonNull, null, null_mut};

use super::library::{Api, FluxMessage, MATCHTAG_NONE, Match};
use super::{Flux, FluxError};

/// Requests and what each was sent for.
#[derive(Debug)]
pub struct Requests<'a, T> {
    /// Alone on the connection: an answer that no tag here waits for belongs to nobody.
    flux: &'a mut Flux,
    waiting: HashMap<u32, (&'static str, T)>,
}

/// An answer that is not an error.
#[derive(Debug)]
pub struct Answer<'a>(Message<'a>);

#[derive(Debug)]
struct Message<'a> {
    api: &'a Api,
    message: NonNull<FluxMessage>,
}

impl<'a, T> Requests<'a, T> {
    /// No requests yet.
    pub fn new(flux: &'a mut Flux) -> Self {
        Requests { flux, waiting: HashMap::new() }
    }

    /// How many have no answer yet.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Sends one more and goes on. `about` comes back with the answer.
    pub fn send(&mut self, topic: &'static str, payload: &str, about: T) -> Result<(), FluxError> {
        let c_topic = CString::new(topic).map_err(|_| FluxError::Nul("the topic"))?;
        let payload = CString::new(payload).map_err(|_| FluxError::Nul("the payload"))?;
        let (api, handle) = (&self.flux.api, self.flux.handle.as_ptr());
        // SAFETY: flux_request_encode(3) copies both strings.
        let message = unsafe { (api.request_encode)(c_topic.as_ptr(), payload.as_ptr()) };
        let message = Message { api, message: NonNull::new(message).ok_or_else(|| broken(topic))? };
        // SAFETY: the handle is open as long as it is borrowed.
        let tag = unsafe { (api.matchtag_alloc)(handle) };
        if tag == MATCHTAG_NONE {
            return Err(broken(topic));
        }
        // SAFETY: the message is alive; flux_msg_set_matchtag only changes its header.
        let status = unsafe { (api.set_matchtag)(message.message.as_ptr(), tag) };
        if status < 0 {
            return Err(broken(topic));
        }
        // SAFETY: handle and message are alive; flux_send(3) leaves the message to us.
        let status = unsafe { (api.send)(handle, message.message.as_ptr(), 0) };
        if status < 0 {
            return Err(broken(topic));
        }
        self.waiting.insert(tag, (topic, about));
        Ok(())
    }

    /// Waits for the next answer, whichever it is; `None` when all have come. The outer error is the connection's end,
    /// the inner one the service's answer.
    #[expect(clippy::type_complexity, reason = "a question, and its answer or the service's refusal")]
    pub fn receive(&mut self) -> Result<Option<(T, Result<Answer<'_>, FluxError>)>, FluxError> {
        while !self.waiting.is_empty() {
            // SAFETY: flux_recv(3) waits and gives a message that is ours to destroy, or NULL.
            let message =
                unsafe { (self.flux.api.recv)(self.flux.handle.as_ptr(), Match::any_response(), 0) };
            let Some(message) = NonNull::new(message) else {
                return Err(broken(self.waiting.values().next().map_or("", |(topic, _)| topic)));
            };
            let mut tag = MATCHTAG_NONE;
            // SAFETY: the message is alive and the tag is written before the call returns.
            let status = unsafe { (self.flux.api.get_matchtag)(message.as_ptr(), &raw mut tag) };
            let about = if status < 0 { None } else { self.waiting.remove(&tag) };
            let Some((topic, about)) = about else {
                drop(Message { api: &self.flux.api, message });
                continue;
            };
            // SAFETY: the tag came from this handle's pool, and its one answer is here.
            unsafe { (self.flux.api.matchtag_free)(self.flux.handle.as_ptr(), tag) };
            let message = Message { api: &self.flux.api, message };
            return Ok(Some((about, decode(topic, message))));
        }
        Ok(None)
    }
}

fn decode<'m>(topic: &str, message: Message<'m>) -> Result<Answer<'m>, FluxError> {
    // SAFETY: the message is alive; flux_response_decode(3) need not tell the topic or the payload.
    let status = unsafe { (message.api.response_decode)(message.message.as_ptr(), null_mut(), null_mut()) };
    if status == 0 {
        return Ok(Answer(message));
    }
    let error = io::Error::last_os_error();
    let text = message.error_text().unwrap_or_else(|| error.to_string());
    Err(FluxError::Request { topic: topic.to_owned(), errno: error.raw_os_error().unwrap_or(0), text })
}

/// What errno says of a connection that takes or gives no more.
fn broken(topic: &str) -> FluxError {
    FluxError::Lost { topic: topic.to_owned(), text: io::Error::last_os_error().to_string() }
}

impl Answer<'_> {
    /// The payload; `None` if it is empty or not UTF-8.
    pub fn text(&self) -> Option<&str> {
        let mut text: *const c_char = null();
        // SAFETY: the message is alive; the string is stored before the call returns and lives as long as the message.
        let status =
            unsafe { (self.0.api.response_decode)(self.0.message.as_ptr(), null_mut(), &raw mut text) };
        if status < 0 || text.is_null() {
            return None;
        }
        // SAFETY: a C string of the message, which outlives the borrow of `self`.
        unsafe { CStr::from_ptr(text) }.to_str().ok()
    }
}

impl Message<'_> {
    fn error_text(&self) -> Option<String> {
        let mut text: *const c_char = null();
        // SAFETY: the message is alive; the string is stored before the call returns and lives as long as the message.
        let status = unsafe { (self.api.response_error)(self.message.as_ptr(), &raw mut text) };
        // SAFETY: NULL or a C string of the message; copied at once.
        (status == 0).then(|| unsafe { super::library::owned_text(text) }).flatten()
    }
}

impl Drop for Message<'_> {
    fn drop(&mut self) {
        // SAFETY: made by flux_request_encode or flux_recv, and destroyed once.
        unsafe { (self.api.message_destroy)(self.message.as_ptr()) }
    }
}
