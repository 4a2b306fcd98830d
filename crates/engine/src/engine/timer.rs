// SPDX-License-Identifier: LGPL-3.0-only
//! The timers that the engine asks for, one row each.

/// A timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// The next reactor turn: for what may not be done inside the callback that called for it.
    Turn,
    /// A new try: of what could not be read, and for the record of the instance owner, which comes last.
    Retry,
    /// The next refresh of live fair-share; its period is the site's.
    Refresh,
    /// The next slice of a refresh, in the next reactor turn.
    Slice,
    /// The next step of what is kept for after a restart. The plugin's own: the engine has no part in it.
    Remember,
    /// The open push was spoken of so long ago that it is given up. The plugin's own too.
    Expire,
    /// The next question whether queues are stopped.
    Queues,
    /// The next of the requests that wait for their turn. The plugin's own, too.
    Answer,
}

impl Timer {
    /// One row each, in the order of the timers: name, as the log calls it, and seconds from when it is armed.
    pub const ALL: &'static [(Timer, &'static str, f64)] = &[
        (Timer::Turn, "timer", 0.0),
        (Timer::Retry, "retry", 5.0),
        (Timer::Refresh, "refresh", 30.0),
        (Timer::Slice, "slice", 0.0),
        (Timer::Remember, "remember", 0.0),
        (Timer::Expire, "expire", 60.0),
        (Timer::Queues, "queues", 0.5),
        (Timer::Answer, "answer", 0.0),
    ];

    /// Their names.
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

    /// Its row.
    pub fn index(self) -> usize {
        self as usize
    }

    /// The timer in a row.
    pub fn from_index(index: usize) -> Option<Timer> {
        Timer::ALL.get(index).map(|(timer, ..)| *timer)
    }

    /// What the log calls it.
    pub fn name(self) -> &'static str {
        Timer::ALL.get(self.index()).map_or("", |(_, name, _)| name)
    }

    /// Seconds from when it is armed.
    pub fn seconds(self) -> f64 {
        Timer::ALL.get(self.index()).map_or(0.0, |(.., seconds)| *seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::Timer;

    #[test]
    fn rows_stand_in_the_order_of_the_timers() {
        for (index, (timer, name, seconds)) in Timer::ALL.iter().copied().enumerate() {
            assert_eq!((timer.index(), Timer::from_index(index)), (index, Some(timer)));
            assert_eq!((timer.name(), timer.seconds()), (name, seconds));
        }
        assert_eq!(Timer::from_index(Timer::ALL.len()), None);
    }
}
