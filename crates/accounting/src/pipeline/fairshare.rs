// SPDX-License-Identifier: LGPL-3.0-only
//! The last step in the database: fair-shares of the usage that is stored.

use super::PipelineError;
use crate::store::{Snapshot, StoredAssociation};
use fairshare::{InactiveUsage, NodeId, Options, Policy, Ranking, Tree};

/// The ranked tree, and whose stored fair-share is not the computed one.
#[derive(Debug)]
pub struct Ranked {
    /// The tree.
    pub tree: Tree,
    /// Its ranking.
    pub ranking: Ranking,
    /// What changes, in the order of the rows.
    pub changes: Vec<Change>,
}

/// One association whose stored fair-share is not the computed one.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// Where it is in the tree.
    pub node: NodeId,
    /// What is stored.
    pub stored: StoredAssociation,
    /// What it should be.
    pub fairshare: f64,
}

impl Change {
    /// How far it moves; from no value at all counts as from 0.
    pub fn distance(&self) -> f64 {
        self.fairshare - self.stored.fairshare.unwrap_or(0.0)
    }
}

/// Reads the tree and checks it, with the numbers by which usage counts and decays. `push`, `update` and `sync` all refuse
/// a database that this refuses. `progress` hears how many associations were read, now and then.
pub fn checked_tree(
    snapshot: &Snapshot<'_>,
    inactive: InactiveUsage,
    progress: &mut dyn FnMut(u64),
) -> Result<(Tree, Vec<StoredAssociation>), PipelineError> {
    snapshot.check_usage_rule()?;
    let stored = snapshot.tree(inactive, progress)?;
    let path = || snapshot.path().to_owned();
    let tree = stored.builder.build().map_err(|error| PipelineError::Tree { path: path(), error })?;
    Ok((tree, stored.associations))
}

impl Ranked {
    /// Reads the tree and ranks it. `progress` hears how many associations were read, now and then.
    pub fn new(
        snapshot: &Snapshot<'_>,
        policy: Policy,
        options: &Options,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Ranked, PipelineError> {
        let (tree, stored) = checked_tree(snapshot, options.inactive_usage, progress)?;
        let about = |text: String| PipelineError::Rank { path: snapshot.path().to_owned(), text };
        let ranking = tree.rank(policy, options).map_err(|error| about(error.to_string()))?;
        let change = |node: NodeId| {
            let fairshare = ranking.fairshare(node)?;
            let stored = *stored.get(tree.list_index(node))?;
            (stored.fairshare != Some(fairshare)).then_some(Change { node, stored, fairshare })
        };
        let mut changes: Vec<Change> = tree.leaves().filter_map(change).collect();
        changes.sort_unstable_by_key(|change| change.stored.rowid);
        Ok(Ranked { tree, ranking, changes })
    }

    /// Writes what changes into the transaction.
    pub fn write(&self, snapshot: &Snapshot<'_>, progress: &mut dyn FnMut(u64)) -> Result<(), PipelineError> {
        let rows: Vec<(i64, f64)> =
            self.changes.iter().map(|change| (change.stored.rowid, change.fairshare)).collect();
        Ok(snapshot.write_fairshare(&rows, progress)?)
    }
}
