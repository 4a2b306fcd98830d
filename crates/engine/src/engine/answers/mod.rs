// SPDX-License-Identifier: LGPL-3.0-only
//! Answers to people and programs, computed from a [`View`](super::View). Answers change no state. They are
//! computed by the functions that make the decisions of the engine.
//!
//! The types of answers are the JSON of the plugin's methods: the plugin sends them, and the command reads them. A
//! reader ignores unknown fields, so that the versions of plugin and command may differ. In types that an older
//! plugin may send with fewer fields, a missing field has its default.
//!
//! | file | answer |
//! |---|---|
//! | `heading` | the members with which several answers begin |
//! | `queue_rules` | the rules of queues for limits and priorities |
//! | `job` | `explain`: the priority of a job, and the reasons why it is held or blocked |
//! | `holds` | a part of `job` and `submission`: the limits that hold the job, and the jobs that free headroom |
//! | `release`, `latest` | a part of `job`: when the limits release the job |
//! | `others` | a part of `job`: reasons other than limits, and suggestions |
//! | `submission` | `check_job`: what would happen to a job that is not submitted yet |
//! | `list` | short descriptions of pending and held jobs |
//! | `standing` | associations: fair-share, rank, limits, and the levels from the root |
//! | `budgets` | budgets with the amounts that jobs have spent and may still spend, for `query` and `stats` |
//! | `stats` | counts of the whole instance |
//! | `snapshot` | all configuration and all counters: `query`, and `associations` in pages |
//! | `check` | a recount of all live jobs |
//! | `priorities` | posted and current priorities of pending jobs, in pages |
//! | `push` | the changes of a push, and the effects of a dry run on jobs |
//!
//! An answer to a guest costs time in proportion to its own size, because indexes find the guest's jobs and
//! associations.

mod budgets;
mod check;
mod heading;
mod holds;
mod job;
mod latest;
mod list;
mod others;
mod priorities;
mod push;
mod queue_rules;
mod release;
mod snapshot;
mod standing;
mod stats;
mod submission;

pub use super::validate::RejectionCause;
pub use budgets::BudgetShown;
pub use check::{Check, Drift, check};
pub use heading::{Heading, Overruled};
pub use holds::{Freeing, HoldNow};
pub use job::explain_priority;
pub use job::{EarlierChange, Explained, ExplainedPriority, Lag, Note, PostedPriority, Refused, Why, why};
pub use list::{JobFilter, JobsPage, ListedJob, jobs_page, list_priority_term_names};
pub use others::Blocker;
pub use priorities::{JobSelection, ListedPriorities, ListedPriority, PrioritiesPage, priorities};
pub use push::{DefaultBankChange, Move, Preview, PushChanges, RejectedJob, RemovedAssociation};
pub use queue_rules::QueueRules;
pub use release::Release;
pub use snapshot::{
    AssociationSnapshot, HeldJob, LimitUse, Page, PageFilter, QueueUsage, SiteSize, Snapshot, UserSnapshot,
    page, snapshot,
};
pub(super) use standing::find_rank;
pub use standing::{
    AssociationFilter, AssociationJobs, AssociationPage, AssociationStanding, LevelShown, LimitUsage, Open,
    RankPosition, Sibling, Standings, standing, standings,
};
pub use stats::{
    BankStats, ChargeStats, JobCounts, LastPush, Load, PushStats, RefreshStats, RequestStats, Stats, stats,
};
pub use submission::{CheckedJob, check_job};

use std::borrow::Cow;

/// Creates a note: a code for programs with a text for people.
pub fn note(code: &'static str, text: impl Into<String>) -> Note {
    Note { code: Cow::Borrowed(code), text: text.into() }
}

/// Formats a span of time with its two largest units, rounded up to seconds.
fn format_span(seconds: f64) -> String {
    let rounded = seconds.max(0.0).ceil().min(1e15) as u64;
    let (days, hours, minutes) = (rounded / 86_400, rounded / 3_600 % 24, rounded / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{rounded} s"),
        (0, 0, minutes) => format!("{minutes} min {} s", rounded % 60),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

/// Rounds a time in seconds up to the smallest unit in which [`format_span`] shows it.
fn round_up(seconds: f64) -> f64 {
    let unit = if seconds >= 86_400.0 {
        3600.0
    } else if seconds >= 3600.0 {
        60.0
    } else {
        1.0
    };
    (seconds / unit).ceil() * unit
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_rounded_duration_is_never_shorter_than_the_exact_duration() {
        for (seconds, text) in
            [(7_056.0, "1 h 58 min"), (7_200.0, "2 h 0 min"), (59.2, "1 min 0 s"), (90_001.0, "1 d 2 h")]
        {
            assert_eq!(super::format_span(super::round_up(seconds)), text);
        }
    }

    #[test]
    fn a_duration_is_shown_in_its_two_largest_units() {
        for (seconds, text) in [
            (-5.0, "0 s"),
            (0.2, "1 s"),
            (59.0, "59 s"),
            (60.0, "1 min 0 s"),
            (150.0, "2 min 30 s"),
            (3_600.0, "1 h 0 min"),
            (7_980.0, "2 h 13 min"),
            (86_400.0, "1 d 0 h"),
            (2.0 * 86_400.0 + 5.0 * 3_600.0 + 59.0, "2 d 5 h"),
        ] {
            assert_eq!(super::format_span(seconds), text);
        }
    }
}
