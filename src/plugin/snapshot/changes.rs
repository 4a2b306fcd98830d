// SPDX-License-Identifier: LGPL-3.0-only
//! The log of a snapshot of format 2: for each push a chunk with a line for each association that had changed since the groups were
//! written.

use super::lines::Numbers;
use super::record::Fault;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A line of the log.
#[derive(Deserialize)]
#[serde(untagged)]
enum Change {
    /// Limits, fair-share and usage: all of it is another.
    All(String, String, String),
    /// User, bank, fair-share and usage.
    Numbers(u32, String, String, String),
    /// It is gone.
    Gone(u32, String),
}

/// What became of an association since its group was written.
#[derive(Debug)]
enum Patch {
    Gone,
    Numbers(Numbers),
    All(String, Numbers),
}

/// The log as it is read: what became of whom.
#[derive(Debug, Default)]
pub(super) struct Patches(BTreeMap<(u32, String), Patch>);

/// Whom limits are of.
#[derive(Deserialize)]
struct Who {
    userid: u32,
    bank: String,
}

fn who(limits: &str) -> Result<(u32, String), Fault> {
    let Who { userid, bank } =
        serde_json::from_str(limits).map_err(|error| format!("limits can't be read: {error}"))?;
    Ok((userid, bank))
}

impl Patches {
    /// Takes the next text of the log in.
    pub(super) fn read(&mut self, text: &str) -> Result<(), Fault> {
        for line in text.lines() {
            let change: Change =
                serde_json::from_str(line).map_err(|error| format!("a change can't be read: {error}"))?;
            let (key, patch) = match change {
                Change::All(limits, fairshare, usage) => {
                    (who(&limits)?, Patch::All(limits, Numbers { fairshare, usage }))
                }
                Change::Numbers(user, bank, fairshare, usage) => {
                    let numbers = Numbers { fairshare, usage };
                    match self.0.remove(&(user, bank.clone())) {
                        Some(Patch::All(limits, _)) => ((user, bank), Patch::All(limits, numbers)),
                        Some(Patch::Gone) => return Err(format!("user {user} is gone, and changes")),
                        _ => ((user, bank), Patch::Numbers(numbers)),
                    }
                }
                Change::Gone(user, bank) => ((user, bank), Patch::Gone),
            };
            self.0.insert(key, patch);
        }
        Ok(())
    }

    /// A line of a group as it is now; `None` if it is gone.
    pub(super) fn apply<'a>(
        &mut self,
        line: (&'a str, &'a str, &'a str),
    ) -> Result<Option<(String, Numbers)>, Fault> {
        let (limits, fairshare, usage) = line;
        let as_written = || Numbers { fairshare: fairshare.to_owned(), usage: usage.to_owned() };
        let patch = if self.0.is_empty() { None } else { self.0.remove(&who(limits)?) };
        Ok(match patch {
            None => Some((limits.to_owned(), as_written())),
            Some(Patch::Gone) => None,
            Some(Patch::Numbers(numbers)) => Some((limits.to_owned(), numbers)),
            Some(Patch::All(limits, numbers)) => Some((limits, numbers)),
        })
    }

    /// At most so many of those that are in no group, once all groups were asked for.
    pub(super) fn come(&mut self, most: usize) -> Result<Vec<(String, Numbers)>, Fault> {
        let mut come = Vec::new();
        while come.len() < most
            && let Some(((user, _), patch)) = self.0.pop_first()
        {
            match patch {
                Patch::All(limits, numbers) => come.push((limits, numbers)),
                // It came and went.
                Patch::Gone => {}
                Patch::Numbers(_) => return Err(format!("user {user} is nowhere, and changes")),
            }
        }
        Ok(come)
    }
}
