// SPDX-License-Identifier: LGPL-3.0-only
//! A safe face for Flux's jobtap interface (flux-jobtap-plugins(7)). It knows nothing of what the plugin is for.
//!
//! A plugin is a type that implements [`Jobtap`]; [`init`] is called from `flux_plugin_init`. Flux runs callbacks on
//! one thread and re-enters them: state is shared, and no borrow of it may live across a call into Flux.

mod args;
mod build;
mod call;
mod error;
mod guard;
mod json;
mod reads;
#[allow(non_camel_case_types, missing_docs, dead_code, clippy::all)]
#[rustfmt::skip]
mod sys;
#[cfg(all(test, feature = "bindgen"))]
mod tests;
mod unload;

pub use args::{Args, BadArgs, JobArgs, UpdateArgs};
pub use build::Unfit;
pub use call::{LogLevel, Logger, Plugin};
use call::{c_text, c_text_within};
pub use error::{EINVAL, EIO, ENOENT, EPROTO, Error};
pub use guard::{Host, init};
pub use json::Json;

use std::ffi::CStr;

unsafe extern "C" {
    safe fn getuid() -> u32;
}

/// The user this process runs as.
pub fn own_user() -> u32 {
    getuid()
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

/// A jobtap plugin.
pub trait Jobtap: Sized + 'static {
    /// The name it registers, by which its services are addressed.
    const NAME: &'static CStr;
    /// Topics it wants callbacks for.
    const TOPICS: &'static [&'static CStr];
    /// RPC methods, open to the instance owner.
    const METHODS: &'static [&'static CStr];

    /// Makes the plugin's state from its load-time configuration. An error text is logged, fails the load, and is what
    /// the client of `flux jobtap load` is told.
    fn load(plugin: Plugin) -> Result<Self, String>;
    /// A callback.
    fn callback(&self, host: Host<'_, Self>, topic: &str, args: Args<'_>) -> Result<(), Failed>;
    /// A request with its payload, if it has one that is text.
    fn request(&self, host: Host<'_, Self>, method: &str, payload: Option<&str>) -> Reply;
    /// The reactor turn asked for by [`Host::defer`].
    fn timer(&self, host: Host<'_, Self>);
    /// The eventlog asked for by [`Host::read_eventlog`]; `None` if it can't be read.
    fn eventlog(&self, host: Host<'_, Self>, id: u64, text: Option<&str>);
    /// Puts the state in order after a panic cut a call short.
    fn recover(&self);

    /// Its name as text.
    fn title() -> &'static str {
        Self::NAME.to_str().unwrap_or("plugin")
    }
}
