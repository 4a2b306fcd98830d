// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare diff`: compares the database with the plugin, and its queues with Flux's configuration.

mod records;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;
use strum::VariantArray;

use super::push::{self, Push};
use super::status::{find_loaded_plugin, read_plugin_state};
use crate::outcome::{Answer, Failure, Outcome, failure};
use crate::plugin::ask::{
    InstanceArg, configured_limits, configured_queues, describe_job_instance, find_load_command,
};
use crate::plugin::live_tree;
use crate::site::database::DatabaseArg;
use crate::site::mending;
use crate::ui::messages::remark;
use crate::ui::output::{Facts, OutputArgs, Report};
use crate::ui::printable::count;
use crate::ui::rows::{Rows, Style, ValueColumn, value_column};
use fairshare_accounting::store::{Credit, PolicyData};
use fairshare_engine::engine::answers::PushChanges;
use records::{DEFAULT_BANK, Record, RecordId, RecordKind};

/// Show what differs between the database, the plugin and Flux's configuration
///
/// Asks the plugin what a push would change, as "push --dry-run" does, and lists the values that differ: associations, banks,
/// queues, projects, factors, limits, deposits of budgets and shares. Usage and live fair-shares are not compared, because the
/// plugin adds running jobs and decays usage continuously; the output says so, and "flux fairshare status" shows the last sync.
/// Also lists credits that no sync has counted, and compares the queue table of the database with [queues] of Flux's configuration.
/// Nothing is changed.
///
/// Exit status 1 means that something differs.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    database: DatabaseArg,
    #[command(flatten)]
    instance: InstanceArg,
    #[command(flatten)]
    output: OutputArgs,
}

/// A value that differs between the sources. If a source is not compared, its value is `None`.
#[derive(Debug, PartialEq)]
pub(super) struct Difference {
    record: RecordId,
    /// The field; `None` if a source lacks the whole record.
    field: Option<String>,
    database: Option<String>,
    plugin: Option<String>,
    flux: Option<String>,
}

pub(super) fn run(args: &Args) -> Outcome {
    let push =
        Push { found: args.database.found(), wait: args.database.wait, uri: args.instance.uri.as_deref() };
    let mut data = push::read(&push, &mut |note| remark(note))?;
    let flux = args.instance.connect()?;
    let Some(name) = find_loaded_plugin(&flux)? else {
        let load = || args.instance.variable() + &find_load_command(&flux);
        let text = || format!("no priority plugin is loaded: \"{}\" loads it", load());
        return Err(failure(describe_job_instance(&flux).unwrap_or_else(text)));
    };
    let (Some(preview), owner) = push::ask(&push, &data)? else {
        let text = format!("{name} is flux-accounting's plugin, which can't say what a push would change");
        return Err(failure(text));
    };
    // The plugin skips associations whose user id no job can have.
    data.associations.retain(|record| record.user().is_some());
    data.associations.extend(owner);
    let state = read_plugin_state(&flux, &name)?;
    let pages = match live_tree::fetch(&flux) {
        Ok(pages) => pages,
        // The plugin has no tree, for example before the first push.
        Err(Failure::No(_)) => Vec::new(),
        Err(failure) => return Err(failure),
    };
    let stored = records::collect_database_records(&data);
    let loaded =
        records::collect_plugin_records(&state, &pages, &preview.default_banks, &configured_limits(&flux));
    let mut differences = Vec::new();
    let mut unlisted = BTreeMap::new();
    for &kind in RecordKind::VARIANTS {
        let changed = kind.count_changes(&preview.changes.difference);
        let found = compare(kind, &stored, &loaded);
        let is_counted = |difference: &&Difference| difference.field.as_deref() != Some(DEFAULT_BANK);
        let counted: BTreeSet<&RecordId> =
            found.iter().filter(is_counted).map(|difference| &difference.record).collect();
        let remaining = changed.saturating_sub(counted.len());
        // If a push would change no record of this kind, the differences are only in the text form of equal values.
        if changed == 0 && kind != RecordKind::Association {
            continue;
        }
        if remaining > 0 {
            unlisted.insert(kind.into_str(), remaining);
        }
        differences.extend(found);
    }
    let in_plugin = !differences.is_empty() || !unlisted.is_empty();
    differences.extend(list_uncounted_usage_credits(&data));
    differences.extend(compare_queues(&configured_queues(&flux), &data));
    print(args, &preview.changes, differences, &unlisted, in_plugin)
}

/// Compares the records of a kind, field by field.
fn compare(
    kind: RecordKind,
    stored: &BTreeMap<RecordId, Record>,
    loaded: &BTreeMap<RecordId, Record>,
) -> Vec<Difference> {
    let ids: BTreeSet<&RecordId> =
        stored.keys().chain(loaded.keys()).filter(|record| record.kind == kind).collect();
    let mut found = Vec::new();
    for id in ids {
        let difference = |field: Option<&String>, database: String, plugin: String| Difference {
            record: id.clone(),
            field: field.cloned(),
            database: Some(database),
            plugin: Some(plugin),
            flux: None,
        };
        // The plugin also has the factors that are not in the database. These factors keep their default
        // weights.
        if kind == RecordKind::Factor && !stored.contains_key(id) {
            continue;
        }
        let (Some(database), Some(plugin)) = (stored.get(id), loaded.get(id)) else {
            let has = |side: &BTreeMap<RecordId, Record>| format_record_presence(side.contains_key(id));
            found.push(difference(None, has(stored), has(loaded)));
            continue;
        };
        // A field is compared only if both the database and the plugin have it.
        let both = database.iter().filter_map(|(field, value)| Some((field, value, plugin.get(field)?)));
        let differing = both.filter(|(_, database, plugin)| database != plugin);
        found.extend(differing.map(|(field, database, plugin)| {
            difference(Some(field), format_value(database), format_value(plugin))
        }));
    }
    found
}

/// Returns the credits that no sync has counted. The next push does not send them.
fn list_uncounted_usage_credits(data: &PolicyData) -> impl Iterator<Item = Difference> {
    data.uncounted_credits.iter().map(|Credit { id, user, bank, amount, unit, .. }| Difference {
        record: RecordId { kind: RecordKind::Credit, name: format!("{user}/{bank} credit {id}") },
        field: None,
        database: Some(format!("{amount} {unit}")),
        plugin: Some("not counted".to_owned()),
        flux: None,
    })
}

/// Returns the queues that only the queue table or only Flux's configuration has.
fn compare_queues(configured: &BTreeSet<String>, data: &PolicyData) -> Vec<Difference> {
    let stored: BTreeSet<String> = data.queues.iter().map(|queue| queue.queue.clone()).collect();
    let differing = stored.symmetric_difference(configured);
    let difference = |queue: &String| Difference {
        record: RecordId { kind: RecordKind::Queue, name: queue.clone() },
        field: None,
        database: Some(format_record_presence(stored.contains(queue))),
        plugin: None,
        flux: Some(format_record_presence(configured.contains(queue))),
    };
    differing.map(difference).collect()
}

fn format_record_presence(is_there: bool) -> String {
    if is_there { "present" } else { "missing" }.to_owned()
}

/// Formats a value for people.
fn format_value(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

pub(super) const COLUMNS: [ValueColumn<'static, Difference>; 6] = [
    value_column("kind", "Kind", Style::Text, |difference| difference.record.kind.into_str().into()),
    value_column("name", "Name", Style::Text, |difference| difference.record.name.as_str().into()),
    value_column("field", "Field", Style::Text, |difference| difference.field.as_deref().into()),
    value_column("database", "Database", Style::Text, |difference| difference.database.as_deref().into()),
    value_column("plugin", "Plugin", Style::Text, |difference| difference.plugin.as_deref().into()),
    value_column("flux", "Flux", Style::Text, |difference| difference.flux.as_deref().into()),
];

/// The JSON document without the differences.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct DiffFacts<'a> {
    differs: bool,
    /// The generation of the plugin's data.
    generation: u64,
    /// The changes that a push would make.
    push: &'a PushChanges,
    /// The number of differing records of each kind whose fields are not listed.
    unlisted: &'a BTreeMap<&'a str, usize>,
}

fn print(
    args: &Args,
    changes: &PushChanges,
    differences: Vec<Difference>,
    unlisted: &BTreeMap<&str, usize>,
    in_plugin: bool,
) -> Outcome {
    let is_configured_otherwise = differences.iter().any(|difference| difference.flux.is_some());
    let has_credits = differences.iter().any(|difference| difference.record.kind == RecordKind::Credit);
    let differs = in_plugin || !differences.is_empty();
    let mut notes: Vec<String> = unlisted
        .iter()
        .map(|(kind, unlisted_count)| {
            let unlisted_count = count(*unlisted_count, kind);
            let values = if *kind == RecordKind::Association.into_str() {
                "the stored fair-share"
            } else {
                "values that the plugin does not show"
            };
            format!("{unlisted_count} differ in {values}.")
        })
        .collect();
    let uri = args.instance.uri.as_deref();
    let command = |name: &str| mending::format_command(&args.database, uri, name);
    if in_plugin {
        notes.push(format!("\"{}\" sends the database to the plugin.", command("push")));
    }
    if has_credits {
        notes.push(format!("Credits: \"{}\" counts them.", command("sync")));
    }
    if is_configured_otherwise {
        notes.push(
            "Queues: \"flux account add-queue\" and \"delete-queue\" edit the database; [queues] is in Flux's configuration."
                .to_owned(),
        );
    }
    notes.push(
        "Usage and live fair-shares are not compared, because the plugin adds running jobs to the usage of the last sync; \"flux fairshare \
         status\" shows the time of that sync."
            .to_owned(),
    );
    let nothing = "The database, the plugin and the queues of Flux's configuration agree.".to_owned();
    let columns = COLUMNS.into_iter().filter(|_| differs || !args.output.is_table());
    args.output.print(Report {
        facts: Facts::new(&DiffFacts { differs, generation: changes.generation, push: changes, unlisted })?,
        before: if differs { Vec::new() } else { vec![nothing] },
        rows: Rows::new("differences", columns, differences),
        notes,
        ..Report::default()
    })?;
    Ok(if differs { Answer::No } else { Answer::Yes })
}
