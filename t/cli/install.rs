// SPDX-License-Identifier: LGPL-3.0-only
//! `etc/install.sh` on a machine without Flux installs the same files below /usr/local, and uninstalls all of them.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn make_directory(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

fn run_installer(from: &Path, dest: &Path, more: &[&str]) -> Output {
    make_installer_command(from, dest, more).output().expect("bash runs")
}

fn make_installer_command(from: &Path, dest: &Path, more: &[&str]) -> Command {
    let script = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("etc/install.sh");
    let mut command = Command::new("bash");
    command.arg(script).arg("--from").arg(from).arg("--destdir").arg(dest).args(more);
    // pkg-config finds no flux-core, as on a machine without Flux.
    command.env("PKG_CONFIG_LIBDIR", "/nonexistent").env_remove("PKG_CONFIG_PATH");
    command
}

fn count_files(directory: &Path) -> usize {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { count_files(&path) } else { 1 }).sum()
}

#[test]
fn without_flux_the_files_are_installed_below_usr_local_and_removed_again() {
    let (from, dest) = (make_directory("install-from"), make_directory("install-dest"));
    std::fs::copy(crate::built::plugin(), from.join("libmf_priority.so")).unwrap();
    std::fs::copy(env!("CARGO_BIN_EXE_flux-fairshare"), from.join("flux-fairshare")).unwrap();
    let output = run_installer(&from, &dest, &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let there = |path: &str| dest.join("usr/local").join(path).exists();
    for path in ["lib/flux/job-manager/plugins/mf_priority.so", "libexec/flux/cmd/flux-fairshare"] {
        assert!(there(path), "{path}");
    }
    let list = std::fs::read_to_string(dest.join("usr/local/share/flux-fairshare/installed")).unwrap();
    assert_eq!(
        count_files(&dest),
        list.lines().count() + 1,
        "the installed files are the listed files and the list itself"
    );
    assert!(run_installer(&from, &dest, &["--uninstall"]).status.success());
    assert_eq!(count_files(&dest), 0);

    let usr = run_installer(&from, &dest, &["--prefix", "/usr"]);
    assert!(usr.status.success() && dest.join("etc/flux/rc1.d/02-flux-fairshare").exists());
    for directory in [from, dest] {
        std::fs::remove_dir_all(directory).unwrap();
    }
}

/// An old Flux lacks a function that the plugin calls. An instance with a plugin that cannot be loaded does
/// not start, so `install.sh` must install nothing.
#[test]
fn nothing_is_installed_for_a_flux_that_is_too_old() {
    let (from, dest, bin) = (
        make_directory("install-old-from"),
        make_directory("install-old-dest"),
        make_directory("install-old-bin"),
    );
    let says = "#!/bin/sh\ncase $1 in --atleast-version=0.81.0) exit 1 ;; --modversion) echo 0.80.0 ;; *) echo /usr ;; esac\n";
    let pkg_config = bin.join("pkg-config");
    std::fs::write(&pkg_config, says).unwrap();
    std::fs::set_permissions(&pkg_config, Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let refused = make_installer_command(&from, &dest, &[]).env("PATH", path).output().expect("bash runs");
    let message = String::from_utf8_lossy(&refused.stderr);
    assert!(message.contains("flux-core 0.80.0 is too old") && !refused.status.success(), "{message}");
    assert_eq!(count_files(&dest), 0);
    for directory in [from, dest, bin] {
        std::fs::remove_dir_all(directory).unwrap();
    }
}
