// SPDX-License-Identifier: LGPL-3.0-only
//! The banks above each bank, from the answer to `stats`.

use std::collections::HashMap;

use fairshare_engine::engine::answers::BankStats;

/// The parent of each bank.
pub(crate) struct BankTree<'a>(HashMap<&'a str, Option<&'a str>>);

impl<'a> BankTree<'a> {
    pub(crate) fn new(banks: &'a [BankStats]) -> BankTree<'a> {
        BankTree(banks.iter().map(|bank| (bank.bank.as_str(), bank.parent.as_deref())).collect())
    }

    /// Returns `bank` and the banks above it.
    pub(crate) fn path(&self, bank: Option<&'a str>) -> impl Iterator<Item = &'a str> {
        let above = |bank: &&'a str| self.0.get(bank).copied().flatten();
        // If the parents form a cycle, the path ends after as many steps as there are banks.
        std::iter::successors(bank, above).take(self.0.len() + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_bank_ends_at_the_root_or_at_a_cycle() {
        let bank = |name: &str, parent: Option<&str>| BankStats {
            bank: name.to_owned(),
            parent: parent.map(str::to_owned),
            ..BankStats::default()
        };
        let banks = [bank("root", None), bank("a", Some("root")), bank("b", Some("a")), bank("c", Some("c"))];
        let tree = BankTree::new(&banks);
        let path = |bank| tree.path(bank).collect::<Vec<_>>();
        assert_eq!(path(Some("b")), ["b", "a", "root"]);
        assert_eq!(path(Some("unknown")), ["unknown"]);
        assert_eq!(path(None), [""; 0]);
        assert_eq!(path(Some("c")), ["c"; 5]);
    }
}
