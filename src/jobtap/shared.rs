// SPDX-License-Identifier: LGPL-3.0-only
//! Shares values whose addresses C stores.
//!
//! Each move of a `Box` claims unique access, which makes addresses given to C before the move invalid. So values whose
//! addresses C stores are in an `Rc` and only shared. Such an address is valid while one `Rc` of the value exists,
//! wherever that `Rc` moves. This module does not call C; the `miri_` tests check it.

use std::ffi::c_void;
use std::rc::Rc;

/// Returns the address of the value, for C to pass to callbacks. The address is valid while an `Rc` of the value
/// exists.
pub(super) fn address<T>(value: &Rc<T>) -> *mut c_void {
    Rc::as_ptr(value).cast_mut().cast()
}

/// Returns the value at an address that C passed.
///
/// # Safety
/// `arg` came from [`address`] or [`give`] for the same `T`, and an `Rc` of the value exists for `'a`.
pub(super) unsafe fn shared<'a, T>(arg: *mut c_void) -> &'a T {
    // SAFETY: contract of this function. Only shared references to the value exist until its last `Rc` is dropped.
    unsafe { &*arg.cast_const().cast::<T>() }
}

/// Gives the `Rc` to C, and returns the value's address.
pub(super) fn give<T>(value: Rc<T>) -> *mut c_void {
    Rc::into_raw(value).cast_mut().cast()
}

/// Takes back an `Rc` from C.
///
/// # Safety
/// `arg` came from [`give`] for the same `T`, and is taken back once.
pub(super) unsafe fn take_back<T>(arg: *mut c_void) -> Rc<T> {
    // SAFETY: contract of this function.
    unsafe { Rc::from_raw(arg.cast_const().cast::<T>()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, OnceCell, RefCell};
    use std::collections::BTreeMap;

    struct Part {
        whole: *mut c_void,
        number: Cell<u32>,
    }

    #[derive(Default)]
    struct Whole {
        parts: OnceCell<Vec<Rc<Part>>>,
        total: Cell<u32>,
        under_way: RefCell<BTreeMap<u64, Rc<Part>>>,
    }

    /// Uses an address as a trampoline does.
    fn called_back(arg: *mut c_void) {
        // SAFETY: the tests below keep the value alive.
        let part: &Part = unsafe { shared(arg) };
        // SAFETY: as above.
        let whole: &Whole = unsafe { shared(part.whole) };
        part.number.set(part.number.get() + 1);
        whole.total.set(whole.total.get() + part.number.get());
    }

    #[test]
    fn miri_an_address_stays_valid_when_parts_are_added_later() {
        let whole = Rc::new(Whole::default());
        let whole_address = address(&whole);
        let parts = (0..3).map(|n| Rc::new(Part { whole: whole_address, number: Cell::new(n) })).collect();
        assert!(whole.parts.set(parts).is_ok());
        let args: Vec<*mut c_void> = whole.parts.get().into_iter().flatten().map(address).collect();
        let given = give(whole);
        args.iter().for_each(|arg| called_back(*arg));
        // SAFETY: the `Rc` was given to C above; `whole_address` is the address of the same value.
        let seen = unsafe { shared::<Whole>(whole_address) }.total.get();
        assert_eq!(seen, 1 + 2 + 3);
        // SAFETY: the `Rc` is taken back once.
        let whole = unsafe { take_back::<Whole>(given) };
        assert_eq!((whole.total.get(), Rc::strong_count(&whole)), (6, 1));
    }

    #[test]
    fn miri_an_address_stays_valid_while_its_count_moves_through_a_map() {
        let whole = Rc::new(Whole::default());
        let mut args = Vec::new();
        for id in 0..100 {
            let part = Rc::new(Part { whole: address(&whole), number: Cell::new(0) });
            args.push(address(&part));
            whole.under_way.borrow_mut().insert(id, part);
        }
        for (id, arg) in (0..100).zip(args) {
            called_back(arg);
            // The last `Rc` may be dropped just after its address was used: a continuation destroys its own future.
            let part = whole.under_way.borrow_mut().remove(&id);
            called_back(arg);
            drop(part);
        }
        assert_eq!(whole.total.get(), 300);
    }
}
