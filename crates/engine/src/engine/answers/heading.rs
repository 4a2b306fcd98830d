// SPDX-License-Identifier: LGPL-3.0-only
//! The members with which the answers to `explain`, `standing`, `stats` and `check_job` begin.

use crate::engine::View;
use crate::ids::{JobId, Word};
use serde::{Deserialize, Serialize};

/// The state of the plugin at the time of an answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Heading {
    /// The time of the answer, in seconds since the epoch.
    pub now: f64,
    /// Number of accepted updates.
    pub generation: u64,
    /// Whether fair-share is live.
    pub live: bool,
    /// The number of pushes plus the number of refreshes that changed a fair-share.
    pub live_generation: u64,
    /// The ranking policy of the live tree, if there is a tree.
    pub policy: Option<Word>,
    /// Set while another priority plugin sets the priorities of jobs.
    pub overruled: Option<Overruled>,
}

/// A job whose priority in Flux differs from the posted priority, which shows that another priority plugin
/// sets the priorities of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Overruled {
    /// The job.
    pub job: JobId,
    /// The priority that the plugin posted.
    pub posted: u32,
    /// The priority in Flux.
    pub in_flux: i64,
    /// When the plugin first found that another plugin had changed a priority, in seconds since the epoch.
    pub since: f64,
}

impl Overruled {
    /// Returns a sentence about the job. `job` is its id as text.
    pub fn sentence(&self, job: &str) -> String {
        format!(
            "another priority plugin decides: job {job} has priority {} in Flux, but mf_priority posted {}",
            self.in_flux, self.posted
        )
    }
}

impl Heading {
    /// Returns the fields with which each answer begins. `now` is the time of the answer.
    pub fn new(view: &View<'_>, now: f64, overruled: Option<Overruled>) -> Heading {
        Heading {
            now,
            generation: view.generation(),
            live: view.is_live(),
            live_generation: view.standing.generation(),
            policy: view.ranking_policy(),
            overruled,
        }
    }
}
