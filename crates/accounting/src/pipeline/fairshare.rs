// SPDX-License-Identifier: LGPL-3.0-only
//! Computes fair-shares from the stored usage.

use super::{PipelineError, Result};
use crate::store::{Snapshot, StoredAssociation};
use fairshare::{InactiveUsage, NodeId, Options, Policy, Ranking, Tree};

/// The ranked tree, and the associations whose stored fair-share differs from the computed one.
#[derive(Debug)]
pub struct Ranked {
    /// The tree of banks and associations.
    pub tree: Tree,
    /// The ranking of the tree.
    pub ranking: Ranking,
    /// Changes of fair-shares, in the order of the rows.
    pub changes: Vec<Change>,
}

/// A change of the fair-share of one association.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// The association in the tree.
    pub node: NodeId,
    /// The association's row number and stored fair-share.
    pub stored: StoredAssociation,
    /// The computed fair-share.
    pub fairshare: f64,
}

impl Change {
    /// Returns the computed fair-share minus the stored fair-share. A missing fair-share counts as 0.
    pub fn distance(&self) -> f64 {
        self.fairshare - self.stored.fairshare.unwrap_or(0.0)
    }
}

/// Reads and checks the tree and the usage settings. `push`, `update` and `sync` all reject a database that this
/// function rejects. Calls `progress` with the number of associations read.
pub fn read_and_check_tree(
    snapshot: &Snapshot<'_>,
    inactive: InactiveUsage,
    progress: &mut dyn FnMut(u64),
) -> Result<(Tree, Vec<StoredAssociation>)> {
    snapshot.check_usage_rule()?;
    let stored = snapshot.tree(inactive, progress)?;
    let path = || snapshot.path().to_owned();
    let tree = stored.builder.build().map_err(|error| PipelineError::Tree { path: path(), error })?;
    Ok((tree, stored.associations))
}

impl Ranked {
    /// Reads and ranks the tree. Calls `progress` with the number of associations read.
    pub fn new(
        snapshot: &Snapshot<'_>,
        policy: Policy,
        options: &Options,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Ranked> {
        let (tree, stored) = read_and_check_tree(snapshot, options.inactive_usage, progress)?;
        let rank_error = |text: String| PipelineError::Rank { path: snapshot.path().to_owned(), text };
        let ranking = tree.rank(policy, options).map_err(|error| rank_error(error.to_string()))?;
        let change = |node: NodeId| {
            let fairshare = ranking.fairshare(node)?;
            let stored = *stored.get(tree.find_input_index(node))?;
            (stored.fairshare != Some(fairshare)).then_some(Change { node, stored, fairshare })
        };
        let mut changes: Vec<Change> = tree.leaves().filter_map(change).collect();
        changes.sort_unstable_by_key(|change| change.stored.rowid);
        Ok(Ranked { tree, ranking, changes })
    }

    /// Writes the changed fair-shares into the transaction.
    pub fn write(&self, snapshot: &Snapshot<'_>, progress: &mut dyn FnMut(u64)) -> Result<()> {
        let rows: Vec<(i64, f64)> =
            self.changes.iter().map(|change| (change.stored.rowid, change.fairshare)).collect();
        Ok(snapshot.write_fairshare(&rows, progress)?)
    }
}
