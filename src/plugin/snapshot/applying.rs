// SPDX-License-Identifier: LGPL-3.0-only
//! A record that was read whole is put in force: taken apart first, and then part by part, as a push is.

use super::actions::Action;
use super::parsing::{Parsing, Part};
use super::reading::Reading;
use super::record::Fault;
use super::{Snapshot, State, jobs};
use crate::jobtap::LogLevel;
use crate::plugin::counted;
use fairshare_engine::engine::{Engine, Event};
use std::time::{Duration, SystemTime};

/// A record on its way.
#[derive(Default)]
pub(in crate::plugin) struct Applying {
    reading: Reading,
    parsing: Parsing,
    stage: Stage,
    /// Texts of ended jobs of which the sums were told.
    sums: usize,
}

#[derive(Default)]
enum Stage {
    #[default]
    Parsing,
    /// The next text of ended jobs.
    Jobs(usize),
    Begin,
    Parts(std::vec::IntoIter<Part>),
}

/// What is to be done next.
enum Next {
    /// Go on in the next turn.
    Later,
    Feed(Box<Event<'static>>),
    Commit,
    /// No more of it is wanted.
    Done,
}

impl Applying {
    pub(super) fn new(reading: Reading) -> Applying {
        Applying { reading, ..Applying::default() }
    }

    /// Applies it from its first part.
    pub(super) fn rewind(&mut self) {
        *self = Applying::new(std::mem::take(&mut self.reading));
    }

    pub(super) fn has_jobs_to_tell(&self) -> bool {
        matches!(self.stage, Stage::Parsing | Stage::Jobs(_)) && !self.reading.jobs.is_empty()
    }

    /// `is_late`: a push came first. Then no more is taken than what ended: first all sums of what was given up, since refreshes go
    /// on meanwhile, which give up more where many jobs are told one by one.
    fn next(&mut self, is_late: bool) -> Result<Next, Fault> {
        match &mut self.stage {
            Stage::Parsing if is_late => {
                self.stage = Stage::Jobs(0);
                Ok(Next::Later)
            }
            Stage::Begin if is_late => Ok(Next::Done),
            Stage::Parsing => {
                if self.parsing.step(&self.reading)? {
                    self.stage = Stage::Jobs(0);
                }
                Ok(Next::Later)
            }
            Stage::Jobs(at) => {
                if is_late && let Some(text) = self.reading.text_of_jobs(self.sums)? {
                    self.sums += 1;
                    return Ok(Next::Feed(Box::new(Event::Recalled(Vec::new(), jobs::read(text)?.1))));
                }
                let Some(text) = self.reading.text_of_jobs(*at)? else {
                    self.stage = Stage::Begin;
                    return Ok(Next::Later);
                };
                *at += 1;
                let (ended, sums) = jobs::read(text)?;
                let sums = if self.sums < *at { sums } else { Vec::new() };
                self.sums = self.sums.max(*at);
                Ok(Next::Feed(Box::new(Event::Recalled(ended, sums))))
            }
            Stage::Begin => {
                self.stage = Stage::Parts(std::mem::take(&mut self.parsing.parts).into_iter());
                Ok(Next::Feed(Box::new(Event::PolicyBegin { keeps_config: false })))
            }
            Stage::Parts(parts) => Ok(match parts.next() {
                Some(Part { part, site, .. }) => Next::Feed(Box::new(Event::PolicyPart(part, site))),
                None => Next::Commit,
            }),
        }
    }
}

impl Snapshot {
    /// Applies the next part.
    pub(super) fn apply(&mut self, engine: &Engine) -> Vec<Action> {
        let State::Applying(applying) = &mut self.state else { return Vec::new() };
        match applying.next(self.is_late) {
            Ok(Next::Later) => vec![Action::StepIn(0.0)],
            Ok(Next::Feed(event)) => vec![Action::Feed(event)],
            Ok(Next::Done) => {
                (self.state, self.is_late) = (State::Idle, false);
                vec![Action::Next, Action::StepIn(0.0)]
            }
            Ok(Next::Commit) => match (engine.view().lacks(), std::mem::take(&mut self.state)) {
                (Some(array), _) => self.give_up(&format!("it lacks {array}")),
                (None, State::Applying(applying)) => vec![Action::Commit(applying)],
                (None, _) => Vec::new(),
            },
            Err(fault) => self.give_up(&fault),
        }
    }

    /// The engine was passed a part. `is_taken` is false if the engine was in use.
    pub(super) fn fed(&mut self, is_taken: bool) -> Vec<Action> {
        if is_taken { vec![Action::StepIn(0.0)] } else { self.give_up("the engine is in use") }
    }

    /// The snapshot was committed; `fault` says why the engine refused it.
    pub(super) fn committed(
        &mut self,
        engine: &Engine,
        applied: Applying,
        fault: Option<String>,
    ) -> Vec<Action> {
        if let Some(fault) = fault {
            return self.give_up(&format!("tree: {fault}"));
        }
        self.is_whole = true;
        let manifest = &applied.reading.manifest;
        let at = Duration::try_from_secs_f64(manifest.at).ok();
        let text = format!(
            "remembered the last push: {} (generation {})",
            counted(manifest.associations, "association"),
            engine.view().generation()
        );
        let updated = at.and_then(|at| SystemTime::UNIX_EPOCH.checked_add(at));
        vec![Action::Updated(updated), Action::Log(LogLevel::Info, text), Action::Next]
    }

    /// Refuses a snapshot that may be staged.
    fn give_up(&mut self, fault: &str) -> Vec<Action> {
        [Action::Abort].into_iter().chain(self.refuse(fault)).collect()
    }
}
