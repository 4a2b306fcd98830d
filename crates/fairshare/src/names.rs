// SPDX-License-Identifier: LGPL-3.0-only
//! Names kept once each, in one text.

use std::hash::{DefaultHasher, Hasher};

/// Stands for "no name" and "free slot".
const NONE: u32 = u32::MAX;

/// Each distinct name has a number, in the order of first appearance.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    text: String,
    /// Where each name ends in `text`.
    ends: Vec<u32>,
}

impl Names {
    /// The text of a name.
    pub fn get(&self, name: u32) -> &str {
        let at = name as usize;
        let start = at.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        let end = self.ends.get(at).copied().unwrap_or(0);
        self.text.get(start as usize..end as usize).unwrap_or("")
    }

    /// The number of names.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Bytes of the text and of its index.
    pub fn memory(&self) -> (usize, usize) {
        (self.text.capacity(), bytes(&self.ends))
    }
}

/// What a column holds in memory.
pub(super) fn bytes<T>(column: &Vec<T>) -> usize {
    column.capacity() * size_of::<T>()
}

/// Finds the number of a name while a tree is being built: open addressing over [`Names`], no copy of a name.
#[derive(Clone, Debug, Default)]
pub(super) struct Interner {
    names: Names,
    /// A power of two of slots, at most half of them used.
    slots: Vec<Slot>,
    full: bool,
}

/// A name's number, and a part of its hash: names that differ are told apart without a look at them, far away in memory.
#[derive(Clone, Copy, Debug)]
struct Slot {
    number: u32,
    tag: u32,
}

impl Interner {
    /// The number of `name`, a new one at its first appearance.
    pub fn intern(&mut self, name: &str) -> u32 {
        if self.names.len() * 2 >= self.slots.len() {
            self.grow();
        }
        let hash = hash(name);
        let slot = self.slot(hash, |number| self.names.get(number) == name);
        if let Some(&found) = self.slots.get(slot)
            && found.number != NONE
        {
            return found.number;
        }
        let number = self.names.len();
        self.names.text.push_str(name);
        let (Ok(number), Ok(end)) = (u32::try_from(number), u32::try_from(self.names.text.len())) else {
            self.full = true;
            return 0;
        };
        self.names.ends.push(end);
        if let Some(free) = self.slots.get_mut(slot) {
            *free = Slot { number, tag: tag(hash) };
        }
        number
    }

    /// The names so far.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The names, or `None` if there were too many to number.
    pub fn finish(mut self) -> Option<Names> {
        self.names.text.shrink_to_fit();
        self.names.ends.shrink_to_fit();
        (!self.full).then_some(self.names)
    }

    /// The slot of a name of this hash that `is_it`, or the free one where it belongs.
    fn slot(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> usize {
        let mask = self.slots.len().saturating_sub(1);
        let mut slot = hash as usize & mask;
        while let Some(&Slot { number, tag: own }) = self.slots.get(slot) {
            if number == NONE || (own == tag(hash) && is_it(number)) {
                break;
            }
            slot = (slot + 1) & mask;
        }
        slot
    }

    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(64);
        self.slots.clear();
        self.slots.resize(size, Slot { number: NONE, tag: 0 });
        for number in 0..self.names.len() as u32 {
            let hash = hash(self.names.get(number));
            // All are different: the first free one is it.
            let slot = self.slot(hash, |_| false);
            if let Some(free) = self.slots.get_mut(slot) {
                *free = Slot { number, tag: tag(hash) };
            }
        }
    }
}

fn hash(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(name.as_bytes());
    hasher.finish()
}

/// The half of a hash that does not choose the slot.
fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}
