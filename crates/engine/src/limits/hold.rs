// SPDX-License-Identifier: LGPL-3.0-only
//! Sets of limits.

/// Where the rows of limits over scopes begin.
const FIRST_ROW: u8 = 64;

/// One limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hold {
    index: u8,
    name: &'static str,
}

impl Hold {
    /// The limit in a row of the table; `None` beyond what a [`HoldSet`] holds.
    pub(super) fn of_rule(index: usize, name: &'static str) -> Option<Hold> {
        let index = u8::try_from(index).ok().filter(|index| *index < FIRST_ROW)?;
        Some(Hold { index, name })
    }

    /// The limit over a scope in a row of theirs.
    pub(super) fn of_row(index: u8, name: &'static str) -> Hold {
        Hold { index: FIRST_ROW + index.min(FIRST_ROW - 1), name }
    }

    /// Its row.
    pub(super) fn index(self) -> u8 {
        self.index
    }

    /// The dependency's name.
    pub fn name(self) -> &'static str {
        self.name
    }

    fn bit(self) -> u128 {
        1 << self.index
    }
}

/// A set of limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct HoldSet(u128);

impl HoldSet {
    /// No limit.
    pub const NONE: HoldSet = HoldSet(0);

    /// Adds `hold`.
    pub fn insert(&mut self, hold: Hold) {
        self.0 |= hold.bit();
    }

    /// Takes `hold` out.
    pub fn remove(&mut self, hold: Hold) {
        self.0 &= !hold.bit();
    }

    /// Whether `hold` is in the set.
    pub fn contains(self, hold: Hold) -> bool {
        self.0 & hold.bit() != 0
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// What is in `self` and not in `other`.
    pub fn without(self, other: HoldSet) -> HoldSet {
        HoldSet(self.0 & !other.0)
    }

    /// What is in either.
    pub fn or(self, other: HoldSet) -> HoldSet {
        HoldSet(self.0 | other.0)
    }

    /// Those of limits over scopes.
    pub fn over_scopes(self) -> HoldSet {
        HoldSet(self.0 & (u128::MAX << FIRST_ROW))
    }

    /// Their rows.
    pub(super) fn rows(self) -> impl DoubleEndedIterator<Item = usize> {
        let rows = self.0 >> FIRST_ROW;
        let few = usize::try_from(u128::BITS - rows.leading_zeros()).unwrap_or_default();
        (0..few).filter(move |row| rows & (1 << row) != 0)
    }

    /// What is in both.
    pub fn and(self, other: HoldSet) -> HoldSet {
        HoldSet(self.0 & other.0)
    }

    /// The set without its last member in the order of the table.
    pub fn without_last(self) -> HoldSet {
        HoldSet(self.0.checked_ilog2().map_or(0, |last| self.0 & !(1 << last)))
    }
}

impl FromIterator<Hold> for HoldSet {
    fn from_iter<I: IntoIterator<Item = Hold>>(holds: I) -> Self {
        let mut set = HoldSet::NONE;
        holds.into_iter().for_each(|hold| set.insert(hold));
        set
    }
}
