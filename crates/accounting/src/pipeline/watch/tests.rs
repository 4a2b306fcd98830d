// SPDX-License-Identifier: LGPL-3.0-only
//! Runs a watch against scripted events, with a simulated clock.

use std::collections::BTreeMap;

use super::*;

const GONE: &str = "Flux is gone";
const MISSING: &str = "no such file";
const EVERY: Duration = Duration::from_secs(30);

/// Something that a test does to the database, Flux or the daemon.
#[derive(Clone, Copy)]
enum TestEvent {
    Ends(f64),
    Writes(u32),
    Missing,
    Gone,
    Back,
    Asks,
    /// From now on, each step of the watch fails with this text.
    Fails(&'static str),
    Works,
    /// From now on, each step of the watch succeeds, but reports this text as a problem.
    Lacks(&'static str),
    Whole,
    /// From now on, each step of the watch takes this many seconds.
    Takes(u64),
}
use TestEvent::{Asks, Back, Ends, Fails, Gone, Lacks, Missing, Takes, Whole, Works, Writes};

struct Script {
    second: u64,
    until: u64,
    events: BTreeMap<u64, Vec<TestEvent>>,
    database: Option<u32>,
    newest: Option<f64>,
    flux: bool,
    asked: bool,
    failure: Option<&'static str>,
    partial_problem: Option<&'static str>,
    takes: u64,
    /// The state of the database and the end of the newest job at the last successful sync.
    known: (Option<u32>, Option<f64>),
    /// The printed lines and the syncs, each with the second when it happened.
    lines: Vec<(u64, String)>,
}

impl Script {
    fn advance(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.second += 1;
            for event in self.events.remove(&self.second).unwrap_or_default() {
                match event {
                    Ends(time) => self.newest = Some(time),
                    Writes(content) => self.database = Some(content),
                    Missing => self.database = None,
                    Gone => self.flux = false,
                    Back => self.flux = true,
                    Asks => self.asked = true,
                    Fails(text) => self.failure = Some(text),
                    Works => self.failure = None,
                    Lacks(text) => self.partial_problem = Some(text),
                    Whole => self.partial_problem = None,
                    Takes(seconds) => self.takes = seconds,
                }
            }
        }
    }
}

impl World for Script {
    type Stamp = u32;

    fn now(&self) -> Duration {
        Duration::from_secs(self.second)
    }

    fn observe(&mut self) -> Observation<u32> {
        Observation {
            database: self.database.ok_or_else(|| MISSING.to_owned()),
            flux: if self.flux { Ok(self.newest) } else { Err(GONE.to_owned()) },
            asked: std::mem::take(&mut self.asked),
        }
    }

    fn run_step(&mut self, cause: Cause) -> Result<Done, String> {
        self.lines.push((self.second, format!("step: {cause}")));
        let seen = (self.database, self.newest);
        self.advance(self.takes);
        if let Some(text) = self.failure {
            return Err(text.to_owned());
        }
        let has_news = seen != self.known;
        self.known = seen;
        Ok(Done {
            changed: has_news.then(|| "done".to_owned()),
            problem: self.partial_problem.map(str::to_owned),
        })
    }

    fn print_line(&mut self, line: &str) {
        self.lines.push((self.second, line.to_owned()));
    }

    fn wait_for_tick(&mut self) -> bool {
        self.advance(1);
        self.second <= self.until
    }
}

/// Runs a watch until the time `until`, in seconds. Returns the syncs and the printed lines, each with its time.
fn run_watch(until: u64, events: &[(u64, TestEvent)]) -> Vec<String> {
    let mut script = Script {
        second: 0,
        until,
        events: BTreeMap::new(),
        database: Some(1),
        newest: None,
        flux: true,
        asked: false,
        failure: None,
        partial_problem: None,
        takes: 0,
        known: (None, None),
        lines: Vec::new(),
    };
    for (second, event) in events {
        script.events.entry(*second).or_default().push(*event);
    }
    watch(&mut script, EVERY);
    script.lines.into_iter().map(|(second, text)| format!("{second} {text}")).collect()
}

#[test]
fn an_idle_watch_runs_one_step_and_prints_one_line() {
    assert_eq!(run_watch(299, &[]), ["0 step: start", "0 done (start)"]);
}

#[test]
fn an_idle_watch_runs_a_step_every_five_minutes() {
    assert_eq!(
        run_watch(601, &[]),
        ["0 step: start", "0 done (start)", "300 step: interval elapsed", "600 step: interval elapsed"]
    );
}

#[test]
fn watch_runs_a_step_within_a_second_of_a_database_change() {
    assert_eq!(
        run_watch(20, &[(10, Writes(2))])[2..],
        ["10 step: the database changed", "10 done (the database changed)"]
    );
}

#[test]
fn watch_runs_at_most_one_step_per_interval_for_ended_jobs() {
    let ends = [(5, Ends(1.0)), (6, Ends(2.0)), (31, Ends(3.0)), (100, Ends(4.0))];
    assert_eq!(
        run_watch(120, &ends)[2..],
        [
            "30 step: jobs ended",
            "30 done (jobs ended)",
            "60 step: jobs ended",
            "60 done (jobs ended)",
            "100 step: jobs ended",
            "100 done (jobs ended)"
        ]
    );
}

#[test]
fn watch_runs_no_step_for_jobs_that_flux_purges() {
    assert_eq!(run_watch(90, &[(0, Works), (2, Ends(5.0)), (40, Ends(1.0))]).len(), 4);
}

#[test]
fn a_database_change_during_a_sync_causes_another_sync() {
    assert_eq!(
        run_watch(40, &[(1, Takes(4)), (10, Writes(2)), (12, Writes(3))])[2..],
        [
            "10 step: the database changed",
            "14 done (the database changed)",
            "18 step: the database changed",
            "22 done (the database changed)"
        ]
    );
}

#[test]
fn the_watch_reports_a_flux_restart_once_and_syncs_again() {
    assert_eq!(
        run_watch(40, &[(5, Gone), (8, Writes(2)), (20, Back)])[2..],
        ["5 Flux is gone; retrying", "20 step: Flux is back", "20 recovered", "20 done (Flux is back)"]
    );
}

#[test]
fn a_watch_waits_for_flux_at_the_start() {
    assert_eq!(run_watch(10, &[(4, Back)]).len(), 2, "Flux is reachable at the start");
    assert_eq!(
        run_watch(10, &[(1, Gone), (2, Back)])[2..],
        ["1 Flux is gone; retrying", "2 step: Flux is back", "2 recovered"]
    );
}

#[test]
fn watch_runs_a_step_after_the_database_was_replaced_but_not_after_it_was_restored() {
    assert_eq!(
        run_watch(40, &[(5, Missing), (9, Writes(2))])[2..],
        [
            "5 no such file; retrying",
            "9 step: the database changed",
            "9 recovered",
            "9 done (the database changed)"
        ]
    );
    assert_eq!(
        run_watch(40, &[(5, Missing), (9, Writes(1))])[2..],
        ["5 no such file; retrying", "9 recovered"]
    );
}

#[test]
fn a_failed_step_is_retried_at_growing_intervals_and_reported_once() {
    let events = [(10, Fails("locked")), (10, Writes(2)), (30, Fails("full")), (100, Works)];
    assert_eq!(
        run_watch(200, &events)[2..],
        [
            "10 step: the database changed",
            "10 locked; retrying",
            "12 step: retry",
            "16 step: retry",
            "24 step: retry",
            "40 step: retry",
            "40 full; retrying",
            "72 step: retry",
            "132 step: retry",
            "132 recovered",
            "132 done (retry)"
        ]
    );
}

#[test]
fn watch_does_not_treat_a_partly_failed_step_as_failed() {
    let events =
        [(10, Lacks("behind")), (10, Writes(2)), (15, Writes(3)), (20, Gone), (30, Back), (40, Whole)];
    assert_eq!(
        run_watch(331, &events)[2..],
        [
            "10 step: the database changed",
            "10 behind; retrying",
            "10 done (the database changed)",
            "15 step: the database changed",
            "15 done (the database changed)",
            "20 Flux is gone; retrying",
            "30 step: Flux is back",
            "30 behind; retrying",
            "90 step: jobs ended",
            "90 recovered"
        ]
    );
}

#[test]
fn watch_runs_a_requested_step_at_once_even_after_a_failure() {
    assert_eq!(run_watch(20, &[(7, Asks)])[2..], ["7 step: requested"]);
    assert_eq!(
        run_watch(30, &[(1, Fails("no")), (3, Asks), (4, Asks)])[2..][..2],
        ["3 step: requested", "3 no; retrying"]
    );
}
