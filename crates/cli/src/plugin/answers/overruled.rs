// SPDX-License-Identifier: LGPL-3.0-only
//! A job whose priority another priority plugin has set.

use serde::{Deserialize, Serialize};

/// A job that has another priority in Flux than the plugin gave it: another priority plugin decides.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Overruled {
    pub(crate) job: u64,
    pub(crate) posted: u64,
    pub(crate) in_flux: u64,
    /// When the first such job was found, in seconds since the epoch.
    pub(crate) since: f64,
}

impl Overruled {
    /// The sentence for a person.
    pub(crate) fn sentence(&self, job: &str) -> String {
        format!(
            "another priority plugin decides: job {job} has priority {} in Flux, mf_priority gave it {}",
            self.in_flux, self.posted
        )
    }
}
