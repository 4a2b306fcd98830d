// SPDX-License-Identifier: LGPL-3.0-only
//! The panic hook of one loaded plugin: every panic is logged with its place.
//!
//! The default hook would also name the thread, through a thread-local whose destructor pins the .so.

use super::{Jobtap, LogLevel, Plugin};

/// Lets the hook, which any thread may call, hold the plugin handle.
struct Handle(Plugin);

// SAFETY: the job manager calls the plugin on one thread, and the plugin starts none, so no other can panic in it.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    fn plugin(&self) -> Plugin {
        self.0
    }
}

/// Has every panic logged, until [`remove`].
pub(super) fn install<J: Jobtap>(plugin: Plugin) {
    let handle = Handle(plugin);
    std::panic::set_hook(Box::new(move |panic| {
        let message = panic.payload_as_str().unwrap_or("panic");
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        // The hook is removed before the handle goes.
        handle.plugin().log(LogLevel::Error, &format!("{}: panic at {place}: {message}", J::title()));
    }));
}

/// Removes the hook, before its code is unmapped.
pub(super) fn remove() {
    drop(std::panic::take_hook());
}
