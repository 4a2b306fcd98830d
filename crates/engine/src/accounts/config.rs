// SPDX-License-Identifier: LGPL-3.0-only
//! Site-wide switches.

/// What a score of 0 or less becomes (flaw 18 of the specification).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ZeroScore {
    /// Priority 0: the job is held, as flux-accounting does.
    #[default]
    Hold,
    /// Priority 1: the job is last, but is scheduled.
    Floor,
}

/// Site-wide switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Reject jobs that name a queue which was not pushed.
    pub deny_unknown_queues: bool,
    /// See [`ZeroScore`].
    pub zero_score: ZeroScore,
}

impl Config {
    /// With the switches that `patch` mentions, and its own for the others.
    #[must_use]
    pub fn patched(self, patch: ConfigPatch) -> Config {
        Config {
            deny_unknown_queues: patch.deny_unknown_queues.unwrap_or(self.deny_unknown_queues),
            zero_score: patch.zero_score.unwrap_or(self.zero_score),
        }
    }
}

/// Some of the switches. A push takes back nothing that it does not mention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConfigPatch {
    /// See [`Config::deny_unknown_queues`].
    pub deny_unknown_queues: Option<bool>,
    /// See [`ZeroScore`].
    pub zero_score: Option<ZeroScore>,
}

impl ConfigPatch {
    /// What both mention; where both speak of a switch, the later one counts.
    #[must_use]
    pub fn then(self, later: ConfigPatch) -> ConfigPatch {
        ConfigPatch {
            deny_unknown_queues: later.deny_unknown_queues.or(self.deny_unknown_queues),
            zero_score: later.zero_score.or(self.zero_score),
        }
    }
}

impl From<Config> for ConfigPatch {
    fn from(config: Config) -> Self {
        ConfigPatch {
            deny_unknown_queues: Some(config.deny_unknown_queues),
            zero_score: Some(config.zero_score),
        }
    }
}
