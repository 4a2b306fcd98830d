// SPDX-License-Identifier: LGPL-3.0-only
//! Associations as lines of texts, and the texts as parts of a push: what is read back goes the way of a push, and is
//! judged as one.
//!
//! Where a text ends depends on the users in it alone: an association that comes, goes or changes leaves all texts but its
//! own as they are.

use super::record::{Fault, Group, hash};
use fairshare_engine::engine::Kept;
use fairshare_engine::ids::UserId;
use fairshare_protocol::records::BorrowedAssociation;
use std::fmt::Write;
use xxhash_rust::xxh3::xxh3_64;

/// One user in so many ends a group.
const USERS_OF_GROUP: u64 = 256;
/// A group is a part of a push: where no user ends one for so long, it ends nevertheless.
pub(super) const MAX_RECORDS: usize = 900;
const MAX_BYTES: usize = 512 << 10;
/// In place of a fair-share that is what the tree makes of the usages.
const RECKONED: &str = "=";

/// A complete group with its chunks: limits, fair-shares, usages.
pub(super) type Complete = (Group, [String; 3]);

/// What is written of an association.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    pub user: UserId,
    /// What is rarely changed: an object with keys and values as in a push.
    pub limits: String,
    pub numbers: Numbers,
}

/// What moves more often.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Numbers {
    pub fairshare: String,
    pub usage: String,
}

/// Puts lines into groups.
#[derive(Debug, Default)]
pub(super) struct Cutter {
    first: u32,
    last: Option<UserId>,
    records: usize,
    limits: String,
    fairshares: String,
    usages: String,
}

impl Line {
    pub(super) fn of(Kept { record, leaf, is_reckoned }: &Kept) -> Line {
        let whole = BorrowedAssociation::from_engine(record, leaf.as_ref());
        let usage = match (whole.usage, whole.counted_until) {
            (Some(usage), Some(until)) => format!("{usage:?},{until:?}"),
            _ => "-".to_owned(),
        };
        let limits = BorrowedAssociation { fairshare: None, usage: None, counted_until: None, ..whole };
        let fairshare = if *is_reckoned { RECKONED.to_owned() } else { format!("{:?}", record.fairshare) };
        Line {
            user: record.association.user,
            limits: serde_json::to_string(&limits).unwrap_or_default(),
            numbers: Numbers { fairshare, usage },
        }
    }
}

impl Cutter {
    /// Takes the next line in, which comes after all before it. Gives the group that it ended, if it did.
    pub(super) fn add(&mut self, line: &Line) -> Option<Complete> {
        let before = self.last.replace(line.user).filter(|before| *before != line.user);
        let is_full = self.records >= MAX_RECORDS || self.limits.len() >= MAX_BYTES;
        let complete = if is_full || before.is_some_and(ends_group) { self.finish() } else { None };
        if self.records == 0 {
            self.first = line.user.0;
        }
        self.records += 1;
        put(&mut self.limits, &line.limits);
        put(&mut self.fairshares, &line.numbers.fairshare);
        put(&mut self.usages, &line.numbers.usage);
        complete
    }

    /// The group that is open, if there is one.
    pub(super) fn finish(&mut self) -> Option<Complete> {
        if self.records == 0 {
            return None;
        }
        self.records = 0;
        let chunks = [&mut self.limits, &mut self.fairshares, &mut self.usages].map(std::mem::take);
        let [limits, fairshares, usages] = chunks.each_ref().map(|chunk| hash(chunk));
        Some((Group { first: self.first, limits, fairshares, usages }, chunks))
    }
}

fn ends_group(user: UserId) -> bool {
    xxh3_64(&user.0.to_le_bytes()).is_multiple_of(USERS_OF_GROUP)
}

fn put(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

/// The lines of a group: limits and numbers, as they stand in its texts.
pub(super) fn of_group<'a>(
    limits: &'a str,
    fairshares: &'a str,
    usages: &'a str,
) -> Result<Vec<(&'a str, &'a str, &'a str)>, Fault> {
    let (mut fairshares, mut usages) = (fairshares.lines(), usages.lines());
    let mut lines = Vec::new();
    for limits in limits.lines() {
        let fairshare = fairshares.next().ok_or("there are fewer fair-shares than limits")?;
        lines.push((limits, fairshare, usages.next().ok_or("there are fewer usages than limits")?));
    }
    if fairshares.next().is_some() || usages.next().is_some() {
        return Err("there are more fair-shares or usages than limits".to_owned());
    }
    Ok(lines)
}

/// Associations as a part of a push, and of each whether its fair-share is still to be reckoned.
pub(super) fn part<'a>(
    lines: impl Iterator<Item = (&'a str, &'a str, &'a str)>,
) -> Result<(String, Vec<bool>), Fault> {
    let mut reckoned = Vec::new();
    let mut payload = "{\"associations\":[".to_owned();
    for (limits, fairshare, usage) in lines {
        let record = limits.strip_suffix('}').ok_or("a record of limits is none")?;
        let comma = if reckoned.is_empty() { "" } else { "," };
        let is_reckoned = fairshare == RECKONED;
        let fairshare = if is_reckoned { "0" } else { number(fairshare)? };
        reckoned.push(is_reckoned);
        let _ = write!(payload, "{comma}{record},\"fairshare\":{fairshare}");
        if usage != "-" {
            let (used, until) = usage.split_once(',').ok_or("a usage is none")?;
            let (used, until) = (number(used)?, number(until)?);
            let _ = write!(payload, ",\"usage\":{used},\"counted_until\":{until}");
        }
        payload.push('}');
    }
    payload.push_str("]}");
    Ok((payload, reckoned))
}

fn number(text: &str) -> Result<&str, Fault> {
    let is_number = text.parse::<f64>().is_ok_and(f64::is_finite);
    if is_number { Ok(text) } else { Err(format!("\"{}\" is no number", text.escape_debug())) }
}
