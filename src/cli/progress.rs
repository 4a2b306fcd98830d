// SPDX-License-Identifier: LGPL-3.0-only
//! A progress bar for what takes over a second, on a terminal only.

use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// The progress of one command through its phases.
#[derive(Debug)]
pub(super) struct Progress {
    started: Instant,
    on_terminal: bool,
    phase: &'static str,
    total: u64,
    bar: Option<ProgressBar>,
}

/// Nobody wants to see a bar for less.
const PATIENCE: Duration = Duration::from_secs(1);

impl Progress {
    /// Starts the clock.
    pub(super) fn start() -> Progress {
        Progress {
            started: Instant::now(),
            on_terminal: stderr().is_terminal(),
            phase: "",
            total: 0,
            bar: None,
        }
    }

    /// The next phase; `total` is only asked for on a terminal, 0 is unknown.
    pub(super) fn phase(&mut self, phase: &'static str, total: impl FnOnce() -> u64) {
        if !self.on_terminal {
            return;
        }
        self.phase = phase;
        self.total = total();
        if let Some(bar) = &self.bar {
            bar.set_message(phase);
            bar.set_length(self.total.max(1));
            bar.set_position(0);
        }
        self.at(0);
    }

    /// How much of the phase is done.
    pub(super) fn at(&mut self, done: u64) {
        if !self.on_terminal || self.started.elapsed() < PATIENCE {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let style = ProgressStyle::with_template("{msg:20} {wide_bar} {pos}/{len}")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(self.total.max(1)).with_message(self.phase).with_style(style)
        });
        bar.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
