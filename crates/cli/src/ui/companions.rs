// SPDX-License-Identifier: LGPL-3.0-only
//! Adds readable forms to the plugin's answers in JSON: times by RFC 3339 next to seconds since the epoch, and job ids as strings.

#[cfg(test)]
use serde_json::json;
use serde_json::{Map, Value};

use super::figures::rfc3339;

/// Keys of times in seconds since the epoch.
const TIMES: &str = "now since submitted latest if_started when even_at half_at gone_at refreshed at estimated_start updated last_sync \
    next_boundary records_since as_of";
/// The keys of JSON members that contain a job id.
const JOBS: &[&str] = &["id", "job", "kept_for", "ahead", "behind"];

/// Adds `KEY_time` to each time in `document`, and `KEY_f58` and `KEY_decimal` to each job id. `f58` formats a job id as Flux shows it.
pub(crate) fn add_companion_members(document: &mut Value, f58: &dyn Fn(u64) -> String) {
    match document {
        Value::Array(values) => values.iter_mut().for_each(|value| add_companion_members(value, f58)),
        Value::Object(members) => {
            members.values_mut().for_each(|value| add_companion_members(value, f58));
            let added = list_companion_members(members, f58);
            members.extend(added);
        }
        _ => {}
    }
}

/// Returns true if the value of `key` is a time. `members` are all members of the object.
fn is_time(key: &str, members: &Map<String, Value>) -> bool {
    // `by` is a time only in an object with `amount`. `until` is a time only in an object with `since`. In all other
    // objects, these keys have texts.
    TIMES.split(' ').any(|time| time == key)
        || (key == "by" && members.contains_key("amount"))
        || (key == "until" && members.contains_key("since"))
}

/// Returns the readable forms of the times and job ids in an object.
fn list_companion_members(members: &Map<String, Value>, f58: &dyn Fn(u64) -> String) -> Map<String, Value> {
    let mut added = Map::new();
    for (key, value) in members {
        match value.as_u64() {
            _ if is_time(key, members) => {
                added.insert(format!("{key}_time"), value.as_f64().and_then(rfc3339).into());
            }
            Some(id) if JOBS.contains(&key.as_str()) => {
                added.insert(format!("{key}_f58"), f58(id).into());
                added.insert(format!("{key}_decimal"), id.to_string().into());
            }
            _ => {}
        }
    }
    added
}

/// Adds the schemas of the additional members to each object in a schema. For example, a time also has a member in
/// RFC 3339 format.
#[cfg(test)]
pub(crate) fn add_schemas_of_readable_members(schema: &mut Value) {
    match schema {
        Value::Array(values) => values.iter_mut().for_each(add_schemas_of_readable_members),
        Value::Object(members) => {
            members.values_mut().for_each(add_schemas_of_readable_members);
            if let Some(Value::Object(properties)) = members.get_mut("properties") {
                let added = make_readable_form_schemas(properties);
                properties.extend(added);
            }
        }
        _ => {}
    }
}

/// Returns the schemas of the additional members, such as `KEY_time` for a time.
#[cfg(test)]
fn make_readable_form_schemas(properties: &Map<String, Value>) -> Map<String, Value> {
    let text = |about: String| json!({"type": ["string", "null"], "description": about});
    let mut added = Map::new();
    for key in properties.keys() {
        if is_time(key, properties) {
            added.insert(format!("{key}_time"), text(format!("`{key}` by RFC 3339.")));
        }
        if JOBS.contains(&key.as_str()) {
            added.insert(format!("{key}_f58"), text(format!("`{key}` as Flux shows it.")));
            added.insert(format!("{key}_decimal"), text(format!("`{key}` in decimal.")));
        }
    }
    added
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_output_adds_readable_members_for_times_and_job_ids() {
        let mut document = json!({
            "now": 1_763_776_000.5, "generation": 7, "by": 3, "at": null,
            "jobs": [{"id": 17, "submitted": 0, "if_started": 120.0, "holds": [{"kept_for": 18, "frees": [{"id": 19, "amount": 2, "by": 60.0}]}]}],
        });
        add_companion_members(&mut document, &|id| format!("ƒ{id}"));
        assert_eq!(
            document,
            json!({
                "now": 1_763_776_000.5, "now_time": "2025-11-22T01:46:40Z", "generation": 7, "by": 3, "at": null, "at_time": null,
                "jobs": [{
                    "id": 17, "id_f58": "ƒ17", "id_decimal": "17", "submitted": 0, "submitted_time": "1970-01-01T00:00:00Z",
                    "if_started": 120.0, "if_started_time": "1970-01-01T00:02:00Z",
                    "holds": [{
                        "kept_for": 18, "kept_for_f58": "ƒ18", "kept_for_decimal": "18",
                        "frees": [{"id": 19, "id_f58": "ƒ19", "id_decimal": "19", "amount": 2, "by": 60.0, "by_time": "1970-01-01T00:01:00Z"}],
                    }],
                }],
            })
        );
    }
}
