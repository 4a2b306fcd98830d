// SPDX-License-Identifier: LGPL-3.0-only
//! What the KVS answers while a record is read: the manifest, then the list of ended jobs, then all texts.

use super::jobs::{self, Log};
use super::reading::Reading;
use super::record::Manifest;
use super::{ENDED, Known, MANIFEST, State};
use crate::engine::{Engine, Timer};
use crate::jobtap::{self, Found, Host, LogLevel, Patience};
use crate::plugin::MfPriority;
use std::collections::HashSet;

impl MfPriority {
    /// What is in the KVS.
    pub(in crate::plugin) fn remember_found(&self, host: Host<'_, Self>, number: u64, found: Found<'_>) {
        let Ok(mut it) = self.remember.try_borrow_mut() else { return };
        let has_data = self.read(Engine::generation).unwrap_or_default() > 0;
        let outcome = match (&mut it.state, found) {
            (State::Asking, Found::Nothing) if number == MANIFEST => {
                it.state = State::Idle;
                Ok(Vec::new())
            }
            (State::Asking, Found::Text(text)) if number == MANIFEST => {
                match Manifest::read(text, jobtap::own_user()) {
                    Ok(manifest) => {
                        it.known = Known::Texts(manifest.keys().collect());
                        it.state = State::AskingJobs(manifest);
                        Ok(vec![(ENDED, jobs::list_key())])
                    }
                    Err(fault) => Err(fault),
                }
            }
            (State::Asking | State::AskingJobs(_), Found::Unreadable(fault)) => Err(fault),
            (State::AskingJobs(manifest), found) if number == ENDED => {
                let texts = match found {
                    Found::Text(text) => jobs::listed(text, jobtap::own_user()),
                    _ => Err("the list of ended jobs is missing".to_owned()),
                };
                match texts {
                    Ok(texts) => {
                        let manifest = std::mem::take(manifest);
                        it.known.have(jobs::keys(&texts));
                        let mut asked = Vec::new();
                        it.state = State::Idle;
                        if it.is_on == Some(true) && !has_data {
                            let mut reading = Reading::new(manifest, texts);
                            asked = reading.ask();
                            it.state = State::Reading(reading);
                        }
                        Ok(asked)
                    }
                    Err(fault) => Err(fault),
                }
            }
            (State::Reading(reading), Found::Text(text)) => match reading.take(number, text) {
                Ok(true) => {
                    let State::Reading(reading) = std::mem::take(&mut it.state) else { return };
                    it.log = Log::after(reading.jobs.clone());
                    it.state = State::Applying(reading, Box::default());
                    drop(it);
                    return host.arm(Timer::Remember.index(), 0.0);
                }
                Ok(false) => Ok(reading.ask()),
                Err(fault) => Err(fault),
            },
            (State::Reading(reading), Found::Nothing) => Err(format!("{} is missing", reading.key(number))),
            (State::Reading(reading), Found::Unreadable(fault)) => {
                Err(format!("{}: {fault}", reading.key(number)))
            }
            _ => return,
        };
        match outcome {
            Ok(asked) => {
                let is_idle = matches!(it.state, State::Idle);
                drop(it);
                for (number, key) in asked {
                    host.look_up(&key, number, Patience::Now);
                }
                if is_idle {
                    self.remember_next(host);
                }
            }
            Err(fault) => {
                drop(it);
                self.refuse_remembered(host, &fault);
            }
        }
    }

    pub(super) fn refuse_remembered(&self, host: Host<'_, Self>, fault: &str) {
        if let Ok(mut it) = self.remember.try_borrow_mut() {
            (it.state, it.known) = (State::Idle, Known::Foreign(HashSet::new()));
        }
        host.forget_errands();
        let text = format!(
            "mf_priority: what is remembered of the last push is refused: {fault}; \
             no data until the policy is pushed again (flux fairshare push), which replaces it"
        );
        self.logger.log(LogLevel::Error, &text);
        self.remember_next(host);
    }
}
