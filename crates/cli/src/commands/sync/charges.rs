// SPDX-License-Identifier: LGPL-3.0-only
//! Asks Flux and the plugin for the charge factors of queues, which sync stores with the time from which on each applies.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::fetch::Fetch;
use crate::outcome::{Failure, failure};
use crate::plugin::ask::ask_flux;
use fairshare::charging::{ChargeChange, is_factor};
use fairshare_accounting::store::{Access, ReportedCharges};
use fairshare_client::Flux;
use fairshare_engine::engine::answers::{ChargeShown, ChargeStats};

/// The part of Flux's configuration with the charge factors.
#[derive(Default, Deserialize)]
struct Configuration {
    #[serde(default)]
    fairshare: Table,
}

#[derive(Default, Deserialize)]
struct Table {
    #[serde(default)]
    queues: BTreeMap<String, BTreeMap<String, Value>>,
}

/// The part of the plugin's `stats` with the charge factors.
#[derive(Default, Deserialize)]
struct Stats {
    charges: Option<ChargeStats>,
}

/// Returns the charge factors. Returns `None` if neither the configuration nor the database has any, or if Flux does not report its
/// configuration.
pub(super) fn ask(flux: &Flux, fetch: &Fetch<'_>) -> Result<Option<ReportedCharges>, Failure> {
    let Some(Configuration { fairshare: Table { queues } }) = ask_flux(flux, "config.get", &json!({})) else {
        return Ok(None);
    };
    let factor = |(queue, keys): (String, BTreeMap<String, Value>)| {
        let factor = keys.get("charge").and_then(Value::as_f64).filter(|factor| is_factor(*factor))?;
        Some((queue, factor))
    };
    let configured: BTreeMap<String, f64> = queues.into_iter().filter_map(factor).collect();
    if configured.is_empty() && !has_charges(fetch)? {
        return Ok(None);
    }
    // Without this project's plugin, the time of a change is the time of this sync.
    let stats: Stats = ask_flux(flux, "job-manager.mf_priority.stats", &json!({})).unwrap_or_default();
    let to_change = |ChargeShown { queue, since, factor }: ChargeShown| ChargeChange {
        queue: queue.into(),
        since,
        factor,
    };
    let changes = stats.charges.unwrap_or_default().changes.into_iter().map(to_change).collect();
    Ok(Some(ReportedCharges { configured, changes }))
}

fn has_charges(fetch: &Fetch<'_>) -> Result<bool, Failure> {
    let mut database = fetch.wait.open(fetch.found, Access::Read)?;
    database.snapshot().and_then(|snapshot| snapshot.has_charges()).map_err(failure)
}

/// Describes changes for the summary of sync.
pub(super) fn describe(changes: &[ChargeChange]) -> Vec<String> {
    changes
        .iter()
        .map(|ChargeChange { queue, factor, .. }| format!("charge of queue {queue} is {factor}"))
        .collect()
}
