// SPDX-License-Identifier: LGPL-3.0-only
//! A safe wrapper over Flux's jobtap interface (flux-jobtap-plugins(7)). This module contains nothing about fair-share.
//!
//! A plugin is a type that implements [`Jobtap`], and `flux_plugin_init` calls [`init`]. Flux runs callbacks on one
//! thread and may call the plugin again during a callback. So the plugin's state is shared, and no borrow of it may be
//! alive during a call into Flux.

mod args;
mod asks;
mod call;
mod caller;
mod deferred;
mod error;
#[cfg(feature = "fault")]
mod fault;
mod guard;
mod hook;
mod json;
mod load_refusal;
#[cfg(test)]
mod miri;
mod pending;
mod reads;
mod shared;
mod single_instance;
#[allow(non_camel_case_types, missing_docs, dead_code, clippy::all)]
#[rustfmt::skip]
mod sys;
#[cfg(all(test, feature = "bindgen"))]
mod tests;
mod timers;

pub use args::{Args, BadArgs, JobArgs};
pub use call::{LogLevel, Plugin};
use call::{make_one_line_c_string, to_c_string};
pub use caller::{Caller, Request, Role};
pub use deferred::Deferred;
pub use error::{EAGAIN, EINVAL, EIO, ENOENT, EPERM, EPROTO, Error};
pub use guard::{Host, init};
pub use json::Json;
pub use pending::RequestId;

use std::ffi::CStr;

unsafe extern "C" {
    safe fn getuid() -> u32;
}

/// Returns the id of the user that runs this process.
pub fn own_user() -> u32 {
    getuid()
}

/// The error that makes a callback report failure to Flux. The error text of the callback is set already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed;

/// The reply to a request: a JSON text, an empty reply, or an error.
pub type Reply = Result<Option<String>>;

/// The result of a function that serves a request.
pub type Result<T, E = RequestError> = std::result::Result<T, E>;

/// An error reply: errno and text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestError {
    /// errno.
    pub errno: i32,
    /// The error text for the sender.
    pub text: String,
}

/// An RPC method of a plugin.
pub struct Method<J: Jobtap> {
    /// The last part of the method's topic.
    pub name: &'static CStr,
    /// The role that may call the method.
    pub role: Role,
    /// The function that computes the reply.
    pub answer: fn(&J, Host<'_, J>, &Request<'_>) -> Reply,
}

impl<J: Jobtap> Method<J> {
    /// Returns the method's name as text.
    pub fn title(&self) -> &'static str {
        self.name.to_str().unwrap_or_default()
    }
}

/// A jobtap plugin.
pub trait Jobtap: Sized + 'static {
    /// The name that the plugin registers. The topics of its methods begin with this name.
    const NAME: &'static CStr;
    /// The topics of the plugin's callbacks. `*` matches any text.
    const TOPICS: &'static [&'static CStr];
    /// RPC methods.
    const METHODS: &'static [Method<Self>];
    /// The names of the timers in the log.
    const TIMERS: &'static [&'static str];

    /// Makes the plugin's state from the load-time configuration.
    ///
    /// # Errors
    /// The error text goes to the log and to the client of `flux jobtap load`, and the load fails.
    fn load(plugin: Plugin) -> Result<Self, String>;
    /// Handles a callback.
    fn handle_callback(&self, host: Host<'_, Self>, topic: &str, args: Args<'_>) -> Result<(), Failed>;
    /// Handles a request for a method. Flux has checked that the sender has the method's role. Returns `None` if the
    /// request was deferred ([`Request::defer`]) and will be answered later.
    fn handle_request(
        &self,
        host: Host<'_, Self>,
        method: &'static Method<Self>,
        request: &Request<'_>,
    ) -> Option<Reply>;
    /// Handles the timer `timer`, an index of [`Jobtap::TIMERS`], which [`Host::arm_timer`] started.
    fn handle_timer(&self, host: Host<'_, Self>, timer: usize);
    /// Receives the text of the reply to the request `id`, or the error of the request.
    fn receive_reply(&self, host: Host<'_, Self>, id: RequestId, reply: Result<&str, Error>);
    /// Sets the answer of a callback that failed or panicked. Other plugins may have answered before.
    ///
    /// # Errors
    /// If this returns `Failed`, the callback returns -1, and Flux refuses the submission, update or configuration.
    fn set_safe_answer(&self, host: Host<'_, Self>, topic: &str, args: Args<'_>) -> Result<(), Failed>;
    /// Repairs the state after a panic. `id` is the job that the interrupted call was about, if it was about a job.
    fn recover(&self, host: Host<'_, Self>, id: Option<u64>);

    /// Returns the plugin's name as text.
    fn title() -> &'static str {
        Self::NAME.to_str().unwrap_or("plugin")
    }
}
