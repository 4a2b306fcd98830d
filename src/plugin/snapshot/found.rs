// SPDX-License-Identifier: LGPL-3.0-only
//! What the KVS answers while a record is read: the manifest, then the lists of ended jobs and of groups, then all texts.

use super::actions::Action;
use super::applying::Applying;
use super::jobs::{self, Log};
use super::reading::Reading;
use super::record::{self, Fault, Group, Manifest, groups_key};
use super::{ENDED, GROUPS, MANIFEST, Snapshot, State, has_data};
use crate::jobtap::{self, Found, LogLevel};
use fairshare_engine::engine::Engine;

/// The lists that a record is read by, as they come in.
#[derive(Default)]
pub(super) struct Lists {
    manifest: Manifest,
    jobs: Option<Vec<String>>,
    groups: Option<Vec<Group>>,
}

impl Lists {
    /// Takes one in. Whether both are there.
    fn take(&mut self, number: u64, found: &Found<'_>) -> Result<bool, Fault> {
        let text = |what: &str| match found {
            Found::Text(text) => Ok(*text),
            Found::Nothing => Err(format!("{what} is missing")),
            Found::Unreadable(fault) => Err(format!("{what}: {fault}")),
        };
        match number {
            ENDED => self.jobs = Some(jobs::listed(text("the list of ended jobs")?, jobtap::own_user())?),
            GROUPS => {
                let key = groups_key(&self.manifest.groups);
                self.groups = Some(record::groups(&key, text(&key)?)?);
            }
            _ => {}
        }
        Ok(self.jobs.is_some() && self.groups.is_some())
    }
}

impl Snapshot {
    /// All lists are there: what is to be asked for now, if the record is wanted.
    fn listed(&mut self, has_data: bool) -> Vec<(u64, String)> {
        let State::AskingLists(lists) = std::mem::take(&mut self.state) else { return Vec::new() };
        let (texts, groups) = (lists.jobs.unwrap_or_default(), lists.groups.unwrap_or_default());
        self.known.extend(jobs::keys(&texts).chain(groups.iter().flat_map(Group::keys)));
        // Without jobs that ended there is nothing that would add to a push.
        self.is_late &= !texts.is_empty();
        if self.is_on != Some(true) || has_data && !self.is_late {
            return Vec::new();
        }
        let mut reading = Reading::new(lists.manifest, texts, groups);
        let asked = reading.ask();
        self.state = State::Reading(reading);
        asked
    }

    /// The KVS answered to the look-up `number`.
    pub fn found(&mut self, engine: &Engine, number: u64, found: Found<'_>) -> Vec<Action> {
        let has_data = has_data(engine);
        let outcome = match (&mut self.state, found) {
            (State::Asking, Found::Nothing) if number == MANIFEST => {
                (self.state, self.is_late) = (State::Idle, false);
                Ok(Vec::new())
            }
            (State::Asking, Found::Text(text)) if number == MANIFEST => {
                match Manifest::read(text, jobtap::own_user()) {
                    Ok(manifest) => {
                        (self.known, self.is_foreign) = (manifest.keys().collect(), false);
                        let groups = groups_key(&manifest.groups);
                        self.state = State::AskingLists(Lists { manifest, ..Lists::default() });
                        Ok(vec![(ENDED, jobs::list_key()), (GROUPS, groups)])
                    }
                    Err(fault) => Err(fault),
                }
            }
            (State::Asking, Found::Unreadable(fault)) => Err(fault),
            (State::AskingLists(lists), found) => match lists.take(number, &found) {
                Ok(true) => Ok(self.listed(has_data)),
                Ok(false) => return Vec::new(),
                Err(fault) => Err(fault),
            },
            (State::Reading(reading), Found::Text(text)) => match reading.take(number, text) {
                Ok(true) => {
                    let State::Reading(reading) = std::mem::take(&mut self.state) else { return Vec::new() };
                    self.log = Log::after(reading.jobs.clone());
                    self.state = State::Applying(Box::new(Applying::new(reading)));
                    return vec![Action::StepIn(0.0)];
                }
                Ok(false) => Ok(reading.ask()),
                Err(fault) => Err(fault),
            },
            (State::Reading(reading), Found::Nothing) => Err(format!("{} is missing", reading.key(number))),
            (State::Reading(reading), Found::Unreadable(fault)) => {
                Err(format!("{}: {fault}", reading.key(number)))
            }
            _ => return Vec::new(),
        };
        match outcome {
            Ok(asked) => {
                let is_idle = matches!(self.state, State::Idle);
                let look_ups = asked.into_iter().map(|(number, key)| Action::LookUp(number, key));
                look_ups.chain(is_idle.then_some(Action::Next)).collect()
            }
            Err(fault) => self.refuse(&fault),
        }
    }

    /// Refuses the snapshot as a whole.
    pub(super) fn refuse(&mut self, fault: &str) -> Vec<Action> {
        (self.state, self.is_foreign) = (State::Idle, true);
        self.known.clear();
        let what = if std::mem::take(&mut self.is_late) {
            "jobs that ended before the push that came first are not added to it, but for those that job-list knows"
        } else {
            "no data until the policy is pushed again (flux fairshare push), which replaces it"
        };
        let text = format!("what is remembered of the last push is refused: {fault}; {what}");
        vec![Action::ForgetErrands, Action::Log(LogLevel::Error, text), Action::Next]
    }
}
