// SPDX-License-Identifier: LGPL-3.0-only
//! Checks symbolic links to a database that is to be written. A link of the administrator is fine. A link of another
//! user would choose the file into which root writes.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The kernel does not follow more links than this.
const MOST_HOPS: usize = 40;

/// Returns the owner of a link between `path` and its file, if that owner is neither root nor the caller `own`.
pub(super) fn find_link_of_other_user(path: &Path, own: u32) -> Option<u32> {
    let mut here = path.to_owned();
    for _ in 0..MOST_HOPS {
        let found = std::fs::symlink_metadata(&here).ok().filter(std::fs::Metadata::is_symlink)?;
        let user = found.uid();
        if user != 0 && user != own {
            return Some(user);
        }
        let to = std::fs::read_link(&here).ok()?;
        // A relative target starts at the directory of the link.
        here = here.parent().unwrap_or(Path::new("")).join(to);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::find_link_of_other_user;
    use std::os::unix::fs::{MetadataExt, lchown, symlink};

    #[test]
    fn a_link_is_followed_if_root_or_the_caller_made_it() {
        let directory = tempfile::tempdir().unwrap();
        let (file, first, second) =
            (directory.path().join("file"), directory.path().join("first"), directory.path().join("second"));
        std::fs::write(&file, "x").unwrap();
        symlink("file", &first).unwrap();
        symlink(&first, &second).unwrap();
        let own = std::fs::metadata(&file).unwrap().uid();
        assert_eq!([&file, &first, &second].map(|path| find_link_of_other_user(path, own)), [None; 3]);
        // To the user `own + 1`, the links of the user `own` belong to another user. Links of root are always
        // accepted.
        let found = [&file, &first, &second].map(|path| find_link_of_other_user(path, own + 1));
        assert_eq!(found, [None, Some(own), Some(own)].map(|user| user.filter(|user| *user != 0)));
        // As root, the test can give the link to another user.
        if lchown(&first, Some(12_345), None).is_ok() {
            let found = [&file, &first, &second].map(|path| find_link_of_other_user(path, own));
            assert_eq!(found, [None, Some(12_345), Some(12_345)]);
        }
        std::fs::remove_file(&first).unwrap();
        symlink("second", &first).unwrap();
        assert_eq!(find_link_of_other_user(&second, own), None, "a cycle of links leads to no file");
    }
}
