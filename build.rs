// SPDX-License-Identifier: LGPL-3.0-only
//! Compiles the embedded job manager's C side into the executables (feature "cli"), never into the .so, whose
//! `flux_*` symbols stay undefined until a broker loads it.
fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_FEATURE_CLI").is_some() {
        embedded_abi();
    }
}

fn embedded_abi() {
    let sources = ["src/embedded/abi.c", "src/embedded/abi_jobtap.c"];
    for file in sources.iter().chain(&["src/embedded/abi.h"]) {
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
