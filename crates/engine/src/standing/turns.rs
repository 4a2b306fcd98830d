// SPDX-License-Identifier: LGPL-3.0-only
//! Computes the order in which jobs would start if each start charged the requested usage to its association
//! at once.
//!
//! OpenPBS does this within its cycle: the most deserving association starts a job, which increases the usage
//! of the association and of all banks above it by the request. Then the search starts again. Siblings are
//! compared by usage / target, the smaller first, level by level from the root; the rank policies compare
//! their siblings by the same quotient, with shares as the target. A charge moves the nodes of one path among
//! their siblings, in O(depth * log siblings).
//!
//! Slurm's formulas do not compare levels ([`fairshare::Policy::compares_quotients`]). For them
//! [`fairshare::ChargedFairshares`] computes the fair-share of an association after its own earlier jobs, with all
//! other associations unchanged.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Index, Standing};
use fairshare::{ChargedFairshares, NodeId, Ranking, Tree};

/// A sibling with its quotient as bits. Non-negative numbers and their bits have the same order.
type Sibling = (u64, NodeId);

/// The associations with pending jobs, and the usage that was charged to them so far.
#[derive(Clone, Debug)]
pub struct Turns {
    nodes: HashMap<NodeId, Node>,
    root: NodeId,
    /// For each bank, its children with jobs that have not started.
    waiting: BTreeMap<NodeId, BTreeSet<Sibling>>,
    /// The number of siblings that were compared because their quotients were equal.
    pub(super) compared: usize,
}

#[derive(Clone, Debug)]
struct Node {
    above: Option<NodeId>,
    usage: f64,
    target: f64,
    /// The number of jobs at or below this node that have not started.
    left: usize,
}

impl Node {
    /// Returns usage / target as bits, or infinity without a target. The node with the smaller quotient is more deserving.
    fn quotient(&self) -> u64 {
        if self.target > 0.0 { (self.usage / self.target + 0.0).to_bits() } else { f64::INFINITY.to_bits() }
    }
}

impl Turns {
    /// Prepares to order the job starts of the associations in `pending`. Each association is given with its number
    /// of jobs. Inactive associations are left out. Returns `None` if the ranking policy does not compare siblings by
    /// usage / target.
    pub fn new(
        tree: &Tree,
        ranking: &Ranking,
        pending: impl IntoIterator<Item = (NodeId, usize)>,
    ) -> Option<Turns> {
        if !ranking.policy().compares_quotients() {
            return None;
        }
        let root = tree.root();
        let mut turns = Turns { nodes: HashMap::new(), root, waiting: BTreeMap::new(), compared: 0 };
        for (leaf, jobs) in pending {
            if jobs == 0 || !tree.is_active(leaf) {
                continue;
            }
            let mut at = Some(leaf);
            while let Some(node) = at {
                let entry = turns.nodes.entry(node).or_insert_with(|| build_node(tree, ranking, node));
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

    /// Starts the next job, and returns its association. `cost` computes the usage to charge to the association.
    /// Returns `None` if no job is left.
    pub fn take(&mut self, cost: impl FnOnce(NodeId) -> f64) -> Option<NodeId> {
        let mut compared = 0;
        let leaf = self.find_best_association_below_node(self.root, &mut compared);
        self.compared += compared;
        let leaf = leaf.filter(|leaf| *leaf != self.root)?;
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

    /// Returns the usage of an association or a bank with all charges so far, in the units of the tree. Returns `None` for an unknown node.
    pub fn usage(&self, node: NodeId) -> Option<f64> {
        self.nodes.get(&node).map(|node| node.usage)
    }

    /// Returns the association below `node` whose job starts next. If banks are tied, searches below all of them.
    fn find_best_association_below_node(&self, node: NodeId, compared: &mut usize) -> Option<NodeId> {
        let mut node = node;
        loop {
            let Some(siblings) = self.waiting.get(&node) else { return Some(node) };
            let &(first, best) = siblings.first()?;
            if self.ties(siblings).nth(1).is_none() {
                node = best;
                continue;
            }
            let tied = self.ties(siblings).collect();
            return self.find_best(tied, first == f64::INFINITY.to_bits(), compared);
        }
    }

    /// Returns the siblings whose quotient equals that of the first sibling. If the first sibling is an
    /// association, returns only the first, because associations precede banks in the tree and so win ties.
    /// Most users of a site may have the same usage, 0.
    fn ties<'a>(&self, siblings: &'a BTreeSet<Sibling>) -> impl Iterator<Item = NodeId> + use<'a> {
        let first = siblings.first().copied();
        let is_bank = first.is_some_and(|(_, node)| self.waiting.contains_key(&node));
        let equal = siblings.iter().take_while(move |it| first.is_some_and(|first| it.0 == first.0));
        equal.map(|(_, node)| *node).take(if is_bank { usize::MAX } else { 1 })
    }

    /// Returns the association whose job starts next, among all associations below tied siblings. Tied banks are
    /// compared level by level. If a path ends, or no sibling has a target, the first association in the order of the
    /// tree wins. This order is breadth first, so an association precedes all associations below banks of its level.
    fn find_best(&self, mut tied: Vec<NodeId>, without_target: bool, compared: &mut usize) -> Option<NodeId> {
        let mut ended = without_target;
        loop {
            *compared += tied.len();
            let leaves = tied.iter().copied().filter(|node| !self.waiting.contains_key(node));
            if let Some(first) = leaves.min() {
                return Some(first);
            }
            let below = |bank: &NodeId| self.waiting.get(bank).and_then(|siblings| siblings.first()).copied();
            if ended {
                let best = |(_, node)| self.find_best_association_below_node(node, compared);
                return tied.iter().filter_map(below).filter_map(best).min();
            }
            let first = tied.iter().filter_map(below).map(|(quotient, _)| quotient).min()?;
            let is_first = |siblings: &&BTreeSet<Sibling>| siblings.first().is_some_and(|it| it.0 == first);
            let siblings = tied.iter().filter_map(|bank| self.waiting.get(bank)).filter(is_first);
            tied = siblings.flat_map(|siblings| self.ties(siblings)).collect();
            ended = first == f64::INFINITY.to_bits();
        }
    }
}

fn build_node(tree: &Tree, ranking: &Ranking, node: NodeId) -> Node {
    let detail = ranking.detail(tree, node);
    let target = ranking.policy().target(&detail);
    Node { above: tree.parent(node), usage: detail.usage, target, left: 0 }
}

/// The progress of charging pending jobs in slices.
#[derive(Clone, Debug)]
pub struct Charging {
    now: f64,
    /// For each association, the usage to charge for each of its jobs, in seconds times weight.
    asked: Vec<(Index, Vec<f64>)>,
    /// `None` under a policy that does not compare quotients.
    turns: Option<Turns>,
    by_leaf: HashMap<NodeId, usize>,
    /// The number of charged jobs of each association.
    taken: Vec<usize>,
    /// The association of each job start, as an index into `asked`.
    order: Vec<usize>,
    /// The fair-shares by association, under a policy that does not compare quotients.
    fairshares: Vec<Vec<f64>>,
}

impl Charging {
    /// Prepares to charge the pending jobs of all associations. `asked` has the usage of each job, in seconds times
    /// weight. The ranking must not change until all jobs are charged. Returns `None` without a tree.
    pub fn new(standing: &Standing, asked: Vec<(Index, Vec<f64>)>, now: f64) -> Option<Charging> {
        let (tree, ranking) = (standing.tree()?, standing.ranking()?);
        let leaf = |(at, (index, _)): (usize, &(Index, Vec<f64>))| Some((standing.node(*index)?, at));
        let by_leaf: HashMap<NodeId, usize> = asked.iter().enumerate().filter_map(leaf).collect();
        let jobs =
            |(leaf, at): (&NodeId, &usize)| (*leaf, asked.get(*at).map_or(0, |(_, costs)| costs.len()));
        let turns = Turns::new(tree, ranking, by_leaf.iter().map(jobs));
        let taken = vec![0; asked.len()];
        Some(Charging { now, asked, turns, by_leaf, taken, order: Vec::new(), fairshares: Vec::new() })
    }

    /// Charges more jobs, until the number of charged jobs plus the number of comparisons of tied banks reaches
    /// `budget`. Under a formula policy, charges all jobs of at least one association. Returns true if all jobs are
    /// charged.
    pub fn charge(&mut self, standing: &Standing, budget: usize) -> bool {
        let Charging { now, asked, turns, by_leaf, taken, order, fairshares } = self;
        let factor = standing.scale().map_or(1.0, |scale| scale.factor(*now));
        if let Some(turns) = turns {
            let mut cost = |leaf| {
                let at = by_leaf.get(&leaf).copied().unwrap_or_default();
                order.push(at);
                let Some(taken) = taken.get_mut(at) else { return 0.0 };
                *taken += 1;
                asked.get(at).and_then(|(_, costs)| costs.get(*taken - 1)).map_or(0.0, |cost| cost * factor)
            };
            // The budget counts charged jobs and comparisons of tied banks.
            let (before, mut charged) = (turns.compared, 0);
            while charged + turns.compared - before < budget {
                if turns.take(&mut cost).is_none() {
                    return true;
                }
                charged += 1;
            }
            return false;
        }
        let Some((tree, ranking)) = standing.tree().zip(standing.ranking()) else { return true };
        let (mut charged, mut left) = (ChargedFairshares::new(tree, ranking), budget);
        while let Some((index, costs)) = asked.get(fairshares.len()) {
            let in_turn = |leaf| compute_fairshares_in_turn(&mut charged, leaf, costs, factor);
            let in_turn = standing.node(*index).map(in_turn).unwrap_or_default();
            left = left.saturating_sub(1 + costs.len());
            fairshares.push(in_turn.into_iter().map_while(|fairshare| fairshare).collect());
            if left == 0 {
                return false;
            }
        }
        true
    }

    /// Returns the fair-shares of each association's jobs, in the order of the jobs. If the usage of all other
    /// associations is close to 0, a formula gives the same fair-share to all further jobs of an association. The
    /// fair-share is then lowered by `least` from job to job, so that the associations alternate.
    pub fn list_fairshares(self, standing: &Standing, least: f64) -> Vec<(Index, Vec<f64>)> {
        let Charging { asked, turns, order, fairshares, .. } = self;
        let indices = asked.into_iter().map(|(index, _)| index);
        if turns.is_none() {
            let falling = |mut fairshares: Vec<f64>| {
                let mut before = f64::INFINITY;
                for fairshare in &mut fairshares {
                    // Each step lowers the fair-share by at most 1 %, so the fair-share never reaches 0.
                    *fairshare = fairshare.min((before - least).max(before * 0.99));
                    before = *fairshare;
                }
                fairshares
            };
            return indices.zip(fairshares.into_iter().map(falling)).collect();
        }
        let indices: Vec<Index> = indices.collect();
        let own = |at: usize| indices.get(at).and_then(|index| standing.fairshare(*index)).unwrap_or(0.0);
        let of_turns: Vec<(usize, f64)> = order.iter().map(|&at| (at, own(at))).collect();
        let mut numbered: Vec<(Index, Vec<f64>)> = indices.iter().map(|index| (*index, Vec::new())).collect();
        for (at, number) in order.into_iter().zip(super::order::assign_numbers(&of_turns, least)) {
            if let Some((_, numbers)) = numbered.get_mut(at) {
                numbers.push(number);
            }
        }
        numbered
    }
}

/// Returns a fair-share for each pending job of one association, as if the earlier jobs had been charged. The first
/// job gets the association's own fair-share. The usage of other associations stays the same. `costs` has the usage
/// of each job, in seconds times weight. `factor` converts this usage to the units of the tree.
pub(super) fn compute_fairshares_in_turn(
    charged: &mut ChargedFairshares<'_>,
    leaf: NodeId,
    costs: &[f64],
    factor: f64,
) -> Vec<Option<f64>> {
    let mut usage = charged.recorded(leaf);
    let one_more = |cost: &f64| {
        let fairshare = charged.fairshare(leaf, usage);
        usage += cost.max(0.0) * factor;
        fairshare
    };
    costs.iter().map(one_more).collect()
}
