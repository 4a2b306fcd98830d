// SPDX-License-Identifier: LGPL-3.0-only
//! Applies a snapshot after the plugin has read all its chunks: parses the chunks, then passes them to the engine as a
//! staged push.

use super::actions::Action;
use super::parsing::{Parsing, SnapshotPart};
use super::reading::Reading;
use super::record::Fault;
use super::{Snapshot, State, jobs};
use crate::jobtap::LogLevel;
use crate::plugin::format_count;
use fairshare_engine::engine::{Engine, Event};
use std::time::{Duration, SystemTime};

/// A snapshot that is being applied.
#[derive(Default)]
pub(in crate::plugin) struct Applying {
    reading: Reading,
    parsing: Parsing,
    stage: ApplyStage,
    /// The number of chunks whose usages of evicted jobs the engine has already got.
    sums: usize,
}

#[derive(Default)]
enum ApplyStage {
    #[default]
    Parsing,
    /// The index of the next chunk of ended jobs.
    Jobs(usize),
    Begin,
    Parts(std::vec::IntoIter<SnapshotPart>),
}

impl Applying {
    pub(super) fn new(reading: Reading) -> Applying {
        Applying { reading, ..Applying::default() }
    }

    /// Starts again from the first step.
    pub(super) fn restart(&mut self) {
        *self = Applying::new(std::mem::take(&mut self.reading));
    }

    pub(super) fn has_unapplied_ended_jobs(&self) -> bool {
        matches!(self.stage, ApplyStage::Parsing | ApplyStage::Jobs(_)) && !self.reading.jobs.is_empty()
    }

    /// Performs the next step of applying the snapshot. Returns the action that follows, or `None` after the last step. If `is_late` is
    /// true, a push has replaced the site data, so the engine gets only the ended jobs of the snapshot.
    fn perform_next_apply_step(&mut self, is_late: bool) -> Result<Option<Action>, Fault> {
        let event = match &mut self.stage {
            ApplyStage::Parsing => {
                if is_late || self.parsing.step(&self.reading)? {
                    self.stage = ApplyStage::Jobs(0);
                }
                return Ok(Some(Action::StepIn(0.0)));
            }
            ApplyStage::Jobs(at) => {
                // The engine gets all usages of evicted jobs first, because a refresh between two chunks may evict more
                // jobs.
                if is_late && let Some(chunk) = self.reading.get_ended_jobs_chunk(self.sums) {
                    self.sums += 1;
                    let (_, sums) = jobs::read_chunk(chunk)?;
                    Event::Recalled(Vec::new(), sums)
                } else if let Some(chunk) = self.reading.get_ended_jobs_chunk(*at) {
                    *at += 1;
                    let (ended, sums) = jobs::read_chunk(chunk)?;
                    let sums = if self.sums < *at { sums } else { Vec::new() };
                    self.sums = self.sums.max(*at);
                    Event::Recalled(ended, sums)
                } else {
                    self.stage = ApplyStage::Begin;
                    return Ok(Some(Action::StepIn(0.0)));
                }
            }
            ApplyStage::Begin if is_late => return Ok(None),
            ApplyStage::Begin => {
                self.stage = ApplyStage::Parts(std::mem::take(&mut self.parsing.parts).into_iter());
                Event::PolicyBegin { keeps_config: false }
            }
            ApplyStage::Parts(parts) => match parts.next() {
                Some(SnapshotPart { part, site, .. }) => Event::PolicyPart(part, site),
                None => return Ok(None),
            },
        };
        Ok(Some(Action::Feed(Box::new(event))))
    }
}

impl Snapshot {
    /// Passes the next part of the staged push to the engine.
    pub(super) fn apply(&mut self, engine: &Engine) -> Vec<Action> {
        let State::Applying(applying) = &mut self.state else { return Vec::new() };
        match applying.perform_next_apply_step(self.is_late) {
            Ok(Some(action)) => vec![action],
            // There is nothing to commit, because a push that was committed meanwhile takes precedence.
            Ok(None) if self.is_late => {
                (self.state, self.is_late) = (State::Idle, false);
                vec![Action::Next, Action::StepIn(0.0)]
            }
            Ok(None) => match (engine.view().missing_array(), std::mem::take(&mut self.state)) {
                (Some(array), _) => self.abort_applying(&format!("it lacks {array}")),
                (None, State::Applying(applying)) => vec![Action::Commit(applying)],
                (None, _) => Vec::new(),
            },
            Err(fault) => self.abort_applying(&fault),
        }
    }

    /// Continues after the engine got a part. `is_accepted` is false if the engine was in use and rejected the part.
    pub(super) fn continue_after_part(&mut self, is_accepted: bool) -> Vec<Action> {
        if is_accepted { vec![Action::StepIn(0.0)] } else { self.abort_applying("the engine is in use") }
    }

    /// Continues after the commit of the staged snapshot. `fault` is the reason if the engine refused the snapshot.
    pub(super) fn continue_after_snapshot_commit(
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
            format_count(manifest.associations, "association"),
            engine.view().generation()
        );
        let updated = at.and_then(|at| SystemTime::UNIX_EPOCH.checked_add(at));
        vec![Action::SetUpdated(updated), Action::Log(LogLevel::Info, text), Action::Next]
    }

    /// Drops the staged records and refuses the snapshot.
    fn abort_applying(&mut self, fault: &str) -> Vec<Action> {
        [Action::Unstage].into_iter().chain(self.refuse(fault)).collect()
    }
}
