// SPDX-License-Identifier: LGPL-3.0-only
//! The functions that abi.c forwards to. Each converts C arguments to Rust values and calls the host.
//!
//! Contract of the table (`struct host_ops`): texts are NUL-terminated and valid during the call; `slot` is the
//! argument of `plugin_new`, `host` the result of `host_of`; watchers and futures are results of `*_create`, `rpc`,
//! `commit` and `lookup`.
//! Results: >= 0 success, -errno failure.

mod aux_values;
mod futures;

use aux_values::{aux_get, aux_set, handle_aux_get, handle_aux_set};
use futures::{commit, future_then, lookup, lookup_get, rpc};
use std::ffi::{c_char, c_double, c_int, c_void};

use serde_json::{Map, Value, json};

use super::abi::{CArgs, CMsg, ContinuationFn, MessageFn, PluginFn, WatcherFn, rust_text};
use super::aux::FreeFn;
use super::fault::inject_fault;
use super::host::Host;
use super::job::{Errno, State};
use super::plugin::Plugin;
use super::reactor::{ObjectKind, Tag};
use super::service::Service;

/// `FLUX_JOBTAP_CURRENT_JOB`.
const CURRENT_JOB: u64 = u64::MAX;

type Slot = *mut c_void;
type Text = *const c_char;

/// Defines the table of the host's functions. Each row names a function of this module, and its type.
macro_rules! host_ops {
    ($($name:ident: $type:ty,)*) => {
        /// `struct host_ops` of abi.h.
        #[repr(C)]
        pub(super) struct HostOps {
            $($name: $type),*
        }

        /// The table of the host's functions.
        pub(super) static HOST_OPS: HostOps = HostOps { $($name),* };
    };
}

host_ops! {
    set_name: extern "C" fn(Slot, Text) -> c_int,
    add_handler: extern "C" fn(Slot, Text, PluginFn, *mut c_void) -> c_int,
    aux_set: extern "C" fn(Slot, Text, *mut c_void, Option<FreeFn>) -> c_int,
    aux_get: extern "C" fn(Slot, Text) -> *mut c_void,
    host_of: extern "C" fn(Slot) -> *mut c_void,
    service: extern "C" fn(Slot, Text, u32, MessageFn, *mut c_void) -> c_int,
    load_order: extern "C" fn(Slot, Text) -> c_int,
    reprioritize_all: extern "C" fn(Slot) -> c_int,
    reprioritize_job: extern "C" fn(Slot, u64, u32) -> c_int,
    dependency: extern "C" fn(Slot, u64, c_int, Text) -> c_int,
    raise: extern "C" fn(Slot, u64, Text, c_int, Text) -> c_int,
    event_post: extern "C" fn(Slot, u64, Text, Text) -> c_int,
    jobspec_update: extern "C" fn(Slot, Text) -> c_int,
    jobspec_update_id: extern "C" fn(Slot, u64, Text) -> c_int,
    job_lookup: extern "C" fn(Slot, u64, *mut *mut CArgs) -> c_int,
    subscribe: extern "C" fn(Slot, u64, c_int) -> c_int,
    respond: extern "C" fn(*mut c_void, *const CMsg, c_int, Text) -> c_int,
    log: extern "C" fn(*mut c_void, c_int, Text),
    watcher_create: extern "C" fn(*mut c_void, c_double, WatcherFn, *mut c_void) -> *mut c_void,
    watcher_arm: extern "C" fn(*mut c_void, c_int),
    watcher_reset: extern "C" fn(*mut c_void, c_double),
    destroy: extern "C" fn(*mut c_void),
    now: extern "C" fn(*mut c_void) -> c_double,
    rpc: extern "C" fn(*mut c_void, Text, Text) -> *mut c_void,
    commit: extern "C" fn(*mut c_void, c_int, *const Text, *const Text) -> *mut c_void,
    lookup: extern "C" fn(*mut c_void, Text) -> *mut c_void,
    future_then: extern "C" fn(*mut c_void, ContinuationFn, *mut c_void) -> c_int,
    lookup_get: extern "C" fn(*mut c_void, *mut Text) -> c_int,
    inject_fault: extern "C" fn(Text) -> c_int,
    handle_aux_set: extern "C" fn(*mut c_void, Text, *mut c_void, Option<FreeFn>) -> c_int,
    handle_aux_get: extern "C" fn(*mut c_void, Text) -> *mut c_void,
}

fn plugin_at<'a>(slot: Slot) -> &'a Plugin {
    // SAFETY: by the contract `slot` is the address of a Plugin. The Rc of the plugin keeps it alive while the .so is loaded, and
    // only the .so calls this function. Plugin has interior mutability only.
    unsafe { &*slot.cast::<Plugin>() }
}

fn host_at<'a>(pointer: *const c_void) -> &'a Host {
    // SAFETY: by the contract `host_of` returned the pointer, and the Host outlives its plugins.
    unsafe { &*pointer.cast::<Host>() }
}

fn host_of_slot(slot: Slot) -> &'static Host {
    host_at(plugin_at(slot).host.cast())
}

/// Returns the host and the key of a watcher or future.
fn object_at<'a>(pointer: *mut c_void) -> (&'a Host, usize) {
    // SAFETY: by the contract `pointer` is a watcher or future that the agenda created and that is not destroyed.
    let tag = unsafe { &*pointer.cast::<Tag>() };
    (host_at(tag.host.cast()), tag.key)
}

fn read_text(pointer: Text) -> Option<String> {
    // SAFETY: by the contract the pointer is null or a NUL-terminated string.
    unsafe { rust_text(pointer) }
}

/// Runs a call unless a fault is injected into it, and returns the result as a C function does.
fn run_call(slot: Slot, call: &'static str, act: impl FnOnce(&Plugin, &Host) -> Result<(), Errno>) -> c_int {
    let (plugin, host) = (plugin_at(slot), host_of_slot(slot));
    run_host_call(host, call, || act(plugin, host))
}

/// Carries out a call, unless a test makes the call fail.
fn run_host_call(host: &Host, call: &'static str, act: impl FnOnce() -> Result<(), Errno>) -> c_int {
    host.inject_fault(call).unwrap_or_else(|| act().map_or_else(|Errno(errno)| -errno, |()| 0))
}

fn read_updates(pointer: Text) -> Result<Map<String, Value>, Errno> {
    read_text(pointer).and_then(|text| serde_json::from_str(&text).ok()).ok_or(Errno::EINVAL)
}

/// Returns the id of an existing job. `CURRENT_JOB` is the job of the innermost callback, which Flux does not look up.
fn find_job(host: &Host, id: u64, call: &str) -> Result<u64, Errno> {
    let id = if id == CURRENT_JOB { host.current_job().ok_or(Errno::ENOENT)? } else { id };
    host.on_lookup(id, call);
    host.state(id).map(|_| id).ok_or(Errno::ENOENT)
}

fn find_active_job(host: &Host, id: u64, call: &str) -> Result<u64, Errno> {
    let id = find_job(host, id, call)?;
    if host.state(id) == Some(State::Inactive) { Err(Errno::ENOENT) } else { Ok(id) }
}

extern "C" fn set_name(slot: Slot, name: Text) -> c_int {
    plugin_at(slot).set_name.replace(read_text(name));
    0
}

extern "C" fn add_handler(slot: Slot, topic: Text, callback: PluginFn, data: *mut c_void) -> c_int {
    run_call(slot, "flux_plugin_add_handler", |plugin, _| {
        plugin.add_handler(read_text(topic).unwrap_or_default(), callback, data);
        Ok(())
    })
}

extern "C" fn host_of(slot: Slot) -> *mut c_void {
    plugin_at(slot).host.cast_mut().cast()
}

extern "C" fn service(
    slot: Slot,
    method: Text,
    rolemask: u32,
    callback: MessageFn,
    data: *mut c_void,
) -> c_int {
    run_call(slot, "flux_jobtap_service_register_ex", |plugin, _| {
        let name = plugin.set_name.borrow().clone().filter(|name| !name.contains('/'));
        let name = name.ok_or(Errno::EINVAL)?;
        let method = read_text(method).map(|method| format!(".{method}")).unwrap_or_default();
        let topic = format!("job-manager.{name}{method}");
        plugin.services.borrow_mut().push(Service { topic, rolemask, callback, data });
        Ok(())
    })
}

extern "C" fn load_order(slot: Slot, mode: Text) -> c_int {
    run_call(slot, "flux_jobtap_set_load_sort_order", |plugin, _| {
        match read_text(mode).as_deref() {
            Some("none") => plugin.loads_last_state_first.set(false),
            Some("-state") => plugin.loads_last_state_first.set(true),
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    })
}

extern "C" fn reprioritize_all(slot: Slot) -> c_int {
    run_call(slot, "flux_jobtap_reprioritize_all", |_, host| {
        host.reprioritize_all();
        Ok(())
    })
}

extern "C" fn reprioritize_job(slot: Slot, id: u64, priority: u32) -> c_int {
    run_call(slot, "flux_jobtap_reprioritize_job", |_, host| host.reprioritize_id(id, i64::from(priority)))
}

extern "C" fn dependency(slot: Slot, id: u64, add: c_int, name: Text) -> c_int {
    let call = if add != 0 { "flux_jobtap_dependency_add" } else { "flux_jobtap_dependency_remove" };
    run_call(slot, call, |_, host| {
        host.on_lookup(id, "flux_jobtap_dependency_add or _remove");
        // Flux accepts only the ids of active jobs in these calls, and not CURRENT_JOB.
        let state = host.state(id).filter(|state| *state != State::Inactive).ok_or(Errno::ENOENT)?;
        let name = read_text(name).unwrap_or_default();
        if !matches!(state, State::New | State::Depend) {
            return Err(Errno::EINVAL);
        }
        let is_outstanding = host.job(id, |job| job.dependencies.contains(&name)) == Some(true);
        if add != 0 && is_outstanding {
            return Ok(());
        }
        let event = if add != 0 { "dependency-add" } else { "dependency-remove" };
        host.post_event(id, event, Some(json!({"description": name})))
    })
}

extern "C" fn raise(slot: Slot, id: u64, kind: Text, severity: c_int, note: Text) -> c_int {
    let call = "flux_jobtap_raise_exception";
    run_call(slot, call, |_, host| {
        let (kind, note) = (read_text(kind).unwrap_or_default(), read_text(note).unwrap_or_default());
        let id = find_active_job(host, id, call)?;
        host.raise_exception(id, &kind, severity, host.options.owner, &note)
    })
}

extern "C" fn event_post(slot: Slot, id: u64, name: Text, context: Text) -> c_int {
    let call = "flux_jobtap_event_post_pack";
    run_call(slot, call, |_, host| {
        let context = read_text(context).and_then(|text| serde_json::from_str(&text).ok());
        let id = find_active_job(host, id, call)?;
        host.post_event(id, &read_text(name).unwrap_or_default(), context)
    })
}

extern "C" fn jobspec_update(slot: Slot, pointer: Text) -> c_int {
    run_call(slot, "flux_jobtap_jobspec_update_pack", |_, host| host.collect_update(read_updates(pointer)?))
}

extern "C" fn jobspec_update_id(slot: Slot, id: u64, pointer: Text) -> c_int {
    let call = "flux_jobtap_jobspec_update_id_pack";
    run_call(slot, call, |_, host| {
        host.on_lookup(id, call);
        host.update_by_id(id, read_updates(pointer)?)
    })
}

extern "C" fn job_lookup(slot: Slot, id: u64, args: *mut *mut CArgs) -> c_int {
    let call = "flux_jobtap_job_lookup";
    run_call(slot, call, |_, host| {
        let id = find_job(host, id, call)?;
        let found = host.job_args(id, &[]).ok_or(Errno::EINVAL)?;
        // SAFETY: abi.c passes the address of its own local variable.
        unsafe { *args = found.into_raw() };
        Ok(())
    })
}

/// Adds or removes one subscription. A plugin may subscribe to a job several times.
extern "C" fn subscribe(slot: Slot, id: u64, on: c_int) -> c_int {
    let call = if on == 0 { "flux_jobtap_job_unsubscribe" } else { "flux_jobtap_job_subscribe" };
    run_call(slot, call, |plugin, host| {
        let uid = plugin.uid;
        let id = find_active_job(host, id, "flux_jobtap_job_subscribe or _unsubscribe")?;
        host.job_mut(id, |job| match job.subscribers.iter().position(|&other| other == uid) {
            Some(at) if on == 0 => drop(job.subscribers.remove(at)),
            _ if on != 0 => job.subscribers.push(uid),
            _ => {}
        });
        Ok(())
    })
}

extern "C" fn respond(pointer: *mut c_void, message: *const CMsg, errnum: c_int, answer: Text) -> c_int {
    let host = host_at(pointer);
    run_host_call(host, "flux_respond", || host.respond(message, errnum, read_text(answer)))
}

extern "C" fn log(pointer: *mut c_void, level: c_int, line: Text) {
    host_at(pointer).log(level, read_text(line).unwrap_or_default());
}

extern "C" fn watcher_create(
    pointer: *mut c_void,
    after: c_double,
    callback: WatcherFn,
    data: *mut c_void,
) -> *mut c_void {
    let host = host_at(pointer);
    if host.inject_fault("flux_timer_watcher_create").is_some() {
        return std::ptr::null_mut();
    }
    host.store.borrow_mut().agenda.create(host, ObjectKind::Timer { after, callback, data })
}

extern "C" fn watcher_arm(watcher: *mut c_void, is_started: c_int) {
    let (host, key) = object_at(watcher);
    host.store.borrow_mut().agenda.arm(key, is_started != 0);
}

extern "C" fn watcher_reset(watcher: *mut c_void, after: c_double) {
    let (host, key) = object_at(watcher);
    host.store.borrow_mut().agenda.reset_timer(key, after);
}

extern "C" fn destroy(object: *mut c_void) {
    let (host, key) = object_at(object);
    host.store.borrow_mut().agenda.destroy(key);
}

extern "C" fn now(pointer: *mut c_void) -> c_double {
    host_at(pointer).now()
}
