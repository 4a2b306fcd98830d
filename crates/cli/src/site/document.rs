// SPDX-License-Identifier: LGPL-3.0-only
//! Reads a document or a configuration as the plugin would, without a plugin: before a push, and before Flux reads the
//! configuration.

use fairshare_engine::accounts::SiteRecords;
use fairshare_engine::engine::Settings;
use fairshare_engine::standing::SitePart;
use fairshare_protocol::reading::Reader;
use fairshare_protocol::settings::{self, SettingError};
use fairshare_protocol::value::{Members, members};
use fairshare_protocol::wire::{self, WireError};
use serde_json::value::RawValue;

const TABLE: &str = "fairshare";

/// Checks a whole site document like the method `policy_update`, without applying it. Returns the first warnings and the
/// number of further warnings. If the plugin would reject the document, returns the reason as an error.
pub(crate) fn check(document: &str) -> Result<(Vec<String>, usize), String> {
    let mut reader = Reader::default();
    let (_, site) = read(document, &mut reader)?;
    site.check().map_err(|fault| format!("tree: {fault}"))?;
    Ok((reader.warnings.take(), reader.warnings.omitted()))
}

/// Reads a whole site document. Returns the reason if the plugin would reject the document.
pub(crate) fn policy(document: &str) -> Result<(SiteRecords, SitePart), String> {
    read(document, &mut Reader::default())
}

/// A fault of a configuration.
pub(crate) struct ConfigFault {
    /// The table and the key, such as `fairshare` and `refresh`.
    pub(crate) key: [String; 2],
    /// The message of the plugin, with the key and the allowed values.
    pub(crate) text: String,
    pub(crate) kind: FaultKind,
}

/// The kind of a fault, from which its remedy follows.
pub(crate) enum FaultKind {
    /// A table cannot have the key `typed`; `known` are the keys that it can have.
    UnknownKey { typed: String, known: Vec<String> },
    /// Flux has no queue of the name.
    UnknownQueue,
    /// A value is invalid.
    Value,
}

impl ConfigFault {
    fn new(table: &str, key: &str, error: SettingError) -> ConfigFault {
        let kind = match error.unknown_key {
            Some((typed, known)) => FaultKind::UnknownKey { typed, known },
            None => FaultKind::Value,
        };
        ConfigFault { key: [table.to_owned(), key.to_owned()], text: error.text, kind }
    }
}

/// Checks Flux's whole configuration, given as JSON text, as the plugin does when Flux starts. Reads the table `[fairshare]`, and
/// the options of the plugin in `[job-manager] plugins`. Returns the first fault of each key, or an error if `configuration` is
/// not a table.
pub(crate) fn check_configuration(configuration: &str) -> Result<Vec<ConfigFault>, String> {
    let whole: &RawValue = serde_json::from_str(configuration).map_err(|error| error.to_string())?;
    let whole = members(whole).ok_or_else(|| "the configuration is not a table".to_owned())?;
    let mut faults = Vec::new();
    let mut settings = Settings::default();
    let table = whole.get(TABLE).copied();
    match table.map(|table| (table, members(table))) {
        None => {}
        Some((table, None)) => {
            let read = settings::read_table(table.get(), settings.clone());
            faults.extend(read.err().map(|error| ConfigFault::new(TABLE, "", error)));
        }
        Some((_, Some(keys))) => {
            for (key, value) in &keys {
                let member = Members::from([(key.clone(), *value)]);
                match settings::read_members(&member, settings.clone(), &format!("{TABLE}.")) {
                    Ok(read) => settings = read,
                    Err(error) => faults.push(ConfigFault::new(TABLE, key, error)),
                }
            }
        }
    }
    for conf in load_options(&whole) {
        let mut reader = Reader::default();
        let read = wire::read_load_config(conf, &mut reader)
            .map_err(|error| describe_error(error).into())
            .and_then(|_| wire::read_load_settings(conf, settings.clone()));
        match read {
            Ok(read) => settings = read,
            Err(error) => {
                let text = format!("job-manager.plugins: {}", error.text);
                faults.push(ConfigFault::new("job-manager", "plugins", SettingError { text, ..error }));
            }
        }
    }
    let queues = whole.get("queues").map(|queues| queues.get());
    faults.extend(settings::check_queues(&settings, queues).err().map(|text| ConfigFault {
        key: [TABLE, "queues"].map(str::to_owned),
        text: format!("{TABLE}.{text}"),
        kind: FaultKind::UnknownQueue,
    }));
    Ok(faults)
}

/// Returns a warning for each key in Flux's configuration, given as JSON text, that was a setting of an earlier version.
pub(crate) fn warn_of_retired_keys(configuration: &str) -> Vec<String> {
    let whole = serde_json::from_str(configuration).ok().and_then(members).unwrap_or_default();
    let table = whole.get(TABLE).map(|table| settings::list_retired(table.get(), &format!("{TABLE}.")));
    let given =
        load_options(&whole).into_iter().map(|conf| settings::list_retired(conf, "job-manager.plugins: "));
    table.into_iter().chain(given).flatten().collect()
}

/// Returns the options that the configuration gives to plugins named `mf_priority.so`, as JSON text.
fn load_options<'a>(whole: &Members<'a>) -> Vec<&'a str> {
    let manager = whole.get("job-manager").and_then(|table| members(table));
    let plugins = manager.as_ref().and_then(|manager| manager.get("plugins"));
    let plugins: Vec<&RawValue> =
        plugins.and_then(|plugins| serde_json::from_str(plugins.get()).ok()).unwrap_or_default();
    let conf = |plugin: &'a RawValue| {
        let keys = members(plugin)?;
        let load: String = serde_json::from_str(keys.get("load")?.get()).ok()?;
        let name = load.rsplit('/').next().unwrap_or_default();
        (name == "mf_priority.so").then(|| keys.get("conf").map(|conf| conf.get()))?
    };
    plugins.into_iter().filter_map(conf).collect()
}

fn describe_error(fault: WireError) -> String {
    match fault {
        WireError::Undecodable(text) | WireError::Record(text) => text,
        WireError::WrongType(what @ ("config" | "policy")) => format!("{what} is not an object"),
        WireError::WrongType(array) => format!("{array} is not an array"),
    }
}

fn read(document: &str, reader: &mut Reader) -> Result<(SiteRecords, SitePart), String> {
    wire::read_policy_update(Some(document), reader).map(|(push, _)| push).map_err(describe_error)
}
