// SPDX-License-Identifier: LGPL-3.0-only
//! Explanations as JSON.

use serde::{Serialize, Serializer};
use std::cmp::Ordering;

use super::text::Site;
use crate::site::names::bank_of;
use crate::ui::output::json_number;
use fairshare::{Comparison, Explanation, Level, NodeId, NodeKind, Shares};
use fairshare_accounting::store::UsageBin;

/// A number; infinity is the text "inf".
#[derive(Clone, Copy)]
struct Number(f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json_number(self.0).serialize(serializer)
    }
}

#[cfg(test)]
impl schemars::JsonSchema for Number {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Number".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"anyOf": [{"type": "number"}, {"enum": ["inf", "-inf", null]}]})
    }
}

/// The members of the document that explain one user or bank.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::commands) struct ExplainedNodes<'a> {
    /// The associations of the user, or the bank.
    pub(super) associations: Vec<ExplainedNode<'a>>,
}

/// The members of the document that compare two users or banks.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::commands) struct ComparedNodes<'a> {
    /// The node that is ahead; null if the nodes are tied or one of them is not ranked.
    ahead: Option<NamedNode<'a>>,
    /// `first`, `second` or `tied`; null if one of the nodes is not ranked.
    verdict: Option<&'static str>,
    /// The lowest bank above both nodes.
    ancestor: &'a str,
    /// The two children of `ancestor` on the paths to the first node and to the second node.
    fork: [NodeLevel<'a>; 2],
    /// The two nodes whose values decide which of the compared nodes is ahead.
    decisive: [NodeLevel<'a>; 2],
    associations: [ExplainedNode<'a>; 2],
}

/// A bank, or an association.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct NamedNode<'a> {
    /// `bank` or `association`.
    kind: &'static str,
    bank: &'a str,
    /// The user; null for a bank.
    user: Option<&'a str>,
}

/// How a bank or an association compares with its siblings. All usages are decayed.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct NodeLevel<'a> {
    #[serde(flatten)]
    node: NamedNode<'a>,
    /// The number of levels below the root.
    depth: usize,
    /// Raw shares, or `parent`.
    shares: NodeShares,
    /// The shares of the node and its siblings.
    sibling_shares: Number,
    /// The shares as a fraction of the whole site.
    norm_shares: Number,
    usage: Number,
    /// The usage of the node and its siblings.
    sibling_usage: Number,
    /// The usage as a fraction of the usage of the whole site.
    norm_usage: Number,
    /// The usage that the policy compares with the shares.
    effective_usage: Number,
    /// The usage that the node adds to the bank above. Under the policy `pbs`, an association with the minimum usage adds 0.
    counted_usage: Number,
    /// The sum of `counted_usage` of the node and its siblings.
    counted_sibling_usage: Number,
    /// The usage at which the node's fraction of the siblings' usage equals its fraction of their shares.
    even_usage: Option<f64>,
    /// The value by which the policy compares siblings.
    value: Option<Number>,
    fairshare: Option<Number>,
    /// The users below the bank that have the largest usage.
    top_users: Vec<UserUsage<'a>>,
}

/// Raw shares.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
enum NodeShares {
    Count(u64),
    Parent(&'static str),
}

/// The usage of a user.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct UserUsage<'a> {
    user: &'a str,
    bank: &'a str,
    usage: f64,
}

/// The explanation of an association or a bank.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ExplainedNode<'a> {
    association: NamedNode<'a>,
    fairshare: Option<f64>,
    /// The place of the association among all ranked associations. The first place is 1.
    place: Option<usize>,
    /// The place in the order of PBS's scheduler.
    pbs_walk: Option<usize>,
    /// The association that is ranked directly ahead.
    just_ahead: Option<NamedNode<'a>>,
    /// A change that would put the association ahead of `just_ahead`.
    overtake: Option<Overtake<'a>>,
    /// The index of the level that lowers the fair-share most.
    worst: Option<usize>,
    worst_level: Option<NodeLevel<'a>>,
    /// The levels from the root.
    levels: Vec<NodeLevel<'a>>,
    /// The recorded usage by half-life period.
    usage_bins: Vec<PeriodUsage>,
}

/// A change that would put an association ahead of another.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Overtake<'a> {
    #[serde(flatten)]
    node: NamedNode<'a>,
    /// If the node had this number of shares, the association would be ranked ahead of `just_ahead`.
    shares: Option<u64>,
    /// If the node's usage were below this value, the association would be ranked ahead of `just_ahead`.
    usage_below: Option<f64>,
}

/// The usage of a period. The number of the present period is 0.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PeriodUsage {
    period: i64,
    usage: f64,
}

impl Site<'_> {
    fn make_named_node(&self, node: NodeId) -> NamedNode<'_> {
        match self.tree.kind(node) {
            NodeKind::Bank => NamedNode { kind: "bank", bank: self.tree.name(node), user: None },
            NodeKind::Association => NamedNode {
                kind: "association",
                bank: bank_of(self.tree, node),
                user: Some(self.tree.name(node)),
            },
        }
    }

    /// Returns the JSON object of a level. If `with_users` is true, it lists the users of a bank that have the largest usage.
    fn make_level_json(&self, level: &Level, with_users: bool) -> NodeLevel<'_> {
        let detail = &level.detail;
        let with_users = with_users && self.tree.kind(level.node) == NodeKind::Bank;
        let users = if with_users { self.top_users(level.node) } else { Vec::new() };
        let user = |(leaf, usage): (NodeId, f64)| UserUsage {
            user: self.tree.name(leaf),
            bank: bank_of(self.tree, leaf),
            usage,
        };
        NodeLevel {
            node: self.make_named_node(level.node),
            depth: level.depth,
            shares: match detail.shares {
                Shares::Count(count) => NodeShares::Count(count),
                Shares::Parent => NodeShares::Parent("parent"),
            },
            sibling_shares: Number(level.sibling_shares),
            norm_shares: Number(detail.norm_shares),
            usage: Number(detail.usage),
            sibling_usage: Number(level.sibling_usage),
            norm_usage: Number(detail.norm_usage),
            effective_usage: Number(detail.effective_usage),
            counted_usage: Number(level.counted.0),
            counted_sibling_usage: Number(level.counted.1),
            even_usage: level.even_usage(),
            value: level.value.map(Number),
            fairshare: detail.fairshare.map(Number),
            top_users: users.into_iter().map(user).collect(),
        }
    }

    pub(super) fn explain_node(
        &self,
        node: NodeId,
        explanation: &Explanation,
        bins: &[UsageBin],
    ) -> ExplainedNode<'_> {
        let ahead = self.ranking.just_ahead(node);
        let overtake = ahead.and_then(|ahead| {
            let comparison = self.ranking.compare(self.tree, node, ahead)?;
            let change = self.ranking.overtake(&comparison)?;
            Some(Overtake {
                node: self.make_named_node(change.node),
                shares: change.shares,
                usage_below: change.usage,
            })
        });
        let worst = explanation.worst.and_then(|at| explanation.levels.get(at));
        ExplainedNode {
            association: self.make_named_node(node),
            fairshare: self.ranking.fairshare(node),
            place: self.ranking.place(node),
            pbs_walk: self.walk.as_ref().and_then(|walk| walk.place(node)),
            just_ahead: ahead.map(|ahead| self.make_named_node(ahead)),
            overtake,
            worst: explanation.worst,
            worst_level: worst.map(|level| self.make_level_json(level, true)),
            levels: explanation.levels.iter().map(|level| self.make_level_json(level, false)).collect(),
            usage_bins: bins.iter().map(|bin| PeriodUsage { period: bin.period, usage: bin.usage }).collect(),
        }
    }

    pub(super) fn compared_nodes(&self, a: NodeId, b: NodeId, comparison: &Comparison) -> ComparedNodes<'_> {
        let verdict = self.verdict(a, b, comparison);
        let pair = |(one, other): &(Level, Level)| {
            [self.make_level_json(one, true), self.make_level_json(other, true)]
        };
        let (one, other) = &comparison.chains;
        ComparedNodes {
            ahead: match verdict {
                Some(Ordering::Less) => Some(self.make_named_node(a)),
                Some(Ordering::Greater) => Some(self.make_named_node(b)),
                Some(Ordering::Equal) | None => None,
            },
            verdict: verdict.map(|verdict| match verdict {
                Ordering::Less => "first",
                Ordering::Greater => "second",
                Ordering::Equal => "tied",
            }),
            ancestor: self.tree.name(comparison.ancestor),
            fork: pair(&comparison.fork),
            decisive: pair(&comparison.decisive),
            associations: [self.explain_node(a, one, &[]), self.explain_node(b, other, &[])],
        }
    }
}
