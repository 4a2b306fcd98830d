// SPDX-License-Identifier: LGPL-3.0-only
//! Uses the addresses that C stores in the way C uses them, as tests for Miri, which finds errors that an ordinary run
//! cannot show (`cargo +nightly miri test -p mf-priority --lib miri_`). Without Miri this module is only compiled:
//! linking it requires Flux's functions, which the tests never call.

#![cfg_attr(not(miri), allow(dead_code))]

use super::guard::Instance;
use super::shared::{address, give, shared, take_back};
use super::{Args, Caller, Failed, Found, Host, Jobtap, Method, Plugin, Reply, Request, Role, c_text};
use std::cell::RefCell;
use std::ffi::{CStr, c_void};
use std::ptr::NonNull;
use std::rc::Rc;

/// A plugin that records its calls.
struct Recorder(RefCell<Vec<String>>);

impl Jobtap for Recorder {
    const NAME: &'static CStr = c"recorder";
    const TOPICS: &'static [&'static CStr] = &[c"job.new"];
    const METHODS: &'static [Method<Self>] =
        &[method(c"first", Role::Owner), method(c"second", Role::Guest), method(c"third", Role::Owner)];
    const TIMERS: &'static [&'static str] = &["timer"];

    fn load(_plugin: Plugin) -> Result<Self, String> {
        Ok(Recorder(RefCell::default()))
    }

    fn callback(&self, _host: Host<'_, Self>, topic: &str, _args: Args<'_>) -> Result<(), Failed> {
        self.0.borrow_mut().push(topic.to_owned());
        Ok(())
    }

    fn request(
        &self,
        host: Host<'_, Self>,
        method: &'static Method<Self>,
        request: &Request<'_>,
    ) -> Option<Reply> {
        self.0.borrow_mut().push(method.title().to_owned());
        // Flux re-enters the plugin: it calls the same instance by its address.
        let instance = address_of(host);
        // SAFETY: the test keeps the instance alive.
        let instance = unsafe { shared::<Instance<Recorder>>(instance) };
        instance.guarded("timer", || None, || instance.jobtap.timer(instance.host_at(0.0), 0));
        Some((method.answer)(self, host, request))
    }

    fn timer(&self, _host: Host<'_, Self>, _timer: usize) {
        self.0.borrow_mut().push("timer".to_owned());
    }

    fn eventlog(&self, _host: Host<'_, Self>, _id: u64, _text: Option<&str>) {}
    fn dependencies(&self, _host: Host<'_, Self>, _id: u64, _reply: Option<&str>) {}
    fn written(&self, _host: Host<'_, Self>, _outcome: Result<(), String>) {}
    fn found(&self, _host: Host<'_, Self>, _number: u64, _found: Found<'_>) {}
    fn ended(&self, _host: Host<'_, Self>, _reply: Option<&str>) {}
    fn fail_safe(&self, _host: Host<'_, Self>, _topic: &str, _args: Args<'_>) -> Result<(), Failed> {
        Err(Failed)
    }
    fn recover(&self, _host: Host<'_, Self>, _id: Option<u64>) {}
}

const fn method(name: &'static CStr, role: Role) -> Method<Recorder> {
    Method { name, role, answer: |_, _, request| Ok(request.payload.map(str::to_owned)) }
}

fn address_of(host: Host<'_, Recorder>) -> *mut c_void {
    std::ptr::from_ref(host.instance).cast_mut().cast()
}

fn instance() -> Result<Rc<Instance<Recorder>>, String> {
    // SAFETY: no code here calls Flux, so the handle is never dereferenced.
    let plugin = unsafe { Plugin::from_raw(NonNull::dangling().as_ptr()) }.ok_or("the handle is null")?;
    Ok(Instance::assemble(plugin, Recorder::load(plugin)?, Recorder::METHODS))
}

#[cfg_attr(miri, test)]
fn miri_requests_find_the_instance_that_c_holds() -> Result<(), String> {
    let instance = instance()?;
    let data = address(&instance);
    let services: Vec<*mut c_void> = instance.services().map(address).collect();
    let given = give(instance);
    for service in services {
        // SAFETY: the reference count that C has is alive.
        let (instance, method) = unsafe { Instance::<Recorder>::from_service(service) };
        let request = Request::new(Caller::guest(), Some("{}"), instance.plugin, std::ptr::null());
        let body = || instance.jobtap.request(instance.host_at(0.0), method, &request);
        assert_eq!(instance.guarded(method.title(), || None, body), Some(Some(Ok(Some("{}".to_owned())))));
    }
    // SAFETY: as above.
    let noted = unsafe { shared::<Instance<Recorder>>(data) }.jobtap.0.borrow().clone();
    assert_eq!(noted, ["first", "timer", "second", "timer", "third", "timer"]);
    // SAFETY: the count was given to C above, and is taken back once.
    drop(unsafe { take_back::<Instance<Recorder>>(given) });
    Ok(())
}

#[cfg_attr(miri, test)]
fn miri_an_instance_that_flux_does_not_take_is_freed() -> Result<(), String> {
    let instance = instance()?;
    let given = give(instance.clone());
    // SAFETY: the count was given to C above, and is taken back once.
    drop(unsafe { take_back::<Instance<Recorder>>(given) });
    assert_eq!(instance.services().count(), 3);
    Ok(())
}

#[cfg_attr(miri, test)]
fn miri_a_c_text_ends_at_its_length() {
    for text in ["", "plain", "nul\0inside", "üñí"] {
        let made = c_text(text);
        // SAFETY: the text ends with NUL and is alive.
        let read = unsafe { CStr::from_ptr(made.as_ptr()) };
        assert_eq!(read.to_str(), Ok(text.replace('\0', " ").as_str()));
    }
}
