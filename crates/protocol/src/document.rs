// SPDX-License-Identifier: LGPL-3.0-only
//! What the plugin would say to a document or a configuration, asked without a plugin: by the command that is about to push
//! the one, or before Flux reads the other.

use crate::reading::Reader;
use crate::settings;
use crate::value::{Members, members};
use crate::wire::{self, WireError};
use fairshare_engine::accounts::Policy;
use fairshare_engine::engine::Settings;
use fairshare_engine::standing::SitePart;
use serde_json::value::RawValue;

/// The table of Flux's configuration that is the plugin's.
const TABLE: &str = "fairshare";

/// Reads a whole policy as the method `policy_update` does, and applies nothing. `Ok` holds what would be warned of, and
/// how many warnings more would only be counted; `Err` why it would be refused.
pub fn judge(document: &str) -> Result<(Vec<String>, usize), String> {
    let mut reader = Reader::default();
    let (_, site) = read(document, &mut reader)?;
    site.check().map_err(|fault| format!("tree: {fault}"))?;
    Ok((reader.warnings.take(), reader.warnings.untold()))
}

/// What the plugin would put in force: for who drives an engine without a plugin.
pub fn policy(document: &str) -> Result<(Policy, SitePart), String> {
    read(document, &mut Reader::default())
}

/// What a table `[fairshare]` sets, given as JSON text.
pub fn settings(table: &str) -> Result<Settings, String> {
    settings::of_table(table, Settings::default())
}

/// One fault of a configuration: the key at fault, such as `fairshare.refresh`, and what the plugin says of it.
pub struct ConfigFault {
    /// The table, and the key in it.
    pub key: [String; 2],
    /// What is wrong, with the key and the allowed values.
    pub text: String,
}

/// Checks Flux's whole configuration, given as JSON text, as the plugin does when Flux starts: the table `[fairshare]`, and
/// what `[job-manager] plugins` gives the plugin at load. Returns the first fault under each key.
pub fn check_configuration(configuration: &str) -> Result<Vec<ConfigFault>, String> {
    let whole: &RawValue = serde_json::from_str(configuration).map_err(|error| error.to_string())?;
    let whole = members(whole).ok_or_else(|| "the configuration is not a table".to_owned())?;
    let mut faults = Vec::new();
    let mut settings = Settings::default();
    let table = whole.get(TABLE).copied();
    match table.map(|table| (table, members(table))) {
        None => {}
        Some((table, None)) => faults.extend(fault("", settings::of_table(table.get(), settings.clone()))),
        Some((_, Some(keys))) => {
            for (key, value) in &keys {
                let one = Members::from([(key.clone(), *value)]);
                match settings::of_members(&one, settings.clone(), &format!("{TABLE}.")) {
                    Ok(read) => settings = read,
                    Err(text) => faults.push(ConfigFault { key: [TABLE.to_owned(), key.to_string()], text }),
                }
            }
        }
    }
    let given = at_load(&whole);
    for conf in given {
        let mut reader = Reader::default();
        let read = wire::load_config(conf, &mut reader)
            .map_err(told)
            .and_then(|_| wire::load_settings(conf, settings.clone()));
        match read {
            Ok(read) => settings = read,
            Err(text) => {
                let key = ["job-manager".to_owned(), "plugins".to_owned()];
                faults.push(ConfigFault { key, text: format!("job-manager.plugins: {text}") });
            }
        }
    }
    let queues = whole.get("queues").map(|queues| queues.get());
    faults.extend(
        fault("queues", settings::queues_are_known(&settings, queues))
            .map(|fault| ConfigFault { text: format!("{TABLE}.{}", fault.text), ..fault }),
    );
    Ok(faults)
}

fn fault<T>(key: &str, read: Result<T, String>) -> Option<ConfigFault> {
    read.err().map(|text| ConfigFault { key: [TABLE.to_owned(), key.to_owned()], text })
}

/// What the configuration gives plugins of this one's name at load, as JSON text.
fn at_load<'a>(whole: &Members<'a>) -> Vec<&'a str> {
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

fn told(fault: WireError) -> String {
    match fault {
        WireError::Undecodable(text) | WireError::Record(text) => text,
        WireError::WrongType(what @ ("config" | "policy")) => format!("{what} is not an object"),
        WireError::WrongType(array) => format!("{array} is not an array"),
    }
}

fn read(document: &str, reader: &mut Reader) -> Result<(Policy, SitePart), String> {
    wire::policy_update(Some(document), reader).map(|(push, _)| push).map_err(told)
}
