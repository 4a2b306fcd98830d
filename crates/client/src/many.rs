// SPDX-License-Identifier: LGPL-3.0-only
//! Sends requests, one or many at once. Flux responds in any order.
//!
//! Requests have tags from Flux's own pool, and responses are read directly from the connection, one at a time.
//! Flux's futures would add a reactor and callbacks that are not needed here.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int};
use std::io;
use std::ptr::{NonNull, null, null_mut};
use std::time::{Duration, Instant};

use super::library::{ANY_RESPONSE, Api, FluxMessage, MATCHTAG_NONE, NONBLOCK};
use super::{Flux, FluxError};

/// Time between two checks of the clock.
const TICK: Duration = Duration::from_secs(1);

/// Open requests. The caller gives each request a value of type `T`.
#[derive(Debug)]
pub struct Requests<'a, T> {
    /// An exclusive borrow: another call on the connection would drop the responses to these requests.
    flux: &'a mut Flux,
    waiting: HashMap<u32, (&'static str, T)>,
}

/// A response without an error.
#[derive(Debug)]
pub struct Answer<'a>(Message<'a>);

#[derive(Debug)]
struct Message<'a> {
    api: &'a Api,
    message: NonNull<FluxMessage>,
}

impl<'a, T> Requests<'a, T> {
    /// Makes an empty set of requests.
    pub fn new(flux: &'a mut Flux) -> Self {
        Requests { flux, waiting: HashMap::new() }
    }

    /// Sends a request without waiting. `about` is returned with the response.
    pub fn send(&mut self, topic: &'static str, payload: &str, about: T) -> Result<(), FluxError> {
        self.waiting.insert(send(self.flux, topic, payload)?, (topic, about));
        Ok(())
    }

    /// Waits for the next response to any open request. Returns `None` if no request is open. The outer error
    /// means that the connection was closed or that no response arrived in time. The inner error is the error of
    /// the service.
    #[expect(
        clippy::type_complexity,
        reason = "a value of the caller, and the response or the error of the service"
    )]
    pub fn receive(&mut self) -> Result<Option<(T, Result<Answer<'_>, FluxError>)>, FluxError> {
        while !self.waiting.is_empty() {
            let topic = self.waiting.values().next().map_or("", |(topic, _)| topic);
            let message = next_response(self.flux, topic)?;
            let tag = message.tag();
            let Some((topic, about)) = self.waiting.remove(&tag) else { continue };
            free_tag(self.flux, tag);
            return Ok(Some((about, decode(topic, message))));
        }
        Ok(None)
    }
}

/// Sends a request without waiting. Returns the tag that the response will have.
fn send(flux: &Flux, topic: &str, payload: &str) -> Result<u32, FluxError> {
    let c_topic = CString::new(topic).map_err(|_| FluxError::Nul("the topic"))?;
    let payload = CString::new(payload).map_err(|_| FluxError::Nul("the payload"))?;
    let (api, handle) = (&flux.api, flux.handle.as_ptr());
    // SAFETY: flux_request_encode(3) copies both strings.
    let message = unsafe { (api.request_encode)(c_topic.as_ptr(), payload.as_ptr()) };
    let message =
        Message { api, message: NonNull::new(message).ok_or_else(|| make_lost_connection_error(topic))? };
    // SAFETY: the handle is open while it is borrowed.
    let tag = unsafe { (api.matchtag_alloc)(handle) };
    if tag == MATCHTAG_NONE {
        return Err(make_lost_connection_error(topic));
    }
    // SAFETY: the message is alive; flux_msg_set_matchtag only changes its header.
    let status = unsafe { (api.set_matchtag)(message.message.as_ptr(), tag) };
    if status < 0 {
        return Err(make_lost_connection_error(topic));
    }
    // SAFETY: handle and message are alive; flux_send(3) leaves the message to us.
    let status = unsafe { (api.send)(handle, message.message.as_ptr(), 0) };
    if status < 0 { Err(make_lost_connection_error(topic)) } else { Ok(tag) }
}

/// Sends a request and waits for its response. Drops responses with other tags. A [`Requests`] borrows the
/// connection exclusively, so none of its requests is open during this call.
pub(super) fn request<'f>(flux: &'f Flux, topic: &str, payload: &str) -> Result<Answer<'f>, FluxError> {
    let tag = send(flux, topic, payload)?;
    loop {
        let message = next_response(flux, topic)?;
        if message.tag() == tag {
            free_tag(flux, tag);
            return decode(topic, message);
        }
    }
}

/// Returns the tag of a request to the pool. The response to the request must have arrived, because a request
/// has only one response.
fn free_tag(flux: &Flux, tag: u32) {
    // SAFETY: the tag is from the pool of this handle, which is open while it is borrowed.
    unsafe { (flux.api.matchtag_free)(flux.handle.as_ptr(), tag) }
}

/// Returns the next response to any request. flux_recv(3) could wait indefinitely, so it is called without blocking.
/// Errors name `topic`.
fn next_response<'f>(flux: &'f Flux, topic: &str) -> Result<Message<'f>, FluxError> {
    let (api, handle, begun) = (&flux.api, flux.handle.as_ptr(), Instant::now());
    let mut is_watched = false;
    loop {
        // SAFETY: the handle is open while it is borrowed; flux_recv(3) returns NULL or a message that the caller
        // destroys.
        let message = unsafe { (api.recv)(handle, ANY_RESPONSE, NONBLOCK) };
        if let Some(message) = NonNull::new(message) {
            return Ok(Message { api, message });
        }
        if io::Error::last_os_error().kind() != io::ErrorKind::WouldBlock {
            return Err(make_lost_connection_error(topic));
        }
        if is_watched {
            let left = flux.patience.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Err(FluxError::Silent { topic: topic.to_owned(), waited: flux.patience });
            }
            // SAFETY: the handle is open; the descriptor of flux_pollfd(3) belongs to the handle.
            wait(unsafe { (api.pollfd)(handle) }, left.min(TICK));
        }
        // Messages that arrived before this call are received in the next loop; later ones make the descriptor
        // readable. SAFETY: the handle is open; flux_pollevents(3) resets its descriptor.
        if unsafe { (api.pollevents)(handle) } < 0 {
            return Err(make_lost_connection_error(topic));
        }
        is_watched = true;
    }
}

/// Waits until the descriptor is readable, for at most `longest`.
fn wait(descriptor: c_int, longest: Duration) {
    let mut watched = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
    // poll(2) takes milliseconds; round up, because 0 would not wait.
    let milliseconds = c_int::try_from(longest.as_millis()).unwrap_or(c_int::MAX).max(1);
    // SAFETY: poll(2) gets one structure, which outlives the call.
    unsafe { libc::poll(&raw mut watched, 1, milliseconds) };
}

fn decode<'m>(topic: &str, message: Message<'m>) -> Result<Answer<'m>, FluxError> {
    // SAFETY: the message is valid; flux_response_decode(3) accepts NULL for topic and payload.
    let status = unsafe { (message.api.response_decode)(message.message.as_ptr(), null_mut(), null_mut()) };
    if status == 0 {
        return Ok(Answer(message));
    }
    let error = io::Error::last_os_error();
    let text = message.error_text().unwrap_or_else(|| error.to_string());
    Err(FluxError::Request { topic: topic.to_owned(), errno: error.raw_os_error().unwrap_or(0), text })
}

/// Makes an error from errno after a failed call on the connection.
fn make_lost_connection_error(topic: &str) -> FluxError {
    FluxError::Lost { topic: topic.to_owned(), text: io::Error::last_os_error().to_string() }
}

impl Answer<'_> {
    /// Returns the payload, or `None` if it is empty or not UTF-8.
    pub fn text(&self) -> Option<&str> {
        let mut text: *const c_char = null();
        // SAFETY: the message is valid; the string is stored before the call returns and lives as long as the
        // message.
        let status =
            unsafe { (self.0.api.response_decode)(self.0.message.as_ptr(), null_mut(), &raw mut text) };
        if status < 0 || text.is_null() {
            return None;
        }
        // SAFETY: the C string belongs to the message, which outlives the borrow of `self`.
        unsafe { CStr::from_ptr(text) }.to_str().ok()
    }
}

impl Message<'_> {
    /// Returns the tag, or [`MATCHTAG_NONE`].
    fn tag(&self) -> u32 {
        let mut tag = MATCHTAG_NONE;
        // SAFETY: the message is valid, and the tag is written before the call returns.
        let status = unsafe { (self.api.get_matchtag)(self.message.as_ptr(), &raw mut tag) };
        if status < 0 { MATCHTAG_NONE } else { tag }
    }

    fn error_text(&self) -> Option<String> {
        let mut text: *const c_char = null();
        // SAFETY: the message is valid; the string is stored before the call returns and lives as long as the
        // message.
        let status = unsafe { (self.api.response_error)(self.message.as_ptr(), &raw mut text) };
        // SAFETY: the string is NULL or belongs to the message; it is copied at once.
        (status == 0).then(|| unsafe { super::library::copy_text(text) }).flatten()
    }
}

impl Drop for Message<'_> {
    fn drop(&mut self) {
        // SAFETY: flux_request_encode or flux_recv made the message, and it is destroyed once.
        unsafe { (self.api.message_destroy)(self.message.as_ptr()) }
    }
}
