// SPDX-License-Identifier: LGPL-3.0-only

use serde_json::json;

use super::*;
use crate::ui::words::format_user_or_id;
use fairshare_accounting::store::{ConfigRecord, PolicyData};
use fairshare_engine::engine::answers::{DefaultBankChange, Snapshot};
use fairshare_engine::ids::UserId;
use fairshare_engine::standing::TreePage;
use fairshare_protocol::records::{AssociationRecord, BankRecord, LimitRecord, QueueRecord};

/// A user id that no machine has, so that messages show the id instead of a name.
const USER: i64 = 3_999_999_991;

fn make_site() -> PolicyData {
    let association = AssociationRecord {
        queues: "batch, debug".to_owned(),
        projects: "*".to_owned(),
        shares: Some(3),
        ..AssociationRecord::with_limits(USER, "A".to_owned(), 7)
    };
    let bank = |name: &str, parent: &str| BankRecord {
        bank: name.to_owned(),
        priority: 0.0,
        parent: Some(parent.to_owned()),
        shares: Some(1),
        active: Some(1),
    };
    let caps = BTreeMap::from([("run-nodes".to_owned(), 4)]);
    PolicyData {
        associations: vec![association],
        queues: vec![QueueRecord::unlimited("batch"), QueueRecord::unlimited("debug")],
        banks: vec![bank("root", ""), bank("A", "root")],
        limits: vec![LimitRecord {
            scope: "bank".to_owned(),
            name: "A".to_owned(),
            caps,
            ..LimitRecord::default()
        }],
        config: ConfigRecord::default(),
        ..PolicyData::default()
    }
}

/// Returns the state of a plugin after a push of [`make_site`].
fn plugin_state() -> Value {
    let queue = |name: &str| {
        let mut queue = serde_json::to_value(QueueRecord::unlimited(name)).expect("JSON");
        let name = queue["queue"].take();
        queue.as_object_mut().expect("an object").remove("queue");
        queue["name"] = name;
        queue
    };
    json!({
        "mf_priority_map": [{"userid": USER, "banks": [{
            "bank_name": "A", "max_run_jobs": 7, "max_active_jobs": 7, "max_nodes": 7, "max_cores": 7, "max_sched_jobs": 7,
            "queues": ["batch", "debug"], "projects": ["*"], "def_project": "", "active": 1,
        }]}],
        "queues": {"batch": queue("batch"), "debug": queue("debug")},
        "banks": {"root": 0.0, "A": 0.0},
        "limits": [{"scope": "bank", "name": "A", "measure": "run-nodes", "limit": 4, "counts": "asked"}],
    })
}

fn tree_pages() -> Vec<TreePage> {
    let page = json!({
        "now": 0.0, "generation": 1, "policy": "weighted-walk", "options": {}, "half_life": 0.0,
        "node_weight": 1.0, "core_weight": 0.0, "gpu_weight": 0.0, "next": null,
        "banks": [
            {"bank": "root", "parent": null, "shares": 1, "active": true, "usage": null},
            {"bank": "A", "parent": "root", "shares": 1, "active": true, "usage": null},
        ],
        "associations": [{"place": 0, "username": "u", "userid": USER, "bank": "A", "shares": 3, "active": true,
            "usage": 0.0, "fairshare": 0.5, "counted_until": 0.0}],
    });
    vec![serde_json::from_value(page).expect("a page")]
}

fn default_banks(banks: Option<[&str; 2]>) -> Vec<DefaultBankChange> {
    let change =
        |banks: [&str; 2]| DefaultBankChange { user: UserId(USER as u32), banks: banks.map(Into::into) };
    banks.map(change).into_iter().collect()
}

/// Compares [`make_site`] with the plugin's state after `edit`, and returns a line per difference.
fn list_differences(edit: impl FnOnce(&mut Value)) -> Vec<String> {
    compare_with_default(edit, None)
}

/// Like [`list_differences`]. `banks` are the user's default bank in the plugin, and the default bank that a
/// push would send.
fn compare_with_default(edit: impl FnOnce(&mut Value), banks: Option<[&str; 2]>) -> Vec<String> {
    let mut state = plugin_state();
    edit(&mut state);
    let state: Snapshot = serde_json::from_value(state).expect("a state");
    let stored = records::collect_database_records(&make_site());
    let loaded = records::collect_plugin_records(&state, &tree_pages(), &default_banks(banks), &[]);
    let kinds = RecordKind::VARIANTS.iter().copied().filter(|kind| *kind != RecordKind::Setting);
    let found = kinds.flat_map(|kind| compare(kind, &stored, &loaded));
    let line = |Difference { record, field, database, plugin, .. }: Difference| {
        let [database, plugin] = [database, plugin].map(Option::unwrap_or_default);
        format!(
            "{} {} {}: {database} {plugin}",
            record.kind.into_str(),
            record.name,
            field.unwrap_or_default()
        )
    };
    found.map(line).collect()
}

#[test]
fn a_site_and_the_plugin_after_its_push_do_not_differ() {
    assert_eq!(list_differences(|_| ()), [""; 0]);
}

#[test]
fn each_differing_value_is_listed() {
    let association = format!("association {}/A", format_user_or_id(u32::try_from(USER).expect("a user id")));
    let edited = list_differences(|state| {
        state["mf_priority_map"][0]["banks"][0]["max_nodes"] = 9.into();
        state["mf_priority_map"][0]["banks"][0]["queues"] = json!(["batch"]);
    });
    assert_eq!(
        edited,
        [format!("{association} max_nodes: 7 9"), format!("{association} queues: batch,debug batch")]
    );
    let gone = list_differences(|state| state["mf_priority_map"] = json!([]));
    assert_eq!(gone, [format!("{association} : present missing")]);
    let queue = list_differences(|state| state["queues"]["batch"]["priority"] = 5.into());
    assert_eq!(queue, ["queue batch priority: 0 5"]);
    let limit = list_differences(|state| state["limits"][0]["limit"] = 5.into());
    assert_eq!(limit, ["limit bank A run-nodes limit: 4 5"]);
    assert_eq!(
        compare_with_default(|_| (), Some(["B", "A"])),
        [format!("{association} is_default_bank: true false")]
    );
    let factor = list_differences(|state| state["factors"] = json!({"age": 0}));
    assert_eq!(factor, [""; 0]);
    let bank = list_differences(|state| state["banks"]["B"] = 0.0.into());
    assert_eq!(bank, ["bank B : missing present"]);
}

#[test]
fn diff_lists_queues_that_only_flux_or_only_the_database_has() {
    let configured = BTreeSet::from(["batch".to_owned(), "gpu".to_owned()]);
    let found = compare_queues(&configured, &make_site());
    let rows: Vec<_> = found
        .iter()
        .map(|it| (it.record.name.as_str(), it.database.as_deref(), it.flux.as_deref()))
        .collect();
    assert_eq!(
        rows,
        [("debug", Some("present"), Some("missing")), ("gpu", Some("missing"), Some("present"))]
    );
}

#[test]
fn diff_lists_the_usage_credits_that_no_sync_has_counted() {
    let credit = Credit {
        id: 3,
        user: "ann".to_owned(),
        bank: "A".to_owned(),
        amount: "-2".to_owned(),
        unit: "node-hours".to_owned(),
        ..Credit::default()
    };
    let data = PolicyData { uncounted_credits: vec![credit], ..PolicyData::default() };
    let listed: Vec<Difference> = list_uncounted_usage_credits(&data).collect();
    let expected = Difference {
        record: RecordId { kind: RecordKind::Credit, name: "ann/A credit 3".to_owned() },
        field: None,
        database: Some("-2 node-hours".to_owned()),
        plugin: Some("not counted".to_owned()),
        flux: None,
    };
    assert_eq!(listed, [expected]);
}
