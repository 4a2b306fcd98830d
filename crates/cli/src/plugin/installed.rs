// SPDX-License-Identifier: LGPL-3.0-only
//! Determines the name that Flux needs to load the installed plugin.

use std::fs;
use std::path::Path;

use crate::site::database::command_directories;
use fairshare_accounting::store::quote_for_shell;

/// The file name of every multi-factor priority plugin.
const NAME: &str = "mf_priority.so";
/// The path of the sample configuration, relative to the installation prefix. The installation writes into this file the name or
/// the path by which Flux loads the plugin.
const SAMPLE: &str = "share/flux-fairshare/flux-fairshare.toml";

/// Returns the argument of "flux jobtap load" for the plugin. The argument is a path if flux-accounting's
/// plugin, which has the same file name, is installed too.
fn plugin_to_load() -> String {
    let directories = command_directories();
    // Commands are in PREFIX/libexec/flux/cmd.
    let prefixes = directories.iter().filter_map(|directory| directory.ancestors().nth(3));
    prefixes.filter_map(read_sample).next().unwrap_or_else(|| NAME.to_owned())
}

/// Returns the plugin that the sample configuration below `prefix` loads, or `None` if the sample is not there or loads another plugin.
fn read_sample(prefix: &Path) -> Option<String> {
    let table: toml::Table = toml::from_str(&fs::read_to_string(prefix.join(SAMPLE)).ok()?).ok()?;
    let plugins = table.get("job-manager")?.get("plugins")?.as_array()?;
    let load = plugins.iter().find_map(|plugin| plugin.get("load")?.as_str())?;
    load.ends_with(NAME).then(|| load.to_owned())
}

/// Returns the command that loads the plugin. `loaded` is the plugin that it replaces, if one is loaded.
pub(crate) fn load_command(loaded: Option<&str>) -> String {
    match loaded {
        Some(loaded) => format!("flux jobtap load -r {loaded} {}", quote_for_shell(&plugin_to_load())),
        None => format!("flux jobtap load {}", quote_for_shell(&plugin_to_load())),
    }
}
