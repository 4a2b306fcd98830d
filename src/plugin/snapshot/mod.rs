// SPDX-License-Identifier: LGPL-3.0-only
//! The snapshot: the plugin saves the last complete push, with its tree and usages, in the KVS, and restores it after a reload or a
//! restart.
//!
//! ```text
//!   conf.update (first) ─> look up the manifest ─┬─ no snapshot, or data came first ──────────> wait for a push
//!                                                ├─ read all chunks ─> apply them as a staged push ─> in force
//!                                                └─ foreign or damaged: say so in the log ───────> wait for a push
//!   a whole policy in force ──> write new chunks, batch by batch ──> write the manifest, delete the chunks of the snapshot before
//! ```
//!
//! The KVS keeps all values that were ever written, so a chunk that stays the same is not written again. A fair-share that follows from
//! the tree of the snapshot is not written, but computed on reading: under a policy of ranks, all change if one does.
//!
//! # Rules
//! - The snapshot holds the data of `policy_update` or `policy_commit`. Data of flux-accounting's own methods remove it, because it no
//!   longer describes the data in force.
//! - A document given at load, or a push that arrives before the snapshot is read, takes precedence. After a complete push, the plugin
//!   still reads the ended jobs of the snapshot.
//! - With `remember = false` the plugin reads nothing, writes nothing, and removes the snapshot.
//! - The plugin reads a snapshot only if the owner of the instance wrote it, in a format that the plugin knows, and only as a whole: each
//!   chunk must have the hash in its key. The snapshot is then applied and checked as a push.
//! - A refused snapshot stays in the KVS until the next push replaces it.

mod actions;
mod applying;
mod changes;
mod found;
mod jobs;
mod lines;
mod parsing;
mod reading;
mod record;
mod rest;
#[cfg(test)]
mod tests;
mod writing;

use crate::jobtap::{self, LogLevel};
use actions::Action;
use applying::Applying;
use fairshare::shortened;
use fairshare_engine::engine::{self, Engine};
use found::Lists;
use jobs::Log;
use reading::Reading;
use record::{ROOT, manifest_key};
use std::collections::HashSet;
use writing::{Before, JOBS_PAGE, PAGE, Then, Wants, Writing};

/// The number of the look-up of the manifest. The numbers of chunks are smaller.
const MANIFEST: u64 = u64::MAX;
/// The number of the look-up of the list of ended jobs.
const ENDED: u64 = MANIFEST - 1;
/// The number of the look-up of the list of groups. The number between belongs to the resources of the site.
const GROUPS: u64 = MANIFEST - 3;
/// Seconds between two writes of ended jobs.
const ENDED_EVERY: f64 = 60.0;
/// The most ended jobs in one write.
const ENDED_AT_ONCE: usize = 2000;
/// Seconds between two checks whether an open push has ended.
const PATIENCE: f64 = 1.0;
/// After more panics than these, the plugin saves nothing until it reads the configuration again.
const MAX_PANICS: u32 = 3;

/// The snapshot, and the work on it. Each method returns the actions that follow ([`Action`]).
#[derive(Default)]
pub(super) struct Snapshot {
    /// The data in force came in a whole push.
    is_whole: bool,
    /// The data in force were given at load.
    is_given: bool,
    /// The setting; `None` before the first configuration.
    is_on: Option<bool>,
    state: State,
    /// The keys of our chunks in the KVS.
    known: HashSet<String>,
    /// The KVS holds a foreign or damaged snapshot, which the next snapshot removes.
    is_foreign: bool,
    /// A commit failed, so it is unknown which of its changes were made.
    doubts: bool,
    /// The data in force have to be written.
    is_due: bool,
    /// A whole push came before the snapshot was read: only its ended jobs are read.
    is_late: bool,
    /// The chunks of ended jobs.
    log: Log,
    panics: u32,
}

#[derive(Default)]
enum State {
    #[default]
    Idle,
    /// Looks up the manifest, after an empty commit. Commits are done in turn, but a look-up does not wait for them: a commit that the
    /// plugin sent before a reload would change the snapshot while it is read.
    Asking,
    AskingLists(Lists),
    Reading(Reading),
    Applying(Box<Applying>),
    Writing(Box<Writing>),
    /// Writes ended jobs under the keys `there`, and removes the keys `gone`.
    Adding {
        there: Vec<String>,
        gone: Vec<String>,
    },
    Removing,
}

impl State {
    /// Returns true if a snapshot is being read, and the engine does not have all of its ended jobs yet.
    fn has_jobs_to_tell(&self) -> bool {
        match self {
            State::Asking | State::AskingLists(_) | State::Reading(_) => true,
            State::Applying(applying) => applying.has_jobs_to_tell(),
            State::Idle | State::Writing(_) | State::Adding { .. } | State::Removing => false,
        }
    }
}

impl Snapshot {
    /// Returns the state at load. `is_given` says whether a document was given at load.
    pub fn new(is_given: bool) -> Snapshot {
        Snapshot { is_given, ..Snapshot::default() }
    }

    /// Takes over the setting `remember`. The first time, begins to read the snapshot.
    pub fn configure(&mut self, engine: &Engine, is_on: bool) -> Vec<Action> {
        let before = self.is_on.replace(is_on);
        if before.is_none() {
            self.state = State::Asking;
            return vec![Action::Write(Vec::new())];
        }
        if before == Some(is_on) {
            return Vec::new();
        }
        self.is_due = is_on && has_data(engine) && self.is_whole;
        self.is_late &= is_on;
        self.turn()
    }

    /// A push is in force: a whole policy, or what changes only a part of the data. The latter is not saved.
    pub fn data_came(&mut self, is_whole: bool) -> Vec<Action> {
        (self.is_whole, self.is_given) = (is_whole, false);
        self.is_due = is_whole && self.is_on == Some(true);
        self.is_late = self.is_due && self.state.has_jobs_to_tell();
        self.turn()
    }

    /// Gives up the work that is not wanted any more, and begins the next. Work that changes the KVS goes on, so that the plugin knows
    /// what is there; at its end the plugin looks again what is wanted.
    fn turn(&mut self) -> Vec<Action> {
        let was_applying = matches!(self.state, State::Applying(_));
        let unstage = was_applying.then_some(Action::Unstage);
        if self.is_late && self.state.has_jobs_to_tell() {
            return Vec::from_iter(unstage);
        }
        if self.is_on.is_none() || !was_applying && !matches!(self.state, State::Idle | State::Reading(_)) {
            return Vec::new();
        }
        self.state = State::Idle;
        unstage.into_iter().chain([Action::ForgetErrands, Action::Next]).collect()
    }

    /// A push begins, which drops what was staged of the snapshot: applies the snapshot from its first part.
    pub fn step_aside(&mut self) -> Vec<Action> {
        if let State::Applying(applying) = &mut self.state {
            applying.rewind();
        }
        Vec::new()
    }

    /// Begins the next work after the last has ended: to remove the snapshot, to write it, or to wait for jobs that end.
    fn next(&mut self, engine: &mut Engine, now: f64) -> Vec<Action> {
        let is_stale = self.is_on == Some(false) || has_data(engine) && !self.is_whole && !self.is_given;
        if is_stale && self.has_chunks() {
            self.state = State::Removing;
            return vec![Action::Write(vec![(ROOT.to_owned(), None)])];
        }
        if !self.is_due {
            if !self.adds_ended() {
                return Vec::new();
            }
            // Jobs may end faster than so many in that time.
            let is_behind = engine::has_news(&engine.view(), ENDED_AT_ONCE);
            return vec![Action::StepIn(if is_behind { 0.0 } else { ENDED_EVERY })];
        }
        self.is_due = false;
        // All jobs that ended so far are among those that the new snapshot reads from the engine.
        engine.news().clear();
        let before = match self.doubts {
            _ if self.is_foreign => Before::Foreign,
            true => Before::Doubtful,
            false => Before::Ours,
        };
        let view = engine.view();
        let (generation, rest) = (view.generation(), engine::site_document(&view));
        let writing = Writing::new(generation, jobtap::own_user(), now, &rest, before, &self.known);
        self.state = State::Writing(Box::new(writing));
        vec![Action::StepIn(0.0)]
    }

    /// Returns true if jobs that ended are added to the snapshot.
    fn adds_ended(&self) -> bool {
        self.is_on == Some(true) && self.is_whole && self.has_chunks()
    }

    /// Returns true if the KVS holds a snapshot, or a part of one.
    fn has_chunks(&self) -> bool {
        self.is_foreign || !self.known.is_empty()
    }

    /// Takes the next step of the work.
    pub fn step(&mut self, engine: &mut Engine, is_push_open: bool) -> Vec<Action> {
        let Snapshot { state, known, is_on, .. } = self;
        match state {
            // The parts of the snapshot are staged where those of a push are.
            State::Applying(_) if is_push_open => vec![Action::StepIn(PATIENCE)],
            State::Applying(_) => self.apply(engine),
            State::Writing(writing) => {
                let view = engine.view();
                // The snapshot would mix two pushes, or is not wanted any more.
                if view.generation() != writing.generation || *is_on != Some(true) {
                    self.state = State::Idle;
                    return vec![Action::Next];
                }
                let then = match writing.wants() {
                    Wants::AsPushed => writing.as_pushed(engine::as_pushed(&view)),
                    Wants::Page(after, as_pushed) => {
                        let page = engine::associations_page(&view, after, PAGE, as_pushed);
                        writing.page(&page, known)
                    }
                    Wants::Jobs(first) => {
                        let page = engine::uncovered(&view, first, JOBS_PAGE);
                        writing.ended(page, known)
                    }
                };
                self.write_on(then)
            }
            State::Idle => self.add_ended(engine),
            _ => Vec::new(),
        }
    }

    /// Writes jobs that ended since they were written last.
    fn add_ended(&mut self, engine: &mut Engine) -> Vec<Action> {
        if !self.adds_ended() || self.is_due || !engine::has_news(&engine.view(), 1) {
            return vec![Action::Next];
        }
        let ended = engine.news().take(ENDED_AT_ONCE);
        let Some(ended) = ended.filter(|_| !self.log.is_too_long()) else {
            self.is_due = true;
            return vec![Action::Next];
        };
        let changes = self.log.add(&ended, &[], jobtap::own_user());
        let texts = changes.iter().filter(|(key, _)| *key != jobs::list_key());
        let (there, gone): (Vec<_>, Vec<_>) = texts.partition(|(_, text)| text.is_some());
        let [there, gone] = [there, gone].map(|it| it.into_iter().map(|(key, _)| key.clone()).collect());
        self.state = State::Adding { there, gone };
        vec![Action::Write(changes)]
    }

    fn write_on(&mut self, then: Then) -> Vec<Action> {
        match then {
            Then::Page => vec![Action::StepIn(0.0)],
            Then::Write(changes) => vec![Action::Write(changes)],
            Then::Done(keys) => {
                if let State::Writing(writing) = std::mem::take(&mut self.state) {
                    self.log = writing.into_log();
                }
                (self.known, self.doubts, self.panics) = (keys, false, 0);
                vec![Action::Next]
            }
        }
    }

    /// The commit of the last [`Action::Write`] has ended.
    pub fn written(&mut self, outcome: Result<(), String>) -> Vec<Action> {
        if matches!(self.state, State::Asking) {
            return vec![Action::LookUp(MANIFEST, manifest_key())];
        }
        if let Err(fault) = outcome {
            return self.not_written(&fault);
        }
        let Snapshot { state, known, is_foreign, .. } = self;
        match state {
            State::Removing => {
                known.clear();
                (*state, *is_foreign) = (State::Idle, false);
                vec![Action::Next]
            }
            State::Adding { there, gone } => {
                for key in gone {
                    known.remove(key);
                }
                known.extend(std::mem::take(there));
                self.state = State::Idle;
                vec![Action::Next]
            }
            State::Writing(writing) => {
                // The first batch removed a foreign snapshot.
                *is_foreign = false;
                known.extend(writing.keys().iter().cloned());
                let then = writing.go_on(known);
                self.write_on(then)
            }
            _ => Vec::new(),
        }
    }

    /// A commit failed.
    fn not_written(&mut self, fault: &str) -> Vec<Action> {
        let what = if matches!(self.state, State::Removing) {
            "what is remembered of the last push can't be taken away"
        } else {
            "the policy in force can't be remembered, and is to be pushed again after a restart"
        };
        // A while later, the plugin writes all again, with the jobs that ended and were not written. So it does with a push that came
        // meanwhile.
        self.is_due |= matches!(self.state, State::Adding { .. });
        (self.state, self.doubts) = (State::Idle, true);
        let mut actions = vec![Action::Log(LogLevel::Error, format!("{what}: {fault}"))];
        actions.extend(self.is_due.then_some(Action::StepIn(ENDED_EVERY)));
        actions
    }

    /// A panic cut the work short, and dropped what the KVS was asked. Begins again by reading what is there.
    pub fn recover(&mut self) -> Vec<Action> {
        if self.is_on.is_none() || matches!(self.state, State::Idle) {
            return Vec::new();
        }
        self.panics += 1;
        self.is_due |= matches!(self.state, State::Writing(_));
        // What was being written may be done after the manifest is read.
        self.doubts |= matches!(self.state, State::Writing(_) | State::Adding { .. } | State::Removing);
        let gives_up = self.panics > MAX_PANICS;
        let was_applying = matches!(self.state, State::Applying(_));
        self.state = if gives_up { State::Idle } else { State::Asking };
        let mut actions = Vec::new();
        if gives_up {
            self.is_on = None;
            let text = "no policy is remembered until the configuration is read again";
            actions.push(Action::Log(LogLevel::Error, text.to_owned()));
        }
        actions.extend(was_applying.then_some(Action::Unstage));
        actions.extend((!gives_up).then(|| Action::Write(Vec::new())));
        actions
    }
}

/// Returns true if a push came, or a document was given at load.
fn has_data(engine: &Engine) -> bool {
    engine.view().generation() > 0
}
