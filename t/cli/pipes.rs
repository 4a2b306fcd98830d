// SPDX-License-Identifier: LGPL-3.0-only
//! Documents from pipes, and output into closed pipes and onto full disks.

use std::fs::{File, OpenOptions};
use std::io::{PipeReader, Write};
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use super::site::Site;
use super::{PROGRAM, fairshare, file, run_fairshare_with_input};

const EXPORT: &str = r#"{"associations": [], "queues": [], "projects": [], "banks": [{"bank": "A", "priority": 0.0}],
    "config": {}, "priority_factors": []}"#;

/// Returns a pipe without a reader.
fn closed_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

/// Returns a full pipe, as a pipe to a pager may be.
fn make_full_pipe() -> (PipeReader, Stdio) {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    // SAFETY: the descriptor is open; the call changes nothing.
    let room = unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_GETPIPE_SZ) };
    writer.write_all(&vec![b'x'; usize::try_from(room).expect("a pipe has a size")]).expect("it has room");
    (reader, writer.into())
}

/// Waits until a process is blocked in a write to its standard output.
fn wait_until_blocked_in_write(child: &mut Child, what: &dyn std::fmt::Debug) {
    let call = format!("/proc/{}/syscall", child.id());
    for _ in 0..1000 {
        match std::fs::read_to_string(&call) {
            Ok(call) if call.starts_with(&format!("{} 0x1 ", libc::SYS_write)) => return,
            Ok(_) => std::thread::sleep(Duration::from_millis(10)),
            // Some kernels do not show system calls in /proc. Then wait for one second, in which the program surely fills the pipe.
            Err(_) => return std::thread::sleep(Duration::from_secs(1)),
        }
        assert!(child.try_wait().expect("it is ours").is_none(), "{what:?} has ended");
    }
    panic!("{what:?} has not tried to write to standard output within 10 s");
}

fn open_full_device() -> File {
    OpenOptions::new().write(true).open("/dev/full").expect("/dev/full")
}

fn run_with_streams(arguments: &[&str], out: impl Into<Stdio>, err: impl Into<Stdio>) -> Output {
    Command::new(PROGRAM).args(arguments).stdout(out).stderr(err).output().expect("it runs")
}

#[test]
fn a_closed_pipe_is_not_an_error_in_any_format() {
    let site = Site::small("closed_pipes");
    for command in [["push", "--dry-run"], ["update", "--dry-run"], ["push", "--help"], ["show", "-P"]] {
        let arguments = [command[0], command[1], "-p", site.path()];
        let output = run_with_streams(&arguments, closed_pipe(), Stdio::piped());
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]), "{command:?}");
    }
}

#[test]
fn a_paused_reader_does_not_block_writers() {
    let site = Site::small("list_in_a_pager");
    super::pipeline::add_jobs(&site);
    let (path, now) = (site.path(), (super::pipeline::END + 900.0).to_string());
    let begun = ["sync", "--only", "usage", "--now", &now, "-p", path];
    fairshare(begun).ok();
    assert_eq!(fairshare(["limit", "set", "user", "*", "run-gpus=1", "-p", path]).status, 0);
    let deposit =
        ["budget", "deposit", "bank", "A", "5", "--from", "0", "--until", "9d", "--reason", "grant"];
    assert_eq!(fairshare([&deposit[..], &["-p", path]].concat()).status, 0);
    let commands: [&[&str]; 20] = [
        &["usage"],
        &["usage", "--by", "period"],
        &["usage", "--json"],
        &["update", "--dry-run"],
        &["limit"],
        &["credit"],
        &["budget"],
        &["budget", "log"],
        &["policy"],
        &["show"],
        &["why", "ann"],
        &["why", "ann", "ben"],
        &["compare"],
        &["what-if", "--shares", "A=7"],
        &["check-import"],
        &["report", "--json", "--no-jobs"],
        &["recount", "--now", &now],
        &["scrub", "--dry-run", "1"],
        &["push", "--dry-run"],
        &["doctor", "--uri", "local:///nonexistent"],
    ];
    let mut keep = Vec::new();
    for command in commands {
        // Changes a fair-share, so that the command has something to print and the update below has something to write.
        site.sql("UPDATE association_table SET fairshare = 0.123456");
        let (reader, out) = make_full_pipe();
        let mut line = Command::new(PROGRAM);
        let line = line.args(command).args(["-p", path]).stdin(Stdio::null()).stdout(out);
        let mut child = line.stderr(Stdio::null()).spawn().expect("it starts");
        wait_until_blocked_in_write(&mut child, &command);
        let ran = fairshare(["update", "-p", path, "--wait", "0.5"]);
        drop(reader);
        child.wait().expect("it ends");
        if (ran.status, ran.err.as_str()) != (0, "") {
            keep.push((command, ran.err));
        }
    }
    assert!(keep.is_empty(), "{keep:#?}");
}

#[test]
fn a_full_disk_is_an_error() {
    let site = Site::small("full_disks");
    let output =
        run_with_streams(&["push", "--dry-run", "-p", site.path()], open_full_device(), Stdio::piped());
    let text = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text, "flux-fairshare: can't write the output: No space left on device\n");
}

#[test]
fn a_full_standard_error_does_not_change_the_exit_status() {
    let site = Site::small("full_error");
    let path = site.path();
    for err in [Stdio::from(open_full_device()), closed_pipe()] {
        let output = run_with_streams(&["update", "-v", "-p", path], Stdio::piped(), err);
        assert_eq!(output.status.code(), Some(0), "the values are stored");
    }
    assert_eq!(site.fairshares().first().expect("ann").1, 0.25);
    site.sql("DROP TABLE config_table");
    assert_eq!(
        run_with_streams(&["push", "--dry-run", "-p", path], Stdio::piped(), open_full_device())
            .status
            .code(),
        Some(0)
    );
    assert_eq!(
        run_with_streams(&["update", "-p", "/none"], Stdio::piped(), open_full_device()).status.code(),
        Some(2)
    );
}

#[test]
fn an_output_error_after_a_change_says_that_the_change_is_stored() {
    let site = Site::small("stored_all_the_same");
    super::pipeline::add_jobs(&site);
    let (path, now) = (site.path(), (super::pipeline::END + 900.0).to_string());
    for (arguments, stored) in [
        (&["recount", "--write", "--now", &now][..], "SELECT sum(job_usage) = 200 FROM association_table"),
        (&["scrub", "0", "--now", "1e9"], "SELECT count(*) = 0 FROM jobs"),
        (&["limit", "set", "user", "*", "run-gpus=1"], "SELECT value = 1 FROM fairshare_limit_table"),
        (
            &["budget", "deposit", "bank", "A", "5", "--from", "0", "--until", "9d", "--reason", "grant"],
            "SELECT milliseconds = 18000000 FROM fairshare_deposit_table",
        ),
        (
            &["credit", "add", "ann/A", "2", "--reason", "refund", "--now", &now],
            "SELECT usage = 7200 FROM fairshare_credit_table",
        ),
        (
            &["policy", "fair-tree"],
            "SELECT value = 'fair-tree' FROM config_table WHERE key = 'fairshare.policy'",
        ),
        (
            &["sync", "--only", "fairshare", "--only", "push", "--uri", "local:///nonexistent"],
            "SELECT max(fairshare) = 1 FROM association_table",
        ),
    ] {
        let arguments = [arguments, &["-p", path]].concat();
        let output = run_with_streams(&arguments, open_full_device(), Stdio::piped());
        let text = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text.ends_with("; all changes are stored\n"), "{arguments:?}: {text}");
        let is_so: bool = site.open().query_row(stored, [], |row| row.get(0)).expect(stored);
        assert!(is_so, "{arguments:?}");
    }
    // A command that stores nothing prints no message about stored data.
    let reads = ["sync", "--only", "push", "--uri", "local:///nonexistent", "-p", path];
    for arguments in [&reads[..], &["recount", "--now", &now, "-p", path], &["limit", "-p", path]] {
        let output = run_with_streams(arguments, open_full_device(), Stdio::piped());
        let text = String::from_utf8(output.stderr).expect("text");
        assert!(output.status.code() == Some(2) && !text.contains("stored"), "{arguments:?}: {text}");
    }
}

#[test]
fn documents_are_read_from_standard_input() {
    let would = "would send 0 associations, 0 queues, 0 projects, 1 bank, 0 factor weights, the config\n";
    for path in ["-", "/dev/stdin"] {
        assert_eq!(run_fairshare_with_input(EXPORT, &["push", "--dry-run", "-p", path]).ok(), would);
        let tree = r#"{"banks": [{"name": "r"}], "associations": [{"user": "u", "bank": "r", "shares": 1}]}"#;
        let shown = run_fairshare_with_input(tree, &["show", "--tree", path, "-P", "-o", "name"]);
        assert_eq!(shown.ok(), "name\nr\nu\n");
        let groups = file("piped_usage", "g 1 root 1\nu 2 g 1\n");
        let arguments =
            ["show", "--tree", &groups, "--usage-file", path, "-P", "-o", "name,usage", "--bank", "g"];
        assert_eq!(run_fairshare_with_input("u 7\n", &arguments).ok(), "name|usage\nroot|8\ng|8\nu|7\n");
        let ran = run_fairshare_with_input("u 7\n", &["show", "--tree", path, "--usage-file", path]);
        assert_eq!(
            ran.error(),
            format!("flux-fairshare: {path}: can't be both the tree and the list of usages")
        );
    }
    let ran = run_fairshare_with_input("SQLite format 3\0", &["push", "--dry-run", "-p", "-"]);
    assert!(ran.error().contains("a database is read from its own file, not through a pipe"), "{ran:?}");
    let ran = fairshare(["push", "--dry-run", "-p", "/none"]);
    assert!(ran.error().starts_with("flux-fairshare: /none: no such file; -p FILE or "), "{ran:?}");
}

#[test]
fn the_usage_of_a_group_is_noted_on_standard_error() {
    let groups = file("group_usage_tree", "g 1 root 1\nu 2 g 1\n");
    let ran = run_fairshare_with_input(
        "g 5\nu 7\n",
        &["show", "--tree", &groups, "--usage-file", "-", "-P", "-o", "usage"],
    );
    assert_eq!((ran.status, ran.out.as_str()), (0, "usage\n8\n8\n7\n1\n"));
    let note = "the usage of group \"g\" is left out, as in OpenPBS: only entities, not groups, have a usage";
    assert_eq!(ran.err, format!("flux-fairshare: {groups}: {note}\n"));
}

#[test]
fn an_imported_tree_is_ranked_by_the_rule_of_its_system() {
    let sshare = "Account|User|RawShares|RawUsage\nroot|||3\n root|root|1|0\n a||1|3\n  a|u|1|3\n";
    for (tree, arguments, policy) in [
        (sshare, &["--tree", "-"][..], "fair-tree"),
        ("g 1 root 1\nu 2 g 1\n", &["--tree", "-"], "pbs"),
        (r#"{"banks": [{"name": "r"}], "associations": []}"#, &["--tree", "-"], "weighted-walk"),
        (sshare, &["--tree", "-", "--policy", "classic"], "classic"),
    ] {
        let shown = run_fairshare_with_input(tree, &[&["show", "--json"], arguments].concat()).json();
        assert_eq!(shown["policy"], policy);
    }
    let ran = run_fairshare_with_input(sshare, &["why", "u", "--tree", "-"]);
    assert!(ran.ok().contains("(fair-tree)"), "{ran:?}");
}
