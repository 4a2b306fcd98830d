// SPDX-License-Identifier: LGPL-3.0-only
//! Where an association would stand if it had used something else, all others unchanged, without ranking the tree.
//!
//! Formula policies: its usage counts in the usage of the banks above and of the root, so the numbers of one path are worked
//! out anew. Rank policies: a place is the number of ranked associations ahead, and among siblings only the quotient usage /
//! shares decides, which what the siblings add up to does not change: per level the place is looked up among the sorted
//! siblings. Equal siblings are visited in ways that only a ranking knows (shared ranks, merged banks): where one is equal to a
//! node of the path, or nearly, and where shares are the parent's, the tree is ranked.

use std::collections::HashMap;

use super::formula::More;
use super::sums::Sums;
use super::tree::Flags;
use super::{NodeId, Ranking, Tree};

/// Answers for one tree and its ranking. The first question about the children of a bank sorts them, later ones cost
/// O(log siblings) a level.
#[derive(Clone, Debug)]
pub struct Charged<'a> {
    tree: &'a Tree,
    ranking: &'a Ranking,
    /// By bank: its children by quotient, with what is ranked before each.
    sorted: HashMap<u32, Vec<Sibling>>,
    has_parent_shares: Option<bool>,
    /// To rank with another usage.
    scratch: Option<(Tree, Ranking)>,
}

#[derive(Clone, Copy, Debug)]
struct Sibling {
    quotient: f64,
    node: NodeId,
    /// Ranked associations before it.
    ahead: u32,
}

impl<'a> Charged<'a> {
    /// For this tree as it was ranked.
    pub fn new(tree: &'a Tree, ranking: &'a Ranking) -> Charged<'a> {
        Charged { tree, ranking, sorted: HashMap::new(), has_parent_shares: None, scratch: None }
    }

    /// The usage that an association has.
    pub fn recorded(&self, leaf: NodeId) -> f64 {
        self.tree.usage.get(leaf.index()).copied().unwrap_or(0.0)
    }

    /// The fair-share of an association if it had this usage (see [`Tree::accrue`]). `None` without a rank.
    pub fn fairshare(&mut self, leaf: NodeId, usage: f64) -> Option<f64> {
        self.ranking.rank(leaf)?;
        let recorded = self.tree.usage.get(leaf.index()).copied()?;
        if usage == recorded {
            return self.ranking.fairshare(leaf);
        }
        let path = self.path(leaf);
        let policy = self.ranking.policy();
        let fairshare = if !policy.is_rank() {
            self.by_formula(&path, recorded, usage)
        } else if policy.compares_quotients() {
            let ranked = self.ranking.ranked();
            self.ahead(&path, recorded, usage).map(|ahead| (ranked - ahead as usize) as f64 / ranked as f64)
        } else {
            None
        };
        fairshare.or_else(|| self.ranked_anew(leaf, recorded, usage))
    }

    /// Whether a question could only be answered by ranking the tree.
    #[cfg(test)]
    pub(super) fn has_ranked(&self) -> bool {
        self.scratch.is_some()
    }

    /// From right below the root to the association.
    fn path(&self, leaf: NodeId) -> Vec<NodeId> {
        let mut path = Vec::new();
        let mut at = Some(leaf);
        while let Some(node) = at.filter(|node| *node != self.tree.root()) {
            path.push(node);
            at = self.tree.parent(node);
        }
        path.reverse();
        path
    }

    fn by_formula(&self, path: &[NodeId], recorded: f64, usage: f64) -> Option<f64> {
        let Charged { tree, ranking, .. } = self;
        let initial = ranking.policy.initial_usage(&ranking.options);
        // A usage that every node starts with adds nothing to the banks.
        let counted = |usage: f64| if initial == Some(usage) { 0.0 } else { usage };
        let more = More { own: usage - recorded, above: counted(usage) - counted(recorded) };
        ranking.policy.rules().charged_factor(tree, ranking, path, more)
    }

    /// How many ranked associations go before it; `None` if that is not the whole answer.
    fn ahead(&mut self, path: &[NodeId], recorded: f64, usage: f64) -> Option<u32> {
        let (tree, ranking) = (self.tree, self.ranking);
        let sums = &ranking.sums;
        let any_parent =
            || tree.leaves().chain(tree.banks()).any(|node| tree.flags(node).has(Flags::PARENT_SHARES));
        if *self.has_parent_shares.get_or_insert_with(any_parent)
            || ranking.policy.uses_list_order(&ranking.options)
        {
            return None;
        }
        let mut ahead = 0;
        let mut above = tree.root();
        for &node in path {
            let arena = tree.bank_number(above)?;
            let own = sums.usage_of(tree, node) - recorded + usage;
            let quotient = quotient(tree, node, own);
            let all =
                [&sums.usage, &sums.total].map(|column| column.get(arena as usize).copied().unwrap_or(0.0));
            let siblings = self.siblings(arena);
            let at = siblings.partition_point(|sibling| sibling.quotient < quotient);
            let others = |sibling: &&Sibling| sibling.node != node;
            let near = siblings.iter().take(at).rev().find(others).into_iter();
            let near = near.chain(siblings.iter().skip(at).find(others));
            let shares = sums.shares.get(arena as usize).copied().unwrap_or(0.0);
            let scale = (all.iter().fold(0.0, |a: f64, b| a.max(*b)) - recorded + usage) / shares;
            for sibling in near {
                if is_near(sibling.quotient, quotient, scale) {
                    return None;
                }
            }
            let before = siblings.get(at).map(|next| next.ahead);
            let all_of = |last: &Sibling| last.ahead + ranked(sums, tree, last.node);
            let mut before = before.or_else(|| siblings.last().map(all_of)).unwrap_or(0);
            // Its old place may be before the new one.
            if self::quotient(tree, node, sums.usage_of(tree, node)) < quotient {
                before -= ranked(sums, tree, node);
            }
            ahead += before;
            above = node;
        }
        Some(ahead)
    }

    fn siblings(&mut self, bank: u32) -> &[Sibling] {
        let Charged { tree, ranking, sorted, .. } = self;
        sorted.entry(bank).or_insert_with(|| {
            let sums = &ranking.sums;
            let takes_part = |node: &NodeId| ranked(sums, tree, *node) > 0;
            let mut siblings: Vec<Sibling> = tree
                .children(tree.bank_node(bank))
                .filter(takes_part)
                .map(|node| Sibling {
                    quotient: quotient(tree, node, sums.usage_of(tree, node)),
                    node,
                    ahead: 0,
                })
                .collect();
            siblings.sort_unstable_by(|a, b| a.quotient.total_cmp(&b.quotient).then(a.node.cmp(&b.node)));
            let mut ahead = 0;
            for sibling in &mut siblings {
                sibling.ahead = ahead;
                ahead += ranked(sums, tree, sibling.node);
            }
            siblings
        })
    }

    fn ranked_anew(&mut self, leaf: NodeId, recorded: f64, usage: f64) -> Option<f64> {
        let Charged { tree, ranking, scratch, .. } = self;
        let (tree, anew) = scratch.get_or_insert_with(|| (Tree::clone(tree), Ranking::default()));
        tree.accrue(leaf, usage);
        let done = tree.rank_into(ranking.policy, &ranking.options, anew);
        tree.accrue(leaf, recorded);
        done.ok().and_then(|()| anew.fairshare(leaf))
    }
}

/// Ranked associations at or below a node.
fn ranked(sums: &Sums, tree: &Tree, node: NodeId) -> u32 {
    match tree.bank_number(node) {
        Some(bank) => sums.ranked.get(bank as usize).copied().unwrap_or(0),
        None => u32::from(tree.is_active(node)),
    }
}

/// What siblings are compared by, smaller first: infinite without shares.
fn quotient(tree: &Tree, node: NodeId, usage: f64) -> f64 {
    let shares = tree.shares.get(node.index()).map_or(0.0, |&shares| shares as f64);
    if shares > 0.0 { usage / shares } else { f64::INFINITY }
}

/// Whether two quotients may count as equal; `scale` makes level values of them.
pub(super) fn is_near(a: f64, b: f64, scale: f64) -> bool {
    if a == b {
        return true;
    }
    let (a, b) = (scale / a, scale / b);
    // Beyond that all weights are one; the other bounds are some thousand times what a policy takes for equal.
    let highest = 1e17;
    (a > highest && b > highest)
        || (a.is_finite() && b.is_finite() && (a - b).abs() <= 1e-12 * a.max(b).max(1.0))
}
