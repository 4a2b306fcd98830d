// SPDX-License-Identifier: LGPL-3.0-only
//! Reads `sshare --json` (Slurm 23.11 and later). Slurm's serializers write numbers in three forms: plain, with bare
//! `Infinity` and `NaN` (v0.0.40 and v0.0.41); as objects `{"set", "infinite", "number"}` (v0.0.42 and later); or
//! plain with `"Infinity"` and `null` (`+complex`).

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Association, NOT_SET, Printed, Sheet, USE_PARENT};
use crate::Document;
use crate::fields::{Raw, type_error};
use crate::tidy::CLUSTER;
use fairshare::{MAX_USAGE, Shares};

#[derive(Deserialize)]
struct SshareOutput {
    shares: Outer,
}

#[derive(Deserialize)]
struct Outer {
    shares: Vec<Share>,
}

#[derive(Deserialize)]
#[serde(expecting = "a share, an object")]
struct Share {
    name: Option<String>,
    parent: Option<String>,
    cluster: Option<String>,
    partition: Option<String>,
    shares: Raw,
    shares_normalized: Raw,
    usage: Raw,
    usage_normalized: Raw,
    effective_usage: Raw,
    #[serde(default)]
    fairshare: Fairshare,
    #[serde(rename = "type")]
    kind: Raw,
}

#[derive(Default, Deserialize)]
struct Fairshare {
    factor: Raw,
    level: Raw,
}

/// An optional number in the form of Slurm's data_parser.
#[derive(Deserialize)]
struct Number {
    set: Option<bool>,
    #[serde(default)]
    infinite: bool,
    number: Raw,
}

/// Parses a number. Returns `None` if it is not set or NaN.
fn parse_number(raw: &Raw) -> Result<Option<f64>, String> {
    let Some(value) = raw else { return Ok(None) };
    let text = value.get();
    let word = text.trim_matches('"').to_ascii_lowercase();
    match word.as_str() {
        "infinity" | "inf" => return Ok(Some(f64::INFINITY)),
        "-infinity" | "-inf" => return Ok(Some(f64::NEG_INFINITY)),
        "nan" | "-nan" => return Ok(None),
        _ => {}
    }
    if let Ok(number) = text.parse::<f64>() {
        return Ok(Some(number));
    }
    match serde_json::from_str::<Number>(text) {
        Ok(Number { infinite: true, .. }) => Ok(Some(f64::INFINITY)),
        Ok(Number { set: Some(false), .. }) => Ok(None),
        Ok(Number { number: Some(inner), .. }) if inner.get().starts_with('{') => {
            Err(type_error(value, "a number"))
        }
        Ok(Number { number: inner, .. }) => parse_number(&inner),
        Err(_) => Err(type_error(value, "a number")),
    }
}

/// Numbers that serializers write for infinity: 2^64 (Slurm 25.05 and later), or the largest f64 (jq).
const INFINITE: [f64; 2] = [18_446_744_073_709_551_616.0, f64::MAX];

fn is_not_set(number: f64) -> bool {
    number == f64::from(NOT_SET) || number == f64::from(u32::MAX)
}

/// Parses a number that Slurm computed from shares and usage.
fn parse_computed(raw: &Raw) -> Result<Option<f64>, String> {
    let number = parse_number(raw)?.filter(|number| !is_not_set(*number));
    Ok(number.map(|number| if INFINITE.contains(&number) { f64::INFINITY } else { number }))
}

fn parse_shares(raw: &Raw) -> Result<Shares, String> {
    match parse_number(raw)?.filter(|number| !is_not_set(*number)) {
        // The root account has no shares.
        None => Ok(Shares::Count(1)),
        Some(count) if count == f64::from(USE_PARENT) => Ok(Shares::Parent),
        Some(count) if count.fract() == 0.0 && (0.0..f64::from(NOT_SET)).contains(&count) => {
            Ok(Shares::Count(count as u64))
        }
        Some(count) => Err(format!("is {count:?}, expected a whole number from 0 to {}", NOT_SET - 1)),
    }
}

/// Reads the document.
pub(crate) fn read_json(text: &str) -> Result<Document, String> {
    let several = text.lines().skip(1).any(|line| line.starts_with(CLUSTER));
    let output: SshareOutput = serde_json::from_str(text).map_err(|error| match several {
        true => "has several clusters; \"sshare -M NAME -a --json\" prints one cluster".to_owned(),
        false => error.to_string(),
    })?;
    let mut sheet = Sheet { has_partitions: true, in_full: true, ..Sheet::default() };
    let mut by_name: HashMap<String, usize> = HashMap::new();
    let mut cluster: Option<String> = None;
    for (index, share) in output.shares.shares.into_iter().enumerate() {
        let name = share.name.filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| format!("share {} has no name", index + 1))?;
        let share_error =
            |key: &str, fault: String| format!("share {} (\"{name}\"): {key} {fault}", index + 1);
        if let (Some(one), Some(other)) = (&cluster, &share.cluster)
            && one != other
        {
            let text = format!(
                "is {other}, but the shares before are of cluster {one}; \"sshare -M NAME -a --json\" prints one cluster"
            );
            return Err(share_error("cluster", text));
        }
        cluster = share.cluster.or(cluster);
        let kind = share.kind.as_deref().map_or("", RawValue::get);
        let parent = share.parent.filter(|parent| !parent.is_empty());
        let above = match &parent {
            None => None,
            Some(parent) => Some(by_name.get(parent).copied().ok_or_else(|| {
                share_error(
                    "parent",
                    format!("\"{parent}\" is not listed above; \"sshare -a --json\" lists all"),
                )
            })?),
        };
        let usage = parse_number(&share.usage).map_err(|fault| share_error("usage", fault))?;
        if let Some(usage) = usage.filter(|usage| !(0.0..=MAX_USAGE).contains(usage)) {
            return Err(share_error("usage", format!("is {usage:?}, expected a number from 0 to 1e298")));
        }
        let shares = parse_shares(&share.shares).map_err(|fault| share_error("shares", fault))?;
        let computed = |key: &str, raw: &Raw| parse_computed(raw).map_err(|fault| share_error(key, fault));
        let printed = Printed {
            norm_shares: computed("shares_normalized", &share.shares_normalized)?,
            norm_usage: computed("usage_normalized", &share.usage_normalized)?,
            effective: computed("effective_usage", &share.effective_usage)?,
            fairshare: computed("fairshare.factor", &share.fairshare.factor)?,
            level_fs: computed("fairshare.level", &share.fairshare.level)?,
            is_pending: false,
        }
        .without_pending_values(true);
        let is_user = kind.contains("USER");
        if is_user && above.is_none() {
            return Err(share_error("parent", "is missing".to_owned()));
        }
        if !is_user {
            by_name.insert(name.clone(), sheet.accounts.len());
        }
        let partition = share.partition.unwrap_or_default();
        let rows = if is_user { &mut sheet.users } else { &mut sheet.accounts };
        rows.push(Association { name, parent: above, partition, shares, usage, printed });
    }
    remove_values_slurm_did_not_compute(&mut sheet);
    sheet.into_document(&[])
}

/// Removes zeros that Slurm prints for values that it did not compute: FairShare of accounts under Fair Tree, and
/// LevelFS under the other policies.
fn remove_values_slurm_did_not_compute(sheet: &mut Sheet) {
    let is_zero = |value: Option<f64>| value.is_none_or(|value| value == 0.0);
    let accounts = sheet.accounts.iter_mut().map(|account| &mut account.printed);
    let all: Vec<_> = accounts.chain(sheet.users.iter_mut().map(|user| &mut user.printed)).collect();
    sheet.is_formula =
        all.iter().all(|printed| is_zero(printed.level_fs)) && all.iter().any(|printed| !printed.is_pending);
    if sheet.is_formula {
        all.into_iter().for_each(|printed| printed.level_fs = None);
    }
    for account in &mut sheet.accounts {
        account.printed.fairshare =
            account.printed.fairshare.filter(|factor| sheet.is_formula && *factor != 0.0);
    }
}
