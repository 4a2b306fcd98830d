// SPDX-License-Identifier: LGPL-3.0-only
//! Writes the file for node_exporter's textfile collector, which sees the old text or the new text, never a mix.

use std::fs;
use std::io;
use std::path::Path;

use crate::replaced;

/// Replaces the file by `text`. A symbolic link is replaced, and the target of the link is not changed.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    if fs::symlink_metadata(path).is_ok_and(|there| there.is_dir()) {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    // The collector runs as another user, which must be able to read the file.
    replaced::replace(path, text.as_bytes(), Some(0o644))
}
