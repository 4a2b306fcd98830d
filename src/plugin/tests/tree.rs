// SPDX-License-Identifier: LGPL-3.0-only
//! Tests that parse the tree of a push, and check the error texts of invalid trees.

use super::association_record;
use fairshare::accrual::HalfLife;
use fairshare::periods::Weights;
use fairshare::{Policy, Ties};
use fairshare_engine::standing::{SitePart, Watermark};
use fairshare_protocol::reading::Reader;
use fairshare_protocol::wire::{self, WireError};
use serde_json::{Value, json};

fn tree_record() -> Value {
    json!({
        "policy": "fair-tree", "options": {"ties": "slurm-program"}, "at": 1.7e9, "half_life": 604800, "reset": 1,
        "node_weight": 1, "core_weight": 0.5, "gpu_weight": 0,
    })
}

fn leaf_record() -> Value {
    let mut record = association_record();
    for (key, value) in [
        ("username", json!("ann")),
        ("shares", json!(3)),
        ("usage", json!(1.5)),
        ("counted_until", json!(17)),
    ] {
        record[key] = value;
    }
    record
}

fn read_site(part: Value) -> Result<SitePart, WireError> {
    wire::read_policy_part(Some(&part.to_string()), &mut Reader::default()).map(|(_, site)| site)
}

#[test]
fn a_tree_is_read_from_banks_and_associations() {
    let site = read_site(json!({
        "push": 1,
        "tree": tree_record(),
        "banks": [
            {"bank": "root", "priority": 0, "parent": "", "shares": 1, "active": 1},
            {"bank": "A", "priority": 2, "parent": "root", "shares": 30, "active": 0},
        ],
        "associations": [leaf_record(), association_record()],
    }))
    .unwrap();
    let rule = site.rule.unwrap();
    assert_eq!((rule.policy, rule.options.ties), (Policy::FairTree, Ties::SlurmProgram));
    assert_eq!((rule.instant, Some(rule.half_life)), (1.7e9, HalfLife::new(604_800.0)));
    assert_eq!(rule.reset, 1.0);
    assert_eq!(rule.weights, Weights { node: 1.0, core: 0.5, gpu: 0.0 });
    let banks: Vec<_> = site
        .banks
        .iter()
        .map(|bank| (bank.name.as_str(), bank.parent.as_ref().map(|parent| parent.as_str()), bank.active))
        .collect();
    assert_eq!(banks, [("root", None, true), ("A", Some("root"), false)]);
    // A record without shares and usage, such as the instance owner's, is not in the tree.
    assert_eq!(site.associations.len(), 1);
    let ann = &site.associations[0];
    assert_eq!((&*ann.name, ann.shares, ann.usage), ("ann", 3, Some(1.5)));
    assert_eq!(ann.counted, Watermark::through(17.0));
}

/// A push from an older program may contain a tree without a reset period.
#[test]
fn a_tree_without_a_reset_period_gets_the_default_of_flux_accounting() {
    let mut tree = tree_record();
    tree.as_object_mut().unwrap().remove("reset");
    let site = read_site(json!({"push": 1, "tree": tree})).unwrap();
    assert_eq!(site.rule.unwrap().reset, 28.0 * 86_400.0);
}

#[test]
fn a_push_without_a_tree_has_no_ranking_policy() {
    let plain =
        json!({"push": 1, "associations": [association_record()], "banks": [{"bank": "A", "priority": 1}]});
    assert_eq!(read_site(plain), Ok(SitePart::default()));
}

#[test]
fn an_error_names_the_member_of_the_tree() {
    let change = |mut record: Value, key: &str, value: Value| {
        record[key] = value;
        record
    };
    let of_tree = |key: &str, value: Value| json!({"push": 1, "tree": change(tree_record(), key, value)});
    let of_leaf =
        |key: &str, value: Value| json!({"push": 1, "associations": [change(leaf_record(), key, value)]});
    for (part, text) in [
        (
            of_tree("policy", json!("fairest")),
            "tree.policy: unknown policy \"fairest\"; known are weighted-walk, fair-tree, classic, depth-oblivious, pbs",
        ),
        (of_tree("policy", json!(3)), "tree.policy: expected string, got integer 3"),
        (
            of_tree("options", json!({"ties": "none"})),
            "tree.options: ties is \"none\", expected documented or slurm-program",
        ),
        (
            of_tree("half_life", json!(-1)),
            "tree.half_life: expected 0 (none) or at least 0.001 seconds, got -1",
        ),
        (of_tree("reset", json!(-1)), "tree.reset: expected 0 or more seconds, got -1"),
        (of_tree("reset", json!(null)), "tree.reset: expected number, got null"),
        (of_tree("at", json!("now")), "tree.at: expected number, got string"),
        (json!({"push": 1, "tree": {"policy": "pbs"}}), "tree.half_life: key is missing"),
        (
            of_leaf("shares", json!(-3)),
            "associations[0].shares: expected 0 or more, got -3 (user 5001, bank A)",
        ),
        (
            of_leaf("shares", json!("3")),
            "associations[0].shares: expected integer, got string (user 5001, bank A)",
        ),
        (of_leaf("usage", json!(null)), "associations[0].usage: key is missing (user 5001, bank A)"),
        (
            json!({"push": 1, "banks": [{"bank": "A", "priority": 0, "parent": "root"}]}),
            "banks[0].shares: key is missing (bank A)",
        ),
        (json!({"push": 1, "tree": []}), "tree: expected object, got array"),
    ] {
        assert_eq!(read_site(part), Err(WireError::Record(text.to_owned())));
    }
}

#[test]
fn a_document_with_an_invalid_tree_is_rejected() {
    let make_document = |parent: &str| {
        json!({
            "associations": [leaf_record()],
            "queues": [],
            "projects": [],
            "banks": [
                {"bank": "root", "priority": 0, "parent": "", "shares": 1, "active": 1},
                {"bank": "A", "priority": 2, "parent": parent, "shares": 30, "active": 1},
            ],
            "priority_factors": [],
            "tree": tree_record(),
        })
    };
    let check_tree = |document: &Value| {
        let read = wire::read_policy_update(Some(&document.to_string()), &mut Reader::default());
        let ((_, site), _) = read.expect("a document");
        site.check().map_err(|fault| fault.to_string())
    };
    assert_eq!(check_tree(&make_document("root")), Ok(()));
    let error = check_tree(&make_document("nowhere")).unwrap_err();
    assert_eq!(error, "bank \"A\": its parent \"nowhere\" does not exist");
    // A document without a usage rule has no tree, so the parents of its banks are not checked.
    let mut plain = make_document("nowhere");
    plain["tree"] = Value::Null;
    assert_eq!(check_tree(&plain), Ok(()));
}
