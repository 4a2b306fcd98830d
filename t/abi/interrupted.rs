// SPDX-License-Identifier: LGPL-3.0-only
//! The snapshot is applied in parts, and other events arrive between two parts.

use std::path::Path;

use serde_json::json;

use super::remember::{pushed, pushed_into, tree};
use super::{SO, Site, document, plugin};

/// Returns the number of associations with data for the tree.
fn cells(site: &Site) -> u64 {
    site.query()["live"]["associations"].as_u64().unwrap()
}

/// Returns a site with a reloaded plugin that has staged some parts of the snapshot.
fn amid_the_parts() -> Site {
    amid_the_parts_of(plugin())
}

/// Returns the same site with another .so.
pub(super) fn amid_the_parts_of(so: &Path) -> Site {
    let site = pushed_into(so, &tree(200, f64::from));
    assert_eq!(cells(&site), 200);
    site.host.remove(SO).unwrap();
    site.host.load(&site.so.path(), None).unwrap();
    while cells(&site) == 0 {
        assert!(site.host.step(), "it is read and applied");
    }
    assert!(cells(&site) < 200);
    site
}

#[test]
fn data_during_a_read_drop_the_whole_snapshot() {
    let site = amid_the_parts();
    site.rpc("rec_update", &json!({"data": document()["associations"]})).unwrap();
    site.host.settle();
    assert_eq!(cells(&site), 0);
    assert!(site.has_data() && site.host.kvs().is_empty());
}

#[test]
fn switching_off_during_a_read_removes_the_whole_snapshot() {
    let site = amid_the_parts();
    site.host.reload_config(&json!({"fairshare": {"remember": false}})).unwrap();
    site.host.settle();
    assert_eq!(cells(&site), 0);
    assert!(!site.has_data() && site.host.kvs().is_empty());
}

/// The parts of a client's push are not dropped with the snapshot.
#[test]
fn an_open_push_is_not_given_up_with_a_record() {
    let site = amid_the_parts();
    let push = site.ask("policy_begin", &json!({}))["push"].clone();
    let mut part = document();
    part["push"] = push.clone();
    site.ask("policy_part", &part);
    site.rpc("rec_update", &json!({"data": document()["associations"]})).unwrap();
    site.ask("policy_commit", &json!({ "push": push }));
    site.host.settle();
    assert_eq!(site.policy(), pushed(&document()).policy());
}
