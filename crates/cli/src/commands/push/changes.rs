// SPDX-License-Identifier: LGPL-3.0-only
//! The number of records that a push changes.

use fairshare_engine::accounts::{ChangeCounts, Difference};

/// Describes the counts of a push. Kinds without a change are left out, except for associations.
pub(crate) fn describe(difference: &Difference) -> String {
    let Difference { added, changed, removed, unchanged, others } = *difference;
    let others = describe_kinds(&Difference { others, ..Difference::default() });
    let others = others.map_or(String::new(), |others| format!("; {others}"));
    format!(
        "associations: {added} added, {changed} changed, {removed} removed, {unchanged} unchanged{others}"
    )
}

/// Describes the counts of the kinds of records that a push changes. Returns `None` if it changes nothing.
pub(crate) fn describe_kinds(difference: &Difference) -> Option<String> {
    let Difference { added, changed, removed, others, .. } = *difference;
    let associations = ("associations", ChangeCounts { added, changed, removed });
    let config = ("config", ChangeCounts { changed: others.config.changed, ..ChangeCounts::default() });
    let describe = |(kind, counts): (&str, ChangeCounts)| {
        let counted = [(counts.added, "added"), (counts.changed, "changed"), (counts.removed, "removed")];
        let counted = counted.into_iter().filter(|(count, _)| *count > 0);
        let texts: Vec<String> = counted.map(|(count, what)| format!("{count} {what}")).collect();
        (!texts.is_empty()).then(|| format!("{kind}: {}", texts.join(", ")))
    };
    let kinds = [associations].into_iter().chain(others.kinds()).chain([config]);
    let kinds: Vec<String> = kinds.filter_map(describe).collect();
    (!kinds.is_empty()).then(|| kinds.join("; "))
}
