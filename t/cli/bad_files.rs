// SPDX-License-Identifier: LGPL-3.0-only
//! Unusable files give a clear message and exit status 2, and stay unchanged.

use std::fs;

use super::powerless::{UnprivilegedDirectory, set_mode, with_suffix};
use super::site::Site;
use super::{fairshare, run_with_input};

/// Checks that show and update refuse the file with this text and leave it unchanged.
#[track_caller]
fn assert_refused(path: &str, text: &str) {
    assert_refused_with(path, text, "");
}

/// Like [`assert_refused`], but expects that the message of `update` ends with "; nothing was changed".
#[track_caller]
fn assert_refused_without_changes(path: &str, text: &str) {
    assert_refused_with(path, text, "; nothing was changed");
}

#[track_caller]
fn assert_refused_with(path: &str, text: &str, of_update: &str) {
    let before = fs::read(path).ok();
    for (command, more) in [("show", ""), ("update", of_update)] {
        let ran = fairshare([command, "-p", path, "--wait", "0.1"]);
        assert_eq!(ran.error(), format!("flux-fairshare: {path}: {text}{more}"), "{command}");
    }
    assert_eq!(fs::read(path).ok(), before);
}

const ELSEWHERE: &str = "-p FILE or FLUX_FAIRSHARE_DATABASE names another database";
const DOCUMENT: &str = ", -t FILE reads a document instead";
const LIVE: &str = "; \"flux fairshare standing\" and \"flux fairshare why JOBID\" ask the plugin instead";

#[test]
fn missing_empty_and_foreign_files_are_refused() {
    let directory = super::directory("foreign");
    let path = directory.join("none.db");
    for (command, document) in [("show", DOCUMENT), ("update", "")] {
        let text =
            format!("no such file; {ELSEWHERE}{document}, \"flux account create-db\" creates a database");
        let ran = fairshare([command.as_ref(), "-p".as_ref(), path.as_os_str()]);
        assert_eq!(ran.error(), format!("flux-fairshare: {}: {text}", path.display()));
    }
    assert!(!path.exists(), "nothing was created");
    assert_refused(&super::file("empty", ""), "an empty file");
    assert_refused(
        &super::file("text", "just some text, much longer than the header of a database"),
        "not an SQLite database",
    );
    assert_refused(directory.to_str().expect("text"), "can't be read: Is a directory");
}

#[test]
fn truncated_files_are_refused() {
    let site = Site::large("truncated", 3, 200);
    let original_bytes = site.bytes();
    for keep in [100, 4096, original_bytes.len() / 2, original_bytes.len() - 1] {
        fs::write(&site.path, &original_bytes[..keep]).expect("written");
        assert_refused_without_changes(
            site.path(),
            &format!("truncated: {keep} of {} bytes", original_bytes.len()),
        );
    }
    fs::write(&site.path, &original_bytes[..50]).expect("written");
    assert_refused_without_changes(site.path(), "truncated: 50 of 512 bytes");
}

#[test]
fn a_damaged_page_is_reported() {
    let site = Site::large("damaged", 3, 400);
    let mut bytes = site.bytes();
    let page = 4096;
    // The damage spares the first page, which has the schema.
    bytes[page..].fill(0xA5);
    fs::write(&site.path, &bytes).expect("written");
    for command in ["show", "update"] {
        let ran = fairshare([command, "-p", site.path()]);
        assert!(ran.error().contains(": damaged: database disk image is malformed"), "{ran:?}");
    }
    assert_eq!(site.bytes(), bytes);
}

#[test]
fn wrong_schemas_are_refused() {
    let version = "\"flux account-update-db\" brings an old one up to date";
    let rows = [
        ("DROP TABLE association_table", "no table association_table"),
        ("DROP TABLE bank_table", "no table bank_table"),
        (
            "ALTER TABLE association_table DROP COLUMN job_usage",
            "table association_table has no column job_usage",
        ),
        (
            "ALTER TABLE association_table DROP COLUMN shares; ALTER TABLE association_table DROP COLUMN fairshare",
            "table association_table has no columns shares, fairshare",
        ),
        ("ALTER TABLE bank_table DROP COLUMN parent_bank", "table bank_table has no column parent_bank"),
        (
            "ALTER TABLE bank_table DROP COLUMN shares; ALTER TABLE association_table DROP COLUMN fairshare",
            "table bank_table has no column shares; table association_table has no column fairshare",
        ),
        (
            "DROP TABLE bank_table; DROP TABLE association_table",
            "no table bank_table; no table association_table",
        ),
    ];
    for (index, (sql, what)) in rows.into_iter().enumerate() {
        let site = Site::small(&format!("schema{index}"));
        site.sql(sql);
        let text = format!("not a usable flux-accounting database: {what} (schema version 38); {version}");
        assert_refused(site.path(), &text);
    }
}

#[test]
fn invalid_trees_are_refused() {
    let rows = [
        (
            "INSERT INTO bank_table (bank, parent_bank, shares) VALUES ('Q', 'P', 1)",
            "bank \"Q\": its parent \"P\" does not exist",
        ),
        ("UPDATE bank_table SET parent_bank = '' WHERE bank = 'A'", "several roots"),
        ("UPDATE bank_table SET parent_bank = 'A' WHERE bank = 'root'", "no root: every bank has a parent"),
        ("DELETE FROM bank_table", "there are no banks"),
        (
            "DROP TABLE bank_table; CREATE TABLE bank_table (bank, parent_bank, shares);
             INSERT INTO bank_table VALUES ('root', '', 1), (NULL, 'root', 1)",
            "bank_table, row 2: bank is NULL, expected text",
        ),
        (
            "INSERT INTO bank_table (bank, parent_bank, shares) VALUES ('A', 'B', 1)",
            "bank \"A\" appears twice",
        ),
        (
            "UPDATE association_table SET bank = 'Z' WHERE username = 'ann'",
            "user \"ann\": bank \"Z\" does not exist",
        ),
        ("UPDATE association_table SET job_usage = -1 WHERE username = 'ann'", "job_usage is -1"),
        (
            "UPDATE association_table SET job_usage = 1e299 WHERE username = 'ann'",
            "association_table: username \"ann\" bank \"A\": job_usage is 1e299, expected a number from 0 to 1e250",
        ),
        (
            "UPDATE association_table SET shares = -1 WHERE username = 'ann'",
            "association_table: username \"ann\" bank \"A\": shares is -1, expected a whole number >= 0",
        ),
        (
            "UPDATE association_table SET job_usage = 'much' WHERE username = 'ann'",
            "job_usage is \"much\", expected a number from 0 to 1e250",
        ),
        ("UPDATE association_table SET job_usage = 9e999 WHERE username = 'ann'", "job_usage is inf"),
        (
            "UPDATE bank_table SET shares = 1.5 WHERE bank = 'A'",
            "bank_table: bank \"A\": shares is 1.5, expected a whole number",
        ),
    ];
    for (index, (sql, what)) in rows.into_iter().enumerate() {
        let site = Site::small(&format!("no_tree{index}"));
        site.sql(sql);
        let before = site.bytes();
        for command in ["show", "update"] {
            let ran = fairshare([command, "-p", site.path()]);
            assert!(ran.error().starts_with(&format!("flux-fairshare: {}: ", site.path())), "{ran:?}");
            assert!(ran.error().contains(what), "{sql}: {ran:?}");
        }
        assert_eq!(site.bytes(), before);
    }
}

#[test]
fn a_database_locked_by_another_process_is_reported() {
    let site = Site::small("locked");
    let other = site.open();
    other.execute_batch("BEGIN EXCLUSIVE").expect("locked");
    // The file must not be opened here, because closing it would drop the locks of this process.
    for (command, more) in [("show", ""), ("update", "; nothing was changed")] {
        let ran = fairshare([command, "-p", site.path(), "--wait", "0.1"]);
        let text = format!("locked by another process (waited 0.1 s){more}");
        assert_eq!(ran.error(), format!("flux-fairshare: {}: {text}", site.path()));
    }
    other
        .execute_batch("ROLLBACK; BEGIN IMMEDIATE; UPDATE association_table SET shares = 9")
        .expect("locked");
    // A writer that has not committed does not disturb readers.
    fairshare(["show", "-p", site.path()]).ok();
    let ran = fairshare(["update", "-p", site.path(), "--wait", "0"]);
    let expected = format!(
        "flux-fairshare: {}: locked by another process (waited 0 s); nothing was changed",
        site.path()
    );
    assert_eq!(ran.error(), expected);
    other.execute_batch("ROLLBACK").expect("free");
    fairshare(["update", "-p", site.path()]).ok();
}

#[test]
fn an_update_waits_for_a_lock_that_is_released_in_time() {
    let site = Site::small("waits");
    let other = site.open();
    other.execute_batch("BEGIN EXCLUSIVE").expect("locked");
    site.check_that_update_waits_for_lock(&other);
}

#[test]
fn read_only_files_are_shown_but_not_updated() {
    let view = UnprivilegedDirectory::new("read-only", &Site::small("read_only"));
    let before = fs::read(&view.database).expect("readable");
    let ran = view.run("update");
    let path = view.database.display();
    let expected =
        format!("flux-fairshare: {path}: read-only: the file can't be written; nothing was changed");
    assert_eq!(ran.error(), expected);
    assert!(view.run("show").ok().contains("ann"), "reading is fine");
    assert_eq!(fs::read(&view.database).expect("readable"), before);
    set_mode(&view.database, 0o000);
    let denied =
        "can't be read: Permission denied; run the command as a user with read access, or read another file";
    for command in ["show", "why", "usage", "limit"] {
        let ran = view.run(command);
        let document = if ["usage", "limit"].contains(&command) { "" } else { DOCUMENT };
        let text = format!("{denied}: {ELSEWHERE}{document}{LIVE}");
        assert!(ran.error().ends_with(&text), "{command}: {ran:?}");
    }
    let ran = view.run("update");
    assert!(ran.error().ends_with(&format!("{denied}: {ELSEWHERE}")), "{ran:?}");
}

#[test]
fn an_interrupted_write_is_rolled_back_by_a_permitted_user() {
    let site = Site::large("cut_off", 4, 400);
    let other = site.open();
    // With a very small cache, changes are written to the file before the commit.
    other
        .execute_batch("PRAGMA cache_size = 2; BEGIN; UPDATE association_table SET fairshare = 0.9")
        .expect("begun");
    // Copies the half-written file and its journal, as a crash leaves them.
    let left = Site { path: super::directory("cut_off_left").join("site.db") };
    for suffix in ["", "-journal"] {
        fs::copy(with_suffix(&site.path, suffix), with_suffix(&left.path, suffix)).expect("copied");
    }
    assert!(
        fs::metadata(with_suffix(&left.path, "-journal")).expect("a journal").len() > 512,
        "the journal is hot"
    );
    let view = UnprivilegedDirectory::new("cut-off", &left);
    for command in ["show", "update"] {
        let ran = view.run(command);
        assert!(ran.error().contains(": read-only: "), "{ran:?}");
    }
    assert!(view.run("show").error().contains("its owner must first roll back an interrupted write"));
    fairshare(["show", "-p", left.path()]).ok();
    assert!(!with_suffix(&left.path, "-journal").exists());
    assert!(left.fairshares().iter().all(|(_, value)| *value == 0.5), "the old values are back");
}

#[test]
fn a_database_in_wal_mode_is_read_in_a_read_only_directory() {
    let site = Site::small("wal_read_only");
    site.sql("PRAGMA journal_mode = WAL");
    let view = UnprivilegedDirectory::new("wal #1?%", &site);
    assert!(
        view.run("show").ok().contains("ann"),
        "show must read the database while no process writes to it"
    );
    assert!(view.run("why").ok().contains("ann"));
    let ran = view.run("update");
    let text = ": read-only: the file or its directory can't be written; nothing was changed";
    assert!(ran.error().ends_with(text), "{ran:?}");
}

#[test]
fn an_sqlite_wal_without_its_index_needs_a_writable_directory() {
    let site = Site::small("wal_log");
    let writer = site.open();
    writer
        .execute_batch("PRAGMA journal_mode = WAL; UPDATE association_table SET shares = 9")
        .expect("written into the log");
    // After a crash, the log has no index. A reader would have to create the index.
    let view = UnprivilegedDirectory::new("wal-log", &site);
    let path = view.database.display();
    let text =
        "can't be read: the database is in WAL mode, so reading it needs write permission for its directory";
    assert_eq!(view.run("show").error(), format!("flux-fairshare: {path}: {text}"));
}

#[test]
fn a_database_with_all_data_in_its_log_is_read_through_a_link() {
    let site = Site::large("wal_longer", 3, 200);
    let writer = site.open();
    // All data are in the log, and the file is as after an interrupted checkpoint.
    writer
        .execute_batch("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; VACUUM")
        .expect("written into the log");
    let left = Site { path: super::directory("wal_longer_left").join("site.db") };
    for suffix in ["", "-wal"] {
        fs::copy(with_suffix(&site.path, suffix), with_suffix(&left.path, suffix)).expect("copied");
    }
    let file = fs::OpenOptions::new().write(true).open(&left.path).expect("writable");
    file.set_len(file.metadata().expect("there").len() - 4096).expect("cut off");
    let link = super::directory("wal_longer_link").join("link.db");
    std::os::unix::fs::symlink(&left.path, &link).expect("a link");
    for command in ["show", "update"] {
        fairshare([command, "-p", link.to_str().expect("text")]).ok();
    }
}

#[test]
fn a_report_is_written_to_a_directory_that_can_not_be_read() {
    let view = UnprivilegedDirectory::new("write-only", &Site::small("write_only"));
    set_mode(&view.directory, 0o755);
    let directory = view.directory.join("pages");
    fs::create_dir(&directory).expect("a directory");
    set_mode(&directory, 0o333);
    let page = directory.join("page.html");
    let mut line = view.program();
    let ran = run_with_input(
        line.args(["report", "--no-jobs", "-p"]).arg(&view.database).arg("--output").arg(&page),
        "",
    );
    set_mode(&directory, 0o755);
    assert_eq!(ran.ok(), "");
    assert!(fs::read_to_string(&page).expect("a page").contains("</html>"));
}

#[test]
fn an_update_that_a_trigger_refuses_changes_nothing() {
    let site = Site::small("trigger");
    site.sql(
        "CREATE TRIGGER no BEFORE UPDATE ON association_table BEGIN SELECT RAISE(FAIL, 'not today'); END",
    );
    let before = site.bytes();
    let expected = format!("flux-fairshare: {}: not today; nothing was changed", site.path());
    assert_eq!(fairshare(["update", "-p", site.path()]).error(), expected);
    assert_eq!(site.bytes(), before);
}

#[test]
fn tables_without_row_numbers_are_shown_but_not_updated() {
    let moved =
        "ALTER TABLE association_table RENAME TO rows; CREATE VIEW association_table AS SELECT * FROM rows";
    let made = "CREATE TABLE rows (username, bank, shares, job_usage, fairshare, PRIMARY KEY (username, bank)) WITHOUT ROWID;
        INSERT INTO rows SELECT username, bank, shares, job_usage, fairshare FROM association_table;
        DROP TABLE association_table; ALTER TABLE rows RENAME TO association_table";
    for (index, sql) in [moved, made].into_iter().enumerate() {
        let site = Site::small(&format!("no_numbers{index}"));
        site.sql(sql);
        assert!(fairshare(["show", "-p", site.path()]).ok().contains("ann"));
        let expected = format!(
            "flux-fairshare: {}: association_table has no row numbers (rowid), which writes need: it is a \
             view, a table WITHOUT ROWID, or has columns named rowid, _rowid_ and oid; nothing was changed",
            site.path()
        );
        assert_eq!(fairshare(["update", "-p", site.path()]).error(), expected);
    }
}
