// SPDX-License-Identifier: LGPL-3.0-only
//! The panic hook of a loaded plugin. It logs every panic with its source location.
//!
//! The default hook also prints the thread's name. For that it uses a thread-local whose destructor pins the .so.

use super::{Jobtap, LogLevel, Plugin};
use std::panic::{PanicHookInfo, set_hook, take_hook};

/// Makes the plugin handle usable in the hook, which must be `Send` and `Sync`.
struct Handle(Plugin);

// SAFETY: the job manager calls the plugin on one thread, and the plugin starts no threads, so panics of the plugin
// happen on that thread. One instance has a hook at a time (`SingleInstance`), and removes it before the handle is
// freed.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    fn plugin(&self) -> Plugin {
        self.0
    }
}

type Former = Box<dyn Fn(&PanicHookInfo<'_>) + Send + Sync>;

/// The installed hook. Dropping it restores the previous hook.
pub(super) struct Hook(Option<Former>);

/// Installs a hook that logs every panic.
pub(super) fn install<J: Jobtap>(plugin: Plugin) -> Hook {
    let handle = Handle(plugin);
    let former = take_hook();
    set_hook(Box::new(move |panic| {
        let message = panic.payload_as_str().unwrap_or("panic");
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        // The previous hook is restored before the handle is freed.
        handle.plugin().log(LogLevel::Error, &format!("{}: panic at {place}: {message}", J::title()));
    }));
    Hook(Some(former))
}

impl Drop for Hook {
    fn drop(&mut self) {
        // The hook's code may be unmapped after this. No hook can be set during a panic, but no path drops this value
        // during a panic.
        if let Some(former) = self.0.take() {
            set_hook(former);
        }
    }
}
