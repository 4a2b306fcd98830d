// SPDX-License-Identifier: LGPL-3.0-only
//! `rec_update` and the other methods by which flux-accounting pushes in pieces, and `reprioritize`, which ends such
//! a push.

use super::changes::log_push;
use crate::jobtap::{Host, Reply, Request};
use crate::plugin::MfPriority;
use crate::plugin::costs::PushStep;
use crate::plugin::services::{accept, log_omitted_warnings, log_warnings, request_error};
use fairshare_engine::accounts::Difference;
use fairshare_engine::engine::Event;
use fairshare_protocol::reading::Reader;
use fairshare_protocol::wire::WireError;
use std::cell::Cell;

/// The sum of the changes of all pieces since the last log line about a push.
#[derive(Default)]
pub struct PushInPieces(Cell<Option<Difference>>);

impl PushInPieces {
    fn add_difference(&self, difference: Difference) {
        let mut sum = self.0.get().unwrap_or_default();
        sum.add(difference);
        self.0.set(Some(sum));
    }

    /// Returns the sum and resets it. Returns `None` if no piece came.
    pub fn take_sum(&self) -> Option<Difference> {
        self.0.take()
    }
}

/// Puts the data of one of flux-accounting's methods in force. `read` parses them, and `make_event` makes the engine's event.
pub fn answer<T>(
    plugin: &MfPriority,
    host: Host<'_, MfPriority>,
    request: &Request<'_>,
    method: &str,
    read: fn(Option<&str>, &mut Reader) -> Result<T, WireError>,
    make_event: fn(T) -> Event<'static>,
) -> Reply {
    let mut reader = Reader::default();
    let event = make_event(accept(host, method, read(request.payload, &mut reader))?);
    log_warnings(host.plugin(), &mut reader.warnings);
    log_omitted_warnings(host.plugin(), &reader.warnings);
    let outcome = plugin.handle_request_event(host, event);
    // The data are in force, even if Flux refused an effect.
    plugin.note_update();
    plugin.pieces.add_difference(plugin.view(|view| view.latest_difference())?);
    plugin.advance_snapshot(host, |snapshot, _| snapshot.note_push(false));
    outcome.map_err(|refused| {
        request_error(refused.errno, format!("the data are in force, but: {}", refused.text))
    })?;
    Ok(None)
}

/// Ends a push in pieces: logs the sum of its changes, and makes Flux ask for all priorities.
pub fn reprioritize(plugin: &MfPriority, host: Host<'_, MfPriority>, _: &Request<'_>) -> Reply {
    if let Some(difference) = plugin.pieces.take_sum() {
        let generation = plugin.view(|view| view.generation())?;
        log_push(host.plugin(), "push", generation, difference);
        plugin.costs.note_step(PushStep::End);
    }
    plugin.handle_request_event(host, Event::Reprioritize)?;
    Ok(None)
}
