// SPDX-License-Identifier: LGPL-3.0-only
//! Services of plugins, and requests to them.

use std::ffi::{CStr, c_void};

use super::abi::{CMsg, Message, MessageFn, make_c_string_from_text};
use super::host::Host;
use super::job::Errno;

const ROLE_OWNER: u32 = 1;
const ROLE_USER: u32 = 2;

/// The user of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cred {
    /// User id.
    pub userid: u32,
    /// Flux's role bits: 1 for the instance owner, 2 for users, 8 for admins.
    pub rolemask: u32,
}

impl Cred {
    /// Makes the credential of the instance owner.
    pub fn owner(userid: u32) -> Cred {
        Cred { userid, rolemask: ROLE_OWNER }
    }

    /// Makes the credential of another user.
    pub fn guest(userid: u32) -> Cred {
        Cred { userid, rolemask: ROLE_USER }
    }

    /// Returns true for the instance owner.
    pub fn is_owner(self) -> bool {
        self.rolemask & ROLE_OWNER != 0
    }
}

/// The error of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestError {
    /// The error number of the response.
    pub errno: Errno,
    /// The text of the response, which may be empty.
    pub text: String,
}

impl RequestError {
    pub(super) fn new(errno: Errno, text: &str) -> RequestError {
        RequestError { errno, text: text.to_string() }
    }
}

/// The payload of a response, or the error of a failed request.
pub type Answer = Result<Option<String>, RequestError>;

/// A response that was sent after the handler had returned.
#[derive(Clone, Debug)]
pub struct LateAnswer {
    /// Topic of the request.
    pub topic: String,
    /// User of the request.
    pub cred: Cred,
    /// The response, as [`Host::request`] returns it.
    pub answer: Answer,
}

/// A service method of a plugin.
pub(super) struct Service {
    pub(super) topic: String,
    pub(super) rolemask: u32,
    pub(super) callback: MessageFn,
    pub(super) data: *mut c_void,
}

/// The response of a handler.
#[derive(Debug, Default)]
pub(super) struct Reply {
    count: usize,
    /// Topic and user of the request, if the handler kept the message and has not responded yet.
    late_request: Option<(String, Cred)>,
    answer: Option<Answer>,
}

impl Host {
    /// Sends a request, for example `job-manager.mf_priority.rec_update`. Runs the reactor until it is idle. Returns
    /// the payload of the response as text, if it has one.
    ///
    /// # Errors
    /// Returns errno and text of the response. A handler without a response causes ENOSYS and a violation.
    pub fn request(&self, topic: &str, payload: Option<&str>, cred: Cred) -> Answer {
        let answer = self.request_now(topic, payload, cred);
        self.settle();
        answer
    }

    /// Removes and returns the late responses, in the order in which they were sent. [`Host::request`] returned EINPROGRESS for these
    /// requests.
    pub fn take_late_answers(&self) -> Vec<LateAnswer> {
        std::mem::take(&mut self.store.borrow_mut().late)
    }

    /// Sends a request without running the reactor.
    ///
    /// # Errors
    /// Returns errno and text of the response, as [`Host::request`] does.
    pub fn request_now(&self, topic: &str, payload: Option<&str>, cred: Cred) -> Answer {
        let payload = payload.map(make_c_string_from_text);
        self.deliver_request(topic, payload.as_deref(), cred)
    }

    /// Sends a request with a payload that need not be UTF-8, and runs the reactor until it is idle.
    ///
    /// # Errors
    /// Returns errno and text of the response, as [`Host::request`] does.
    pub fn request_bytes(&self, topic: &str, payload: Option<&CStr>, cred: Cred) -> Answer {
        let answer = self.deliver_request(topic, payload, cred);
        self.settle();
        answer
    }

    fn deliver_request(&self, topic: &str, payload: Option<&CStr>, cred: Cred) -> Answer {
        let found = self.plugins.borrow().iter().find_map(|plugin| {
            let services = plugin.services.borrow();
            let service = services.iter().find(|service| service.topic == topic)?;
            Some((plugin.clone(), service.callback, service.data, service.rolemask))
        });
        let Some((plugin, callback, data, rolemask)) = found else {
            return Err(RequestError::new(Errno::ENOSYS, "No service matching the topic is registered"));
        };
        if cred.rolemask & (rolemask | ROLE_OWNER) == 0 {
            let text = match rolemask {
                0 => "Request requires owner credentials",
                _ => "Request rejected due to insufficient privilege",
            };
            return Err(RequestError::new(Errno::EPERM, text));
        }
        let this = std::ptr::from_ref(self).cast_mut().cast::<c_void>();
        let message = Message::new(self.abi, this, topic, payload, cred.userid, cred.rolemask);
        let key = message.as_ptr().addr();
        self.store.borrow_mut().replies.insert(key, Reply::default());
        // SAFETY: the arguments are those of flux_msg_handler_create(3): handle, handler, message and the registered
        // data. The message is valid until the call returns, and the Rc keeps the plugin loaded.
        self.run_as_plugin(plugin.uid, || unsafe {
            callback(this, std::ptr::null_mut(), message.as_ptr(), data)
        });
        if message.is_referenced() {
            // The response will be sent later, see [`Host::take_late_answers`].
            let mut store = self.store.borrow_mut();
            if let Some(reply) = store.replies.get_mut(&key).filter(|reply| reply.count == 0) {
                reply.late_request = Some((topic.to_owned(), cred));
                return Err(RequestError::new(Errno::EINPROGRESS, "the answer is yet to come"));
            }
        }
        let reply = self.store.borrow_mut().replies.remove(&key).unwrap_or_default();
        if reply.count != 1 {
            self.report_violation(format!("{topic}: request answered {} times", reply.count));
        }
        reply.answer.unwrap_or_else(|| Err(RequestError::new(Errno::ENOSYS, "the handler did not answer")))
    }

    pub(super) fn respond(
        &self,
        message: *const CMsg,
        errnum: i32,
        text: Option<String>,
    ) -> Result<(), Errno> {
        let mut store = self.store.borrow_mut();
        let key = message.addr();
        let reply = store.replies.get_mut(&key).ok_or(Errno::EINVAL)?;
        reply.count += 1;
        let answer = match errnum {
            0 => Ok(text),
            errnum => Err(RequestError { errno: Errno(errnum), text: text.unwrap_or_default() }),
        };
        if let Some((topic, cred)) = reply.late_request.take() {
            store.replies.remove(&key);
            store.late.push(LateAnswer { topic, cred, answer });
            return Ok(());
        }
        reply.answer.get_or_insert(answer);
        Ok(())
    }
}
