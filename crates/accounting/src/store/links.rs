// SPDX-License-Identifier: LGPL-3.0-only
//! Links in the place of a database that is to be written. The administrator may have put one there; a link of anybody else would
//! choose what file root writes into.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The kernel follows no more of them.
const MOST_HOPS: usize = 40;

/// The user who made a link on the way from `path` to its file, unless that is root or the caller, `own`.
pub(super) fn strangers(path: &Path, own: u32) -> Option<u32> {
    let mut here = path.to_owned();
    for _ in 0..MOST_HOPS {
        let found = std::fs::symlink_metadata(&here).ok().filter(std::fs::Metadata::is_symlink)?;
        let user = found.uid();
        if user != 0 && user != own {
            return Some(user);
        }
        let to = std::fs::read_link(&here).ok()?;
        // What it names is relative to where it is.
        here = here.parent().unwrap_or(Path::new("")).join(to);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::strangers;
    use std::os::unix::fs::{MetadataExt, lchown, symlink};

    #[test]
    fn a_link_is_followed_if_root_or_the_caller_made_it() {
        let room = tempfile::tempdir().unwrap();
        let (file, first, second) =
            (room.path().join("file"), room.path().join("first"), room.path().join("second"));
        std::fs::write(&file, "x").unwrap();
        symlink("file", &first).unwrap();
        symlink(&first, &second).unwrap();
        let own = std::fs::metadata(&file).unwrap().uid();
        assert_eq!([&file, &first, &second].map(|path| strangers(path, own)), [None; 3]);
        // Whoever runs the tests is somebody else's stranger; root is nobody's.
        let found = [&file, &first, &second].map(|path| strangers(path, own + 1));
        assert_eq!(found, [None, Some(own), Some(own)].map(|user| user.filter(|user| *user != 0)));
        // Root can make a link for another.
        if lchown(&first, Some(12_345), None).is_ok() {
            let found = [&file, &first, &second].map(|path| strangers(path, own));
            assert_eq!(found, [None, Some(12_345), Some(12_345)]);
        }
        std::fs::remove_file(&first).unwrap();
        symlink("second", &first).unwrap();
        assert_eq!(strangers(&second, own), None, "links in a circle lead nowhere");
    }
}
