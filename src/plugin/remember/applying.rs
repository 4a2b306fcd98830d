// SPDX-License-Identifier: LGPL-3.0-only
//! A record that was read whole is put in force: part by part, as a push is.

use super::reading::Next;
use super::record::{Fault, Manifest};
use super::{PATIENCE, State, jobs};
use crate::engine::{Engine, Event, Timer};
use crate::jobtap::{Host, LogLevel};
use crate::plugin::wire::{self, WireError};
use crate::plugin::{MfPriority, counted};
use std::time::{Duration, SystemTime};

impl MfPriority {
    /// The next part, if no push is open.
    pub(super) fn apply_remembered(&self, host: Host<'_, Self>) {
        if self.is_push_open() {
            return host.arm(Timer::Remember.index(), PATIENCE);
        }
        match self.apply_part(host) {
            Ok(None) => host.arm(Timer::Remember.index(), 0.0),
            Ok(Some(manifest)) => {
                let (associations, generation) = (manifest.associations, self.read(Engine::generation));
                let at = Duration::try_from_secs_f64(manifest.at).ok();
                self.updated.set(at.and_then(|at| SystemTime::UNIX_EPOCH.checked_add(at)));
                self.is_whole.set(true);
                let text = format!(
                    "mf_priority: remembered the last push: {} (generation {})",
                    counted(associations, "association"),
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

    /// Applies the next part; gives the manifest when that was the last.
    fn apply_part(&self, host: Host<'_, Self>) -> Result<Option<Manifest>, Fault> {
        let taken = {
            let mut it = self.remember.try_borrow_mut().map_err(|_| "it is in use".to_owned())?;
            let State::Applying(reading, reader) = &mut it.state else { return Ok(None) };
            match reading.next()? {
                Next::Jobs(text) => {
                    let (ended, sums) = jobs::read(&text)?;
                    Some(Event::Recalled(ended, sums))
                }
                Next::Begin => Some(Event::PolicyBegin { keeps_config: false }),
                Next::Part(payload) => {
                    let (part, site) = wire::policy_part(Some(&payload), reader).map_err(words)?;
                    Some(Event::PolicyPart(part, site))
                }
                Next::Commit => {
                    let (wanted, read) = (reading.manifest.associations, reader.associations());
                    if wanted != read {
                        return Err(format!("it has {read} associations, not {wanted}"));
                    }
                    None
                }
            }
        };
        if let Some(event) = taken {
            self.drive(host, None, event).map_err(|_| "the engine is in use".to_owned())?;
            return Ok(None);
        }
        if let Some(array) = self.read(Engine::lacks).flatten() {
            return Err(format!("it lacks {array}"));
        }
        let state = self.remember.try_borrow_mut().map(|mut it| std::mem::take(&mut it.state));
        let Ok(State::Applying(reading, _)) = state else { return Ok(None) };
        let _ = self.drive(host, None, Event::PolicyCommit);
        match self.rejected.take() {
            Some(fault) => Err(format!("tree: {fault}")),
            None => Ok(Some(reading.manifest)),
        }
    }
}

fn words(fault: WireError) -> Fault {
    match fault {
        WireError::Undecodable(text) | WireError::Record(text) => text,
        WireError::WrongType(what) => format!("{what} is of a wrong type"),
    }
}
