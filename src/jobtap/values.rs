// SPDX-License-Identifier: LGPL-3.0-only
//! Reading what the instance keeps in the KVS beside jobs.

use super::guard::Instance;
use super::pending::{Ask, Ticket, destroy};
use super::shared::{address, shared};
use super::{Host, Jobtap, Turn, sys};
use std::ffi::{CStr, c_char, c_void};
use std::ptr::null;
use std::rc::Rc;

impl<J: Jobtap> Host<'_, J> {
    /// Has [`Jobtap::value`] called with what is in this row of [`Jobtap::VALUES`], as soon as there is anything.
    pub fn read_value(self, row: usize) {
        let Some(key) = J::VALUES.get(row) else { return };
        let id = row as u64;
        let ticket = Rc::new(Ticket { instance: self.instance.at(), id });
        match self.instance.plugin.read_value(key, on_value::<J>, address(&ticket)) {
            Ok(future) => {
                let ask = Ask { future, _ticket: ticket };
                if let Some(former) = self.instance.values.under_way.borrow_mut().insert(id, ask) {
                    destroy(former.future);
                }
            }
            Err(_) => self.instance.jobtap.value(self, row, None),
        }
    }
}

unsafe extern "C" fn on_value<J: Jobtap>(future: *mut sys::flux_future_t, arg: *mut c_void) {
    // SAFETY: `arg` is the ticket of the read, which is freed only after its future was destroyed; the instance owns it.
    let (instance, id) = unsafe {
        let ticket = shared::<Ticket>(arg);
        (shared::<Instance<J>>(ticket.instance), ticket.id)
    };
    let body = || {
        let mut value: *const c_char = null();
        // SAFETY: the future is fulfilled; on success the value is a C string borrowed from it, or null.
        let text = unsafe {
            let rc = sys::flux_kvs_lookup_get(future, &raw mut value);
            (rc >= 0 && !value.is_null()).then(|| CStr::from_ptr(value).to_string_lossy().into_owned())
        };
        if let Some(ask) = instance.values.under_way.borrow_mut().remove(&id) {
            destroy(ask.future);
        }
        instance.jobtap.value(instance.host(), id as usize, text.as_deref());
    };
    instance.guarded(Turn::Value.name(), || None, body);
}
