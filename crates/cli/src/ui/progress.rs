// SPDX-License-Identifier: LGPL-3.0-only
//! A progress bar for what takes over a second, on a terminal only; and a sign of life for systemd's watchdog, in whatever takes long.

use std::io::{IsTerminal, stderr};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use fairshare_accounting::pipeline::watch::notify_watchdog;

/// The progress of one command through its phases.
#[derive(Debug)]
pub(crate) struct Progress {
    /// `None` where nobody looks.
    shown: Option<Shown>,
}

#[derive(Debug)]
struct Shown {
    bar: ProgressBar,
    /// Closing it ends the wait for the moment to appear.
    patience: Option<Sender<()>>,
    curtain: Option<JoinHandle<()>>,
}

/// Nobody wants to see a bar for less.
const PATIENCE: Duration = Duration::from_secs(1);
/// A sign of life also from phases that can't be counted.
const TICK: Duration = Duration::from_millis(100);
/// Rows between two looks at the bar.
const ROWS: u64 = 4096;

impl Progress {
    /// Of what takes no time.
    pub(crate) fn none() -> Progress {
        Progress { shown: None }
    }

    /// Starts the clock.
    pub(crate) fn start() -> Progress {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        if !stderr().is_terminal() || dumb {
            return Progress::none();
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        // Whoever reads or sorts says nothing meanwhile: another thread has to lift the curtain.
        let (patience, over) = channel();
        let curtain = {
            let bar = bar.clone();
            thread::Builder::new().spawn(move || {
                if over.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                    bar.set_draw_target(ProgressDrawTarget::stderr());
                    bar.enable_steady_tick(TICK);
                }
            })
        };
        Progress { shown: Some(Shown { bar, patience: Some(patience), curtain: curtain.ok() }) }
    }

    /// The next phase; `total` is only asked for on a terminal, 0 is unknown.
    pub(crate) fn phase(&mut self, phase: &'static str, total: impl FnOnce() -> u64) {
        notify_watchdog();
        let Some(Shown { bar, .. }) = &self.shown else { return };
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

    /// How much of the phase is done.
    pub(crate) fn at(&mut self, done: u64) {
        notify_watchdog();
        if let Some(Shown { bar, .. }) = &self.shown {
            bar.set_position(done);
        }
    }

    /// A phase that lasts as long as there are rows.
    pub(crate) fn over<I: Iterator>(&mut self, phase: &'static str, rows: I) -> Counted<'_, I> {
        self.phase(phase, || rows.size_hint().0 as u64);
        Counted { rows, done: 0, progress: self }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let Some(shown) = &mut self.shown else { return };
        // First no curtain may rise any more.
        shown.patience = None;
        if let Some(curtain) = shown.curtain.take() {
            let _ = curtain.join();
        }
        shown.bar.finish_and_clear();
    }
}

/// Rows that move a bar.
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
            self.progress.at(self.done);
        }
        Some(row)
    }
}
