// SPDX-License-Identifier: LGPL-3.0-only
//! Reads the requests of methods that push no data. The sender is not in the payload.

use crate::value::{Members, describe};
use crate::wire::{Read, WireError, read_object};
use fairshare_engine::engine::answers::{AssociationFilter, JobFilter, JobSelection, Open, PageFilter};
use fairshare_engine::ids::{JobId, UserId};
use fairshare_engine::priority::{URGENCY_DEFAULT, URGENCY_EXPEDITE};
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// The maximum number of jobs that one request may ask about.
const MAX_EXPLAINED: usize = 100;
/// The maximum number of jobs of a page of `jobs`.
const MAX_JOBS: usize = 2000;
const DEFAULT_JOBS: usize = 500;
const MAX_STANDINGS: usize = 100;
/// The maximum number of rows on a page for which no other maximum is defined here.
const MAX_ROWS: usize = 1000;
/// The maximum number of identical jobs in a request `check_job`.
const MAX_CHECKED: u64 = 1_000_000;
/// The maximum number of held jobs on a page of associations.
const MAX_HELD: usize = 2000;

/// The members of a request. A request without a payload has none. A member with the value null is treated as absent.
struct Request<'a>(Members<'a>);

impl<'a> Request<'a> {
    fn parse(payload: Option<&'a str>) -> Read<Self> {
        payload.map_or_else(|| Ok(Members::new()), |text| read_object(Some(text))).map(Request)
    }

    /// Returns the member `key`. In an error text `expected` describes the expected value.
    fn read_member<T: DeserializeOwned>(
        &self,
        key: &str,
        expected: &str,
        is_valid: impl Fn(&T) -> bool,
    ) -> Read<Option<T>> {
        let Some(value) = self.0.get(key).filter(|value| value.get() != "null") else { return Ok(None) };
        let read = serde_json::from_str::<T>(value.get()).ok().filter(is_valid);
        let type_error = || WireError::Record(format!("{key}: expected {expected}, got {}", describe(value)));
        read.ok_or_else(type_error).map(Some)
    }

    fn read_number(&self, key: &str, range: RangeInclusive<usize>) -> Read<Option<usize>> {
        let expected = format!("an integer from {} to {}", range.start(), range.end());
        self.read_member(key, &expected, |number| range.contains(number))
    }

    /// Returns the maximum number of rows of the page.
    fn read_limit(&self, most: usize, default: usize) -> Read<usize> {
        Ok(self.read_number("limit", 1..=most)?.unwrap_or(default))
    }

    fn read_ids(&self, most: usize) -> Read<Option<Vec<JobId>>> {
        let expected = format!("an array of at most {most} job ids");
        self.read_member::<Vec<JobId>>("ids", &expected, |ids| ids.len() <= most)
    }

    /// Returns the job after which the page begins.
    fn read_last_job_of_previous_page(&self) -> Read<Option<JobId>> {
        self.read_member("after", "a job id", |_| true)
    }

    /// Returns the association after which the page begins.
    fn read_last_association_of_previous_page(&self) -> Read<Option<(UserId, String)>> {
        self.read_member("after", "[userid, bank]", |_| true)
    }

    fn read_user(&self) -> Read<Option<UserId>> {
        self.read_member("user", "a user id", |_| true)
    }

    fn read_name(&self, key: &str) -> Read<Option<String>> {
        self.read_member(key, "a name", |_| true)
    }

    fn read_flag(&self, key: &str) -> Read<bool> {
        Ok(self.read_member(key, "true or false", |_| true)?.unwrap_or(false))
    }
}

/// Reads a request `associations`.
pub fn read_page(payload: Option<&str>) -> Read<PageFilter> {
    let request = Request::parse(payload)?;
    let (after, user) = (request.read_last_association_of_previous_page()?, request.read_user()?);
    Ok(PageFilter { after, user, most: request.read_limit(MAX_ROWS, MAX_ROWS)?, most_held: MAX_HELD })
}

/// Reads a request `tree`. Returns the index of the first leaf, and the maximum number of leaves.
pub fn read_tree_page(payload: Option<&str>) -> Read<(usize, usize)> {
    let request = Request::parse(payload)?;
    let after = request.read_number("after", 0..=u32::MAX as usize)?;
    Ok((after.unwrap_or(0), request.read_limit(MAX_ROWS, MAX_ROWS)?))
}

/// Reads which jobs a request `priorities`, `hand_over` or `rest` selects: a list of job ids, or a page.
pub fn read_selection(payload: Option<&str>) -> Read<JobSelection> {
    let request = Request::parse(payload)?;
    let (ids, after) = (request.read_ids(MAX_ROWS)?, request.read_last_job_of_previous_page()?);
    Ok(JobSelection { ids, after, most: request.read_limit(MAX_ROWS, MAX_ROWS)? })
}

/// Reads a request `jobs`.
pub fn read_jobs(payload: Option<&str>) -> Read<JobFilter> {
    let request = Request::parse(payload)?;
    Ok(JobFilter {
        after: request.read_last_job_of_previous_page()?,
        ids: request.read_ids(MAX_JOBS)?,
        user: request.read_user()?,
        bank: request.read_name("bank")?,
        queue: request.read_name("queue")?,
        most: request.read_limit(MAX_JOBS, DEFAULT_JOBS)?,
    })
}

/// Reads a request `standing`. The second value is true if the sender asks for all users.
pub fn read_standing_request(payload: Option<&str>) -> Read<(AssociationFilter, bool)> {
    let request = Request::parse(payload)?;
    let wanted = AssociationFilter {
        user: request.read_user()?,
        bank: request.read_name("bank")?,
        after: request.read_last_association_of_previous_page()?,
        most: request.read_limit(MAX_STANDINGS, MAX_STANDINGS)?,
        open: Open::All,
    };
    Ok((wanted, request.read_flag("all")?))
}

/// Reads a request `stats`. Returns true if the sender asks for a recount.
pub fn read_stats(payload: Option<&str>) -> Read<bool> {
    Request::parse(payload)?.read_flag("check")
}

/// Reads a request `explain`. Returns the jobs to explain, each once.
pub fn read_explain_request(payload: Option<&str>) -> Read<Vec<JobId>> {
    let expected = format!("an array of 1 to {MAX_EXPLAINED} job ids");
    let is_valid = |ids: &Vec<JobId>| (1..=MAX_EXPLAINED).contains(&ids.len());
    let ids = Request::parse(payload)?.read_member("jobs", &expected, is_valid)?;
    let ids = ids.ok_or_else(|| WireError::Record(format!("jobs: expected {expected}")))?;
    let mut seen = BTreeSet::new();
    Ok(ids.into_iter().filter(|id| seen.insert(*id)).collect())
}

/// Reads a request `check_job` without the jobspec. Returns the user, the urgency and the number of identical
/// jobs. The default urgency is the same as for `flux submit`.
pub fn read_check_job_request(payload: Option<&str>) -> Read<(Option<UserId>, i64, u64)> {
    let request = Request::parse(payload)?;
    let range = 0..=URGENCY_EXPEDITE;
    let urgency =
        request.read_member("urgency", "an integer from 0 to 31", |urgency| range.contains(urgency))?;
    let expected = format!("an integer from 1 to {MAX_CHECKED}");
    let count = request.read_member("count", &expected, |count| (1..=MAX_CHECKED).contains(count))?;
    Ok((request.read_user()?, urgency.unwrap_or(URGENCY_DEFAULT), count.unwrap_or(1)))
}
