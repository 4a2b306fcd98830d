// SPDX-License-Identifier: LGPL-3.0-only
//! `priorities`: posted and current priorities of pending jobs.

use crate::jobtap::{Host, Reply};
use crate::plugin::MfPriority;
use crate::plugin::services::{busy_error, refuse_payload};
use crate::plugin::why::make_reply;
use fairshare_engine::engine::answers;
use fairshare_protocol::request::read_selection;

/// Answers with the posted and the current priorities of the jobs in the request, or of a page of all pending jobs by
/// id.
pub fn answer(plugin: &MfPriority, host: Host<'_, MfPriority>, payload: Option<&str>) -> Reply {
    let wanted =
        read_selection(payload).map_err(|fault| refuse_payload(host.plugin(), "priorities", &fault))?;
    let page =
        plugin.engine.view(|view| answers::priorities(view, wanted, host.now())).ok_or_else(busy_error)?;
    make_reply(&page)
}
