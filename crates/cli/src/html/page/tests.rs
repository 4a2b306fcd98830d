// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of the files that pages are written to, and a helper for the tests of both pages.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use crate::replaced;

/// Splits a page into its data block and all other text.
pub(crate) fn split_page(page: &str) -> (String, String) {
    let (before, rest) = page.split_once("<script type=\"application/json\" id=\"data\">").expect("a block");
    let (data, after) = rest.split_once("</script>").expect("its end");
    (data.to_owned(), format!("{before}{after}"))
}

#[test]
fn only_a_regular_file_is_replaced_atomically() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    fs::write(at("precious"), "precious").expect("written");
    symlink(at("precious"), at("link")).expect("a link");
    symlink(at("nothing"), at("dangling")).expect("a link");
    fs::create_dir(at("folder")).expect("a folder");
    for name in ["link", "dangling", "folder"] {
        assert!(
            replaced::check_page(&at(name)).is_err() && replaced::replace_page(&at(name), b"x").is_err(),
            "{name}"
        );
    }
    assert!(replaced::check_page(Path::new("/dev/null")).is_err(), "a device is not replaced by a file");
    assert_eq!(fs::read_to_string(at("precious")).expect("there"), "precious");
    assert!(fs::symlink_metadata(at("dangling")).expect("there").is_symlink() && !at("nothing").exists());
    replaced::replace_page(&at("report.html"), b"one").expect("written");
    let open = fs::File::open(at("report.html")).expect("there");
    fs::set_permissions(at("report.html"), fs::Permissions::from_mode(0o640)).expect("done");
    replaced::replace_page(&at("report.html"), b"two").expect("written");
    assert_eq!(std::io::read_to_string(open).expect("the old one"), "one");
    assert_eq!(fs::read_to_string(at("report.html")).expect("there"), "two");
    let mode = fs::metadata(at("report.html")).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o640, "the permissions are as before");
    assert_eq!(fs::read_dir(directory.path()).expect("a directory").count(), 5, "nothing is left over");
    assert!(replaced::replace_page(Path::new("/nonexistent/report.html"), b"x").is_err());
}
