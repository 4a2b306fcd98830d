// SPDX-License-Identifier: LGPL-3.0-only
//! Random hostile input for all code of the plugin that reads foreign data. See `drive.rs` for the loop.
//!
//! The input reaches the real .so through the embedded job manager, as in Flux. The tests check that nothing panics, that each request gets
//! one answer, that log lines have no line breaks, and that refused input changes nothing.

mod callbacks;
mod drive;
mod jobs;
mod json;
mod loads;
mod push;
mod rpc;

use std::collections::BTreeSet;

use serde_json::Value;

use super::abi::{Site, document};
use drive::{hash_feature, strip_values};

/// A site that several inputs use one after another, because a new site for each input would be slow.
#[derive(Default)]
struct SiteCache {
    site: Option<Site>,
    /// The cached result of [`configured_data`]. Without the cache, [`configured_data`] would take half of the run time.
    data: Option<Value>,
    used: usize,
}

impl SiteCache {
    /// Returns the cached site, or a new one if none exists. Every 500th call returns a new site. The caller gives the site back with
    /// [`SiteCache::put_back`] if it can be used again.
    fn take(&mut self) -> Site {
        self.used += 1;
        self.site.take().filter(|_| !self.used.is_multiple_of(500)).unwrap_or_else(Site::new)
    }

    fn put_back(&mut self, site: Site) {
        self.site = Some(site);
    }
}

/// Takes the log lines of the plugin. Checks that they contain no control characters and report no panic. Also checks that the plugin made
/// no forbidden calls. Returns hashes of the log lines.
fn check_log(site: &Site) -> BTreeSet<u64> {
    assert_eq!(site.host.violations(), Vec::<String>::new());
    let lines = site.host.take_log();
    assert!(lines.len() < 200, "{} lines in the log", lines.len());
    for line in &lines {
        assert!(!line.text.contains("panic"), "{}", line.text);
        assert!(!line.text.contains("internal error"), "{}", line.text);
        assert_no_control_characters("the log", &line.text);
        assert!(line.text.len() < 2000, "{} bytes: {}", line.text.len(), line.text);
    }
    lines.iter().map(|line| hash_feature(strip_values(&line.text))).collect()
}

/// Checks that a text contains no control character, such as a line break or a terminal escape.
fn assert_no_control_characters(what: &str, text: &str) {
    let control = text.chars().find(|c| c.is_control());
    assert_eq!(control, None, "{what}: {text:?}");
}

/// Returns the answer to the query without the keys that change with time.
fn configured_data(site: &Site) -> Value {
    let mut query = site.query();
    for key in ["generation", "age", "live"] {
        query.as_object_mut().unwrap().remove(key);
    }
    query
}

/// Converts JSON documents to inputs for the fuzz test.
fn seeds(documents: impl IntoIterator<Item = Value>) -> Vec<Vec<u8>> {
    documents.into_iter().map(|document| document.to_string().into_bytes()).collect()
}

/// Returns a valid document with a tree of banks and users, and their usages.
fn document_with_tree() -> Value {
    let mut all = document();
    all["tree"] = serde_json::json!({
        "policy": "fair-tree", "at": 1.7e9, "half_life": 604_800, "node_weight": 1, "core_weight": 0.25, "gpu_weight": 0,
        "options": {"ties": "slurm-program"},
    });
    let bank = |name: &str, parent: &str| serde_json::json!({"bank": name, "priority": 1.5, "parent": parent, "shares": 1, "active": 1});
    all["banks"] = [bank("root", ""), bank("A", "root"), bank("B", "root")].into_iter().collect();
    all["limits"] = serde_json::json!([{"scope": "bank", "name": "A", "run-nodes": 50}, {"scope": "user", "name": "*", "sched-jobs": 90}]);
    for record in all["associations"].as_array_mut().unwrap() {
        record["username"] = format!("u{}", record["userid"]).into();
        record["shares"] = 1.into();
        record["usage"] = 10.5.into();
        record["counted_until"] = 1.6e9.into();
    }
    all
}
