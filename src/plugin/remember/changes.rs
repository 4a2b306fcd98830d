// SPDX-License-Identifier: LGPL-3.0-only
//! What changed since the groups were written, as a log: a text for each push, with a line for each association that
//! changed. It grows by what changed, until it is as long as what would be written instead of it.

use super::lines::{Line, Numbers};
use super::record::Fault;
use fairshare_engine::ids::{BankName, UserId};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// What a record says of an association, by hashes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Mark {
    pub user: UserId,
    pub bank: BankName,
    limits: u64,
    numbers: u64,
}

impl Mark {
    pub(super) fn of(line: &Line) -> Mark {
        Mark::new(line.user, line.bank.clone(), &line.limits, &line.numbers.fairshare, &line.numbers.usage)
    }

    pub(super) fn new(user: UserId, bank: BankName, limits: &str, fairshare: &str, usage: &str) -> Mark {
        let mut numbers = Xxh3::new();
        for text in [fairshare, "\n", usage] {
            numbers.update(text.as_bytes());
        }
        Mark { user, bank, limits: xxh3_64(limits.as_bytes()), numbers: numbers.digest() }
    }

    /// The order in which associations are kept.
    pub(super) fn order(&self, other: &Mark) -> Ordering {
        (self.user, self.bank.as_str()).cmp(&(other.user, other.bank.as_str()))
    }
}

/// A line of the log.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Change {
    /// Limits, fair-share and usage: all of it is another.
    All(String, String, String),
    /// User, bank, fair-share and usage.
    Numbers(u32, String, String, String),
    /// It is gone.
    Gone(u32, String),
}

/// Lines one after the other beside what was written of them: gives the log of what is another.
#[derive(Debug, Default)]
pub(super) struct Comparing {
    /// Where the marks of what was written go on.
    at: usize,
    pub log: String,
}

impl Comparing {
    /// The next association; `None` when there are no more.
    pub(super) fn next(&mut self, before: &[Mark], line: Option<(&Line, &Mark)>) {
        while let Some(old) = before.get(self.at) {
            let order = line.map_or(Ordering::Less, |(_, mark)| old.order(mark));
            if order == Ordering::Greater {
                break;
            }
            self.at += 1;
            if order == Ordering::Less {
                self.put(&Change::Gone(old.user.0, old.bank.as_str().to_owned()));
                continue;
            }
            match line {
                Some((_, mark)) if *mark == *old => {}
                Some((line, mark)) if mark.limits == old.limits => {
                    let Numbers { fairshare, usage } = line.numbers.clone();
                    self.put(&Change::Numbers(old.user.0, old.bank.as_str().to_owned(), fairshare, usage));
                }
                line => self.put_all(line),
            }
            return;
        }
        self.put_all(line);
    }

    fn put_all(&mut self, line: Option<(&Line, &Mark)>) {
        if let Some((Line { limits, numbers: Numbers { fairshare, usage }, .. }, _)) = line {
            self.put(&Change::All(limits.clone(), fairshare.clone(), usage.clone()));
        }
    }

    fn put(&mut self, change: &Change) {
        self.log.push_str(&serde_json::to_string(change).unwrap_or_default());
        self.log.push('\n');
    }
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
