// SPDX-License-Identifier: LGPL-3.0-only
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use super::*;
use crate::commands::doctor::find_read_only_file;
use crate::commands::doctor::instance::make_unreadable_database_finding;
use fairshare_accounting::store::{Fault, Reason, StoreError};
use serde_json::{Value, json};

const NOW: f64 = 1.7e9;
const STALE: f64 = 7200.0;

fn association_record(user: &str, id: u32, bank: &str) -> Value {
    json!({
        "userid": id, "bank": bank, "def_bank": "A", "fairshare": 0.5, "max_running_jobs": 5, "max_active_jobs": 0,
        "queues": "batch", "active": 1, "projects": "*", "def_project": "*", "max_nodes": 10, "max_cores": 10,
        "max_sched_jobs": 10, "username": user, "shares": 1, "usage": 0.0, "counted_until": 0.0,
    })
}

/// Returns a site without problems.
fn healthy_site() -> Value {
    json!({
        "associations": [association_record("ann", 1, "A"), association_record("bob", 2, "A")],
        "queues": [{
            "queue": "batch", "min_nodes_per_job": 1, "max_nodes_per_job": 10, "max_time_per_job": 60, "priority": 10,
            "max_running_jobs": 100, "max_nodes_per_assoc": 100, "max_sched_jobs": 100,
            "max_sched_nodes_per_assoc": 100, "max_sched_cores_per_assoc": 100,
        }],
        "projects": [{"project": "*"}],
        "banks": [
            {"bank": "root", "priority": 0.0, "parent": "", "shares": 1, "active": 1},
            {"bank": "A", "priority": 1.0, "parent": "root", "shares": 1, "active": 1},
        ],
        "priority_factors": [
            {"factor": "fairshare", "weight": 100_000}, {"factor": "queue", "weight": 10_000},
            {"factor": "bank", "weight": 0}, {"factor": "urgency", "weight": 1000},
        ],
    })
}

fn make_checked_database_data(data: Value) -> DatabaseFacts {
    let data: PolicyData = serde_json::from_value(data).expect("it is policy data");
    DatabaseFacts {
        data,
        pace: Pace { boundary: Some(NOW + 1000.0), ..Pace::default() },
        counted: Some(NOW - 60.0),
        newest: None,
        unknown: Vec::new(),
    }
}

fn finding_codes(found: &[Finding]) -> Vec<&str> {
    found.iter().map(|finding| finding.code).collect()
}

#[test]
fn a_healthy_site_has_no_findings() {
    assert_eq!(check_database(&make_checked_database_data(healthy_site()), NOW, STALE), []);
}

/// Sets a value in the site of [`healthy_site`], and returns the findings.
fn list_findings_after_site_change(pointer: &str, value: Value) -> Vec<Finding> {
    let mut data = healthy_site();
    *data.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = value;
    check_database(&make_checked_database_data(data), NOW, STALE)
}

#[test]
fn doctor_reports_each_database_problem_by_a_separate_finding_code() {
    for (pointer, value, expected) in [
        ("/associations/0/def_bank", json!("B"), &["no-default-bank"][..]),
        ("/associations/0/queues", json!("batch,fast"), &["unknown-queues"]),
        ("/associations/0/queues", json!("fast"), &["refused-in-all-queues", "unknown-queues"]),
        ("/associations/0/queues", json!(""), &[]),
        ("/associations/0/def_project", json!("physics"), &["unknown-projects"]),
        ("/associations/0/active", json!(0), &["disabled-users"]),
        ("/associations/0/shares", json!(0), &["no-user-shares"]),
        ("/associations/0/userid", json!(65_534), &["wrong-id"]),
        ("/associations/0/username", json!("root"), &["wrong-id"]),
        ("/banks/0/shares", json!(0), &[]),
        ("/banks/1/active", json!(0), &["disabled-banks"]),
        ("/associations/0/userid", json!(2), &["same-id"]),
        ("/associations/0/max_running_jobs", json!(0), &["limits-hold-everything"]),
        ("/associations/1/max_sched_jobs", json!(-1), &["limits-hold-everything"]),
        ("/associations/0/max_running_jobs", json!(-1), &["limit-ends-jobs"]),
        ("/associations/0/max_running_jobs", json!(-2), &["limits-hold-everything"]),
        ("/associations/1/max_active_jobs", json!(0), &[]),
        ("/queues/0/max_running_jobs", json!(0), &["queues-for-nobody"]),
        // These limits are valid, and cause no finding.
        ("/queues/0/max_nodes_per_job", json!(0), &[]),
        ("/queues/0/min_nodes_per_job", json!(11), &[]),
        ("/queues/0/max_time_per_job", json!(0), &[]),
        ("/banks/1/shares", json!(0), &["no-shares"]),
        ("/priority_factors/0/weight", json!(0), &["fairshare-does-not-count"]),
        ("/priority_factors/0/weight", json!(28), &["fairshare-does-not-count"]),
        ("/priority_factors/0/weight", json!(-100_000), &["negative-fairshare"]),
        ("/priority_factors/2/weight", json!(1), &["weights-too-small"]),
        ("/priority_factors/2/weight", json!(1000), &[]),
        ("/priority_factors/0/weight", json!(5_000_000_000u64), &["weights-too-small", "priorities-clamp"]),
    ] {
        assert_eq!(
            finding_codes(&list_findings_after_site_change(pointer, value.clone())),
            expected,
            "{pointer} = {value}"
        );
    }
    let mut data = healthy_site();
    for factor in data["priority_factors"].as_array_mut().unwrap() {
        factor["weight"] = json!(0);
    }
    assert_eq!(finding_codes(&check_database(&make_checked_database_data(data), NOW, STALE)), ["no-weights"]);
}

/// Flux's configuration can weigh the factors age and size, which the database usually lacks.
#[test]
fn doctor_compares_the_weights_of_the_database_with_those_of_the_configuration() {
    for (fairshare, age, expected) in [
        (100_000, 0, &[][..]),
        (100_000, 1000, &[]),
        (0, 1000, &["fairshare-does-not-count"]),
        (100_000, 200_000_000, &["fairshare-does-not-count", "weights-too-small"]),
        (100_000, 5_000_000_000_i64, &["fairshare-does-not-count", "weights-too-small", "priorities-clamp"]),
    ] {
        let mut facts = make_checked_database_data(healthy_site());
        facts.data.priority_factors[0].weight = fairshare;
        // The plugin may still use an earlier weight of the database.
        let in_force = [("age", age), ("fairshare", 7)].map(|(name, weight)| (name.to_owned(), weight));
        add_weights_in_force(&mut facts.data, &in_force.into());
        assert_eq!(finding_codes(&check_database(&facts, NOW, STALE)), expected, "{fairshare} {age}");
    }
}

/// flux-accounting keeps deleted users and banks as inactive records, which may name queues and projects that are deleted too.
#[test]
fn doctor_reports_no_problem_of_deleted_users_and_banks() {
    let mut data = healthy_site();
    let mut old = association_record("old", 1, "A");
    (old["active"], old["def_bank"]) = (json!(0), json!("Z"));
    (old["queues"], old["def_project"]) = (json!("gone"), json!("gone"));
    data["associations"].as_array_mut().unwrap().insert(0, old.clone());
    let bank = json!({"bank": "Z", "priority": 0.0, "parent": "root", "shares": 0, "active": 0});
    data["banks"].as_array_mut().unwrap().push(bank);
    assert_eq!(check_database(&make_checked_database_data(data.clone()), NOW, STALE), []);
    // The last record of a user id in a bank counts, so jobs of the active user are rejected.
    data["associations"].as_array_mut().unwrap().push(old);
    assert_eq!(finding_codes(&check_database(&make_checked_database_data(data), NOW, STALE)), ["same-id"]);
}

#[test]
fn doctor_separates_a_problem_from_its_remedy_whatever_the_problem_contains() {
    let problem = "bank_table: bank \"a; \"flux b\": shares is -1".to_owned();
    let fault =
        Fault { problem: problem.clone(), remedy: Some("\"flux account edit-bank\" corrects it".to_owned()) };
    let error = StoreError::new(Path::new("x.db"), Reason::Value(fault));
    let found = make_unreadable_database_finding(&error, Some("the default"));
    assert_eq!(
        (found.text, found.remedy),
        (format!("x.db: {problem} (the default)"), "\"flux account edit-bank\" corrects it".to_owned())
    );
}

#[test]
fn doctor_finds_old_usage_and_overdue_decay() {
    let mut old = make_checked_database_data(healthy_site());
    old.counted = Some(NOW - STALE - 1.0);
    assert_eq!(finding_codes(&check_database(&old, NOW, STALE)), ["usage-old"]);
    // The stored `end_half_life_period` is the start of the current period, except in a site's first period.
    let mut within = make_checked_database_data(healthy_site());
    for since in [1.0, STALE + 1.0, within.pace.period, within.pace.period + STALE] {
        within.pace.boundary = Some(NOW - since);
        assert_eq!(check_database(&within, NOW, STALE), [], "{since} s after a boundary");
    }
    let mut behind = make_checked_database_data(healthy_site());
    behind.pace.boundary = Some(NOW - behind.pace.period - STALE - 1.0);
    assert_eq!(finding_codes(&check_database(&behind, NOW, STALE)), ["decay-behind"]);
    // flux-accounting's rule does not store the time of a run.
    let mut unknown = make_checked_database_data(healthy_site());
    (unknown.counted, unknown.pace.boundary) = (None, None);
    assert_eq!(check_database(&unknown, NOW, STALE), []);
}

#[test]
fn doctor_lists_the_first_affected_users_and_counts_all_of_them() {
    let mut data = healthy_site();
    let all: Vec<Value> = (0..12)
        .map(|id| {
            let mut record = association_record(&format!("u{id}"), 100 + id, "A");
            record["max_nodes"] = json!(0);
            record
        })
        .collect();
    data["associations"] = all.into();
    let found = check_database(&make_checked_database_data(data), NOW, STALE);
    assert_eq!((found[0].count, found[0].whom.len()), (12, MOST));
    assert_eq!(found[0].whom[0], "u0 in A");
}

fn make_instance(change: impl FnOnce(&mut Value)) -> Instance {
    let mut state = json!({
        "name": "mf_priority.so", "path": "/x", "version": env!("CARGO_PKG_VERSION"), "generation": 3,
        "updated": NOW - 100.0, "waiting": 0,
        "mf_priority_map": [{"userid": 1, "banks": [{"bank_name": "A", "fairshare": 0.5}]},
                            {"userid": 2, "banks": [{"bank_name": "A", "fairshare": 0.5}]}],
    });
    change(&mut state);
    let state = serde_json::from_value(state).expect("a state");
    Instance {
        plugins: vec!["mf_priority.so".to_owned()],
        loaded: Some(LoadedPlugin { state, check: None }),
        ..Instance::default()
    }
}

#[test]
fn doctor_names_the_default_bank_in_force_if_those_of_a_user_differ() {
    let mut data = healthy_site();
    data["banks"]
        .as_array_mut()
        .unwrap()
        .push(json!({"bank": "B", "priority": 1.0, "parent": "root", "shares": 1}));
    let add = |data: &mut Value, bank: &str, default: &str| {
        let mut record = association_record("ann", 1, bank);
        record["def_bank"] = json!(default);
        data["associations"].as_array_mut().unwrap().push(record);
    };
    add(&mut data, "B", "B");
    let found = check_database(&make_checked_database_data(data.clone()), NOW, STALE);
    assert_eq!(
        (finding_codes(&found), found[0].whom[0].as_str()),
        (vec!["default-banks-differ"], "ann (B is in force)")
    );
    // No association is in its default bank, but the default bank in force has an association.
    data["associations"] = json!([]);
    add(&mut data, "A", "B");
    add(&mut data, "B", "A");
    assert_eq!(
        finding_codes(&check_database(&make_checked_database_data(data), NOW, STALE)),
        ["default-banks-differ"]
    );
}

#[test]
fn doctor_reports_stopped_queues_the_scheduler_and_ended_jobs_without_a_record() {
    let list_codes = |change: &dyn Fn(&mut Instance)| {
        let mut instance = make_instance(|_| ());
        change(&mut instance);
        check_instance(&instance, None, NOW, STALE).iter().map(|finding| finding.code).collect::<Vec<_>>()
    };
    let stop = |instance: &mut Instance, reason: &str| {
        let state = serde_json::from_value(json!({"start": false, "stop_reason": reason})).unwrap();
        instance.stopped.note(Some("batch"), &state);
    };
    assert_eq!(list_codes(&|it| stop(it, "repair")), ["queues-stopped"]);
    assert_eq!(list_codes(&|it| stop(it, "Scheduler is offline")), ["scheduler-offline"]);
    assert_eq!(list_codes(&|it| it.unfetched = Some(Ok("job x".to_owned()))), ["not-fetched"]);
    assert_eq!(list_codes(&|it| it.unfetched = Some(Err("no service".to_owned()))), ["no-job-list"]);
    assert_eq!(list_codes(&|it| it.not_in_force = true), ["config-not-loaded"]);
}

#[test]
fn doctor_finds_a_database_that_this_account_cannot_write() {
    // A directory can be read but not written, also by root.
    let found = find_read_only_file(&std::env::temp_dir()).expect("a finding");
    assert_eq!(found.code, "read-only-database");
    let file = std::env::temp_dir().join(format!("doctor-writable-{}", std::process::id()));
    std::fs::write(&file, "").unwrap();
    assert_eq!(find_read_only_file(&file), None);
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn doctor_does_not_advise_to_push_the_database_of_another_instance() {
    let mut data = healthy_site();
    let ids = |ids: [u32; 3]| ids.map(|id| association_record("", id, "A")).to_vec();
    data["associations"] = ids([0, 7, 8]).into();
    let map = ids([0, 1, 2])
        .iter()
        .map(|it| json!({"userid": it["userid"], "banks": [{"bank_name": "A"}]}))
        .collect::<Value>();
    let found = check_instance(
        &make_instance(|state| state["mf_priority_map"] = map.clone()),
        Some(&serde_json::from_value(data).unwrap()),
        NOW,
        STALE,
    );
    assert!(
        finding_codes(&found).contains(&"other-database") && !finding_codes(&found).contains(&"not-pushed"),
        "{found:?}"
    );
}

#[test]
fn each_problem_of_a_plugin_has_its_own_finding() {
    let data: PolicyData = serde_json::from_value(healthy_site()).unwrap();
    let list_codes = |instance: &Instance| -> Vec<&str> {
        check_instance(instance, Some(&data), NOW, STALE).iter().map(|finding| finding.code).collect()
    };
    assert_eq!(list_codes(&make_instance(|_| ())), Vec::<&str>::new());
    for (key, value, expected) in [
        ("version", json!("0.0.1"), &["other-version"][..]),
        ("version", json!(null), &["flux-accounting's"]),
        ("generation", json!(0), &["no-data"]),
        ("updated", json!(NOW - STALE - 1.0), &["data-old"]),
        ("updated", json!(NOW + 3600.0), &["clock"]),
        ("mf_priority_map", json!([]), &["not-pushed"]),
        (
            "mf_priority_map",
            json!(
                (1..5)
                    .map(|id| json!({"userid": id, "banks": [{"bank_name": "A", "fairshare": 1}]}))
                    .collect::<Vec<_>>()
            ),
            &["not-removed"],
        ),
        ("waiting", json!(2), &["waiting"]),
    ] {
        assert_eq!(
            list_codes(&make_instance(|state| state[key] = value.clone())),
            expected,
            "{key} = {value}"
        );
    }
    // No job can have this user id, so the plugin never has the association.
    let mut with_impossible_id = data.clone();
    with_impossible_id.associations[1].userid = i64::from(u32::MAX);
    let codes = check_instance(&make_instance(|_| ()), Some(&with_impossible_id), NOW, STALE);
    assert_eq!(finding_codes(&codes), Vec::<&str>::new());
    let users =
        make_instance(|state| (state["waiting"], state["waiting_users"]) = (json!(2), json!([4_000_007, 0])));
    let found = check_instance(&users, Some(&data), NOW, STALE);
    assert_eq!(found[0].whom, ["user 4000007", "user 0 (root)"]);
    assert!(found[0].remedy.starts_with("flux account add-user"));
    // If the database has records of the waiting users, a push is the remedy.
    let users = make_instance(|state| (state["waiting"], state["waiting_users"]) = (json!(2), json!([1, 2])));
    assert_eq!(check_instance(&users, Some(&data), NOW, STALE)[0].remedy, "flux fairshare push");
    // If the plugin has no data at all, doctor reports only that.
    let users = make_instance(|state| {
        (state["generation"], state["waiting"], state["waiting_users"]) = (json!(0), json!(2), json!([7, 8]));
    });
    assert_eq!(list_codes(&users), ["no-data"]);
    let mut drifts = make_instance(|_| ());
    let check = json!({"jobs": 1, "waiting": 0, "associations": 1, "drift": [{"userid": 7, "bank": "A", "what": "jobs"}]});
    drifts.loaded.as_mut().unwrap().check = Some(serde_json::from_value(check).unwrap());
    assert_eq!(list_codes(&drifts), ["drift"]);
    let mut overruled = make_instance(|_| ());
    let check = json!({"jobs": 1, "waiting": 0, "associations": 1, "drift": [],
        "overruled": {"job": 7, "posted": 1234, "in_flux": 16, "since": 5.0}});
    overruled.loaded.as_mut().unwrap().check = Some(serde_json::from_value(check).unwrap());
    overruled.plugins.push("site.so".to_owned());
    assert_eq!(list_codes(&overruled), ["overruled"]);
    assert_eq!(check_instance(&overruled, None, NOW, STALE)[0].remedy, "flux jobtap remove site.so");
    let instance = |change: fn(&mut Instance)| {
        let mut instance = make_instance(|_| ());
        change(&mut instance);
        instance
    };
    let two = instance(|it| it.plugins.push(".priority-default".to_owned()));
    assert_eq!(list_codes(&two), ["two-priority-plugins"]);
    assert_eq!(check_instance(&two, None, NOW, STALE)[0].remedy, "flux jobtap remove .priority-default");
    let refused = instance(|it| it.push = Some(Err("no".to_owned())));
    assert_eq!(list_codes(&refused), ["push-refused"]);
    let remedy = "correct the record with \"flux account\" or sqlite3, then: flux fairshare push";
    assert_eq!(check_instance(&refused, None, NOW, STALE)[0].remedy, remedy);
    let old = Instance {
        push: Some(Err("no".to_owned())),
        ..make_instance(|state| state["version"] = json!("0.0.1"))
    };
    let found = check_instance(&old, None, NOW, STALE);
    let refused = found.iter().find(|finding| finding.code == "push-refused").unwrap();
    assert!(refused.remedy.starts_with("flux jobtap load -r mf_priority.so "), "{}", refused.remedy);
    assert_eq!(list_codes(&instance(|it| it.push = Some(Ok("1 bank changed".to_owned())))), ["not-pushed"]);
    assert_eq!(list_codes(&instance(|it| it.queues = ["batch".to_owned()].into())), Vec::<&str>::new());
    assert_eq!(
        list_codes(&instance(|it| it.queues = ["debug".to_owned()].into())),
        ["queues-not-in-flux", "queues-not-stored"]
    );
}

#[test]
fn doctor_suggests_a_command_that_replaces_the_loaded_priority_plugin() {
    let without = |plugins: &[&str]| {
        let plugins = plugins.iter().map(|name| (*name).to_owned()).collect();
        let found = check_instance(&Instance { plugins, ..Instance::default() }, None, NOW, STALE);
        assert_eq!(finding_codes(&found), ["not-loaded"]);
        found[0].remedy.clone()
    };
    let end = "mf_priority.so && flux fairshare push";
    let remedy = without(&[".priority-default"]);
    assert!(
        remedy.starts_with("flux jobtap load -r .priority-default ") && remedy.ends_with(end),
        "{remedy}"
    );
    // After a failed reload no plugin is loaded that could be replaced.
    let remedy = without(&[]);
    assert!(
        remedy.starts_with("flux jobtap load ") && !remedy.contains("-r") && remedy.ends_with(end),
        "{remedy}"
    );
}

#[test]
fn doctor_names_the_command_that_removes_a_limit_on_a_missing_bank() {
    for (limit, remedy) in [
        (json!({"scope": "bank", "name": "A", "run-jobs": 3}), None),
        (json!({"scope": "bank", "name": "*", "queue": "batch", "run-jobs": 3}), None),
        (json!({"scope": "bank", "name": "Z", "run-jobs": 3}), Some("flux fairshare limit unset bank Z")),
        (
            json!({"scope": "bank", "name": "-x", "run-jobs": 3}),
            Some("flux fairshare limit unset -- bank -x"),
        ),
        (
            json!({"scope": "bank", "name": "A", "queue": "q", "run-jobs": 3}),
            Some("flux fairshare limit unset --queue=q bank A"),
        ),
        (
            json!({"scope": "association", "name": "1/Z", "run-gpus": 3}),
            Some("flux fairshare limit unset association ann/Z"),
        ),
        (json!({"scope": "queue", "name": "batch", "run-jobs": 3}), None),
        (json!({"scope": "queue", "name": "*", "run-jobs": 3}), None),
        (json!({"scope": "queue", "name": "q", "run-jobs": 3}), Some("flux fairshare limit unset queue q")),
        (json!({"scope": "bank", "name": "A", "run-sched-gpus": 0}), None),
        (
            json!({"scope": "user", "name": "1", "queue": "batch", "run-sched-nodes": 0}),
            Some("flux fairshare limit unset --queue=batch user ann --push, or set a higher limit"),
        ),
    ] {
        let mut data = healthy_site();
        data["limits"] = json!([limit]);
        let found = check_database(&make_checked_database_data(data), NOW, STALE);
        let command = found.first().map(|finding| finding.remedy.trim_end_matches(", or correct the name"));
        assert_eq!(command, remedy, "{limit}");
    }
}

#[test]
fn doctor_lists_exhausted_and_ended_budgets_with_their_user_names() {
    let budget = |scope: &str, name: &str, end: f64, deposited: u32| {
        json!({"scope": scope, "name": name, "unit": "gpu-hours", "start": 0, "end": end as i64,
            "deposited": deposited, "spent": 7, "rate": 0})
    };
    let mut data = healthy_site();
    data["budgets"] = json!([
        budget("bank", "A", NOW + 1.0, 8),
        budget("bank", "root", NOW - 1.0, 0),
        budget("user", "1", NOW + 1.0, 7),
        budget("association", "2/A", NOW + 1.0, 0),
    ]);
    let found = check_database(&make_checked_database_data(data.clone()), NOW, STALE);
    assert_eq!(finding_codes(&found), ["budget-used-up", "budget-over"]);
    assert_eq!(found[0].whom, ["user ann in gpu-hours", "association bob/A in gpu-hours"]);
    assert_eq!(found[1].whom, ["bank root in gpu-hours"]);
    data["budgets"] = json!([budget("bank", "A", NOW - 2.0, 8), budget("bank", "A", NOW + 9.0, 8)]);
    assert_eq!(finding_codes(&check_database(&make_checked_database_data(data), NOW, STALE)), [""; 0]);
}

#[test]
fn unknown_columns_are_found() {
    let mut newer = make_checked_database_data(healthy_site());
    let column =
        UnknownColumn { table: "queue_table", column: "x".to_owned(), default: "7".to_owned(), rows: 2 };
    newer.unknown = vec![column];
    assert_eq!(finding_codes(&check_database(&newer, NOW, STALE)), ["unknown-columns"]);
}

#[test]
fn a_configuration_that_was_not_checked_is_a_notice_with_the_reason() {
    let instance = Instance { unchecked: Some("no reason".to_owned()), ..make_instance(|_| ()) };
    let found = check_instance(&instance, None, NOW, STALE);
    let finding = found.iter().find(|finding| finding.code == "config-not-checked").expect("a finding");
    assert_eq!(
        (finding.weight, finding.text.ends_with("was not checked: no reason")),
        (Weight::Notice, true)
    );
}
