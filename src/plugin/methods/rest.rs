// SPDX-License-Identifier: LGPL-3.0-only
//! `rest`: makes held jobs of urgency 0 stay in SCHED under flux-accounting's plugin.

use crate::jobtap::{Host, Reply};
use crate::plugin::MfPriority;
use crate::plugin::services::refuse_payload;
use crate::plugin::why::make_reply;
use fairshare_engine::engine::{Event, Resting};
use fairshare_engine::ids::JobId;
use fairshare_protocol::request::read_selection;
use fairshare_protocol::wire::WireError;

/// Removes our dependencies from held jobs of urgency 0, which then stay in SCHED. Skips all other jobs, and jobs
/// that are also blocked by other plugins, because these would not reach SCHED.
pub fn answer(plugin: &MfPriority, host: Host<'_, MfPriority>, payload: Option<&str>) -> Reply {
    let flux = host.plugin();
    let wanted = read_selection(payload).map_err(|fault| refuse_payload(flux, "rest", &fault))?;
    let missing_error =
        || refuse_payload(flux, "rest", &WireError::Record("ids: they are missing".to_owned()));
    let ids = wanted.ids.ok_or_else(missing_error)?;
    let can_rest = |id: &JobId| {
        matches!(flux.read_urgency(id.0), Ok(0))
            && plugin.engine.view(|view| view.can_rest(*id)) == Some(true)
    };
    let (resting, left) = ids.into_iter().partition(can_rest);
    let answer = Resting { resting, left };
    plugin.handle_request_event(host, Event::Rest(answer.resting.clone()))?;
    make_reply(&answer)
}
