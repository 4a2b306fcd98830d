// SPDX-License-Identifier: LGPL-3.0-only
//! Makes one operation on a file fail, or this operation and all later ones: a read, write, sync, lock, open or removal. The command must report
//! the error and change nothing. The database must stay valid, and the next run must give the same result as without the failure.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use fairshare_accounting::store::{Access, Database, JobRecord};
use rusqlite::Connection;

use super::disk::{self, Fault};
use super::pipeline::{END, add_jobs};
use super::site::{Site, read_rows};

const JOURNALS: [&str; 2] = ["DELETE", "WAL"];

/// The exit status and the message of a run.
type Outcome = (i32, String);

/// An action that writes to a database: the command, or a part of it.
type Action = Box<dyn Fn(&Path) -> Outcome>;

/// Returns the contents of a database with the definitions of its tables.
fn read_database(path: &Path) -> Vec<String> {
    let connection = Connection::open(path).expect("a database");
    let check: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("it can be checked");
    assert_eq!(check, "ok");
    let tables: Vec<String> = {
        let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
        let mut statement = connection.prepare(sql).expect("a schema");
        statement.query_map([], |row| row.get(0)).expect("names").map(|name| name.expect("a name")).collect()
    };
    read_rows(&connection, tables.iter().map(String::as_str).chain(["sqlite_schema"]))
}

/// Returns an action that runs the command in this process. The message is the output on standard error.
fn make_command_action(arguments: &'static [&'static str]) -> Action {
    Box::new(move |path| {
        let message = path.with_extension("said");
        let file = File::create(&message).expect("a file");
        let nowhere = File::create("/dev/null").expect("nowhere");
        let mut all: Vec<OsString> = vec!["flux-fairshare".into()];
        all.extend(arguments.iter().map(OsString::from));
        all.extend(["-p".into(), path.into(), "--wait".into(), "0.01".into()]);
        // SAFETY: this process runs one test in one thread, and both descriptors are restored below.
        let (out, err) = unsafe { (libc::dup(1), libc::dup(2)) };
        // SAFETY: the descriptors are open.
        unsafe { (libc::dup2(nowhere.as_raw_fd(), 1), libc::dup2(file.as_raw_fd(), 2)) };
        let code = flux_fairshare::run(all);
        // SAFETY: as above.
        unsafe { (libc::dup2(out, 1), libc::dup2(err, 2), libc::close(out), libc::close(err)) };
        let status = (0..=3).find(|status| code == ExitCode::from(*status)).expect("a status");
        (i32::from(status), std::fs::read_to_string(&message).expect("text"))
    })
}

/// Returns a function that writes records as a fetch does: in two batches, and in one transaction.
fn make_fetch_action() -> Action {
    Box::new(move |path| {
        let wait = Duration::from_millis(10);
        let act = || -> Result<(), String> {
            let mut database =
                Database::open(path, Access::Write, wait).map_err(|error| error.to_string())?;
            let snapshot = database.snapshot().map_err(|error| error.to_string())?;
            for ids in [9001..=9020, 9021..=9040] {
                let batch: Vec<JobRecord> = ids.map(make_record).collect();
                snapshot.insert_jobs(&batch).map_err(|error| error.to_string())?;
            }
            snapshot.commit().map_err(|error| error.to_string())
        };
        act().map_or_else(|error| (2, format!("flux-fairshare: {error}\n")), |()| (0, String::new()))
    })
}

fn make_record(id: u64) -> JobRecord {
    JobRecord {
        id,
        userid: 1001,
        t_submit: 1.0,
        t_run: 2.0,
        t_inactive: 3.0,
        ranks: "0".to_owned(),
        r: "{}".to_owned(),
        jobspec: "{}".to_owned(),
        project: String::new(),
        bank: String::new(),
        requested_duration: 0.0,
        actual_duration: 1.0,
    }
}

/// Returns the actions by name. Each action changes the database.
fn list_actions() -> [(&'static str, Action); 6] {
    let (only, rule) = (["--only", "usage", "--only", "fairshare"], ["classic", "--set", "dampening=2"]);
    let sync = ["sync", only[0], only[1], only[2], only[3], "--now", "51100"];
    [
        ("update", make_command_action(&["update"])),
        ("sync", make_command_action(Box::leak(Box::new(sync)))),
        ("policy", make_command_action(Box::leak(Box::new(["policy", rule[0], rule[1], rule[2]])))),
        ("limit set", make_command_action(&["limit", "set", "bank", "A", "run-nodes=4"])),
        ("recount", make_command_action(&["recount", "--write", "--now", "51100"])),
        ("fetch", make_fetch_action()),
    ]
}

/// Restores the database file, and removes its journal and log.
fn restore_database(path: &Path, content: &[u8]) {
    for suffix in ["-journal", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        let _ = std::fs::remove_file(name);
    }
    std::fs::write(path, content).expect("written");
}

/// Runs an action with a fault, and returns whether the fault occurred.
fn run_with_fault(
    act: &Action,
    path: &Path,
    what: &str,
    at: u64,
    fault: Fault,
    before: &[String],
    after: &[String],
) -> bool {
    disk::fail_operation(at, fault);
    let (status, message) = act(path);
    let met = disk::end_disk_fault() >= at;
    let what = format!("{what}, {fault:?} at {at}: {status} {message:?}");
    let found = read_database(path);
    match status {
        // The command succeeded, because SQLite repeated the failed operation or did not need it.
        0 => assert!(found == after, "{what}: the command succeeded, but the database lacks a change"),
        2 => {
            // The commit may be in the log, but the command could not make sure that the log is on the disk.
            let may_be_there =
                message.ends_with("; either all or nothing was stored: run the command again\n");
            assert!(
                found == before || may_be_there && found == after,
                "{what}: the command failed, but the database has changed"
            );
            assert!(
                !(may_be_there && what.contains("DELETE")),
                "{what}: with a rollback journal, the outcome is always known"
            );
            let name = path.file_stem().expect("a name").to_string_lossy();
            assert!(message.starts_with("flux-fairshare: ") && message.contains(&*name), "{what}");
            assert_eq!(message.lines().count(), 1, "{what}");
            assert!(!message.contains("panic"), "{what}");
        }
        _ => panic!("{what}"),
    }
    let (status, message) = act(path);
    assert_eq!(status, 0, "{what}; and again: {message}");
    assert!(
        read_database(path) == after,
        "{what}: the next run must store the same as a run without a fault"
    );
    met
}

fn check_all_faults(journal: &str) {
    disk::install_failing_disk();
    let site = Site::small(&format!("disk_{}", journal.to_lowercase()));
    add_jobs(&site);
    assert_eq!(END, 51_000.0);
    site.sql(&format!("PRAGMA journal_mode = {journal}"));
    let content = site.bytes();
    let before = read_database(&site.path);
    let (mut runs, mut operations) = (0, Vec::new());
    for (name, act) in list_actions() {
        restore_database(&site.path, &content);
        let (status, message) = act(&site.path);
        assert_eq!(status, 0, "{name}: {message}");
        let after = read_database(&site.path);
        assert!(after != before, "{name} changes nothing");
        for fault in [Fault::Once, Fault::Gone, Fault::Full] {
            let mut at = 0;
            loop {
                at += 1;
                restore_database(&site.path, &content);
                runs += 1;
                if !run_with_fault(
                    &act,
                    &site.path,
                    &format!("{name}, {journal}"),
                    at,
                    fault,
                    &before,
                    &after,
                ) {
                    break;
                }
            }
            assert!(at > 3, "{name}: {fault:?} met nothing");
            operations.push(format!("{name} {fault:?} {}", at - 1));
        }
    }
    println!("disk: {journal}: {runs} runs: {}", operations.join(", "));
}

#[test]
#[ignore = "run by its sibling, in a process of its own: its disk fails"]
fn each_disk_fault_in_one_journal_mode_leaves_the_database_unchanged_or_complete() {
    check_all_faults(&std::env::var("DISK_JOURNAL").expect("DISK_JOURNAL"));
}

#[test]
fn a_disk_fault_leaves_the_database_unchanged_or_complete() {
    for journal in JOURNALS {
        let output = Command::new(std::env::current_exe().expect("this program"))
            .args([
                "--exact",
                "disk_faults::each_disk_fault_in_one_journal_mode_leaves_the_database_unchanged_or_complete",
                "--ignored",
                "--nocapture",
                "--test-threads=1",
            ])
            .env("DISK_JOURNAL", journal)
            .output()
            .expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        print!("{}", text.lines().filter(|line| line.contains("disk: ")).collect::<Vec<_>>().join("\n"));
    }
}
