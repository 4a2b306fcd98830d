// SPDX-License-Identifier: LGPL-3.0-only
//! The answer to `standing`: associations, their limits, and the levels of the tree above them.

use serde::Deserialize;
use serde_json::Value;

/// The answer.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Standing {
    pub(crate) now: f64,
    #[serde(default)]
    pub(crate) generation: u64,
    #[serde(default)]
    pub(crate) live: bool,
    pub(crate) policy: Option<String>,
    /// What the site lets others see of the tree: own, banks, all.
    pub(crate) public: Option<String>,
    pub(crate) half_life: Option<f64>,
    pub(crate) refreshed: Option<f64>,
    pub(crate) associations: Vec<AssociationStanding>,
}

/// An association.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct AssociationStanding {
    pub(crate) userid: u32,
    pub(crate) bank: String,
    #[serde(default)]
    pub(crate) default: bool,
    #[serde(default)]
    pub(crate) active: bool,
    #[serde(default)]
    pub(crate) removed: bool,
    pub(crate) fairshare: Option<f64>,
    pub(crate) usage: Option<f64>,
    #[serde(default)]
    pub(crate) queues: Vec<String>,
    #[serde(default)]
    pub(crate) projects: Vec<String>,
    pub(crate) default_project: Option<String>,
    #[serde(default)]
    pub(crate) jobs: JobCounts,
    #[serde(default)]
    pub(crate) limits: Vec<Limit>,
    pub(crate) rank: Option<Rank>,
    #[serde(default)]
    pub(crate) levels: Vec<Level>,
}

/// The jobs of an association, counted.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(crate) struct JobCounts {
    #[serde(default)]
    pub(crate) held: u64,
    #[serde(default)]
    pub(crate) pending: u64,
    #[serde(default)]
    pub(crate) running: u64,
    #[serde(default)]
    pub(crate) nodes: u64,
    #[serde(default)]
    pub(crate) cores: u64,
}

/// A limit, and how much of it is used.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Limit {
    pub(crate) limit: String,
    #[serde(default)]
    pub(crate) scope: String,
    /// Whose it is, where others' jobs count too.
    pub(crate) name: Option<String>,
    pub(crate) queue: Option<String>,
    #[serde(default)]
    pub(crate) measure: String,
    /// In use, reservations excluded. `None` where the caller may not see what others use.
    pub(crate) used: Option<u64>,
    /// Reserved for released jobs.
    pub(crate) reserved: Option<u64>,
    /// None is unlimited.
    pub(crate) limit_is: Option<u64>,
}

/// The place among all associations.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Rank {
    pub(crate) place: u64,
    pub(crate) of: u64,
    pub(crate) before: u64,
    #[serde(default)]
    pub(crate) tied: u64,
}

/// A node on the way from the root to the association.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Level {
    pub(crate) name: String,
    pub(crate) kind: String,
    /// A number, or "parent".
    #[serde(default)]
    pub(crate) shares: Value,
    pub(crate) shares_part: Option<f64>,
    pub(crate) usage_part: Option<f64>,
    pub(crate) value: Option<f64>,
    #[serde(default)]
    pub(crate) infinite: bool,
    #[serde(default)]
    pub(crate) worst: bool,
    pub(crate) even_at: Option<f64>,
    #[serde(default)]
    pub(crate) siblings: Vec<Sibling>,
    #[serde(default)]
    pub(crate) siblings_total: u64,
}

/// A node beside one on the way.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Sibling {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) shares: Value,
    pub(crate) shares_part: Option<f64>,
    pub(crate) usage_part: Option<f64>,
    pub(crate) value: Option<f64>,
    #[serde(default)]
    pub(crate) infinite: bool,
}
