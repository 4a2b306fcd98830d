// SPDX-License-Identifier: LGPL-3.0-only
//! The panic hook of one loaded plugin: every panic is logged with its place.
//!
//! The default hook would also name the thread, through a thread-local whose destructor pins the .so.

use super::{Jobtap, LogLevel, Plugin};
use std::panic::{PanicHookInfo, set_hook, take_hook};

/// Lets the hook, which any thread may call, hold the plugin handle.
struct Handle(Plugin);

// SAFETY: the job manager calls the plugin on one thread, and the plugin starts none, so no other can panic in it.
// One instance has a hook at a time (`Only`), and gives it back before its handle goes.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    fn plugin(&self) -> Plugin {
        self.0
    }
}

type Former = Box<dyn Fn(&PanicHookInfo<'_>) + Send + Sync>;

/// The hook for as long as this lives; then the one from before is there again.
pub(super) struct Hook(Option<Former>);

/// Has every panic logged.
pub(super) fn install<J: Jobtap>(plugin: Plugin) -> Hook {
    let handle = Handle(plugin);
    let former = take_hook();
    set_hook(Box::new(move |panic| {
        let message = panic.payload_as_str().unwrap_or("panic");
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        // The hook is replaced by the former one before the handle goes.
        handle.plugin().log(LogLevel::Error, &format!("{}: panic at {place}: {message}", J::title()));
    }));
    Hook(Some(former))
}

impl Drop for Hook {
    fn drop(&mut self) {
        // Its code may be unmapped next. Nobody drops this while a panic unwinds, when no hook can be set.
        if let Some(former) = self.0.take() {
            set_hook(former);
        }
    }
}
