// SPDX-License-Identifier: LGPL-3.0-only
//! Asks Flux and the plugin how jobs are charged. Sync stores the charge factors of queues and the resources that jobs are charged for,
//! with the time from which on each applies.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::fetch::Fetch;
use crate::outcome::{Result, failure};
use crate::plugin::ask::{ask_flux, site_resources};
use fairshare::charging::{ChargeBy, ChargeChange, is_factor};
use fairshare_accounting::store::{Access, NewCharges, ReportedCharges};
use fairshare_client::Flux;
use fairshare_engine::engine::answers::{ChargeRecord, ChargeStats};

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
    #[serde(rename = "charge-by")]
    charge_by: Option<String>,
}

/// The part of the plugin's `stats` with the charge factors.
#[derive(Default, Deserialize)]
struct Stats {
    charges: Option<ChargeStats>,
}

/// Returns how jobs are charged. Returns `None` if neither the configuration nor the database says so, or if Flux does not report its
/// configuration.
pub(super) fn ask(flux: &Flux, fetch: &Fetch<'_>) -> Result<Option<ReportedCharges>> {
    let Some(Configuration { fairshare: Table { queues, charge_by } }) =
        ask_flux(flux, "config.get", &json!({}))
    else {
        return Ok(None);
    };
    let factor = |(queue, keys): (String, BTreeMap<String, Value>)| {
        let factor = keys.get("charge").and_then(Value::as_f64).filter(|factor| is_factor(*factor))?;
        Some((queue, factor))
    };
    let configured: BTreeMap<String, f64> = queues.into_iter().filter_map(factor).collect();
    let charge_by = charge_by.as_deref().and_then(ChargeBy::parse).unwrap_or_default();
    if configured.is_empty() && charge_by == ChargeBy::Sum && !has_charges(fetch)? {
        return Ok(None);
    }
    // The rule "max" compares a job's resources with the resources of the site. So this rule is returned only
    // together with the resources of the site.
    let totals = site_resources(flux);
    let rule = match charge_by {
        ChargeBy::Sum => Some((ChargeBy::Sum, totals.unwrap_or_default())),
        ChargeBy::Max => totals.map(|totals| (ChargeBy::Max, totals)),
    };
    // If this project's plugin does not answer, a change gets the time of this sync.
    let stats: Stats = ask_flux(flux, "job-manager.mf_priority.stats", &json!({})).unwrap_or_default();
    let to_change = |ChargeRecord { queue, since, factor }: ChargeRecord| ChargeChange {
        queue: queue.into(),
        since,
        factor,
    };
    let ChargeStats { changes, seen_since, .. } = stats.charges.unwrap_or_default();
    let changes = changes.into_iter().map(to_change).collect();
    Ok(Some(ReportedCharges { configured, changes, seen_since, rule }))
}

fn has_charges(fetch: &Fetch<'_>) -> Result<bool> {
    let mut database = fetch.wait.open(fetch.found, Access::Read)?;
    let snapshot = database.snapshot().map_err(failure)?;
    let has = snapshot.has_charges().and_then(|has| Ok(has || snapshot.has_charge_rules()?));
    has.map_err(failure)
}

/// Describes changes for the summary of sync.
pub(super) fn describe(NewCharges { factors, rule }: &NewCharges) -> Vec<String> {
    let factor =
        |ChargeChange { queue, factor, .. }: &ChargeChange| format!("charge of queue {queue} is {factor}");
    let rule = rule.iter().map(|rule| format!("charge-by is {}", rule.charge_by.name()));
    factors.iter().map(factor).chain(rule).collect()
}
