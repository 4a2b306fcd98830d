// SPDX-License-Identifier: LGPL-3.0-only
//! Staying and doing something whenever jobs ended or the database changed, whatever becomes of Flux or of the database.

mod pace;
mod system;
#[cfg(test)]
mod tests;

use std::time::Duration;

use pace::WatchPace;
pub use pace::{Cause, Look};
pub use system::{Stamp, System, alive};

/// What a step came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// What changed, in a line, if anything did.
    pub changed: Option<String>,
    /// What could not be done beside it, and why. It is tried again at the next step, after a minute at the latest.
    pub trouble: Option<String>,
}

/// What a watch looks at and acts on.
pub trait World {
    /// Something that differs when the database does.
    type Stamp: Clone + PartialEq;

    /// Time since whenever; it never goes back.
    fn now(&self) -> Duration;
    /// What is there.
    fn look(&mut self) -> Look<Self::Stamp>;
    /// Does what is to be done; an error says why nothing is done.
    fn step(&mut self, cause: Cause) -> Result<Done, String>;
    /// Says one line.
    fn tell(&mut self, line: &str);
    /// Waits for a moment. False: there will be no other.
    fn rest(&mut self) -> bool;
}

/// Watches until the world says it is over. Ended jobs are taken up at most every `jobs_every`.
///
/// A trouble is told when it begins, when it becomes another, and when it is over; never again and again meanwhile.
pub fn watch<W: World>(world: &mut W, jobs_every: Duration) {
    let mut pace = WatchPace::new(jobs_every);
    let mut told = None;
    // What the last step said of a trouble.
    let mut lasting = None;
    loop {
        let look = world.look();
        let unseen = look.flux.as_ref().err().or(look.database.as_ref().err()).cloned();
        match pace.due(world.now(), &look) {
            Some(cause) => {
                let step = world.step(cause);
                let lacks = step.as_ref().is_ok_and(|done| done.trouble.is_some());
                pace.done(world.now(), step.is_ok(), lacks);
                let Done { changed, trouble } =
                    step.unwrap_or_else(|text| Done { changed: None, trouble: Some(text) });
                lasting = trouble;
                report(world, &mut told, lasting.clone());
                if let Some(changed) = changed {
                    world.tell(&format!("{changed} ({cause})"));
                }
            }
            None => report(world, &mut told, unseen.or_else(|| lasting.clone())),
        }
        if !world.rest() {
            return;
        }
    }
}

fn report<W: World>(world: &mut W, trouble: &mut Option<String>, now: Option<String>) {
    match (&trouble, &now) {
        (_, Some(text)) if trouble.as_ref() != Some(text) => {
            world.tell(&format!("{text}; going on when that is over"))
        }
        (Some(_), None) => world.tell("all is well again"),
        _ => {}
    }
    *trouble = now;
}
