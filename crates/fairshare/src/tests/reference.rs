// SPDX-License-Identifier: LGPL-3.0-only
//! A second implementation of the policies: slow, recursive, written from the published formulas. It shares only the
//! input types with the crate. `fairshare` returns each active association's value by (bank, user).

use std::collections::BTreeMap;

use super::site::Site;
use crate::{InactiveUsage, Options, Policy, Shares, Ties};

pub type FairShares = BTreeMap<(String, String), f64>;

#[derive(Clone, Debug)]
struct Node {
    key: (String, String),
    is_bank: bool,
    shares: Shares,
    own: Option<f64>,
    active: bool,
    /// Index in the input's list.
    list: usize,
    children: Vec<Node>,
    /// An association, or a bank without any children in the input.
    is_entity: bool,
}

impl Node {
    fn usage(&self) -> f64 {
        self.own.unwrap_or(0.0) + self.children.iter().map(Node::usage).sum::<f64>()
    }

    fn count_ranked(&self) -> usize {
        usize::from(!self.is_bank && self.active)
            + self.children.iter().map(Node::count_ranked).sum::<usize>()
    }

    /// Returns true if this is a bank with parent shares. Its children compete under a bank above it.
    fn vanishes(&self) -> bool {
        self.is_bank && self.shares == Shares::Parent
    }

    /// Returns the nodes that compete under this bank. A child with parent shares is replaced by its own children.
    fn competitors(&self) -> Vec<&Node> {
        let mut found = Vec::new();
        for child in &self.children {
            if child.vanishes() {
                found.extend(child.competitors());
            } else {
                found.push(child);
            }
        }
        found
    }

    fn share_count(&self) -> f64 {
        if let Shares::Count(count) = self.shares { count as f64 } else { 0.0 }
    }
}

fn build_node(site: &Site, bank: &str, options: &Options) -> Node {
    let list = site.banks.iter().position(|row| row.name == bank).expect("bank");
    let row = &site.banks[list];
    let mut children = Vec::new();
    for (list, leaf) in site.associations.iter().enumerate().filter(|(_, leaf)| leaf.bank == bank) {
        if leaf.active || options.inactive_usage == InactiveUsage::Count {
            children.push(Node {
                key: (bank.into(), leaf.user.clone()),
                is_bank: false,
                shares: leaf.shares,
                own: leaf.usage,
                active: leaf.active,
                list,
                children: Vec::new(),
                is_entity: true,
            });
        }
    }
    for below in site.banks.iter().filter(|below| below.parent.as_deref() == Some(bank)) {
        children.push(build_node(site, &below.name, options));
    }
    let key = (bank.into(), String::new());
    let is_entity = children.is_empty() && site.associations.iter().all(|leaf| leaf.bank != bank);
    Node { key, is_bank: true, shares: row.shares, own: row.usage, active: true, list, children, is_entity }
}

pub fn compute_fairshares(site: &Site, policy: Policy, options: &Options) -> FairShares {
    let root = site.banks.iter().find(|row| row.parent.is_none()).expect("root");
    let root = build_node(site, &root.name, options);
    let mut out = FairShares::new();
    match policy.name() {
        "weighted-walk" | "fair-tree" => {
            let mut walk = Walk {
                policy,
                ties: options.ties,
                left: root.count_ranked(),
                rank: root.count_ranked(),
                out,
            };
            let mut top = list_nodes_competing_below_bank(policy, &root);
            if walk.is_program() {
                top.extend(list_vanished_banks(&root));
            }
            walk.visit(&mut top, false);
            let ranked = root.count_ranked() as f64;
            return walk.out.into_iter().map(|(key, rank)| (key, rank / ranked)).collect();
        }
        "classic" => {
            let mut step = |site: &Level| {
                let shares = site.norm_shares();
                let usage = match site.part {
                    _ if site.below_root => site.usage,
                    None => site.parent_usage,
                    Some(_) if site.no_shares => site.parent_usage,
                    Some(part) => site.usage + (site.parent_usage - site.usage) * part,
                };
                (shares, usage)
            };
            let factor = |shares: f64, usage: f64| {
                if shares == 0.0 { 0.0 } else { 2f64.powf(-(usage / shares) / options.dampening) }
            };
            descend(&root, (1.0, 1.0), root.usage(), true, &mut step, &factor, &mut out);
        }
        "depth-oblivious" => {
            let mut step = |site: &Level| {
                let shares = site.norm_shares();
                if site.below_root {
                    return (shares, site.usage);
                }
                if site.part.is_none() {
                    return (shares, site.parent_usage);
                }
                if shares == 0.0 || site.parent_shares == 0.0 || site.parent_usage == 0.0 || site.usage == 0.0
                {
                    return (shares, site.usage);
                }
                let above = site.parent_usage / site.parent_shares;
                let local = (site.usage / shares) / (site.siblings_usage / site.parent_shares);
                let k = if above.ln() * local.ln() >= 0.0 {
                    1.0
                } else {
                    1.0 / (1.0 + (5.0 * above.ln()).powi(2))
                };
                (shares, above * local.powf(k) * shares)
            };
            let factor = |shares: f64, usage: f64| {
                if shares == 0.0 { 0.0 } else { 2f64.powf(-(usage / shares) / options.dampening) }
            };
            descend(&root, (1.0, 1.0), root.usage(), true, &mut step, &factor, &mut out);
        }
        "pbs" => {
            let total = root.pbs_usage(options.pbs_min_usage);
            compute_pbs_fair_shares_below(&root, (1.0, 0.0), total, true, options.pbs_min_usage, &mut out);
        }
        _ => panic!("policy {policy} has no reference"),
    }
    out
}

struct Level {
    part: Option<f64>,
    no_shares: bool,
    usage: f64,
    siblings_usage: f64,
    below_root: bool,
    parent_shares: f64,
    parent_usage: f64,
}

impl Level {
    fn norm_shares(&self) -> f64 {
        self.part.map_or(self.parent_shares, |part| part * self.parent_shares)
    }
}

fn descend(
    node: &Node,
    (parent_shares, parent_usage): (f64, f64),
    total: f64,
    below_root: bool,
    step: &mut impl FnMut(&Level) -> (f64, f64),
    factor: &impl Fn(f64, f64) -> f64,
    out: &mut FairShares,
) {
    let norm = |usage: f64| if total == 0.0 { 0.0 } else { usage / total };
    let competitors = node.competitors();
    let sum: f64 = competitors.iter().map(|node| node.share_count()).sum();
    let with_shares = competitors.iter().filter(|node| node.shares != Shares::Parent);
    let siblings_usage = norm(with_shares.map(|node| node.usage()).sum::<f64>());
    for child in competitors {
        let part = match child.shares {
            Shares::Parent => None,
            Shares::Count(_) if sum == 0.0 => Some(0.0),
            Shares::Count(count) => Some(count as f64 / sum),
        };
        let usage = norm(child.usage());
        let (shares, usage) = step(&Level {
            part,
            no_shares: sum == 0.0,
            usage,
            siblings_usage,
            below_root,
            parent_shares,
            parent_usage,
        });
        if child.is_bank {
            descend(child, (shares, usage), total, false, step, factor, out);
        } else if child.active {
            out.insert(child.key.clone(), factor(shares, usage));
        }
    }
}

impl Node {
    /// Returns the sum of the recorded usage. OpenPBS's usage file has no record of an entity whose usage is
    /// missing or is the initial 1.
    fn recorded(&self, min: f64) -> f64 {
        let own = self.own.unwrap_or(0.0);
        let own = if self.is_entity && own == min { 0.0 } else { own };
        own + self.children.iter().map(|child| child.recorded(min)).sum::<f64>()
    }

    fn pbs_usage(&self, min: f64) -> f64 {
        match self.own {
            Some(own) if self.is_entity => own,
            _ => min + self.recorded(min),
        }
    }
}

fn compute_pbs_fair_shares_below(
    node: &Node,
    (perc, tree_usage): (f64, f64),
    total: f64,
    below_root: bool,
    min: f64,
    out: &mut FairShares,
) {
    let sum: f64 = node.children.iter().map(Node::share_count).sum();
    for child in &node.children {
        let part = if sum * perc == 0.0 { 0.0 } else { child.share_count() / sum };
        let own = if total == 0.0 { 0.0 } else { child.pbs_usage(min) / total };
        let usage = if below_root { own } else { own + (tree_usage - own) * part };
        let perc = part * perc;
        if child.is_bank {
            compute_pbs_fair_shares_below(child, (perc, usage), total, false, min, out);
        } else if child.active {
            out.insert(child.key.clone(), if perc == 0.0 { 0.0 } else { 2f64.powf(-(usage / perc)) });
        }
    }
}

/// Returns all nodes that compete below a bank, in list order, each with its value.
fn list_nodes_competing_below_bank(policy: Policy, bank: &Node) -> Vec<(f64, Node)> {
    let mut competitors = bank.competitors();
    competitors.sort_by_key(|node| node.list);
    let shares: f64 = competitors.iter().map(|node| node.share_count()).sum();
    let usage: f64 = if policy == Policy::FairTree {
        bank.usage()
    } else {
        competitors.iter().map(|node| node.usage()).sum()
    };
    let value = |node: &Node| {
        if node.shares == Shares::Parent {
            return f64::INFINITY;
        }
        if node.share_count() == 0.0 {
            return 0.0;
        }
        if node.usage() == 0.0 {
            return if policy == Policy::FairTree { f64::INFINITY } else { 2f64.powi(64) };
        }
        (node.share_count() / shares) / (node.usage() / usage)
    };
    competitors.into_iter().map(|node| (value(node), node.clone())).collect()
}

/// Returns the banks with parent shares below `bank`, each without its children. Slurm's program visits these
/// banks among the children of `bank`.
fn list_vanished_banks(bank: &Node) -> Vec<(f64, Node)> {
    let mut found = Vec::new();
    for child in bank.children.iter().filter(|child| child.vanishes()) {
        found.push((4_294_967_294.0, Node { children: Vec::new(), ..child.clone() }));
        found.extend(list_vanished_banks(child));
    }
    found.sort_by_key(|(_, node)| node.list);
    found
}

struct Walk {
    policy: Policy,
    ties: Ties,
    left: usize,
    rank: usize,
    /// The ranks of the associations. They are not yet divided by the number of associations.
    out: FairShares,
}

impl Walk {
    fn is_program(&self) -> bool {
        self.policy == Policy::FairTree && self.ties == Ties::SlurmProgram
    }

    fn is_equal(&self, a: f64, b: f64) -> bool {
        if self.policy == Policy::FairTree {
            return a == b;
        }
        (a - b).abs() < f64::EPSILON * a.abs().max(b.abs()).max(1.0)
    }

    fn visit(&mut self, siblings: &mut Vec<(f64, Node)>, inherited: bool) {
        let program = self.is_program();
        siblings
            .retain(|(_, node)| if node.is_bank { program || node.count_ranked() > 0 } else { node.active });
        // A stable sort keeps equal values in list order.
        siblings.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut sorted: Vec<(f64, Node)> = Vec::new();
        for run in siblings.chunk_by(|a, b| self.is_equal(a.0, b.0)) {
            sorted.extend(run.iter().filter(|(_, node)| !node.is_bank).cloned());
            sorted.extend(run.iter().filter(|(_, node)| node.is_bank).cloned());
        }
        let mut at = 0;
        while let Some((value, node)) = sorted.get(at).cloned() {
            let before = at.checked_sub(1).map(|before| &sorted[before]);
            let mut tied = before.map_or(inherited, |(before, _)| self.is_equal(*before, value));
            at += 1;
            if self.policy == Policy::WeightedWalk {
                tied = tied && before.is_some_and(|(_, before)| !before.is_bank) && !node.is_bank;
            }
            if !node.is_bank {
                if !tied {
                    self.rank = self.left;
                }
                self.out.insert(node.key.clone(), self.rank as f64);
                self.left -= 1;
                continue;
            }
            let mut below = list_nodes_competing_below_bank(self.policy, &node);
            if program {
                below.extend(list_vanished_banks(&node));
            }
            let mut last = value;
            while !program && at < sorted.len() && sorted[at].1.is_bank && self.is_equal(last, sorted[at].0) {
                last = sorted[at].0;
                below.extend(list_nodes_competing_below_bank(self.policy, &sorted[at].1));
                at += 1;
            }
            self.visit(&mut below, tied);
        }
    }
}
