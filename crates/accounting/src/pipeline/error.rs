// SPDX-License-Identifier: LGPL-3.0-only
//! Why a run of the pipeline can't be: one sentence each.

use std::fmt;
use std::path::PathBuf;

use crate::store::StoreError;
use fairshare::TreeError;

/// Why nothing was worked out. The database is as it was.
#[derive(Clone, Debug, PartialEq)]
pub enum PipelineError {
    /// The database.
    Store(StoreError),
    /// The banks and associations are no tree.
    Tree {
        /// The database.
        path: PathBuf,
        /// What is wrong.
        error: TreeError,
    },
    /// The tree can't be ranked by the policy.
    Rank {
        /// The database.
        path: PathBuf,
        /// What is wrong.
        text: String,
    },
    /// The time is before that of the last run.
    ClockWentBack {
        /// The time of the last run.
        was: f64,
    },
    /// A time or a length that no period can be made of.
    Periods {
        /// The stored end of the half-life period.
        end: f64,
        /// The half-life.
        half_life: f64,
    },
    /// flux-accounting's rule, where flux-accounting's program fails.
    NoBins {
        /// The user.
        user: String,
        /// The bank.
        bank: String,
    },
    /// flux-accounting's rule, where flux-accounting's program fails.
    NoRoot,
}

impl From<StoreError> for PipelineError {
    fn from(error: StoreError) -> Self {
        PipelineError::Store(error)
    }
}

impl fmt::Display for PipelineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PipelineError::Store(error) => error.fmt(f),
            PipelineError::Tree { path, error } => write!(f, "{}: {error}", path.display()),
            PipelineError::Rank { path, text } => write!(f, "{}: {text}", path.display()),
            // No difference in the text: `--watch` tells a trouble again whenever its text changes.
            PipelineError::ClockWentBack { was } => write!(
                f,
                "the clock went back: usage was last counted at {was}, which is yet to come; \
                 nothing was counted; if it was wrong then, \"flux fairshare recount --write\" counts anew by this one"
            ),
            PipelineError::Periods { end, half_life } => write!(
                f,
                "no periods can be made of end_half_life_period {end} and priority_decay_half_life {half_life}; \
                 nothing was changed"
            ),
            PipelineError::NoBins { user, bank } => write!(
                f,
                "{user} in bank {bank} has new jobs and no usage periods: flux-accounting's program stores nothing then; \
                 nothing was changed"
            ),
            PipelineError::NoRoot => {
                write!(
                    f,
                    "there is no root bank: flux-accounting's program stores nothing then; nothing was changed"
                )
            }
        }
    }
}

impl std::error::Error for PipelineError {}
