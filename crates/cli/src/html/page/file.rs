// SPDX-License-Identifier: LGPL-3.0-only
//! A page in the place of a file, as a whole. Nothing is written through a link, and nothing but a file is replaced.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::outcome::Failure;
use crate::replaced;

/// Refuses what could not be replaced, before any work is done for it.
pub(crate) fn check(path: &Path) -> Result<(), Failure> {
    refuse(path).map_err(|error| Failure::Message(format!("{}: {error}", path.display())))
}

fn refuse(path: &Path) -> io::Result<()> {
    let there = match fs::symlink_metadata(path) {
        Ok(there) => there,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let what = match there.file_type() {
        kind if kind.is_file() => return Ok(()),
        kind if kind.is_symlink() => "is a link; name the file itself",
        kind if kind.is_dir() => "is a directory",
        _ => "is no file",
    };
    Err(io::Error::other(what))
}

/// Puts the page there, for whom the file was before. What comes there meanwhile is replaced, never followed.
pub(crate) fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    refuse(path)?;
    let before = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file);
    replaced::replace(path, text, before.map(|before| before.permissions().mode() & 0o777))
}
