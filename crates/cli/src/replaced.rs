// SPDX-License-Identifier: LGPL-3.0-only
//! A file in place of another: whoever reads it sees the old text or the new one, never a part.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Puts a text in the place of the file. What is there is replaced and never followed, be it a link. Who may use it is for
/// `mode` to say, or for the umask.
pub(super) fn replace(path: &Path, text: &[u8], mode: Option<u32>) -> io::Result<()> {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    // Made anew or not at all, under a name that nobody can guess, and that no collector of files by their endings takes.
    let mut part = tempfile::Builder::new()
        .prefix(".flux-fairshare.")
        .suffix(".part")
        .permissions(Permissions::from_mode(mode.unwrap_or(0o666)))
        .tempfile_in(directory)?;
    part.write_all(text)?;
    if let Some(mode) = mode {
        part.as_file().set_permissions(Permissions::from_mode(mode))?;
    }
    part.as_file().sync_all()?;
    part.persist(path).map_err(|failed| failed.error)?;
    // From here on everybody reads the new text. Where the directory may be written and not read, or its file system syncs none, only
    // a crash of the machine may bring the old one back.
    let _ = File::open(directory).and_then(|directory| directory.sync_all());
    Ok(())
}
