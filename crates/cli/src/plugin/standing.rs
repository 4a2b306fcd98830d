// SPDX-License-Identifier: LGPL-3.0-only
//! Fetches the pages of the plugin's answer to `standing`.

use serde_json::{Map, Value, json};

use super::ask::ask;
use crate::outcome::Result;
use fairshare_client::Flux;
use fairshare_engine::engine::answers::Standings;

/// Fetches pages until `most` associations are fetched or no page is left, and joins the pages into one
/// answer. The result may have more than `most` associations, because pages are fetched whole.
pub(crate) fn fetch(flux: &Flux, wanted: &Map<String, Value>, most: usize) -> Result<Standings> {
    let mut wanted = wanted.clone();
    wanted.insert("limit".to_owned(), json!(100));
    let mut all: Standings = ask(flux, "standing", &Value::Object(wanted.clone()))?;
    while let Some(next) = all.next.take().filter(|_| all.associations.len() < most) {
        wanted.insert("after".to_owned(), json!(next));
        let page: Standings = ask(flux, "standing", &Value::Object(wanted.clone()))?;
        all.associations.extend(page.associations);
        all.next = page.next;
    }
    Ok(all)
}
