// SPDX-License-Identifier: LGPL-3.0-only
//! The answer to `standing`: associations, their limits, and the levels of the tree above them.

use serde::Deserialize;
use serde_json::Value;

/// The answer.
#[derive(Clone, Debug, Deserialize)]
pub(in crate::cli) struct Standing {
    pub(in crate::cli) now: f64,
    #[serde(default)]
    pub(in crate::cli) generation: u64,
    #[serde(default)]
    pub(in crate::cli) live: bool,
    pub(in crate::cli) policy: Option<String>,
    /// What the site lets others see of the tree: own, banks, all.
    pub(in crate::cli) public: Option<String>,
    pub(in crate::cli) half_life: Option<f64>,
    pub(in crate::cli) refreshed: Option<f64>,
    pub(in crate::cli) associations: Vec<Association>,
}

/// An association.
#[derive(Clone, Debug, Deserialize)]
pub(in crate::cli) struct Association {
    pub(in crate::cli) userid: u32,
    pub(in crate::cli) bank: String,
    #[serde(default)]
    pub(in crate::cli) default: bool,
    #[serde(default)]
    pub(in crate::cli) active: bool,
    #[serde(default)]
    pub(in crate::cli) removed: bool,
    pub(in crate::cli) fairshare: Option<f64>,
    pub(in crate::cli) usage: Option<f64>,
    #[serde(default)]
    pub(in crate::cli) queues: Vec<String>,
    #[serde(default)]
    pub(in crate::cli) projects: Vec<String>,
    pub(in crate::cli) default_project: Option<String>,
    #[serde(default)]
    pub(in crate::cli) jobs: Jobs,
    #[serde(default)]
    pub(in crate::cli) limits: Vec<Limit>,
    pub(in crate::cli) rank: Option<Rank>,
    #[serde(default)]
    pub(in crate::cli) levels: Vec<Level>,
}

/// The jobs of an association, counted.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(in crate::cli) struct Jobs {
    #[serde(default)]
    pub(in crate::cli) held: u64,
    #[serde(default)]
    pub(in crate::cli) pending: u64,
    #[serde(default)]
    pub(in crate::cli) running: u64,
    #[serde(default)]
    pub(in crate::cli) nodes: u64,
    #[serde(default)]
    pub(in crate::cli) cores: u64,
}

/// A limit, and how much of it is used.
#[derive(Clone, Debug, Deserialize)]
pub(in crate::cli) struct Limit {
    pub(in crate::cli) limit: String,
    #[serde(default)]
    pub(in crate::cli) scope: String,
    /// Whose it is, where others' jobs count too.
    pub(in crate::cli) name: Option<String>,
    pub(in crate::cli) queue: Option<String>,
    #[serde(default)]
    pub(in crate::cli) measure: String,
    /// In use, reservations excluded. `None` where the caller may not see what others use.
    pub(in crate::cli) used: Option<u64>,
    /// Reserved for released jobs.
    pub(in crate::cli) reserved: Option<u64>,
    /// None is unlimited.
    pub(in crate::cli) limit_is: Option<u64>,
}

/// The place among all associations.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(in crate::cli) struct Rank {
    pub(in crate::cli) place: u64,
    pub(in crate::cli) of: u64,
    pub(in crate::cli) before: u64,
    #[serde(default)]
    pub(in crate::cli) tied: u64,
}

/// A node on the way from the root to the association.
#[derive(Clone, Debug, Deserialize)]
pub(in crate::cli) struct Level {
    pub(in crate::cli) name: String,
    pub(in crate::cli) kind: String,
    /// A number, or "parent".
    #[serde(default)]
    pub(in crate::cli) shares: Value,
    pub(in crate::cli) shares_part: Option<f64>,
    pub(in crate::cli) usage_part: Option<f64>,
    pub(in crate::cli) value: Option<f64>,
    #[serde(default)]
    pub(in crate::cli) infinite: bool,
    #[serde(default)]
    pub(in crate::cli) worst: bool,
    pub(in crate::cli) even_at: Option<f64>,
    #[serde(default)]
    pub(in crate::cli) siblings: Vec<Sibling>,
    #[serde(default)]
    pub(in crate::cli) siblings_total: u64,
}

/// A node beside one on the way.
#[derive(Clone, Debug, Deserialize)]
pub(in crate::cli) struct Sibling {
    pub(in crate::cli) name: String,
    #[serde(default)]
    pub(in crate::cli) kind: String,
    #[serde(default)]
    pub(in crate::cli) shares: Value,
    pub(in crate::cli) shares_part: Option<f64>,
    pub(in crate::cli) usage_part: Option<f64>,
    pub(in crate::cli) value: Option<f64>,
    #[serde(default)]
    pub(in crate::cli) infinite: bool,
}
