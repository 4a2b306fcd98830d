// SPDX-License-Identifier: LGPL-3.0-only
//! The depth-first visit of the rank policies: sorts siblings by value and assigns ranks.

#[cfg(test)]
use super::names::bytes;
use super::sums::Sums;
use super::tree::{NodeId, Tree};

/// How a rank policy sorts siblings and treats ties.
pub(super) trait SiblingRule {
    /// Returns the value that siblings are sorted by, larger first; >= 0, never NaN.
    fn value(&self, tree: &Tree, sums: &Sums, node: NodeId, arena: u32) -> f64;
    /// Returns true if two neighbours in the sorted order are tied; `a >= b`.
    fn is_equal(&self, a: f64, b: f64) -> bool {
        a == b
    }
    /// True if the policy may treat different values as tied.
    const APPROXIMATE: bool = false;
    /// If true, the first association in a bank shares the rank of the association before the bank. This applies only
    /// if the bank is tied with the sibling before it.
    const BANK_INHERITS_TIE: bool = true;
    /// If true, the children of equal banks are sorted in one list, as if the banks were one bank. If false,
    /// equal banks are visited in the order of the input. A bank without ranked associations then separates
    /// its neighbours, so that they are not tied.
    const MERGES_BANKS: bool = true;
    /// The value of a bank with parent shares. It is used only if [`SiblingRule::MERGES_BANKS`] is false.
    const VANISHED: f64 = 0.0;
}

/// A sibling as a number. Sorting the numbers sorts the siblings by value (larger first), associations before
/// banks, then by name or list order, then by node id. This is fast for a million associations.
type Entry = u128;

/// Siblings that are visited at one level of the tree: the elements `start` to `end` of [`Visit::entries`].
#[derive(Clone, Copy, Debug)]
struct Frame {
    start: usize,
    next: usize,
    end: usize,
    /// True if the first sibling has the same rank as the association that was visited last.
    is_tied: bool,
}

/// The buffers for a visit of the tree. The next visit uses the same buffers.
#[derive(Clone, Debug, Default)]
pub(super) struct Visit {
    entries: Vec<Entry>,
    frames: Vec<Frame>,
    vanished: Vec<u32>,
}

impl Visit {
    /// Visits the tree. Writes the ranks to `rank` (one element per association, each 0 before) and the visited associations to
    /// `order`.
    pub fn rank_depth_first<R: SiblingRule>(
        &mut self,
        rule: &R,
        tree: &Tree,
        sums: &Sums,
        rank: &mut [u32],
        order: &mut Vec<NodeId>,
    ) {
        let mut left = sums.ranked.first().copied().unwrap_or(0);
        let mut current = left;
        self.entries.clear();
        self.frames.clear();
        self.append_competing_nodes(rule, tree, sums, 0);
        self.open_frame(rule, tree, 0, false);
        while let Some(&Frame { start, next, end, is_tied }) = self.frames.last() {
            let Some(&entry) = self.entries.get(next).filter(|_| next < end) else {
                self.entries.truncate(start);
                self.frames.pop();
                continue;
            };
            let node = unpack_node(entry);
            let before = next.checked_sub(1).filter(|_| next > start).and_then(|at| self.entries.get(at));
            let equals_last = before.is_some_and(|&before| rule.is_equal(value_of(before), value_of(entry)));
            let is_tied = if next == start { is_tied } else { equals_last };
            let mut after = next + 1;
            if tree.is_bank(node) {
                let frame_start = self.entries.len();
                if let Some(bank) = tree.bank_number(node).filter(|&bank| !sums.vanishes(bank)) {
                    self.append_competing_nodes(rule, tree, sums, bank);
                }
                let mut last = entry;
                while R::MERGES_BANKS
                    && after < end
                    && let Some(&equal) = self.entries.get(after)
                    && rule.is_equal(value_of(last), value_of(equal))
                {
                    if let Some(bank) = tree.bank_number(unpack_node(equal)) {
                        self.append_competing_nodes(rule, tree, sums, bank);
                    }
                    last = equal;
                    after += 1;
                }
                self.advance_frame(after);
                self.open_frame(rule, tree, frame_start, is_tied && R::BANK_INHERITS_TIE);
            } else {
                // If BANK_INHERITS_TIE is false, associations can be tied only with associations. The sibling before
                // this association is not a bank, because associations come before banks that are equal to them.
                if !is_tied {
                    current = left;
                }
                if let Some(slot) = rank.get_mut(node.index()) {
                    *slot = current;
                }
                order.push(node);
                left = left.saturating_sub(1);
                self.advance_frame(after);
            }
        }
    }

    /// Ranks active associations by `values` (one per node, larger is better, >= 0); equal values share a rank.
    pub fn rank_by_value(&mut self, tree: &Tree, values: &[f64], rank: &mut [u32], order: &mut Vec<NodeId>) {
        self.entries.clear();
        for (leaf, &value) in tree.leaves().zip(values) {
            if tree.is_active(leaf) {
                self.entries.push(pack_entry(value, leaf.0, leaf));
            }
        }
        self.entries.sort_unstable();
        let mut current = 0;
        let mut last = f64::NAN;
        for (ahead, &entry) in self.entries.iter().enumerate() {
            if value_of(entry) != last {
                last = value_of(entry);
                current = (self.entries.len() - ahead) as u32;
            }
            if let Some(slot) = rank.get_mut(unpack_node(entry).index()) {
                *slot = current;
            }
            order.push(unpack_node(entry));
        }
    }

    /// Returns the allocated bytes.
    #[cfg(test)]
    pub fn memory(&self) -> usize {
        [bytes(&self.entries), bytes(&self.frames), bytes(&self.vanished)].into_iter().sum()
    }

    fn advance_frame(&mut self, next: usize) {
        if let Some(frame) = self.frames.last_mut() {
            frame.next = next;
        }
    }

    /// Appends all nodes that compete below a bank, including the children of banks with parent shares.
    fn append_competing_nodes<R: SiblingRule>(&mut self, rule: &R, tree: &Tree, sums: &Sums, bank: u32) {
        self.vanished.push(bank);
        while let Some(current_bank) = self.vanished.pop() {
            for leaf in tree.list_leaves_in_bank(current_bank).map(NodeId) {
                if tree.is_active(leaf) {
                    self.entries.push(make_entry::<R>(rule.value(tree, sums, leaf, bank), tree, leaf));
                }
            }
            for below in tree.banks_in(current_bank) {
                if sums.vanishes(below) {
                    self.vanished.push(below);
                    if !R::MERGES_BANKS {
                        self.entries.push(make_entry::<R>(R::VANISHED, tree, tree.bank_node(below)));
                    }
                } else if !R::MERGES_BANKS
                    || sums.ranked.get(below as usize).is_some_and(|&ranked| ranked > 0)
                {
                    let node = tree.bank_node(below);
                    self.entries.push(make_entry::<R>(rule.value(tree, sums, node, bank), tree, node));
                }
            }
        }
    }

    /// Sorts the entries from index `start` on, and makes them the siblings that are visited next.
    fn open_frame<R: SiblingRule>(&mut self, rule: &R, tree: &Tree, start: usize, is_tied: bool) {
        let end = self.entries.len();
        let Some(siblings) = self.entries.get_mut(start..) else { return };
        siblings.sort_unstable();
        if R::APPROXIMATE {
            move_tied_associations_before_banks(rule, tree, siblings);
        }
        self.frames.push(Frame { start, next: start, end, is_tied });
    }
}

/// Among siblings that `rule` treats as equal, moves the associations before the banks.
fn move_tied_associations_before_banks<R: SiblingRule>(rule: &R, tree: &Tree, siblings: &mut [Entry]) {
    let equal = |a: &Entry, b: &Entry| rule.is_equal(value_of(*a), value_of(*b));
    for run in siblings.chunk_by_mut(equal) {
        if !run.is_sorted_by_key(|&entry| tree.is_bank(unpack_node(entry))) {
            run.sort_unstable_by_key(|&entry| (tree.is_bank(unpack_node(entry)), entry));
        }
    }
}

fn make_entry<R: SiblingRule>(value: f64, tree: &Tree, node: NodeId) -> Entry {
    let position = if R::MERGES_BANKS {
        node.0
    } else {
        let list = tree.find_input_index(node) as u32;
        if tree.is_bank(node) { tree.leaf_count().saturating_add(list) } else { list }
    };
    pack_entry(value, position, node)
}

fn pack_entry(value: f64, position: u32, node: NodeId) -> Entry {
    // The bits of non-negative floats have the same order as their values.
    u128::from(!value.to_bits()) << 64 | u128::from(position) << 32 | u128::from(node.0)
}

fn value_of(entry: Entry) -> f64 {
    f64::from_bits(!((entry >> 64) as u64))
}

fn unpack_node(entry: Entry) -> NodeId {
    NodeId(entry as u32)
}
