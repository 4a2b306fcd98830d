// SPDX-License-Identifier: LGPL-3.0-only
//! Scenarios: the combinations of all swept settings.

use std::str::FromStr;

use serde_json::{Map, Value, json};

use crate::fingers;
use crate::outcome::{Result, failure};
use crate::site::document;
use crate::ui::figures::parse_duration;
use crate::ui::suggest::did_you_mean;
use fairshare::Policy;
use fairshare_accounting::store::PolicyData;
use fairshare_engine::accounts::measures;
use fairshare_engine::engine::Settings;
use fairshare_protocol::records::{FactorRecord, LimitRecord};
use fairshare_protocol::settings::read_table;
use fairshare_simulate::{Scenario, Scheduler};

/// A simulation has at most this many scenarios.
const MOST: usize = 10_000;
/// Limits that are columns of an association's record.
const RECORDS: [&str; 5] =
    ["max-running-jobs", "max-active-jobs", "max-sched-jobs", "max-nodes", "max-cores"];
/// Factors that `weights.FACTOR` accepts.
const FACTORS: [&str; 6] = ["fairshare", "queue", "bank", "urgency", "age", "size"];
/// Scopes that `limits.SCOPE.MEASURE` accepts.
const SCOPES: [&str; 3] = ["association", "bank", "user"];

/// A setting and its values, one for each scenario.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SettingSweep {
    pub(super) key: String,
    pub(super) values: Vec<SettingValue>,
}

/// A setting and its value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SettingValue {
    pub(super) key: String,
    /// The value as typed.
    pub(super) text: String,
}

impl FromStr for SettingSweep {
    type Err = String;

    fn from_str(text: &str) -> Result<SettingSweep, String> {
        let (key, values) = text.split_once('=').ok_or("expected KEY=VALUE,VALUE,...")?;
        let key = key.trim().replace('_', "-");
        let values: Result<Vec<SettingValue>, String> =
            values.split(',').map(|value| SettingValue::new(&key, value.trim())).collect();
        Ok(SettingSweep { key, values: values? })
    }
}

impl SettingSweep {
    /// Creates a sweep over ranking policies.
    pub(super) fn policies(policies: &[Policy]) -> SettingSweep {
        let value =
            |policy: &Policy| SettingValue { key: "policy".to_owned(), text: policy.name().to_owned() };
        SettingSweep { key: "policy".to_owned(), values: policies.iter().map(value).collect() }
    }
}

impl SettingValue {
    fn new(key: &str, text: &str) -> Result<SettingValue, String> {
        let value = SettingValue { key: key.to_owned(), text: text.to_owned() };
        // Reports an unknown key or an invalid value before the first scenario runs.
        value.apply_to(&mut PolicyData::default(), &mut Map::new(), &mut Scheduler::default())?;
        Ok(value)
    }

    /// Applies the setting to the site document, to Flux's configuration table `[fairshare]`, or to the scheduler.
    fn apply_to(
        &self,
        data: &mut PolicyData,
        table: &mut Map<String, Value>,
        scheduler: &mut Scheduler,
    ) -> Result<(), String> {
        let SettingValue { key, text } = self;
        let integer = || {
            let number = text.parse::<i64>().ok();
            number.ok_or_else(|| format!("{key}: expected an integer, got \"{text}\""))
        };
        let limit = || {
            let value = text.parse::<i64>().ok().filter(|value| *value >= 0);
            value.ok_or_else(|| format!("{key}: expected an integer from 0, got \"{text}\""))
        };
        match (key.as_str(), key.split_once('.')) {
            ("policy", _) => {
                let policy = fingers::parse_policy(text)?;
                if let Some(tree) = &mut data.tree {
                    tree.policy = policy.name().to_owned();
                }
            }
            ("scheduler", _) => *scheduler = parse_scheduler(text)?,
            ("half-life", _) => {
                let half_life = parse_duration(text).map_err(|error| format!("{key}: {error}"))?;
                if let Some(tree) = &mut data.tree {
                    tree.half_life = half_life.as_secs_f64();
                }
            }
            ("zero-score", _) => match text.as_str() {
                "hold" | "floor" => data.config.zero_score = Some(text.clone()),
                _ => return Err(format!("{key}: expected hold or floor, got \"{text}\"")),
            },
            (_, Some(("weights", factor))) => {
                if !FACTORS.contains(&factor) {
                    let near = did_you_mean(factor, FACTORS);
                    return Err(format!(
                        "unknown factor \"{factor}\"; known are {}{near}",
                        FACTORS.join(", ")
                    ));
                }
                let weight = integer()?;
                data.priority_factors.retain(|record| record.factor != *factor);
                data.priority_factors.push(FactorRecord { factor: factor.to_owned(), weight });
            }
            (_, Some(("limits", rest))) => data.limits.push(parse_limit(key, rest, limit()?)?),
            (record, _) if RECORDS.contains(&record) => {
                let value = limit()?;
                for association in &mut data.associations {
                    let field = match record {
                        "max-running-jobs" => &mut association.max_running_jobs,
                        "max-active-jobs" => &mut association.max_active_jobs,
                        "max-sched-jobs" => &mut association.max_sched_jobs,
                        "max-nodes" => &mut association.max_nodes,
                        _ => &mut association.max_cores,
                    };
                    *field = value;
                }
            }
            _ => {
                table.insert(key.clone(), parse_setting(key, text)?);
            }
        }
        Ok(())
    }
}

/// Parses the name of a scheduler: `fcfs` or `easy`.
pub(super) fn parse_scheduler(text: &str) -> Result<Scheduler, String> {
    match text.to_lowercase().as_str() {
        "fcfs" => Ok(Scheduler::Fcfs),
        "easy" => Ok(Scheduler::Easy),
        _ => Err(format!("unknown scheduler \"{text}\"; known are fcfs and easy")),
    }
}

fn parse_limit(key: &str, rest: &str, value: i64) -> Result<LimitRecord, String> {
    let known = measures();
    match rest.split_once('.') {
        Some((scope, measure)) if SCOPES.contains(&scope) && known.iter().any(|it| it == measure) => {
            let caps = [(measure.to_owned(), value)].into();
            Ok(LimitRecord { scope: scope.to_owned(), name: "*".to_owned(), caps, ..LimitRecord::default() })
        }
        _ => Err(format!(
            "{key}: expected limits.SCOPE.MEASURE, for example limits.user.run-cores; the scopes are {}; the measures are {}",
            SCOPES.join(", "),
            known.join(", ")
        )),
    }
}

/// Parses a setting of `[fairshare]`.
fn parse_setting(key: &str, text: &str) -> Result<Value, String> {
    let value =
        serde_json::from_str::<Value>(text).ok().filter(|value| value.is_number() || value.is_boolean());
    let value = value.unwrap_or_else(|| Value::from(text));
    read_table(&json!({ key: value }).to_string(), Settings::default()).map_err(|error| {
        let own = "policy, scheduler, half-life, zero-score, weights.FACTOR, limits.SCOPE.MEASURE";
        match error.unknown_key {
            Some((_, known)) => format!(
                "unknown key \"{key}\"; known are {own}, {}, and the keys of [fairshare]: {}",
                RECORDS.join(", "),
                known.join(", ")
            ),
            None => error.text,
        }
    })?;
    Ok(value)
}

/// A combination of settings, and its name in the table.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) name: String,
    pub(super) values: Vec<SettingValue>,
}

/// Returns all combinations of the values in `sweeps`; the last sweep varies fastest.
pub(super) fn combine_setting_sweeps(sweeps: &[SettingSweep], site: Policy) -> Result<Vec<Plan>> {
    let many = sweeps.iter().map(|sweep| sweep.values.len()).try_fold(1usize, usize::checked_mul);
    if many.is_none_or(|many| many > MOST) {
        return Err(failure(format!("--sweep: more than {MOST} scenarios; give fewer values")));
    }
    for (at, sweep) in sweeps.iter().enumerate() {
        if sweeps.iter().skip(at + 1).any(|other| other.key == sweep.key) {
            return Err(failure(format!("--sweep: {} is given twice", sweep.key)));
        }
        for (at, value) in sweep.values.iter().enumerate() {
            if sweep.values.iter().take(at).any(|other| other.text == value.text) {
                return Err(failure(format!("{}: {} is given twice", value.key, value.text)));
            }
        }
    }
    let mut plans: Vec<Vec<SettingValue>> = vec![Vec::new()];
    for sweep in sweeps {
        let extended = |values: &Vec<SettingValue>| {
            let values = values.clone();
            sweep.values.iter().map(move |value| values.iter().chain([value]).cloned().collect())
        };
        plans = plans.iter().flat_map(extended).collect();
    }
    let varies = |key: &str| sweeps.iter().any(|sweep| sweep.key == key && sweep.values.len() > 1);
    let named = |values: Vec<SettingValue>| {
        let varied = values.iter().filter(|value| varies(&value.key)).map(|value| match value.key.as_str() {
            "policy" => value.text.clone(),
            key => format!("{key}={}", value.text),
        });
        let varied: Vec<String> = varied.collect();
        let policy =
            || values.iter().find(|value| value.key == "policy").map_or(site.name(), |value| &value.text);
        let name = if varied.is_empty() { policy().to_owned() } else { varied.join(" ") };
        Plan { name, values }
    };
    Ok(plans.into_iter().map(named).collect())
}

/// The parameters that all scenarios share.
#[derive(Clone, Debug)]
pub(super) struct Common {
    /// Flux's configuration table `[fairshare]`, without the settings that differ between scenarios.
    pub(super) table: Map<String, Value>,
    pub(super) scheduler: Scheduler,
    pub(super) depth: usize,
    pub(super) nodes: u64,
    pub(super) cores: u64,
}

impl Plan {
    /// Applies the settings to `site`. Returns the scenario to simulate, with the data that the engine would get from
    /// a push.
    pub(super) fn scenario(&self, site: &PolicyData, common: &Common) -> Result<Scenario, String> {
        let mut data = site.clone();
        let Common { mut table, mut scheduler, depth, nodes, cores } = common.clone();
        table.insert("remember".to_owned(), false.into());
        for value in &self.values {
            value.apply_to(&mut data, &mut table, &mut scheduler)?;
        }
        let settings = read_table(&Value::Object(table).to_string(), Settings::default())?;
        let text = serde_json::to_string(&data).map_err(|error| error.to_string())?;
        drop(data);
        let (policy, site) = document::policy(&text)?;
        Ok(Scenario { policy, site, settings, scheduler, depth, nodes, cores })
    }
}
