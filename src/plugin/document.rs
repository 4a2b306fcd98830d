// SPDX-License-Identifier: LGPL-3.0-only
//! What the plugin would say to a document, asked without a plugin: by the command that is about to push it.

use super::reading::Reader;
use super::settings;
use super::wire::{self, WireError};
use crate::accounts::Policy;
use crate::engine::Settings;
use crate::standing::SitePart;

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

fn read(document: &str, reader: &mut Reader) -> Result<(Policy, SitePart), String> {
    match wire::policy_update(Some(document), reader) {
        Ok((push, _)) => Ok(push),
        Err(WireError::Undecodable(text) | WireError::Record(text)) => Err(text),
        Err(WireError::WrongType(what @ ("config" | "policy"))) => Err(format!("{what} is not an object")),
        Err(WireError::WrongType(array)) => Err(format!("{array} is not an array")),
    }
}
