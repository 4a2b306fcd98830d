// SPDX-License-Identifier: LGPL-3.0-only
//! The documents that a history pushes.

use serde_json::{Value, json};

use super::super::{association, document, queue};

/// A user whose association arrives with a later push.
pub const LATE: u32 = 5009;

/// Returns [`document`] with the queue `closed`, and with user 5004, who may have one scheduled job.
pub fn first_document() -> Value {
    let mut document = document();
    document["queues"].as_array_mut().unwrap().push(queue("closed", json!({})));
    document["associations"].as_array_mut().unwrap().push(association(
        5004,
        "A",
        json!({"max_sched_jobs": 1}),
    ));
    document
}

/// Returns [`first_document`] with the association of user [`LATE`].
pub fn full_document() -> Value {
    let mut document = first_document();
    document["associations"].as_array_mut().unwrap().push(association(LATE, "A", json!({})));
    document
}

/// Returns the document with a tree, in which half of the users have usage.
pub fn with_tree(mut document: Value) -> Value {
    for (number, record) in document["associations"].as_array_mut().unwrap().iter_mut().enumerate() {
        let leaf = [
            ("username", json!(format!("u{number}"))),
            ("shares", json!(1 + number)),
            ("usage", json!(1000 * (number % 2))),
            ("counted_until", json!(1.0)),
        ];
        record.as_object_mut().unwrap().extend(leaf.map(|(key, value)| (key.to_owned(), value)));
    }
    let bank = |name: &str, parent: &str| json!({"bank": name, "priority": 0, "parent": parent, "shares": 1, "active": 1});
    document["banks"] = json!([bank("root", ""), bank("A", "root"), bank("B", "root")]);
    document["tree"] = json!({
        "policy": "fair-tree", "at": 1.0, "half_life": 604_800, "node_weight": 1, "core_weight": 0, "gpu_weight": 0,
    });
    document
}
