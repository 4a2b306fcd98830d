// SPDX-License-Identifier: LGPL-3.0-only
//! Cases that the documents of Slurm and OpenPBS leave open. The expected results come from functions of
//! their programs.

use super::super::*;
use super::{assert_ranks, make_tree};

/// In Slurm's program, the first child of a tied account inherits the tie, even if this child is an account
/// with parent shares or without users.
#[test]
fn an_account_without_a_rank_ends_a_tie_in_slurms_program() {
    let program = Options { ties: Ties::SlurmProgram, ..Options::default() };
    for (banks, users, below) in [
        ("root - 1\na root 1\np a parent", "u p 1 2\nv root 1 2", "u/p"),
        ("root - 1\na root 0\ne a 1", "u a 0 -\nv root 0 -", "u/a"),
    ] {
        let tree = make_tree(banks, users);
        assert_ranks(&tree, Policy::FairTree, &program, &[("v/root", 2), (below, 1)]);
        assert_ranks(&tree, Policy::FairTree, &Options::default(), &[("v/root", 2), (below, 2)]);
        if let Some(parent) = tree.bank("p") {
            let ranking = tree.rank(Policy::FairTree, &program).expect("a ranking");
            assert_eq!(
                ranking.detail(&tree, parent).level_fs,
                None,
                "a bank with parent shares does not compete"
            );
        }
    }
}

#[test]
fn a_pbs_group_without_members_is_an_entity() {
    for (usage, root, group) in [("-", 11.0, 1.0), ("1", 11.0, 1.0), ("0", 11.0, 0.0), ("5", 16.0, 5.0)] {
        let tree = make_tree(&format!("root - 1\ne root 1 {usage}"), "u root 1 10");
        let ranking = tree.rank(Policy::Pbs, &Options::default()).expect("a ranking");
        let shown = [tree.root(), tree.bank("e").unwrap()].map(|node| ranking.usage(&tree, node));
        assert_eq!(shown, [root, group], "usage {usage}");
    }
}

#[test]
fn users_below_a_pbs_group_without_target_have_no_target() {
    let tree = make_tree("root - 1\nb0 root 0\nb1 b0 2", "u b1 2 3\nv root 1 1");
    let ranking = tree.rank(Policy::Pbs, &Options::default()).expect("a ranking");
    for node in [tree.bank("b1").unwrap(), tree.leaf("u", "b1").unwrap()] {
        assert_eq!(ranking.detail(&tree, node).norm_shares, 0.0);
    }
}
