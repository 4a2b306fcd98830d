// SPDX-License-Identifier: LGPL-3.0-only
//! Limits, and sets of limits.

/// The limits that a site can set have this index or a higher index.
const FIRST_ROW: u8 = 16;

/// The maximum number of kinds of limits that a site can set.
pub(super) const MOST_ROWS: usize = (u128::BITS - FIRST_ROW as u32) as usize;

/// A limit that can hold jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hold {
    index: u8,
    name: &'static str,
}

impl Hold {
    /// Returns the limit of rule `index` of the table, or `None` if a [`HoldSet`] has no bit for that index.
    pub(super) fn from_rule(index: usize, name: &'static str) -> Option<Hold> {
        let index = u8::try_from(index).ok().filter(|index| *index < FIRST_ROW)?;
        Some(Hold { index, name })
    }

    /// Returns the limit with row number `index` in the table of the site's limits.
    pub(super) fn from_scope_row(index: u8, name: &'static str) -> Hold {
        Hold { index: FIRST_ROW + index.min(MOST_ROWS as u8 - 1), name }
    }

    /// Returns the bit of the limit in a [`HoldSet`].
    pub(super) fn index(self) -> u8 {
        self.index
    }

    /// Returns the name of the dependency by which the limit holds a job.
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
    /// The empty set.
    pub const NONE: HoldSet = HoldSet(0);

    /// Adds the limit `hold` to this set of limits.
    pub fn insert(&mut self, hold: Hold) {
        self.0 |= hold.bit();
    }

    /// Removes `hold` from the set.
    pub fn remove(&mut self, hold: Hold) {
        self.0 &= !hold.bit();
    }

    /// Returns true if this set of limits contains `hold`.
    pub fn contains(self, hold: Hold) -> bool {
        self.0 & hold.bit() != 0
    }

    /// Returns true if the set has no members.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the members that are not in `other`.
    pub fn without(self, other: HoldSet) -> HoldSet {
        HoldSet(self.0 & !other.0)
    }

    /// Returns the limits that are in `self` or in `other`.
    pub fn or(self, other: HoldSet) -> HoldSet {
        HoldSet(self.0 | other.0)
    }

    /// Returns the members that are limits over scopes.
    pub fn scope_limits(self) -> HoldSet {
        HoldSet(self.0 & (u128::MAX << FIRST_ROW))
    }

    /// Returns the row indices of the members that are limits over scopes.
    pub(super) fn list_scope_row_indices(self) -> impl DoubleEndedIterator<Item = usize> {
        let rows = self.0 >> FIRST_ROW;
        let count = usize::try_from(u128::BITS - rows.leading_zeros()).unwrap_or_default();
        (0..count).filter(move |row| rows & (1 << row) != 0)
    }

    /// Returns the limits that are in both `self` and `other`.
    pub fn and(self, other: HoldSet) -> HoldSet {
        HoldSet(self.0 & other.0)
    }

    /// Returns the set without its last member, in the order of [`Hold`].
    pub fn without_last_member(self) -> HoldSet {
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
