// SPDX-License-Identifier: LGPL-3.0-only
//! Errors of the pipeline.

use std::path::PathBuf;

use crate::store::StoreError;
use fairshare::TreeError;

/// The result of a function of the pipeline.
pub(super) type Result<T, E = PipelineError> = std::result::Result<T, E>;

/// Reason why a run computed nothing. The database is unchanged.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PipelineError {
    /// The database can't be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The banks and associations do not form a tree.
    #[error("{path}: {error}")]
    Tree {
        /// Path of the database.
        path: PathBuf,
        /// Reason.
        error: TreeError,
    },
    /// The tree can't be ranked by the policy.
    #[error("{path}: {text}")]
    Rank {
        /// Path of the database.
        path: PathBuf,
        /// Reason.
        text: String,
    },
    /// The clock is earlier than at the last run. The text contains no time difference, because `--watch` reports a
    /// problem again if its text changes.
    #[error(
        "the clock went back: it is earlier than the last run at {was}, so no usage was counted; if the \
         clock was wrong at that run, recount all usage with \"flux fairshare recount --write\""
    )]
    ClockWentBack {
        /// Time of the last run.
        was: f64,
    },
    /// The end and the half-life in the database do not define valid half-life periods.
    #[error(
        "end_half_life_period {end} and priority_decay_half_life {half_life} define no usage periods; nothing was changed"
    )]
    Periods {
        /// The stored end of the half-life period.
        end: f64,
        /// Half-life in seconds.
        half_life: f64,
    },
    /// With `Rule::FluxAccounting`: an association has new jobs, but the database has no usage periods for the
    /// association. flux-accounting's own program fails in this case too.
    #[error(
        "{user} in bank {bank} has new jobs and no usage periods, so flux-accounting would store nothing; nothing was changed"
    )]
    NoBins {
        /// Name of the user.
        user: String,
        /// Name of the bank.
        bank: String,
    },
    /// The database has no such association.
    #[error("there is no association {user}/{bank} in the database")]
    NoAssociation {
        /// Name of the user.
        user: String,
        /// Name of the bank.
        bank: String,
    },
    /// Under the rule of flux-accounting: there is no root bank. flux-accounting's program fails in this
    /// case.
    #[error("there is no root bank, so flux-accounting would store nothing; nothing was changed")]
    NoRoot,
}
