// SPDX-License-Identifier: LGPL-3.0-only
//! Puts a snapshot in force after all its chunks were read: parses the chunks, then passes them to the engine as a
//! staged push.

use super::actions::Action;
use super::parsing::{Parsing, Part};
use super::reading::Reading;
use super::record::Fault;
use super::{Snapshot, State, jobs};
use crate::jobtap::LogLevel;
use crate::plugin::counted;
use fairshare_engine::engine::{Engine, Event};
use std::time::{Duration, SystemTime};

/// A snapshot that is being put in force.
#[derive(Default)]
pub(in crate::plugin) struct Applying {
    reading: Reading,
    parsing: Parsing,
    stage: Stage,
    /// The number of chunks of ended jobs whose evicted usages were passed to the engine.
    sums: usize,
}

#[derive(Default)]
enum Stage {
    #[default]
    Parsing,
    /// The index of the next chunk of ended jobs.
    Jobs(usize),
    Begin,
    Parts(std::vec::IntoIter<Part>),
}

/// The next step.
enum Next {
    /// Continues in the next turn.
    Later,
    Feed(Box<Event<'static>>),
    Commit,
    /// Ends, because a push that was committed meanwhile takes precedence.
    Done,
}

impl Applying {
    pub(super) fn new(reading: Reading) -> Applying {
        Applying { reading, ..Applying::default() }
    }

    /// Starts again from the first step.
    pub(super) fn restart(&mut self) {
        *self = Applying::new(std::mem::take(&mut self.reading));
    }

    pub(super) fn has_unapplied_jobs(&self) -> bool {
        matches!(self.stage, Stage::Parsing | Stage::Jobs(_)) && !self.reading.jobs.is_empty()
    }

    /// Does the next step. If `is_late` is true, a push was committed before, and the engine gets only the ended jobs.
    /// All evicted usages precede the ended jobs, because a refresh between two chunks of ended jobs may evict more
    /// jobs.
    fn next_step(&mut self, is_late: bool) -> Result<Next, Fault> {
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
                if is_late && let Some(chunk) = self.reading.jobs_chunk(self.sums)? {
                    self.sums += 1;
                    let (_, sums) = jobs::read_chunk(chunk)?;
                    return Ok(Next::Feed(Box::new(Event::Recalled(Vec::new(), sums))));
                }
                let Some(chunk) = self.reading.jobs_chunk(*at)? else {
                    self.stage = Stage::Begin;
                    return Ok(Next::Later);
                };
                *at += 1;
                let (ended, sums) = jobs::read_chunk(chunk)?;
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
    /// Passes the next part of the staged push to the engine.
    pub(super) fn apply(&mut self, engine: &Engine) -> Vec<Action> {
        let State::Applying(applying) = &mut self.state else { return Vec::new() };
        match applying.next_step(self.is_late) {
            Ok(Next::Later) => vec![Action::StepIn(0.0)],
            Ok(Next::Feed(event)) => vec![Action::Feed(event)],
            Ok(Next::Done) => {
                (self.state, self.is_late) = (State::Idle, false);
                vec![Action::Next, Action::StepIn(0.0)]
            }
            Ok(Next::Commit) => match (engine.view().lacks(), std::mem::take(&mut self.state)) {
                (Some(array), _) => self.abort_applying(&format!("it lacks {array}")),
                (None, State::Applying(applying)) => vec![Action::Commit(applying)],
                (None, _) => Vec::new(),
            },
            Err(fault) => self.abort_applying(&fault),
        }
    }

    /// Continues after the engine got a part. `is_taken` is false if the engine was in use and did not get it.
    pub(super) fn note_fed_part(&mut self, is_taken: bool) -> Vec<Action> {
        if is_taken { vec![Action::StepIn(0.0)] } else { self.abort_applying("the engine is in use") }
    }

    /// Continues after the commit of the staged snapshot. `fault` is the reason if the engine refused the snapshot.
    pub(super) fn note_applied(
        &mut self,
        engine: &Engine,
        applied: Applying,
        fault: Option<String>,
    ) -> Vec<Action> {
        if let Some(fault) = fault {
            return self.abort_applying(&format!("tree: {fault}"));
        }
        self.is_whole = true;
        let manifest = &applied.reading.manifest;
        let at = Duration::try_from_secs_f64(manifest.at).ok();
        let text = format!(
            "restored the last push: {} (generation {})",
            counted(manifest.associations, "association"),
            engine.view().generation()
        );
        let updated = at.and_then(|at| SystemTime::UNIX_EPOCH.checked_add(at));
        vec![Action::SetUpdated(updated), Action::Log(LogLevel::Info, text), Action::Next]
    }

    /// Drops the staged records and refuses the snapshot.
    fn abort_applying(&mut self, fault: &str) -> Vec<Action> {
        [Action::Abort].into_iter().chain(self.refuse(fault)).collect()
    }
}
