// SPDX-License-Identifier: LGPL-3.0-only
//! What the limits still leave to one association in one queue.

use super::hold::{Hold, HoldSet};
use super::size::Size;
use super::table::{Caps, Measure, Rules};
use super::usage::Usage;
use crate::accounts::{Association, Queue};
use crate::ids::Limit;

/// Of each limit that applies, what is left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Room(Vec<(Hold, Measure, u64)>);

impl Room {
    /// What `usage` leaves under the limits of the association and of the queue, if the site has configured that.
    pub fn left(rules: Rules, association: &Association, queue: Option<&Queue>, usage: &Usage) -> Room {
        let mut room = Room(Vec::with_capacity(rules.0.len() + 1));
        for (hold, rule) in rules.all() {
            let mut add = |tally, measure, cap: Limit| {
                let used = rule.stage.used(&tally, measure);
                room.0.push((hold, measure, cap.cap().saturating_sub(used)));
            };
            match (rule.caps, queue) {
                (Caps::InAll(caps), _) => {
                    caps.iter().for_each(|(measure, cap)| add(usage.total, *measure, cap(association)));
                }
                (Caps::InQueue(caps), Some(queue)) => {
                    let tally = usage.in_queue(queue.name.as_str());
                    caps.iter().for_each(|(measure, cap)| add(tally, *measure, cap(queue)));
                }
                (Caps::InQueue(_), None) => {}
            }
        }
        room
    }

    /// The limits that one more job of `size` would exceed. A larger job never exceeds fewer.
    pub fn exceeded(&self, size: Size) -> HoldSet {
        self.0.iter().filter(|(_, measure, left)| measure.of(size) > *left).map(|(hold, ..)| *hold).collect()
    }
}
