// SPDX-License-Identifier: LGPL-3.0-only
//! Why a job is where it is, and where an association stands: answers for people, as values. Nothing is changed here, and
//! nothing is worked out by other rules than those by which it happens.
//!
//! `job` gathers what there is to say of one job; `holds` says which limits hold it now and who frees them, `release` when they
//! let it go, `latest` when at the latest; `others` what else keeps it, and what would help. `list` is about many jobs in short,
//! `standing` about associations, `stats` about the whole instance.
//!
//! What one user may ask costs what he is told: his jobs and his associations are found by indexes.

mod holds;
mod job;
mod latest;
mod list;
mod others;
mod release;
mod standing;
mod stats;

pub use holds::{Freeing, HoldNow};
pub use job::{Lag, Note, Why};
pub use list::{JobsPage, JobsWanted, ListedJob};
pub use others::Keeper;
pub use release::Release;
pub use standing::{
    AssociationStanding, LevelShown, LimitShown, Open, RankShown, Sibling, StandingsPage, StandingsWanted,
};
pub use stats::{BankStats, JobState, JobSums, Stats};

/// A code for programs and a text for people.
pub(super) fn note(code: &'static str, text: impl Into<String>) -> Note {
    Note { code, text: text.into() }
}

/// A span of time, as people say it.
fn span(seconds: f64) -> String {
    let whole = seconds.max(0.0).ceil().min(1e15) as u64;
    let (days, hours, minutes) = (whole / 86_400, whole / 3_600 % 24, whole / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{whole} s"),
        (0, 0, minutes) => format!("{minutes} min {} s", whole % 60),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn spans_as_people_say_them() {
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
            assert_eq!(super::span(seconds), text);
        }
    }
}
