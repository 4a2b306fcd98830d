// SPDX-License-Identifier: LGPL-3.0-only
//! The object `tree` of a push: the ranking policy, its options, and the rules of usage.

use crate::value::{describe, members};
use crate::wire::{Read, WireError};
use fairshare::accrual::HalfLife;
use fairshare::periods::Weights;
use fairshare::{Options, Policy};
use fairshare_engine::standing::{RESET, Rule};
use serde_json::value::RawValue;

/// The key of the object.
pub const TREE: &str = "tree";

/// Reads the object `tree`: the ranking policy, the policy's options, and numbers such as the half-life. `policy` and
/// `options` have the form of the site's database.
pub fn read_rule(value: &RawValue) -> Read<Rule> {
    let fault = |key: &str, what: String| WireError::Record(format!("{TREE}.{key}: {what}"));
    let type_error = || WireError::Record(format!("{TREE}: expected object, got {}", describe(value)));
    let tree = members(value).ok_or_else(type_error)?;
    let find_value =
        |key: &str| tree.get(key).copied().ok_or_else(|| fault(key, "key is missing".to_owned()));
    let read_number = |key: &str| {
        let value = find_value(key)?;
        let type_error = || fault(key, format!("expected number, got {}", describe(value)));
        value.get().parse::<f64>().ok().filter(|number| number.is_finite()).ok_or_else(type_error)
    };
    let read_text = |key: &str, value: &RawValue| -> Read<String> {
        let type_error = |_| fault(key, format!("expected string, got {}", describe(value)));
        serde_json::from_str(value.get()).map_err(type_error)
    };
    let policy: Policy =
        read_text("policy", find_value("policy")?)?.parse().map_err(|error| fault("policy", error))?;
    let mut options = Options::default();
    if let Some(value) = tree.get("options") {
        let given = members(value)
            .ok_or_else(|| fault("options", format!("expected object, got {}", describe(value))))?;
        for (name, value) in given {
            let setting = format!("{name}={}", read_text("options", value)?);
            options.set(&setting).map_err(|error| fault("options", error))?;
        }
    }
    let half_life = read_number("half_life")?;
    let half_life = HalfLife::new(half_life).ok_or_else(|| {
        fault("half_life", format!("expected 0 (none) or at least 0.001 seconds, got {half_life}"))
    })?;
    let reset = if tree.contains_key("reset") { read_number("reset")? } else { RESET };
    if reset < 0.0 {
        return Err(fault("reset", format!("expected 0 or more seconds, got {reset}")));
    }
    let replaces_all = tree.get("replaces_all").map_or("false", |value| value.get()).parse();
    let replaces_all = replaces_all.map_err(|_| fault("replaces_all", "expected boolean".to_owned()))?;
    Ok(Rule {
        instant: read_number("at")?,
        half_life,
        reset,
        weights: Weights {
            node: read_number("node_weight")?,
            core: read_number("core_weight")?,
            gpu: read_number("gpu_weight")?,
        },
        policy,
        options,
        replaces_all,
    })
}
