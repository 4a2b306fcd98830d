// SPDX-License-Identifier: LGPL-3.0-only
//! Committed accrual: a running job is charged for its whole time limit from the start. These tests check the end of a job and a change of
//! its time limit.
//! Rules: F7

use super::live::{HALF_LIFE, make_host_with_live_fairshare, usage};
use super::site::HostJob;
use crate::engine::{Event, Settings};
use fairshare::Policy;
use fairshare::accrual::Mode;

#[test]
fn committed_usage_equals_elapsed_usage_when_a_job_reaches_its_time_limit() {
    let mut host = make_host_with_live_fairshare(Policy::Classic);
    host.send_event(Event::Settings(Settings { accrual: Mode::Committed, ..Settings::default() }));
    let mut job = HostJob::new(8).bank("A");
    job.limit = Some(100.0);
    let id = host.run_new_job(job);
    let start = host.jobs[&id].started.unwrap();
    assert!(
        (usage(&host, 8, "A") - 100.0).abs() < 1e-6,
        "the whole time limit at the start: {}",
        usage(&host, 8, "A")
    );
    host.now = start + 99.0;
    host.end_job(id);
    let elapsed = HALF_LIFE / 2f64.ln() * (1.0 - 0.5f64.powf(100.0 / HALF_LIFE));
    assert!((usage(&host, 8, "A") - elapsed).abs() < 1e-6);
}

#[test]
fn a_new_time_limit_of_a_running_job_is_committed_at_once() {
    let mut host = make_host_with_live_fairshare(Policy::Classic);
    host.send_event(Event::Settings(Settings { accrual: Mode::Committed, ..Settings::default() }));
    let id =
        host.submit(HostJob { limit: Some(100.0), duration: 100.0, ..HostJob::new(8).bank("A") }).unwrap();
    host.start_job(id);
    for limit in [400.0, 50.0] {
        host.jobs.get_mut(&id).unwrap().duration = limit;
        host.force_update(id, None, Some("A".to_owned()));
        assert!((usage(&host, 8, "A") - limit).abs() < 1e-6, "{limit}: {}", usage(&host, 8, "A"));
    }
}
