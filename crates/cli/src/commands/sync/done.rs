// SPDX-License-Identifier: LGPL-3.0-only
//! The results of the steps of `sync` in the database.

use super::fetch::Stored;
use crate::outcome::{Failure, after_storing, failure};
use fairshare_accounting::pipeline::fairshare::Ranked;
use fairshare_accounting::pipeline::{PipelineError, Plan};

/// What the steps in the database came to.
#[derive(Default)]
pub(super) struct Done {
    pub(super) fetched: Option<Stored>,
    pub(super) usage: Option<Plan>,
    pub(super) ranked: Option<Ranked>,
    /// Why usage was not counted, though the rest was done.
    pub(super) uncounted: Option<PipelineError>,
}

impl Done {
    /// An error if usage was not counted. What was fetched counts when the clock is there again.
    pub(super) fn is_counted(&self) -> Result<(), Failure> {
        let Some(error) = &self.uncounted else { return Ok(()) };
        let is_ranked = self.ranked.as_ref().is_some_and(|ranked| !ranked.changes.is_empty());
        Err(if self.fetched.is_some() || is_ranked { after_storing(failure(error)) } else { failure(error) })
    }
}
