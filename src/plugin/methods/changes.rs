// SPDX-License-Identifier: LGPL-3.0-only
//! The log line about the changes of a push.

use crate::jobtap::{LogLevel, Plugin};
use fairshare_engine::accounts::{ChangeCounts, Difference};

/// Logs the changes of a push in one line.
pub fn log_push(plugin: Plugin, what: &str, generation: u64, difference: Difference) {
    let Difference { added, changed, removed, unchanged, others } = difference;
    let mut text = format!(
        "mf_priority: {what}: generation {generation}, associations: {added} added, {changed} changed, \
         {removed} removed, {unchanged} unchanged"
    );
    for (kind, counts @ ChangeCounts { added, changed, removed }) in others.kinds() {
        if !counts.is_empty() {
            text += &format!("; {kind}: {added} added, {changed} changed, {removed} removed");
        }
    }
    if others.config.changed > 0 {
        text += &format!("; config: {} changed", others.config.changed);
    }
    plugin.log(LogLevel::Info, &text);
}
