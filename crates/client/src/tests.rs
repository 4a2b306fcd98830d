// SPDX-License-Identifier: LGPL-3.0-only
//! What can be tested of the client without an instance; the rest is in `t/`.

use super::*;

#[test]
fn root_is_known_and_a_wild_id_is_not() {
    assert_eq!(user_name(0).as_deref(), Some("root"));
    assert_eq!(user_name(4_294_967_290), None);
    assert_eq!(user_id("root"), Some(0));
    assert_eq!(user_id("nobody of this name"), None);
    assert_eq!(user_id("a NUL \0"), None);
}

#[test]
fn connecting_to_nothing_says_so() {
    let error = Flux::connect(Some("local:///nonexistent/flux")).expect_err("nobody listens there");
    let text = error.to_string();
    assert!(
        text.starts_with("can't connect to Flux: ")
            || text.starts_with("Flux is needed for this but can't be loaded: "),
        "{text}"
    );
    assert!(text.len() > 30, "{text}");
}

#[test]
fn a_request_error_names_the_service() {
    let error = FluxError::Request { topic: "a.b".into(), errno: 38, text: "no such service".into() };
    assert_eq!(error.to_string(), "a.b: no such service");
    let error = FluxError::Silent { topic: "a.b".into(), waited: Duration::from_secs(300) };
    assert_eq!(error.to_string(), "a.b: Flux took the request and has not answered for 300 s");
}

#[test]
fn a_library_that_is_not_there_is_named_with_the_loaders_reason() {
    // SAFETY: there is no such library, so nothing of it runs.
    let error =
        unsafe { libloading::os::unix::Library::new("/nonexistent/library.so") }.expect_err("missing");
    let text = library::with_cause(&error);
    assert!(text.contains("/nonexistent/library.so: cannot open shared object file"), "{text}");
}
