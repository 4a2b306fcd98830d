// SPDX-License-Identifier: LGPL-3.0-only
//! Measures how long pushes and refreshes occupy the job manager's thread, in seconds of wall-clock time.
//!
//! A push may take many requests, and a refresh many reactor turns. The pauses between them are not included.

use super::{MfPriority, engine::SharedEngine};
use crate::jobtap::{Host, Reply};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// The cost of pushes, or of refreshes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    /// The number of pushes or refreshes that have ended.
    pub total: u64,
    /// The total time of all pushes or refreshes that have ended, in seconds.
    pub seconds: f64,
    /// The seconds of the current push or refresh.
    under_way: f64,
    /// The end time of the last push or refresh, and its seconds.
    pub last: Option<(f64, f64)>,
}

/// What a request did to a push.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum CompletedPushStep {
    /// The request added records to a push that is still open.
    #[default]
    Part,
    /// The request began a push.
    Begin,
    /// The request ended a push, and the plugin uses the pushed data from now on.
    End,
    /// The request was a push in one message.
    Whole,
    /// The request ended a push without effect: a dry run, or an aborted push.
    Drop,
}

impl Cost {
    /// Ends the current push or refresh.
    fn end_current_measurement(&mut self, now: f64) {
        let took = std::mem::take(&mut self.under_way);
        self.total += 1;
        self.seconds += took;
        self.last = Some((now, took));
    }

    /// Adds the time `took` of a request to the cost of its push. `step` says what the request did to the
    /// push.
    fn add_push_request(&mut self, step: CompletedPushStep, now: f64, took: Duration) {
        if matches!(step, CompletedPushStep::Begin | CompletedPushStep::Whole) {
            self.under_way = 0.0;
        }
        self.under_way += took.as_secs_f64();
        match step {
            CompletedPushStep::Part | CompletedPushStep::Begin => {}
            CompletedPushStep::End | CompletedPushStep::Whole => self.end_current_measurement(now),
            CompletedPushStep::Drop => self.under_way = 0.0,
        }
    }
}

/// The costs of all pushes and refreshes.
#[derive(Default)]
pub(super) struct PushAndRefreshCosts {
    pub pushes: Cell<Cost>,
    pub refreshes: Cell<Cost>,
    /// What the current request did to a push.
    pub step: Cell<CompletedPushStep>,
}

impl PushAndRefreshCosts {
    /// Runs `answer`, which answers a request of a push. Adds the time of the request to the push, and also
    /// to a refresh that continues during the request.
    pub fn time_push(
        &self,
        host: Host<'_, MfPriority>,
        engine: &SharedEngine,
        answer: impl FnOnce() -> Reply,
    ) -> Reply {
        self.step.set(CompletedPushStep::Part);
        let began = Instant::now();
        let reply = self.time_refresh(host, engine, answer);
        let step = self.step.take();
        // Even if Flux refused an effect, the plugin uses the pushed data, so the push is counted.
        if reply.is_ok() || step != CompletedPushStep::Part {
            let mut cost = self.pushes.get();
            cost.add_push_request(step, host.now(), began.elapsed());
            self.pushes.set(cost);
        }
        reply
    }

    /// Runs `work`. If `work` continues a refresh, adds the time of `work` to the cost of the refresh.
    pub fn time_refresh<R>(
        &self,
        host: Host<'_, MfPriority>,
        engine: &SharedEngine,
        work: impl FnOnce() -> R,
    ) -> R {
        let read_progress = || engine.view(|view| view.refresh_progress()).unwrap_or_default();
        let (before, began) = (read_progress(), Instant::now());
        let result = work();
        let after = read_progress();
        let mut cost = self.refreshes.get();
        if !before.is_under_way {
            cost.under_way = 0.0;
        }
        let has_ended = after.total != before.total;
        if has_ended || after.is_under_way || before.is_under_way {
            cost.under_way += began.elapsed().as_secs_f64();
        }
        if has_ended {
            cost.end_current_measurement(host.now());
        }
        self.refreshes.set(cost);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The times of ten requests of a push are added up. Requests without effect are not counted.
    #[test]
    fn a_push_in_many_requests_is_one_push() {
        let ms = Duration::from_millis;
        let steps: [(&[CompletedPushStep], u64, u64, Option<u64>); 7] = [
            (&[CompletedPushStep::Whole], 1, 1, Some(1)),
            (
                &[
                    CompletedPushStep::Begin,
                    CompletedPushStep::Part,
                    CompletedPushStep::Part,
                    CompletedPushStep::End,
                ],
                1,
                10,
                Some(10),
            ),
            (&[CompletedPushStep::Part, CompletedPushStep::Part, CompletedPushStep::End], 1, 6, Some(6)),
            (&[CompletedPushStep::Begin, CompletedPushStep::Part, CompletedPushStep::Drop], 0, 0, None),
            (&[CompletedPushStep::Begin, CompletedPushStep::Part], 0, 0, None),
            (&[CompletedPushStep::Part, CompletedPushStep::Begin, CompletedPushStep::End], 1, 5, Some(5)),
            (
                &[
                    CompletedPushStep::Part,
                    CompletedPushStep::Whole,
                    CompletedPushStep::Part,
                    CompletedPushStep::End,
                ],
                2,
                9,
                Some(7),
            ),
        ];
        for (steps, total, milliseconds, last) in steps {
            let mut cost = Cost::default();
            for (at, step) in steps.iter().enumerate() {
                cost.add_push_request(*step, at as f64, ms(at as u64 + 1));
            }
            assert_eq!(cost.total, total, "{steps:?}");
            assert!((cost.seconds * 1e3 - milliseconds as f64).abs() < 1e-9, "{steps:?} {cost:?}");
            let took = cost.last.map(|(_, seconds)| (seconds * 1e3).round() as u64);
            assert_eq!(took, last, "{steps:?}");
        }
    }
}
