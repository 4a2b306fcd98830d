// SPDX-License-Identifier: LGPL-3.0-only
//! What the plugin answers to `explain`, `standing`, `jobs` and `stats`, as far as it is shown. Keys that another version
//! of the plugin has besides are passed over.

mod standing;
mod stats;

use serde::{Deserialize, Serialize};

pub(super) use standing::{Association, Level, Limit, Sibling, Standing};
pub(super) use stats::{Load, Stats};

/// The answer to `explain`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Explained {
    pub(super) now: f64,
    #[serde(default)]
    pub(super) live: bool,
    pub(super) policy: Option<String>,
    pub(super) jobs: Vec<Job>,
    #[serde(default)]
    pub(super) refused: Vec<Refused>,
}

/// A job that has another priority in Flux than the plugin gave it: another priority plugin decides.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(super) struct Overruled {
    pub(super) job: u64,
    pub(super) posted: u64,
    pub(super) in_flux: u64,
    /// When the first such job was found, in seconds since the epoch.
    pub(super) since: f64,
}

impl Overruled {
    /// The sentence for a person.
    pub(super) fn sentence(&self, job: &str) -> String {
        format!(
            "another priority plugin decides: job {job} has priority {} in Flux, mf_priority gave it {}",
            self.in_flux, self.posted
        )
    }
}

/// A job that is not explained.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Refused {
    pub(super) id: u64,
    pub(super) text: String,
}

/// A job explained.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Job {
    pub(super) id: u64,
    pub(super) userid: u32,
    pub(super) bank: Option<String>,
    pub(super) queue: Option<String>,
    /// The queue that this one is a virtual queue of.
    #[serde(default)]
    pub(super) parent_queue: Option<String>,
    /// Whether the scheduler keeps the jobs of all queues in one list. `None`: unknown.
    #[serde(default)]
    pub(super) one_queue_list: Option<bool>,
    pub(super) project: Option<String>,
    #[serde(default)]
    pub(super) urgency: i64,
    pub(super) state: String,
    pub(super) submitted: Option<f64>,
    #[serde(default)]
    pub(super) nodes: u64,
    #[serde(default)]
    pub(super) cores: u64,
    pub(super) duration: Option<f64>,
    pub(super) posted: Option<Price>,
    pub(super) exact: Option<Price>,
    pub(super) lag: Option<Lag>,
    pub(super) turn: Option<Turn>,
    #[serde(default)]
    pub(super) held: bool,
    #[serde(default)]
    pub(super) carries: Vec<String>,
    #[serde(default)]
    pub(super) holds: Vec<Hold>,
    pub(super) latest: Option<f64>,
    pub(super) latest_reason: Option<Reason>,
    pub(super) if_started: Option<f64>,
    pub(super) line: Option<Place>,
    #[serde(default)]
    pub(super) others: Vec<Other>,
    #[serde(default)]
    pub(super) others_total: u64,
    #[serde(default)]
    pub(super) helps: Vec<Reason>,
}

/// How a priority came about.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Price {
    pub(super) priority: u64,
    pub(super) outcome: String,
    pub(super) sum: Option<f64>,
    pub(super) rounded: Option<f64>,
    pub(super) terms: Vec<Term>,
    pub(super) when: Option<f64>,
    pub(super) reason: Option<Reason>,
    /// Why the priority before was posted, where usage has moved it since.
    pub(super) before: Option<Before>,
}

/// Why a former priority was posted.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Before {
    pub(super) when: f64,
    pub(super) text: String,
}

/// A factor with its weight and their product.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Term {
    pub(super) name: String,
    pub(super) value: f64,
    pub(super) weight: i64,
    pub(super) product: f64,
}

/// A reason, for programs and for people.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Reason {
    pub(super) text: String,
}

/// By how much the exact price is not what was posted, and why.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Lag {
    pub(super) by: i64,
    pub(super) text: String,
}

/// Whose turn the job is among those of its association.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Turn {
    pub(super) number: u64,
    pub(super) fairshare: f64,
}

/// Where in a line.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Place {
    pub(super) place: u64,
    pub(super) of: u64,
}

/// A limit that holds a job now.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Hold {
    pub(super) limit: String,
    #[serde(default)]
    pub(super) measure: String,
    pub(super) text: String,
    #[serde(default)]
    pub(super) frees: Vec<Freeing>,
    #[serde(default)]
    pub(super) frees_total: u64,
}

/// A job whose end makes room.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Freeing {
    pub(super) id: u64,
    #[serde(default)]
    pub(super) state: String,
    #[serde(default)]
    pub(super) amount: u64,
    pub(super) by: Option<f64>,
}

/// Something else that keeps a job.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Other {
    pub(super) cause: String,
    pub(super) text: String,
    pub(super) at: Option<f64>,
}

/// A page of `jobs`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct JobsPage {
    pub(super) now: f64,
    #[serde(default)]
    pub(super) generation: u64,
    #[serde(default)]
    pub(super) live: bool,
    pub(super) terms: Vec<String>,
    #[serde(default)]
    pub(super) weighings: Vec<Vec<i64>>,
    pub(super) jobs: Vec<Row>,
    pub(super) next: Option<u64>,
    /// Of an empty page: whether the plugin knows the bank that was asked for.
    #[serde(default = "yes")]
    pub(super) has_bank: bool,
    /// Of an empty page: whether the plugin knows the queue that was asked for.
    #[serde(default = "yes")]
    pub(super) has_queue: bool,
}

fn yes() -> bool {
    true
}

/// A pending or held job.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Row {
    pub(super) id: u64,
    pub(super) userid: u32,
    pub(super) bank: Option<String>,
    pub(super) queue: Option<String>,
    pub(super) state: String,
    pub(super) urgency: Option<i64>,
    #[serde(default)]
    pub(super) nodes: u64,
    #[serde(default)]
    pub(super) cores: u64,
    pub(super) submitted: Option<f64>,
    pub(super) priority: Option<u64>,
    pub(super) exact: Option<u64>,
    pub(super) outcome: Option<String>,
    pub(super) weighing: Option<usize>,
    #[serde(default)]
    pub(super) values: Vec<f64>,
    pub(super) sum: Option<f64>,
    pub(super) when: Option<f64>,
    #[serde(default)]
    pub(super) holds: Vec<String>,
    #[serde(default)]
    pub(super) kept: bool,
}
