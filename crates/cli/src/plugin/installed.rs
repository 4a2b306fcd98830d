// SPDX-License-Identifier: LGPL-3.0-only
//! By which name Flux loads the plugin that is installed with this command.

use std::fs;
use std::path::Path;

use crate::site::database::command_directories;
use fairshare_accounting::store::quote_for_shell;

/// The name that every plugin of this kind has.
const NAME: &str = "mf_priority.so";
/// Below the prefix: the sample of the configuration, in which the installation wrote how the plugin is loaded.
const SAMPLE: &str = "share/flux-fairshare/flux-fairshare.toml";

/// What stands behind "flux jobtap load": a path where the plugin is beside flux-accounting's, which has the same name.
fn plugin() -> String {
    let directories = command_directories();
    // PREFIX/libexec/flux/cmd
    let prefixes = directories.iter().filter_map(|directory| directory.ancestors().nth(3));
    prefixes.filter_map(load_in).next().unwrap_or_else(|| NAME.to_owned())
}

fn load_in(prefix: &Path) -> Option<String> {
    let table: toml::Table = toml::from_str(&fs::read_to_string(prefix.join(SAMPLE)).ok()?).ok()?;
    let plugins = table.get("job-manager")?.get("plugins")?.as_array()?;
    let load = plugins.iter().find_map(|plugin| plugin.get("load")?.as_str())?;
    load.ends_with(NAME).then(|| load.to_owned())
}

/// The command that loads the plugin in place of `loaded`, the plugin that answers now, if any does.
pub(crate) fn load_command(loaded: Option<&str>) -> String {
    match loaded {
        Some(loaded) => format!("flux jobtap load -r {loaded} {}", quote_for_shell(&plugin())),
        None => format!("flux jobtap load {}", quote_for_shell(&plugin())),
    }
}
