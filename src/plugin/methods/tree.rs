// SPDX-License-Identifier: LGPL-3.0-only
//! `tree`: the live tree, in pages.

use crate::jobtap::{ENOENT, Host, Reply};
use crate::plugin::MfPriority;
use crate::plugin::services::{busy_error, refuse_payload, request_error};
use crate::plugin::why::make_reply;
use fairshare_engine::engine::answers;
use fairshare_protocol::request::read_tree_page;

/// Answers with a page of banks and associations: their usage as of now, and their ranks.
pub fn answer(plugin: &MfPriority, host: Host<'_, MfPriority>, payload: Option<&str>) -> Reply {
    let (first, most) =
        read_tree_page(payload).map_err(|fault| refuse_payload(host.plugin(), "tree", &fault))?;
    let now = host.now();
    let found =
        plugin.engine.view(|view| answers::tree_page(view, first, most, now)).ok_or_else(busy_error)?;
    let text = "fair-share is not live: no push brought a tree, or \"live\" is false in the configuration";
    let page = found.ok_or_else(|| request_error(ENOENT, text.to_owned()))?;
    make_reply(&page)
}
