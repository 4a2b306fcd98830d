// SPDX-License-Identifier: LGPL-3.0-only
//! Where C enters: one trampoline for callbacks, one for RPCs, one each for the timer, for commits and for reads.
//!
//! Invariants: nothing unwinds into C; a panic is logged with its place, fails that one call in the safe direction,
//! and the plugin puts its state in order before anything else. All memory hangs on the plugin handle's aux and dies
//! with it; there are no statics and no thread-locals, which would pin the .so.

use super::error::{EIO, EPROTO, Error};
use super::{Args, Failed, Jobtap, LogLevel, Plugin, Reply, c_text, sys};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{null, null_mut};

/// Eventlogs read at a time: enough to keep the store busy, few enough to leave it to others.
const READS_AT_ONCE: usize = 32;

/// Everything that belongs to one loaded plugin.
struct Instance<J: Jobtap> {
    plugin: Plugin,
    jobtap: J,
    /// One per method, in the order of [`Jobtap::METHODS`]: what Flux hands back with a request.
    services: Box<[Service<J>]>,
    timer: Cell<*mut sys::flux_watcher_t>,
    reads: RefCell<Reads<J>>,
}

struct Service<J: Jobtap> {
    instance: *const Instance<J>,
    method: &'static CStr,
}

struct Reads<J: Jobtap> {
    /// While not null: what is waited for before anything is read.
    commits: *mut sys::flux_future_t,
    under_way: BTreeMap<u64, Read<J>>,
    to_come: VecDeque<u64>,
}

/// A read under way. The box keeps its address while the map moves.
struct Read<J: Jobtap> {
    future: *mut sys::flux_future_t,
    _ticket: Box<Ticket<J>>,
}

struct Ticket<J: Jobtap> {
    instance: *const Instance<J>,
    id: u64,
}

/// What a callback may ask of the plugin's surroundings besides calls into Flux.
pub struct Host<'a, J: Jobtap>(&'a Instance<J>);

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

    /// Has [`Jobtap::eventlog`] called with the job's eventlog as it is now or later, in a later reactor turn.
    pub fn read_eventlog(self, id: u64) {
        let is_first = {
            let mut reads = self.0.reads.borrow_mut();
            reads.to_come.push_back(id);
            reads.commits.is_null() && reads.to_come.len() == 1
        };
        if is_first {
            let arg = std::ptr::from_ref(self.0).cast_mut().cast::<c_void>();
            self.0.wait(self.0.plugin.await_batch(on_batch::<J>, arg));
        }
    }
}

impl<J: Jobtap> Instance<J> {
    /// What was posted in the last moments is not in the KVS yet, and a name that is not read there is not known:
    /// the first read waits. Should that fail, what is there must do.
    fn wait(&self, future: Result<*mut sys::flux_future_t, Error>) {
        match future {
            Ok(future) => self.reads.borrow_mut().commits = future,
            Err(_) => self.start_reads(),
        }
    }

    /// The wait is over.
    fn waited(&self) {
        let future = std::mem::replace(&mut self.reads.borrow_mut().commits, null_mut());
        // SAFETY: the future is ours, or null. Flux allows destroying it in its continuation.
        unsafe { sys::flux_future_destroy(future) };
    }

    fn start_reads(&self) {
        loop {
            let next = {
                let mut reads = self.reads.borrow_mut();
                let is_ready = reads.commits.is_null() && reads.under_way.len() < READS_AT_ONCE;
                if is_ready { reads.to_come.pop_front() } else { None }
            };
            let Some(id) = next else { return };
            let ticket = Box::new(Ticket { instance: self, id });
            let arg = (&raw const *ticket).cast_mut().cast::<c_void>();
            match self.plugin.read_eventlog(id, on_read::<J>, arg) {
                Ok(future) => {
                    let read = Read { future, _ticket: ticket };
                    if let Some(former) = self.reads.borrow_mut().under_way.insert(id, read) {
                        // SAFETY: the future is ours, and its continuation is not running.
                        unsafe { sys::flux_future_destroy(former.future) };
                    }
                }
                Err(_) => self.jobtap.eventlog(Host(self), id, None),
            }
        }
    }

    /// Runs `body`; a panic in it is made good as far as it can be, and gives `None`.
    fn guarded<R>(&self, what: &str, body: impl FnOnce() -> R) -> Option<R> {
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
        let reads = self.reads.get_mut();
        let futures = std::mem::take(&mut reads.under_way).into_values().map(|read| read.future);
        for future in futures.chain([reads.commits]) {
            // SAFETY: the future is ours, or null; destroying it cancels its continuation.
            unsafe { sys::flux_future_destroy(future) };
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
            -1
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
        reads: RefCell::new(Reads {
            commits: null_mut(),
            under_way: BTreeMap::new(),
            to_come: VecDeque::new(),
        }),
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

unsafe extern "C" fn on_batch<J: Jobtap>(_future: *mut sys::flux_future_t, arg: *mut c_void) {
    // SAFETY: `arg` is the instance, which destroys the future before it goes.
    let instance = unsafe { &*arg.cast::<Instance<J>>() };
    instance.guarded("batch", || {
        instance.waited();
        instance.wait(instance.plugin.await_commits(on_commits::<J>, arg));
    });
}

unsafe extern "C" fn on_commits<J: Jobtap>(_future: *mut sys::flux_future_t, arg: *mut c_void) {
    // SAFETY: as above.
    let instance = unsafe { &*arg.cast::<Instance<J>>() };
    instance.guarded("commits", || {
        instance.waited();
        instance.start_reads();
    });
}

unsafe extern "C" fn on_read<J: Jobtap>(future: *mut sys::flux_future_t, arg: *mut c_void) {
    // SAFETY: `arg` is the ticket of the read, which is freed only after its future was destroyed.
    let (instance, id) = unsafe {
        let ticket = &*arg.cast::<Ticket<J>>();
        (&*ticket.instance, ticket.id)
    };
    instance.guarded("eventlog", || {
        let mut value: *const c_char = null();
        // SAFETY: the future is fulfilled; on success the value is a C string borrowed from it, or null.
        let text = unsafe {
            let rc = sys::flux_kvs_lookup_get(future, &raw mut value);
            (rc >= 0 && !value.is_null()).then(|| CStr::from_ptr(value).to_string_lossy().into_owned())
        };
        if let Some(read) = instance.reads.borrow_mut().under_way.remove(&id) {
            // SAFETY: the future is ours. Flux allows destroying it in its continuation.
            unsafe { sys::flux_future_destroy(read.future) };
        }
        instance.jobtap.eventlog(Host(instance), id, text.as_deref());
        instance.start_reads();
    });
}
