// SPDX-License-Identifier: LGPL-3.0-only
//! Events that arrive while the plugin applies a snapshot in parts.
//! Rules: D19

use std::path::Path;

use serde_json::json;

use super::remember::{make_site_with_plugin_and_push, make_site_with_push, tree};
use super::{SO, Site, document, plugin};

/// Returns the number of associations that have an entry in the tree.
fn count_tree_entries(site: &Site) -> u64 {
    site.query()["live"]["associations"].as_u64().unwrap()
}

/// Returns a site whose plugin was reloaded and has staged some parts of the snapshot.
fn make_site_reading_snapshot() -> Site {
    make_site_reading_snapshot_with_plugin(plugin())
}

/// Returns a site like [`make_site_reading_snapshot`], but loads the plugin from the file `so`.
pub(super) fn make_site_reading_snapshot_with_plugin(so: &Path) -> Site {
    let site = make_site_with_plugin_and_push(so, &tree(200, f64::from));
    assert_eq!(count_tree_entries(&site), 200);
    site.host.remove(SO).unwrap();
    site.host.load(&site.so.path(), None).unwrap();
    while count_tree_entries(&site) == 0 {
        assert!(site.host.step(), "the plugin must still be reading the snapshot");
    }
    assert!(count_tree_entries(&site) < 200);
    site
}

#[test]
fn data_pushed_during_a_snapshot_read_drop_the_whole_snapshot() {
    let site = make_site_reading_snapshot();
    site.rpc("rec_update", &json!({"data": document()["associations"]})).unwrap();
    site.host.settle();
    assert_eq!(count_tree_entries(&site), 0);
    assert!(site.has_data() && site.host.kvs().is_empty());
}

#[test]
fn disabling_the_snapshot_while_it_is_read_removes_it_completely() {
    let site = make_site_reading_snapshot();
    site.host.reload_config(&json!({"fairshare": {"remember": false}})).unwrap();
    site.host.settle();
    assert_eq!(count_tree_entries(&site), 0);
    assert!(!site.has_data() && site.host.kvs().is_empty());
}

/// The plugin drops the staged parts of the snapshot, but must keep the staged parts of a client's push.
#[test]
fn data_pushed_during_a_snapshot_read_do_not_drop_an_open_push() {
    let site = make_site_reading_snapshot();
    let push = site.ask("policy_begin", &json!({}))["push"].clone();
    let mut part = document();
    part["push"] = push.clone();
    site.ask("policy_part", &part);
    site.rpc("rec_update", &json!({"data": document()["associations"]})).unwrap();
    site.ask("policy_commit", &json!({ "push": push }));
    site.host.settle();
    assert_eq!(site.pushed_data(), make_site_with_push(&document()).pushed_data());
}
