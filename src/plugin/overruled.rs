// SPDX-License-Identifier: LGPL-3.0-only
//! Another priority plugin: of several answers to `job.priority.get` Flux takes the last one.
//!
//! Flux lets several priority plugins be loaded, and reports that to none of them. So the plugin compares the priority that a job
//! has in Flux with the one that it posted itself.

use super::MfPriority;
use crate::jobtap::{Args, Host, LogLevel};
use fairshare_engine::ids::{JobId, f58};
use serde_json::{Value, json};

/// Flux's priority of a job with urgency 0, and with the highest urgency: no plugin is asked for those.
const SPECIAL: [i64; 2] = [0, 4_294_967_295];

/// A job that has another priority in Flux than the plugin gave it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Overruled {
    job: JobId,
    posted: u32,
    in_flux: i64,
    /// When the first such job was found, in seconds since the epoch.
    since: f64,
}

impl MfPriority {
    /// Returns the key `overruled` of a reply.
    pub(super) fn overruled(&self) -> Option<Value> {
        let Overruled { job, posted, in_flux, since } = self.overruled.get()?;
        Some(json!({"job": job.0, "posted": posted, "in_flux": in_flux, "since": since}))
    }

    /// Compares the priority of the job that a callback is about with the posted one. `is_answer` says that Flux has just taken the
    /// priority from the answers of the plugins: only then do equal priorities show that no other plugin decides.
    pub(super) fn compare_priority(&self, host: Host<'_, Self>, args: Args<'_>, is_answer: bool) {
        let Ok((in_flux, _)) = args.priority_state() else { return };
        let Ok(job) = args.id().map(JobId) else { return };
        let Some(posted) = self.view(|view| view.posted_priority(job)).flatten() else { return };
        if in_flux < 0 || SPECIAL.contains(&in_flux) || SPECIAL.contains(&i64::from(posted)) {
            return;
        }
        let known = self.overruled.get();
        if in_flux == i64::from(posted) {
            if is_answer && known.is_some() {
                self.overruled.set(None);
                let text = "Flux takes the priorities of mf_priority again";
                self.logger.log(LogLevel::Info, text);
            }
            return;
        }
        let since = known.map_or(host.now(), |known| known.since);
        self.overruled.set(Some(Overruled { job, posted, in_flux, since }));
        if known.is_none() {
            let text = format!(
                "another priority plugin decides: job {} has priority {in_flux} in Flux, mf_priority gave it {posted}; \"flux jobtap \
                 list\" names the plugins, \"flux jobtap remove NAME\" removes one",
                f58(job.0)
            );
            self.logger.log(LogLevel::Error, &text);
        }
    }
}
