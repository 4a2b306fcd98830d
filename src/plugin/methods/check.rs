// SPDX-License-Identifier: LGPL-3.0-only
//! `check`: compares the counters in use with a recount.

use crate::jobtap::Reply;
use crate::plugin::MfPriority;
use crate::plugin::services::busy_error;
use crate::plugin::why::make_reply;
use fairshare_engine::engine::answers;

/// Recounts all live jobs, and answers with the counters that differ from those in use.
pub fn answer(plugin: &MfPriority) -> Reply {
    let mut check = plugin.engine.view(answers::check).ok_or_else(busy_error)?;
    check.overruled = plugin.others.overruled_job();
    make_reply(&check)
}
