// SPDX-License-Identifier: LGPL-3.0-only
//! What a push brings: the tree with usages as of an instant, and the rules.

use std::fmt;

use crate::ids::{BankName, JobId, UserId};
use fairshare::accrual::{HalfLife, MAX_TIME, Mode};
use fairshare::periods::Weights;
use fairshare::{Builder, Options, Policy, RankError, Shares, TreeError};

/// A whole site.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// When the usages were true.
    pub instant: f64,
    /// How they decay.
    pub half_life: HalfLife,
    /// So many seconds: job-list is asked no farther back for jobs that ended.
    pub reset: f64,
    /// What a second of a job counts.
    pub weights: Weights,
    /// What a running job counts.
    pub mode: Mode,
    /// The rule.
    pub policy: Policy,
    /// Its options.
    pub options: Options,
    /// Take usages also where a watermark lies before what was given up.
    pub replaces_all: bool,
    /// All banks; one has no parent.
    pub banks: Vec<Bank>,
    /// All associations.
    pub associations: Vec<Leaf>,
}

/// A bank.
#[derive(Clone, Debug, PartialEq)]
pub struct Bank {
    /// Its name.
    pub name: BankName,
    /// The bank above.
    pub parent: Option<BankName>,
    /// What it was promised among its siblings.
    pub shares: Shares,
    /// Usage of the bank itself, beside what is below it; usually `None`.
    pub usage: Option<f64>,
    /// Whether it is in use: below one that is not nobody is.
    pub active: bool,
}

impl Bank {
    /// Name, parent, and whether it is in use.
    pub(super) fn row(&self) -> (&str, Option<&str>, bool) {
        (self.name.as_str(), self.parent.as_ref().map(|parent| parent.as_str()), self.active)
    }
}

/// An association.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaf {
    /// Whose jobs count here; `None` if no job matches, because the database has no valid user id.
    pub user: Option<UserId>,
    /// The user's name, which identifies the leaf within its bank. Siblings that are equal otherwise stand in the order of their
    /// names.
    pub name: Box<str>,
    /// In which bank.
    pub bank: BankName,
    /// What it was promised among its siblings.
    pub shares: Shares,
    /// Whether it is ranked.
    pub active: bool,
    /// What it has used; `None` where nothing was ever recorded.
    pub usage: Option<f64>,
    /// Which ended jobs are in that usage.
    pub counted: Watermark,
}

/// Says of each ended job of an association whether a usage has it in.
#[derive(Clone, Debug, PartialEq)]
pub struct Watermark {
    end: f64,
    /// Of the jobs that ended at `end`; `None` is all.
    ids: Option<Box<[JobId]>>,
}

impl Default for Watermark {
    fn default() -> Self {
        Watermark { end: f64::NEG_INFINITY, ids: None }
    }
}

impl Bank {
    /// Puts it among the rows of a tree.
    pub(super) fn add_to(&self, rows: &mut Builder) {
        let parent = self.parent.as_ref().map(|parent| parent.as_str());
        if self.active {
            rows.bank(self.name.as_str(), parent, self.shares, self.usage);
        } else {
            rows.inactive_bank(self.name.as_str(), parent, self.shares, self.usage);
        }
    }
}

impl Leaf {
    /// Puts it among the rows of a tree.
    pub(super) fn add_to(&self, rows: &mut Builder) {
        rows.association(&self.name, self.bank.as_str(), self.shares, self.usage, self.active);
    }
}

impl Watermark {
    /// All jobs that ended up to here.
    pub fn through(end: f64) -> Watermark {
        Watermark { end, ids: None }
    }

    /// All jobs that ended before, and of those that ended at that very time these.
    pub fn with_ids(end: f64, ids: &[JobId]) -> Watermark {
        Watermark { end, ids: Some(ids.into()) }
    }

    /// Up to when jobs that ended are in the usage.
    pub fn end(&self) -> f64 {
        self.end
    }

    /// Whether a job that ended then is in the usage.
    pub fn covers(&self, end: f64, id: JobId) -> bool {
        end < self.end || end == self.end && self.ids.as_ref().is_none_or(|ids| ids.contains(&id))
    }

    /// Whether it is none: only what was never set may lie before all time.
    pub(super) fn is_bad(&self) -> bool {
        self.end.is_nan() || self.end > MAX_TIME
    }

    /// Whether everything that ended up to an instant is.
    pub(super) fn covers_all(&self, end: f64) -> bool {
        end == f64::NEG_INFINITY || end < self.end || end == self.end && self.ids.is_none()
    }
}

/// Why a site can't be taken. The one before stays.
#[derive(Clone, Debug, PartialEq)]
pub enum SiteError {
    /// The tree can't be right.
    Tree(TreeError),
    /// The policy can't rank it.
    Rank(RankError),
    /// The instant or a watermark is no time.
    BadTime(String),
    /// A usage is none.
    BadUsage {
        /// The association or bank.
        node: String,
        /// The number.
        usage: String,
    },
    /// A weight is none.
    BadWeight(String),
}

impl fmt::Display for SiteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SiteError::Tree(error) => error.fmt(f),
            SiteError::Rank(error) => error.fmt(f),
            SiteError::BadTime(what) => write!(f, "{what}: seconds since 1970 are expected"),
            SiteError::BadUsage { node, usage } => {
                write!(f, "{node}: a usage can't be {usage}, only a number from 0 to 1e250")
            }
            SiteError::BadWeight(what) => write!(f, "{what}: a weight is a number from 0 to 1e12"),
        }
    }
}

impl std::error::Error for SiteError {}

impl From<TreeError> for SiteError {
    fn from(error: TreeError) -> Self {
        SiteError::Tree(error)
    }
}

impl From<RankError> for SiteError {
    fn from(error: RankError) -> Self {
        SiteError::Rank(error)
    }
}
