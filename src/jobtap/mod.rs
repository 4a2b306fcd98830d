// SPDX-License-Identifier: LGPL-3.0-only
//! A safe face for Flux's jobtap interface (flux-jobtap-plugins(7)). It knows nothing of what the plugin is for.
//!
//! A plugin is a type that implements [`Jobtap`]; [`init`] is called from `flux_plugin_init`. Flux runs callbacks on
//! one thread and re-enters them: state is shared, and no borrow of it may live across a call into Flux.

mod args;
mod asks;
mod call;
mod caller;
mod error;
#[cfg(feature = "fault")]
mod fault;
mod guard;
mod hook;
mod json;
mod kept;
mod kvs;
mod look_up;
#[cfg(test)]
mod miri;
mod only;
mod pending;
mod reads;
mod shared;
#[allow(non_camel_case_types, missing_docs, dead_code, clippy::all)]
#[rustfmt::skip]
mod sys;
#[cfg(all(test, feature = "bindgen"))]
mod tests;
mod timers;
mod unload;

pub use args::{Args, BadArgs, JobArgs, UpdateArgs};
pub use call::{LogLevel, Logger, Plugin};
use call::{c_line_within, c_text};
pub use caller::{Caller, Request, Role};
pub use error::{EAGAIN, EINVAL, EIO, ENOENT, EPERM, EPROTO, Error};
pub use guard::{Host, init, init_with};
pub use json::Json;
pub use kept::Kept;
pub use kvs::{Found, Patience};

use std::ffi::CStr;

unsafe extern "C" {
    safe fn getuid() -> u32;
}

/// The user this process runs as.
pub fn own_user() -> u32 {
    getuid()
}

/// Where Flux calls the plugin besides callbacks, requests and timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The events posted so far were sent to the KVS; nothing is read before.
    Batch,
    /// The KVS has taken them over.
    Commits,
    /// [`Jobtap::eventlog`].
    Eventlog,
    /// [`Jobtap::dependencies`].
    Dependencies,
    /// [`Jobtap::written`].
    Written,
    /// [`Jobtap::found`].
    Found,
}

impl Turn {
    /// All of them.
    pub const ALL: [Turn; 6] =
        [Turn::Batch, Turn::Commits, Turn::Eventlog, Turn::Dependencies, Turn::Written, Turn::Found];

    /// What the log calls it.
    pub fn name(self) -> &'static str {
        match self {
            Turn::Batch => "batch",
            Turn::Commits => "commits",
            Turn::Eventlog => "eventlog",
            Turn::Dependencies => "dependencies",
            Turn::Written => "written",
            Turn::Found => "found",
        }
    }
}

/// The callback reports failure to Flux; what is to be said about it was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed;

/// The answer to a request: a JSON text or nothing, or an error.
pub type Reply = Result<Option<String>, RequestError>;

/// An error reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestError {
    /// errno.
    pub errno: i32,
    /// What the sender is told.
    pub text: String,
}

/// An RPC method: a row of a plugin's table.
pub struct Method<J: Jobtap> {
    /// The last word of its topic.
    pub name: &'static CStr,
    /// Who may call it.
    pub role: Role,
    /// What answers.
    pub answer: fn(&J, Host<'_, J>, &Request<'_>) -> Reply,
}

impl<J: Jobtap> Method<J> {
    /// Its name as text.
    pub fn title(&self) -> &'static str {
        self.name.to_str().unwrap_or_default()
    }
}

impl<J: Jobtap> Clone for Method<J> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<J: Jobtap> Copy for Method<J> {}

/// A jobtap plugin.
pub trait Jobtap: Sized + 'static {
    /// The name it registers, by which its services are addressed.
    const NAME: &'static CStr;
    /// The topics of its callbacks, in which `*` stands for any text.
    const TOPICS: &'static [&'static CStr];
    /// RPC methods.
    const METHODS: &'static [Method<Self>];
    /// What the log calls its timers.
    const TIMERS: &'static [&'static str];

    /// Makes the plugin's state from its load-time configuration. An error text is logged, fails the load, and is what
    /// the client of `flux jobtap load` is told.
    fn load(plugin: Plugin) -> Result<Self, String>;
    /// A callback.
    fn callback(&self, host: Host<'_, Self>, topic: &str, args: Args<'_>) -> Result<(), Failed>;
    /// A request for a method. Flux let it through, so its sender has the method's role. `None`: it was put aside
    /// ([`Request::keep`]), and is answered later.
    fn request(
        &self,
        host: Host<'_, Self>,
        method: &'static Method<Self>,
        request: &Request<'_>,
    ) -> Option<Reply> {
        Some((method.answer)(self, host, request))
    }
    /// What a service of Flux answered to [`Host::ask_service`] of this number, as JSON; `None` if it did not.
    fn answered(&self, _host: Host<'_, Self>, _number: u32, _reply: Option<&str>) {}
    /// The timer in this row of [`Jobtap::TIMERS`] fired, as asked for by [`Host::arm`].
    fn timer(&self, host: Host<'_, Self>, timer: usize);
    /// The eventlog asked for by [`Host::read_eventlog`]; `None` if it can't be read.
    fn eventlog(&self, host: Host<'_, Self>, id: u64, text: Option<&str>);
    /// The answer of job-list asked for by [`Host::read_dependencies`], as JSON; `None` if there is none.
    fn dependencies(&self, host: Host<'_, Self>, id: u64, reply: Option<&str>);
    /// What became of what [`Host::write`] asked for: an error in words, if nothing of it was written.
    fn written(&self, host: Host<'_, Self>, outcome: Result<(), String>);
    /// What is in the KVS under the key that [`Host::look_up`] asked for by this number.
    fn found(&self, host: Host<'_, Self>, number: u64, found: Found<'_>);
    /// The answer of job-list asked for by [`Host::list_ended`], as JSON; `None` if there is none.
    fn ended(&self, host: Host<'_, Self>, reply: Option<&str>);
    /// What a callback leaves as its answer when it fails or was cut short by a panic. Other plugins may have answered before.
    ///
    /// # Errors
    /// `Failed` makes the callback return -1: Flux then refuses the submission, update or configuration.
    fn fail_safe(&self, host: Host<'_, Self>, topic: &str, args: Args<'_>) -> Result<(), Failed>;
    /// Puts the state in order after a panic cut a call short that was about job `id`, if it was about one.
    fn recover(&self, host: Host<'_, Self>, id: Option<u64>);

    /// Its name as text.
    fn title() -> &'static str {
        Self::NAME.to_str().unwrap_or("plugin")
    }
}
