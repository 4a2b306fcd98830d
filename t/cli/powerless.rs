// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of permissions: root may write all files, so the tests of root run the command as an unprivileged user.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::site::Site;
use super::{PROGRAM, RunResult, run_with_input};

/// A directory with a database and the program, which an unprivileged user can read.
pub struct UnprivilegedDirectory {
    pub directory: PathBuf,
    pub database: PathBuf,
}

impl UnprivilegedDirectory {
    pub fn new(test: &str, site: &Site) -> UnprivilegedDirectory {
        let directory = std::env::temp_dir().join(format!("flux-fairshare-{test}-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        let view = UnprivilegedDirectory { database: directory.join("site.db"), directory };
        for suffix in ["", "-journal", "-wal"] {
            let (from, to) = (with_suffix(&site.path, suffix), with_suffix(&view.database, suffix));
            if from.exists() {
                fs::copy(from, &to).expect("copied");
                set_mode(&to, 0o444);
            }
        }
        // A separate process copies the program. If this process wrote the copy, children of other tests could hold it open, and it could not be
        // executed.
        let copied = Command::new("cp").arg(PROGRAM).arg(view.directory.join("program")).status();
        assert!(copied.expect("cp runs").success());
        set_mode(&view.directory.join("program"), 0o755);
        set_mode(&view.directory, 0o555);
        view
    }

    /// Returns a command that runs the program as the unprivileged user.
    pub fn program(&self) -> Command {
        let mut program = Command::new(self.directory.join("program"));
        if is_root() {
            program.uid(65534);
        }
        program
    }

    pub fn run(&self, command: &str) -> RunResult {
        let mut line = self.program();
        line.arg(command).args((command == "why").then_some("ann")).arg("-p").arg(&self.database);
        run_with_input(&mut line, "")
    }
}

impl Drop for UnprivilegedDirectory {
    fn drop(&mut self) {
        let _ = fs::set_permissions(&self.directory, fs::Permissions::from_mode(0o755));
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Returns whether the tests run as root. Only root can change the owner of a file.
pub fn is_root() -> bool {
    fs::metadata("/proc/self").expect("procfs").uid() == 0
}

/// Returns [`is_root`]. If it is false, prints that `test` is skipped.
pub fn check_root_or_print_skip(test: &str) -> bool {
    let is_root = is_root();
    if !is_root {
        eprintln!("!! SKIPPED: {test}: only root can give files to another user");
    }
    is_root
}

/// Returns `path` with `suffix` appended to the file name.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

pub fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("mode");
}
