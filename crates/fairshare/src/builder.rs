// SPDX-License-Identifier: LGPL-3.0-only
//! Builds a checked [`Tree`] from rows of banks and associations.
// All indices in this file are in range, because they are computed from the lengths of the vectors.
#![allow(clippy::indexing_slicing)]

use super::names::{Interner, Names};
use super::tree::{Flags, MAX_USAGE, NO_NODE};
use super::{Shares, Tree, TreeError, shortened};

/// The bank number of an unknown bank, and of the parent of the root.
const NONE: u32 = u32::MAX;

/// Takes banks and associations one at a time, stores each name once, and builds a [`Tree`].
///
/// Rows may come in any order: a bank may follow its children. Only [`Builder::build`] checks the rows.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    names: Interner,
    banks: Vec<Row>,
    leaves: Vec<Row>,
}

/// A row of the input.
#[derive(Clone, Debug)]
struct Row {
    name: u32,
    /// The name of the parent bank.
    above: u32,
    shares: u64,
    usage: f64,
    flags: Flags,
}

impl Row {
    fn new(name: u32, above: u32, shares: Shares, usage: Option<f64>, active: bool) -> Row {
        let mut flags = Flags::default();
        flags.put(Flags::INACTIVE, !active);
        flags.put(Flags::PARENT_SHARES, shares == Shares::Parent);
        flags.put(Flags::USAGE_UNSET, usage.is_none());
        // Adding 0 turns -0 into 0, so that no "-0" is printed.
        Row { name, above, shares: shares.count(), usage: usage.unwrap_or(0.0) + 0.0, flags }
    }
}

impl Builder {
    /// Adds a bank with a unique name. The root has no parent; its shares are stored but never used. `usage` is the usage
    /// of the bank itself, which its children do not include; it is usually `None`. Commands show whether a bank is
    /// active, but only the mark of an association decides whether the association is ranked.
    pub fn bank(
        &mut self,
        name: &str,
        parent: Option<&str>,
        shares: Shares,
        usage: Option<f64>,
        active: bool,
    ) {
        let parent = parent.map_or(NONE, |parent| self.names.intern(parent));
        let name = self.names.intern(name);
        self.banks.push(Row::new(name, parent, shares, usage, active));
    }

    /// Adds an association; a user may be in several banks. `shares` are relative to the other associations and the banks
    /// right below the same bank. `usage` is 0 or more, in node-seconds unless resources have weights. `None` means that no
    /// usage was recorded: it counts as 0, except under `pbs`, where it counts as [`super::Options::pbs_min_usage`]. An
    /// inactive association gets no rank; [`super::InactiveUsage`] selects whether sums include its usage.
    pub fn association(&mut self, user: &str, bank: &str, shares: Shares, usage: Option<f64>, active: bool) {
        let bank = self.names.intern(bank);
        let user = self.names.intern(user);
        self.leaves.push(Row::new(user, bank, shares, usage, active));
    }

    /// Returns the user of the association in row `row`.
    pub fn user(&self, row: usize) -> &str {
        self.leaves.get(row).map_or("", |row| self.names.names.get(row.name))
    }

    /// Checks all rows and builds the tree in O(n log n). Returns the first error found.
    pub fn build(self) -> Result<Tree, TreeError> {
        let Builder { names, banks, leaves } = self;
        let names = names.finish().ok_or(TreeError::TooLarge)?;
        if banks.len().checked_add(leaves.len()).is_none_or(|nodes| nodes >= NO_NODE as usize) {
            return Err(TreeError::TooLarge);
        }
        if banks.is_empty() {
            return Err(TreeError::NoBanks);
        }
        check_usage(&banks, &leaves, &names)?;
        let (by_name, row_of_name) = sort_banks_by_name(&banks, &names)?;
        let above = find_parents(&banks, &row_of_name, &names)?;
        let (order, bank_start) = order_breadth_first(&above, &by_name, &banks, &names)?;

        let mut number = vec![NONE; banks.len()];
        for (bank, &row) in order.iter().enumerate() {
            number[row as usize] = bank as u32;
        }
        let mut bank_of_leaf = Vec::with_capacity(leaves.len());
        for row in &leaves {
            let bank = row_of_name[row.above as usize];
            if bank == NONE {
                return Err(TreeError::MissingBank(names.get(row.name).into(), names.get(row.above).into()));
            }
            bank_of_leaf.push(number[bank as usize]);
        }
        let (leaf_rows, leaf_start) = group_rows(&bank_of_leaf, banks.len());
        let leaf_rows = sort_by_name(leaf_rows, &leaf_start, &leaves, &names, |bank| {
            names.get(banks[order[bank] as usize].name).into()
        })?;

        let first = leaves.len() as u32;
        let leaf_parents = leaf_rows.iter().map(|&row| first + bank_of_leaf[row as usize]);
        let bank_parents = order.iter().map(|&row| match above[row as usize] {
            NONE => NO_NODE,
            above => first + number[above as usize],
        });
        let leaves_in_order = leaf_rows.iter().map(|&row| &leaves[row as usize]);
        let rows: Vec<&Row> = leaves_in_order.chain(order.iter().map(|&row| &banks[row as usize])).collect();
        Ok(Tree {
            parent: leaf_parents.chain(bank_parents).collect(),
            shares: rows.iter().map(|row| row.shares).collect(),
            usage: rows.iter().map(|row| row.usage).collect(),
            flags: rows.iter().map(|row| row.flags).collect(),
            name: rows.iter().map(|row| row.name).collect(),
            by_name: by_name.iter().map(|&row| number[row as usize]).collect(),
            list: [leaf_rows, order].concat(),
            leaf_start,
            bank_start,
            names,
        })
    }
}

fn check_usage(banks: &[Row], leaves: &[Row], names: &Names) -> Result<(), TreeError> {
    let is_invalid = |row: &&Row| !(0.0..=MAX_USAGE).contains(&row.usage);
    if let Some(row) = banks.iter().find(is_invalid) {
        let node = format!("bank \"{}\"", shortened(names.get(row.name)));
        return Err(TreeError::BadUsage { node, usage: format_number(row.usage) });
    }
    if let Some(row) = leaves.iter().find(is_invalid) {
        let [user, bank] = [row.name, row.above].map(|name| shortened(names.get(name)));
        let node = format!("user \"{user}\" in bank \"{bank}\"");
        return Err(TreeError::BadUsage { node, usage: format_number(row.usage) });
    }
    Ok(())
}

/// Formats a number with an exponent from 1e16 on, because a large f64 has up to 300 digits.
pub(super) fn format_number(number: f64) -> String {
    if number.abs() >= 1e16 { format!("{number:e}") } else { number.to_string() }
}

/// Returns the row numbers of the banks, sorted by name. The second list has one element for each stored name: the
/// row of the bank with this name.
fn sort_banks_by_name(banks: &[Row], names: &Names) -> Result<(Vec<u32>, Vec<u32>), TreeError> {
    let mut row_of_name = vec![NONE; names.len()];
    for (row, bank) in (0..).zip(banks) {
        let slot = &mut row_of_name[bank.name as usize];
        if *slot != NONE {
            return Err(TreeError::DuplicateBank(names.get(bank.name).into()));
        }
        *slot = row;
    }
    let mut by_name: Vec<u32> = (0..banks.len() as u32).collect();
    by_name.sort_unstable_by_key(|&row| names.get(banks[row as usize].name));
    Ok((by_name, row_of_name))
}

/// Returns the row of each bank's parent. Exactly one bank, the root, must have no parent.
fn find_parents(banks: &[Row], row_of_name: &[u32], names: &Names) -> Result<Vec<u32>, TreeError> {
    let mut roots = banks.iter().filter(|bank| bank.above == NONE);
    let root = roots.next().ok_or(TreeError::NoRoot)?;
    if let Some(other) = roots.next() {
        let (one, other) = (names.get(root.name).into(), names.get(other.name).into());
        return Err(TreeError::SeveralRoots(one, other));
    }
    let parent_of = |bank: &Row| match bank.above {
        NONE => Ok(NONE),
        above => match row_of_name[above as usize] {
            NONE => Err(TreeError::MissingParent(names.get(bank.name).into(), names.get(above).into())),
            parent => Ok(parent),
        },
    };
    banks.iter().map(parent_of).collect()
}

/// Returns the rows of the banks breadth-first with siblings sorted by name, and the index of each bank's
/// first child in this order.
fn order_breadth_first(
    above: &[u32],
    by_name: &[u32],
    banks: &[Row],
    names: &Names,
) -> Result<(Vec<u32>, Vec<u32>), TreeError> {
    let root = by_name.iter().copied().find(|&row| above[row as usize] == NONE);
    let below: Vec<u32> = by_name.iter().copied().filter(|&row| Some(row) != root).collect();
    let groups: Vec<u32> = below.iter().map(|&row| above[row as usize]).collect();
    let (grouped, starts) = group_rows(&groups, banks.len());
    let mut order: Vec<u32> = Vec::with_capacity(banks.len());
    let mut bank_start = Vec::with_capacity(banks.len() + 1);
    order.extend(root);
    let mut at = 0;
    while let Some(&row) = order.get(at) {
        bank_start.push(order.len() as u32);
        let children = starts[row as usize] as usize..starts[row as usize + 1] as usize;
        order.extend(grouped[children].iter().map(|&place| below[place as usize]));
        at += 1;
    }
    bank_start.push(order.len() as u32);
    if order.len() == banks.len() {
        return Ok((order, bank_start));
    }
    Err(TreeError::Cycle(names.get(banks[find_cycle(above, by_name, &order)].name).into()))
}

/// Returns the row of a bank that is its own ancestor. If a bank is not below the root, one of its ancestors is its
/// own ancestor.
fn find_cycle(above: &[u32], by_name: &[u32], reached: &[u32]) -> usize {
    let mut seen = vec![false; above.len()];
    for &row in reached {
        seen[row as usize] = true;
    }
    let mut row = by_name.iter().copied().find(|&row| !seen[row as usize]).unwrap_or(0) as usize;
    while !seen[row] {
        seen[row] = true;
        row = above[row] as usize;
    }
    row
}

/// Sorts the row numbers by their value in `group` (counting sort, stable), and returns them with the start of each
/// value.
fn group_rows(group: &[u32], groups: usize) -> (Vec<u32>, Vec<u32>) {
    let mut starts = vec![0u32; groups + 1];
    for &value in group {
        starts[value as usize + 1] += 1;
    }
    let mut sum = 0;
    for start in &mut starts {
        sum += *start;
        *start = sum;
    }
    let mut next = starts.clone();
    let mut indices = vec![0u32; group.len()];
    for (index, &value) in group.iter().enumerate() {
        indices[next[value as usize] as usize] = index as u32;
        next[value as usize] += 1;
    }
    (indices, starts)
}

/// Sorts the associations of each bank by user. Returns an error if a bank has the same user twice.
fn sort_by_name(
    mut rows: Vec<u32>,
    starts: &[u32],
    leaves: &[Row],
    names: &Names,
    bank_name: impl Fn(usize) -> String,
) -> Result<Vec<u32>, TreeError> {
    let name = |row: u32| names.get(leaves[row as usize].name);
    for bank in 0..starts.len() - 1 {
        let group = &mut rows[starts[bank] as usize..starts[bank + 1] as usize];
        group.sort_by_cached_key(|&row| (name_prefix(name(row)), name(row)));
        let duplicates =
            group.windows(2).find(|pair| leaves[pair[0] as usize].name == leaves[pair[1] as usize].name);
        if let Some(pair) = duplicates {
            return Err(TreeError::DuplicateAssociation(name(pair[0]).into(), bank_name(bank)));
        }
    }
    Ok(rows)
}

/// Returns the first eight bytes as a number that sorts as the bytes do. Most comparisons of names need only this number.
fn name_prefix(name: &str) -> u64 {
    let mut bytes = [0; 8];
    for (to, from) in bytes.iter_mut().zip(name.bytes()) {
        *to = from;
    }
    u64::from_be_bytes(bytes)
}
