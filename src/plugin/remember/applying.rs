// SPDX-License-Identifier: LGPL-3.0-only
//! A record that was read whole is put in force: taken apart first, and then part by part, as a push is.

use super::parsing::{Parsing, Part};
use super::reading::Reading;
use super::record::Fault;
use super::writing::Base;
use super::{PATIENCE, Remember, State, jobs};
use crate::jobtap::{Host, LogLevel};
use crate::plugin::{MfPriority, counted};
use fairshare_engine::engine::{Event, Timer};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

/// A record on its way.
#[derive(Default)]
pub(super) struct Applying {
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

    fn base(&mut self) -> Base {
        self.parsing.base(&self.reading)
    }
}

impl MfPriority {
    /// The next part, if no push is open.
    pub(super) fn apply_remembered(&self, host: Host<'_, Self>) {
        if self.parts.try_borrow().is_ok_and(|parts| parts.is_open()) {
            return host.restart(Timer::Remember.index(), PATIENCE);
        }
        match self.apply_part(host) {
            Ok(None) => host.restart(Timer::Remember.index(), 0.0),
            Ok(Some(mut applied)) => {
                let base = applied.base();
                if let Ok(mut it) = self.remember.try_borrow_mut() {
                    it.base = Some(Rc::new(base));
                }
                let manifest = &applied.reading.manifest;
                let generation = self.engine.view(|view| view.generation());
                let at = Duration::try_from_secs_f64(manifest.at).ok();
                self.updated.set(at.and_then(|at| SystemTime::UNIX_EPOCH.checked_add(at)));
                self.is_whole.set(true);
                let text = format!(
                    "mf_priority: remembered the last push: {} (generation {})",
                    counted(manifest.associations, "association"),
                    generation.unwrap_or_default()
                );
                self.logger.log(LogLevel::Info, &text);
                self.remember_next(host);
            }
            Err(fault) => {
                let _ = self.drive(host, None, Event::PolicyAbort);
                self.refuse_remembered(host, &fault);
            }
        }
    }

    /// Applies the next part; gives the record when that was the last.
    fn apply_part(&self, host: Host<'_, Self>) -> Result<Option<Box<Applying>>, Fault> {
        let next = {
            let mut it = self.remember.try_borrow_mut().map_err(|_| "it is in use".to_owned())?;
            let Remember { state: State::Applying(applying), is_late, .. } = &mut *it else {
                return Ok(None);
            };
            applying.next(*is_late)?
        };
        match next {
            Next::Later => return Ok(None),
            Next::Done => {
                if let Ok(mut it) = self.remember.try_borrow_mut() {
                    (it.state, it.is_late) = (State::Idle, false);
                }
                self.remember_next(host);
                return Ok(None);
            }
            Next::Feed(event) => {
                self.drive(host, None, *event).map_err(|_| "the engine is in use".to_owned())?;
                return Ok(None);
            }
            Next::Commit => {}
        }
        if let Some(array) = self.engine.view(|view| view.lacks()).flatten() {
            return Err(format!("it lacks {array}"));
        }
        let state = self.remember.try_borrow_mut().map(|mut it| std::mem::take(&mut it.state));
        let Ok(State::Applying(applying)) = state else { return Ok(None) };
        let _ = self.drive(host, None, Event::PolicyCommit);
        match self.rejected.take() {
            Some(fault) => Err(format!("tree: {fault}")),
            None => Ok(Some(applying)),
        }
    }
}
