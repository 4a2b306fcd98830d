// SPDX-License-Identifier: LGPL-3.0-only
//! User names by id, from whatever source the system is set up with (files, LDAP, ..).

use std::ffi::c_char;

use super::library::owned_text;

/// The name of a user id; `None` if the system knows none.
pub fn user_name(uid: u32) -> Option<String> {
    let mut buffer: Vec<c_char> = vec![0; 1024];
    loop {
        let mut entry = std::mem::MaybeUninit::<libc::passwd>::uninit();
        let mut found: *mut libc::passwd = std::ptr::null_mut();
        // SAFETY: getpwuid_r(3) writes the entry, its strings into the buffer of that length, and where the entry is.
        let status = unsafe {
            libc::getpwuid_r(uid, entry.as_mut_ptr(), buffer.as_mut_ptr(), buffer.len(), &raw mut found)
        };
        if status == libc::ERANGE && buffer.len() < 1 << 20 {
            buffer.resize(buffer.len() * 2, 0);
            continue;
        }
        if status != 0 || found.is_null() {
            return None;
        }
        // SAFETY: the entry was found, so it was filled in; pw_name points into the buffer, which is still here.
        return unsafe { owned_text(entry.assume_init().pw_name) };
    }
}
