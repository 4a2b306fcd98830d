// SPDX-License-Identifier: LGPL-3.0-only
//! Runs `flux fairshare` as a user does, and checks its output, exit status and files.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test binary"
)]

mod agreement;
mod amounts;
mod bad_files;
#[path = "../built.rs"]
mod built;
mod complaints;
mod config;
mod databases;
mod disk;
mod disk_faults;
mod docs;
mod documents;
mod explain;
mod fuzz;
mod generated;
pub mod golden;
pub mod imports;
pub mod imports_pbs;
mod imports_versions;
mod install;
mod kill;
mod names;
pub mod pipeline;
mod pipes;
mod powerless;
mod schemas;
mod screens;
mod simulate;
pub mod site;
mod statuses;
mod strangers;
mod table;
mod teaching;
mod unreadable;
mod what_if;

use std::ffi::OsStr;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_flux-fairshare");

/// The result of a run.
#[derive(Debug)]
pub struct RunResult {
    pub status: i32,
    pub out: String,
    pub err: String,
}

/// Runs the command and waits for it.
pub fn fairshare<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> RunResult {
    run_with_input(Command::new(PROGRAM).args(arguments).env_remove("FLUX_URI"), "")
}

/// Runs the command with an input.
pub fn run_fairshare_with_input(input: &str, arguments: &[&str]) -> RunResult {
    run_with_input(Command::new(PROGRAM).args(arguments), input)
}

pub fn run_with_input(command: &mut Command, input: &str) -> RunResult {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // If the program refuses its arguments, it may end before it reads its standard input.
    let fed = child.stdin.take().expect("piped").write_all(input.as_bytes());
    assert!(fed.map_or_else(|error| error.kind() == ErrorKind::BrokenPipe, |()| true), "it reads");
    let output = child.wait_with_output().expect("it ends");
    let ran = RunResult {
        status: output.status.code().expect("an exit status"),
        out: String::from_utf8(output.stdout).expect("text"),
        err: String::from_utf8(output.stderr).expect("text"),
    };
    schemas::check(command, &ran);
    ran
}

impl RunResult {
    /// Returns the output of a run that succeeded and wrote nothing to standard error.
    #[track_caller]
    pub fn ok(&self) -> &str {
        assert_eq!((self.status, self.err.as_str()), (0, ""), "{self:?}");
        &self.out
    }

    /// Returns [`RunResult::ok`], parsed as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(self.ok()).expect("JSON")
    }

    /// Returns the message of a run that failed with exit status 2 and without output.
    #[track_caller]
    pub fn error(&self) -> &str {
        assert_eq!((self.status, self.out.as_str()), (2, ""), "{self:?}");
        self.err.trim_end()
    }
}

/// Makes an empty directory for the test `test`, and returns its path.
pub fn directory(test: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("a directory");
    path
}

/// Writes a file with `content` in a new directory, and returns its path.
pub fn file(test: &str, content: impl AsRef<[u8]>) -> String {
    let path = directory(test).join("file");
    std::fs::write(&path, content).expect("a file");
    path.to_str().expect("text").to_owned()
}
