// SPDX-License-Identifier: LGPL-3.0-only
//! A small Flux client. It loads libflux-core at run time, so that the command also runs on machines without Flux.
//! Requests and responses are JSON texts. Each error names the request and contains the response of Flux.

mod job_id;
mod library;
mod many;
#[cfg(test)]
mod tests;
mod user;

use std::ffi::{CStr, CString};
use std::ptr::NonNull;
use std::time::Duration;

use library::{Api, ErrorText, FluxHandle};
pub use many::{Answer, Requests};
pub use user::{user_id, user_name};

/// `FLUX_ROLE_OWNER`.
const ROLE_OWNER: u32 = 1;

/// A connection to a Flux instance.
#[derive(Debug)]
pub struct Flux {
    api: Api,
    handle: NonNull<FluxHandle>,
    /// Longest wait for a response, by default five minutes. It is limited, because the caller may hold a lock
    /// that other processes wait for.
    pub patience: Duration,
}

/// Reason why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FluxError {
    /// libflux-core can't be loaded, or lacks a function.
    #[error("this command needs Flux, which can't be loaded: {0}")]
    Library(String),
    /// The instance is not reachable, or rejects the connection.
    #[error("can't connect to Flux: {text}")]
    Connect {
        /// `errno` of the attempt; 0 if unknown.
        errno: i32,
        /// The error text of Flux, or of the system.
        text: String,
    },
    /// The service returned an error.
    #[error("{topic}: {text}")]
    Request {
        /// Name of the service.
        topic: String,
        /// `errno` of the response; 0 if unknown.
        errno: i32,
        /// The error text of the service, or of the system.
        text: String,
    },
    /// The connection was closed during the request, because the instance or its broker ended.
    #[error("the connection to Flux is lost ({topic}: {text})")]
    Lost {
        /// Name of the service.
        topic: String,
        /// The error text of the system.
        text: String,
    },
    /// Flux accepted the request and sent no response, to this or any other request, for a long time.
    #[error("{topic}: Flux accepted the request but has not answered for {} s", .waited.as_secs())]
    Silent {
        /// Name of the service.
        topic: String,
        /// The time without a response.
        waited: Duration,
    },
    /// The broker has no such attribute.
    #[error("Flux has no attribute {0}")]
    Attribute(String),
    /// A text contains a NUL byte, so it can't be sent.
    #[error("{0} contains a NUL byte")]
    Nul(&'static str),
}

impl Flux {
    /// Connects to the instance at `uri`. If `uri` is `None`, connects to the enclosing instance
    /// (`FLUX_URI`), or else to the system instance.
    pub fn connect(uri: Option<&str>) -> Result<Flux, FluxError> {
        let api = Api::load().map_err(FluxError::Library)?;
        let uri = uri.map(CString::new).transpose().map_err(|_| FluxError::Nul("the URI"))?;
        let mut error: ErrorText = [0; 160];
        let address = uri.as_deref().map_or(std::ptr::null(), CStr::as_ptr);
        // SAFETY: flux_open_ex(3) takes NULL or a C string, and a flux_error_t to write to; both outlive the call.
        let handle = unsafe { (api.open)(address, 0, &raw mut error) };
        match NonNull::new(handle) {
            Some(handle) => Ok(Flux { api, handle, patience: Duration::from_secs(300) }),
            None => {
                let system = std::io::Error::last_os_error();
                let text = CStr::from_bytes_until_nul(&error).map(CStr::to_string_lossy).unwrap_or_default();
                let text = if text.is_empty() { system.to_string() } else { text.into_owned() };
                Err(FluxError::Connect { errno: system.raw_os_error().unwrap_or(0), text })
            }
        }
    }

    /// Sends a request to any rank, and waits for the response. `payload` and the response are JSON texts. Returns
    /// `None` if the response is empty.
    pub fn rpc(&self, topic: &str, payload: &str) -> Result<Option<String>, FluxError> {
        Ok(many::request(self, topic, payload)?.text().map(str::to_owned))
    }

    /// For tests: sends all further requests as user `userid`, with the rights of the instance owner. Flux
    /// accepts unsigned jobs (mechanism `none`) only with these rights. Only the instance owner may call
    /// this.
    pub fn send_requests_as_user(&self, userid: u32) -> Result<(), FluxError> {
        self.set_option(c"flux::testing_userid", userid)?;
        self.set_option(c"flux::testing_rolemask", ROLE_OWNER)
    }

    fn set_option(&self, name: &CStr, value: u32) -> Result<(), FluxError> {
        // SAFETY: flux_opt_set(3) copies a value of the size given; the handle is open until drop.
        let status = unsafe {
            (self.api.opt_set)(
                self.handle.as_ptr(),
                name.as_ptr(),
                (&raw const value).cast(),
                size_of::<u32>(),
            )
        };
        if status == 0 {
            return Ok(());
        }
        let error = std::io::Error::last_os_error();
        let text = format!("{}: {error}", name.to_string_lossy());
        Err(FluxError::Connect { errno: error.raw_os_error().unwrap_or(0), text })
    }

    /// Returns a broker attribute, for example `security.owner`.
    pub fn attribute(&self, name: &'static str) -> Result<String, FluxError> {
        let c_name = CString::new(name).map_err(|_| FluxError::Nul("the attribute's name"))?;
        // SAFETY: flux_attr_get(3) returns NULL or a string that lives as long as the handle; it is copied at once.
        let value = unsafe { library::copy_text((self.api.attr_get)(self.handle.as_ptr(), c_name.as_ptr())) };
        value.ok_or_else(|| FluxError::Attribute(name.to_owned()))
    }
}

impl Drop for Flux {
    fn drop(&mut self) {
        // SAFETY: flux_open_ex opened the handle, and it is closed once. `Requests` and `Message` borrow
        // `self`, so none of them exists any more.
        unsafe { (self.api.close)(self.handle.as_ptr()) }
    }
}
