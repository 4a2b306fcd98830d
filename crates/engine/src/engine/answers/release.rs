// SPDX-License-Identifier: LGPL-3.0-only
//! Computes two times at which limits may release a held job: the latest time, and the time if all jobs
//! started now. For the time if all jobs started now, a simulation starts the jobs of the association, and
//! ends them one after another. After each end, the release rule of the engine releases held jobs.

use super::super::View;
use super::holds::{HoldNow, MOST_VISITED};
use super::job::Note;
use super::latest::Bounds;
use super::{format_span, note};
use crate::accounts::AssociationId;
use crate::ids::JobId;
use crate::limits::{BlockState, Demand, Job, Ledger, Phase, Reservation, ScanCursor};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The largest number of held jobs that may come before a job. If there are more, the time of its release is unknown.
pub(super) const MOST_RIVALS: usize = 500;
/// The largest number of held jobs that one answer examines, repetitions included. If it is reached, the time of the
/// release is unknown. In the worst case, each end of a job examines all held jobs: 1,000 ends with 500 held jobs
/// took 0.1 s, in which the job manager does nothing else.
const MOST_VISITS: usize = 40_000;

/// When a job is released, in seconds since the epoch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Release {
    /// The latest time of the release. It holds if running jobs end at their time limits, no job is submitted, and no
    /// other plugin releases a job.
    pub latest: Option<f64>,
    /// The assumptions behind `latest`, or why it is unknown.
    #[serde(rename = "latest_reason", default)]
    pub reason: Note,
    /// The time at which the job would be released if all released and pending jobs started now.
    pub if_started: Option<f64>,
}

/// A simulation in which all jobs start at once.
struct Simulation<'a> {
    view: View<'a>,
    association: AssociationId,
    ledger: Ledger,
    /// Jobs that start now, one after another. After each start, held jobs may be released before the next
    /// job counts as running.
    starting: BTreeSet<JobId>,
    /// The end times of jobs, in seconds since the epoch. A time is stored as the bits of an `f64`, so that times can
    /// be sorted.
    ends: BTreeSet<(u64, JobId)>,
    now: f64,
}

impl Simulation<'_> {
    fn note_end(&mut self, id: JobId, end: f64) {
        self.ends.insert((end.max(self.now).to_bits(), id));
    }

    /// Starts a job, and notes its end if it has a time limit. Returns false if the job cannot start.
    fn start(&mut self, id: JobId, at: f64) -> bool {
        let can_start = |job: &&Job| job.phase < Phase::Run && job.demand == Demand::ToRun;
        let Some(job) = self.ledger.job(id).filter(can_start) else { return false };
        let time_limit = job.time_limit();
        self.ledger.change(id, |job| {
            job.phase = Phase::Run;
            job.reservation = Reservation::None;
        });
        if let Some(seconds) = time_limit {
            self.note_end(id, at + seconds);
        }
        true
    }

    /// Starts the next job that can start. Returns true if another job may be released now, because the job started
    /// or because headroom was freed before (`has_freed_headroom`).
    fn start_next_job(&mut self, at: f64, has_freed_headroom: bool) -> bool {
        while let Some(next) = self.starting.pop_first() {
            if self.start(next, at) || has_freed_headroom {
                return true;
            }
        }
        false
    }

    /// Returns the time at which `wanted` is released, in seconds since the epoch, or `None` if it is unknown.
    /// `visits` is the number of held jobs that may still be examined. The search ends when it is 0.
    fn find_release(mut self, wanted: JobId, visits: &mut usize) -> Option<f64> {
        let mut at = self.now;
        loop {
            loop {
                let (freed, visited) =
                    ScanCursor::release_fitting_jobs(&mut self.ledger, &self.view.book, self.association);
                if freed.contains(&wanted) {
                    return Some(at);
                }
                *visits = visits.saturating_sub(visited);
                if *visits == 0 {
                    return None;
                }
                let mut has_freed_headroom = false;
                for id in freed {
                    if self.ledger.job(id).is_some_and(|job| job.block_state == BlockState::Blocked) {
                        // The job stays in DEPEND and reserves nothing.
                        self.ledger.change(id, |job| job.reservation = Reservation::Blocked);
                        has_freed_headroom = true;
                    } else {
                        self.starting.insert(id);
                    }
                }
                if !self.start_next_job(at, has_freed_headroom) {
                    break;
                }
            }
            let (end, id) = self.ends.pop_first()?;
            at = f64::from_bits(end);
            self.ledger.remove(id);
        }
    }
}

pub fn estimate_release(view: &View<'_>, id: JobId, job: &Job, holds: &[HoldNow], now: f64) -> Release {
    let without_time = |reason| Release { latest: None, reason, if_started: None };
    if holds.is_empty() && !job.is_held() {
        return without_time(note("free", "no limit holds it"));
    }
    if let Some(hold) = holds.iter().find(|hold| hold.needs_more_than_cap()) {
        let HoldNow { limit, cap, needed, measure, .. } = hold;
        return without_time(note(
            "never",
            format!("it needs {needed} {measure}, and {limit} is {cap}: only a higher limit releases it"),
        ));
    }
    if let Some(hold) = holds.iter().find(|hold| hold.is_shared()) {
        let text =
            format!("other associations may share {}, so the order of releases is not known yet", hold.limit);
        return without_time(note("shared", text));
    }
    let Some(association) =
        job.association().filter(|association| !view.ledger.accounts().is_unread(*association))
    else {
        return without_time(note("unread", "no job is released until the plugin has read all eventlogs"));
    };
    if view.ledger.accounts().is_counted_by_scopes(association, job.queue.as_ref()) {
        let text = "it also counts under limits on banks or users, so the order of releases is not known yet";
        return without_time(note("shared", text));
    }
    let too_many = || note("many", "too many jobs come before it to compute the time");
    let Some(rivals) = view.ledger.rivals(id, MOST_RIVALS) else { return without_time(too_many()) };
    let counted: Vec<(JobId, Option<f64>)> =
        view.ledger.accounts().counted_jobs(association).take(MOST_VISITED + 1).collect();
    let is_cut = counted.len() > MOST_VISITED;
    let jobs = || counted.iter().map(|(id, _)| *id).chain(rivals.iter().copied()).chain([id]);
    let excerpt = || view.ledger.excerpt(association, jobs());
    // All counted jobs are sorted by their end, and jobs with an unknown end come last. So if the end of the last job
    // is known, all jobs that were cut off end later.
    let last_to_end = view.ledger.accounts().counted_jobs(association).next_back();
    let are_known = !is_cut || last_to_end.is_some_and(|(_, by)| by.is_some());
    let mut visits = MOST_VISITS;
    let latest = (are_known && job.is_held())
        .then(|| Bounds::new(&view.book, association, id, excerpt(), &counted, now))
        .and_then(|bounds| bounds.latest_release(&mut visits));
    let is_cut = is_cut || visits == 0;
    let if_started = |visits: &mut usize| {
        let (starting, ends) = (BTreeSet::new(), BTreeSet::new());
        let mut ledger = excerpt();
        // In this simulation, the jobs of stopped queues also start at once.
        for id in jobs() {
            ledger.change(id, |job| job.is_queue_stopped = false);
        }
        let mut simulation = Simulation { view: *view, association, ledger, starting, ends, now };
        for (counted, by) in &counted {
            match by {
                Some(by) => simulation.note_end(*counted, *by),
                None => drop(simulation.starting.insert(*counted)),
            }
        }
        simulation.find_release(id, visits)
    };
    let if_started = if is_cut { latest } else { if_started(&mut visits) };
    // `latest` is valid for every order in which jobs start. So `latest` is also valid if all jobs start now.
    let if_started = if visits == 0 { latest } else { if_started };
    let starts_later = |job: &Job| job.phase < Phase::Run;
    let has_unstarted_job =
        |(id, by): &(JobId, Option<f64>)| by.is_none() && view.ledger.job(*id).is_some_and(starts_later);
    let reason = match latest {
        Some(latest) => {
            let after = format_span(latest - now);
            let text = format!(
                "released within {after} if jobs run to their time limit and no other job is submitted"
            );
            note("bounded", text)
        }
        None if is_cut => too_many(),
        None if job.block_state == BlockState::Blocked => note(
            "others",
            "another plugin blocks it too, and the time when it is no longer blocked is unknown",
        ),
        None if !rivals.is_empty() || counted.iter().any(has_unstarted_job) => {
            note("needs-start", "jobs before it must start first, and their start times are unknown")
        }
        None => note("no-time-limit", "the jobs that must end first have no time limit"),
    };
    Release { latest, reason, if_started }
}
