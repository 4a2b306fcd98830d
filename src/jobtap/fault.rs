// SPDX-License-Identifier: LGPL-3.0-only
//! Injects panics at points that an environment variable names. Only tests of the boundary to C use this module.
//!
//! `MF_PRIORITY_FAULT=WHAT@WHERE`: WHAT is a callback, method, timer or future. WHERE is `before` or `after` its work,
//! or a number N for the moment before effect N is carried out. The panic happens once, and the variable is then
//! removed. With `WHAT@WHERE#K` the panic happens at the Kth occasion, with `WHAT@WHERE*` at every occasion.

use std::cell::RefCell;

const VARIABLE: &str = "MF_PRIORITY_FAULT";

/// The running calls, the innermost call last: the name, and the number of effects that the call has begun to carry out.
#[derive(Default)]
pub(super) struct Faults(RefCell<Vec<(String, usize)>>);

impl Faults {
    /// Records the start of a call.
    pub(super) fn record_call_start(&self, what: &str) {
        self.0.borrow_mut().push((what.to_owned(), 0));
        self.panic_if_requested("before");
    }

    /// Panics if a test requested a panic at the end of this call.
    pub(super) fn mark_call_as_done(&self) {
        self.panic_if_requested("after");
    }

    /// Records the end of the innermost call, also if the call panicked.
    pub(super) fn record_call_end(&self) {
        self.0.borrow_mut().pop();
    }

    /// Records that an effect begins.
    pub(super) fn count_effect_for_fault_injection(&self) {
        let Some(count) = self.0.borrow_mut().last_mut().map(|(_, count)| {
            *count += 1;
            *count
        }) else {
            return;
        };
        self.panic_if_requested(&count.to_string());
    }

    #[allow(clippy::panic)]
    fn panic_if_requested(&self, moment: &str) {
        let Some(what) = self.0.borrow().last().map(|(what, _)| what.clone()) else { return };
        let Ok(setting) = std::env::var(VARIABLE) else { return };
        let point = format!("{what}@{moment}");
        let Some(suffix) = setting.strip_prefix(&point) else { return };
        let occasions = suffix.strip_prefix('#').and_then(|times| times.parse::<u32>().ok());
        match (suffix, occasions) {
            ("*", _) => {}
            // SAFETY: the process that sets the variable runs one test in one thread.
            ("", _) | (_, Some(0 | 1)) => unsafe { std::env::remove_var(VARIABLE) },
            (_, Some(times)) => {
                // SAFETY: as above.
                unsafe { std::env::set_var(VARIABLE, format!("{point}#{}", times - 1)) };
                return;
            }
            _ => return,
        }
        panic!("fault injected: {point}");
    }
}
