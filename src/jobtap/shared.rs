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
/// `arg` came from [`address`] or [`give_to_c`] for the same `T`, and an `Rc` of the value exists for `'a`.
pub(super) unsafe fn borrow_from_c<'a, T>(arg: *mut c_void) -> &'a T {
    // SAFETY: `arg` is the address of a `T` that an `Rc` keeps alive for `'a`. All references to the value are shared.
    unsafe { &*arg.cast_const().cast::<T>() }
}

/// Gives the `Rc` to C, and returns the value's address.
pub(super) fn give_to_c<T>(value: Rc<T>) -> *mut c_void {
    Rc::into_raw(value).cast_mut().cast()
}

/// Takes back an `Rc` from C.
///
/// # Safety
/// `arg` came from [`give_to_c`] for the same `T`, and is taken back once.
pub(super) unsafe fn take_from_c<T>(arg: *mut c_void) -> Rc<T> {
    // SAFETY: `arg` came from `give_to_c` for the same `T`, and is taken back once.
    unsafe { Rc::from_raw(arg.cast_const().cast::<T>()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, OnceCell, RefCell};
    use std::collections::BTreeMap;

    struct Child {
        parent: *mut c_void,
        number: Cell<u32>,
    }

    #[derive(Default)]
    struct Parent {
        children: OnceCell<Vec<Rc<Child>>>,
        total: Cell<u32>,
        pending: RefCell<BTreeMap<u64, Rc<Child>>>,
    }

    /// Turns an address back into a value and uses the value, as a C callback does.
    fn use_address(arg: *mut c_void) {
        // SAFETY: the tests below keep the value alive.
        let child: &Child = unsafe { borrow_from_c(arg) };
        // SAFETY: as above.
        let parent: &Parent = unsafe { borrow_from_c(child.parent) };
        child.number.set(child.number.get() + 1);
        parent.total.set(parent.total.get() + child.number.get());
    }

    #[test]
    fn miri_an_address_stays_valid_when_children_are_added_later() {
        let parent = Rc::new(Parent::default());
        let parent_address = address(&parent);
        let children =
            (0..3).map(|n| Rc::new(Child { parent: parent_address, number: Cell::new(n) })).collect();
        assert!(parent.children.set(children).is_ok());
        let args: Vec<*mut c_void> = parent.children.get().into_iter().flatten().map(address).collect();
        let address_in_c = give_to_c(parent);
        args.iter().for_each(|arg| use_address(*arg));
        // SAFETY: the `Rc` was given to C above; `parent_address` is the address of the same value.
        let total = unsafe { borrow_from_c::<Parent>(parent_address) }.total.get();
        assert_eq!(total, 1 + 2 + 3);
        // SAFETY: the `Rc` is taken back once.
        let parent = unsafe { take_from_c::<Parent>(address_in_c) };
        assert_eq!((parent.total.get(), Rc::strong_count(&parent)), (6, 1));
    }

    #[test]
    fn miri_a_child_address_stays_valid_while_its_rc_is_moved() {
        let parent = Rc::new(Parent::default());
        let mut args = Vec::new();
        for id in 0..100 {
            let child = Rc::new(Child { parent: address(&parent), number: Cell::new(0) });
            args.push(address(&child));
            parent.pending.borrow_mut().insert(id, child);
        }
        for (id, arg) in (0..100).zip(args) {
            use_address(arg);
            // A continuation destroys its own future, so the `Rc` leaves the map before the last use of its address.
            let child = parent.pending.borrow_mut().remove(&id);
            use_address(arg);
            drop(child);
        }
        assert_eq!(parent.total.get(), 300);
    }
}
