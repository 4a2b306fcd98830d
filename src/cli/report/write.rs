// SPDX-License-Identifier: LGPL-3.0-only
//! A file in place of another, as a whole. Nothing is written through a link, and nothing but a file is replaced.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::cli::Failure;

/// Refuses what could not be replaced, before any work is done for it.
pub(super) fn check(path: &Path) -> Result<(), Failure> {
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
        kind if kind.is_symlink() => "is a link; name the file itself, or - for standard output",
        kind if kind.is_dir() => "is a directory",
        _ => "is no file; - is standard output",
    };
    Err(io::Error::other(what))
}

/// Writes beside the file and puts it in its place. What comes there meanwhile is replaced, never followed.
pub(super) fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    refuse(path)?;
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    // Made anew or not at all, under a name that nobody can guess; who may read it is for the umask to say.
    let mut part = tempfile::Builder::new()
        .prefix(".flux-fairshare.")
        .suffix(".part")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(directory)?;
    part.write_all(text)?;
    if let Ok(before) = fs::symlink_metadata(path)
        && before.is_file()
    {
        part.as_file().set_permissions(Permissions::from_mode(before.permissions().mode() & 0o777))?;
    }
    part.as_file().sync_all()?;
    part.persist(path).map_err(|failed| failed.error)?;
    File::open(directory)?.sync_all()
}
