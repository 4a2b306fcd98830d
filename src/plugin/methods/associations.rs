// SPDX-License-Identifier: LGPL-3.0-only
//! `associations`: the associations of `query`, in pages.

use crate::jobtap::{Host, Reply};
use crate::plugin::MfPriority;
use crate::plugin::services::{busy_error, refuse_payload};
use crate::plugin::why::make_ordered_reply;
use fairshare_engine::engine::answers;
use fairshare_protocol::request::read_page;

/// Answers with one page of associations.
pub fn answer(plugin: &MfPriority, host: Host<'_, MfPriority>, payload: Option<&str>) -> Reply {
    let wanted = read_page(payload).map_err(|fault| refuse_payload(host.plugin(), "associations", &fault))?;
    let page = plugin.engine.view(|view| answers::page(view, &wanted)).ok_or_else(busy_error)?;
    make_ordered_reply(&page)
}
