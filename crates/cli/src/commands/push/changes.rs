// SPDX-License-Identifier: LGPL-3.0-only
//! The number of records that a push changes.

use fairshare_engine::accounts::{ChangeCounts, Difference};

/// Describes the counts of a push. Kinds without a change are left out, except for associations.
pub(crate) fn describe(difference: &Difference) -> String {
    let Difference { added, changed, removed, unchanged, others } = difference;
    let mut text =
        format!("associations: {added} added, {changed} changed, {removed} removed, {unchanged} unchanged");
    let kinds = [
        ("banks", others.banks),
        ("queues", others.queues),
        ("factors", others.factors),
        ("projects", others.projects),
        ("limits", others.limits),
        ("config", ChangeCounts { changed: others.config.changed, ..ChangeCounts::default() }),
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
