// SPDX-License-Identifier: LGPL-3.0-only
//! Members that several JSON documents share: the ranking policy with its options, and the source of the numbers.
//! Also compares stored fair-shares with a ranking.

use std::collections::BTreeMap;

use serde::Serialize;

use super::input::{Loaded, Source};
use fairshare::{NodeId, Options, Policy, Ranking, Tree};
use fairshare_accounting::store::StoredAssociation;

/// The ranking policy and its options.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct PolicyFacts {
    /// The name of the ranking policy.
    policy: &'static str,
    /// The options of the ranking policy.
    options: OptionValues,
}

impl PolicyFacts {
    pub(crate) fn new(policy: Policy, options: &Options) -> PolicyFacts {
        PolicyFacts { policy: policy.name(), options: option_values(options) }
    }
}

/// Options by name.
pub(crate) type OptionValues = BTreeMap<&'static str, OptionValue>;

/// The value of an option.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(crate) enum OptionValue {
    Number(f64),
    Text(String),
}

/// Returns the options by name.
pub(crate) fn option_values(options: &Options) -> OptionValues {
    let value = |text: String| text.parse().map_or_else(|_| OptionValue::Text(text), OptionValue::Number);
    options.settings().into_iter().map(|(name, text)| (name, value(text))).collect()
}

/// The source of the numbers in a document, and messages about its input.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct SourceFacts {
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<UsageSource>,
    /// Messages about records of the input that are not in the tree.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    notes: Vec<String>,
}

/// The source of usages.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct UsageSource {
    /// `plugin` or `database`.
    from: &'static str,
    /// The time of the usages in seconds since the epoch.
    as_of: Option<f64>,
}

impl SourceFacts {
    pub(crate) fn new(loaded: &Loaded) -> SourceFacts {
        let source = |from, as_of| UsageSource { from, as_of };
        SourceFacts {
            source: match loaded.source {
                Source::Document => None,
                Source::Plugin { now } => Some(source("plugin", Some(now))),
                Source::Database { counted } => Some(source("database", counted)),
            },
            notes: loaded.notes().to_vec(),
        }
    }
}

/// flux-accounting stores six decimals, so a smaller difference comes from rounding.
pub(crate) const ROUNDING: f64 = 5e-7;

/// Returns the number of stored fair-shares that differ from the ranking by more than [`ROUNDING`].
pub(crate) fn count_stale(tree: &Tree, ranking: &Ranking, stored: &[StoredAssociation]) -> usize {
    let differs = |leaf: &NodeId| {
        let stored = stored.get(tree.find_input_index(*leaf)).and_then(|stored| stored.fairshare);
        ranking
            .fairshare(*leaf)
            .is_some_and(|own| stored.is_none_or(|stored| (own - stored).abs() > ROUNDING))
    };
    tree.leaves().filter(differs).count()
}
