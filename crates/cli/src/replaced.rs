// SPDX-License-Identifier: LGPL-3.0-only
//! Replaces a file atomically: a reader sees the old text or the new text, never a mix.
//!
//! An HTML page replaces only a regular file. It never replaces the target of a symbolic link.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::outcome::{Result, failure};

/// Replaces the file `path` by `text`. A symbolic link at `path` is replaced, not followed. The new file has
/// the permissions `mode`. Without `mode`, the umask determines the permissions.
fn replace(path: &Path, text: &[u8], mode: Option<u32>) -> io::Result<()> {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    // The name of the temporary file ends with `.part`. Programs that read files with another suffix, such as
    // `*.prom`, ignore this file.
    let mut temporary = tempfile::Builder::new()
        .prefix(".flux-fairshare.")
        .suffix(".part")
        .permissions(Permissions::from_mode(mode.unwrap_or(0o666)))
        .tempfile_in(directory)
        // The text of tempfile's error ends with the name of the temporary file.
        .map_err(|error| io::Error::other(error.to_string().split(" at path ").next().unwrap_or_default()))?;
    temporary.write_all(text)?;
    if let Some(mode) = mode {
        temporary.as_file().set_permissions(Permissions::from_mode(mode))?;
    }
    temporary.as_file().sync_all()?;
    temporary.persist(path).map_err(|failed| failed.error)?;
    // Sync the directory, so that the new file survives a crash of the machine. A failure is ignored, because readers already see
    // the new text. The directory may be unreadable, or its file system may not support the sync.
    let _ = File::open(directory).and_then(|directory| directory.sync_all());
    Ok(())
}

/// Fails if `path` can't be replaced. Commands call it before they begin their work.
pub(crate) fn check_page(path: &Path) -> Result<()> {
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

/// Replaces the file by the page, and keeps the permissions of the old file. Fails if `path` exists and is not a regular file. If a
/// link appears at `path` after this check, the page replaces the link, and not the target of the link.
pub(crate) fn replace_page(path: &Path, text: &[u8]) -> io::Result<()> {
    check_file_type(path)?;
    let before = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file);
    replace(path, text, before.map(|before| before.permissions().mode() & 0o777))
}

/// Replaces the file for node_exporter's textfile collector by `text`. A symbolic link is replaced, and the target of the link is not changed.
pub(crate) fn replace_textfile(path: &Path, text: &str) -> io::Result<()> {
    if fs::symlink_metadata(path).is_ok_and(|there| there.is_dir()) {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    // The collector runs as another user, which must be able to read the file.
    replace(path, text.as_bytes(), Some(0o644))
}
