// SPDX-License-Identifier: LGPL-3.0-only
//! Fetches the live tree of the plugin, for commands that rank or explain a tree themselves.

use serde_json::json;

use super::ask::ask;
use crate::outcome::{Result, failure};
use fairshare::{Builder, Options, Policy, Shares, Tree};
use fairshare_accounting::store::StoredAssociation;
use fairshare_client::{Flux, FluxError};
use fairshare_engine::standing::{LeafRow, TreePage};

/// The largest number of attempts to read all pages. If a push or a refresh changes the tree between two
/// pages, the attempt fails.
const TRIES: usize = 5;

/// The live tree.
#[derive(Debug)]
pub(crate) struct PluginFairshareTree {
    pub(crate) tree: Tree,
    /// The fair-share that the plugin uses now, for each association by list index.
    pub(crate) in_force: Vec<StoredAssociation>,
    pub(crate) policy: Policy,
    pub(crate) options: Options,
    /// The time of the usages, in seconds since the epoch.
    pub(crate) now: f64,
    /// The half-life of usage in seconds; `None` if usage does not decay.
    pub(crate) half_life: Option<f64>,
    pub(crate) is_node_seconds: bool,
}

/// Fetches the tree.
pub(crate) fn load(flux: &Flux) -> Result<PluginFairshareTree> {
    build(fetch(flux)?)
}

/// Returns true if the plugin lets only the instance owner and admins read the tree, and the caller is neither.
pub(crate) fn is_denied(flux: &Flux) -> bool {
    let answer = flux.rpc("job-manager.mf_priority.tree", r#"{"limit": 1}"#);
    matches!(answer, Err(FluxError::Request { errno: libc::EPERM, .. }))
}

/// Fetches the policy, the half-life and one row of the live tree. Returns `None` if the plugin has no live tree, or if the
/// caller may not read it.
pub(crate) fn fetch_live_tree_settings(flux: &Flux) -> Option<TreePage> {
    ask(flux, "tree", &json!({"limit": 1})).ok()
}

/// Fetches the pages of the tree. If a push or a refresh changed the tree between two pages, all pages are read again.
pub(crate) fn fetch(flux: &Flux) -> Result<Vec<TreePage>> {
    let mut pages = read(flux)?;
    for _ in 1..TRIES {
        if pages.windows(2).all(|pair| matches!(pair, [one, next] if one.generation == next.generation)) {
            break;
        }
        pages = read(flux)?;
    }
    Ok(pages)
}

fn read(flux: &Flux) -> Result<Vec<TreePage>> {
    let mut pages: Vec<TreePage> = Vec::new();
    let mut after = 0;
    loop {
        let page: TreePage = ask(flux, "tree", &json!({"after": after}))?;
        let next = page.next;
        pages.push(page);
        match next {
            Some(next) => after = next,
            None => return Ok(pages),
        }
    }
}

fn build(pages: Vec<TreePage>) -> Result<PluginFairshareTree> {
    let fail = |text: String| failure(format!("the plugin's answer to \"tree\": {text}"));
    let Some(first) = pages.first() else { return Err(fail("no page".to_owned())) };
    let policy: Policy = first.policy.parse().map_err(fail)?;
    let mut options = Options::default();
    for (name, value) in &first.options {
        options.set(&format!("{name}={value}")).map_err(|error| fail(error.to_string()))?;
    }
    let (now, half_life) = (first.now, Some(first.half_life).filter(|half_life| *half_life > 0.0));
    let is_node_seconds = (first.node_weight, first.core_weight, first.gpu_weight) == (1.0, 0.0, 0.0);
    let mut builder = Builder::default();
    for bank in pages.iter().flat_map(|page| &page.banks) {
        let (name, parent, shares) = (bank.name.as_str(), bank.parent.as_deref(), Shares::Count(bank.shares));
        builder.bank(name, parent, shares, None, bank.active);
    }
    let mut leaves: Vec<LeafRow> = pages.into_iter().flat_map(|page| page.leaves).collect();
    leaves.sort_by_key(|leaf| leaf.place);
    let in_force =
        leaves.iter().map(|leaf| StoredAssociation { rowid: 0, fairshare: leaf.fairshare }).collect();
    for leaf in &leaves {
        builder.association(
            &leaf.name,
            &leaf.bank,
            Shares::Count(leaf.shares),
            Some(leaf.usage),
            leaf.active,
        );
    }
    let tree = builder.build().map_err(failure)?;
    Ok(PluginFairshareTree { tree, in_force, policy, options, now, half_life, is_node_seconds })
}
