// SPDX-License-Identifier: LGPL-3.0-only
//! The staged push: a site document in parts, so that no request occupies Flux for long.
//!
//! `policy_begin` gives the push a number, `policy_part` stages some records, `policy_commit` applies all records at
//! once, and `policy_abort` drops them. One push is open at a time. A later `policy_begin`, or a document in one
//! message, replaces the open push, because a client that died must not keep others from pushing. If a part is
//! rejected, its push ends. A timer ends a push that gets no part in time.

use super::services::request_error;
use crate::jobtap::{ENOENT, Result};
use fairshare_protocol::{reading::Reader, wire::StagedPushOptions};

/// The open push, and the reason why the last push ended.
#[derive(Default)]
pub(super) struct StagedPushes {
    /// The number of the last push.
    latest: u64,
    open: Option<OpenStagedPush>,
    /// The number of the last ended push, and why it ended.
    ended: Option<(u64, String)>,
}

/// A staged push that is open.
pub(super) struct OpenStagedPush {
    pub number: u64,
    pub beginning: StagedPushOptions,
    /// Reads the records in the parts of the push.
    pub reader: Reader,
}

impl StagedPushes {
    /// Opens a push at `now`, in seconds since the epoch, and ends the push that is open. Returns the number of the new push.
    pub fn begin(&mut self, beginning: StagedPushOptions, now: f64) -> u64 {
        // After a reload, a client that began a push earlier must not change the push of another client. So the numbers of the
        // reloaded plugin are larger.
        let number = (self.latest + 1).max((now * 1000.0) as u64);
        self.latest = number;
        self.end(&format!("push {number} replaced it"));
        self.open = Some(OpenStagedPush { number, beginning, reader: Reader::default() });
        number
    }

    /// Returns the seconds without a part after which the open push ends, or `None` if no push is open.
    pub fn time_limit(&self) -> Option<f64> {
        self.open.as_ref().map(|open| open.beginning.expires as f64)
    }

    /// Ends the open push, if one is open.
    pub fn end(&mut self, why: &str) {
        if let Some(open) = self.open.take() {
            self.note_end(open.number, why);
        }
    }

    /// Records why the push `number` ended.
    pub fn note_end(&mut self, number: u64, why: &str) {
        self.ended = Some((number, format!("push {number}: {why}")));
    }

    /// Reopens a push that [`StagedPushes::take`] returned.
    pub fn put_back(&mut self, open: OpenStagedPush) {
        self.open = Some(open);
    }

    /// Removes and returns the open push if its number is `number`. Otherwise the error text says how push `number` ended.
    pub fn take(&mut self, number: u64) -> Result<OpenStagedPush> {
        if let Some(open) = self.open.take_if(|open| open.number == number) {
            return Ok(open);
        }
        let ended = self.ended.as_ref().filter(|(ended, _)| *ended == number);
        let text = ended.map_or_else(
            || format!("push {number}: there is no such push; begin again"),
            |(_, why)| why.clone(),
        );
        Err(request_error(ENOENT, format!("mf_priority: {text}")))
    }
}
