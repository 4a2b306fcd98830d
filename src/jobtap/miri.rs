// SPDX-License-Identifier: LGPL-3.0-only
//! Tests for Miri, which use the addresses that C stores in the same way as C. Miri finds errors that an
//! ordinary run cannot show (`cargo +nightly miri test -p mf-priority --lib miri_`). Without Miri this module
//! is only compiled: linking it requires Flux's functions, which the tests never call.

#![cfg_attr(not(miri), allow(dead_code))]

use super::guard::Instance;
use super::shared::{address, borrow_from_c, give_to_c, take_from_c};
use super::{
    Args, Caller, Error, Failed, Host, Jobtap, Method, Plugin, Reply, Request, RequestId, Role, to_c_string,
};
use std::cell::RefCell;
use std::ffi::{CStr, c_void};
use std::rc::Rc;

/// A plugin that records its calls.
struct Recorder(RefCell<Vec<String>>);

impl Jobtap for Recorder {
    const NAME: &'static CStr = c"recorder";
    const TOPICS: &'static [&'static CStr] = &[c"job.new"];
    const METHODS: &'static [Method<Self>] = &[
        make_method(c"first", Role::Owner),
        make_method(c"second", Role::Guest),
        make_method(c"third", Role::Owner),
    ];
    const TIMERS: &'static [&'static str] = &["timer"];

    fn load(_plugin: Plugin) -> Result<Self, String> {
        Ok(Recorder(RefCell::default()))
    }

    fn handle_callback(&self, _host: Host<'_, Self>, topic: &str, _args: Args<'_>) -> Result<(), Failed> {
        self.0.borrow_mut().push(topic.to_owned());
        Ok(())
    }

    fn handle_request(
        &self,
        host: Host<'_, Self>,
        method: &'static Method<Self>,
        request: &Request<'_>,
    ) -> Option<Reply> {
        self.0.borrow_mut().push(method.title().to_owned());
        // Flux re-enters the plugin: it calls the same instance by its address.
        let instance = address_of(host);
        // SAFETY: the test keeps the instance alive.
        let instance = unsafe { borrow_from_c::<Instance<Recorder>>(instance) };
        instance.catch_panic("timer", || None, || instance.jobtap.handle_timer(instance.host_at(0.0), 0));
        Some((method.answer)(self, host, request))
    }

    fn handle_timer(&self, _host: Host<'_, Self>, _timer: usize) {
        self.0.borrow_mut().push("timer".to_owned());
    }

    fn receive_reply(&self, _host: Host<'_, Self>, _id: RequestId, _reply: Result<&str, Error>) {}
    fn set_safe_answer(&self, _host: Host<'_, Self>, _topic: &str, _args: Args<'_>) -> Result<(), Failed> {
        Err(Failed)
    }
    fn recover(&self, _host: Host<'_, Self>, _id: Option<u64>) {}
}

const fn make_method(name: &'static CStr, role: Role) -> Method<Recorder> {
    Method { name, role, answer: |_, _, request| Ok(request.payload.map(str::to_owned)) }
}

fn address_of(host: Host<'_, Recorder>) -> *mut c_void {
    std::ptr::from_ref(host.instance).cast_mut().cast()
}

fn make_instance() -> Result<Rc<Instance<Recorder>>, String> {
    let plugin = Plugin::dangling();
    Ok(Instance::assemble(plugin, Recorder::load(plugin)?))
}

#[cfg_attr(miri, test)]
fn miri_a_request_finds_the_plugin_instance_from_its_c_pointer() -> Result<(), String> {
    let instance = make_instance()?;
    let data = address(&instance);
    let services: Vec<*mut c_void> = instance.services().map(address).collect();
    let address_in_c = give_to_c(instance);
    for service in services {
        // SAFETY: the reference count that C has is alive.
        let (instance, method) = unsafe { Instance::<Recorder>::from_service(service) };
        let request = Request::new(Caller::make_guest(), Some("{}"), instance.plugin, std::ptr::null());
        let body = || instance.jobtap.handle_request(instance.host_at(0.0), method, &request);
        assert_eq!(
            instance.catch_panic(method.title(), || None, body),
            Some(Some(Ok(Some("{}".to_owned()))))
        );
    }
    // SAFETY: as above.
    let calls = unsafe { borrow_from_c::<Instance<Recorder>>(data) }.jobtap.0.borrow().clone();
    assert_eq!(calls, ["first", "timer", "second", "timer", "third", "timer"]);
    // SAFETY: the count was given to C above, and is taken back once.
    drop(unsafe { take_from_c::<Instance<Recorder>>(address_in_c) });
    Ok(())
}

#[cfg_attr(miri, test)]
fn miri_an_instance_is_freed_if_flux_refuses_to_store_it() -> Result<(), String> {
    let instance = make_instance()?;
    let address_in_c = give_to_c(instance.clone());
    // SAFETY: the count was given to C above, and is taken back once.
    drop(unsafe { take_from_c::<Instance<Recorder>>(address_in_c) });
    assert_eq!(instance.services().count(), 3);
    Ok(())
}

#[cfg_attr(miri, test)]
fn miri_a_string_for_c_has_no_inner_nul_bytes() {
    for text in ["", "plain", "nul\0inside", "üñí"] {
        let c_string = to_c_string(text);
        // SAFETY: the text ends with NUL and is alive.
        let read = unsafe { CStr::from_ptr(c_string.as_ptr()) };
        assert_eq!(read.to_str(), Ok(text.replace('\0', " ").as_str()));
    }
}
