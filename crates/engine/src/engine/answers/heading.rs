// SPDX-License-Identifier: LGPL-3.0-only
//! The members at the start of `explain`, `standing`, `stats` and `check_job`, and the rules that the table
//! `[fairshare.queues.NAME]` sets for the limits and priorities of jobs in a queue.

use crate::accounts::Scope;
use crate::engine::View;
use crate::ids::{JobId, QueueName, Word};
use fairshare::insert_all;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

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
    /// When the first such job was found, in seconds since the epoch.
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
    /// Returns the heading of an answer at `now`.
    pub fn new(view: &View<'_>, now: f64, overruled: Option<Overruled>) -> Heading {
        let live = view.live_outline();
        Heading {
            now,
            generation: view.generation(),
            live: live.is_on,
            live_generation: live.generation,
            policy: live.policy(),
            overruled,
        }
    }
}

/// The rules of a queue. A virtual queue has the rules of its parent too.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct QueueRules {
    /// The scopes whose limits over all queues neither count nor hold the jobs: `association`, `bank`, `user`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exempt: Vec<Word>,
    /// The largest priority of the jobs, except at urgency 31.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_priority: Option<u32>,
}

impl View<'_> {
    /// Returns the rules of `queue`.
    pub(super) fn queue_rules(&self, queue: Option<&QueueName>) -> QueueRules {
        let name = queue.map(QueueName::as_str);
        let is_exempt = |scope| self.book.site_limits().exemptions(name).any(|exempt| exempt == scope);
        let exempt = Scope::EXEMPTIONS.into_iter().filter(|(_, scope)| is_exempt(*scope));
        QueueRules {
            exempt: exempt.map(|(name, _)| Cow::Borrowed(name)).collect(),
            max_priority: self.max_priority(queue),
        }
    }

    /// Returns the rules of each queue in `queues` that has rules.
    pub(super) fn rules_of_queues<'q>(
        &self,
        queues: impl Iterator<Item = &'q QueueName>,
    ) -> BTreeMap<QueueName, QueueRules> {
        let rules = queues.map(|queue| (queue.clone(), self.queue_rules(Some(queue))));
        insert_all(rules.filter(|(_, rules)| *rules != QueueRules::default()))
    }
}
