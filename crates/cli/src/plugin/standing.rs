// SPDX-License-Identifier: LGPL-3.0-only
//! Fetches the pages of the plugin's answer to `standing`.

use serde_json::{Map, Value, json};

use super::ask::{Refusal, ask};
use fairshare_client::Flux;

/// Fetches pages until `most` associations are fetched or no page is left, and joins the pages into one
/// document. The result may have more than `most` associations, because pages are fetched whole.
pub(crate) fn fetch(flux: &Flux, wanted: &Map<String, Value>, most: usize) -> Result<Value, Refusal> {
    let mut wanted = wanted.clone();
    wanted.insert("limit".to_owned(), json!(100));
    let mut all: Value = ask(flux, "standing", &Value::Object(wanted.clone()))?;
    let mut next = all.get("next").cloned().unwrap_or_default();
    let count = |all: &Value| all.get("associations").and_then(Value::as_array).map_or(0, Vec::len);
    while !next.is_null() && count(&all) < most {
        wanted.insert("after".to_owned(), next);
        let mut page: Value = ask(flux, "standing", &Value::Object(wanted.clone()))?;
        next = page.get("next").cloned().unwrap_or_default();
        let more = page.get_mut("associations").map(Value::take);
        if let (Some(Value::Array(list)), Some(Value::Array(mut more))) = (all.get_mut("associations"), more)
        {
            list.append(&mut more);
        }
    }
    if let Some(all) = all.as_object_mut() {
        all.remove("next");
    }
    Ok(all)
}
