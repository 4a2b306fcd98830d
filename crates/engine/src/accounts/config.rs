// SPDX-License-Identifier: LGPL-3.0-only
//! Site-wide switches.

use serde::{Deserialize, Serialize};

/// The priority of a job whose score is 0 or less (flaw 18 of docs/design/flaws.md).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ZeroScore {
    /// Priority 0: the job is held, as in flux-accounting.
    #[default]
    Hold,
    /// Priority 1: the job is scheduled last.
    Floor,
}

/// Site-wide switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    /// True if the plugin rejects jobs in queues that were not pushed.
    pub deny_unknown_queues: bool,
    /// See [`ZeroScore`].
    pub zero_score: ZeroScore,
}

impl Config {
    /// Returns the switches of `self`, with each switch that `patch` contains replaced.
    #[must_use]
    pub fn patched(self, patch: ConfigPatch) -> Config {
        Config {
            deny_unknown_queues: patch.deny_unknown_queues.unwrap_or(self.deny_unknown_queues),
            zero_score: patch.zero_score.unwrap_or(self.zero_score),
        }
    }
}

/// A change of the switches. A switch that is `None` keeps its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConfigPatch {
    /// See [`Config::deny_unknown_queues`].
    pub deny_unknown_queues: Option<bool>,
    /// See [`ZeroScore`].
    pub zero_score: Option<ZeroScore>,
}

impl ConfigPatch {
    /// Combines two changes. If both set the same switch, the value in `later` takes precedence.
    #[must_use]
    pub fn then(self, later: ConfigPatch) -> ConfigPatch {
        ConfigPatch {
            deny_unknown_queues: later.deny_unknown_queues.or(self.deny_unknown_queues),
            zero_score: later.zero_score.or(self.zero_score),
        }
    }
}
