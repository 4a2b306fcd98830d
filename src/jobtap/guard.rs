// SPDX-License-Identifier: LGPL-3.0-only
//! The entry points from C: one trampoline for callbacks, one for RPCs, one for timers. The entry point for replies is in
//! `pending`.
//!
//! Invariants: nothing unwinds into C. A panic is logged with its source location, the interrupted call gets
//! its safe answer ([`Jobtap::set_safe_answer`]), and the plugin begins to repair its state
//! ([`Jobtap::recover`]) before its next call. All memory belongs to the plugin handle's aux and is freed
//! with it. There are no statics and no thread-locals, which would keep the .so mapped.

use super::deferred::{decode_request, send_reply};
use super::error::EIO;
use super::hook::{self, Hook};
use super::load_refusal::fail_load;
use super::pending::{PendingRequests, RequestId};
use super::reads::Reads;
use super::shared::{address, borrow_from_c, give_to_c, take_from_c};
use super::single_instance::SingleInstance;
use super::timers::Timer;
use super::{Args, Failed, Jobtap, LogLevel, Method, Plugin, Request, sys};
use std::cell::{OnceCell, RefCell};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{null, null_mut};
use std::rc::Rc;

/// The state of one loaded plugin. C stores its address, so the plugin never has a `&mut` to it (see module `shared`).
pub(super) struct Instance<J: Jobtap> {
    pub(super) plugin: Plugin,
    pub(super) jobtap: J,
    /// The services, one per method, in the order of the method table. Flux passes the address of a service with each
    /// request.
    services: OnceCell<Box<[Rc<Service<J>>]>>,
    /// The timers, in the order of [`Jobtap::TIMERS`].
    timers: OnceCell<Box<[Rc<Timer>]>>,
    pub(super) reads: RefCell<Reads>,
    pub(super) pending: PendingRequests,
    #[cfg(feature = "fault")]
    faults: super::fault::Faults,
    hook: OnceCell<Hook>,
    mark: OnceCell<SingleInstance>,
}

pub(super) struct Service<J: Jobtap> {
    /// The address of the instance.
    instance: *mut c_void,
    method: &'static Method<J>,
}

/// The context of a call by Flux: its time, and access to the plugin's timers and requests.
pub struct Host<'a, J: Jobtap> {
    pub(super) instance: &'a Instance<J>,
    now: f64,
}

impl<J: Jobtap> Clone for Host<'_, J> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<J: Jobtap> Copy for Host<'_, J> {}

impl<J: Jobtap> Host<'_, J> {
    /// Returns the plugin handle.
    pub fn plugin(self) -> Plugin {
        self.instance.plugin
    }

    /// Returns the time of this call, in seconds since the epoch: the reactor's time, read once when the call began.
    pub fn now(self) -> f64 {
        self.now
    }

    /// Returns a copy with the time `now`.
    pub fn with_time(self, now: f64) -> Self {
        Host { now, ..self }
    }

    /// Makes the timer `timer` fire within `seconds`. If the timer is due earlier, its time does not change.
    pub fn arm_timer(self, timer: usize, seconds: f64) {
        if let Some(timer) = self.timer(timer) {
            timer.arm(self.instance.host().now, seconds);
        }
    }

    /// Makes the timer `timer` fire after `seconds`, even if the timer was due earlier.
    pub fn restart_timer(self, timer: usize, seconds: f64) {
        if let Some(timer) = self.timer(timer) {
            timer.restart(self.instance.host().now, seconds);
        }
    }

    fn timer(&self, timer: usize) -> Option<&Timer> {
        self.instance.timers.get()?.get(timer).map(|timer| &**timer)
    }

    /// Records that an effect begins. Tests may inject a panic here.
    pub fn note_that_effect_begins(self) {
        #[cfg(feature = "fault")]
        self.instance.faults.count_effect_for_fault_injection();
    }
}

impl<J: Jobtap> Instance<J> {
    /// Makes the instance with its services and timers, without registering them with Flux.
    pub(super) fn assemble(plugin: Plugin, jobtap: J) -> Rc<Self> {
        let instance = Rc::new(Instance {
            plugin,
            jobtap,
            services: OnceCell::new(),
            timers: OnceCell::new(),
            reads: RefCell::default(),
            pending: PendingRequests::default(),
            #[cfg(feature = "fault")]
            faults: super::fault::Faults::default(),
            hook: OnceCell::new(),
            mark: OnceCell::new(),
        });
        let instance_address = address(&instance);
        let service = |method| Rc::new(Service { instance: instance_address, method });
        instance.services.get_or_init(|| J::METHODS.iter().map(service).collect());
        instance.timers.get_or_init(|| {
            (0..J::TIMERS.len()).map(|index| Rc::new(Timer::new(instance_address, index))).collect()
        });
        instance
    }

    /// Returns the context of a call that begins now.
    pub(super) fn host(&self) -> Host<'_, J> {
        self.host_at(self.plugin.now())
    }

    pub(super) fn host_at(&self, now: f64) -> Host<'_, J> {
        Host { instance: self, now }
    }

    /// Returns one service for each method, in the order of the method table.
    pub(super) fn services(&self) -> impl Iterator<Item = &Rc<Service<J>>> {
        self.services.get().into_iter().flatten()
    }

    /// Returns the instance and the method of the service at `arg`.
    ///
    /// # Safety
    /// `arg` is the address of a service of an instance that lives for `'a`.
    pub(super) unsafe fn from_service<'a>(arg: *mut c_void) -> (&'a Self, &'static Method<J>) {
        // SAFETY: the caller passes the address of a service; the instance owns the service.
        unsafe {
            let service = borrow_from_c::<Service<J>>(arg);
            (borrow_from_c::<Self>(service.instance), service.method)
        }
    }

    /// Runs `body`, which handles a call about the job `id`. If `body` panics, logs the panic, cancels pending
    /// requests, makes the plugin repair its state, and returns `None`.
    pub(super) fn catch_panic<R>(
        &self,
        what: &str,
        id: impl FnOnce() -> Option<u64>,
        body: impl FnOnce() -> R,
    ) -> Option<R> {
        let result = catch_unwind(AssertUnwindSafe(|| {
            #[cfg(feature = "fault")]
            self.faults.record_call_start(what);
            let result = body();
            #[cfg(feature = "fault")]
            self.faults.mark_call_as_done();
            result
        }))
        .ok();
        #[cfg(feature = "fault")]
        self.faults.record_call_end();
        if result.is_none() {
            let text = format!(
                "{}: internal error in {what}; the plugin returns a safe answer and checks its state",
                J::title()
            );
            self.plugin.log(LogLevel::Error, &text);
            // Cancels requests that began before the panic: `recover` requests the data again.
            self.cancel_reads();
            self.cancel_requests(|id| id != RequestId::AwaitedKey);
            let _ = catch_unwind(AssertUnwindSafe(|| self.jobtap.recover(self.host(), id())));
        }
        result
    }
}

impl<J: Jobtap> Drop for Instance<J> {
    fn drop(&mut self) {
        drop(self.hook.take());
    }
}

/// Attaches the plugin's state to the handle, and registers callbacks and services. A failure is logged and fails the
/// load.
///
/// # Safety
/// `raw` is the handle that Flux passes to `flux_plugin_init`.
pub unsafe fn init<J: Jobtap>(raw: *mut c_void) -> c_int {
    // SAFETY: `raw` is the handle that Flux passes to `flux_plugin_init`.
    let Some(plugin) = (unsafe { Plugin::from_raw(raw.cast()) }) else { return -1 };
    let mark = match SingleInstance::claim(plugin.flux, J::NAME) {
        Ok(Some(mark)) => mark,
        Ok(None) => {
            let text = format!(
                "{}: already loaded, possibly under another name (see \"flux jobtap list\"); remove the loaded plugin first",
                J::title()
            );
            return fail_load(plugin, J::NAME, &text);
        }
        Err(error) => return fail_load(plugin, J::NAME, &format!("{}: {error}", J::title())),
    };
    let hook = hook::install_hook::<J>(plugin);
    let failed = match catch_unwind(AssertUnwindSafe(|| register::<J>(plugin))) {
        Ok(Ok(instance)) => {
            let _ = instance.hook.set(hook);
            let _ = instance.mark.set(mark);
            return 0;
        }
        Ok(Err(failed)) => failed,
        Err(_) => format!("{}: internal error while loading", J::title()).into(),
    };
    drop(hook);
    plugin.log(LogLevel::Error, &failed.text);
    if failed.has_callbacks { -1 } else { fail_load(plugin, J::NAME, &failed.text) }
}

/// The error of a failed load.
struct LoadError {
    text: String,
    /// True if some callbacks are already registered. Flux would call one of them instead of the callback of
    /// `fail_load`, which reports the error to the client. So only the log gets the error text.
    has_callbacks: bool,
}

impl From<String> for LoadError {
    fn from(text: String) -> Self {
        LoadError { text, has_callbacks: false }
    }
}

fn register<J: Jobtap>(plugin: Plugin) -> Result<Rc<Instance<J>>, LoadError> {
    let instance = Instance::assemble(plugin, J::load(plugin)?);
    let describe = |what: &str| format!("{}: {what}: {}", J::title(), std::io::Error::last_os_error());
    let arg = address(&instance);
    let mut timers = instance.timers.get().into_iter().flatten();
    if !timers.all(|timer| Timer::create_watcher(timer, plugin, Some(on_timer::<J>))) {
        return Err(describe("flux_timer_watcher_create").into());
    }
    let given_address = give_to_c(instance.clone());
    // SAFETY: Flux now owns this reference count, and returns it through `free_instance` after the last callback,
    // service and timer. If Flux refuses the count, this function still owns it.
    let rc =
        unsafe { sys::flux_plugin_aux_set(plugin.as_ptr(), null(), given_address, Some(free_instance::<J>)) };
    if rc < 0 {
        let text = describe("flux_plugin_aux_set");
        // SAFETY: `flux_plugin_aux_set` failed, so Flux does not own the count.
        drop(unsafe { take_from_c::<Instance<J>>(given_address) });
        return Err(text.into());
    }
    let handler = |topic: &&'static CStr| sys::flux_plugin_handler {
        topic: topic.as_ptr(),
        cb: Some(on_callback::<J>),
        data: arg,
    };
    let end = sys::flux_plugin_handler { topic: null(), cb: None, data: null_mut() };
    let table: Vec<_> = J::TOPICS.iter().map(handler).chain([end]).collect();
    // SAFETY: the table ends with a null topic; Flux copies it. Topics are static.
    if unsafe { sys::flux_plugin_register(plugin.as_ptr(), J::NAME.as_ptr(), table.as_ptr()) } < 0 {
        return Err(LoadError { text: describe("flux_plugin_register"), has_callbacks: true });
    }
    for service in instance.services() {
        // SAFETY: the name is set; the service belongs to the instance, which lives until the plugin is removed.
        let rc = unsafe {
            sys::flux_jobtap_service_register_ex(
                plugin.as_ptr(),
                service.method.name.as_ptr(),
                service.method.role.mask(),
                Some(on_request::<J>),
                address(service),
            )
        };
        if rc < 0 {
            let what = format!("flux_jobtap_service_register_ex {}", service.method.title());
            return Err(LoadError { text: describe(&what), has_callbacks: true });
        }
    }
    Ok(instance)
}

unsafe extern "C" fn free_instance<J: Jobtap>(instance: *mut c_void) {
    let _ = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: Flux calls this function once, with the address given to flux_plugin_aux_set.
        drop(unsafe { take_from_c::<Instance<J>>(instance) });
    }));
}

unsafe extern "C" fn on_callback<J: Jobtap>(
    _plugin: *mut sys::flux_plugin_t,
    topic: *const c_char,
    args: *mut sys::flux_plugin_arg_t,
    data: *mut c_void,
) -> c_int {
    if topic.is_null() || data.is_null() {
        return -1;
    }
    // SAFETY: `register` passed `data` to Flux. The instance lives until the plugin is removed, and all references to
    // it are shared. Topic and args belong to the running callback.
    let (instance, topic, args) =
        unsafe { (borrow_from_c::<Instance<J>>(data), CStr::from_ptr(topic), Args::borrow(args)) };
    let name = topic.to_str().unwrap_or_default();
    let host = instance.host();
    let outcome =
        instance.catch_panic(name, || args.id().ok(), || instance.jobtap.handle_callback(host, name, args));
    if outcome == Some(Ok(())) {
        return 0;
    }
    if outcome.is_none() {
        args.set_error(instance.plugin, &format!("internal error in {}", J::title()));
    }
    // Flux posts the jobspec updates of a job after the job's callback. If the callback returned -1 and Flux only
    // logged the failure, Flux would post the updates to the job of the next callback. So a callback whose failure Flux
    // only logs returns 0.
    match catch_unwind(AssertUnwindSafe(|| instance.jobtap.set_safe_answer(host, name, args))) {
        Ok(Ok(())) => 0,
        Ok(Err(Failed)) | Err(_) => -1,
    }
}

unsafe extern "C" fn on_request<J: Jobtap>(
    _flux: *mut sys::flux_t,
    _handler: *mut sys::flux_msg_handler_t,
    msg: *const sys::flux_msg_t,
    arg: *mut c_void,
) {
    // SAFETY: `register` passed the service at `arg` to Flux; its instance lives as long as the plugin.
    let (instance, method) = unsafe { Instance::<J>::from_service(arg) };
    // SAFETY: the message belongs to the running handler.
    let request = unsafe { decode_request(instance.plugin, msg) };
    let body = || match &request {
        Ok(request) => instance.jobtap.handle_request(instance.host(), method, request),
        Err(error) => Some(Err(error.clone())),
    };
    let is_deferred = || request.as_ref().is_ok_and(Request::is_deferred);
    let failed = || super::RequestError { errno: EIO, text: format!("internal error in {}", J::title()) };
    let reply = instance.catch_panic(method.title(), || None, body);
    // A request that was deferred before the panic is answered through its `Deferred`.
    let reply = reply.unwrap_or_else(|| (!is_deferred()).then(|| Err(failed())));
    if let Some(reply) = reply {
        send_reply(instance.plugin, msg, reply);
    }
}

unsafe extern "C" fn on_timer<J: Jobtap>(
    _reactor: *mut sys::flux_reactor_t,
    _watcher: *mut sys::flux_watcher_t,
    _events: c_int,
    arg: *mut c_void,
) {
    // SAFETY: `arg` points to a timer that the instance owns, and that destroys its watcher when it is dropped.
    let (instance, index) = unsafe {
        let timer = borrow_from_c::<Timer>(arg);
        timer.record_timer_fired();
        (borrow_from_c::<Instance<J>>(timer.instance), timer.index)
    };
    let name = J::TIMERS.get(index).copied().unwrap_or_default();
    instance.catch_panic(name, || None, || instance.jobtap.handle_timer(instance.host(), index));
}
