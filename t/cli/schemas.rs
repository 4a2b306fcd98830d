// SPDX-License-Identifier: LGPL-3.0-only
//! Each document that a test gets from `--json` follows the schema in docs/schemas/.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Map, Value, json};

use super::RunResult;

/// Checks the output of a run with `--json`. Skips runs that failed, and runs without a document.
pub fn check(command: &Command, ran: &RunResult) {
    let arguments: Vec<_> = command.get_args().map(|argument| argument.to_string_lossy()).collect();
    if ran.status > 1 || ran.out.is_empty() || !arguments.iter().any(|argument| argument == "--json") {
        return;
    }
    if let Some(faults) = faults(&arguments[0], &ran.out) {
        panic!(
            "{arguments:?}: docs/schemas/{}.json does not describe this document: {faults}\n{}",
            arguments[0], ran.out
        );
    }
}

/// Returns the differences of a document from the schema of `command`, or `None` if there are none.
fn faults(command: &str, document: &str) -> Option<String> {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schemas"));
    let text = fs::read_to_string(path.join(command).with_extension("json")).expect("a schema");
    let mut schema: Value = serde_json::from_str(&text).expect("JSON");
    forbid_undeclared_members(&mut schema);
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let document: Value = serde_json::from_str(document).expect("JSON");
    let faults: Vec<String> =
        validator.iter_errors(&document).map(|fault| format!("{}: {fault}", fault.instance_path())).collect();
    (!faults.is_empty()).then(|| faults.join("\n"))
}

/// Forbids members that a schema does not name. The schemas in docs/ allow them, because a later version may have more.
fn forbid_undeclared_members(schema: &mut Value) {
    match schema {
        Value::Array(values) => values.iter_mut().for_each(forbid_undeclared_members),
        Value::Object(members) => {
            let is_schema =
                members.get("properties").is_some_and(Value::is_object) && is_object_schema(members);
            members.values_mut().for_each(forbid_undeclared_members);
            if is_schema && !members.contains_key("additionalProperties") {
                members.insert("additionalProperties".to_owned(), json!(false));
            }
        }
        _ => {}
    }
}

fn is_object_schema(schema: &Map<String, Value>) -> bool {
    schema.get("type") == Some(&json!("object"))
}

#[test]
fn a_member_without_a_schema_is_a_fault() {
    let document = |more: Value| {
        let mut document = json!({"accepted": true, "faults": []});
        document.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        document.to_string()
    };
    assert_eq!(faults("config", &document(json!({}))), None);
    for fault in [json!({"more": 1}), json!({"accepted": "yes"}), json!({"faults": [{"file": "a"}]})] {
        assert!(faults("config", &document(fault.clone())).is_some(), "{fault}");
    }
}
