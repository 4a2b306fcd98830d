// SPDX-License-Identifier: LGPL-3.0-only
//! Where C enters: one trampoline for callbacks, one for RPCs, one for the timer; those of futures are in `reads`.
//!
//! Invariants: nothing unwinds into C; a panic is logged with its place, fails that one call in the safe direction,
//! and the plugin puts its state in order before anything else. All memory hangs on the plugin handle's aux and dies
//! with it; there are no statics and no thread-locals, which would pin the .so.

use super::error::{EIO, EPROTO};
use super::reads::Reads;
use super::unload::fail_load;
use super::{Args, Failed, Jobtap, LogLevel, Plugin, Reply, c_text, sys};
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{null, null_mut};

/// Everything that belongs to one loaded plugin.
pub(super) struct Instance<J: Jobtap> {
    pub(super) plugin: Plugin,
    pub(super) jobtap: J,
    /// One per method, in the order of [`Jobtap::METHODS`]: what Flux hands back with a request.
    services: Box<[Service<J>]>,
    timer: Cell<*mut sys::flux_watcher_t>,
    pub(super) reads: RefCell<Reads<J>>,
}

struct Service<J: Jobtap> {
    instance: *const Instance<J>,
    method: &'static CStr,
}

/// What a callback may ask of the plugin's surroundings besides calls into Flux.
pub struct Host<'a, J: Jobtap>(pub(super) &'a Instance<J>);

impl<J: Jobtap> Clone for Host<'_, J> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<J: Jobtap> Copy for Host<'_, J> {}

impl<J: Jobtap> Host<'_, J> {
    /// The plugin handle.
    pub fn plugin(self) -> Plugin {
        self.0.plugin
    }

    /// Has [`Jobtap::timer`] called in the next reactor turn.
    pub fn defer(self) {
        let timer = self.0.timer.get();
        // SAFETY: the watcher is ours until `Instance` is dropped. Resetting one that is started is allowed.
        unsafe {
            sys::flux_timer_watcher_reset(timer, 0.0, 0.0);
            sys::flux_watcher_start(timer);
        }
    }
}

impl<J: Jobtap> Instance<J> {
    /// Runs `body`; a panic in it is made good as far as it can be, and gives `None`.
    pub(super) fn guarded<R>(&self, what: &str, body: impl FnOnce() -> R) -> Option<R> {
        let result = catch_unwind(AssertUnwindSafe(|| {
            #[cfg(feature = "fault")]
            fault(what);
            body()
        }))
        .ok();
        if result.is_none() {
            let text =
                format!("{}: internal error in {what}; the call fails, state is recounted", J::title());
            self.plugin.log(LogLevel::Error, &text);
            let _ = catch_unwind(AssertUnwindSafe(|| self.jobtap.recover()));
        }
        result
    }
}

impl<J: Jobtap> Drop for Instance<J> {
    fn drop(&mut self) {
        // Removes the hook before its code is unmapped.
        drop(std::panic::take_hook());
        let timer = self.timer.replace(null_mut());
        if !timer.is_null() {
            // SAFETY: the watcher is ours; nobody uses it any more.
            unsafe { sys::flux_watcher_destroy(timer) };
        }
    }
}

/// Sets the plugin up: state on the handle, callbacks, services. Any failure is logged and fails the load.
///
/// # Safety
/// `raw` is the handle that Flux passes to `flux_plugin_init`.
pub unsafe fn init<J: Jobtap>(raw: *mut c_void) -> c_int {
    // SAFETY: contract of this function.
    let Some(plugin) = (unsafe { Plugin::from_raw(raw.cast()) }) else { return -1 };
    match catch_unwind(AssertUnwindSafe(|| load::<J>(plugin))) {
        Ok(Ok(())) => 0,
        Ok(Err(text)) => {
            plugin.log(LogLevel::Error, &text);
            fail_load(plugin, J::NAME, &text)
        }
        Err(_) => {
            plugin.log(LogLevel::Error, &format!("{}: internal error while loading", J::title()));
            -1
        }
    }
}

fn load<J: Jobtap>(plugin: Plugin) -> Result<(), String> {
    let jobtap = J::load(plugin)?;
    let say = |what: &str| format!("{}: {what}: {}", J::title(), std::io::Error::last_os_error());
    let mut instance = Box::new(Instance {
        plugin,
        jobtap,
        services: Box::new([]),
        timer: Cell::new(null_mut()),
        reads: RefCell::default(),
    });
    let address: *const Instance<J> = &raw const *instance;
    instance.services = J::METHODS.iter().map(|method| Service { instance: address, method }).collect();
    let arg = address.cast_mut().cast::<c_void>();
    // SAFETY: the handle of the job manager has a reactor; `arg` outlives the watcher (see Drop).
    let timer = unsafe {
        sys::flux_timer_watcher_create(
            sys::flux_get_reactor(plugin.flux()),
            0.0,
            0.0,
            Some(on_timer::<J>),
            arg,
        )
    };
    if timer.is_null() {
        return Err(say("flux_timer_watcher_create"));
    }
    instance.timer.set(timer);
    log_panics::<J>(plugin);
    let services: &[Service<J>] = &instance.services;
    let services: *const [Service<J>] = services;
    let leaked = Box::into_raw(instance);
    // SAFETY: from here on the box belongs to the handle, which frees it by `free` when the plugin is removed; that
    // comes after all callbacks, services and timers. If Flux does not take it, it is still ours.
    let rc = unsafe { sys::flux_plugin_aux_set(plugin.raw(), null(), leaked.cast(), Some(free::<J>)) };
    if rc < 0 {
        let text = say("flux_plugin_aux_set");
        // SAFETY: Flux did not take the box.
        drop(unsafe { Box::from_raw(leaked) });
        return Err(text);
    }
    let handler = |topic: &&'static CStr| sys::flux_plugin_handler {
        topic: topic.as_ptr(),
        cb: Some(on_callback::<J>),
        data: leaked.cast(),
    };
    let end = sys::flux_plugin_handler { topic: null(), cb: None, data: null_mut() };
    let table: Vec<_> = J::TOPICS.iter().map(handler).chain([end]).collect();
    // SAFETY: the table ends with a null topic; Flux copies it. Topics are static.
    if unsafe { sys::flux_plugin_register(plugin.raw(), J::NAME.as_ptr(), table.as_ptr()) } < 0 {
        return Err(say("flux_plugin_register"));
    }
    // SAFETY: the services live in the instance, which lives until the plugin is removed.
    for service in unsafe { &*services } {
        let arg = (&raw const *service).cast_mut().cast::<c_void>();
        // SAFETY: the name is set; `arg` outlives the service.
        let rc = unsafe {
            sys::flux_jobtap_service_register(
                plugin.raw(),
                service.method.as_ptr(),
                Some(on_request::<J>),
                arg,
            )
        };
        if rc < 0 {
            return Err(say(&format!("flux_jobtap_service_register {}", service.method.to_string_lossy())));
        }
    }
    Ok(())
}

/// Logs every panic with its place. The default hook would also name the thread, through a thread-local whose
/// destructor pins the .so.
fn log_panics<J: Jobtap>(plugin: Plugin) {
    let address = plugin.raw() as usize;
    std::panic::set_hook(Box::new(move |panic| {
        let message = panic.payload_as_str().unwrap_or("panic");
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        // SAFETY: the hook is removed before the handle goes (Drop of `Instance`).
        if let Some(plugin) = unsafe { Plugin::from_raw(address as *mut _) } {
            plugin.log(LogLevel::Error, &format!("{}: panic at {place}: {message}", J::title()));
        }
    }));
}

/// For tests of the boundary only: panics in the callback or method that the environment names.
#[cfg(feature = "fault")]
#[allow(clippy::panic)]
fn fault(what: &str) {
    if std::env::var("MF_PRIORITY_FAULT").is_ok_and(|named| named == what) {
        panic!("fault injected in {what}");
    }
}

unsafe extern "C" fn free<J: Jobtap>(instance: *mut c_void) {
    let _ = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: Flux calls this once, with the pointer given to flux_plugin_aux_set.
        drop(unsafe { Box::from_raw(instance.cast::<Instance<J>>()) });
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
        unsafe { (&*data.cast::<Instance<J>>(), CStr::from_ptr(topic), Args::borrow(args)) };
    let name = topic.to_str().unwrap_or_default();
    match instance.guarded(name, || instance.jobtap.callback(Host(instance), name, args)) {
        Some(Ok(())) => 0,
        Some(Err(Failed)) => -1,
        None => {
            args.set_error(instance.plugin, &format!("internal error in {}", J::title()));
            -1
        }
    }
}

unsafe extern "C" fn on_request<J: Jobtap>(
    h: *mut sys::flux_t,
    _handler: *mut sys::flux_msg_handler_t,
    msg: *const sys::flux_msg_t,
    arg: *mut c_void,
) {
    // SAFETY: `arg` is the service `load` registered, alive as long as the plugin.
    let service = unsafe { &*arg.cast::<Service<J>>() };
    // SAFETY: the instance owns the service.
    let instance = unsafe { &*service.instance };
    let mut payload: *const c_char = null();
    // SAFETY: the message is that of the running handler; the payload is borrowed from it. A null topic is not wanted.
    let decoded = unsafe { sys::flux_request_decode(msg, null_mut(), &raw mut payload) };
    let method = service.method.to_str().unwrap_or_default();
    let body = || {
        // SAFETY: on success the payload is null or a C string that lives as long as the message.
        let text = (decoded >= 0 && !payload.is_null()).then(|| unsafe { CStr::from_ptr(payload) });
        instance.jobtap.request(Host(instance), method, text.and_then(|t| t.to_str().ok()))
    };
    let reply = instance.guarded(method, body).unwrap_or_else(|| {
        Err(super::RequestError { errno: EIO, text: format!("internal error in {}", J::title()) })
    });
    respond(instance.plugin, h, msg, reply);
}

fn respond(plugin: Plugin, h: *mut sys::flux_t, msg: *const sys::flux_msg_t, reply: Reply) {
    let rc = match reply {
        // SAFETY: handle and message are those of the running handler; a null payload is an empty reply.
        Ok(None) => unsafe { sys::flux_respond(h, msg, null()) },
        Ok(Some(text)) => {
            let text = c_text(&text);
            // SAFETY: as above; the text is copied.
            unsafe { sys::flux_respond(h, msg, text.as_ptr()) }
        }
        Err(error) => {
            let errno = if error.errno == 0 { EPROTO } else { error.errno };
            let text = c_text(&error.text);
            // SAFETY: as above; the text is copied.
            unsafe { sys::flux_respond_error(h, msg, errno, text.as_ptr()) }
        }
    };
    if rc < 0 {
        let text = format!("failed to answer a request: {}", std::io::Error::last_os_error());
        plugin.log(LogLevel::Error, &text);
    }
}

unsafe extern "C" fn on_timer<J: Jobtap>(
    _reactor: *mut sys::flux_reactor_t,
    _watcher: *mut sys::flux_watcher_t,
    _events: c_int,
    arg: *mut c_void,
) {
    // SAFETY: `arg` is the instance, which destroys the watcher before it goes.
    let instance = unsafe { &*arg.cast::<Instance<J>>() };
    instance.guarded("timer", || instance.jobtap.timer(Host(instance)));
}
