// SPDX-License-Identifier: LGPL-3.0-only
//! Reads the log of a snapshot of format 2. The log has a chunk for each push, with a line for each association that
//! had changed since the groups were written.

use super::lines::Numbers;
use super::record::Fault;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A line of the log.
#[derive(Deserialize)]
#[serde(untagged)]
enum Change {
    /// Limits, fair-share and usage of an association that is new, or whose limits changed.
    All(String, String, String),
    /// User, bank, fair-share and usage.
    Numbers(u32, String, String, String),
    /// User and bank of a removed association.
    Removed(u32, String),
}

/// The change of an association since its group was written.
#[derive(Debug)]
enum Patch {
    Removed,
    Numbers(Numbers),
    All(String, Numbers),
}

/// The changes that the log contains, by user and bank.
#[derive(Debug, Default)]
pub(super) struct Patches(BTreeMap<(u32, String), Patch>);

/// Returns the user and the bank of a line of limits.
fn read_owner(limits: &str) -> Result<(u32, String), Fault> {
    #[derive(Deserialize)]
    struct Owner {
        userid: u32,
        bank: String,
    }
    let Owner { userid, bank } =
        serde_json::from_str(limits).map_err(|error| format!("limits can't be read: {error}"))?;
    Ok((userid, bank))
}

impl Patches {
    /// Adds the next chunk of the log.
    pub(super) fn add_chunk(&mut self, chunk: &str) -> Result<(), Fault> {
        for line in chunk.lines() {
            let change: Change =
                serde_json::from_str(line).map_err(|error| format!("a change can't be read: {error}"))?;
            let (key, patch) = match change {
                Change::All(limits, fairshare, usage) => {
                    (read_owner(&limits)?, Patch::All(limits, Numbers { fairshare, usage }))
                }
                Change::Numbers(user, bank, fairshare, usage) => {
                    let numbers = Numbers { fairshare, usage };
                    match self.0.remove(&(user, bank.clone())) {
                        Some(Patch::All(limits, _)) => ((user, bank), Patch::All(limits, numbers)),
                        Some(Patch::Removed) => {
                            return Err(format!("the log changes user {user} after it removed the user"));
                        }
                        _ => ((user, bank), Patch::Numbers(numbers)),
                    }
                }
                Change::Removed(user, bank) => ((user, bank), Patch::Removed),
            };
            self.0.insert(key, patch);
        }
        Ok(())
    }

    /// Applies the log to a line of a group. Removes the association's change from the log. Returns `None` if the
    /// association was removed.
    pub(super) fn apply_to_line<'a>(
        &mut self,
        line: (&'a str, &'a str, &'a str),
    ) -> Result<Option<(String, Numbers)>, Fault> {
        let (limits, fairshare, usage) = line;
        let written_numbers = || Numbers { fairshare: fairshare.to_owned(), usage: usage.to_owned() };
        let patch = if self.0.is_empty() { None } else { self.0.remove(&read_owner(limits)?) };
        Ok(match patch {
            None => Some((limits.to_owned(), written_numbers())),
            Some(Patch::Removed) => None,
            Some(Patch::Numbers(numbers)) => Some((limits.to_owned(), numbers)),
            Some(Patch::All(limits, numbers)) => Some((limits, numbers)),
        })
    }

    /// Takes at most `most` associations that are in no group. Call this after `apply` for the lines of all groups.
    pub(super) fn take_new_associations(&mut self, most: usize) -> Result<Vec<(String, Numbers)>, Fault> {
        let mut new = Vec::new();
        while new.len() < most
            && let Some(((user, _), patch)) = self.0.pop_first()
        {
            match patch {
                Patch::All(limits, numbers) => new.push((limits, numbers)),
                // The association was added after the groups were written, and removed again.
                Patch::Removed => {}
                Patch::Numbers(_) => return Err(format!("the log changes user {user}, who is in no group")),
            }
        }
        Ok(new)
    }
}
