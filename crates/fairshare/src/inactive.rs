// SPDX-License-Identifier: LGPL-3.0-only
//! Finds the banks that are inactive because they or a bank above them are marked inactive.

use crate::group_all;

/// Returns for each bank whether it is inactive or below an inactive bank. `banks` are (name, parent, active).
/// Missing parents and cycles are allowed.
pub fn inactive_banks<'a>(
    banks: impl ExactSizeIterator<Item = (&'a str, Option<&'a str>, bool)> + Clone,
) -> Vec<bool> {
    let mut inactive: Vec<bool> = banks.clone().map(|(_, _, active)| !active).collect();
    if !inactive.contains(&true) {
        return inactive;
    }
    let names: Vec<&str> = banks.clone().map(|(name, _, _)| name).collect();
    let children = group_all(banks.enumerate().filter_map(|(index, (_, parent, _))| Some((parent?, index))));
    let mut stack: Vec<usize> =
        (0..inactive.len()).filter(|index| inactive.get(*index) == Some(&true)).collect();
    while let Some(bank) = stack.pop().and_then(|index| names.get(index)) {
        for child in children.get(bank).into_iter().flatten() {
            if let Some(state) = inactive.get_mut(*child)
                && !*state
            {
                *state = true;
                stack.push(*child);
            }
        }
    }
    inactive
}
