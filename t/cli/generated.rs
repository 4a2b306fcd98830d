// SPDX-License-Identifier: LGPL-3.0-only
//! Manual pages and completions in `etc/` are those the definitions make. `UPDATE_GOLDEN=1` rewrites them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::{directory, fairshare};

fn files(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for folder in ["man1", "completions"] {
        for entry in fs::read_dir(root.join(folder)).into_iter().flatten().flatten() {
            let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
            found.insert(name, fs::read_to_string(entry.path()).expect("text"));
        }
    }
    found
}

#[test]
fn manual_pages_and_completions_are_up_to_date() {
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("etc");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        for folder in ["man1", "completions"] {
            let _ = fs::remove_dir_all(committed.join(folder));
        }
        fairshare(["generate".as_ref(), committed.as_os_str()]).ok();
    }
    let fresh = directory("generated");
    fairshare(["generate".as_ref(), fresh.as_os_str()]).ok();
    let (committed, fresh) = (files(&committed), files(&fresh));
    assert!(fresh.len() >= 9, "pages for each command, completions for three shells");
    let names = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&committed), names(&fresh), "UPDATE_GOLDEN=1 cargo test rewrites etc/");
    for (name, text) in &fresh {
        assert!(
            committed.get(name) == Some(text),
            "etc/{name} is out of date: UPDATE_GOLDEN=1 cargo test rewrites it"
        );
    }
}

#[test]
fn the_short_help_fits_a_screen() {
    for command in ["show", "update", "push", "compare", "why"] {
        let ran = fairshare([command, "-h"]);
        assert!(ran.ok().lines().count() <= 50, "{command}");
        assert!(fairshare([command, "--help"]).ok().len() >= ran.out.len());
    }
    let ran = fairshare(["--help"]);
    assert!(ran.ok().contains("Exit status:\n  0  done\n"), "{ran:?}");
}
