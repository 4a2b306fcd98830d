// SPDX-License-Identifier: LGPL-3.0-only
//! The number of records that a push changes.

use serde::{Deserialize, Serialize};

/// Number of records of one kind that were added, changed and removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Counts {
    added: u64,
    changed: u64,
    removed: u64,
}

/// The plugin's report of a push. The counts at the top level are those of associations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub(crate) struct Changes {
    pub(crate) generation: u64,
    pub(crate) added: u64,
    pub(crate) changed: u64,
    pub(crate) removed: u64,
    pub(crate) unchanged: u64,
    #[serde(default)]
    pub(crate) queues: Counts,
    #[serde(default)]
    pub(crate) projects: Counts,
    #[serde(default)]
    pub(crate) banks: Counts,
    #[serde(default)]
    pub(crate) limits: Counts,
    #[serde(default)]
    pub(crate) factors: Counts,
    #[serde(default)]
    pub(crate) config: Counts,
}

impl Changes {
    /// Describes the counts. Kinds without a change are left out, except for associations.
    pub(crate) fn words(&self) -> String {
        let Changes { added, changed, removed, unchanged, .. } = self;
        let mut text = format!(
            "associations: {added} added, {changed} changed, {removed} removed, {unchanged} unchanged"
        );
        let kinds = [
            ("banks", self.banks),
            ("queues", self.queues),
            ("factors", self.factors),
            ("projects", self.projects),
            ("limits", self.limits),
            ("config", self.config),
        ];
        for (kind, counts) in kinds {
            let counted = [(counts.added, "added"), (counts.changed, "changed"), (counts.removed, "removed")];
            let texts: Vec<String> = counted
                .into_iter()
                .filter(|(count, _)| *count > 0)
                .map(|(count, what)| format!("{count} {what}"))
                .collect();
            if !texts.is_empty() {
                text += &format!("; {kind}: {}", texts.join(", "));
            }
        }
        text
    }
}
