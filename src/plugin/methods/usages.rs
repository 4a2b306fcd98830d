// SPDX-License-Identifier: LGPL-3.0-only
//! `usages`: the usage of associations.

use crate::jobtap::{Host, Reply};
use crate::plugin::MfPriority;
use crate::plugin::services::{busy, refuse};
use fairshare_engine::engine::answers;
use fairshare_protocol::wire;
use serde_json::json;

/// Answers with the usage of associations as of now, and their fair-share as of the last refresh, in pages by user id
/// and bank.
pub fn answer(plugin: &MfPriority, host: Host<'_, MfPriority>, payload: Option<&str>) -> Reply {
    let wanted = wire::page(payload).map_err(|fault| refuse(host.plugin(), "usages", &fault))?;
    let now = host.now();
    let (used, next) = plugin.engine.view(|view| answers::usages(view, &wanted, now)).ok_or_else(busy)?;
    Ok(Some(json!({"now": now, "associations": used, "next": next}).to_string()))
}
