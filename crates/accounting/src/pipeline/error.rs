// SPDX-License-Identifier: LGPL-3.0-only
//! Why a run of the pipeline can't be: one sentence each.

use std::path::PathBuf;

use crate::store::StoreError;
use fairshare::TreeError;

/// Why nothing was worked out. The database is as it was.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PipelineError {
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The banks and associations are no tree.
    #[error("{path}: {error}")]
    Tree {
        /// The database.
        path: PathBuf,
        /// What is wrong.
        error: TreeError,
    },
    /// The tree can't be ranked by the policy.
    #[error("{path}: {text}")]
    Rank {
        /// The database.
        path: PathBuf,
        /// What is wrong.
        text: String,
    },
    /// The time is before that of the last run. The text has no difference of times: `--watch` reports a problem again whenever
    /// its text changes.
    #[error(
        "the clock went back: usage was last counted at {was}, which is yet to come; nothing was counted; if it was wrong \
         then, \"flux fairshare recount --write\" counts anew by this one"
    )]
    ClockWentBack {
        /// The time of the last run.
        was: f64,
    },
    /// A time or a length that no period can be made of.
    #[error(
        "no periods can be made of end_half_life_period {end} and priority_decay_half_life {half_life}; nothing was changed"
    )]
    Periods {
        /// The stored end of the half-life period.
        end: f64,
        /// The half-life.
        half_life: f64,
    },
    /// flux-accounting's rule, where flux-accounting's program fails.
    #[error(
        "{user} in bank {bank} has new jobs and no usage periods: flux-accounting's program stores nothing then; nothing was \
         changed"
    )]
    NoBins {
        /// The user.
        user: String,
        /// The bank.
        bank: String,
    },
    /// flux-accounting's rule, where flux-accounting's program fails.
    #[error("there is no root bank: flux-accounting's program stores nothing then; nothing was changed")]
    NoRoot,
}
