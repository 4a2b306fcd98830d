// SPDX-License-Identifier: LGPL-3.0-only
//! Injects failures of Flux's functions and false responses, to test the reaction of a plugin.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int};

use super::host::Host;
use super::job::Errno;
use super::reactor::FutureRequest;

thread_local! {
    /// The host whose plugin code this thread runs, or null.
    static HOST: Cell<*const Host> = const { Cell::new(std::ptr::null()) };
}

/// Returns true if this thread runs plugin code, so that an allocator can fail for plugins only.
pub fn is_in_plugin() -> bool {
    !HOST.get().is_null()
}

/// Runs `code` as plugin code: while it runs, `host` is the host of this thread.
pub(super) fn run_as_plugin<T>(host: &Host, code: impl FnOnce() -> T) -> T {
    let former = HOST.replace(host);
    let result = code();
    HOST.set(former);
    result
}

/// Injects a fault into a call that has neither a plugin nor a host as argument. Returns `-errno` if the call must fail, and 0
/// otherwise.
pub(super) extern "C" fn inject_fault(call: *const c_char) -> c_int {
    // SAFETY: abi_jobtap.c passes a string literal.
    let call = unsafe { CStr::from_ptr(call) }.to_str().unwrap_or_default();
    let known = Host::FALLIBLE.split(' ').find(|known| *known == call);
    // SAFETY: only plugin code calls this function, and the host outlives its plugins. Outside of plugin code the pointer is null.
    let host = unsafe { HOST.get().as_ref() };
    known.zip(host).and_then(|(known, host)| host.inject_fault(known)).unwrap_or(0)
}

/// The function of Flux that fails, and which of its calls fail.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The name of the function.
    pub call: &'static str,
    /// The number of calls that succeed before the first failure.
    pub after: u64,
    /// The number of calls that fail, one after another.
    pub times: u64,
    /// The error that a failing call returns.
    pub errno: Errno,
}

/// The injected fault, and counts of calls.
#[derive(Default)]
pub(super) struct Faults {
    fault: Option<Fault>,
    calls: BTreeMap<&'static str, u64>,
    failures: u64,
}

impl FutureRequest {
    /// Returns the key by which a test sets the response with [`Host::set_response`].
    pub(super) fn name(&self) -> &str {
        match self {
            FutureRequest::Key(name) | FutureRequest::Other(name) => name,
            FutureRequest::Dependencies(_) => "job-list.list-id",
            FutureRequest::EndedJobs(_) => "job-list.list",
            FutureRequest::Commit => "",
        }
    }
}

impl Host {
    /// The functions of Flux that can fail. A fault in `flux_kvs_lookup_get` also makes `flux_rpc_get` fail, because both
    /// share one implementation.
    pub const FALLIBLE: &'static str = "flux_jobtap_service_register_ex flux_jobtap_set_load_sort_order flux_jobtap_reprioritize_all \
        flux_jobtap_reprioritize_job flux_jobtap_dependency_add flux_jobtap_dependency_remove \
        flux_jobtap_raise_exception flux_jobtap_event_post_pack flux_jobtap_jobspec_update_pack \
        flux_jobtap_jobspec_update_id_pack flux_jobtap_job_lookup flux_jobtap_job_subscribe \
        flux_jobtap_job_unsubscribe flux_plugin_aux_set flux_aux_set flux_request_decode flux_job_kvs_key \
        flux_kvs_txn_create flux_kvs_txn_put flux_kvs_txn_unlink flux_plugin_add_handler flux_respond \
        flux_timer_watcher_create flux_rpc flux_kvs_commit flux_kvs_lookup flux_future_then \
        flux_kvs_lookup_get";

    /// Sets or removes the fault, and sets the counts of calls to 0.
    pub fn set_fault(&self, fault: Option<Fault>) {
        self.store.borrow_mut().faults = Faults { fault, ..Faults::default() };
    }

    /// Returns the number of calls that failed because of [`Host::set_fault`], and the number of calls of each function.
    pub fn fault_counts(&self) -> (u64, BTreeMap<&'static str, u64>) {
        let faults = &self.store.borrow().faults;
        (faults.failures, faults.calls.clone())
    }

    /// Makes `text` the response to each lookup of the KVS key `key`, or to each request with the topic `key`. If `key` is a topic, a space and
    /// a name, only requests with this name get the response. `None` restores the host's own response.
    pub fn set_response(&self, key: &str, text: Option<&str>) {
        let answers = &mut self.store.borrow_mut().forced_answers;
        match text {
            Some(text) => answers.insert(key.to_owned(), text.to_owned()),
            None => answers.remove(key),
        };
    }

    /// Counts a call of a function. Returns `-errno` if [`Host::set_fault`] has made this call fail.
    pub(super) fn inject_fault(&self, call: &'static str) -> Option<c_int> {
        let faults = &mut self.store.borrow_mut().faults;
        let count = faults.calls.entry(call).or_default();
        *count += 1;
        let fault = faults.fault.as_ref().filter(|fault| fault.call == call)?;
        if *count <= fault.after || *count > fault.after.saturating_add(fault.times) {
            return None;
        }
        faults.failures += 1;
        Some(-fault.errno.0)
    }
}
