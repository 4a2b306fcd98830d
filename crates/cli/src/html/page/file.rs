// SPDX-License-Identifier: LGPL-3.0-only
//! Writes a page to a file, atomically. Only a regular file is replaced, and a symbolic link is not followed.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::outcome::{Result, failure};
use crate::replaced;

/// Fails if `path` can't be replaced. Commands call it before they begin their work.
pub(crate) fn check(path: &Path) -> Result<()> {
    check_file_type(path).map_err(|error| failure(format!("{}: {error}", path.display())))
}

/// Fails if `path` exists and is not a regular file.
fn check_file_type(path: &Path) -> io::Result<()> {
    let there = match fs::symlink_metadata(path) {
        Ok(there) => there,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let reason = match there.file_type() {
        kind if kind.is_file() => return Ok(()),
        kind if kind.is_symlink() => "is a link; name the file itself",
        kind if kind.is_dir() => "is a directory",
        _ => "is not a regular file",
    };
    Err(io::Error::other(reason))
}

/// Replaces the file by the page, with the permissions of the old file. If a link appears at `path` meanwhile, it is replaced.
pub(crate) fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    check_file_type(path)?;
    let before = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file);
    replaced::replace(path, text, before.map(|before| before.permissions().mode() & 0o777))
}
