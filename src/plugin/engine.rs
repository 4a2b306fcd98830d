// SPDX-License-Identifier: LGPL-3.0-only
//! Shares the engine within the plugin. Each borrow ends before the plugin calls Flux, because Flux may re-enter the
//! plugin.

use fairshare_engine::engine::{Effect, Engine, Event, View};
use std::cell::RefCell;

/// The engine, borrowed only while one of these methods runs. A method returns `None` if the engine is already
/// borrowed, which no path of the plugin leads to.
pub(super) struct SharedEngine(RefCell<Engine>);

impl SharedEngine {
    pub fn new(engine: Engine) -> SharedEngine {
        SharedEngine(RefCell::new(engine))
    }

    /// Runs `decide` with exclusive access to the engine.
    pub fn decide<R>(&self, decide: impl FnOnce(&mut Engine) -> R) -> Option<R> {
        self.0.try_borrow_mut().ok().map(|mut engine| decide(&mut engine))
    }

    /// Passes an event to the engine at `now`, in seconds since the epoch. Returns the effects.
    pub fn feed(&self, now: f64, event: Event<'_>) -> Option<Vec<Effect>> {
        self.decide(|engine| engine.handle(now, event))
    }

    /// Calls `look` with a view of the engine's state.
    pub fn view<R>(&self, look: impl FnOnce(&View<'_>) -> R) -> Option<R> {
        self.read(|engine| look(&engine.view()))
    }

    /// Calls `look` with the engine, for state that a [`View`] does not show.
    pub fn read<R>(&self, look: impl FnOnce(&Engine) -> R) -> Option<R> {
        self.0.try_borrow().ok().map(|engine| look(&engine))
    }
}
