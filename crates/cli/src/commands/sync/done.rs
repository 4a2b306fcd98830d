// SPDX-License-Identifier: LGPL-3.0-only
//! The results of sync's steps in the database.

use super::fetch::Stored;
use crate::outcome::{Result, after_storing, failure};
use fairshare_accounting::pipeline::fairshare::Ranked;
use fairshare_accounting::pipeline::{PipelineError, Plan};
use fairshare_accounting::store::NewCharges;

/// Results of the steps that ran.
#[derive(Default)]
pub(super) struct Done {
    pub(super) fetched: Option<Stored>,
    /// The new changes in how jobs are charged.
    pub(super) charges: NewCharges,
    pub(super) usage: Option<Plan>,
    pub(super) ranked: Option<Ranked>,
    /// The reason if usage was not counted, while the other steps ran.
    pub(super) uncounted: Option<PipelineError>,
}

impl Done {
    /// Returns an error if usage was not counted. The fetched records count when the clock has passed the last count.
    pub(super) fn check_counted(&self) -> Result<()> {
        let Some(error) = &self.uncounted else { return Ok(()) };
        let is_ranked = self.ranked.as_ref().is_some_and(|ranked| !ranked.changes.is_empty());
        Err(if self.fetched.is_some() || is_ranked { after_storing(failure(error)) } else { failure(error) })
    }
}
