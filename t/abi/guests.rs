// SPDX-License-Identifier: LGPL-3.0-only
//! A method that guests may call only needs a row in the table of methods. Guests may call no other method.

use std::ffi::{c_int, c_void};
use std::process::Command;

use fairshare_embedded::Cred;
use mf_priority_testing::jobtap::{Jobtap, Method, Role, init_with};
use mf_priority_testing::plugin::MfPriority;

use super::{OWNER, Site, document, topic};

/// A method that answers with the sender of the request.
const WHOAMI: Method<MfPriority> = Method {
    name: c"whoami",
    role: Role::Guest,
    answer: |_, _, request| {
        let (user, is_owner) = (request.caller.userid, request.caller.is_owner());
        Ok(Some(serde_json::json!({"userid": user, "owner": is_owner}).to_string()))
    },
};

unsafe extern "C" fn with_whoami(plugin: *mut c_void) -> c_int {
    let methods = [MfPriority::METHODS, &[WHOAMI]].concat().leak();
    // SAFETY: `plugin` is the handle that Flux passes to `flux_plugin_init`.
    unsafe { init_with::<MfPriority>(plugin, methods) }
}

/// The plugin is linked into this program, so its panic hook would apply to all tests of this process. The
/// test therefore runs in a process of its own.
#[test]
fn a_new_guest_method_needs_only_a_row_in_the_method_table() {
    let this = std::env::current_exe().unwrap();
    let test = "abi::guests::guests_call_their_methods_and_no_others";
    let mut command = Command::new(this);
    command.args(["--exact", test, "--ignored", "--nocapture"]).env(super::PLUGIN, super::plugin());
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
#[ignore = "runs in a process of its own"]
fn guests_call_their_methods_and_no_others() {
    let site = Site::empty(super::plugin());
    let conf = serde_json::json!({"config": document()});
    // SAFETY: `with_whoami` has the type and the contract of flux_plugin_init.
    unsafe { site.host.load_linked(super::SO, with_whoami, Some(&conf)) }.unwrap();
    let call = |method: &str, payload, cred| site.host.request(&topic(method), payload, cred);
    let sender = |payload, cred| call("whoami", payload, cred).unwrap().unwrap();
    assert_eq!(sender(None, Cred::guest(5001)), r#"{"owner":false,"userid":5001}"#);
    // The plugin ignores a sender in the payload.
    assert_eq!(sender(Some(r#"{"userid":1000}"#), Cred::guest(5002)), r#"{"owner":false,"userid":5002}"#);
    assert_eq!(sender(None, OWNER), r#"{"owner":true,"userid":1000}"#);
    let nobody = call("whoami", None, Cred { userid: 5001, rolemask: 0 }).unwrap_err();
    assert_eq!((nobody.errno.0, nobody.text.as_str()), (1, "Request rejected due to insufficient privilege"));
    for method in MfPriority::METHODS.iter().filter(|method| method.role == Role::Owner) {
        let error = call(method.title(), Some("{}"), Cred::guest(5001)).unwrap_err();
        assert_eq!((error.errno.0, error.text.as_str()), (1, "Request requires owner credentials"));
    }
    assert!(call("check", None, OWNER).is_ok());
    site.host.remove(super::SO).unwrap();
    assert!(site.host.violations().is_empty(), "{:?}", site.host.violations());
}
