// SPDX-License-Identifier: LGPL-3.0-only
//! `associations`: the associations of `query`, in pages.

use crate::jobtap::{Host, Reply};
use crate::plugin::MfPriority;
use crate::plugin::services::{busy, refuse};
use crate::plugin::why::reply_in_order;
use fairshare_engine::engine::answers;
use fairshare_protocol::request::read_page;

/// Answers with one page of associations.
pub fn answer(plugin: &MfPriority, host: Host<'_, MfPriority>, payload: Option<&str>) -> Reply {
    let wanted = read_page(payload).map_err(|fault| refuse(host.plugin(), "associations", &fault))?;
    let page = plugin.engine.view(|view| answers::page(view, &wanted)).ok_or_else(busy)?;
    reply_in_order(&page)
}
