// SPDX-License-Identifier: LGPL-3.0-only
//! A file for node_exporter's textfile collector: whoever reads it sees the old text or the new one, never a part.

use std::fs;
use std::io;
use std::path::Path;

use crate::replaced;

/// Puts a text in the place of the file. A link there is replaced, and what it points to left alone.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    if fs::symlink_metadata(path).is_ok_and(|there| there.is_dir()) {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    // The collector runs as another user.
    replaced::replace(path, text.as_bytes(), Some(0o644))
}
