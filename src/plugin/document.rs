// SPDX-License-Identifier: LGPL-3.0-only
//! What the plugin would say to a document, asked without a plugin: by the command that is about to push it.

use super::reading::Reader;
use super::wire::{self, WireError};

/// Reads a whole policy as the method `policy_update` does, and applies nothing. `Ok` holds what would be warned of, no more
/// than the plugin itself would log, `Err` why it would be refused.
pub fn judge(document: &str) -> Result<Vec<String>, String> {
    let mut reader = Reader::default();
    match wire::policy_update(Some(document), &mut reader) {
        Ok(_) => {
            let mut warnings = reader.warnings.take();
            warnings.extend(match reader.warnings.untold() {
                0 => None,
                more => Some(format!("and {more} more of the kind")),
            });
            Ok(warnings)
        }
        Err(WireError::Undecodable(text) | WireError::Record(text)) => Err(text),
        Err(WireError::WrongType(what @ ("config" | "policy"))) => Err(format!("{what} is not an object")),
        Err(WireError::WrongType(array)) => Err(format!("{array} is not an array")),
    }
}
