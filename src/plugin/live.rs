// SPDX-License-Identifier: LGPL-3.0-only
//! Live fair-share in queries: the key `live` of the document, and the method `prices`.

use super::costs::Cost;
use super::services::{busy, error, refuse};
use super::{MfPriority, terms};
use crate::jobtap::{ENOENT, Host, Reply};
use fairshare::Shares;
use fairshare::accrual::Mode;
use fairshare_engine::engine::answers;
use fairshare_engine::engine::{LastRefresh, LiveSnapshot, PricedJob};
use fairshare_engine::ids::JobId;
use fairshare_engine::standing::{BankRow, LeafRow, TreePage};
use fairshare_protocol::wire;
use serde_json::{Map, Value, json};

/// What the document says of live fair-share.
pub(super) fn document(live: &LiveSnapshot, cost: Cost) -> Value {
    let (associations, running, ended) = live.counts;
    let settings = &live.settings;
    let options = live.rule.map(|(policy, options)| {
        let of_policy = options.settings().into_iter();
        let of_policy = of_policy.filter(|(name, _)| fairshare::Options::applies(name, policy));
        of_policy.map(|(name, value)| (name.to_owned(), json!(value))).collect::<Map<_, _>>()
    });
    json!({
        "on": live.is_on,
        "policy": live.rule.map(|(policy, _)| policy.name()),
        "options": options,
        "generation": live.generation,
        "refresh": settings.refresh,
        "depth": settings.depth,
        "budget": settings.budget,
        "max_stall": settings.max_stall,
        "accrual": match settings.accrual { Mode::Elapsed => "elapsed", Mode::Committed => "committed" },
        "associations": associations,
        "running": running,
        "ended": ended,
        "pending": live.pending,
        "lagging": live.lagging,
        "refreshing": live.is_refreshing,
        "last": live.last.as_ref().map(|one| last(one, cost)),
        "interleave": settings.interleave,
        "ages": terms::ages(&live.ages),
    })
}

/// The last refresh; `cost` is that of refreshes.
pub(super) fn last(last: &LastRefresh, cost: Cost) -> Value {
    json!({
        "when": last.when,
        "seconds": cost.last.map(|(_, seconds)| seconds),
        "worked_out": last.worked_out,
        "ranked": last.ranked,
        "changed": last.changed,
        "touched": last.touched,
        "lagging": last.lagging,
        "right_to": last.right_to,
    })
}

fn price(id: JobId, priced: &PricedJob, age: f64) -> Value {
    let [posted, exact] = [&priced.posted, &priced.exact].map(|made| {
        let terms = made.shown_terms(age).into_iter().map(|term| {
            json!({"name": term.name, "value": term.value, "weight": term.weight, "product": term.product})
        });
        json!({"priority": made.priority, "sum": made.sum, "terms": terms.collect::<Vec<_>>()})
    });
    json!({
        "id": id.0,
        "when": priced.when,
        "generation": priced.generation,
        "posted": posted,
        "exact": exact,
        "turn": priced.turn.map(|turn| turn.number),
    })
}

fn tree_page(page: &TreePage, now: f64) -> Value {
    let shares = |shares: Shares| match shares {
        Shares::Count(count) => json!(count),
        Shares::Parent => json!("parent"),
    };
    let bank = |bank: &BankRow| {
        json!({
            "bank": bank.name,
            "parent": bank.parent,
            "shares": shares(bank.shares),
            "active": bank.active,
            "usage": bank.usage,
        })
    };
    let leaf = |leaf: &LeafRow| {
        json!({
            "place": leaf.place,
            "username": leaf.name,
            "userid": leaf.user.map(|user| user.0),
            "bank": leaf.bank,
            "shares": shares(leaf.shares),
            "active": leaf.active,
            "usage": leaf.usage,
            "fairshare": leaf.fairshare,
        })
    };
    let options = page.options.settings().into_iter().map(|(name, value)| (name.to_owned(), json!(value)));
    json!({
        "now": now,
        "generation": page.generation,
        "policy": page.policy.name(),
        "options": options.collect::<Map<_, _>>(),
        "half_life": page.half_life.seconds().unwrap_or(0.0),
        "node_weight": page.weights.node,
        "core_weight": page.weights.core,
        "gpu_weight": page.weights.gpu,
        "banks": page.banks.iter().map(bank).collect::<Vec<_>>(),
        "associations": page.leaves.iter().map(leaf).collect::<Vec<_>>(),
        "next": page.next,
    })
}

impl MfPriority {
    /// What associations have used as of now, and their fair-share as of the last refresh, in pages by user id and bank.
    pub(super) fn usages(&self, host: Host<'_, Self>, payload: Option<&str>) -> Reply {
        let wanted = wire::page(payload).map_err(|fault| refuse(host.plugin(), "usages", &fault))?;
        let now = host.now();
        let (used, next) = self.engine.view(|view| answers::usages(view, &wanted, now)).ok_or_else(busy)?;
        let used = used.iter().map(|used| {
            json!({
                "userid": used.user.0,
                "bank": used.bank.as_str(),
                "usage": used.usage,
                "fairshare": used.fairshare,
            })
        });
        let next = next.map(|(user, bank)| json!([user.0, bank.as_str()]));
        Ok(Some(json!({"now": now, "associations": used.collect::<Vec<_>>(), "next": next}).to_string()))
    }

    /// The live tree: banks and associations with their usage as of now, and how it is ranked.
    pub(super) fn tree(&self, host: Host<'_, Self>, payload: Option<&str>) -> Reply {
        let (first, most) =
            wire::tree_page(payload).map_err(|fault| refuse(host.plugin(), "tree", &fault))?;
        let now = host.now();
        let found = self.engine.view(|view| answers::tree_page(view, first, most, now)).ok_or_else(busy)?;
        let text =
            "fair-share is not live: no push brought a tree, or \"live\" is false in the configuration";
        let page = found.ok_or_else(|| error(ENOENT, text.to_owned()))?;
        Ok(Some(tree_page(&page, now).to_string()))
    }

    /// Posted and exact prices of pending jobs, by id: of those that are asked for, or a page of all.
    pub(super) fn prices(&self, host: Host<'_, Self>, payload: Option<&str>) -> Reply {
        let wanted = wire::prices(payload).map_err(|fault| refuse(host.plugin(), "prices", &fault))?;
        let found = self.engine.view(|view| {
            let ids = wanted.ids.unwrap_or_else(|| view.pending_after(wanted.after, wanted.most));
            let is_last = ids.len() < wanted.most;
            let next = ids.last().filter(|_| !is_last).map(|id| id.0);
            let jobs = ids
                .into_iter()
                .filter_map(|id| Some(price(id, &view.priced(id)?, view.age_of(id, host.now()))));
            json!({"jobs": jobs.collect::<Vec<_>>(), "next": next})
        });
        Ok(Some(found.ok_or_else(busy)?.to_string()))
    }
}
