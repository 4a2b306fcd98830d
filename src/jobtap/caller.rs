// SPDX-License-Identifier: LGPL-3.0-only
//! Who asks, and who may ask.

use super::error::Error;
use super::kept::Kept;
use super::{Plugin, sys};
use std::cell::Cell;

/// `FLUX_ROLE_OWNER`.
const OWNER: u32 = 1;
/// `FLUX_ROLE_USER`.
const USER: u32 = 2;
/// `FLUX_ROLE_ADMIN`: who `[access.roles.admin]` names (flux-core >= 0.87).
const ADMIN: u32 = 8;

/// Who may call a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The instance owner alone.
    Owner,
    /// The instance owner and users with the `admin` role.
    Admin,
    /// Every user of the instance, and its owner. What he is told depends on who he is: see [`Request::caller`].
    Guest,
}

impl Role {
    /// The roles that Flux is to let through besides the owner's. Others it refuses itself, before the plugin sees them.
    pub(super) fn mask(self) -> u32 {
        match self {
            Role::Owner => 0,
            Role::Admin => ADMIN,
            Role::Guest => USER | ADMIN,
        }
    }
}

/// Who sent a request: what Flux vouches for, not what the payload says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The user's id.
    pub userid: u32,
    rolemask: u32,
}

impl Caller {
    /// Whether it is the instance owner.
    pub fn is_owner(self) -> bool {
        self.rolemask & OWNER != 0
    }

    /// Whether the caller may read whatever the instance owner may read: `FLUX_ROLE_PRIVILEGED` (live 5 #4).
    pub fn is_privileged(self) -> bool {
        self.rolemask & (OWNER | ADMIN) != 0
    }

    #[cfg(test)]
    pub(super) fn someone() -> Self {
        Caller { userid: 7, rolemask: USER }
    }

    /// The sender of a message.
    ///
    /// # Safety
    /// `msg` is the message of the running handler.
    pub(super) unsafe fn of(msg: *const sys::flux_msg_t) -> Result<Self, Error> {
        let mut cred = sys::flux_msg_cred { userid: 0, rolemask: 0 };
        // SAFETY: the message is alive (contract of this function); the credentials are copied.
        let rc = unsafe { sys::flux_msg_get_cred(msg, &raw mut cred) };
        Error::check("flux_msg_get_cred", rc)?;
        Ok(Caller { userid: cred.userid, rolemask: cred.rolemask })
    }
}

/// A request that was let through.
pub struct Request<'a> {
    /// Who sent it.
    pub caller: Caller,
    /// Its payload, if it has one.
    pub payload: Option<&'a str>,
    plugin: Plugin,
    /// The message, which lives for `'a`.
    msg: *const sys::flux_msg_t,
    is_kept: Cell<bool>,
}

impl<'a> Request<'a> {
    /// `msg` lives for `'a`.
    pub(super) fn new(
        caller: Caller,
        payload: Option<&'a str>,
        plugin: Plugin,
        msg: *const sys::flux_msg_t,
    ) -> Self {
        Request { caller, payload, plugin, msg, is_kept: Cell::new(false) }
    }

    /// Puts it aside, to be answered later.
    pub fn keep(&self) -> Kept {
        self.is_kept.set(true);
        // SAFETY: the message lives for `'a`.
        unsafe { Kept::new(self.plugin, self.msg) }
    }

    /// Whether it was: then what was put aside answers it, whatever becomes of this call.
    pub(super) fn is_kept(&self) -> bool {
        self.is_kept.get()
    }
}
