// SPDX-License-Identifier: LGPL-3.0-only
//! `etc/install.sh` on a machine without Flux installs the same files below /usr/local, and uninstalls all of them.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn directory(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

fn install(from: &Path, dest: &Path, more: &[&str]) -> Output {
    script(from, dest, more).output().expect("bash runs")
}

fn script(from: &Path, dest: &Path, more: &[&str]) -> Command {
    let script = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("etc/install.sh");
    let mut command = Command::new("bash");
    command.arg(script).arg("--from").arg(from).arg("--destdir").arg(dest).args(more);
    // As on a machine without flux-core.
    command.env("PKG_CONFIG_LIBDIR", "/nonexistent").env_remove("PKG_CONFIG_PATH");
    command
}

fn files(directory: &Path) -> usize {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { files(&path) } else { 1 }).sum()
}

#[test]
fn without_flux_it_goes_below_usr_local_and_away_again() {
    let (from, dest) = (directory("install-from"), directory("install-dest"));
    std::fs::copy(crate::built::plugin(), from.join("libmf_priority.so")).unwrap();
    std::fs::copy(env!("CARGO_BIN_EXE_flux-fairshare"), from.join("flux-fairshare")).unwrap();
    let output = install(&from, &dest, &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let there = |path: &str| dest.join("usr/local").join(path).exists();
    for path in ["lib/flux/job-manager/plugins/mf_priority.so", "libexec/flux/cmd/flux-fairshare"] {
        assert!(there(path), "{path}");
    }
    let list = std::fs::read_to_string(dest.join("usr/local/share/flux-fairshare/installed")).unwrap();
    assert_eq!(files(&dest), list.lines().count() + 1, "all files, and the list");
    assert!(install(&from, &dest, &["--uninstall"]).status.success());
    assert_eq!(files(&dest), 0);

    let usr = install(&from, &dest, &["--prefix", "/usr"]);
    assert!(usr.status.success() && dest.join("etc/flux/rc1.d/02-flux-fairshare").exists());
    for directory in [from, dest] {
        std::fs::remove_dir_all(directory).unwrap();
    }
}

/// An old Flux lacks a function that the plugin calls, and an instance with a plugin that cannot be loaded does not start.
#[test]
fn below_a_flux_that_is_too_old_nothing_is_installed() {
    let (from, dest, bin) =
        (directory("install-old-from"), directory("install-old-dest"), directory("install-old-bin"));
    let says = "#!/bin/sh\ncase $1 in --atleast-version=0.81.0) exit 1 ;; --modversion) echo 0.80.0 ;; *) echo /usr ;; esac\n";
    let pkg_config = bin.join("pkg-config");
    std::fs::write(&pkg_config, says).unwrap();
    std::fs::set_permissions(&pkg_config, Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let refused = script(&from, &dest, &[]).env("PATH", path).output().expect("bash runs");
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(told.contains("flux-core 0.80.0 is too old") && !refused.status.success(), "{told}");
    assert_eq!(files(&dest), 0);
    for directory in [from, dest, bin] {
        std::fs::remove_dir_all(directory).unwrap();
    }
}
