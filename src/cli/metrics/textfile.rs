// SPDX-License-Identifier: LGPL-3.0-only
//! A file for node_exporter's textfile collector: whoever reads it sees the old text or the new one, never a part.

use std::fs;
use std::io;
use std::path::Path;

use crate::cli::replaced;

/// Puts a text in the place of the file. A link there is replaced, and what it points to left alone.
pub(super) fn replace(path: &Path, text: &str) -> io::Result<()> {
    if fs::symlink_metadata(path).is_ok_and(|there| there.is_dir()) {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    // The collector runs as another user.
    replaced::replace(path, text.as_bytes(), Some(0o644))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_file_is_replaced_whole_and_a_link_with_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a.prom");
        replace(&path, "one\n").expect("written");
        let before = fs::File::open(&path).expect("there");
        replace(&path, "two\n").expect("written");
        assert_eq!(fs::read_to_string(&path).expect("there"), "two\n");
        assert_eq!(io::read_to_string(before).expect("still the old one"), "one\n");
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
        let (link, victim) = (directory.path().join("link.prom"), directory.path().join("victim"));
        fs::write(&victim, "precious").expect("written");
        symlink(&victim, &link).expect("a link");
        replace(&link, "three\n").expect("written");
        assert_eq!(fs::read_to_string(&victim).expect("there"), "precious");
        assert_eq!(fs::read_to_string(&link).expect("there"), "three\n");
        assert!(fs::symlink_metadata(&link).expect("there").is_file());
        let names: Vec<_> = fs::read_dir(directory.path()).expect("a directory").collect();
        assert_eq!(names.len(), 3, "nothing is left over: {names:?}");
        assert!(
            replace(directory.path(), "x").is_err() && replace(Path::new("/nonexistent/x"), "x").is_err()
        );
    }
}
