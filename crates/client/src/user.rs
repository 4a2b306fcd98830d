// SPDX-License-Identifier: LGPL-3.0-only
//! Looks up user names and user ids in the system's databases (files, LDAP, ...).

use std::ffi::{CString, c_char};
use std::mem::MaybeUninit;

use super::library::copy_text;

/// Returns the name of a user id, or `None` if it is unknown.
pub fn user_name(uid: u32) -> Option<String> {
    look_up(
        |entry, buffer, length, found| {
            // SAFETY: getpwuid_r(3) writes the entry, its strings into the buffer of `length` bytes, and the address
            // of the entry.
            unsafe { libc::getpwuid_r(uid, entry, buffer, length, found) }
        },
        // SAFETY: pw_name of a found entry points into the buffer, which is still valid.
        |entry| unsafe { copy_text(entry.pw_name) },
    )?
}

/// Returns the id of a user name, or `None` if it is unknown.
pub fn user_id(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    look_up(
        |entry, buffer, length, found| {
            // SAFETY: as for getpwuid_r above. The name is a C string that outlives the call.
            unsafe { libc::getpwnam_r(name.as_ptr(), entry, buffer, length, found) }
        },
        |entry| entry.pw_uid,
    )
}

/// Calls `ask` with a larger buffer until the entry fits. `ask` is getpwuid_r(3) or getpwnam_r(3). Returns
/// the value that `read` takes from the found entry.
fn look_up<T>(
    ask: impl Fn(*mut libc::passwd, *mut c_char, usize, *mut *mut libc::passwd) -> i32,
    read: impl Fn(&libc::passwd) -> T,
) -> Option<T> {
    let mut buffer: Vec<c_char> = vec![0; 1024];
    loop {
        let mut entry = MaybeUninit::<libc::passwd>::uninit();
        let mut found: *mut libc::passwd = std::ptr::null_mut();
        let status = ask(entry.as_mut_ptr(), buffer.as_mut_ptr(), buffer.len(), &raw mut found);
        if status == libc::ERANGE && buffer.len() < 1 << 20 {
            buffer.resize(buffer.len() * 2, 0);
            continue;
        }
        if status != 0 || found.is_null() {
            return None;
        }
        // SAFETY: the lookup found the entry, so the entry is initialized.
        return Some(read(unsafe { entry.assume_init_ref() }));
    }
}
