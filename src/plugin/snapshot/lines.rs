// SPDX-License-Identifier: LGPL-3.0-only
//! Writes associations to the chunks of a snapshot, with one line for each association. Builds the parts of a staged
//! push from such chunks, so that the engine checks a snapshot in the same way as a push.
//!
//! The associations are divided into groups, and each group has its own chunks. The end of a group depends only on the
//! associations in this group. If an association is added, removed or changed, the chunks of all other groups stay
//! unchanged.

use super::record::{Fault, Group, hash};
use fairshare_engine::engine::SavedAssociation;
use fairshare_engine::ids::UserId;
use fairshare_protocol::records::BorrowedAssociation;
use std::fmt::Write;
use xxhash_rust::xxh3::xxh3_64;

/// The average number of users in a group.
const USERS_PER_GROUP: u64 = 256;
/// The maximum number of associations of a group. A group becomes one part of a staged push.
const MAX_RECORDS: usize = 900;
/// A group of associations ends when its chunk of limits has this number of bytes.
const MAX_BYTES: usize = 512 << 10;
/// The plugin writes this text instead of a fair-share that can be computed from the tree.
const COMPUTED: &str = "=";

/// A complete group, and its three chunks: limits, fair-shares, usages.
pub(super) type CompleteGroup = (Group, [String; 3]);

/// Divides associations into groups, and collects the lines of the current group.
#[derive(Debug, Default)]
pub(super) struct LineGrouper {
    first: u32,
    last: Option<UserId>,
    records: usize,
    /// The chunks of the current group so far: limits, fair-shares, usages.
    chunks: [String; 3],
}

/// Returns the three lines that are stored for an association, one in each chunk of its group. The line of limits has the values that
/// rarely change, as a JSON object with the same keys as in a push.
pub(super) fn format_lines(SavedAssociation { record, leaf, is_computed }: &SavedAssociation) -> [String; 3] {
    let whole = BorrowedAssociation::from_engine(record, leaf.as_ref());
    let usage = match (whole.usage, whole.counted_until) {
        (Some(usage), Some(until)) => format!("{usage:?},{until:?}"),
        _ => "-".to_owned(),
    };
    let limits = BorrowedAssociation { fairshare: None, usage: None, counted_until: None, ..whole };
    let fairshare = if *is_computed { COMPUTED.to_owned() } else { format!("{:?}", record.fairshare) };
    [serde_json::to_string(&limits).unwrap_or_default(), fairshare, usage]
}

impl LineGrouper {
    /// Adds an association; calls must be in the order of user id and bank. Returns the previous group if the
    /// association begins a new group.
    pub(super) fn add(&mut self, saved: &SavedAssociation) -> Option<CompleteGroup> {
        let user = saved.record.association.user;
        let before = self.last.replace(user).filter(|before| *before != user);
        let is_full = self.records >= MAX_RECORDS || self.chunks[0].len() >= MAX_BYTES;
        let complete = if is_full || before.is_some_and(ends_group) { self.finish() } else { None };
        if self.records == 0 {
            self.first = user.0;
        }
        self.records += 1;
        for (chunk, line) in self.chunks.iter_mut().zip(format_lines(saved)) {
            *chunk += &line;
            chunk.push('\n');
        }
        complete
    }

    /// Ends the current group and returns it. Returns `None` if the group has no associations.
    pub(super) fn finish(&mut self) -> Option<CompleteGroup> {
        if self.records == 0 {
            return None;
        }
        self.records = 0;
        let chunks = std::mem::take(&mut self.chunks);
        let [limits, fairshares, usages] = chunks.each_ref().map(|chunk| hash(chunk));
        Some((Group { first: self.first, limits, fairshares, usages }, chunks))
    }
}

fn ends_group(user: UserId) -> bool {
    xxh3_64(&user.0.to_le_bytes()).is_multiple_of(USERS_PER_GROUP)
}

/// Builds the payload of a part of a staged push from the chunks of a group: limits, fair-shares, usages. The returned
/// list has true for each association whose fair-share must be computed.
pub(super) fn build_push_part(chunks: [&str; 3]) -> Result<(String, Vec<bool>), Fault> {
    let [limits, fairshares, usages] = chunks.map(str::lines);
    let counts = chunks.map(|chunk| chunk.lines().count());
    if counts != [counts[0]; 3] {
        return Err(format!("the chunks of a group have different numbers of lines: {counts:?}"));
    }
    let mut is_computed = Vec::new();
    let mut payload = "{\"associations\":[".to_owned();
    for ((limits, fairshare), usage) in limits.zip(fairshares).zip(usages) {
        let record = limits.strip_suffix('}').ok_or("the limits of an association are not a JSON object")?;
        let comma = if is_computed.is_empty() { "" } else { "," };
        is_computed.push(fairshare == COMPUTED);
        let fairshare = if fairshare == COMPUTED { "0" } else { fairshare };
        let _ = write!(payload, "{comma}{record},\"fairshare\":{fairshare}");
        if usage != "-" {
            let (used, until) = usage.split_once(',').ok_or("a usage is not two numbers")?;
            let _ = write!(payload, ",\"usage\":{used},\"counted_until\":{until}");
        }
        payload.push('}');
    }
    payload.push_str("]}");
    Ok((payload, is_computed))
}
