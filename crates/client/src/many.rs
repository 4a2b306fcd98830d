// SPDX-License-Identifier: LGPL-3.0-only
//! Many requests under way at once: they are answered in whatever order Flux likes.
//!
//! Requests carry tags of Flux's own pool and answers are read straight off the connection, one by one. Flux's futures
//! would do the same with a reactor and callbacks in between, for nothing that is needed here.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int};
use std::io;
use std::ptr::{NonNull, null, null_mut};
use std::time::{Duration, Instant};

use super::library::{Api, FluxMessage, MATCHTAG_NONE, Match, NONBLOCK};
use super::{Flux, FluxError};

/// How long no answer may come while there are requests. Whoever waits may hold a lock for which others wait.
const PATIENCE: Duration = Duration::from_secs(300);
/// Between two looks at the clock while nothing comes.
const TICK: Duration = Duration::from_secs(1);

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

    /// Waits for the next answer, whichever it is; `None` when all have come. The outer error is the connection's end, or that
    /// nothing came for five minutes; the inner one the service's answer.
    #[expect(clippy::type_complexity, reason = "a question, and its answer or the service's refusal")]
    pub fn receive(&mut self) -> Result<Option<(T, Result<Answer<'_>, FluxError>)>, FluxError> {
        while !self.waiting.is_empty() {
            let topic = self.waiting.values().next().map_or("", |(topic, _)| topic);
            let message = response(self.flux, topic)?;
            let mut tag = MATCHTAG_NONE;
            // SAFETY: the message is alive and the tag is written before the call returns.
            let status = unsafe { (message.api.get_matchtag)(message.message.as_ptr(), &raw mut tag) };
            let about = if status < 0 { None } else { self.waiting.remove(&tag) };
            let Some((topic, about)) = about else { continue };
            // SAFETY: the tag came from this handle's pool, and its one answer is here.
            unsafe { (self.flux.api.matchtag_free)(self.flux.handle.as_ptr(), tag) };
            return Ok(Some((about, decode(topic, message))));
        }
        Ok(None)
    }
}

/// The next response to any request. flux_recv(3) itself waits without an end, so it is only asked for what is there; `topic` is what an
/// error names.
fn response<'f>(flux: &'f Flux, topic: &str) -> Result<Message<'f>, FluxError> {
    let (api, handle, begun) = (&flux.api, flux.handle.as_ptr(), Instant::now());
    let mut is_watched = false;
    loop {
        // SAFETY: the handle is open as long as it is borrowed; flux_recv(3) gives a message that is ours to destroy, or NULL.
        let message = unsafe { (api.recv)(handle, Match::any_response(), NONBLOCK) };
        if let Some(message) = NonNull::new(message) {
            return Ok(Message { api, message });
        }
        if io::Error::last_os_error().kind() != io::ErrorKind::WouldBlock {
            return Err(broken(topic));
        }
        if is_watched {
            let left = PATIENCE.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Err(FluxError::Silent { topic: topic.to_owned(), waited: PATIENCE });
            }
            // SAFETY: the handle is open; flux_pollfd(3) gives a descriptor that stays the handle's.
            wait(unsafe { (api.pollfd)(handle) }, left.min(TICK));
        }
        // What has come so far is looked for once more: from here on the descriptor tells of what comes later.
        // SAFETY: the handle is open; flux_pollevents(3) takes back what its descriptor has told.
        if unsafe { (api.pollevents)(handle) } < 0 {
            return Err(broken(topic));
        }
        is_watched = true;
    }
}

/// Waits until something can be read, for so long at most.
fn wait(descriptor: c_int, longest: Duration) {
    let mut watched = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
    // A part of a millisecond is one, or nothing would be waited for.
    let milliseconds = c_int::try_from(longest.as_millis()).unwrap_or(c_int::MAX).max(1);
    // SAFETY: poll(2) is given one structure, which outlives the call.
    unsafe { libc::poll(&raw mut watched, 1, milliseconds) };
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
