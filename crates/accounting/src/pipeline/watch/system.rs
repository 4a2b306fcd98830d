// SPDX-License-Identifier: LGPL-3.0-only
//! Connects a watch to the real system: the database file, Flux, signals and systemd.
//!
//! The file and Flux are checked once per second with two `stat` calls and one small request. This is cheaper than
//! file system watches. Flux's journal is not used, because it ends at each restart of Flux.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use super::{Cause, Done, Observation, World};
use crate::pipeline::fetch::find_newest_job_end;
use fairshare_client::Flux;

/// Time between two observations.
const TICK: Duration = Duration::from_secs(1);

/// State of the files of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    file: FileStamp,
    /// State of the write-ahead log, if the database has one.
    log: Option<FileStamp>,
}

/// Device, inode, size, and the time of the last change.
type FileStamp = (u64, u64, u64, i64, i64);

/// Connects a watch that runs as a daemon to the real system. The function `step` runs a sync, and `print_line`
/// prints a line.
pub struct System<F, T> {
    path: PathBuf,
    uri: Option<String>,
    step: F,
    print_line: T,
    flux: Option<Flux>,
    began: Instant,
    stop: Arc<AtomicBool>,
    asked: Arc<AtomicBool>,
}

impl<F, T> System<F, T>
where
    F: FnMut(Cause) -> Result<Done, String>,
    T: FnMut(&str),
{
    /// Registers signal handlers and notifies systemd that the watch is ready. Returns an error if the
    /// database does not exist, because a missing database means that the path is wrong.
    pub fn new(path: &Path, uri: Option<&str>, step: F, print_line: T) -> io::Result<Self> {
        read_stamp(path)?;
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT] {
            // A second signal ends the process during a long step, and SQLite rolls its transaction back.
            flag::register_conditional_default(signal, Arc::clone(&stop))?;
            flag::register(signal, Arc::clone(&stop))?;
        }
        flag::register(SIGHUP, Arc::clone(&asked))?;
        notify(NotifyState::Ready);
        let (path, uri) = (path.to_owned(), uri.map(str::to_owned));
        Ok(System { path, uri, step, print_line, flux: None, began: Instant::now(), stop, asked })
    }

    /// Returns the end of the job that ended last. The connection is reused as long as it works.
    fn find_newest_job_end(&mut self) -> Result<Option<f64>, String> {
        let mut flux = match self.flux.take() {
            Some(flux) => flux,
            None => Flux::connect(self.uri.as_deref()).map_err(|error| error.to_string())?,
        };
        let newest = find_newest_job_end(&mut flux).map_err(|error| error.to_string())?;
        self.flux = Some(flux);
        Ok(newest)
    }
}

impl<F, T> World for System<F, T>
where
    F: FnMut(Cause) -> Result<Done, String>,
    T: FnMut(&str),
{
    type Stamp = Stamp;

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn observe(&mut self) -> Observation<Stamp> {
        let database = read_stamp(&self.path).map_err(|error| format!("{}: {error}", self.path.display()));
        Observation {
            database,
            flux: self.find_newest_job_end(),
            asked: self.asked.swap(false, Ordering::Relaxed),
        }
    }

    fn run_step(&mut self, cause: Cause) -> Result<Done, String> {
        (self.step)(cause)
    }

    fn print_line(&mut self, line: &str) {
        notify(NotifyState::Status(&escape_controls(line)));
        (self.print_line)(line);
    }

    fn wait_for_tick(&mut self) -> bool {
        notify_watchdog();
        let must_stop = || self.stop.load(Ordering::Relaxed);
        if !must_stop() {
            thread::sleep(TICK);
        }
        if must_stop() {
            notify(NotifyState::Stopping);
        }
        !must_stop()
    }
}

/// Notifies systemd's watchdog that the program is alive. Long operations call this function regularly.
pub fn notify_watchdog() {
    notify(NotifyState::Watchdog);
}

/// Escapes control characters, because a line break would start another field of the systemd message. Names in a
/// database may contain any character.
fn escape_controls(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() { line.extend(letter.escape_default()) } else { line.push(letter) }
    }
    line
}

/// Sends a message to systemd. Without systemd this fails, and the error is ignored.
fn notify(state: NotifyState<'_>) {
    let _ = sd_notify::notify(&[state]);
}

fn read_stamp(path: &Path) -> io::Result<Stamp> {
    let stamp_file = |path: &Path| -> io::Result<FileStamp> {
        let data = path.metadata()?;
        Ok((data.dev(), data.ino(), data.size(), data.mtime(), data.mtime_nsec()))
    };
    // SQLite puts the log next to the file itself, not next to a link to it.
    let mut log = path.canonicalize()?.into_os_string();
    log.push("-wal");
    Ok(Stamp { file: stamp_file(path)?, log: stamp_file(Path::new(&log)).ok() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_stamp_changes_if_the_file_or_its_wal_is_written_or_replaced() {
        let directory = std::env::temp_dir().join(format!("stamp-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let path = directory.join("a.db");
        assert!(read_stamp(&path).is_err(), "nothing there");
        std::fs::write(&path, "a").expect("written");
        let mut stamps = vec![read_stamp(&path).expect("there")];
        assert_eq!(read_stamp(&path).ok(), stamps.first().copied(), "nothing happened");
        for (name, text) in [("a.db", "ab"), ("a.db-wal", "x"), ("a.db-wal", "xy"), ("b.db", "ab")] {
            std::fs::write(directory.join(name), text).expect("written");
            if name == "b.db" {
                std::fs::rename(directory.join(name), &path).expect("renamed");
            }
            let now = read_stamp(&path).expect("there");
            assert!(!stamps.contains(&now), "after writing {name}");
            stamps.push(now);
        }
        std::fs::remove_dir_all(&directory).expect("removed");
    }

    #[test]
    fn the_database_stamp_changes_if_the_target_of_a_link_is_written() {
        let directory = tempfile::tempdir().expect("a directory");
        let path_of = |name: &str| directory.path().join(name);
        for name in ["there/a.db", "elsewhere/a.db"] {
            std::fs::create_dir_all(path_of(name).parent().expect("a directory")).expect("made");
            std::fs::write(path_of(name), "a").expect("written");
        }
        std::os::unix::fs::symlink("there/a.db", path_of("link.db")).expect("a link");
        let mut stamps = vec![read_stamp(&path_of("link.db")).expect("there")];
        let mut assert_changed = |what| {
            let now = read_stamp(&path_of("link.db")).expect("there");
            assert!(!stamps.contains(&now), "{what}");
            stamps.push(now);
        };
        std::fs::write(path_of("there/a.db-wal"), "x").expect("written");
        assert_changed("a log next to the target of the link");
        std::fs::write(path_of("there/a.db-wal"), "xy").expect("written");
        assert_changed("a larger log");
        std::fs::remove_file(path_of("link.db")).expect("removed");
        std::os::unix::fs::symlink("elsewhere/a.db", path_of("link.db")).expect("a link");
        assert_changed("another place");
        std::fs::write(path_of("elsewhere/a.db-wal"), "x").expect("written");
        assert_changed("a log there");
    }

    #[test]
    fn a_systemd_message_contains_no_control_characters() {
        assert_eq!(
            escape_controls("user \"a\nMAINPID=1\r\0\u{85}\": ä"),
            "user \"a\\nMAINPID=1\\r\\u{0}\\u{85}\": ä"
        );
    }
}
