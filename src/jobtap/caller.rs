// SPDX-License-Identifier: LGPL-3.0-only
//! The sender of a request, and the roles that may call a method.

use super::deferred::Deferred;
use super::error::Error;
use super::{Plugin, sys};
use std::cell::Cell;

/// `FLUX_ROLE_OWNER`.
const OWNER: u32 = 1;
/// `FLUX_ROLE_USER`.
const USER: u32 = 2;
/// `FLUX_ROLE_ADMIN`: the users in `[access.roles.admin]` (flux-core >= 0.87).
const ADMIN: u32 = 8;

/// The users that may call a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The instance owner only.
    Owner,
    /// The instance owner and users with the `admin` role.
    Admin,
    /// All users of the instance. The answer may depend on the user: see [`Request::caller`].
    Guest,
}

impl Role {
    /// Returns the roles, apart from the owner's, whose requests Flux passes to the method. Flux refuses other senders.
    pub(super) fn mask(self) -> u32 {
        match self {
            Role::Owner => 0,
            Role::Admin => ADMIN,
            Role::Guest => USER | ADMIN,
        }
    }
}

/// The sender of a request, as Flux authenticated the user. The payload cannot change the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The user's id.
    pub userid: u32,
    rolemask: u32,
}

impl Caller {
    /// Returns true if the caller may read everything that the instance owner may read (`FLUX_ROLE_PRIVILEGED`).
    pub fn is_privileged(self) -> bool {
        self.rolemask & (OWNER | ADMIN) != 0
    }

    #[cfg(test)]
    pub(super) fn make_guest() -> Self {
        Caller { userid: 7, rolemask: USER }
    }

    /// Returns the sender of a message.
    ///
    /// # Safety
    /// `msg` is the message of the running handler.
    pub(super) unsafe fn from_message(msg: *const sys::flux_msg_t) -> Result<Self, Error> {
        let mut cred = sys::flux_msg_cred { userid: 0, rolemask: 0 };
        // SAFETY: the message is alive (contract of this function); the credentials are copied.
        let rc = unsafe { sys::flux_msg_get_cred(msg, &raw mut cred) };
        Error::check_rc("flux_msg_get_cred", rc)?;
        Ok(Caller { userid: cred.userid, rolemask: cred.rolemask })
    }
}

/// A request whose sender has the role that the method requires.
pub struct Request<'a> {
    /// The sender.
    pub caller: Caller,
    /// The payload, if there is one.
    pub payload: Option<&'a str>,
    plugin: Plugin,
    /// The message, which lives for `'a`.
    msg: *const sys::flux_msg_t,
    is_deferred: Cell<bool>,
}

impl<'a> Request<'a> {
    /// Makes a request from the message `msg`. The message lives for `'a`.
    pub(super) fn new(
        caller: Caller,
        payload: Option<&'a str>,
        plugin: Plugin,
        msg: *const sys::flux_msg_t,
    ) -> Self {
        Request { caller, payload, plugin, msg, is_deferred: Cell::new(false) }
    }

    /// Takes a reference to the message, so that the request can be answered later.
    pub fn defer(&self) -> Deferred {
        self.is_deferred.set(true);
        // SAFETY: the message lives for `'a`.
        unsafe { Deferred::new(self.plugin, self.msg) }
    }

    /// Returns true if the request was deferred. Then the reply comes from the [`Deferred`], whatever the handler
    /// returns.
    pub(super) fn is_deferred(&self) -> bool {
        self.is_deferred.get()
    }
}
