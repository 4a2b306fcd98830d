// SPDX-License-Identifier: LGPL-3.0-only
//! Asks Flux and the plugin how jobs are charged. Sync stores the charge factors of queues and the resources that jobs are charged for,
//! with the time from which on each applies.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::fetch::Fetch;
use crate::outcome::{Failure, failure};
use crate::plugin::ask::{ask_flux, site_resources};
use fairshare::charging::{ChargeBy, ChargeChange, is_factor};
use fairshare_accounting::store::{Access, NewCharges, ReportedCharges};
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
    #[serde(rename = "charge-by")]
    charge_by: Option<String>,
}

/// The part of the plugin's `stats` with the charge factors.
#[derive(Default, Deserialize)]
struct Stats {
    charges: Option<ChargeStats>,
}

/// Returns how jobs are charged. `has_charges` is true if the database has charges. Returns `None` if neither the configuration nor the
/// database has them, or if Flux does not report its configuration.
pub(super) fn ask(flux: &Flux, has_charges: bool) -> Option<ReportedCharges> {
    let Configuration { fairshare: Table { queues, charge_by } } = ask_flux(flux, "config.get", &json!({}))?;
    let factor = |(queue, keys): (String, BTreeMap<String, Value>)| {
        let factor = keys.get("charge").and_then(Value::as_f64).filter(|factor| is_factor(*factor))?;
        Some((queue, factor))
    };
    let configured: BTreeMap<String, f64> = queues.into_iter().filter_map(factor).collect();
    let charge_by = charge_by.as_deref().and_then(ChargeBy::parse).unwrap_or_default();
    if configured.is_empty() && charge_by == ChargeBy::Sum && !has_charges {
        return None;
    }
    // Jobs are charged for a part of the site's resources, so the rule "max" needs them.
    let totals = site_resources(flux);
    let rule = match charge_by {
        ChargeBy::Sum => Some((ChargeBy::Sum, totals.unwrap_or_default())),
        ChargeBy::Max => totals.map(|totals| (ChargeBy::Max, totals)),
    };
    // Without this project's plugin, the time of a change is the time of this sync.
    let stats: Stats = ask_flux(flux, "job-manager.mf_priority.stats", &json!({})).unwrap_or_default();
    let to_change = |ChargeShown { queue, since, factor }: ChargeShown| ChargeChange {
        queue: queue.into(),
        since,
        factor,
    };
    let ChargeStats { changes, seen_since, .. } = stats.charges.unwrap_or_default();
    let changes = changes.into_iter().map(to_change).collect();
    Some(ReportedCharges { configured, changes, seen_since, rule })
}

/// Returns true if the database has charges.
pub(super) fn has_charges(fetch: &Fetch<'_>) -> Result<bool, Failure> {
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
