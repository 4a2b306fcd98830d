// SPDX-License-Identifier: LGPL-3.0-only
//! Compiles the C side of the embedded job manager into this package's program and tests.

fn main() {
    let sources = ["src/abi.c", "src/abi_jobtap.c"];
    for file in sources.iter().chain(&["build.rs", "src/abi.h"]) {
        println!("cargo:rerun-if-changed={file}");
    }
    let objects = cc::Build::new().files(sources).warnings(true).extra_warnings(true).compile_intermediates();
    for target in ["bins", "tests"] {
        for object in &objects {
            println!("cargo:rustc-link-arg-{target}={}", object.display());
        }
        // The .so that the program opens finds these symbols in the program itself.
        println!("cargo:rustc-link-arg-{target}=-rdynamic");
        println!("cargo:rustc-link-arg-{target}=-ljansson");
    }
}
