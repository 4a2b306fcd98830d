// SPDX-License-Identifier: LGPL-3.0-only
//! Runs the commands of the documents that need no Flux and compares their output. `t/t5044-docs.t` runs the others.

mod references;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::{PROGRAM, directory, run_with_input};

#[test]
fn commands_in_documents_print_the_documented_output() {
    let top = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let bin = directory("docs");
    let flux = bin.join("flux");
    fs::write(&flux, format!("#!/bin/sh\nshift\nexec {PROGRAM} \"$@\"\n")).expect("written");
    fs::set_permissions(&flux, Permissions::from_mode(0o755)).expect("executable");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("a path"));
    let mut documents: Vec<_> =
        fs::read_dir(top.join("docs")).expect("documents").map(|file| file.expect("a file").path()).collect();
    documents.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    documents.push(top.join("README.md"));
    let mut command = Command::new("bash");
    command
        .arg("t/scripts/docs.sh")
        .args(documents)
        .current_dir(top)
        .env("PATH", path)
        .env_remove("FLUX_URI");
    let ran = run_with_input(&mut command, "");
    assert_eq!(ran.status, 0, "{}", ran.out);
}
