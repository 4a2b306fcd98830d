// SPDX-License-Identifier: LGPL-3.0-only
//! Stores each distinct name once, in one string.

use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;
use std::hash::{DefaultHasher, Hasher};

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

/// Assigns numbers to names while a tree is built.
#[derive(Clone, Debug, Default)]
pub(super) struct Interner {
    /// The names added until now.
    pub names: Names,
    /// The numbers of the names by their hashes. If the hash of a name is taken, the name has the next free key.
    numbers: FxHashMap<u64, u32>,
    is_full: bool,
}

impl Interner {
    /// Returns the number of `name`. A new name gets a new number.
    pub fn intern(&mut self, name: &str) -> u32 {
        let mut key = hash_name(name);
        let free = loop {
            match self.numbers.entry(key) {
                Entry::Occupied(known) if self.names.get(*known.get()) == name => return *known.get(),
                Entry::Occupied(_) => key = key.wrapping_add(1),
                Entry::Vacant(free) => break free,
            }
        };
        let number = self.names.len();
        self.names.text.push_str(name);
        let (Ok(number), Ok(end)) = (u32::try_from(number), u32::try_from(self.names.text.len())) else {
            self.is_full = true;
            return 0;
        };
        self.names.ends.push(end);
        *free.insert(number)
    }

    /// Returns all names that were added. Returns `None` if more names were added than a u32 can count.
    pub fn finish(mut self) -> Option<Names> {
        self.names.text.shrink_to_fit();
        self.names.ends.shrink_to_fit();
        (!self.is_full).then_some(self.names)
    }
}

fn hash_name(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(name.as_bytes());
    hasher.finish()
}
