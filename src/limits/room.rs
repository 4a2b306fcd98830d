// SPDX-License-Identifier: LGPL-3.0-only
//! What the limits still leave to one association in one queue.

use super::hold::{Hold, HoldSet};
use super::size::Size;
use super::table::Rules;
use super::usage::Usage;
use crate::accounts::{Association, Queue};
use crate::ids::Measure;

/// Of each limit that applies, what is left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Room(Vec<(Hold, Measure, u64)>);

impl Room {
    /// What `usage` leaves under the limits of the association and of the queue, if the site has configured that.
    pub fn left(rules: Rules, association: &Association, queue: Option<&Queue>, usage: &Usage) -> Room {
        let mut room = Room(Vec::with_capacity(rules.0.len() + 1));
        for (hold, rule) in rules.all() {
            let tally = match queue.filter(|_| rule.is_of_queue()) {
                Some(queue) => usage.in_queue(queue.name.as_str()),
                None => usage.total,
            };
            for (measure, cap) in rule.caps_on(association, queue) {
                let used = tally.used(rule.stage, measure, false);
                room.0.push((hold, measure, cap.cap().saturating_sub(used)));
            }
        }
        room
    }

    /// What is left of further limits.
    pub(super) fn add(&mut self, left: impl Iterator<Item = (Hold, Measure, u64)>) {
        self.0.extend(left);
    }

    /// The limits that one more job of `size` would exceed. A larger job never exceeds fewer.
    pub fn exceeded(&self, size: Size) -> HoldSet {
        self.0.iter().filter(|(_, measure, left)| size.of(*measure) > *left).map(|(hold, ..)| *hold).collect()
    }
}
