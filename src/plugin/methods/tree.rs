// SPDX-License-Identifier: LGPL-3.0-only
//! `tree`: the live tree, in pages.

use crate::jobtap::{ENOENT, Host, Reply};
use crate::plugin::MfPriority;
use crate::plugin::services::{busy, error, refuse};
use fairshare::Shares;
use fairshare_engine::engine::answers;
use fairshare_engine::standing::{BankRow, LeafRow, TreePage};
use fairshare_protocol::wire;
use serde_json::{Map, Value, json};

/// Answers with banks and associations, their usage as of now, and how the tree is ranked.
pub fn answer(plugin: &MfPriority, host: Host<'_, MfPriority>, payload: Option<&str>) -> Reply {
    let (first, most) = wire::tree_page(payload).map_err(|fault| refuse(host.plugin(), "tree", &fault))?;
    let now = host.now();
    let found = plugin.engine.view(|view| answers::tree_page(view, first, most, now)).ok_or_else(busy)?;
    let text = "fair-share is not live: no push brought a tree, or \"live\" is false in the configuration";
    let page = found.ok_or_else(|| error(ENOENT, text.to_owned()))?;
    Ok(Some(page_json(&page, now).to_string()))
}

fn page_json(page: &TreePage, now: f64) -> Value {
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
