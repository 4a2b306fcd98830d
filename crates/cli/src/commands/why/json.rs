// SPDX-License-Identifier: LGPL-3.0-only
//! Explanations as JSON.

use serde_json::{Value, json};

use super::site::Site;
use crate::site::names::bank_of;
use crate::ui::output::json_number;
use fairshare::{Comparison, Explanation, Level, NodeId, NodeKind, Shares, Verdict};
use fairshare_accounting::store::UsageBin;

impl Site<'_> {
    fn node_json(&self, node: NodeId) -> Value {
        let bank = self.tree.kind(node) == NodeKind::Bank;
        json!({
            "kind": if bank { "bank" } else { "association" },
            "bank": if bank { self.tree.name(node) } else { bank_of(self.tree, node) },
            "user": if bank { Value::Null } else { self.tree.name(node).into() },
        })
    }

    /// Returns the numbers of a level; if `with_users`, also the users below with the largest usage.
    fn level_json(&self, level: &Level, with_users: bool) -> Value {
        let detail = &level.detail;
        let maybe = |number: Option<f64>| number.map_or(Value::Null, json_number);
        let mut document = self.node_json(level.node);
        let top: Vec<Value> = if with_users && self.tree.kind(level.node) == NodeKind::Bank {
            let users = self.top_users(level.node);
            users
                .iter()
                .map(|(leaf, usage)| {
                    json!({"user": self.tree.name(*leaf), "bank": bank_of(self.tree, *leaf), "usage": usage})
                })
                .collect()
        } else {
            Vec::new()
        };
        let more = json!({
            "depth": level.depth,
            "shares": match detail.shares { Shares::Count(count) => count.into(), Shares::Parent => Value::from("parent") },
            "sibling_shares": json_number(level.sibling_shares),
            "norm_shares": json_number(detail.norm_shares),
            "usage": json_number(detail.usage),
            "sibling_usage": json_number(level.sibling_usage),
            "norm_usage": json_number(detail.norm_usage),
            "effective_usage": json_number(detail.effective_usage),
            "counted_usage": json_number(level.counted.0),
            "counted_sibling_usage": json_number(level.counted.1),
            "even_usage": level.even_usage(),
            "value": maybe(level.value),
            "fairshare": maybe(detail.fairshare),
            "top_users": top,
        });
        if let (Value::Object(document), Value::Object(more)) = (&mut document, more) {
            document.extend(more);
        }
        document
    }

    pub(super) fn explanation_json(
        &self,
        node: NodeId,
        explanation: &Explanation,
        bins: &[UsageBin],
    ) -> Value {
        let levels: Vec<Value> =
            explanation.levels.iter().map(|level| self.level_json(level, false)).collect();
        let ahead = self.ranking.just_ahead(node);
        let overtake = ahead.and_then(|ahead| {
            let comparison = self.ranking.compare(self.tree, node, ahead)?;
            let change = self.ranking.overtake(&comparison)?;
            let mut document = self.node_json(change.node);
            if let Value::Object(document) = &mut document {
                document.insert("shares".to_owned(), change.shares.into());
                document.insert("usage_below".to_owned(), change.usage.into());
            }
            Some(document)
        });
        json!({
            "association": self.node_json(node),
            "fairshare": self.ranking.fairshare(node),
            "place": self.ranking.place(node),
            "pbs_walk": self.walk.as_ref().and_then(|walk| walk.place(node)),
            "just_ahead": ahead.map(|ahead| self.node_json(ahead)),
            "overtake": overtake,
            "worst": explanation.worst,
            "worst_level": explanation.worst.and_then(|at| explanation.levels.get(at)).map(|level| self.level_json(level, true)),
            "levels": levels,
            "usage_bins": bins.iter().map(|bin| json!({"period": bin.period, "usage": bin.usage})).collect::<Vec<_>>(),
        })
    }

    pub(super) fn comparison_json(
        &self,
        a: NodeId,
        b: NodeId,
        comparison: &Comparison,
    ) -> Vec<(String, Value)> {
        let verdict = self.verdict(a, b, comparison);
        let ahead = match verdict {
            Some(Verdict::First) => self.node_json(a),
            Some(Verdict::Second) => self.node_json(b),
            Some(Verdict::Tied) | None => Value::Null,
        };
        // Null if one of them is not ranked.
        let verdict = verdict.map(|verdict| match verdict {
            Verdict::First => "first",
            Verdict::Second => "second",
            Verdict::Tied => "tied",
        });
        let pair = |(one, other): &(Level, Level)| {
            Value::from(vec![self.level_json(one, true), self.level_json(other, true)])
        };
        let chains = [(a, &comparison.chains.0), (b, &comparison.chains.1)];
        let chains: Vec<Value> =
            chains.iter().map(|(node, chain)| self.explanation_json(*node, chain, &[])).collect();
        vec![
            ("ahead".to_owned(), ahead),
            ("verdict".to_owned(), verdict.into()),
            ("ancestor".to_owned(), self.tree.name(comparison.ancestor).into()),
            ("fork".to_owned(), pair(&comparison.fork)),
            ("decisive".to_owned(), pair(&comparison.decisive)),
            ("associations".to_owned(), chains.into()),
        ]
    }
}
