// SPDX-License-Identifier: LGPL-3.0-only
//! Compares the committed bindings with those that bindgen makes from the installed headers.

#[test]
fn the_committed_bindings_equal_the_generated_bindings() {
    let generated = include_str!(concat!(env!("OUT_DIR"), "/sys.rs"));
    let committed = include_str!("sys.rs");
    assert_eq!(
        generated, committed,
        "run: cargo build --features bindgen, and copy OUT_DIR/sys.rs to src/jobtap/sys.rs"
    );
}
