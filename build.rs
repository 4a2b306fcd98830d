// SPDX-License-Identifier: LGPL-3.0-only
//! Checks that the header of jansson is installed. With feature `bindgen`, also generates the plugin's bindings from
//! `wrapper.h`, which a test compares with the committed bindings.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if !has_jansson() {
        println!(
            "cargo::error=jansson.h is not found: install libjansson-dev (Debian, Ubuntu) or jansson-devel (Red Hat, Fedora)"
        );
    }
    #[cfg(feature = "bindgen")]
    bindings::generate();
}

/// Returns true if the C compiler finds the header of jansson. Also returns true if the compiler can't be run: later
/// steps of the build report that.
fn has_jansson() -> bool {
    let Ok(compiler) = cc::Build::new().try_get_compiler() else { return true };
    let file = std::path::PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default()).join("jansson.c");
    let is_written = std::fs::write(&file, "#include <jansson.h>\n").is_ok();
    let output = compiler.to_command().arg("-E").arg(&file).output();
    !is_written || output.map_or(true, |output| output.status.success())
}

#[cfg(feature = "bindgen")]
mod bindings {
    /// The C functions for which bindgen generates bindings, one per line. The plugin can call no others.
    const FUNCTIONS: &str = include_str!("etc/flux-symbols.txt");

    pub fn generate() {
        let flux = pkg_config::Config::new().cargo_metadata(false).probe("flux-core");
        let flux = flux.expect("feature bindgen needs flux-core's headers, found through pkg-config");
        let mut builder = bindgen::Builder::default()
            .header("wrapper.h")
            .clang_args(flux.include_paths.iter().map(|path| format!("-I{}", path.display())))
            .allowlist_type("flux_plugin_handler")
            .blocklist_type("json_t|va_list|__.*")
            .opaque_type(
                "flux_(plugin|plugin_arg|handle_struct|future|kvs_txn|msg|msg_handler|reactor|watcher)",
            )
            .layout_tests(false)
            .derive_debug(false)
            .ctypes_prefix("std::ffi")
            .generate_comments(false)
            .generate_cstr(true)
            .merge_extern_blocks(true)
            .wrap_unsafe_ops(true)
            .rust_edition(bindgen::RustEdition::Edition2024);
        for function in FUNCTIONS.lines().filter(|line| !line.starts_with('#')) {
            builder = builder.allowlist_function(function);
        }
        let bindings = builder.generate().expect("bindgen generates bindings from wrapper.h");
        let out =
            std::path::PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("sys.rs");
        bindings.write_to_file(out).expect("OUT_DIR is writable");
    }
}
