// SPDX-License-Identifier: LGPL-3.0-only
//! The page contains the data that `--json` prints, with names as text.

use serde_json::{Value, json};

use super::print;
use super::print::{ScenarioResult, SimulationJsonFields, build_document};
use crate::html::page::escape_html;
use crate::html::page::tests::split_page;
use fairshare_simulate::{BankShare, Distribution, Group, Measures};

const NAMES: [&str; 6] = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "]]>",
    "{{script}}{{data}}{{body}}{{title}}",
    "\u{2028}\u{202e}\u{7}\"'\\}",
    "&lt;",
];

/// Returns the result of a scenario `name`.
fn make_named_result(name: &str) -> ScenarioResult {
    let spread = Distribution { mean: 90.0, p50: 60.0, p95: 200.0, p99: f64::INFINITY };
    let group = Group { jobs: 3, wait: spread, slowdown: spread };
    let share = BankShare { promised: 0.25, delivered: None };
    let measures = Measures {
        all: group.clone(),
        banks: NAMES.iter().map(|bank| ((*bank).into(), (group.clone(), share))).collect(),
        sizes: [(1, group.clone()), (64, group.clone())].into(),
        jain: None,
        ..Measures::default()
    };
    ScenarioResult { name: name.to_owned(), measures }
}

fn make_facts(trace: &str) -> SimulationJsonFields {
    SimulationJsonFields { trace: trace.into(), jobs: 3, ..SimulationJsonFields::default() }
}

#[test]
fn a_page_contains_names_only_in_its_data_block() {
    let all: Vec<ScenarioResult> = NAMES.into_iter().map(make_named_result).collect();
    let title = "</title><script>\u{202e}&\"}";
    let trace = format!("/home/ann/{}", NAMES[1]);
    let (inside, around) = split_page(&print::build_html(title, &all, &make_facts(&trace)).expect("a page"));
    assert!(!inside.contains(['<', '>', '&']), "{inside}");
    assert!(!inside.contains("/home/ann"), "where the trace is stays here");
    let data: Value = serde_json::from_str(&inside).expect("JSON");
    assert_eq!((&data["title"], &data["format"]), (&json!(title), &json!(1)));
    // The document that --json prints, except for the directory of the trace.
    let wanted = build_document(&all, &make_facts(NAMES[1])).expect("a document");
    assert_eq!(data["simulation"], serde_json::from_slice::<Value>(&wanted).expect("JSON"));
    let groups = data["simulation"]["groups"].as_array().expect("groups");
    assert_eq!(groups.len(), NAMES.len() * (NAMES.len() + 2));
    assert_eq!(groups[0]["wait_p99"], json!("inf"));
    // Except for the data, all pages are equal.
    let plain = print::build_html("plain", &[make_named_result("y")], &make_facts("x")).expect("a page");
    assert_eq!(around.replace(&escape_html(title), "plain"), split_page(&plain).1);
}

#[test]
fn parent_shares_are_replaced_by_own_shares() {
    use fairshare::{Builder, Shares};

    let mut builder = Builder::default();
    builder.bank("root", None, Shares::Count(1), None, true);
    builder.bank("a", Some("root"), Shares::Count(3), None, true);
    builder.bank("b", Some("root"), Shares::Parent, None, true);
    builder.bank("c", Some("b"), Shares::Parent, None, true);
    for (user, bank, shares) in [
        ("u1", "a", Shares::Count(4)),
        ("u2", "a", Shares::Parent),
        ("u3", "b", Shares::Count(2)),
        ("u4", "c", Shares::Count(6)),
        ("u5", "c", Shares::Count(1)),
        ("u6", "root", Shares::Parent),
        ("u7", "root", Shares::Count(0)),
    ] {
        builder.association(user, bank, shares, None, true);
    }
    let tree = builder.build().expect("a tree");
    let replaced = super::site::replace_parent_shares(&tree);
    let mut named: Vec<(&str, u64)> =
        replaced.iter().map(|(node, shares)| (tree.name(*node), *shares)).collect();
    named.sort_unstable();
    assert_eq!(named, [("b", 9), ("c", 7), ("u2", 4), ("u6", 1)]);
}
