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
    /// The C functions for which bindgen generates bindings. The plugin can call no others.
    const FUNCTIONS: &[&str] = &[
        "flux_plugin_register",
        "flux_plugin_get_conf",
        "flux_plugin_aux_set",
        "flux_plugin_arg_(unpack|strerror|destroy)",
        "flux_jobtap_(get_flux|service_register_ex|set_load_sort_order)",
        "flux_jobtap_(reprioritize_all|reprioritize_job|priority_unavail|error)",
        "flux_jobtap_(job_lookup|job_subscribe|job_unsubscribe|dependency_add|dependency_remove|raise_exception|event_post_pack)",
        "flux_jobtap_(jobspec_update_pack|jobspec_update_id_pack)",
        "flux_msg_(get_cred|incref|decref)",
        "flux_request_decode",
        "flux_respond",
        "flux_respond_error",
        "flux_log",
        "flux_aux_(get|set)",
        "flux_get_reactor",
        "flux_reactor_now",
        "flux_timer_watcher_(create|reset)",
        "flux_watcher_(start|stop|destroy)",
        "flux_rpc",
        "flux_rpc_get",
        "flux_job_kvs_key",
        "flux_kvs_txn_(create|destroy|put|unlink)",
        "flux_kvs_commit",
        "flux_kvs_lookup",
        "flux_kvs_lookup_get",
        "flux_future_then",
        "flux_future_destroy",
    ];

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
        for function in FUNCTIONS {
            builder = builder.allowlist_function(function);
        }
        let bindings = builder.generate().expect("bindgen generates bindings from wrapper.h");
        let out =
            std::path::PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("sys.rs");
        bindings.write_to_file(out).expect("OUT_DIR is writable");
    }
}
