// SPDX-License-Identifier: LGPL-3.0-only
//! Parses and formats job ids in the forms of Flux: f58, decimal, hexadecimal, dotted, words, KVS path.

use std::ffi::{CStr, CString, c_char};

use super::Flux;

/// Buffer size for a job id. The longest form is the form of words.
const LONGEST: usize = 256;

impl Flux {
    /// Parses a job id in any form of Flux. Returns `None` for any other text.
    pub fn parse_job_id(&self, text: &str) -> Option<u64> {
        let text = CString::new(text).ok()?;
        let mut id = 0;
        // SAFETY: flux_job_id_parse(3) reads a C string and writes the id; both outlive the call.
        let status = unsafe { (self.api.job_id_parse)(text.as_ptr(), &raw mut id) };
        (status == 0).then_some(id)
    }

    /// Formats a job id as Flux's own commands do: f58, with the prefix that the locale allows.
    pub fn format_job_id(&self, id: u64) -> String {
        let mut buffer: [c_char; LONGEST] = [0; LONGEST];
        // SAFETY: flux_job_id_encode(3) writes a C string of at most the length given.
        let status =
            unsafe { (self.api.job_id_encode)(id, c"f58".as_ptr(), buffer.as_mut_ptr(), buffer.len()) };
        if status < 0 {
            return id.to_string();
        }
        // SAFETY: the call above wrote the string and its terminating NUL.
        unsafe { CStr::from_ptr(buffer.as_ptr()) }.to_string_lossy().into_owned()
    }
}
