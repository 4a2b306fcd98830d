// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of the client without a Flux instance. Tests with an instance are in `t/`.

use super::*;

#[test]
fn user_lookups_find_root_and_no_unknown_user() {
    assert_eq!(user_name(0).as_deref(), Some("root"));
    assert_eq!(user_name(4_294_967_290), None);
    assert_eq!(user_id("root"), Some(0));
    assert_eq!(user_id("unknown user"), None);
    assert_eq!(user_id("a NUL \0"), None);
}

#[test]
fn the_error_about_an_unreachable_instance_gives_the_reason() {
    let error = Flux::connect(Some("local:///nonexistent/flux")).expect_err("unreachable");
    let text = error.to_string();
    assert!(
        text.starts_with("can't connect to Flux: ")
            || text.starts_with("this command needs Flux, which can't be loaded: "),
        "{text}"
    );
    assert!(text.len() > 30, "{text}");
}

#[test]
fn a_request_error_names_the_service() {
    let error = FluxError::Request { topic: "a.b".into(), errno: 38, text: "no such service".into() };
    assert_eq!(error.to_string(), "a.b: no such service");
    let error = FluxError::Silent { topic: "a.b".into(), waited: Duration::from_secs(300) };
    assert_eq!(error.to_string(), "a.b: Flux accepted the request but has not answered for 300 s");
}

#[test]
fn the_error_about_a_missing_library_gives_the_reason_of_the_loader() {
    // SAFETY: the library does not exist, so none of its code runs.
    let error =
        unsafe { libloading::os::unix::Library::new("/nonexistent/library.so") }.expect_err("missing");
    let text = library::format_error_with_cause(&error);
    assert!(text.contains("/nonexistent/library.so: cannot open shared object file"), "{text}");
}
