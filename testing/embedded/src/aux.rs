// SPDX-License-Identifier: LGPL-3.0-only
//! Values that a plugin attaches to itself or to a job, each with its destructor.

use std::ffi::c_void;

use super::job::Errno;

/// Destructor of one value.
pub(super) type FreeFn = unsafe extern "C" fn(*mut c_void);

/// A list of values, some with a key. The values are destroyed in reverse order, as in Flux.
#[derive(Default)]
pub struct Aux {
    items: Vec<Item>,
}

struct Item {
    key: Option<String>,
    value: *mut c_void,
    destroy: Option<FreeFn>,
}

impl Drop for Item {
    fn drop(&mut self) {
        if let Some(destroy) = self.destroy {
            // SAFETY: the contract is that of flux_plugin_aux_set(3). The destructor is called once, with the value that was
            // registered with it. The plugin is still loaded, because the host drops every Aux before dlclose.
            unsafe { destroy(self.value) };
        }
    }
}

/// The value that `set` replaced. Its drop runs a destructor that may call the host, so no `RefCell` of the host may be
/// borrowed at the drop.
#[must_use]
pub(super) struct ReplacedAuxValue(#[allow(dead_code, reason = "kept for its drop")] Option<Item>);

impl Aux {
    /// Number of values.
    #[allow(clippy::len_without_is_empty, reason = "a count, not a collection")]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Sets or replaces a value; a null value deletes it.
    pub(super) fn set(
        &mut self,
        key: Option<String>,
        value: *mut c_void,
        destroy: Option<FreeFn>,
    ) -> Result<ReplacedAuxValue, Errno> {
        if key.is_none() && (value.is_null() || destroy.is_none()) {
            return Err(Errno::EINVAL);
        }
        let at = self.items.iter().position(|item| key.is_some() && item.key == key);
        let old = at.map(|at| self.items.remove(at));
        if !value.is_null() {
            self.items.push(Item { key, value, destroy });
        }
        Ok(ReplacedAuxValue(old))
    }

    pub(super) fn get(&self, key: &str) -> Option<*mut c_void> {
        self.items.iter().find(|item| item.key.as_deref() == Some(key)).map(|item| item.value)
    }

    /// Destroys all values, newest first.
    pub(super) fn destroy(mut self) {
        while self.items.pop().is_some() {}
    }
}
