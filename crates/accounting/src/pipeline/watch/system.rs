// SPDX-License-Identifier: LGPL-3.0-only
//! The world as a daemon has it: the database's file, Flux, signals, and systemd if it is there.
//!
//! Both are looked at once a second: two `stat` and one small request cost less than a watcher of every kind of file system
//! and of a journal that is cut off at each restart of Flux.

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

use super::{Cause, Done, Look, World};
use crate::pipeline::fetch::newest_end;
use fairshare_client::Flux;

/// Time between two looks.
const TICK: Duration = Duration::from_secs(1);

/// The files of a database as they are at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    file: FileStamp,
    /// In WAL mode what is written goes into a file beside it first.
    log: Option<FileStamp>,
}

/// Device, inode, size, and the time of the last change.
type FileStamp = (u64, u64, u64, i64, i64);

/// The world; `step` is what is done, `tell` is where lines go.
pub struct System<F, T> {
    path: PathBuf,
    uri: Option<String>,
    step: F,
    tell: T,
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
    /// Takes over the signals and tells systemd that the watch begins. Fails if there is no such database, for then it is
    /// the name that is wrong.
    pub fn new(path: &Path, uri: Option<&str>, step: F, tell: T) -> io::Result<Self> {
        stamp(path)?;
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT] {
            // The second one ends a step that takes too long: whatever it was writing is rolled back.
            flag::register_conditional_default(signal, Arc::clone(&stop))?;
            flag::register(signal, Arc::clone(&stop))?;
        }
        flag::register(SIGHUP, Arc::clone(&asked))?;
        notify(NotifyState::Ready);
        let (path, uri) = (path.to_owned(), uri.map(str::to_owned));
        Ok(System { path, uri, step, tell, flux: None, began: Instant::now(), stop, asked })
    }

    /// A connection is kept as long as it answers.
    fn newest(&mut self) -> Result<Option<f64>, String> {
        let mut flux = match self.flux.take() {
            Some(flux) => flux,
            None => Flux::connect(self.uri.as_deref()).map_err(|error| error.to_string())?,
        };
        let newest = newest_end(&mut flux).map_err(|error| error.to_string())?;
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

    fn look(&mut self) -> Look<Stamp> {
        let database = stamp(&self.path).map_err(|error| format!("{}: {error}", self.path.display()));
        Look { database, flux: self.newest(), asked: self.asked.swap(false, Ordering::Relaxed) }
    }

    fn step(&mut self, cause: Cause) -> Result<Done, String> {
        (self.step)(cause)
    }

    fn tell(&mut self, line: &str) {
        notify(NotifyState::Status(&one_line(line)));
        (self.tell)(line);
    }

    fn rest(&mut self) -> bool {
        alive();
        let over = || self.stop.load(Ordering::Relaxed);
        if !over() {
            thread::sleep(TICK);
        }
        if over() {
            notify(NotifyState::Stopping);
        }
        !over()
    }
}

/// Tells systemd's watchdog that things go on: for whatever takes long.
pub fn alive() {
    notify(NotifyState::Watchdog);
}

/// A text without what would begin another field of what systemd is told: names out of a database may be any text.
fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() { line.extend(letter.escape_default()) } else { line.push(letter) }
    }
    line
}

/// Without systemd there is nobody to be told.
fn notify(state: NotifyState<'_>) {
    let _ = sd_notify::notify(&[state]);
}

fn stamp(path: &Path) -> io::Result<Stamp> {
    let of = |path: &Path| -> io::Result<FileStamp> {
        let data = path.metadata()?;
        Ok((data.dev(), data.ino(), data.size(), data.mtime(), data.mtime_nsec()))
    };
    // SQLite keeps its log beside the file itself, wherever links to it are, and whatever they lead to today.
    let mut log = path.canonicalize()?.into_os_string();
    log.push("-wal");
    Ok(Stamp { file: of(path)?, log: of(Path::new(&log)).ok() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_tells_writing_and_replacing_and_a_log_beside() {
        let directory = std::env::temp_dir().join(format!("stamp-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let path = directory.join("a.db");
        assert!(stamp(&path).is_err(), "nothing there");
        std::fs::write(&path, "a").expect("written");
        let mut stamps = vec![stamp(&path).expect("there")];
        assert_eq!(stamp(&path).ok(), stamps.first().copied(), "nothing happened");
        for (name, text) in [("a.db", "ab"), ("a.db-wal", "x"), ("a.db-wal", "xy"), ("b.db", "ab")] {
            std::fs::write(directory.join(name), text).expect("written");
            if name == "b.db" {
                std::fs::rename(directory.join(name), &path).expect("renamed");
            }
            let now = stamp(&path).expect("there");
            assert!(!stamps.contains(&now), "after writing {name}");
            stamps.push(now);
        }
        std::fs::remove_dir_all(&directory).expect("removed");
    }

    #[test]
    fn a_stamp_of_a_link_tells_what_is_written_where_it_leads() {
        let room = tempfile::tempdir().expect("a directory");
        let at = |name: &str| room.path().join(name);
        for name in ["there/a.db", "elsewhere/a.db"] {
            std::fs::create_dir_all(at(name).parent().expect("a directory")).expect("made");
            std::fs::write(at(name), "a").expect("written");
        }
        std::os::unix::fs::symlink("there/a.db", at("link.db")).expect("a link");
        let mut stamps = vec![stamp(&at("link.db")).expect("there")];
        let mut differs = |what| {
            let now = stamp(&at("link.db")).expect("there");
            assert!(!stamps.contains(&now), "{what}");
            stamps.push(now);
        };
        std::fs::write(at("there/a.db-wal"), "x").expect("written");
        differs("a log where it leads");
        std::fs::write(at("there/a.db-wal"), "xy").expect("written");
        differs("more in it");
        std::fs::remove_file(at("link.db")).expect("removed");
        std::os::unix::fs::symlink("elsewhere/a.db", at("link.db")).expect("a link");
        differs("another place");
        std::fs::write(at("elsewhere/a.db-wal"), "x").expect("written");
        differs("a log there");
    }

    #[test]
    fn what_systemd_is_told_is_one_field() {
        assert_eq!(
            one_line("user \"a\nMAINPID=1\r\0\u{85}\": ä"),
            "user \"a\\nMAINPID=1\\r\\u{0}\\u{85}\": ä"
        );
    }
}
