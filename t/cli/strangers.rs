// SPDX-License-Identifier: LGPL-3.0-only
//! If root reads or writes the database of another user, the journals and logs of that user must have no effect on other files.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};

use super::fairshare;
use super::powerless::{UnprivilegedDirectory, check_root_or_print_skip, set_mode, with_suffix};
use super::site::Site;

/// A user id that this machine does not have.
const STRANGER: u32 = 12_345;

fn change_owner(path: &Path) {
    chown(path, Some(STRANGER), None).expect("root gives it away");
}

/// Writes a journal that belongs to the other user next to the database. If SQLite played this journal back, it would remove `victim`. Like the
/// journal of a change to several databases, it ends with the name of the common journal, its length, the sum of its bytes, and a magic number.
fn write_malicious_journal(database: &Path, victim: &Path) -> PathBuf {
    let name = victim.as_os_str().as_encoded_bytes();
    let sum: u32 = name.iter().map(|byte| u32::from(*byte)).sum();
    let length = u32::try_from(name.len()).expect("a short name");
    let mut bytes = vec![b'x'; 512];
    bytes.extend_from_slice(name);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(&sum.to_be_bytes());
    bytes.extend_from_slice(&[0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7]);
    let journal = with_suffix(database, "-journal");
    fs::write(&journal, bytes).expect("written");
    change_owner(&journal);
    journal
}

/// Returns content and owner of the file at `path`, or `None` if it cannot be read.
fn read_with_owner(path: &Path) -> Option<(Vec<u8>, u32)> {
    Some((fs::read(path).ok()?, fs::metadata(path).ok()?.uid()))
}

#[test]
fn another_users_journal_cannot_make_sqlite_remove_a_file() {
    if !check_root_or_print_skip("a journal of another user") {
        return;
    }
    let interrupted = "read-only: its owner must first roll back an interrupted write: run \"flux fairshare show\" as the owner of the file";
    let foreign = format!(
        "user {STRANGER} owns the companion file that ends in -journal, which is not safe to open; if you trust it, change its owner to that of the database (chown), otherwise remove it"
    );
    for (whose, is_strangers, text) in [("the stranger's", true, interrupted), ("root's", false, &foreign)] {
        for log in [false, true] {
            let site = Site::small("journal_of_another");
            if log {
                site.sql("PRAGMA journal_mode = WAL");
            }
            let victim = site.path.with_file_name("victim");
            fs::write(&victim, "precious").expect("written");
            let journal = write_malicious_journal(&site.path, &victim);
            if is_strangers {
                change_owner(&site.path);
            }
            set_mode(&site.path, 0o666);
            let link = site.path.with_file_name("link.db");
            std::os::unix::fs::symlink("site.db", &link).expect("a link");
            let files = || [&site.path, &journal, &victim].map(|path| read_with_owner(path));
            let before = files();
            let commands =
                [(&["show"][..], ""), (&["why", "ann"], ""), (&["update"], "; nothing was changed")];
            for (command, more) in commands {
                for path in [&site.path, &link] {
                    let path = path.to_str().expect("text");
                    let ran = fairshare([command, &["--wait", "0.1", "-p", path]].concat());
                    let what = format!("{command:?} of {whose} database, log: {log}");
                    assert!(victim.exists(), "{what}: {ran:?}");
                    assert!(files() == before, "{what}: {ran:?}");
                    assert_eq!(ran.error(), format!("flux-fairshare: {path}: {text}{more}"), "{what}");
                }
            }
        }
    }
}

#[test]
fn files_next_to_a_database_keep_their_owner() {
    if !check_root_or_print_skip("a file next to a database of another user") {
        return;
    }
    for suffix in ["-journal", "-wal", "-shm"] {
        for log in [false, true] {
            let site = Site::small("file_beside");
            if log {
                site.sql("PRAGMA journal_mode = WAL");
            }
            change_owner(&site.path);
            // A user that may write in a directory can rename files of root there.
            let secret = with_suffix(&site.path, suffix);
            fs::write(&secret, "x".repeat(600)).expect("written");
            set_mode(&secret, 0o600);
            let before = read_with_owner(&secret);
            for command in ["show", "update"] {
                let ran = fairshare([command, "--wait", "0.1", "-p", site.path()]);
                assert!(read_with_owner(&secret) == before, "{command}, log: {log}: {ran:?}");
                let expected = format!("user 0 owns the companion file that ends in {suffix}");
                assert!(ran.error().contains(&expected), "{command}, log: {log}: {ran:?}");
            }
        }
    }
}

#[test]
fn an_update_waits_for_a_write_of_the_owner() {
    if !check_root_or_print_skip("a write of somebody else") {
        return;
    }
    let site = Site::small("write_of_another");
    change_owner(&site.path);
    let other = site.open();
    other.execute_batch("BEGIN IMMEDIATE; UPDATE association_table SET shares = 9").expect("begun");
    assert!(fs::metadata(with_suffix(&site.path, "-journal")).expect("a journal").len() > 0);
    // The lock of the other program does not block `show`, which only reads.
    fairshare(["show", "-p", site.path()]).ok();
    site.check_that_update_waits_for_lock(&other);
}

#[test]
fn a_reader_of_the_log_of_another_user_leaves_no_files() {
    if !check_root_or_print_skip("a log of somebody else") {
        return;
    }
    let site = Site::small("log_of_another");
    site.sql("PRAGMA journal_mode = WAL");
    let view = UnprivilegedDirectory::new("log-of-another", &site);
    change_owner(&view.database);
    set_mode(&view.database, 0o644);
    set_mode(&view.directory, 0o777);
    let beside = || {
        ["-wal", "-shm"]
            .map(|suffix| fs::metadata(with_suffix(&view.database, suffix)).ok().map(|file| file.uid()))
    };
    assert!(view.run("show").ok().contains("ann"));
    assert_eq!(beside(), [None; 2]);
    let owned = Site { path: view.database.clone() };
    let path = owned.path();
    // Root can read a database while its owner writes, and the owner can use the files that root creates.
    assert!(fairshare(["show", "-p", path]).ok().contains("ann"));
    assert!(beside().into_iter().all(|user| user.is_none_or(|user| user == STRANGER)), "{:?}", beside());
    let writer = owned.open();
    writer
        .execute_batch(
            "UPDATE association_table SET shares = 7; BEGIN IMMEDIATE; UPDATE bank_table SET shares = 2",
        )
        .expect("written into the log");
    for ran in [fairshare(["show", "-p", path, "-P", "-o", "name,shares"]), {
        let mut line = view.program();
        super::run_with_input(line.args(["show", "-p", path, "-P", "-o", "name,shares"]), "")
    }] {
        assert!(ran.ok().contains("ann|7\n"), "{ran:?}");
    }
    // After a crash, the log has no index. A reader would have to create the index.
    fs::copy(with_suffix(&view.database, "-wal"), view.directory.join("left.db-wal")).expect("copied");
    fs::copy(&view.database, view.directory.join("left.db")).expect("copied");
    let left =
        UnprivilegedDirectory { database: view.directory.join("left.db"), directory: view.directory.clone() };
    for suffix in ["", "-wal"] {
        change_owner(&with_suffix(&left.database, suffix));
    }
    let ran = left.run("show");
    assert!(ran.error().contains("its owner must first roll back an interrupted write"), "{ran:?}");
    assert!(!with_suffix(&left.database, "-shm").exists());
}
