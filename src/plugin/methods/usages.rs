// SPDX-License-Identifier: LGPL-3.0-only
//! `usages`: the usage of associations.

use crate::jobtap::{Host, Reply};
use crate::plugin::MfPriority;
use crate::plugin::services::{busy_error, refuse_payload};
use crate::plugin::why::make_reply;
use fairshare_engine::engine::answers;
use fairshare_protocol::request::read_page;

/// Answers with the usage of associations as of now, and their fair-share as of the last refresh, in pages by user id
/// and bank.
pub fn answer(plugin: &MfPriority, host: Host<'_, MfPriority>, payload: Option<&str>) -> Reply {
    let wanted = read_page(payload).map_err(|fault| refuse_payload(host.plugin(), "usages", &fault))?;
    let page =
        plugin.engine.view(|view| answers::usages(view, &wanted, host.now())).ok_or_else(busy_error)?;
    make_reply(&page)
}
