// SPDX-License-Identifier: LGPL-3.0-only
//! Ordered lists of members with sizes. A search for the first member that fits skips most members.
//!
//! The members are in blocks. Each block stores the least nodes, cores and GPUs of its members. A limit that has headroom for a job has
//! headroom for each smaller job. So if the least size of a block does not fit, no member of the block fits. A search takes O(number of
//! blocks + size of a block).

use super::size::{ChargeFactor, Size};
use crate::ids::JobId;
use std::collections::BTreeMap;
use std::ops::Bound;

/// The maximum number of members in one block of a list.
const BLOCK: usize = 512;

/// A size that is larger than the size of any job.
const LARGEST: Size =
    Size { charge_factor: ChargeFactor::new(f64::MAX), ..Size::new(u64::MAX, u64::MAX, u64::MAX) };

#[derive(Clone, Debug)]
struct Block<K> {
    members: BTreeMap<K, Size>,
    least: Size,
}

impl<K: Ord> Block<K> {
    fn with_members(members: BTreeMap<K, Size>) -> Block<K> {
        let least = members.values().fold(LARGEST, |least, size| least.take_least_measures(*size));
        Block { members, least }
    }
}

/// A list that is sorted by key. Each member has a size.
#[derive(Clone, Debug)]
pub(super) struct SizedLine<K> {
    /// The blocks. The key of a block is at most the key of its first member. All members have keys below the key of
    /// the next block.
    blocks: BTreeMap<K, Block<K>>,
}

/// Held jobs in the order of their ids.
pub(super) type HeldLine = SizedLine<JobId>;

impl<K> Default for SizedLine<K> {
    fn default() -> Self {
        SizedLine { blocks: BTreeMap::new() }
    }
}

/// Two lists are equal if they have the same keys. The division into blocks does not matter.
impl<K: Ord + Copy> PartialEq for SizedLine<K> {
    fn eq(&self, other: &SizedLine<K>) -> bool {
        self.ids().eq(other.ids())
    }
}

impl<K: Ord + Copy> SizedLine<K> {
    /// Returns the minimum of each field of [`Size`] over all members. Returns `None` if the list is empty.
    pub fn least_size(&self) -> Option<Size> {
        self.blocks.values().map(|block| block.least).reduce(Size::take_least_measures)
    }

    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub fn contains(&self, id: K) -> bool {
        self.blocks.range(..=id).next_back().is_some_and(|(_, block)| block.members.contains_key(&id))
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.blocks.values().map(|block| block.members.len()).sum()
    }

    /// Returns the number of list members before `id`.
    pub fn count_members_below_id(&self, id: K) -> usize {
        let mut upto = self.blocks.range(..id);
        let last = upto.next_back().map_or(0, |(_, block)| block.members.range(..id).count());
        upto.map(|(_, block)| block.members.len()).sum::<usize>() + last
    }

    pub fn ids(&self) -> impl Iterator<Item = K> {
        self.blocks.values().flat_map(|block| block.members.keys().copied())
    }

    pub fn insert(&mut self, id: K, size: Size) {
        if self.blocks.range(..=id).next_back().is_none() {
            // The new member is the first in the list. So the first block gets the id of the new member as its key.
            let first = self.blocks.pop_first().map(|(_, block)| block);
            self.blocks.insert(id, first.unwrap_or_else(|| Block::with_members(BTreeMap::new())));
        }
        let Some((_, block)) = self.blocks.range_mut(..=id).next_back() else { return };
        block.members.insert(id, size);
        block.least = block.least.take_least_measures(size);
        if block.members.len() > BLOCK
            && let Some(middle) = block.members.keys().nth(BLOCK / 2).copied()
        {
            let upper = block.members.split_off(&middle);
            *block = Block::with_members(std::mem::take(&mut block.members));
            self.blocks.insert(middle, Block::with_members(upper));
        }
    }

    pub fn remove(&mut self, id: K) {
        let Some((key, block)) = self.blocks.range_mut(..=id).next_back() else { return };
        let Some(size) = block.members.remove(&id) else { return };
        if block.members.is_empty() {
            let key = *key;
            self.blocks.remove(&key);
        } else if size.has_least_amount_of_a_resource(block.least) {
            *block = Block::with_members(std::mem::take(&mut block.members));
        }
    }

    /// Returns the first member after `after` whose size fits. If a size fits, `fits` must also return true for each
    /// smaller size.
    pub fn find_next(&self, after: Option<K>, mut fits: impl FnMut(Size) -> bool) -> Option<K> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        // The search starts in the block of `after`, and continues in the later blocks.
        let first = after.and_then(|id| self.blocks.range(..=id).next_back());
        let later = self.blocks.range((from, Bound::Unbounded));
        first.into_iter().chain(later).find_map(|(_, block)| {
            if !fits(block.least) {
                return None;
            }
            let mut members = block.members.range((from, Bound::Unbounded));
            members.find(|(_, size)| fits(**size)).map(|(id, _)| *id)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn make_size(nodes: u64, cores: u64) -> Size {
        Size::new(nodes, cores, (nodes * cores) % 7)
    }

    /// Job 2 has the fewest nodes, cores or GPUs. After job 2 is removed, the least size is the size of job 1.
    #[test]
    fn the_least_size_of_held_jobs_changes_when_the_smallest_job_is_removed() {
        let make_size = |nodes, cores, gpus, hours: f64, factor| Size {
            charge_factor: ChargeFactor::new(factor),
            ..Size::new(nodes, cores, gpus).with_time_limit(hours * 3600.0)
        };
        let other = make_size(5, 5, 5, 5.0, 5.0);
        for least in [
            make_size(1, 9, 9, 9.0, 9.0),
            make_size(9, 1, 9, 9.0, 9.0),
            make_size(9, 9, 1, 9.0, 9.0),
            make_size(9, 9, 9, 1.0, 9.0),
            make_size(9, 9, 9, 9.0, 1.0),
        ] {
            let mut line = HeldLine::default();
            line.insert(JobId(1), other);
            line.insert(JobId(2), least);
            assert_eq!(line.least_size(), Some(least.take_least_measures(other)));
            line.remove(JobId(2));
            assert_eq!(line.least_size(), Some(other));
        }
    }

    #[test]
    fn no_block_exceeds_its_capacity_in_any_order_of_insertions() {
        let count = 8 * BLOCK as u64;
        let rising: Vec<u64> = (0..count).collect();
        let falling: Vec<u64> = (0..count).rev().collect();
        let outwards: Vec<u64> = (0..count / 2).flat_map(|at| [count / 2 + at, count / 2 - 1 - at]).collect();
        for (what, ids) in [("rising", rising), ("falling", falling), ("outwards", outwards)] {
            let mut line = HeldLine::default();
            for id in ids {
                line.insert(JobId(id), make_size(1 + id % 7, 1 + id % 5));
                let longest = line.blocks.values().map(|block| block.members.len()).max();
                assert!(longest <= Some(BLOCK), "{what}: {longest:?}");
            }
            assert!(line.ids().map(|id| id.0).eq(0..count), "{what}");
            assert!(line.blocks.len() <= 1 + 2 * count as usize / BLOCK, "{what}");
        }
    }

    proptest! {
        #[test]
        fn the_list_of_held_jobs_finds_the_same_jobs_as_exhaustive_search(
            ops in prop::collection::vec((0..3000u64, 1..40u64, 1..40u64, any::<bool>()), 1..2500),
            searches in prop::collection::vec((prop::option::of(0..3000u64), 0..40u64, 0..40u64, 0..8u64), 20),
        ) {
            let (mut line, mut plain) = (HeldLine::default(), BTreeMap::new());
            for (id, nodes, cores, is_inserted) in ops {
                if is_inserted || !plain.contains_key(&JobId(id)) {
                    // A job in the list keeps its size. So the test removes the job before it adds the job with a new size.
                    if plain.insert(JobId(id), make_size(nodes, cores)).is_some() {
                        line.remove(JobId(id));
                    }
                    line.insert(JobId(id), make_size(nodes, cores));
                } else {
                    plain.remove(&JobId(id));
                    line.remove(JobId(id));
                }
            }
            prop_assert_eq!(line.ids().collect::<Vec<_>>(), plain.keys().copied().collect::<Vec<_>>());
            prop_assert_eq!(line.is_empty(), plain.is_empty());
            prop_assert_eq!(line.least_size(), plain.values().copied().reduce(Size::take_least_measures));
            // If no member is removed, the blocks of the list are at least half full on average.
            let mut filled = HeldLine::default();
            plain.iter().for_each(|(id, size)| filled.insert(*id, *size));
            prop_assert!(filled.blocks.len() <= 1 + 2 * plain.len() / BLOCK);
            // Searches stay fast, because no block is empty or longer than `BLOCK`.
            prop_assert!(line.blocks.values().all(|block| (1..=BLOCK).contains(&block.members.len())));
            for (after, nodes, cores, gpus) in searches {
                let fits = |size: Size| size.nodes <= nodes && size.cores <= cores && size.gpus <= gpus;
                let wanted = plain
                    .iter()
                    .find(|(id, size)| after.is_none_or(|after| id.0 > after) && fits(**size))
                    .map(|(id, _)| *id);
                prop_assert_eq!(line.find_next(after.map(JobId), fits), wanted);
                prop_assert_eq!(line.len(), plain.len());
                if let Some(after) = after {
                    let before = plain.range(..JobId(after)).count();
                    prop_assert_eq!(line.count_members_below_id(JobId(after)), before);
                    prop_assert_eq!(line.contains(JobId(after)), plain.contains_key(&JobId(after)));
                }
            }
        }
    }
}
