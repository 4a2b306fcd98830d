// SPDX-License-Identifier: LGPL-3.0-only
//! A file for node_exporter's textfile collector: whoever reads it sees the old text or the new one, never a part.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Puts a text in the place of the file. A link there is replaced, and what it points to left alone.
pub(super) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    if fs::symlink_metadata(path).is_ok_and(|there| there.is_dir()) {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    // The collector reads what ends in .prom: what is half written does not.
    let mut part =
        tempfile::Builder::new().prefix(".flux-fairshare.").suffix(".part").tempfile_in(directory)?;
    part.write_all(text.as_bytes())?;
    // The collector runs as another user.
    part.as_file().set_permissions(Permissions::from_mode(0o644))?;
    part.as_file().sync_all()?;
    part.persist(path).map_err(|failed| failed.error)?;
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_file_is_replaced_whole_and_a_link_with_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a.prom");
        replace(&path, "one\n").expect("written");
        let before = File::open(&path).expect("there");
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
