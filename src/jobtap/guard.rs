// SPDX-License-Identifier: LGPL-3.0-only
//! Where C enters: one trampoline for callbacks, one for RPCs, one for timers; those of futures are in `reads`,
//! `asks` and `kvs`.
//!
//! Invariants: nothing unwinds into C; a panic is logged with its place, that one call is answered in the safe direction
//! ([`Jobtap::fail_safe`]), which may be success, and the plugin puts its state in order ([`Jobtap::recover`]) before anything
//! else. All memory hangs on the plugin handle's aux and dies with it; there are no statics and no thread-locals, which would pin
//! the .so.

use super::call::Clock;
use super::error::EIO;
use super::hook::{self, Hook};
use super::kept::{decode, respond};
use super::kvs::Errands;
use super::only::Only;
use super::pending::{Asks, Reads};
use super::shared::{address, give, shared, take_back};
use super::timers::Timer;
use super::unload::fail_load;
use super::{Args, Failed, Jobtap, LogLevel, Method, Plugin, Request, sys};
use std::cell::{OnceCell, RefCell};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{null, null_mut};
use std::rc::Rc;

/// Everything that belongs to one loaded plugin. C holds its address: it is only ever shared (see `shared`).
pub(super) struct Instance<J: Jobtap> {
    pub(super) plugin: Plugin,
    /// Looked up at the first call.
    clock: OnceCell<Clock>,
    pub(super) jobtap: J,
    /// One per method, in the order of the table: what Flux hands back with a request.
    services: OnceCell<Box<[Rc<Service<J>>]>>,
    /// One per timer, in the order of [`Jobtap::TIMERS`].
    timers: OnceCell<Box<[Rc<Timer>]>>,
    pub(super) reads: RefCell<Reads>,
    pub(super) asks: Asks,
    pub(super) errands: Errands,
    #[cfg(feature = "fault")]
    faults: super::fault::Faults,
    hook: OnceCell<Hook>,
    only: OnceCell<Only>,
}

pub(super) struct Service<J: Jobtap> {
    /// The address of the instance.
    instance: *mut c_void,
    method: &'static Method<J>,
}

/// What a callback may ask of the plugin's surroundings besides calls into Flux.
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
    /// The plugin handle.
    pub fn plugin(self) -> Plugin {
        self.instance.plugin
    }

    /// When this call is, in seconds since the epoch: as the reactor has it, read once when the call began.
    pub fn now(self) -> f64 {
        self.now
    }

    /// The same call, dated otherwise.
    pub fn dated(self, now: f64) -> Self {
        Host { now, ..self }
    }

    /// Has [`Jobtap::timer`] called for the timer within `seconds`. A timer that is due earlier keeps its time.
    pub fn arm(self, timer: usize, seconds: f64) {
        if let Some(timer) = self.timer(timer) {
            timer.arm(self.instance.host().now, seconds);
        }
    }

    /// Has [`Jobtap::timer`] called for the timer after `seconds`, whenever it was due before.
    pub fn restart(self, timer: usize, seconds: f64) {
        if let Some(timer) = self.timer(timer) {
            timer.restart(self.instance.host().now, seconds);
        }
    }

    fn timer(&self, timer: usize) -> Option<&Timer> {
        self.instance.timers.get()?.get(timer).map(|timer| &**timer)
    }

    /// For tests: where a panic may be asked for, before each effect.
    pub fn before_effect(self) {
        #[cfg(feature = "fault")]
        self.instance.faults.effect();
    }
}

impl<J: Jobtap> Instance<J> {
    /// The instance with what C will point to. Nothing is told to C yet.
    pub(super) fn assemble(plugin: Plugin, jobtap: J, methods: &'static [Method<J>]) -> Rc<Self> {
        let instance = Rc::new(Instance {
            plugin,
            clock: OnceCell::new(),
            jobtap,
            services: OnceCell::new(),
            timers: OnceCell::new(),
            reads: RefCell::default(),
            asks: Asks::default(),
            errands: Errands::default(),
            #[cfg(feature = "fault")]
            faults: super::fault::Faults::default(),
            hook: OnceCell::new(),
            only: OnceCell::new(),
        });
        let at = address(&instance);
        let service = |method| Rc::new(Service { instance: at, method });
        instance.services.get_or_init(|| methods.iter().map(service).collect());
        instance
            .timers
            .get_or_init(|| (0..J::TIMERS.len()).map(|index| Rc::new(Timer::new(at, index))).collect());
        instance
    }

    /// What a call that begins now may ask of its surroundings.
    pub(super) fn host(&self) -> Host<'_, J> {
        self.host_at(self.clock.get_or_init(|| self.plugin.clock()).now())
    }

    pub(super) fn host_at(&self, now: f64) -> Host<'_, J> {
        Host { instance: self, now }
    }

    /// What C is given with each method.
    pub(super) fn services(&self) -> impl Iterator<Item = &Rc<Service<J>>> {
        self.services.get().into_iter().flatten()
    }

    /// The instance and method of a service that C handed back.
    ///
    /// # Safety
    /// `arg` is the address of a service of an instance that lives for `'a`.
    pub(super) unsafe fn of_service<'a>(arg: *mut c_void) -> (&'a Self, &'static Method<J>) {
        // SAFETY: contract of this function; the instance owns the service.
        unsafe {
            let service = shared::<Service<J>>(arg);
            (shared::<Self>(service.instance), service.method)
        }
    }

    /// Runs `body`; a panic in it is made good as far as it can be, and gives `None`. `id` is the job it is about.
    pub(super) fn guarded<R>(
        &self,
        what: &str,
        id: impl FnOnce() -> Option<u64>,
        body: impl FnOnce() -> R,
    ) -> Option<R> {
        let result = catch_unwind(AssertUnwindSafe(|| {
            #[cfg(feature = "fault")]
            self.faults.enter(what);
            let result = body();
            #[cfg(feature = "fault")]
            self.faults.done();
            result
        }))
        .ok();
        #[cfg(feature = "fault")]
        self.faults.leave();
        if result.is_none() {
            let text = format!(
                "{}: internal error in {what}; its answer is the safe one; jobs are compared with Flux's",
                J::title()
            );
            self.plugin.log(LogLevel::Error, &text);
            // What is being read may tell of a moment before the panic; whoever still needs it asks again.
            self.forget_reads();
            let asks = self.asks.take();
            drop(asks);
            self.errands.forget();
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

/// Sets the plugin up: state on the handle, callbacks, services. Any failure is logged and fails the load.
///
/// # Safety
/// `raw` is the handle that Flux passes to `flux_plugin_init`.
pub unsafe fn init<J: Jobtap>(raw: *mut c_void) -> c_int {
    // SAFETY: contract of this function.
    unsafe { init_with::<J>(raw, J::METHODS) }
}

/// As [`init`], with these methods in place of [`Jobtap::METHODS`].
///
/// # Safety
/// As there.
pub unsafe fn init_with<J: Jobtap>(raw: *mut c_void, methods: &'static [Method<J>]) -> c_int {
    // SAFETY: contract of this function.
    let Some(plugin) = (unsafe { Plugin::from_raw(raw.cast()) }) else { return -1 };
    let only = match Only::claim(plugin.flux(), J::NAME) {
        Ok(Some(only)) => only,
        Ok(None) => {
            let text = format!(
                "{0}: {0} is loaded already, it may be under another name (see \"flux jobtap list\"); remove that one first",
                J::title()
            );
            return fail_load(plugin, J::NAME, &text);
        }
        Err(error) => return fail_load(plugin, J::NAME, &format!("{}: {error}", J::title())),
    };
    let hook = hook::install::<J>(plugin);
    let failed = match catch_unwind(AssertUnwindSafe(|| load::<J>(plugin, methods))) {
        Ok(Ok(instance)) => {
            let _ = instance.hook.set(hook);
            let _ = instance.only.set(only);
            return 0;
        }
        Ok(Err(failed)) => failed,
        Err(_) => NotLoaded::AtAll(format!("{}: internal error while loading", J::title())),
    };
    drop(hook);
    let (NotLoaded::AtAll(text) | NotLoaded::Whole(text)) = &failed;
    plugin.log(LogLevel::Error, text);
    match failed {
        NotLoaded::AtAll(text) => fail_load(plugin, J::NAME, &text),
        NotLoaded::Whole(_) => -1,
    }
}

/// Why a plugin is not loaded.
enum NotLoaded {
    /// Flux was told of no callback: the client can be told why.
    AtAll(String),
    /// Some of it is there, and would answer in the place of what tells why. Flux says that the load failed, the log why.
    Whole(String),
}

impl From<String> for NotLoaded {
    fn from(text: String) -> Self {
        NotLoaded::AtAll(text)
    }
}

fn load<J: Jobtap>(plugin: Plugin, methods: &'static [Method<J>]) -> Result<Rc<Instance<J>>, NotLoaded> {
    let instance = Instance::assemble(plugin, J::load(plugin)?, methods);
    let say = |what: &str| format!("{}: {what}: {}", J::title(), std::io::Error::last_os_error());
    let arg = address(&instance);
    if !instance
        .timers
        .get()
        .into_iter()
        .flatten()
        .all(|timer| Timer::create(timer, plugin, Some(on_timer::<J>)))
    {
        return Err(say("flux_timer_watcher_create").into());
    }
    let kept = give(instance.clone());
    // SAFETY: from here on a count belongs to the handle, which gives it back through `free` when the plugin is
    // removed; that comes after all callbacks, services and timers. If Flux does not take it, it is still ours.
    if unsafe { sys::flux_plugin_aux_set(plugin.raw(), null(), kept, Some(free::<J>)) } < 0 {
        let text = say("flux_plugin_aux_set");
        // SAFETY: Flux did not take it.
        drop(unsafe { take_back::<Instance<J>>(kept) });
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
    if unsafe { sys::flux_plugin_register(plugin.raw(), J::NAME.as_ptr(), table.as_ptr()) } < 0 {
        return Err(NotLoaded::Whole(say("flux_plugin_register")));
    }
    for service in instance.services() {
        // SAFETY: the name is set; the service is the instance's, which lives until the plugin is removed.
        let rc = unsafe {
            sys::flux_jobtap_service_register_ex(
                plugin.raw(),
                service.method.name.as_ptr(),
                service.method.role.mask(),
                Some(on_request::<J>),
                address(service),
            )
        };
        if rc < 0 {
            let what = format!("flux_jobtap_service_register_ex {}", service.method.title());
            return Err(NotLoaded::Whole(say(&what)));
        }
    }
    Ok(instance)
}

unsafe extern "C" fn free<J: Jobtap>(instance: *mut c_void) {
    let _ = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: Flux calls this once, with what was given to flux_plugin_aux_set.
        drop(unsafe { take_back::<Instance<J>>(instance) });
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
    // SAFETY: `data` is what `load` registered; the instance lives until the plugin is removed, and is only shared.
    // Topic and args are those of the running callback.
    let (instance, topic, args) =
        unsafe { (shared::<Instance<J>>(data), CStr::from_ptr(topic), Args::borrow(args)) };
    let name = topic.to_str().unwrap_or_default();
    let host = instance.host();
    let outcome = instance.guarded(name, || args.id().ok(), || instance.jobtap.callback(host, name, args));
    if outcome == Some(Ok(())) {
        return 0;
    }
    if outcome.is_none() {
        args.set_error(instance.plugin, &format!("internal error in {}", J::title()));
    }
    // If we return -1 where Flux only logs that, it skips posting the jobspec updates packed for this job, and posts them to
    // the next job it calls us about. So we return 0 there.
    match catch_unwind(AssertUnwindSafe(|| instance.jobtap.fail_safe(host, name, args))) {
        Ok(Ok(())) => 0,
        Ok(Err(Failed)) | Err(_) => -1,
    }
}

unsafe extern "C" fn on_request<J: Jobtap>(
    h: *mut sys::flux_t,
    _handler: *mut sys::flux_msg_handler_t,
    msg: *const sys::flux_msg_t,
    arg: *mut c_void,
) {
    // SAFETY: `arg` is the service `load` registered; its instance lives as long as the plugin.
    let (instance, method) = unsafe { Instance::<J>::of_service(arg) };
    // SAFETY: the message is that of the running handler.
    let request = unsafe { decode(instance.plugin, msg) };
    let body = || match &request {
        Ok(request) => instance.jobtap.request(instance.host(), method, request),
        Err(error) => Some(Err(error.clone())),
    };
    let is_kept = || request.as_ref().is_ok_and(Request::is_kept);
    let failed = || super::RequestError { errno: EIO, text: format!("internal error in {}", J::title()) };
    let reply = instance.guarded(method.title(), || None, body);
    // One that was put aside before a panic is answered by what was put aside.
    let reply = reply.unwrap_or_else(|| (!is_kept()).then(|| Err(failed())));
    if let Some(reply) = reply {
        respond(instance.plugin, h, msg, reply);
    }
}

unsafe extern "C" fn on_timer<J: Jobtap>(
    _reactor: *mut sys::flux_reactor_t,
    _watcher: *mut sys::flux_watcher_t,
    _events: c_int,
    arg: *mut c_void,
) {
    // SAFETY: `arg` is a timer, which destroys its watcher before it goes; the instance owns it.
    let (instance, index) = unsafe {
        let timer = shared::<Timer>(arg);
        timer.fired();
        (shared::<Instance<J>>(timer.instance), timer.index)
    };
    let name = J::TIMERS.get(index).copied().unwrap_or_default();
    instance.guarded(name, || None, || instance.jobtap.timer(instance.host(), index));
}
