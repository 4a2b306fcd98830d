// SPDX-License-Identifier: LGPL-3.0-only
//! Shares the engine within the plugin. Each borrow ends before the plugin calls Flux, because Flux may re-enter the
//! plugin.

use fairshare_engine::engine::{Effect, Engine, Event, View};
use std::cell::RefCell;

/// The engine, borrowed only while one of these methods runs. A method returns `None` if the engine is already
/// borrowed, which should never happen.
pub(super) struct SharedEngine(RefCell<Engine>);

impl SharedEngine {
    pub fn new(engine: Engine) -> SharedEngine {
        SharedEngine(RefCell::new(engine))
    }

    /// Runs `update` with exclusive access to the engine. Returns `None` if the engine is already in use.
    pub fn update<R>(&self, update: impl FnOnce(&mut Engine) -> R) -> Option<R> {
        self.0.try_borrow_mut().ok().map(|mut engine| update(&mut engine))
    }

    /// Passes an event to the engine at `now`, in seconds since the epoch. Returns the effects, or `None` if the
    /// engine is already in use.
    pub fn feed(&self, now: f64, event: Event<'_>) -> Option<Vec<Effect>> {
        self.update(|engine| engine.handle(now, event))
    }

    /// Calls `read` with a view of the engine's state. Returns `None` if the engine is already in use.
    pub fn view<R>(&self, read: impl FnOnce(&View<'_>) -> R) -> Option<R> {
        self.read(|engine| read(&engine.view()))
    }

    /// Calls `read` with the engine, for state that a [`View`] does not show. Returns `None` if the engine is already
    /// in use.
    pub fn read<R>(&self, read: impl FnOnce(&Engine) -> R) -> Option<R> {
        self.0.try_borrow().ok().map(|engine| read(&engine))
    }
}
