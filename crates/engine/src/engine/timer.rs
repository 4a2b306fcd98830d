// SPDX-License-Identifier: LGPL-3.0-only
//! The timers that the engine asks for, with their names and periods.

use strum::{FromRepr, VariantNames};

/// A timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromRepr, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum Timer {
    /// The next reactor turn, for work that the engine must not do inside a callback of Flux.
    #[strum(serialize = "timer")]
    ReactorTurn,
    /// The next attempt after a failed request. Also limits how long the engine waits for the instance owner's
    /// record.
    Retry,
    /// The next refresh. Its period is a setting.
    Refresh,
    /// The next slice of a refresh, in the next reactor turn.
    Slice,
    /// The next step of writing the snapshot. Only the plugin uses it.
    Remember,
    /// The time at which the plugin drops a staged push that has got no part for 60 seconds.
    Expire,
    /// The next request for the states of queues.
    Queues,
    /// The reactor turn in which the plugin answers a waiting request.
    Answer,
    /// The next update of the time that running jobs have left.
    TimeLeft,
}

impl Timer {
    /// The names of all timers in the log, in the order of [`Timer`].
    pub const NAMES: &'static [&'static str] = Timer::VARIANTS;

    /// Returns the index of the timer in [`Timer::NAMES`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// Returns the seconds from when the timer is armed until it fires.
    pub fn seconds(self) -> f64 {
        match self {
            Timer::ReactorTurn | Timer::Slice | Timer::Remember | Timer::Answer => 0.0,
            Timer::Queues => 0.5,
            Timer::Retry => 5.0,
            Timer::Refresh | Timer::TimeLeft => 30.0,
            Timer::Expire => 60.0,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing)]

    use super::*;

    #[test]
    fn each_timer_has_the_index_of_its_name() {
        let name = |timer: Timer| Timer::NAMES[timer.index()];
        assert_eq!([Timer::ReactorTurn, Timer::TimeLeft].map(name), ["timer", "time-left"]);
        for index in 0..Timer::NAMES.len() {
            assert_eq!(Timer::from_repr(index).map(Timer::index), Some(index));
        }
        assert_eq!(Timer::from_repr(Timer::NAMES.len()), None);
    }
}
