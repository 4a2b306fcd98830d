// SPDX-License-Identifier: LGPL-3.0-only
//! The keys and values that the table accepts and rejects.

use super::*;
use fairshare::accrual::Mode;
use fairshare::charging::ChargeBy;
use fairshare_engine::accounts::{RunningLimitSettings, RunningLimits};
use fairshare_engine::budgets::BudgetMode;
use fairshare_engine::engine::answers::Open;

fn read_settings(table: &str) -> Result<Settings, String> {
    read_table(table, Settings::default()).map_err(String::from)
}

#[test]
fn each_key_of_the_configuration_is_read() {
    let settings = read_settings(
        r#"{"live": false, "refresh": "1.5m", "accrual": "committed",
            "age-max": "2d", "weights": {"age": 1000, "size": -5}, "max-wait-behind": 7200,
            "interleave": true, "remember": false, "public": "own", "annotate": true, "enforce-queue-shapes": true,
            "budgets": "warn", "running-limits": "strict", "charge-by": "max",
            "queues": {"debug": {"running-limits": "upstream", "charge": 0}, "pdev": {}, "gpu": {"charge": 2.5},
                       "standby": {"exempt": ["user", "association"], "max-priority": 100}}}"#,
    );
    let wanted = Settings {
        live: false,
        refresh: 90.0,
        accrual: Mode::Committed,
        age_max: 172_800.0,
        age_weight: 1000,
        size_weight: -5,
        max_wait_behind: 7200.0,
        interleave: true,
        remember: false,
        limits: Vec::new(),
        enforce_queue_shapes: true,
        budgets: BudgetMode::Warn,
        running: RunningLimitSettings {
            others: RunningLimits::Strict,
            queues: [("debug".into(), RunningLimits::Upstream)].into(),
        },
        exempt: [("standby".into(), [Scope::Association, Scope::User].into())].into(),
        max_priorities: [("standby".into(), 100)].into(),
        charges: [("debug".into(), 0.0), ("gpu".into(), 2.5)].into(),
        charge_by: ChargeBy::Max,
        public: Open::Own,
        annotate: true,
    };
    assert_eq!(settings, Ok(wanted));
}

#[test]
fn an_empty_table_changes_nothing() {
    let before = Settings { refresh: 7.0, ..Settings::default() };
    assert_eq!(read_table("{}", before.clone()), Ok(before));
}

#[test]
fn an_error_names_the_key_and_the_allowed_values() {
    for (table, message) in [
        (r#"[]"#, "[fairshare]: expected a table, got array"),
        (
            r#"{"refesh": 3}"#,
            "fairshare.refesh: unknown key; known are live, refresh, accrual, weights, age-max, max-wait-behind, \
             interleave, running-limits, queues, charge-by, limits, enforce-queue-shapes, budgets, public, annotate, remember",
        ),
        (r#"{"live": "yes"}"#, "fairshare.live: expected true or false, got \"yes\""),
        (
            r#"{"refresh": -1}"#,
            "fairshare.refresh: expected 0 to 36600 days, in seconds or as a duration such as \"30s\", \"2h\" or \"7d\", got integer -1",
        ),
        (
            r#"{"refresh": "NaN"}"#,
            "fairshare.refresh: expected 0 to 36600 days, in seconds or as a duration such as \"30s\", \"2h\" or \"7d\", got \"NaN\"",
        ),
        (
            r#"{"refresh": "1e9d"}"#,
            "fairshare.refresh: expected 0 to 36600 days, in seconds or as a duration such as \"30s\", \"2h\" or \"7d\", got \"1e9d\"",
        ),
        (r#"{"annotate": 2.5}"#, "fairshare.annotate: expected true or false, got real 2.5"),
        (r#"{"public": null}"#, "fairshare.public: expected \"own\", \"banks\" or \"all\", got null"),
        (r#"{"budgets": "no"}"#, "fairshare.budgets: expected \"hold\", \"reject\" or \"warn\", got \"no\""),
        (r#"{"accrual": "used"}"#, "fairshare.accrual: expected \"elapsed\" or \"committed\", got \"used\""),
        (
            r#"{"age-max": 0}"#,
            "fairshare.age-max: expected more than 0 and at most 36600 days, in seconds or as a duration such as \"7d\", got integer 0",
        ),
        (r#"{"charge-by": "mean"}"#, "fairshare.charge-by: expected \"sum\" or \"max\", got \"mean\""),
        (r#"{"weights": 3}"#, "fairshare.weights: expected a table, got integer 3"),
        (r#"{"weights": {"aeg": 3}}"#, "fairshare.weights.aeg: unknown key; known are age, size"),
        (
            r#"{"running-limits": "hard"}"#,
            "fairshare.running-limits: expected \"upstream\" or \"strict\", got \"hard\"",
        ),
        (r#"{"queues": ["batch"]}"#, "fairshare.queues: expected a table, got array"),
        (r#"{"queues": {"batch": "strict"}}"#, "fairshare.queues.batch: expected a table, got string"),
        (
            r#"{"queues": {"batch": {"runing-limits": "strict"}}}"#,
            "fairshare.queues.batch.runing-limits: unknown key; known are running-limits, charge, exempt, max-priority",
        ),
        (
            r#"{"queues": {"batch": {"charge": 1000.5}}}"#,
            "fairshare.queues.batch.charge: expected a number from 0 to 1000, got real 1000.5",
        ),
        (
            r#"{"queues": {"batch": {"charge": -1}}}"#,
            "fairshare.queues.batch.charge: expected a number from 0 to 1000, got integer -1",
        ),
        (
            r#"{"queues": {"batch": {"charge": "2"}}}"#,
            "fairshare.queues.batch.charge: expected a number from 0 to 1000, got \"2\"",
        ),
        (
            r#"{"queues": {"batch": {"exempt": ["asociation"]}}}"#,
            "fairshare.queues.batch.exempt: expected an array of \"association\", \"bank\" and \"user\", got [\"asociation\"]",
        ),
        (
            r#"{"queues": {"batch": {"exempt": ["bank-queue"]}}}"#,
            "fairshare.queues.batch.exempt: expected an array of \"association\", \"bank\" and \"user\", got [\"bank-queue\"]",
        ),
        (
            r#"{"queues": {"batch": {"exempt": "bank"}}}"#,
            "fairshare.queues.batch.exempt: expected an array of \"association\", \"bank\" and \"user\", got \"bank\"",
        ),
        (
            r#"{"queues": {"batch": {"max-priority": 0}}}"#,
            "fairshare.queues.batch.max-priority: expected an integer from 1 to 4294967294, got integer 0",
        ),
        (
            r#"{"queues": {"batch": {"max-priority": 4294967295}}}"#,
            "fairshare.queues.batch.max-priority: expected an integer from 1 to 4294967294, got integer 4294967295",
        ),
        (
            r#"{"queues": {"batch": {"running-limits": true}}}"#,
            "fairshare.queues.batch.running-limits: expected \"upstream\" or \"strict\", got boolean true",
        ),
        (r#"{"weights": {"age": "3"}}"#, "fairshare.weights.age: expected an integer of 64 bits, got \"3\""),
    ] {
        assert_eq!(read_settings(table), Err(message.to_owned()), "{table}");
    }
}

#[test]
fn a_queue_that_the_instance_lacks_is_rejected() {
    let settings = read_settings(r#"{"queues": {"batch": {"running-limits": "strict"}}}"#).unwrap();
    let check = |queues| check_queues(&settings, queues);
    assert_eq!(check(Some(r#"{"batch": {}, "debug": {"requires": ["d"]}}"#)), Ok(()));
    let message = |known: &str| Err(format!("queues.batch: no such queue; known are {known}"));
    assert_eq!(check(Some(r#"{"debug": {}, "pdev": {}}"#)), message("debug, pdev"));
    assert_eq!(check(None), message("none"));
    let settings = read_settings(r#"{"queues": {"batch": {"charge": 2}}}"#).unwrap();
    assert_eq!(check_queues(&settings, Some(r#"{"debug": {}, "pdev": {}}"#)), message("debug, pdev"));
    assert_eq!(check_queues(&Settings::default(), None), Ok(()));
}

#[test]
fn one_invalid_value_rejects_the_whole_table() {
    assert!(read_settings(r#"{"refresh": 1, "age-max": 0}"#).is_err());
}

/// After an upgrade, a setting of an earlier version in the table must not stop the plugin from loading.
#[test]
fn a_retired_key_is_ignored_with_a_warning() {
    let table = r#"{"depth": 0, "budget": null, "max-stall": "50ms", "memo": "never", "shadow": "pbs", "refresh": 7}"#;
    assert_eq!(read_settings(table), Ok(Settings { refresh: 7.0, ..Settings::default() }));
    let warnings = RETIRED.map(|name| format!("fairshare.{name}: no longer a setting, ignored: remove it"));
    let mut message = list_retired(table, "fairshare.");
    message.sort_by_key(|text| warnings.iter().position(|warning| warning == text));
    assert_eq!(message, warnings);
    assert_eq!(list_retired(r#"{"refresh": 7}"#, ""), [""; 0]);
    assert!(names().all(|name| !is_retired(name)));
}

#[test]
fn each_setting_has_its_documentation() {
    for Setting { name, doc, default, .. } in &SETTINGS {
        assert!(doc.len() > 20 && doc.ends_with('.') && !default.is_empty(), "{name}");
    }
}
