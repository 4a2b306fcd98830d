// SPDX-License-Identifier: LGPL-3.0-only
//! The answers to `policy_update` and `policy_commit`: the changes of a push, and for a dry run its effects on jobs.

use crate::accounts::Difference;
use crate::ids::{BankName, JobId, QueueName, UserId};
use serde::{Deserialize, Serialize};

/// The changes of a push.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PushChanges {
    /// The generation of the stored data. Each push increases this number.
    pub generation: u64,
    /// True if the push was only checked, and did not take effect.
    #[serde(rename = "dry_run", default)]
    pub is_dry_run: bool,
    /// The changed records.
    #[serde(flatten)]
    pub difference: Difference,
}

/// The effects of a push on jobs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Preview {
    /// The changed records.
    #[serde(flatten)]
    pub changes: PushChanges,
    /// The number of pending jobs that have a priority.
    pub pending: usize,
    /// The number of pending jobs whose priority would change.
    pub repriced: usize,
    /// The number of pending jobs whose position in their scheduler queue would change.
    pub moved: usize,
    /// The jobs whose positions would change most.
    pub moves: Vec<Move>,
    /// The jobs that the push would end; a long list is cut. The plugin accepted these jobs before it had data, and the
    /// pushed data do not permit them. The push does not end jobs that were submitted before the plugin was loaded.
    pub rejected: Vec<RejectedJob>,
    /// The number of all jobs that the push would end.
    pub rejected_count: usize,
    /// The associations that the push would remove although they have live jobs; a long list is cut.
    pub removed_with_jobs: Vec<RemovedAssociation>,
    /// The number of associations that the push would remove although they have live jobs.
    pub removed_with_jobs_count: usize,
    /// The users whose default bank would change.
    #[serde(default)]
    pub default_banks: Vec<DefaultBankChange>,
}

/// A pending job whose priority or position would change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Move {
    /// The job.
    pub id: JobId,
    /// The user that submitted the job.
    #[serde(rename = "userid")]
    pub user: UserId,
    /// The bank of the job's association.
    pub bank: Option<BankName>,
    /// The queue that the jobspec names.
    pub queue: Option<QueueName>,
    /// The job's priority now, and the job's priority after the push.
    pub priority: [u32; 2],
    /// The job's position in its scheduler queue now, and the job's position after the push; the first is 1.
    pub place: [usize; 2],
}

/// A job that the push would end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RejectedJob {
    /// The job.
    pub id: JobId,
    /// The user that submitted the job.
    #[serde(rename = "userid")]
    pub user: UserId,
    /// The reason, for people.
    pub reason: String,
}

/// An association with live jobs that would be removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RemovedAssociation {
    /// The user.
    #[serde(rename = "userid")]
    pub user: UserId,
    /// The bank.
    pub bank: BankName,
    /// The number of live jobs that the association has.
    pub jobs: u64,
}

/// A user whose default bank would change. Such a change is not counted in [`Difference`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DefaultBankChange {
    /// The user.
    #[serde(rename = "userid")]
    pub user: UserId,
    /// The default bank now, and after the push.
    pub banks: [BankName; 2],
}
