// SPDX-License-Identifier: LGPL-3.0-only
//! Calls into Flux that fail, and answers that lie: for tests of what becomes of a plugin then.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int};

use super::host::Host;
use super::job::Errno;
use super::reactor::Wanted;

thread_local! {
    /// Whose plugin's code this thread runs, or null.
    static HOST: Cell<*const Host> = const { Cell::new(std::ptr::null()) };
}

/// Whether this thread runs a plugin's code, or what that has called: for an allocator that fails for plugins alone.
pub fn is_in_plugin() -> bool {
    !HOST.get().is_null()
}

pub(super) fn as_plugin<T>(host: &Host, code: impl FnOnce() -> T) -> T {
    let former = HOST.replace(host);
    let result = code();
    HOST.set(former);
    result
}

/// `-errno` if a call is to fail that names neither plugin nor host.
pub(super) extern "C" fn strikes(call: *const c_char) -> c_int {
    // SAFETY: abi_jobtap.c passes a literal.
    let call = unsafe { CStr::from_ptr(call) }.to_str().unwrap_or_default();
    let known = Host::FALLIBLE.iter().find(|known| **known == call);
    // SAFETY: the host outlives the code of its plugins, in which this is called, or there is none.
    let host = unsafe { HOST.get().as_ref() };
    known.zip(host).and_then(|(known, host)| host.strikes(known)).unwrap_or(0)
}

/// Which call fails, and how.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Flux's function.
    pub call: &'static str,
    /// So many calls of it go well before.
    pub after: u64,
    /// So many fail then.
    pub times: u64,
    /// What with.
    pub errno: Errno,
}

/// What fails, and what was called.
#[derive(Default)]
pub(super) struct Faults {
    fault: Option<Fault>,
    calls: BTreeMap<&'static str, u64>,
    struck: u64,
}

impl Wanted {
    /// What a test calls it whose answer it chooses.
    pub(super) fn name(&self) -> &str {
        match self {
            Wanted::Key(name) | Wanted::Told(name) => name,
            Wanted::Dependencies(_) => "job-list.list-id",
            Wanted::Commit => "",
        }
    }
}

impl Host {
    /// The functions of Flux that can be made to fail. `flux_rpc_get` does with `flux_kvs_lookup_get`, with which it is one here.
    pub const FALLIBLE: [&'static str; 28] = [
        "flux_jobtap_service_register_ex",
        "flux_jobtap_set_load_sort_order",
        "flux_jobtap_reprioritize_all",
        "flux_jobtap_reprioritize_job",
        "flux_jobtap_dependency_add",
        "flux_jobtap_dependency_remove",
        "flux_jobtap_raise_exception",
        "flux_jobtap_event_post_pack",
        "flux_jobtap_jobspec_update_pack",
        "flux_jobtap_jobspec_update_id_pack",
        "flux_jobtap_job_lookup",
        "flux_jobtap_job_subscribe",
        "flux_jobtap_job_unsubscribe",
        "flux_plugin_aux_set",
        "flux_aux_set",
        "flux_request_decode",
        "flux_job_kvs_key",
        "flux_kvs_txn_create",
        "flux_kvs_txn_put",
        "flux_kvs_txn_unlink",
        "flux_plugin_add_handler",
        "flux_respond",
        "flux_timer_watcher_create",
        "flux_rpc",
        "flux_kvs_commit",
        "flux_kvs_lookup",
        "flux_future_then",
        "flux_kvs_lookup_get",
    ];

    /// From now on this fails; calls are counted from here.
    pub fn fails(&self, fault: Option<Fault>) {
        self.store.borrow_mut().faults = Faults { fault, ..Faults::default() };
    }

    /// How many calls failed for it, and how often each function was called.
    pub fn failed(&self) -> (u64, BTreeMap<&'static str, u64>) {
        let faults = &self.store.borrow().faults;
        (faults.struck, faults.calls.clone())
    }

    /// From now on this is the answer to a lookup of a KVS key, or to a request (by its topic),
    /// whatever is there: for tests of who lies. `None`: as it is.
    pub fn answers_with(&self, key: &str, text: Option<&str>) {
        let told = &mut self.store.borrow_mut().told;
        match text {
            Some(text) => told.insert(key.to_owned(), text.to_owned()),
            None => told.remove(key),
        };
    }

    /// `-errno` if this call is to fail.
    pub(super) fn strikes(&self, call: &'static str) -> Option<c_int> {
        let faults = &mut self.store.borrow_mut().faults;
        let count = faults.calls.entry(call).or_default();
        *count += 1;
        let fault = faults.fault.as_ref().filter(|fault| fault.call == call)?;
        if *count <= fault.after || *count > fault.after.saturating_add(fault.times) {
            return None;
        }
        faults.struck += 1;
        Some(-fault.errno.0)
    }
}
