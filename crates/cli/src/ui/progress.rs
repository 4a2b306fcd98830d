// SPDX-License-Identifier: LGPL-3.0-only
//! Shows a progress bar on a terminal if a command takes over a second, and notifies systemd's watchdog during long phases.

use std::io::{IsTerminal, stderr};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use fairshare_accounting::pipeline::watch::notify_watchdog;

/// The progress of one command through its phases.
#[derive(Debug)]
pub(crate) struct Progress {
    /// `None` if standard error is not a terminal.
    bar: Option<ProgressBar>,
}

/// The bar appears after this time.
const DELAY: Duration = Duration::from_secs(1);
/// The bar is redrawn at this interval, even if a phase reports no progress.
const TICK: Duration = Duration::from_millis(100);
/// The bar is updated after every 4,096 rows.
const ROWS: u64 = 4096;

impl Progress {
    /// Returns a progress bar that is never shown.
    pub(crate) fn none() -> Progress {
        Progress { bar: None }
    }

    /// Starts the delay after which the bar appears. Returns [`Progress::none`] if standard error is not a terminal.
    pub(crate) fn start() -> Progress {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        if !stderr().is_terminal() || dumb {
            return Progress::none();
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        // While the command reads or sorts, it does not update the progress bar. Therefore another thread shows the
        // bar after a delay. A bar that has finished by then stays hidden.
        let weak = bar.downgrade();
        let show = move || {
            thread::sleep(DELAY);
            if let Some(bar) = weak.upgrade().filter(|bar| !bar.is_finished()) {
                bar.set_draw_target(ProgressDrawTarget::stderr());
                bar.enable_steady_tick(TICK);
            }
        };
        // If the thread does not start, the bar never appears.
        drop(thread::Builder::new().spawn(show));
        Progress { bar: Some(bar) }
    }

    /// Begins the next phase. `total` returns the number of steps, or 0 if the number is unknown. Without a bar, `total` is not called.
    pub(crate) fn phase(&mut self, phase: &'static str, total: impl FnOnce() -> u64) {
        notify_watchdog();
        let Some(bar) = &self.bar else { return };
        let total = total();
        let template =
            if total > 0 { "{msg:20} {wide_bar} {pos}/{len}" } else { "{msg:20} {spinner} {elapsed}" };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(phase);
        bar.set_position(0);
        if total > 0 {
            bar.set_length(total);
        } else {
            bar.unset_length();
        }
    }

    /// Sets the number of steps of the phase that are done.
    pub(crate) fn set_finished_steps(&mut self, done: u64) {
        notify_watchdog();
        if let Some(bar) = &self.bar {
            bar.set_position(done);
        }
    }

    /// Begins a phase with one step per row. Returns an iterator that advances the progress bar at each row.
    pub(crate) fn over<I: Iterator>(&mut self, phase: &'static str, rows: I) -> Counted<'_, I> {
        self.phase(phase, || rows.size_hint().0 as u64);
        Counted { rows, done: 0, progress: self }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// An iterator that advances the progress bar at each row.
pub(crate) struct Counted<'a, I> {
    rows: I,
    done: u64,
    progress: &'a mut Progress,
}

impl<I: Iterator> Iterator for Counted<'_, I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        let row = self.rows.next()?;
        self.done += 1;
        if self.done.is_multiple_of(ROWS) {
            self.progress.set_finished_steps(self.done);
        }
        Some(row)
    }
}
