// SPDX-License-Identifier: LGPL-3.0-only
//! Values of ours whose address C holds.
//!
//! A box claims its value alone each time it is moved, and so takes the right to it from an address that was given away
//! before. What C points to is therefore counted (`Rc`) and only ever shared: its address is good as long as one count
//! of it lives, wherever that count moves. Nothing here calls C; the `miri_` tests prove it.

use std::ffi::c_void;
use std::rc::Rc;

/// The address of what `value` counts, for C to hand back. It is good while a count lives.
pub(super) fn address<T>(value: &Rc<T>) -> *mut c_void {
    Rc::as_ptr(value).cast_mut().cast()
}

/// What C handed back.
///
/// # Safety
/// `arg` came from [`address`] or [`give`] for the same `T`, and a count of it lives for `'a`.
pub(super) unsafe fn shared<'a, T>(arg: *mut c_void) -> &'a T {
    // SAFETY: contract of this function. Only shared references to the value exist until its last count is dropped.
    unsafe { &*arg.cast_const().cast::<T>() }
}

/// Gives a count to C.
pub(super) fn give<T>(value: Rc<T>) -> *mut c_void {
    Rc::into_raw(value).cast_mut().cast()
}

/// Takes back a count that C has.
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

    /// What a trampoline does.
    fn called_back(arg: *mut c_void) {
        // SAFETY: the tests below keep the whole alive.
        let part: &Part = unsafe { shared(arg) };
        // SAFETY: as above.
        let whole: &Whole = unsafe { shared(part.whole) };
        part.number.set(part.number.get() + 1);
        whole.total.set(whole.total.get() + part.number.get());
    }

    #[test]
    fn miri_parts_are_made_after_the_address_of_their_whole_was_taken() {
        let whole = Rc::new(Whole::default());
        let at = address(&whole);
        let parts = (0..3).map(|n| Rc::new(Part { whole: at, number: Cell::new(n) })).collect();
        assert!(whole.parts.set(parts).is_ok());
        let args: Vec<*mut c_void> = whole.parts.get().into_iter().flatten().map(address).collect();
        let kept = give(whole);
        args.iter().for_each(|arg| called_back(*arg));
        // SAFETY: it was given above; `at` is the same value.
        let seen = unsafe { shared::<Whole>(at) }.total.get();
        assert_eq!(seen, 1 + 2 + 3);
        // SAFETY: taken back once.
        let whole = unsafe { take_back::<Whole>(kept) };
        assert_eq!((whole.total.get(), Rc::strong_count(&whole)), (6, 1));
    }

    #[test]
    fn miri_an_address_is_good_while_its_count_moves_through_a_map() {
        let whole = Rc::new(Whole::default());
        let mut args = Vec::new();
        for id in 0..100 {
            let part = Rc::new(Part { whole: address(&whole), number: Cell::new(0) });
            args.push(address(&part));
            whole.under_way.borrow_mut().insert(id, part);
        }
        for (id, arg) in (0..100).zip(args) {
            called_back(arg);
            // The count may go while its address was just used, as a future's continuation destroys the future.
            let part = whole.under_way.borrow_mut().remove(&id);
            called_back(arg);
            drop(part);
        }
        assert_eq!(whole.total.get(), 300);
    }
}
