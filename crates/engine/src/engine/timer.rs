// SPDX-License-Identifier: LGPL-3.0-only
//! The timers that the engine asks for, and the table of their names and periods.

/// A timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// The next reactor turn, for work that the engine must not do inside a callback of Flux.
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
    /// All timers in the order of [`Timer`]. Each has its name in the log, and its period in seconds.
    pub const ALL: &'static [(Timer, &'static str, f64)] = &[
        (Timer::ReactorTurn, "timer", 0.0),
        (Timer::Retry, "retry", 5.0),
        (Timer::Refresh, "refresh", 30.0),
        (Timer::Slice, "slice", 0.0),
        (Timer::Remember, "remember", 0.0),
        (Timer::Expire, "expire", 60.0),
        (Timer::Queues, "queues", 0.5),
        (Timer::Answer, "answer", 0.0),
        (Timer::TimeLeft, "time-left", 30.0),
    ];

    /// The names of the timers in the log, in the order of [`Timer::ALL`].
    #[allow(clippy::indexing_slicing, reason = "the compiler works it out")]
    pub const NAMES: [&'static str; Timer::ALL.len()] = {
        let mut names = [""; Timer::ALL.len()];
        let mut row = 0;
        while row < names.len() {
            names[row] = Timer::ALL[row].1;
            row += 1;
        }
        names
    };

    /// Returns the row of the timer in [`Timer::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// Returns the timer at `index` of [`Timer::ALL`], or `None` if `index` is out of range.
    pub fn from_index(index: usize) -> Option<Timer> {
        Timer::ALL.get(index).map(|(timer, ..)| *timer)
    }

    /// Returns the name of the timer in the log.
    pub fn name(self) -> &'static str {
        Timer::ALL.get(self.index()).map_or("", |(_, name, _)| name)
    }

    /// Returns the seconds from when the timer is armed until it fires.
    pub fn seconds(self) -> f64 {
        Timer::ALL.get(self.index()).map_or(0.0, |(.., seconds)| *seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::Timer;

    #[test]
    fn the_timer_table_is_in_the_order_of_the_enum() {
        for (index, (timer, name, seconds)) in Timer::ALL.iter().copied().enumerate() {
            assert_eq!((timer.index(), Timer::from_index(index)), (index, Some(timer)));
            assert_eq!((timer.name(), timer.seconds()), (name, seconds));
        }
        assert_eq!(Timer::from_index(Timer::ALL.len()), None);
    }
}
