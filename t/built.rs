// SPDX-License-Identifier: LGPL-3.0-only
//! Files that cargo builds for the tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The variable with the path of the plugin to test. Without it, the tests build the plugin.
pub const PLUGIN: &str = "PLUGIN_UNDER_TEST";

/// Returns the plugin under test: the file that `PLUGIN_UNDER_TEST` names, or what cargo builds, without symbols.
pub fn plugin() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| std::env::var_os(PLUGIN).map_or_else(build, PathBuf::from))
}

fn build() -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["build", "-q", "-p", "mf-priority"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    assert!(cargo.status().expect("cargo runs").success(), "the plugin does not build");
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let built = temporary.with_file_name("debug").join("libmf_priority.so");
    strip(&built, &temporary.join("libmf_priority.so"))
}

/// Copies `so` without symbols to `copy`, which may be in use by another test program, and returns `copy`.
pub fn strip(so: &Path, copy: &Path) -> PathBuf {
    let own = copy.with_extension(std::process::id().to_string());
    let stripped = Command::new("strip").arg("-o").args([&own, so]).status();
    assert!(stripped.expect("strip runs").success(), "{} is not stripped", so.display());
    std::fs::rename(&own, copy).expect("one directory");
    copy.to_owned()
}
