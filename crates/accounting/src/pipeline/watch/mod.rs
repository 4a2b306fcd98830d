// SPDX-License-Identifier: LGPL-3.0-only
//! Runs a step each time jobs have ended or the database has changed, and continues after failures of Flux or of the
//! database.

mod schedule;
mod system;
#[cfg(test)]
mod tests;

use std::time::Duration;

use schedule::Schedule;
pub use schedule::{Cause, Observation};
pub use system::{Stamp, System, notify_watchdog};

/// The result of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// One line about the changes, if there are any.
    pub changed: Option<String>,
    /// A line that names the failed part of the step and the reason. The next step, at most a minute later,
    /// repeats that part.
    pub problem: Option<String>,
}

/// The interface between a watch and its surroundings: the database, Flux and the user. Tests simulate these.
pub trait World {
    /// A value that changes with each write to the database.
    type Stamp: Clone + PartialEq;

    /// Returns the time since an arbitrary instant. This time never decreases.
    fn now(&self) -> Duration;
    /// Returns the state of the database and of Flux. Also returns whether the user has requested a sync.
    fn observe(&mut self) -> Observation<Self::Stamp>;
    /// Runs a step. An error states why nothing was done.
    fn run_step(&mut self, cause: Cause) -> Result<Done, String>;
    /// Prints one line.
    fn print_line(&mut self, line: &str);
    /// Waits until the next observation is due. Returns false if the watch shall end.
    fn wait_for_tick(&mut self) -> bool;
}

/// Runs steps until `world.wait_for_tick` returns false. If jobs have ended, a step runs at most every `jobs_every`.
///
/// Prints one line when a problem begins, changes or ends.
pub fn watch<W: World>(world: &mut W, jobs_every: Duration) {
    let mut schedule = Schedule::new(jobs_every);
    let mut reported = None;
    // The problem of the last step, if any.
    let mut last_problem = None;
    loop {
        let seen = world.observe();
        let obstacle = seen.flux.as_ref().err().or(seen.database.as_ref().err()).cloned();
        match schedule.begin_watch_step_if_due(world.now(), &seen) {
            Some(cause) => {
                let step = world.run_step(cause);
                let is_partial = step.as_ref().is_ok_and(|done| done.problem.is_some());
                schedule.end_step(world.now(), step.is_ok(), is_partial);
                let Done { changed, problem } =
                    step.unwrap_or_else(|text| Done { changed: None, problem: Some(text) });
                last_problem = problem;
                report_problem(world, &mut reported, last_problem.clone());
                if let Some(changed) = changed {
                    world.print_line(&format!("{changed} ({cause})"));
                }
            }
            None => report_problem(world, &mut reported, obstacle.or_else(|| last_problem.clone())),
        }
        if !world.wait_for_tick() {
            return;
        }
    }
}

/// Prints the problem `now` if it differs from `reported`, and sets `reported` to it.
fn report_problem<W: World>(world: &mut W, reported: &mut Option<String>, now: Option<String>) {
    match (&reported, &now) {
        (_, Some(text)) if reported.as_ref() != Some(text) => world.print_line(&format!("{text}; retrying")),
        (Some(_), None) => world.print_line("recovered"),
        _ => {}
    }
    *reported = now;
}
