// SPDX-License-Identifier: LGPL-3.0-only
//! What the plugin would say to a document, asked without a plugin: by the command that is about to push it.

use super::reading::Reader;
use super::wire::{self, WireError};

/// Reads a whole policy as the method `policy_update` does, and applies nothing. `Ok` holds what would be warned of, and
/// how many warnings more would only be counted; `Err` why it would be refused.
pub fn judge(document: &str) -> Result<(Vec<String>, usize), String> {
    let mut reader = Reader::default();
    match wire::policy_update(Some(document), &mut reader) {
        Ok(_) => Ok((reader.warnings.take(), reader.warnings.untold())),
        Err(WireError::Undecodable(text) | WireError::Record(text)) => Err(text),
        Err(WireError::WrongType(what @ ("config" | "policy"))) => Err(format!("{what} is not an object")),
        Err(WireError::WrongType(array)) => Err(format!("{array} is not an array")),
    }
}
