// SPDX-License-Identifier: LGPL-3.0-only
//! The banks and leaves of a push, and the rules by which their tree is ranked.

use crate::ids::{BankName, UserId};
use fairshare::accrual::{HalfLife, MAX_TIME};
use fairshare::periods::Weights;
use fairshare::{Builder, Options, Policy, Shares};
use serde::{Deserialize, Serialize};

/// flux-accounting's default usage reset period, in seconds.
pub const RESET: f64 = 2_419_200.0;

/// The rules of a push: how the usage of its tree is counted, decayed and ranked.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The time of the usages, in seconds since the epoch.
    pub instant: f64,
    /// How usage decays.
    pub half_life: HalfLife,
    /// flux-accounting's usage reset period, in seconds. The engine reads from job-list only jobs that ended
    /// within this period.
    pub reset: f64,
    /// The usage per second of a node, a core and a GPU.
    pub weights: Weights,
    /// The ranking policy.
    pub policy: Policy,
    /// The options of the policy.
    pub options: Options,
    /// True if pushed usages always replace the usage of evicted jobs. If false, pushed usages do this only if they
    /// include all evicted jobs.
    pub replaces_all: bool,
}

/// A bank of the tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bank {
    /// The name, which is unique in the tree.
    #[serde(rename = "bank")]
    pub name: BankName,
    /// The parent bank; `None` for the root.
    pub parent: Option<BankName>,
    /// The shares of the bank, relative to the other children of its parent.
    pub shares: u64,
    /// False if the bank is inactive. All banks and associations below an inactive bank are inactive too.
    pub active: bool,
}

/// An association of the tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaf {
    /// The user id of the jobs that count here; `None` if the database has no valid user id, so that no job matches.
    pub user: Option<UserId>,
    /// The user's name. The name and the bank identify the leaf. Siblings that are equal otherwise are sorted by name.
    pub name: Box<str>,
    /// The parent of the leaf.
    pub bank: BankName,
    /// The shares of the association, relative to the other children of its bank.
    pub shares: u64,
    /// False if the association is inactive. Such an association is not ranked.
    pub active: bool,
    /// The association usage at the time of the push, in seconds times weight; `None` if none was ever recorded. A negative usage offsets
    /// the usage of later jobs; the total is at least 0.
    pub usage: Option<f64>,
    /// Determines which ended jobs are included in `usage`.
    pub counted: Watermark,
}

/// The watermark of a usage: it determines which ended jobs the usage includes.
#[derive(Clone, Debug, PartialEq)]
pub struct Watermark {
    end: f64,
}

impl Default for Watermark {
    fn default() -> Self {
        Watermark { end: f64::NEG_INFINITY }
    }
}

impl Bank {
    /// Returns the name, the parent, and whether the bank is active.
    pub(super) fn row(&self) -> (&str, Option<&str>, bool) {
        (self.name.as_str(), self.parent.as_deref(), self.active)
    }

    /// Adds the bank as a row to the builder of the tree.
    pub(super) fn add_row(&self, rows: &mut Builder) {
        let parent = self.parent.as_deref();
        rows.bank(self.name.as_str(), parent, Shares::Count(self.shares), None, self.active);
    }
}

impl Leaf {
    /// Adds the leaf to the rows of a tree.
    pub(super) fn add_row(&self, rows: &mut Builder) {
        let usage = self.usage.map(|usage| usage.max(0.0));
        rows.association(&self.name, self.bank.as_str(), Shares::Count(self.shares), usage, self.active);
    }
}

impl Watermark {
    /// Returns the watermark of a usage that includes all jobs that ended at or before `end`, in seconds since the epoch.
    pub fn through(end: f64) -> Watermark {
        Watermark { end }
    }

    /// Returns the time up to which ended jobs are included.
    pub fn end(&self) -> f64 {
        self.end
    }

    /// Returns true if the usage includes the jobs that ended at `end`, and all that ended earlier.
    pub fn covers(&self, end: f64) -> bool {
        end <= self.end
    }

    /// Returns true if the watermark is not a valid time. Minus infinity is valid, and means that the usage includes no job.
    pub(super) fn is_invalid(&self) -> bool {
        self.end.is_nan() || self.end > MAX_TIME
    }
}
