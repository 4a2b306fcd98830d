// SPDX-License-Identifier: LGPL-3.0-only
//! `etc/install.sh` on a machine without Flux: the same files, below /usr/local, and none of them left behind.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn directory(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

fn install(from: &Path, dest: &Path, more: &[&str]) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("etc/install.sh");
    let mut command = Command::new("bash");
    command.arg(script).arg("--from").arg(from).arg("--destdir").arg(dest).args(more);
    // As where no flux-core is installed.
    command.env("PKG_CONFIG_LIBDIR", "/nonexistent").env_remove("PKG_CONFIG_PATH");
    command.output().expect("bash runs")
}

fn files(directory: &Path) -> usize {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { files(&path) } else { 1 }).sum()
}

#[test]
fn without_flux_it_goes_below_usr_local_and_away_again() {
    let (from, dest) = (directory("install-from"), directory("install-dest"));
    std::fs::copy(super::abi::plugin(), from.join("libmf_priority.so")).unwrap();
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
