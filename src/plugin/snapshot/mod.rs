// SPDX-License-Identifier: LGPL-3.0-only
//! The snapshot: the plugin saves the last complete push, with its tree and usages, in the KVS, and restores it after a
//! reload or a restart.
//!
//! ```text
//!   conf.update (first) ─> look up the manifest ─┬─ no snapshot, or data came first ──────────> wait for a push
//!                                                ├─ read all chunks ─> apply them as a staged push
//!                                                └─ foreign or damaged: log the reason ──────────> wait for a push
//!   a complete push was applied ──> write new chunks, batch by batch ──> write the manifest, delete the chunks of the last snapshot
//! ```
//!
//! The KVS keeps all values that were ever written, so the plugin writes no unchanged chunk again. It does
//! not write a fair-share that can be computed from the tree of the snapshot: under a rank policy, one change
//! of usage changes the fair-shares of all associations.
//!
//! # Rules
//! - The snapshot holds the data of `policy_update` or `policy_commit`. A push by flux-accounting's own
//!   methods removes the snapshot, because the snapshot no longer describes the site data.
//! - A document given at load, or a push that arrives before the snapshot is read, takes precedence. After a complete
//!   push, the plugin still reads the ended jobs of the snapshot.
//! - With `remember = false` the plugin restores nothing and saves nothing. It reads the manifest and the two lists only to
//!   find a snapshot, which it removes.
//! - The plugin reads a snapshot only if the owner of the instance wrote it in a format of this version. The plugin
//!   reads a snapshot only as a whole: each chunk must have the hash in its key. The snapshot is then applied and
//!   checked as a push.
//! - A refused snapshot stays in the KVS until the next push replaces it.

mod actions;
mod applying;
mod found;
mod jobs;
mod lines;
mod parsing;
mod reading;
mod record;
mod site_chunks;
#[cfg(test)]
mod tests;
mod writing;

use crate::jobtap::{self, LogLevel};
use actions::Action;
use applying::Applying;
use fairshare_engine::engine::{self, Engine};
use found::Lists;
use jobs::EndedLog;
use reading::Reading;
use record::{ROOT, manifest_key};
use std::collections::HashSet;
use writing::{WriterStep, Writing};

/// The number of the look-up of the manifest. The numbers of chunks are smaller.
const MANIFEST: u64 = u64::MAX;
/// The number of the look-up of the list of ended jobs.
const ENDED_LIST: u64 = MANIFEST - 1;
/// The number of the look-up of the list of groups.
const GROUP_LIST: u64 = MANIFEST - 2;
/// The seconds between two writes of ended jobs.
const ENDED_PERIOD: f64 = 60.0;
/// The maximum number of ended jobs in one write.
const ENDED_BATCH: usize = 2000;
/// The seconds between two checks of whether an open push has ended.
const PUSH_POLL: f64 = 1.0;
/// The number of panics after which the plugin saves nothing until it reads the configuration again.
const MAX_PANICS: u32 = 3;

/// The snapshot, and the task that reads, writes or removes it. Each method returns actions for the caller ([`Action`]).
#[derive(Default)]
pub(super) struct Snapshot {
    /// True if the current site data came in a complete push.
    is_whole: bool,
    /// True if the current site data were given at load.
    is_given: bool,
    /// The setting `remember`; `None` before the first configuration.
    is_on: Option<bool>,
    state: State,
    /// The keys of the plugin's chunks in the KVS.
    stored_keys: HashSet<String>,
    /// True if the KVS holds a foreign or damaged snapshot. The next snapshot removes it.
    is_foreign: bool,
    /// True if a commit failed, so that the KVS may have only some of its changes.
    is_doubtful: bool,
    /// True if a commit failed, and no snapshot was written or removed since. Then a further failure is not logged.
    has_failed: bool,
    /// True if the plugin must write the current site data to the KVS.
    is_due: bool,
    /// True if a complete push came before the snapshot was read. The plugin then reads only the ended jobs of the
    /// snapshot.
    is_late: bool,
    /// The chunks of ended jobs.
    log: EndedLog,
    panics: u32,
}

#[derive(Default)]
enum State {
    #[default]
    Idle,
    /// The plugin has made an empty commit, and looks up the manifest after it. The KVS carries out commits
    /// in order, but a look-up does not wait for commits. Without the empty commit, a commit sent before a
    /// reload could change the snapshot while the plugin reads it.
    AwaitingManifest,
    AwaitingLists(Lists),
    Reading(Reading),
    Applying(Box<Applying>),
    Writing(Box<Writing>),
    /// The plugin is writing chunks of ended jobs. For each key, the value is true if the chunk is added, and false if it is removed.
    Adding(Vec<(String, bool)>),
    Removing,
}

impl State {
    /// Returns true if the plugin reads a snapshot, and the engine does not yet have all ended jobs of this
    /// snapshot.
    fn has_unapplied_ended_jobs(&self) -> bool {
        match self {
            State::AwaitingManifest | State::AwaitingLists(_) | State::Reading(_) => true,
            State::Applying(applying) => applying.has_unapplied_ended_jobs(),
            State::Idle | State::Writing(_) | State::Adding(_) | State::Removing => false,
        }
    }
}

impl Snapshot {
    /// Returns the state at load. `is_given` is true if a document was given at load.
    pub fn new(is_given: bool) -> Snapshot {
        Snapshot { is_given, ..Snapshot::default() }
    }

    /// Stores the setting `remember`. The first call begins to read the snapshot.
    pub fn configure(&mut self, engine: &Engine, is_on: bool) -> Vec<Action> {
        let before = self.is_on.replace(is_on);
        if before == Some(is_on) {
            return Vec::new();
        }
        self.is_due = is_on && has_data(engine) && self.is_whole;
        if before.is_none() {
            // After panics there may already be data.
            (self.state, self.is_late) = (State::AwaitingManifest, self.is_due);
            return vec![Action::Write(Vec::new())];
        }
        self.is_late &= is_on;
        self.stop_useless_task()
    }

    /// Records that a push was applied. A push that replaced only a part of the site data is not saved.
    pub fn record_push_in_force(&mut self, is_whole: bool) -> Vec<Action> {
        (self.is_whole, self.is_given) = (is_whole, false);
        self.is_due = is_whole && self.is_on == Some(true);
        self.is_late = self.is_due && self.state.has_unapplied_ended_jobs();
        self.stop_useless_task()
    }

    /// Stops reading or applying a snapshot if the setting `remember` or a push has made this unnecessary.
    /// Then begins the next task. Tasks that write to the KVS are not stopped, so that `stored_keys` matches
    /// the KVS.
    fn stop_useless_task(&mut self) -> Vec<Action> {
        let was_applying = matches!(self.state, State::Applying(_));
        let unstage = was_applying.then_some(Action::Unstage);
        if self.is_late && self.state.has_unapplied_ended_jobs() {
            return Vec::from_iter(unstage);
        }
        if self.is_on.is_none() || !was_applying && !matches!(self.state, State::Idle | State::Reading(_)) {
            return Vec::new();
        }
        self.state = State::Idle;
        unstage.into_iter().chain([Action::CancelRequests, Action::Next]).collect()
    }

    /// Applies the snapshot again from its first part. This is needed when a client begins a push, because the
    /// engine then drops the staged parts of the snapshot.
    pub fn restart_applying_snapshot(&mut self) -> Vec<Action> {
        if let State::Applying(applying) = &mut self.state {
            applying.restart();
        }
        Vec::new()
    }

    /// Begins to remove the snapshot, to write the snapshot, or to wait for ended jobs.
    fn begin_next_task(&mut self, engine: &mut Engine, now: f64) -> Vec<Action> {
        let is_stale = self.is_on == Some(false) || has_data(engine) && !self.is_whole && !self.is_given;
        // A new snapshot replaces a foreign snapshot, so the foreign snapshot is removed first.
        if is_stale && self.has_chunks() || self.is_due && self.is_foreign {
            self.state = State::Removing;
            return vec![Action::Write(vec![(ROOT.to_owned(), None)])];
        }
        if !self.is_due {
            if !self.is_saving_ended_jobs() {
                return Vec::new();
            }
            // More than `ENDED_BATCH` jobs may have ended in `ENDED_PERIOD`.
            let is_behind = engine::has_unsaved_jobs(&engine.view(), ENDED_BATCH);
            return vec![Action::StepIn(if is_behind { 0.0 } else { ENDED_PERIOD })];
        }
        self.is_due = false;
        // The new snapshot will contain all jobs that have ended so far, so the list of unsaved jobs is cleared.
        engine.unsaved_ended().clear();
        let view = engine.view();
        let (generation, rest) = (view.generation(), engine::site_document(&view));
        let writing =
            Writing::new(generation, jobtap::own_user(), now, &rest, self.is_doubtful, &self.stored_keys);
        self.state = State::Writing(Box::new(writing));
        vec![Action::StepIn(0.0)]
    }

    /// Returns true if the plugin adds ended jobs to the snapshot.
    fn is_saving_ended_jobs(&self) -> bool {
        self.is_on == Some(true) && self.is_whole && self.has_chunks()
    }

    /// Returns true if the KVS holds chunks of a snapshot.
    fn has_chunks(&self) -> bool {
        self.is_foreign || !self.stored_keys.is_empty()
    }

    /// Does the next step of the task.
    pub fn step(&mut self, engine: &mut Engine, is_push_open: bool) -> Vec<Action> {
        let Snapshot { state, stored_keys, is_on, .. } = self;
        match state {
            // A client's push is open, and the engine can stage only one push at a time.
            State::Applying(_) if is_push_open => vec![Action::StepIn(PUSH_POLL)],
            State::Applying(_) => self.apply(engine),
            State::Writing(writing) => {
                let view = engine.view();
                // If the data changed, the snapshot would mix two pushes. If `remember` is now false, no
                // snapshot is needed.
                if view.generation() != writing.generation || *is_on != Some(true) {
                    self.state = State::Idle;
                    return vec![Action::Next];
                }
                let then = writing.add_next_page(&view, stored_keys);
                self.continue_writing(then)
            }
            State::Idle => self.add_ended(engine),
            _ => Vec::new(),
        }
    }

    /// Writes the jobs that ended since the last write.
    fn add_ended(&mut self, engine: &mut Engine) -> Vec<Action> {
        if !self.is_saving_ended_jobs() || self.is_due || !engine::has_unsaved_jobs(&engine.view(), 1) {
            return vec![Action::Next];
        }
        let ended = engine.unsaved_ended().take(ENDED_BATCH);
        let Some(ended) = ended.filter(|_| !self.log.is_too_long()) else {
            self.is_due = true;
            return vec![Action::Next];
        };
        let changes = self.log.add(&ended, &[], jobtap::own_user());
        let chunks = changes.iter().filter(|(key, _)| *key != jobs::list_key());
        self.state = State::Adding(chunks.map(|(key, chunk)| (key.clone(), chunk.is_some())).collect());
        vec![Action::Write(changes)]
    }

    fn continue_writing(&mut self, then: WriterStep) -> Vec<Action> {
        match then {
            WriterStep::Page => vec![Action::StepIn(0.0)],
            WriterStep::Write(changes) => vec![Action::Write(changes)],
            WriterStep::Done(keys) => {
                if let State::Writing(writing) = std::mem::take(&mut self.state) {
                    self.log = writing.log.mark_snapshot_written();
                }
                (self.stored_keys, self.is_doubtful, self.has_failed, self.panics) = (keys, false, false, 0);
                vec![Action::Next]
            }
        }
    }

    /// Continues after the commit of the last [`Action::Write`].
    pub fn continue_after_write_commit(&mut self, outcome: Result<(), String>) -> Vec<Action> {
        if matches!(self.state, State::AwaitingManifest) {
            return vec![Action::LookUp(MANIFEST, manifest_key())];
        }
        if let Err(fault) = outcome {
            return self.handle_failed_commit(&fault);
        }
        let Snapshot { state, stored_keys, is_foreign, has_failed, .. } = self;
        match state {
            State::Removing => {
                stored_keys.clear();
                (*state, *is_foreign, *has_failed) = (State::Idle, false, false);
                vec![Action::Next]
            }
            State::Adding(keys) => {
                for (key, is_added) in keys.drain(..) {
                    if is_added {
                        stored_keys.insert(key)
                    } else {
                        stored_keys.remove(&key)
                    };
                }
                self.state = State::Idle;
                vec![Action::Next]
            }
            State::Writing(writing) => {
                stored_keys.extend(writing.keys().iter().cloned());
                let then = writing.take_batch(stored_keys);
                self.continue_writing(then)
            }
            _ => Vec::new(),
        }
    }

    /// Repeats a failed removal or write each minute, and logs only the first failure.
    fn handle_failed_commit(&mut self, fault: &str) -> Vec<Action> {
        let is_removal = matches!(self.state, State::Removing);
        // If writing the ended jobs failed, the plugin writes the whole snapshot.
        self.is_due |= !is_removal && self.is_on == Some(true) && self.is_whole;
        (self.state, self.is_doubtful) = (State::Idle, true);
        let what = if is_removal { "deleted" } else { "saved" };
        let text = format!(
            "the snapshot of the last push can't be {what}: {fault}; the plugin tries again each minute"
        );
        let is_first = !std::mem::replace(&mut self.has_failed, true);
        let log = is_first.then_some(Action::Log(LogLevel::Error, text));
        log.into_iter().chain([Action::StepIn(ENDED_PERIOD)]).collect()
    }

    /// Continues after a panic, which dropped the pending requests to the KVS. Reads the snapshot again from the start.
    pub fn recover(&mut self) -> Vec<Action> {
        if self.is_on.is_none() || matches!(self.state, State::Idle) {
            // The timer of the next write may have panicked, and is not armed then.
            let is_waiting = self.is_due || self.is_saving_ended_jobs();
            return Vec::from_iter(is_waiting.then_some(Action::StepWithin(ENDED_PERIOD)));
        }
        self.panics += 1;
        self.is_due |= matches!(self.state, State::Writing(_));
        // The KVS may carry out the last commit after the plugin has read the manifest.
        self.is_doubtful |= matches!(self.state, State::Writing(_) | State::Adding(_) | State::Removing);
        let is_disabled = self.panics > MAX_PANICS;
        let was_applying = matches!(self.state, State::Applying(_));
        self.state = if is_disabled { State::Idle } else { State::AwaitingManifest };
        let mut actions = Vec::new();
        if is_disabled {
            self.is_on = None;
            let text = "no snapshot is saved until the configuration is read again";
            actions.push(Action::Log(LogLevel::Error, text.to_owned()));
        }
        actions.extend(was_applying.then_some(Action::Unstage));
        actions.extend((!is_disabled).then(|| Action::Write(Vec::new())));
        actions
    }
}

/// Returns true if the engine has data, from a push or from the load.
fn has_data(engine: &Engine) -> bool {
    engine.view().generation() > 0
}
