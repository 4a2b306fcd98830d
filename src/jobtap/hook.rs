// SPDX-License-Identifier: LGPL-3.0-only
//! The panic hook of a loaded plugin. It logs every panic with its source location.
//!
//! The default hook also prints the thread's name, for which it uses a thread-local. The destructor of the thread-local
//! would keep the .so mapped.

use super::{Jobtap, LogLevel, Plugin};
use std::panic::{PanicHookInfo, set_hook, take_hook};

/// Allows the hook, which must be `Send` and `Sync`, to use the plugin handle.
struct HookHandle(Plugin);

// SAFETY: the job manager calls the plugin on one thread, and the plugin starts no threads, so panics of the plugin
// happen on that thread. One instance has a hook at a time (`SingleInstance`), and removes it before the handle is
// freed.
unsafe impl Send for HookHandle {}
// SAFETY: as above.
unsafe impl Sync for HookHandle {}

impl HookHandle {
    fn plugin(&self) -> Plugin {
        self.0
    }
}

type PreviousHook = Box<dyn Fn(&PanicHookInfo<'_>) + Send + Sync>;

/// The installed hook. Dropping it restores the previous hook.
pub(super) struct Hook(Option<PreviousHook>);

/// Installs a hook that logs every panic.
pub(super) fn install_hook<J: Jobtap>(plugin: Plugin) -> Hook {
    let handle = HookHandle(plugin);
    let previous = take_hook();
    set_hook(Box::new(move |panic| {
        let message = panic.payload_as_str().unwrap_or("panic");
        let location = panic.location().map(ToString::to_string).unwrap_or_default();
        // The previous hook is restored before the handle is freed.
        handle.plugin().log(LogLevel::Error, &format!("{}: panic at {location}: {message}", J::title()));
    }));
    Hook(Some(previous))
}

impl Drop for Hook {
    fn drop(&mut self) {
        // The hook's code may be unmapped after this drop, so the previous hook is restored first. During a panic no
        // hook can be set, but no path drops this value during a panic.
        if let Some(previous) = self.0.take() {
            set_hook(previous);
        }
    }
}
