// SPDX-License-Identifier: LGPL-3.0-only
//! The panic hook of a loaded plugin. It logs every panic with its source location.
//!
//! The default hook also prints the thread's name, for which it uses a thread-local. The destructor of the thread-local
//! would keep the .so mapped.

use super::{Jobtap, LogLevel, Plugin};
use std::panic::{PanicHookInfo, set_hook, take_hook};

/// The plugin handle, for use in the panic hook. A hook must be `Send` and `Sync`.
struct HookHandle(Plugin);

// SAFETY: the job manager calls the plugin on one thread, and the plugin starts no threads, so the plugin panics only
// on that thread. Only one loaded instance has a hook (`SingleInstance`). The instance removes its hook before the
// handle is freed.
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
        // The hook's code may be unmapped after this drop, so the previous hook is restored first. `set_hook` fails
        // during a panic, but this value is never dropped during a panic.
        if let Some(previous) = self.0.take() {
            set_hook(previous);
        }
    }
}
