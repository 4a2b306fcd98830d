// SPDX-License-Identifier: LGPL-3.0-only
//! Random hostile input for all code that reads foreign data. See `drive.rs` for the loop.
//!
//! Input of the plugin goes through the real .so in the embedded job manager, as in Flux. Nothing panics, each request has one
//! answer, log lines have no line breaks, and refused input changes nothing.

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
use drive::{gist, seen};

/// A site that is reused for later inputs as long as inputs leave it unchanged.
#[derive(Default)]
struct Stand {
    site: Option<Site>,
    /// The result of [`configured`], if it is known: that query takes half of the time.
    shown: Option<Value>,
    used: usize,
}

impl Stand {
    /// Takes the site, or a new one if the last input failed or changed it too often. [`Stand::keep`] gives it back.
    fn take(&mut self) -> Site {
        self.used += 1;
        self.site.take().filter(|_| !self.used.is_multiple_of(500)).unwrap_or_else(Site::new)
    }

    fn keep(&mut self, site: Site) {
        self.site = Some(site);
    }
}

/// Checks that the log has only plain lines, that nothing panicked and that no rule of the host was broken. Returns hashes of the log texts.
fn said(site: &Site) -> BTreeSet<u64> {
    assert_eq!(site.host.violations(), Vec::<String>::new());
    let lines = site.host.take_log();
    assert!(lines.len() < 200, "{} lines in the log", lines.len());
    for line in &lines {
        assert!(!line.text.contains("panic"), "{}", line.text);
        assert!(!line.text.contains("internal error"), "{}", line.text);
        assert_plain("the log", &line.text);
        assert!(line.text.len() < 2000, "{} bytes: {}", line.text.len(), line.text);
    }
    lines.iter().map(|line| seen(gist(&line.text))).collect()
}

/// Checks that a text has no control character, such as a line break or a terminal escape.
fn assert_plain(what: &str, text: &str) {
    let strange = text.chars().find(|c| c.is_control());
    assert_eq!(strange, None, "{what}: {text:?}");
}

/// Returns the configured data of the query.
fn configured(site: &Site) -> Value {
    let mut query = site.query();
    for key in ["generation", "age", "live"] {
        query.as_object_mut().unwrap().remove(key);
    }
    query
}

/// Returns the bytes of documents.
fn seeds(documents: impl IntoIterator<Item = Value>) -> Vec<Vec<u8>> {
    documents.into_iter().map(|document| document.to_string().into_bytes()).collect()
}

/// Returns the valid document with banks, users and usages of a tree.
fn with_a_tree() -> Value {
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
