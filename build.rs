// SPDX-License-Identifier: LGPL-3.0-only
//! Nothing to do yet.
fn main() {
    println!("cargo:rerun-if-changed=build.rs");
}
