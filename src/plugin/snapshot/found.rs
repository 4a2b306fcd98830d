// SPDX-License-Identifier: LGPL-3.0-only
//! Handles the replies of the KVS while the plugin reads a snapshot: the manifest, then the lists of ended jobs and of groups, then all
//! chunks.

use super::actions::Action;
use super::applying::Applying;
use super::jobs::{self, EndedLog};
use super::reading::Reading;
use super::record::{self, Fault, Group, Manifest, groups_key};
use super::{ENDED_LIST, GROUP_LIST, MANIFEST, Snapshot, State, has_data};
use crate::jobtap::{self, ENOENT, Error, LogLevel};
use fairshare_engine::engine::Engine;

/// The manifest, and the lists of the other chunks.
#[derive(Default)]
pub(super) struct Lists {
    manifest: Manifest,
    jobs: Option<Vec<String>>,
    groups: Option<Vec<Group>>,
}

impl Lists {
    /// Stores the reply to look-up `number`. Returns true after both lists were read: the list of ended jobs and the
    /// list of groups.
    fn add_look_up_reply(&mut self, number: u64, found: Result<&str, Error>) -> Result<bool, Fault> {
        match number {
            ENDED_LIST => {
                let text = name_missing_value("the list of ended jobs", found)?;
                self.jobs = Some(jobs::read_list(text, jobtap::own_user())?);
            }
            GROUP_LIST => {
                let key = groups_key(&self.manifest.groups);
                self.groups = Some(record::parse_group_list(&key, name_missing_value(&key, found)?)?);
            }
            _ => {}
        }
        Ok(self.jobs.is_some() && self.groups.is_some())
    }
}

impl Snapshot {
    /// Begins to read the chunks, if the plugin needs the snapshot. Returns the look-ups to start, with their numbers.
    fn begin_reading(&mut self, has_data: bool) -> Vec<(u64, String)> {
        let State::AwaitingLists(lists) = std::mem::take(&mut self.state) else { return Vec::new() };
        let (jobs, groups) = (lists.jobs.unwrap_or_default(), lists.groups.unwrap_or_default());
        self.stored_keys.extend(jobs::chunk_keys(&jobs).chain(groups.iter().flat_map(Group::keys)));
        // After a committed push, the plugin needs only the ended jobs of the snapshot.
        self.is_late &= !jobs.is_empty();
        if self.is_on != Some(true) || has_data && !self.is_late {
            return Vec::new();
        }
        let mut reading = Reading::new(lists.manifest, jobs, &groups);
        let look_ups = reading.start_next_look_ups();
        self.state = State::Reading(reading);
        look_ups
    }

    /// Continues after the reply of the KVS to look-up `number`.
    pub fn note_reply(&mut self, engine: &Engine, number: u64, found: Result<&str, Error>) -> Vec<Action> {
        let has_data = has_data(engine);
        let outcome = match (&mut self.state, found) {
            (State::AwaitingManifest, Err(Error { errno: ENOENT, .. })) if number == MANIFEST => {
                (self.state, self.is_late) = (State::Idle, false);
                Ok(Vec::new())
            }
            (State::AwaitingManifest, Ok(text)) if number == MANIFEST => {
                Manifest::read(text, jobtap::own_user()).map(|manifest| {
                    (self.stored_keys, self.is_foreign) = (manifest.keys().collect(), false);
                    let groups = groups_key(&manifest.groups);
                    self.state = State::AwaitingLists(Lists { manifest, ..Lists::default() });
                    vec![(ENDED_LIST, jobs::list_key()), (GROUP_LIST, groups)]
                })
            }
            (State::AwaitingManifest, Err(error)) if number == MANIFEST => Err(error.to_string()),
            (State::AwaitingLists(lists), found) => match lists.add_look_up_reply(number, found) {
                Ok(true) => Ok(self.begin_reading(has_data)),
                Ok(false) => return Vec::new(),
                Err(fault) => Err(fault),
            },
            (State::Reading(reading), Ok(text)) => match reading.add_chunk(number, text) {
                Ok(true) => {
                    let State::Reading(reading) = std::mem::take(&mut self.state) else { return Vec::new() };
                    self.log = EndedLog::continue_from_hashes(reading.jobs.clone());
                    self.state = State::Applying(Box::new(Applying::new(reading)));
                    return vec![Action::StepIn(0.0)];
                }
                Ok(false) => Ok(reading.start_next_look_ups()),
                Err(fault) => Err(fault),
            },
            (State::Reading(reading), Err(_)) => {
                name_missing_value(reading.key(number), found).map(|_| Vec::new())
            }
            _ => return Vec::new(),
        };
        match outcome {
            Ok(look_ups) => {
                let is_idle = matches!(self.state, State::Idle);
                let look_ups = look_ups.into_iter().map(|(number, key)| Action::LookUp(number, key));
                look_ups.chain(is_idle.then_some(Action::Next)).collect()
            }
            Err(fault) => self.refuse(&fault),
        }
    }

    /// Refuses the whole snapshot, and logs the reason.
    pub(super) fn refuse(&mut self, fault: &str) -> Vec<Action> {
        (self.state, self.is_foreign) = (State::Idle, true);
        self.stored_keys.clear();
        let what = if std::mem::take(&mut self.is_late) {
            "the usage of jobs that ended before the new push is counted only for jobs that job-list lists"
        } else {
            "the plugin has no data until the next push (flux fairshare push), which replaces the snapshot"
        };
        let text = format!("the snapshot of the last push is refused: {fault}; {what}");
        vec![Action::CancelRequests, Action::Log(LogLevel::Error, text), Action::Next]
    }
}

/// Returns the value that was found. An error text names the value `name`.
fn name_missing_value<'a>(name: &str, found: Result<&'a str, Error>) -> Result<&'a str, Fault> {
    found.map_err(|error| match error.errno {
        ENOENT => format!("{name} is missing"),
        _ => format!("{name}: {error}"),
    })
}
