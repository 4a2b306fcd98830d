// SPDX-License-Identifier: LGPL-3.0-only
//! Replaces a file atomically: a reader sees the old text or the new text, never a mix.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Replaces the file `path` by `text`. A symbolic link at `path` is replaced, not followed. The new file has
/// the permissions `mode`. Without `mode`, the umask determines the permissions.
pub(super) fn replace(path: &Path, text: &[u8], mode: Option<u32>) -> io::Result<()> {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    // The temporary file has a random name. Its suffix keeps collectors away that pick files by their ending, such as *.prom.
    let mut temporary = tempfile::Builder::new()
        .prefix(".flux-fairshare.")
        .suffix(".part")
        .permissions(Permissions::from_mode(mode.unwrap_or(0o666)))
        .tempfile_in(directory)?;
    temporary.write_all(text)?;
    if let Some(mode) = mode {
        temporary.as_file().set_permissions(Permissions::from_mode(mode))?;
    }
    temporary.as_file().sync_all()?;
    temporary.persist(path).map_err(|failed| failed.error)?;
    // From here on readers see the new text. The sync makes the rename survive a crash of the machine. The sync may fail: the directory may
    // be unreadable, or its file system may not sync directories.
    let _ = File::open(directory).and_then(|directory| directory.sync_all());
    Ok(())
}
