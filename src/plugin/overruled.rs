// SPDX-License-Identifier: LGPL-3.0-only
//! Detects that another plugin decides the priorities. Flux takes the last of several answers to `job.priority.get`.
//!
//! Flux accepts several priority plugins, and does not report this to the plugins. So the plugin compares the
//! priority that a job has in Flux with the priority that the plugin posted.

use crate::jobtap::LogLevel;
use fairshare_engine::engine::answers::Overruled;
use fairshare_engine::ids::{JobId, f58};
use std::cell::Cell;

/// Flux's priorities of jobs with urgency 0 and with the highest urgency. Flux asks no plugin for these.
const SPECIAL: [i64; 2] = [0, 4_294_967_295];

/// Compares the priority of `job` in Flux with the posted priority, at `now`. Returns a text for the log if another
/// plugin has begun or ceased to decide priorities. `is_answer` means that Flux has just chosen the priority from
/// the answers of all plugins. Only then do equal priorities show that no other plugin decides. `overruled` is the job that shows that
/// another plugin decides priorities.
pub(super) fn compare_priorities(
    overruled: &Cell<Option<Overruled>>,
    job: JobId,
    posted: u32,
    in_flux: i64,
    is_answer: bool,
    now: f64,
) -> Option<(LogLevel, String)> {
    if in_flux < 0 || SPECIAL.contains(&in_flux) || SPECIAL.contains(&i64::from(posted)) {
        return None;
    }
    let known = overruled.get();
    if in_flux == i64::from(posted) {
        let ended = if is_answer { overruled.take() } else { None };
        return ended.map(|_| (LogLevel::Info, "Flux takes the priorities of mf_priority again".to_owned()));
    }
    let since = known.map_or(now, |known| known.since);
    let found = Overruled { job, posted, in_flux, since };
    overruled.set(Some(found));
    if known.is_some() {
        return None;
    }
    let text = format!(
        "{}; \"flux jobtap list\" names the plugins, \"flux jobtap remove NAME\" removes one",
        found.sentence(&f58(job.0))
    );
    Some((LogLevel::Error, text))
}
