// SPDX-License-Identifier: LGPL-3.0-only
//! Calls from the plugin into Flux. Each call may re-enter the plugin's callbacks before it returns.

use super::error::Error;
use super::pending::Future;
use super::sys;
use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::{NonNull, null};

/// The plugin handle, and the job manager's handle and reactor. The handles exist while the plugin is loaded, so all code of the
/// plugin can use them.
#[derive(Clone, Copy)]
pub struct Plugin {
    raw: NonNull<sys::flux_plugin_t>,
    /// The job manager's handle, or null. Flux removes it from the plugin handle before it destroys the plugin's state.
    pub(super) flux: *mut sys::flux_t,
    /// The job manager's reactor. Flux finds the reactor by a linear search, and the plugin reads the time often.
    pub(super) reactor: *mut sys::flux_reactor_t,
}

/// Levels of syslog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum LogLevel {
    /// LOG_ERR.
    Error = 3,
    /// LOG_WARNING.
    Warning = 4,
    /// LOG_INFO.
    Info = 6,
    /// LOG_DEBUG.
    Debug = 7,
}

/// The maximum size of an exception's note (`flux_jobtap_raise_exception`) in bytes.
const NOTE_MAX: usize = 1023;
/// The maximum size of a log line in bytes. It leaves space for Flux's prefix (`FLUX_MAX_LOGBUF` is 2048).
const LOG_MAX: usize = 1900;
/// The maximum size of the error text of a reply, in bytes.
pub(super) const REFUSAL_MAX: usize = 1000;
/// `FLUX_RPC_NORESPONSE`.
const NO_RESPONSE: c_int = 1;
/// `FLUX_NODEID_ANY`.
const NODEID_ANY: u32 = u32::MAX;

/// Returns `text` as a C string, with each NUL replaced by a space.
pub(super) fn to_c_string(text: &str) -> CString {
    CString::new(text).unwrap_or_else(|_| CString::new(text.replace('\0', " ")).unwrap_or_default())
}

/// Returns `text` as a C string of one line with at most `max_bytes` bytes. Flux would cut a longer text at any byte
/// and then drop the invalid UTF-8. Line breaks and terminal control characters, which user text may contain, are
/// escaped.
pub(super) fn make_one_line_c_string(text: &str, max_bytes: usize) -> CString {
    const CUT: &str = "...";
    let mut line = String::new();
    for letter in text.chars() {
        if needs_escape(letter) {
            line.extend(letter.escape_default());
        } else {
            line.push(letter);
        }
        if line.len() > max_bytes {
            let end = line.floor_char_boundary(max_bytes.saturating_sub(CUT.len()));
            line.truncate(end);
            line.push_str(CUT);
            break;
        }
    }
    to_c_string(&line)
}

/// Returns true if `letter` is a control character, a line separator, or a mark that changes the direction of writing.
fn needs_escape(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

impl Plugin {
    /// # Safety
    /// `raw` is null or the handle Flux passes to this plugin.
    pub(super) unsafe fn from_raw(raw: *mut sys::flux_plugin_t) -> Option<Self> {
        let raw = NonNull::new(raw)?;
        // SAFETY: the handle is valid.
        let flux = unsafe { sys::flux_jobtap_get_flux(raw.as_ptr()) };
        // SAFETY: the job manager's handle has a reactor. Flux returns null for a null handle.
        let reactor = unsafe { sys::flux_get_reactor(flux) };
        Some(Plugin { raw, flux, reactor })
    }

    /// Returns a plugin handle for tests that do not call Flux.
    #[cfg(test)]
    pub(super) fn dangling() -> Self {
        Plugin { raw: NonNull::dangling(), flux: std::ptr::null_mut(), reactor: std::ptr::null_mut() }
    }

    pub(super) fn as_ptr(self) -> *mut sys::flux_plugin_t {
        self.raw.as_ptr()
    }

    /// Returns the start time of the reactor's current turn, in seconds since the epoch.
    pub fn now(self) -> f64 {
        // SAFETY: the reactor lives longer than the plugin.
        unsafe { sys::flux_reactor_now(self.reactor) }
    }

    /// Returns the load-time configuration as JSON text, or `None` if none exists.
    pub fn config(self) -> Option<String> {
        // SAFETY: the handle is valid; the text is borrowed from the handle, and copied here.
        unsafe {
            let text = sys::flux_plugin_get_conf(self.as_ptr());
            (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        }
    }

    /// Sets the order in which Flux replays jobs when it loads the plugin.
    pub fn set_load_order(self, order: &CStr) -> Result<(), Error> {
        // SAFETY: the handle is valid; Flux copies the text.
        let rc = unsafe { sys::flux_jobtap_set_load_sort_order(self.as_ptr(), order.as_ptr()) };
        Error::check_rc("flux_jobtap_set_load_sort_order", rc)
    }

    /// Writes `text` to Flux's log.
    pub fn log(self, level: LogLevel, text: &str) {
        let text = make_one_line_c_string(text, LOG_MAX);
        // SAFETY: the job manager's handle outlives all plugins; flux_log writes to standard error if the handle is
        // null. The format is a constant that takes one C string.
        unsafe { sys::flux_log(self.flux, level as c_int, c"%s".as_ptr(), text.as_ptr()) };
    }

    /// Adds the dependency `name` to a job in DEPEND.
    pub fn add_dependency(self, id: u64, name: &str) -> Result<(), Error> {
        let name = to_c_string(name);
        // SAFETY: the handle is valid; Flux copies the text.
        let rc = unsafe { sys::flux_jobtap_dependency_add(self.as_ptr(), id, name.as_ptr()) };
        Error::check_rc("flux_jobtap_dependency_add", rc)
    }

    /// Removes the dependency `name` from a job.
    pub fn remove_dependency(self, id: u64, name: &str) -> Result<(), Error> {
        let name = to_c_string(name);
        // SAFETY: the handle is valid; Flux copies the text.
        let rc = unsafe { sys::flux_jobtap_dependency_remove(self.as_ptr(), id, name.as_ptr()) };
        Error::check_rc("flux_jobtap_dependency_remove", rc)
    }

    /// Raises a fatal exception of type `kind`. The note is cut to the size of Flux's buffer.
    pub fn raise_exception(self, id: u64, kind: &CStr, note: &str) -> Result<(), Error> {
        let note = make_one_line_c_string(note, NOTE_MAX);
        let (raw, format) = (self.as_ptr(), c"%s".as_ptr());
        // SAFETY: the handle is valid; the format is a constant that takes one C string.
        let rc =
            unsafe { sys::flux_jobtap_raise_exception(raw, id, kind.as_ptr(), 0, format, note.as_ptr()) };
        Error::check_rc("flux_jobtap_raise_exception", rc)
    }

    /// Posts a memo with one number to a job's eventlog.
    pub fn post_memo(self, id: u64, key: &CStr, value: f64) -> Result<(), Error> {
        let (raw, name, format) = (self.as_ptr(), c"memo".as_ptr(), c"{s:f}".as_ptr());
        // SAFETY: the handle is valid; the format takes a C string (the key) and a double.
        let rc = unsafe { sys::flux_jobtap_event_post_pack(raw, id, name, format, key.as_ptr(), value) };
        Error::check_rc("flux_jobtap_event_post_pack", rc)
    }

    /// Sets two string members of the jobspec of job `id`, or of the current job if `id` is `None`. A member with the
    /// value `None` does not change.
    pub fn update_jobspec(self, id: Option<u64>, updates: [(&CStr, Option<&str>); 2]) -> Result<(), Error> {
        let [(key, text), (key2, text2)] = updates.map(|(key, text)| (key.as_ptr(), text.map(to_c_string)));
        let [text, text2] = [&text, &text2].map(|text| text.as_ref().map_or(null(), |text| text.as_ptr()));
        // jansson omits a member of type `s*` if its string is null.
        let (raw, format) = (self.as_ptr(), c"{s:s* s:s*}".as_ptr());
        // SAFETY: the handle is valid; the format takes four C strings, of which the second and the fourth may be null.
        let rc = unsafe {
            match id {
                None => sys::flux_jobtap_jobspec_update_pack(raw, format, key, text, key2, text2),
                Some(id) => sys::flux_jobtap_jobspec_update_id_pack(raw, id, format, key, text, key2, text2),
            }
        };
        Error::check_rc("flux_jobtap_jobspec_update_pack", rc)
    }

    /// Makes Flux ask for the priority of all jobs in PRIORITY and SCHED before this call returns.
    pub fn reprioritize_all(self) -> Result<(), Error> {
        // SAFETY: the handle is valid.
        let rc = unsafe { sys::flux_jobtap_reprioritize_all(self.as_ptr()) };
        Error::check_rc("flux_jobtap_reprioritize_all", rc)
    }

    /// Makes Flux call `job.event.NAME` for the events of job `id`.
    pub fn subscribe_to_job(self, id: u64) -> Result<(), Error> {
        // SAFETY: the handle is valid.
        let rc = unsafe { sys::flux_jobtap_job_subscribe(self.as_ptr(), id) };
        Error::check_rc("flux_jobtap_job_subscribe", rc)
    }

    /// Ends the subscription to a job's events. At each event Flux searches the plugin's list of subscriptions from its
    /// front, and the list keeps jobs that have been freed.
    pub fn unsubscribe_from_job(self, id: u64) {
        // SAFETY: the handle is valid; Flux ignores an id that is not in the list.
        unsafe { sys::flux_jobtap_job_unsubscribe(self.as_ptr(), id) };
    }

    /// Sets the priority of a job in PRIORITY or SCHED. A job in PRIORITY proceeds to SCHED even if its priority does
    /// not change.
    pub fn reprioritize_job(self, id: u64, priority: u32) -> Result<(), Error> {
        // SAFETY: the handle is valid.
        let rc = unsafe { sys::flux_jobtap_reprioritize_job(self.as_ptr(), id, priority) };
        Error::check_rc("flux_jobtap_reprioritize_job", rc)
    }

    /// Starts a request that the job manager answers when it has sent all events posted so far to the KVS. The job manager
    /// sends its events in batches, and answers a submission only after the batch is sent. So this function submits an
    /// empty list of jobs.
    pub(super) fn await_batch(self) -> Result<Future, Error> {
        self.send_request(c"job-manager.submit", "{\"jobs\":[]}")
    }

    /// Sends a request to a service.
    pub(super) fn send_request(self, topic: &CStr, payload: &str) -> Result<Future, Error> {
        self.call_service(topic, payload, 0)
    }

    /// Sends a request without a reply.
    pub fn send_without_reply(self, topic: &CStr, payload: &str) -> Result<(), Error> {
        self.call_service(topic, payload, NO_RESPONSE).map(drop)
    }

    fn call_service(self, topic: &CStr, payload: &str, flags: c_int) -> Result<Future, Error> {
        let payload = to_c_string(payload);
        // SAFETY: topic and payload are copied.
        let future = unsafe { sys::flux_rpc(self.flux, topic.as_ptr(), payload.as_ptr(), NODEID_ANY, flags) };
        Future::own("flux_rpc", future)
    }

    /// Starts reading a job's eventlog.
    pub(super) fn read_eventlog(self, id: u64) -> Result<Future, Error> {
        let mut key: [c_char; 128] = [0; 128];
        // SAFETY: Flux writes at most `key.len()` bytes into the buffer, including the final NUL.
        let rc =
            unsafe { sys::flux_job_kvs_key(key.as_mut_ptr(), key.len() as c_int, id, c"eventlog".as_ptr()) };
        Error::check_rc("flux_job_kvs_key", rc)?;
        // SAFETY: Flux has just written the key, which ends with NUL.
        self.start_look_up(unsafe { CStr::from_ptr(key.as_ptr()) }, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::make_one_line_c_string;

    #[test]
    fn a_c_string_has_no_line_breaks_and_is_cut_between_characters() {
        for (text, most, cut) in [
            ("short", 5, "short"),
            ("longer", 5, "lo..."),
            ("üüü", 6, "üüü"),
            ("üüüü", 7, "üü..."),
            ("xüüü", 6, "xü..."),
            ("a\0b", 9, "a\\u{0}b"),
            ("long", 2, "..."),
            ("x\nbroker.err: y\r", 99, "x\\nbroker.err: y\\r"),
            ("\u{1b}[2J\u{9b}m", 99, "\\u{1b}[2J\\u{9b}m"),
            ("a\u{202e}b\u{2028}c", 99, "a\\u{202e}b\\u{2028}c"),
            ("%s%n", 9, "%s%n"),
            ("ƒ58 \\ \"q\" '", 99, "ƒ58 \\ \"q\" '"),
        ] {
            assert_eq!(make_one_line_c_string(text, most).to_str(), Ok(cut), "{text} within {most}");
        }
    }
}
