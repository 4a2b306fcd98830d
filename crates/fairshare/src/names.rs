// SPDX-License-Identifier: LGPL-3.0-only
//! Stores each distinct name once, in one string.

use std::hash::{DefaultHasher, Hasher};

/// Marks a free slot. No name has this number.
const NONE: u32 = u32::MAX;

/// Distinct names, numbered in the order of first appearance.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    text: String,
    /// The positions in `text` at which the names end.
    ends: Vec<u32>,
}

impl Names {
    pub fn get(&self, name: u32) -> &str {
        let at = name as usize;
        let start = at.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        let end = self.ends.get(at).copied().unwrap_or(0);
        self.text.get(start as usize..end as usize).unwrap_or("")
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the allocated bytes of `text` and of `ends`.
    #[cfg(test)]
    pub fn memory(&self) -> (usize, usize) {
        (self.text.capacity(), bytes(&self.ends))
    }
}

/// Returns the allocated bytes of a column.
#[cfg(test)]
pub(super) fn bytes<T>(column: &Vec<T>) -> usize {
    column.capacity() * size_of::<T>()
}

/// Assigns numbers to names while a tree is built: a hash table with open addressing over [`Names`].
#[derive(Clone, Debug, Default)]
pub(super) struct Interner {
    names: Names,
    /// The slots. Their number is a power of two, and at most half of them are used.
    slots: Vec<Slot>,
    is_full: bool,
}

/// A slot of the hash table: the number of a name, and a part of the name's hash. If two hashes differ, the names need not be compared.
#[derive(Clone, Copy, Debug)]
struct Slot {
    number: u32,
    tag: u32,
}

impl Interner {
    /// Returns the number of `name`. A new name gets a new number.
    pub fn intern(&mut self, name: &str) -> u32 {
        if self.names.len() * 2 >= self.slots.len() {
            self.grow();
        }
        let hash = hash_name(name);
        let slot = self.find_slot(hash, |number| self.names.get(number) == name);
        if let Some(&found) = self.slots.get(slot)
            && found.number != NONE
        {
            return found.number;
        }
        let number = self.names.len();
        self.names.text.push_str(name);
        let (Ok(number), Ok(end)) = (u32::try_from(number), u32::try_from(self.names.text.len())) else {
            self.is_full = true;
            return 0;
        };
        self.names.ends.push(end);
        if let Some(free) = self.slots.get_mut(slot) {
            *free = Slot { number, tag: take_hash_tag(hash) };
        }
        number
    }

    /// Returns the names added until now.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Returns all names that were added. Returns `None` if more names were added than a u32 can count.
    pub fn finish(mut self) -> Option<Names> {
        self.names.text.shrink_to_fit();
        self.names.ends.shrink_to_fit();
        (!self.is_full).then_some(self.names)
    }

    /// Returns the slot of the name that has this hash and satisfies `matches`, or else the free slot for the name.
    fn find_slot(&self, hash: u64, matches: impl Fn(u32) -> bool) -> usize {
        let mask = self.slots.len().saturating_sub(1);
        let mut slot = hash as usize & mask;
        while let Some(&Slot { number, tag: own }) = self.slots.get(slot) {
            if number == NONE || (own == take_hash_tag(hash) && matches(number)) {
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
            let hash = hash_name(self.names.get(number));
            // All names are different, so the first free slot is the right one.
            let slot = self.find_slot(hash, |_| false);
            if let Some(free) = self.slots.get_mut(slot) {
                *free = Slot { number, tag: take_hash_tag(hash) };
            }
        }
    }
}

fn hash_name(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(name.as_bytes());
    hasher.finish()
}

/// Returns the upper half of a hash. The slot is chosen by the lower half.
fn take_hash_tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}
