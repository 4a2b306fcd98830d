// SPDX-License-Identifier: LGPL-3.0-only
//! Reads the requests of `explain`, `standing`, `jobs` and `stats`. The sender is not in the payload.

use fairshare_engine::ids::{JobId, UserId};
use fairshare_protocol::value::{Members, describe};
use fairshare_protocol::wire::{WireError, object};
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;

/// The maximum number of jobs that one request may ask about.
const MAX_EXPLAINED: usize = 100;
/// The maximum number of rows of a page.
const MAX_JOBS: usize = 2000;
const USUAL_JOBS: usize = 500;
const MOST_STANDINGS: usize = 100;

/// The members of a request. The payload may be absent.
pub struct Wanted<'a>(Members<'a>);

impl<'a> Wanted<'a> {
    pub fn read(payload: Option<&'a str>) -> Result<Self, WireError> {
        payload.map_or_else(|| Ok(Members::new()), |text| object(Some(text))).map(Wanted)
    }

    /// Returns the member `key`, or `None` if it is absent or null. In an error text `takes` describes the expected
    /// value.
    fn read_member<T: DeserializeOwned>(
        &self,
        key: &str,
        takes: &str,
        is_right: impl Fn(&T) -> bool,
    ) -> Result<Option<T>, WireError> {
        let Some(value) = self.0.get(key).filter(|value| value.get() != "null") else { return Ok(None) };
        let read = serde_json::from_str::<T>(value.get()).ok().filter(is_right);
        let wrong = || WireError::Record(format!("{key}: expected {takes}, got {}", describe(value)));
        read.ok_or_else(wrong).map(Some)
    }

    fn read_limit(&self, most: usize, usual: usize) -> Result<usize, WireError> {
        let takes = format!("an integer from 1 to {most}");
        Ok(self.read_member("limit", &takes, |limit| (1..=most).contains(limit))?.unwrap_or(usual))
    }

    /// Returns the jobs to explain.
    pub fn explained(&self) -> Result<Vec<JobId>, WireError> {
        let takes = format!("an array of 1 to {MAX_EXPLAINED} job ids");
        let ids =
            self.read_member::<Vec<u64>>("jobs", &takes, |ids| (1..=MAX_EXPLAINED).contains(&ids.len()))?;
        let ids = ids.ok_or_else(|| WireError::Record(format!("jobs: expected {takes}")))?;
        // A job is explained once, even if the request names it several times.
        let mut seen = BTreeSet::new();
        Ok(ids.into_iter().filter(|id| seen.insert(*id)).map(JobId).collect())
    }

    pub fn ids(&self) -> Result<Option<Vec<JobId>>, WireError> {
        let takes = format!("an array of at most {MAX_JOBS} job ids");
        let ids = self.read_member::<Vec<u64>>("ids", &takes, |ids| ids.len() <= MAX_JOBS)?;
        Ok(ids.map(|ids| ids.into_iter().map(JobId).collect()))
    }

    pub fn after_job(&self) -> Result<Option<JobId>, WireError> {
        Ok(self.read_member("after", "a job id", |_| true)?.map(JobId))
    }

    pub fn after_association(&self) -> Result<Option<(UserId, String)>, WireError> {
        let pair = self.read_member::<(u32, String)>("after", "[userid, bank]", |_| true)?;
        Ok(pair.map(|(user, bank)| (UserId(user), bank)))
    }

    pub fn user(&self) -> Result<Option<UserId>, WireError> {
        Ok(self.read_member("user", "a user id", |_| true)?.map(UserId))
    }

    pub fn text(&self, key: &str) -> Result<Option<String>, WireError> {
        self.read_member(key, "a name", |_| true)
    }

    pub fn flag(&self, key: &str) -> Result<bool, WireError> {
        Ok(self.read_member(key, "true or false", |_| true)?.unwrap_or(false))
    }

    pub fn most_jobs(&self) -> Result<usize, WireError> {
        self.read_limit(MAX_JOBS, USUAL_JOBS)
    }

    pub fn most_standings(&self) -> Result<usize, WireError> {
        self.read_limit(MOST_STANDINGS, MOST_STANDINGS)
    }
}
