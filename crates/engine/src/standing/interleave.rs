// SPDX-License-Identifier: LGPL-3.0-only
//! Turns: who would start next, if each job that starts is charged at once with what it asks for.
//!
//! OpenPBS does so within its cycle: the most deserving association starts a job, its usage and that of all banks above
//! grow by what the job asks for, and the next is found. Siblings are compared by usage / target, the smaller first, level by
//! level from the root; the rank policies compare their siblings by the same quotient, with shares as the target. A charge
//! changes the place of the nodes of one path among their siblings: O(depth * log siblings).
//!
//! Slurm's formulas have no such levels ([`fairshare::Policy::compares_quotients`]): there [`fairshare::Charged`] says where an
//! association would stand after its own earlier jobs, all others unchanged.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Index, Standing};
use fairshare::{Charged, NodeId, Ranking, Tree};

/// A sibling by its quotient; non-negative numbers sort as their bits do.
type Sibling = (u64, NodeId);

/// The turns of associations with pending jobs.
#[derive(Clone, Debug)]
pub struct Turns {
    nodes: HashMap<NodeId, Node>,
    root: NodeId,
    /// By bank: those below that have a job left.
    waiting: BTreeMap<NodeId, BTreeSet<Sibling>>,
    /// Siblings that were looked at since they were equal.
    pub(super) looks: usize,
}

#[derive(Clone, Debug)]
struct Node {
    above: Option<NodeId>,
    usage: f64,
    target: f64,
    /// Jobs left, at it and below.
    left: usize,
}

impl Node {
    /// Smaller is more deserving; infinite without a target.
    fn quotient(&self) -> u64 {
        if self.target > 0.0 { (self.usage / self.target + 0.0).to_bits() } else { f64::INFINITY.to_bits() }
    }
}

impl Turns {
    /// The associations that take turns, each with how many jobs it has. `None` if the ranking policy has no such levels. Inactive
    /// associations take none.
    pub fn new(
        tree: &Tree,
        ranking: &Ranking,
        pending: impl IntoIterator<Item = (NodeId, usize)>,
    ) -> Option<Turns> {
        if !ranking.policy().compares_quotients() {
            return None;
        }
        let root = tree.root();
        let mut turns = Turns { nodes: HashMap::new(), root, waiting: BTreeMap::new(), looks: 0 };
        for (leaf, jobs) in pending {
            if jobs == 0 || !tree.is_active(leaf) {
                continue;
            }
            let mut at = Some(leaf);
            while let Some(node) = at {
                let entry = turns.nodes.entry(node).or_insert_with(|| node_of(tree, ranking, node));
                entry.left += jobs;
                at = entry.above;
            }
        }
        for (&node, known) in &turns.nodes {
            if let Some(above) = known.above {
                turns.waiting.entry(above).or_default().insert((known.quotient(), node));
            }
        }
        Some(turns)
    }

    /// The association whose turn it is, `None` if nobody has a job left. It has one job less then, and is charged with this usage, in the tree's units.
    pub fn next(&mut self, cost: f64) -> Option<NodeId> {
        self.take(|_| cost)
    }

    /// The same, at a cost that depends on whose turn it is.
    pub fn take(&mut self, cost: impl FnOnce(NodeId) -> f64) -> Option<NodeId> {
        let leaf = self.first()?;
        self.charge(leaf, cost(leaf))?;
        Some(leaf)
    }

    fn charge(&mut self, leaf: NodeId, cost: f64) -> Option<()> {
        let cost = if cost > 0.0 { cost } else { 0.0 };
        let mut at = Some(leaf);
        while let Some(number) = at {
            let node = self.nodes.get_mut(&number)?;
            let before = node.quotient();
            node.usage += cost;
            node.left = node.left.saturating_sub(1);
            let (after, left) = (node.quotient(), node.left);
            at = node.above;
            if let Some(siblings) = at.and_then(|above| self.waiting.get_mut(&above)) {
                siblings.remove(&(before, number));
                if left > 0 {
                    siblings.insert((after, number));
                }
            }
        }
        Some(())
    }

    /// All turns there are, each at its cost: the costs of an association's jobs in their order.
    pub fn all(mut self, mut cost: impl FnMut(NodeId, usize) -> f64) -> Vec<NodeId> {
        let mut taken: HashMap<NodeId, usize> = HashMap::new();
        let mut order = Vec::new();
        let mut next = |leaf| {
            let number = taken.entry(leaf).or_default();
            *number += 1;
            cost(leaf, *number - 1)
        };
        while let Some(leaf) = self.take(&mut next) {
            order.push(leaf);
        }
        order
    }

    /// Who is charged what so far, in the tree's units: banks too.
    pub fn usage(&self, node: NodeId) -> Option<f64> {
        self.nodes.get(&node).map(|node| node.usage)
    }

    /// The most deserving of all.
    fn first(&mut self) -> Option<NodeId> {
        let mut looks = 0;
        let leaf = self.most_deserving(self.root, &mut looks);
        self.looks += looks;
        leaf.filter(|leaf| *leaf != self.root)
    }

    /// The most deserving association below a node. Banks that are equal are looked into, all of them.
    fn most_deserving(&self, node: NodeId, looks: &mut usize) -> Option<NodeId> {
        let mut node = node;
        loop {
            let Some(siblings) = self.waiting.get(&node) else { return Some(node) };
            let &(first, best) = siblings.first()?;
            if self.equal(siblings).nth(1).is_none() {
                node = best;
                continue;
            }
            let tied = self.equal(siblings).collect();
            return self.best_of(tied, first == f64::INFINITY.to_bits(), looks);
        }
    }

    /// Who is equal to the first of some siblings. In a tree all associations come before all banks, so where the first is one it
    /// comes before all who are equal to it, and is the only one that counts: most users of a site may have the same usage, none.
    fn equal<'a>(&self, siblings: &'a BTreeSet<Sibling>) -> impl Iterator<Item = NodeId> + use<'a> {
        let first = siblings.first().copied();
        let is_bank = first.is_some_and(|(_, node)| self.waiting.contains_key(&node));
        let equal = siblings.iter().take_while(move |it| first.is_some_and(|first| it.0 == first.0));
        equal.map(|(_, node)| *node).take(if is_bank { usize::MAX } else { 1 })
    }

    /// Of equal siblings, level by level. Where a path ends, or nobody has a target, the one in front in the tree's order is
    /// taken: that is breadth first, so that an association comes before all who are below banks on its level.
    fn best_of(&self, mut tied: Vec<NodeId>, without_target: bool, looks: &mut usize) -> Option<NodeId> {
        let mut ended = without_target;
        loop {
            *looks += tied.len();
            let leaves = tied.iter().copied().filter(|node| !self.waiting.contains_key(node));
            if let Some(first) = leaves.min() {
                return Some(first);
            }
            let below = |bank: &NodeId| self.waiting.get(bank).and_then(|siblings| siblings.first()).copied();
            if ended {
                let best = |(_, node)| self.most_deserving(node, looks);
                return tied.iter().filter_map(below).filter_map(best).min();
            }
            let first = tied.iter().filter_map(below).map(|(quotient, _)| quotient).min()?;
            let is_first = |siblings: &&BTreeSet<Sibling>| siblings.first().is_some_and(|it| it.0 == first);
            let siblings = tied.iter().filter_map(|bank| self.waiting.get(bank)).filter(is_first);
            tied = siblings.flat_map(|siblings| self.equal(siblings)).collect();
            ended = first == f64::INFINITY.to_bits();
        }
    }
}

fn node_of(tree: &Tree, ranking: &Ranking, node: NodeId) -> Node {
    let detail = ranking.detail(tree, node);
    let target = ranking.policy().target(&detail);
    Node { above: tree.parent(node), usage: detail.usage, target, left: 0 }
}

/// Pending jobs that are being charged, in slices.
#[derive(Clone, Debug)]
pub struct Charging {
    now: f64,
    /// What each association's jobs ask for, in their order, as plain usages.
    asked: Vec<(Index, Vec<f64>)>,
    /// `None` under a formula policy without levels.
    turns: Option<Turns>,
    by_leaf: HashMap<NodeId, usize>,
    /// How many jobs of each had their turn.
    taken: Vec<usize>,
    /// Whose turn it was.
    order: Vec<usize>,
    /// By association, under a formula policy.
    fairshares: Vec<Vec<f64>>,
}

impl Standing {
    /// Begins to charge pending jobs: of each association what its jobs ask for, in their order, as plain usages. As of the last
    /// refresh; nothing of it may change before it is done. `None` without a tree.
    pub fn charging(&self, asked: Vec<(Index, Vec<f64>)>, now: f64) -> Option<Charging> {
        let (tree, ranking) = (self.tree()?, self.ranking()?);
        let leaf = |(at, (index, _)): (usize, &(Index, Vec<f64>))| Some((self.node(*index)?, at));
        let by_leaf: HashMap<NodeId, usize> = asked.iter().enumerate().filter_map(leaf).collect();
        let jobs =
            |(leaf, at): (&NodeId, &usize)| (*leaf, asked.get(*at).map_or(0, |(_, costs)| costs.len()));
        let turns = Turns::new(tree, ranking, by_leaf.iter().map(jobs));
        let taken = vec![0; asked.len()];
        Some(Charging { now, asked, turns, by_leaf, taken, order: Vec::new(), fairshares: Vec::new() })
    }

    /// Charges so many jobs more, fewer where banks are equal; or one association's. True when all are.
    pub fn charge_on(&self, charging: &mut Charging, budget: usize) -> bool {
        let Charging { now, asked, turns, by_leaf, taken, order, fairshares } = charging;
        let factor = self.scale().map_or(1.0, |scale| scale.factor(*now));
        if let Some(turns) = turns {
            let mut cost = |leaf| {
                let at = by_leaf.get(&leaf).copied().unwrap_or_default();
                order.push(at);
                let Some(taken) = taken.get_mut(at) else { return 0.0 };
                *taken += 1;
                asked.get(at).and_then(|(_, costs)| costs.get(*taken - 1)).map_or(0.0, |cost| cost * factor)
            };
            // Where banks are equal a turn costs a look at each, and at who comes first there, however many they are.
            let (before, mut charged) = (turns.looks, 0);
            while charged + turns.looks - before < budget {
                if turns.take(&mut cost).is_none() {
                    return true;
                }
                charged += 1;
            }
            return false;
        }
        let Some(mut charged) = self.charged() else { return true };
        let mut left = budget;
        while let Some((index, costs)) = asked.get(fairshares.len()) {
            let in_turn = self.fairshares_in_turn(&mut charged, *index, costs.iter().copied(), *now);
            left = left.saturating_sub(1 + costs.len());
            fairshares.push(in_turn.into_iter().map_while(|fairshare| fairshare).collect());
            if left == 0 {
                return false;
            }
        }
        true
    }

    /// The fair-shares by which the charged jobs of each association are priced, in their order. Where the usage of the others is 0, or
    /// nearly, a formula gives the same for every further job: then each falls by `least`, so that associations alternate.
    pub fn priced_turns(&self, charging: Charging, least: f64) -> Vec<(Index, Vec<f64>)> {
        let Charging { asked, turns, order, fairshares, .. } = charging;
        let indices = asked.into_iter().map(|(index, _)| index);
        if turns.is_none() {
            let falling = |mut fairshares: Vec<f64>| {
                let mut before = f64::INFINITY;
                for fairshare in &mut fairshares {
                    // Never to nothing: a hundredth at most of what there is.
                    *fairshare = fairshare.min((before - least).max(before * 0.99));
                    before = *fairshare;
                }
                fairshares
            };
            return indices.zip(fairshares.into_iter().map(falling)).collect();
        }
        let indices: Vec<Index> = indices.collect();
        let own = |at: usize| indices.get(at).and_then(|index| self.fairshare(*index)).unwrap_or(0.0);
        let of_turns: Vec<(usize, f64)> = order.iter().map(|&at| (at, own(at))).collect();
        let mut priced: Vec<(Index, Vec<f64>)> = indices.iter().map(|index| (*index, Vec::new())).collect();
        for (at, number) in order.into_iter().zip(super::order::numbers(&of_turns, least)) {
            if let Some((_, numbers)) = priced.get_mut(at) {
                numbers.push(number);
            }
        }
        priced
    }

    /// Where each pending job of an association would stand if its earlier ones had been charged what they ask for, all other
    /// associations unchanged: one fair-share for each of the jobs, whose plain usages are given in their order. The first
    /// has the association's own. As of the last refresh; questions about siblings share one `charged`
    /// ([`Standing::charged`]).
    pub fn fairshares_in_turn(
        &self,
        charged: &mut Charged<'_>,
        association: Index,
        asks_for: impl IntoIterator<Item = f64>,
        now: f64,
    ) -> Vec<Option<f64>> {
        let (Some(leaf), Some(site)) = (self.node(association), self.site.as_ref()) else {
            return Vec::new();
        };
        let mut usage = charged.recorded(leaf);
        let factor = site.scale.factor(now);
        let one_more = |asks_for: f64| {
            let fairshare = charged.fairshare(leaf, usage);
            usage += asks_for.max(0.0) * factor;
            fairshare
        };
        asks_for.into_iter().map(one_more).collect()
    }

    /// For questions about usages that are not.
    pub fn charged(&self) -> Option<Charged<'_>> {
        Some(Charged::new(self.tree()?, self.ranking()?))
    }
}
