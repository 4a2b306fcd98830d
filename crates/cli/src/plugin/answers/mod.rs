// SPDX-License-Identifier: LGPL-3.0-only
//! What the plugin answers to `explain`, `standing`, `jobs` and `stats`, as far as it is shown. Keys that another version
//! of the plugin has besides are passed over.

mod overruled;
mod standing;
mod stats;

use serde::Deserialize;

pub(crate) use overruled::Overruled;
pub(crate) use standing::{AssociationStanding, Level, Limit, Sibling, Standing};
pub(crate) use stats::{Load, Stats};

/// The answer to `explain`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Explained {
    pub(crate) now: f64,
    #[serde(default)]
    pub(crate) live: bool,
    pub(crate) policy: Option<String>,
    pub(crate) jobs: Vec<Job>,
    #[serde(default)]
    pub(crate) refused: Vec<Refused>,
}

/// A job that is not explained.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Refused {
    pub(crate) id: u64,
    pub(crate) text: String,
}

/// A job explained.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Job {
    pub(crate) id: u64,
    pub(crate) userid: u32,
    pub(crate) bank: Option<String>,
    pub(crate) queue: Option<String>,
    /// The queue that this one is a virtual queue of.
    #[serde(default)]
    pub(crate) parent_queue: Option<String>,
    /// Whether the scheduler keeps the jobs of all queues in one list. `None`: unknown.
    #[serde(default)]
    pub(crate) one_queue_list: Option<bool>,
    pub(crate) project: Option<String>,
    #[serde(default)]
    pub(crate) urgency: i64,
    pub(crate) state: String,
    pub(crate) submitted: Option<f64>,
    #[serde(default)]
    pub(crate) nodes: u64,
    #[serde(default)]
    pub(crate) cores: u64,
    pub(crate) duration: Option<f64>,
    pub(crate) posted: Option<Price>,
    pub(crate) exact: Option<Price>,
    pub(crate) lag: Option<Lag>,
    pub(crate) turn: Option<Turn>,
    #[serde(default)]
    pub(crate) held: bool,
    #[serde(default)]
    pub(crate) carries: Vec<String>,
    #[serde(default)]
    pub(crate) holds: Vec<Hold>,
    pub(crate) latest: Option<f64>,
    pub(crate) latest_reason: Option<Reason>,
    pub(crate) if_started: Option<f64>,
    pub(crate) line: Option<Place>,
    #[serde(default)]
    pub(crate) others: Vec<Other>,
    #[serde(default)]
    pub(crate) others_total: u64,
    #[serde(default)]
    pub(crate) helps: Vec<Reason>,
}

/// How a priority came about.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Price {
    pub(crate) priority: u64,
    pub(crate) outcome: String,
    pub(crate) sum: Option<f64>,
    pub(crate) rounded: Option<f64>,
    pub(crate) terms: Vec<Term>,
    pub(crate) when: Option<f64>,
    pub(crate) reason: Option<Reason>,
    /// Why the priority before was posted, where usage has moved it since.
    pub(crate) before: Option<Before>,
}

/// Why a former priority was posted.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Before {
    pub(crate) when: f64,
    pub(crate) text: String,
}

/// A factor with its weight and their product.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Term {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) weight: i64,
    pub(crate) product: f64,
}

/// A reason, for programs and for people.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Reason {
    pub(crate) text: String,
}

/// By how much the exact price is not what was posted, and why.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Lag {
    pub(crate) by: i64,
    pub(crate) text: String,
}

/// Whose turn the job is among those of its association.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Turn {
    pub(crate) number: u64,
    pub(crate) fairshare: f64,
}

/// Where in a line.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Place {
    pub(crate) place: u64,
    pub(crate) of: u64,
}

/// A limit that holds a job now.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Hold {
    pub(crate) limit: String,
    #[serde(default)]
    pub(crate) measure: String,
    pub(crate) text: String,
    #[serde(default)]
    pub(crate) frees: Vec<Freeing>,
    #[serde(default)]
    pub(crate) frees_total: u64,
}

/// A job whose end makes room.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Freeing {
    pub(crate) id: u64,
    #[serde(default)]
    pub(crate) state: String,
    #[serde(default)]
    pub(crate) amount: u64,
    pub(crate) by: Option<f64>,
}

/// Something else that keeps a job.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Other {
    pub(crate) cause: String,
    pub(crate) text: String,
    pub(crate) at: Option<f64>,
}

/// A page of `jobs`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct JobsPage {
    pub(crate) now: f64,
    #[serde(default)]
    pub(crate) generation: u64,
    #[serde(default)]
    pub(crate) live: bool,
    pub(crate) terms: Vec<String>,
    #[serde(default)]
    pub(crate) weighings: Vec<Vec<i64>>,
    pub(crate) jobs: Vec<Row>,
    pub(crate) next: Option<u64>,
    /// Of an empty page: whether the plugin knows the bank that was asked for.
    #[serde(default = "yes")]
    pub(crate) has_bank: bool,
    /// Of an empty page: whether the plugin knows the queue that was asked for.
    #[serde(default = "yes")]
    pub(crate) has_queue: bool,
}

fn yes() -> bool {
    true
}

/// A pending or held job.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Row {
    pub(crate) id: u64,
    pub(crate) userid: u32,
    pub(crate) bank: Option<String>,
    pub(crate) queue: Option<String>,
    pub(crate) state: String,
    pub(crate) urgency: Option<i64>,
    #[serde(default)]
    pub(crate) nodes: u64,
    #[serde(default)]
    pub(crate) cores: u64,
    pub(crate) submitted: Option<f64>,
    pub(crate) priority: Option<u64>,
    pub(crate) exact: Option<u64>,
    pub(crate) outcome: Option<String>,
    pub(crate) weighing: Option<usize>,
    #[serde(default)]
    pub(crate) values: Vec<f64>,
    pub(crate) sum: Option<f64>,
    pub(crate) when: Option<f64>,
    #[serde(default)]
    pub(crate) holds: Vec<String>,
    #[serde(default)]
    pub(crate) kept: bool,
}
